package replica

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"go.etcd.io/raft/v3/raftpb"
)

// A configuration is forgotten when another entry replaces the one that set it. Once the new entry is
// committed, the old configuration must not be used.
func TestADivisionIsReplacedWithItsEntry(t *testing.T) {
	conf := func(holders placement.Set) *placement.Configuration {
		c, err := placement.New([]machine.NodeID{1, 2}, holders, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	body, err := EncodeRequest(wrapperspb.Bytes(conf(3).Encode()))
	if err != nil {
		t.Fatal(err)
	}
	term, next, at := uint64(2), uint64(3), uint64(6)
	var k keyOrder
	k.start(5, 5, readSetting{quorumlease.Static, conf(1)}, nil)
	k.appended(&raftpb.Entry{Term: &term, Index: &at, Data: (&batch{Term: term, From: 1, Requests: []Propose{{Body: body}}}).encode()})
	if got := k.latest().cells; !got.Equal(conf(3)) {
		t.Fatalf("the entry divides nothing: %v", got)
	}
	k.truncated(at, at)
	if len(k.fences) > 0 {
		t.Errorf("everybody must have the entries %d still, and none of them is there", k.fences)
	}
	k.appended(&raftpb.Entry{Term: &next, Index: &at})
	if got := k.latest().cells; !got.Equal(conf(1)) {
		t.Errorf("a division that was replaced is the latest: %v", got)
	}
	if all := []byte("k"); k.holds(2, keyspan.Set{{Key: all}}, at) {
		t.Error("member 2 holds a key by a division that was replaced")
	}
}

// A lease that ends after a snapshot ends the keys that it has in the snapshot, not those that it had
// before. Otherwise a reader of one of its keys would not wait for that end.
func TestKeysOfALeaseAreTheSnapshots(t *testing.T) {
	keysAre := func(key string) func(int64) [][]byte {
		return func(int64) [][]byte { return [][]byte{[]byte(key)} }
	}
	m := newStage(t).members[0]
	rl := &m.r.reads
	rl.keys.leaseKeys = keysAre("before")
	in := m.a.Restored()
	in.Index, in.Term, in.ReadPolicy, in.LeaseKeys = 10, 2, quorumlease.Static, keysAre("since")
	revoke := entryOf(11, bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 7}))
	rl.tail = []*raftpb.Entry{revoke}
	rl.restored(m.r.moment, &m.r.effects, in)
	if log := rl.keys.log.Keys(); log.LastTouch(key("since")) != 11 || log.LastTouch(key("before")) == 11 {
		t.Errorf("the end of the lease touches the keys that it had before the snapshot")
	}
}

// A write of a range waits for each member that holds some of the range, not only for those that hold
// all of it. This applies to each configuration that may be in force.
func TestWhoARangeWaitsFor(t *testing.T) {
	r := keyReader(9)
	k := &r.reads.keys
	k.confs = []conf{{9, readSetting{quorumlease.Static, division(t)}}}
	for _, c := range []struct {
		key, end string
		want     []machine.NodeID
	}{{"a", "", []machine.NodeID{1, 2}}, {"x", "", []machine.NodeID{2}}, {"a", "z", []machine.NodeID{1, 2}}, {"x", "z", []machine.NodeID{2}}} {
		if got := k.holdersOf(keyspan.Set{{Key: []byte(c.key), End: []byte(c.end)}}); !slices.Equal(got, c.want) {
			t.Errorf("a write of [%q, %q) waits for %d, want %d", c.key, c.end, got, c.want)
		}
	}
	k.confs = append(k.confs, conf{10, readSetting{policy: quorumlease.AllByKey}})
	if got := k.holdersOf(keyspan.Set{{Key: []byte("x")}}); got != nil {
		t.Errorf("under a setting without a division a write waits for %d, want everyone", got)
	}
}

// Waiting reads and reported releases survive a change of the order.
func TestReadsOutlastTheOrder(t *testing.T) {
	r := keyReader(9)
	k := &r.reads.keys
	k.read(r.now, ReadKeys{ID: 5, Keys: keyspan.Set{{Key: []byte("k")}}})
	k.told = 8
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"a snapshot", func() { k.start(12, 9, readSetting{policy: quorumlease.AllByKey}, nil) }},
		{"strict order", func() { k.stop() }},
		{"key order", func() { k.start(12, 9, readSetting{policy: quorumlease.AllByKey}, nil) }},
	} {
		if step.do(); len(k.reads) != 1 || k.told != 8 || k.through != 9 {
			t.Errorf("behind %s %d reads wait, %d was told, and all up to %d is released; want 1, 8 and 9", step.name, len(k.reads), k.told, k.through)
		}
	}
}

