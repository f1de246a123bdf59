package replica

import (
	"fmt"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
)

// keyReader is the only member of a cluster in key order. Its lease never ends, and its state has
// index 9.
func keyReader(released uint64) *Replica {
	r := &Replica{moment: moment{cfg: &Config{ID: 1, MaxEntryBytes: 1 << 20, Tick: 1, ElectionTicks: 10}}, effects: effects{self: 1}}
	rl := &r.reads
	rl.promises, rl.wanted, rl.placed, rl.committed = newAsked(quorumlease.Config{Self: 1}, r.now), machine.Never, true, 9
	rl.memberships = quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1}}}
	rl.setting = readSetting{policy: quorumlease.AllByKey}
	rl.keys.start(9, released, rl.setting, nil)
	return r
}

// entryOfPuts is an entry of one put for each key.
func entryOfPuts(t *testing.T, term, index uint64, keys ...string) *raftpb.Entry {
	t.Helper()
	b := batch{Term: term, From: 1}
	for _, key := range keys {
		b.Requests = append(b.Requests, Propose{Body: putOf(t, key)})
	}
	return &raftpb.Entry{Term: &term, Index: &index, Data: b.encode()}
}

func putOf(t *testing.T, key string) []byte {
	t.Helper()
	body, err := EncodeRequest(&pb.PutRequest{Key: []byte(key)})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Nobody reads from a snapshot before all of it is known to be released: this member cannot tell which
// of its keys are not.
func TestNoLeaseOverASnapshotThatIsNotReleased(t *testing.T) {
	r := keyReader(8)
	if _, ok := r.reads.keyLease(r.moment); ok {
		t.Error("a lease over a state of which only a part is released")
	}
	r = keyReader(9)
	l, ok := r.reads.keyLease(r.moment)
	if !ok {
		t.Fatal("no lease over a state that is released")
	}
	ready, ok := l.Ready(keyspan.Set{{Key: []byte("k")}})
	if want := (KeysReady{Index: 9, UpTo: 9, Local: true}); !ok || ready.Index != want.Index || ready.UpTo != want.UpTo || !ready.Local {
		t.Errorf("a key that nothing changes is read from %+v, %v, want a state of 9: one of before may lack what was seen", ready, ok)
	}
}

// After a change of a range, readers ask the machine until that change is in every state, even if
// later entries of the log are replaced.
func TestInvisibleRangesStay(t *testing.T) {
	var u invisible
	var table keyspan.Table
	add := func(i uint64) {
		set := keyspan.Set{{Key: []byte("a"), End: []byte("c")}}
		table.Add(i, set, nil)
		u.add(i, set)
	}
	add(3)
	add(5)
	table.Truncate(5)
	if u.truncate(5); u.fits() {
		t.Error("with what was replaced a range before it was forgotten")
	}
	table.Release(3)
	if u.tidy(&table); u.fits() {
		t.Error("a range was forgotten that is released, and not in the state")
	}
	table.Forget(3)
	if u.tidy(&table); !u.fits() {
		t.Error("a range is left that is in every state")
	}
}

// Each held entry is either listed or behind the horizon. Every unlisted entry before the horizon
// counts as released (R19).
func TestWhatIsHeldIsNamedOrBehindTheHorizon(t *testing.T) {
	r := keyReader(9)
	k := &r.reads.keys
	last := uint64(9)
	for range maxHeld + 5 {
		last++
		k.appended(entryOfPuts(t, 2, last, fmt.Sprint(last)))
	}
	horizon, held := k.held(last)
	if len(held) != maxHeld {
		t.Fatalf("%d entries are named, want %d", len(held), maxHeld)
	}
	if first := held[len(held)-1] + 1; horizon >= first {
		t.Errorf("entry %d is held and not named, and not behind the horizon %d: it would be taken for released", first, horizon)
	}
}

// The number of requests in progress that travel alone is bounded.
func TestRequestsThatGoAloneAreBounded(t *testing.T) {
	r := keyReader(9)
	p := &r.proposals
	l := p.lane(apart)
	l.open = make([]Propose, 3*maxApart)
	if p.depart(r.now, r.cfg.MaxEntryBytes); len(p.sent) != maxApart || len(l.open) != 2*maxApart {
		t.Errorf("%d requests are on their way, and %d wait: want %d of %d to set out", len(p.sent), len(l.open), maxApart, 3*maxApart)
	}
}

// Without a leader, waiting requests are given up by the age of the oldest, whatever arrives later.
func TestWhatWaitsIsGivenUpByTheOldest(t *testing.T) {
	r := keyReader(9)
	p := &r.proposals
	for id := range uint64(3 * maxFlying) {
		p.add(Propose{ID: id, Body: putOf(t, "k")})
		r.fileArrived()
		r.now = r.now.Add(r.cfg.patience() / maxFlying)
	}
	p.onTick(r.moment, &r.effects)
	if l := p.lanes[0]; len(l.open) > 0 || len(r.outcomes) != 1 {
		t.Errorf("%d requests wait for a leader, the oldest for three times as long as it may, and %d outcomes: want all to be dropped", len(l.open), len(r.outcomes))
	}
}

// The leader keeps a put of a key that is read at the leader, and no put of a key that is read
// elsewhere. The two puts do not share an entry, because readers elsewhere wait longer for kept
// entries.
func TestWhatIsKeptGoesByItself(t *testing.T) {
	r := keyReader(9)
	r.leader = 1
	c := placement.NewCounter(16)
	for range 10 {
		c.Read([]byte("here"))
	}
	r.reads.plans.counter, r.reads.plans.counted = placement.NewCounter(16), c.Take()
	here, also, there := r.reads.companyOf(r.leading(), putOf(t, "here")), r.reads.companyOf(r.leading(), putOf(t, "here")), r.reads.companyOf(r.leading(), putOf(t, "there"))
	if here != also || here == apart {
		t.Errorf("puts of one key keep company %q and %q", here, also)
	}
	if here == there {
		t.Errorf("a put of what is read at the leader shares an entry with one of what is not: both keep company %q", here)
	}
}

// Each change of a range counts until it is in every state, also behind another that is.
func TestEachInvisibleRangeCounts(t *testing.T) {
	var u invisible
	var table keyspan.Table
	for _, i := range []uint64{3, 5} {
		set := keyspan.Set{{Key: []byte("a"), End: []byte("c")}, {Key: []byte("x"), End: []byte("z")}}
		table.Add(i, set, nil)
		u.add(i, set)
	}
	table.Release(3)
	table.Forget(3)
	if u.tidy(&table); u.fits() {
		t.Error("with a range that is in every state a later one was forgotten")
	}
	table.Release(5)
	table.Forget(5)
	if u.tidy(&table); !u.fits() {
		t.Error("a range is left that is in every state")
	}
}

// Readers get another lease if anything in it changes.
func TestEachPartOfAKeyLeaseCounts(t *testing.T) {
	l := func(change func(*KeyLease)) *KeyLease {
		l := &KeyLease{Until: 5, floor: 3, commit: 4, confs: []conf{{index: 1}}, invisible: invisible{entries: []uint64{4}, keys: []uint64{7}}}
		change(l)
		return l
	}
	before := l(func(*KeyLease) {})
	for what, change := range map[string]func(*KeyLease){
		"its end":                func(o *KeyLease) { o.Until++ },
		"what is counted":        func(o *KeyLease) { o.Counted = true },
		"the oldest state":       func(o *KeyLease) { o.floor++ },
		"the commit index":       func(o *KeyLease) { o.commit++ },
		"a division":             func(o *KeyLease) { o.confs = []conf{{index: 2}} },
		"one division more":      func(o *KeyLease) { o.confs = append(before.confs[:1:1], conf{index: 2}) },
		"no division":            func(o *KeyLease) { o.confs = nil },
		"a key that is changed":  func(o *KeyLease) { o.invisible.keys = []uint64{8} },
		"one key more":           func(o *KeyLease) { o.invisible.keys = append(before.invisible.keys[:1:1], 8) },
		"no key that is changed": func(o *KeyLease) { o.invisible.keys = nil },
	} {
		same := func(o *KeyLease) { o.confs, o.invisible = before.confs, before.invisible }
		if after := l(same); !before.same(after) {
			t.Fatal("a lease is not the same as itself")
		}
		if after := l(func(o *KeyLease) { same(o); change(o) }); before.same(after) {
			t.Errorf("%s changes, and readers keep the lease of before", what)
		}
	}
}

// A reader that goes by the lease needs what every state has, and sees what is committed. No keys are no question.
func TestWhatAKeyLeaseSays(t *testing.T) {
	l := &KeyLease{Until: 5, floor: 3, commit: 7, self: 1}
	for _, tt := range []struct {
		keys keyspan.Set
		want KeysReady
		ok   bool
	}{
		{key("k"), KeysReady{Index: 3, UpTo: 7, Local: true}, true},
		{append(key("k"), key("m")...), KeysReady{Index: 3, UpTo: 7, Local: true, Exact: true}, true},
		{nil, KeysReady{Index: 3, UpTo: 7, Local: true}, false},
	} {
		if got, ok := l.Ready(tt.keys); got != tt.want || ok != tt.ok {
			t.Errorf("%v may be read: %+v, %v, want %+v, %v", tt.keys, got, ok, tt.want, tt.ok)
		}
	}
}

// Keys that are released, behind one that is held, are looked through again only when twice as many have come: each look
// takes as long as there are keys.
func TestHowOftenKeysAreTidied(t *testing.T) {
	var u invisible
	var table keyspan.Table
	add := func(n int) {
		for range n {
			i := uint64(len(u.entries) + 1)
			table.Add(i, key("k"), nil)
			u.add(i, key("k"))
		}
	}
	add(maxInvisible + 1)
	if u.tidy(&table); u.tidied != maxInvisible+1 || len(u.keys) != maxInvisible+1 {
		t.Errorf("of %d keys that are held, %d are left, and %d were when they were looked through", maxInvisible+1, len(u.keys), u.tidied)
	}
}

// Readers go by the divisions that are in force: one that was replaced and whose successor is committed binds nobody.
func TestReadersGoByWhatIsInForce(t *testing.T) {
	r := keyReader(9)
	k := &r.reads.keys
	k.confs = []conf{{7, readSetting{quorumlease.Static, division(t)}}, {8, readSetting{policy: quorumlease.AllByKey}}}
	for committed, want := range map[uint64]bool{7: false, 8: true, 9: true} {
		r.reads.committed = committed
		l, ok := r.reads.keyLease(r.moment)
		if !ok {
			t.Fatal("there is no lease")
		}
		if _, got := l.Ready(key("x")); got != want {
			t.Errorf("committed up to %d, a key that another held before entry 8 may be read: %v, want %v", committed, got, want)
		}
	}
}

// Readers look through a bounded number of keys. With more of them, they ask the machine.
func TestReadersLookThroughABoundedNumberOfKeys(t *testing.T) {
	for _, n := range []int{maxInvisible, maxInvisible + 1} {
		r := keyReader(9)
		for i := range n {
			r.reads.keys.appended(entryOfPuts(t, 2, uint64(10+i), "k"))
		}
		if _, ok := r.reads.keyLease(r.moment); ok != (n <= maxInvisible) {
			t.Errorf("with %d keys that are not visible, readers go by the lease: %v", n, ok)
		}
	}
}