// A member may know of more released entries than a snapshot records. It reports them to its owner,
// which only knows the snapshot.
func TestMoreIsReleasedThanTheSnapshotSays(t *testing.T) {
	for _, policy := range []quorumlease.Policy{quorumlease.All, quorumlease.AllByKey} {
		m := newStage(t).members[0]
		rl := &m.r.reads
		rl.committed, rl.released = 12, 12
		in := m.a.Restored()
		in.Index, in.Term, in.Released, in.ReadPolicy = 10, 1, 8, policy
		m.r.outcomes = nil
		rl.restored(m.r.moment, &m.r.effects, in)
		if out, ok := rl.keys.report(); ok && policy.ByKey() {
			m.r.outcomes = append(m.r.outcomes, out)
		}
		if len(m.r.outcomes) != 1 {
			t.Fatalf("%s: %+v, want one that tells what is released", policy, m.r.outcomes)
		}
		if out, ok := m.r.outcomes[0].(Released); !ok || out.Through < 10 {
			t.Errorf("%s: of a state of 10 that is released, it is told to be %+v", policy, m.r.outcomes[0])
		}
	}
}

// A write is counted for the member that requested it.
func TestWritesAreTheirSenders(t *testing.T) {
	r := keyReader(9)
	r.leader, r.term, r.last = 1, 2, 9
	r.reads.plans.counter = placement.NewCounter(16)
	term, index := uint64(2), uint64(10)
	e := &raftpb.Entry{Term: &term, Index: &index, Data: (&batch{Term: 2, From: 3, Requests: []Propose{{Body: putOf(t, "k")}}}).encode()}
	r.reads.noteAppended(r.moment, []*raftpb.Entry{e})
	if got := r.reads.plans.counter.Take(); !slices.Equal(got.Origins, []machine.NodeID{3}) {
		t.Errorf("a write of member 3 is counted for %d", got.Origins)
	}
}

// All entries that wait for another one are released with it, whether it is released alone or with all
// before it.
func TestAllThatWaitsForAnEntryIsReleasedWithIt(t *testing.T) {
	for name, release := range map[string]func(*keyOrder){
		"alone":              func(k *keyOrder) { k.assured(10) },
		"with all before it": func(k *keyOrder) { k.releaseThrough(10) },
	} {
		r := keyReader(9)
		k := &r.reads.keys
		k.appended(entryOfPuts(t, 2, 10, "a", "b", "c"))
		for i, key := range []string{"a", "b", "c"} {
			k.appended(entryOfPuts(t, 2, uint64(11+i), key))
			k.assured(uint64(11 + i)) // no holder lacks it
		}
		for i := range k.log.unreleased() {
			if len(k.fresh) > 0 || i > 13 {
				t.Fatalf("entries %d are released before the one that they depend on", k.fresh)
			}
		}
		release(k)
		for i := uint64(10); i < 14; i++ {
			if k.log.held(i) {
				t.Errorf("entry 10 is released %s, and %d, which waits for it, is not", name, i)
			}
		}
	}
}

// The leader informs a removed member that its removal is released, for no other member does.
func TestWhoHasLeftIsTold(t *testing.T) {
	for _, tt := range []struct {
		byKey  bool
		leader machine.NodeID
		want   []machine.NodeID
	}{{true, 1, []machine.NodeID{3, 4}}, {false, 1, []machine.NodeID{3, 4}}, {true, 2, nil}, {false, 2, nil}} {
		r := keyReader(9)
		r.leader, r.term = tt.leader, 2
		rl := &r.reads
		if !tt.byKey {
			rl.keys.stop()
			rl.released = 9
		}
		before := quorumlease.Membership{Index: 1, Voters: []machine.NodeID{1, 2, 3}, Learners: []machine.NodeID{4}}
		rl.count(quorumlease.Memberships{before}.With(quorumlease.Membership{Index: 9, Voters: []machine.NodeID{1, 2}}))
		rl.settle(r.moment, &r.effects)
		var told []machine.NodeID
		for _, env := range r.sends {
			if news, ok := env.Body.(quorumlease.News); ok && news.Released == 9 && news.Term == 2 {
				told = append(told, env.To)
			}
		}
		if !slices.Equal(told, tt.want) || len(rl.memberships) != 1 || !slices.Equal(rl.everyone, []machine.NodeID{1, 2}) {
			t.Errorf("in key order %v, led by member %d: members %d are told, and %d are members; want %d, and 1 and 2", tt.byKey, tt.leader, told, rl.everyone, tt.want)
		}
	}
}

// Of the divisions in a log, the one that was committed last is in force, and so are all behind it.
func TestWhichDivisionsAreInForce(t *testing.T) {
	for _, tt := range []struct {
		commit uint64
		want   []uint64
	}{{4, []uint64{5, 8, 12}}, {5, []uint64{5, 8, 12}}, {7, []uint64{5, 8, 12}}, {8, []uint64{8, 12}}, {11, []uint64{8, 12}}, {12, []uint64{12}}, {20, []uint64{12}}} {
		var got []uint64
		for _, c := range inForce([]conf{{index: 5}, {index: 8}, {index: 12}}, tt.commit) {
			got = append(got, c.index)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("committed up to %d, the divisions of %d are in force, want %d", tt.commit, got, tt.want)
		}
	}
}

// The news name the entries that are committed and not released. The horizon is the commit index.
func TestWhatTheNewsName(t *testing.T) {
	k := &keyReader(9).reads.keys
	for i := range uint64(3) {
		k.appended(entryOfPuts(t, 2, 10+i, "k"))
	}
	stalled := []machine.NodeID{3}
	got := k.addNews(positions{released: 7, committed: 11, handedOut: 10, applied: 10}, quorumlease.News{Term: 2, Released: 7, Stalled: stalled})
	if want := (quorumlease.News{Term: 2, Released: 9, Horizon: 11, Held: []uint64{10, 11}, Stalled: stalled}); !reflect.DeepEqual(got, want) {
		t.Errorf("of entries up to 12, committed up to 11, the news are %+v, want %+v", got, want)
	}
}

// Behind a cut, key order knows as much as if the replaced entries had never been there.
func TestKeyOrderForgetsWhatWasReplaced(t *testing.T) {
	cells, err := EncodeRequest(wrapperspb.Bytes(division(t).Encode()))
	if err != nil {
		t.Fatal(err)
	}
	const first, last = 10, 15
	entries := []*raftpb.Entry{
		entryOfPuts(t, 1, 10, "a"), entryOf(11, bodyOf(t, kindDeleteRange, &pb.DeleteRangeRequest{Key: []byte("b"), RangeEnd: []byte("c")})), {Index: new(uint64(12)), Term: new(uint64(1))},
		entryOf(13, bodyOf(t, kindPut, &pb.PutRequest{Key: []byte("d"), Lease: 7})), entryOf(14, cells), entryOfPuts(t, 1, 15, "e"),
	}
	appended := func(through uint64) *keyOrder {
		k := &keyReader(9).reads.keys
		for _, e := range entries[:through+1-first] {
			a := k.appended(e)
			if a.touch != nil {
				k.noteKept(1, e.GetIndex(), a.touch)
			}
		}
		return k
	}
	known := func(k *keyOrder) string {
		var missed, divisions []uint64
		for _, m := range k.missed {
			missed = append(missed, m.entries...)
		}
		slices.Sort(missed)
		for _, c := range k.confs {
			divisions = append(divisions, c.index)
		}
		return fmt.Sprintf("unreleased %d, fences %d, divisions %d, missed %d, kept %d, of keys that nobody sees %d and %d ranges, attached to leases %v",
			slices.Collect(k.log.unreleased()), k.fences, divisions, missed, k.own, k.invisible.entries, k.invisible.ranges, k.log.attached)
	}
	for from := uint64(first); from <= last+1; from++ {
		k := appended(last)
		k.truncated(from, last)
		if got, want := known(k), known(appended(from-1)); got != want {
			t.Errorf("cut from %d on, it knows %s, want %s", from, got, want)
		}
	}
}

// Everyone must have a leader's first entry, a change of the members and a new division of the keys. A
// holder must have what changes its keys, and of what its leader keeps the leader decides.
func TestWhoMustHaveAnEntry(t *testing.T) {
	policy, err := EncodeRequest(wrapperspb.Bytes(division(t).Encode()))
	if err != nil {
		t.Fatal(err)
	}
	strict, err := EncodeRequest(wrapperspb.String("all"))
	if err != nil {
		t.Fatal(err)
	}
	kept := entryOfPuts(t, 2, 10, "k")
	keep(kept.Data)
	meant := &batch{Term: 1, From: 1, Requests: []Propose{{Body: policy}}}
	for _, tt := range []struct {
		name string
		e    *raftpb.Entry
		want string
	}{
		{"a leader's first", &raftpb.Entry{Index: new(uint64(10)), Term: new(uint64(2))}, "fences [10], divisions [9], missed []"},
		{"a change of the members", changeEntry(t, 10, 2, RemoveMember(2)), "fences [10], divisions [9], missed []"},
		{"a division", entryOf(10, policy), "fences [10], divisions [9 10], missed []"},
		{"a policy", entryOf(10, strict), "fences [10], divisions [9 10], missed []"},
		{"a division beside puts", entryOf(10, putOf(t, "k"), policy, putOf(t, "m")), "fences [10], divisions [9 10], missed []"},
		{"a division for another term", &raftpb.Entry{Index: new(uint64(10)), Term: new(uint64(2)), Data: meant.encode()}, "fences [], divisions [9], missed []"},
		{"a division that makes no sense", entryOf(10, []byte{kindReadCells, 0xff}), "fences [], divisions [9], missed []"},
		{"a put", entryOfPuts(t, 2, 10, "k"), "fences [], divisions [9], missed [by nobody: 10]"},
		{"a put that is kept", kept, "fences [], divisions [9], missed [by member 1 in term 2: 10]"},
		{"a checkpoint", entryOf(10, bodyOf(t, kindCheckpoint, listOf([]int64{7}))), "fences [], divisions [9], missed []"},
	} {
		k := &keyReader(9).reads.keys
		k.appended(tt.e)
		missed := []string{}
		for _, m := range k.missed {
			by := "nobody"
			if m.by != (keeper{}) {
				by = fmt.Sprintf("member %d in term %d", m.by.member, m.by.term)
			}
			missed = append(missed, fmt.Sprintf("by %s: %d", by, m.entries[0]))
		}
		var divisions []uint64
		for _, c := range k.confs {
			divisions = append(divisions, c.index)
		}
		if got := fmt.Sprintf("fences %d, divisions %d, missed %s", k.fences, divisions, missed); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// What is released apart from all before is reported once, in order, and not if all before is.
func TestWhatIsReportedAsReleased(t *testing.T) {
	for _, tt := range []struct {
		told  uint64
		fresh []uint64
		want  Released
		ok    bool
	}{
		{9, nil, Released{}, false},
		{9, []uint64{8, 9}, Released{}, false},
		{9, []uint64{12, 8, 11}, Released{Through: 9, Apart: []uint64{11, 12}}, true},
		{7, nil, Released{Through: 9}, true},
		{7, []uint64{8}, Released{Through: 9, Apart: []uint64{}}, true},
	} {
		k := &keyReader(9).reads.keys
		k.told, k.fresh = tt.told, tt.fresh
		if got, ok := k.report(); !reflect.DeepEqual(got, tt.want) || ok != tt.ok {
			t.Errorf("told up to %d, with %d apart: %+v, %v, want %+v, %v", tt.told, tt.fresh, got, ok, tt.want, tt.ok)
		}
		if again, ok := k.report(); ok {
			t.Errorf("told up to %d, with %d apart: %+v is reported twice", tt.told, tt.fresh, again)
		}
	}
}

// A leader keeps an entry of keys that it may hold, if these are in the entry itself. The keys that a
// state gave may differ at other members.
func TestWhichEntriesAreKept(t *testing.T) {
	for _, tt := range []struct {
		name     string
		key      string
		resolved bool
		want     []uint64
	}{{"of a key that it holds", "a", false, []uint64{10}}, {"of a key that another holds", "x", false, nil}, {"of a key that a state gave", "a", true, nil}} {
		k := &keyReader(9).reads.keys
		k.confs = []conf{{9, readSetting{quorumlease.Static, division(t)}}}
		k.noteKept(1, 10, &Touch{Keys: Access{Writes: key(tt.key)}, resolved: tt.resolved})
		if !slices.Equal(k.own, tt.want) {
			t.Errorf("an entry %s: %d are kept, want %d", tt.name, k.own, tt.want)
		}
	}
}

// An account that begins anew keeps what was reported, the leader's news and the keys of leases, and
// nothing else.
func TestWhatOutlastsAnAccount(t *testing.T) {
	r := keyReader(9)
	k := &r.reads.keys
	k.news = quorumlease.News{Term: 2, Released: 8, Horizon: 12, Held: []uint64{11}}
	k.leaseKeys = func(int64) [][]byte { return [][]byte{[]byte("k")} }
	k.told, k.reads = 7, []*keyRead{{}}
	k.appended(&raftpb.Entry{Index: new(uint64(10)), Term: new(uint64(1))})
	k.appended(entryOfPuts(t, 1, 11, "a"))
	k.own, k.fresh, k.behind[10] = []uint64{11}, []uint64{11}, []uint64{11}
	k.former, k.learnt = []*placement.Configuration{nil}, learnt{term: 1}
	k.start(20, 15, readSetting{policy: quorumlease.AllByKey}, nil)
	if !reflect.DeepEqual(k.news, quorumlease.News{Term: 2, Released: 8, Horizon: 12, Held: []uint64{11}}) || k.leaseKeys == nil || k.told != 7 || len(k.reads) != 1 {
		t.Errorf("of an account before, the news are %+v, the keys of leases are known: %v, %d was told and %d reads wait", k.news, k.leaseKeys != nil, k.told, len(k.reads))
	}
	if len(k.own)+len(k.fresh)+len(k.behind)+len(k.fences)+len(k.missed)+len(k.former)+len(k.invisible.keys) > 0 || k.learnt != (learnt{}) {
		t.Errorf("of an account before, entries go on as own %d, fresh %d, behind %v, fences %d, missed %v, %d former divisions, %d keys and %+v",
			k.own, k.fresh, k.behind, k.fences, k.missed, len(k.former), len(k.invisible.keys), k.learnt)
	}
	if !k.on || !k.blind || k.unknown != 20 || k.through != 15 || len(k.confs) != 1 || k.confs[0].index != 20 {
		t.Errorf("an account of 20, released up to 15, begins on %v, blind %v up to %d, released up to %d, with the divisions %+v", k.on, k.blind, k.unknown, k.through, k.confs)
	}
}

// Entries are missed together if the same members hold their keys, and the same leader keeps them. No holders are
// not the same as all members.
func TestEntriesThatAreMissedTogether(t *testing.T) {
	r := keyReader(9)
	k := &r.reads.keys
	ids := func(list ...machine.NodeID) []machine.NodeID { return append([]machine.NodeID{}, list...) }
	for i := range uint64(7) {
		k.log.Add(entryOfPuts(t, 2, 10+i, "k"), nil)
	}
	k.noteMissing(10, ids(2, 3), keeper{})
	k.noteMissing(11, ids(2), keeper{})
	k.noteMissing(12, nil, keeper{})
	k.noteMissing(13, ids(), keeper{})
	k.noteMissing(14, ids(2, 3), keeper{1, 2})
	k.noteMissing(15, ids(2, 3), keeper{})
	k.noteMissing(99, ids(2, 3), keeper{}) // it touches nothing
	want := []missed{
		{holders: ids(2, 3), entries: []uint64{10, 15}}, {holders: ids(2), entries: []uint64{11}}, {entries: []uint64{12}},
		{holders: ids(), entries: []uint64{13}}, {holders: ids(2, 3), by: keeper{1, 2}, entries: []uint64{14}},
	}
	if !reflect.DeepEqual(k.missed, want) {
		t.Errorf("entries are missed as %+v, want %+v", k.missed, want)
	}
}

// An entry that depends on others is released behind them, and forgotten among those that wait.
func TestNothingIsKeptOfReleasedDependents(t *testing.T) {
	r := keyReader(9)
	k := &r.reads.keys
	for i := range uint64(3) {
		k.appended(entryOfPuts(t, 2, 10+i, "k"))
	}
	for _, i := range []uint64{12, 11} {
		if k.assured(i); !k.log.held(i) {
			t.Errorf("entry %d is released before one that it depends on", i)
		}
	}
	if k.assured(10); k.log.held(10) || k.log.held(11) || k.log.held(12) || len(k.behind) > 0 {
		t.Errorf("all are assured, and of entries 10 to 12 are held: %v, %v, %v; some wait: %v", k.log.held(10), k.log.held(11), k.log.held(12), k.behind)
	}
}
