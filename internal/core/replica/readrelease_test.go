package replica

import (
	"reflect"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// cuts are promises that note to where the log was cut.
type cuts struct {
	*asked
	last []uint64
}

func (c *cuts) Shortened(last uint64) { c.last = append(c.last, last) }

// A snapshot replaces the log. Entries that were committed earlier go to the Applier before it,
// without being published. Uncommitted entries no longer count. The snapshot's own settings count when
// it is loaded, and those of an older one never.
func TestASnapshotTakesThePlaceOfTheLog(t *testing.T) {
	member := func(index uint64, voters ...machine.NodeID) quorumlease.Membership {
		return quorumlease.Membership{Index: index, Voters: voters}
	}
	for _, last := range []uint64{12, 20, 25} {
		r := keyReader(9)
		rl := &r.reads
		rl.keys.stop()
		bound := &cuts{asked: newAsked(quorumlease.Config{Self: 1}, r.now)}
		rl.promises = bound
		committed := []*raftpb.Entry{entryAt(8, 1, 0), entryAt(9, 1, 0)}
		rl.held, rl.committed, rl.handedOut, r.last = committed, 9, 7, last
		rl.tail, rl.settings = []*raftpb.Entry{entryAt(11, 1, 0)}, []uint64{11}
		rl.count(quorumlease.Memberships{member(1, 1, 2), member(11, 1, 2, 3)})
		rl.noteSnapshot(r.moment, &r.effects, 20)
		if want := []Outcome{Committed{Entries: committed, Held: true}}; !reflect.DeepEqual(r.outcomes, want) {
			t.Errorf("a log up to %d is replaced, and the owner is given %+v, want what was committed, not to be seen", last, r.outcomes)
		}
		if rl.handedOut != 20 || rl.loading != 20 || len(rl.tail)+len(rl.settings)+len(rl.held) > 0 || len(rl.memberships) != 1 || len(rl.voters) != 2 {
			t.Errorf("a log up to %d is replaced: given %d, loading %d, members %+v; in the log are %d entries, of which %d divide keys, and %d are held",
				last, rl.handedOut, rl.loading, rl.memberships, len(rl.tail), len(rl.settings), len(rl.held))
		}
		if cut := len(bound.last) == 1 && bound.last[0] == 20; cut != (last > 20) || !cut && len(bound.last) > 0 {
			t.Errorf("a log up to %d is replaced, and promises hear of cuts to %d", last, bound.last)
		}

		older := Restored{Index: 15, Term: 1, Released: 15, ReadPolicy: quorumlease.Off, Roster: Roster{Memberships: quorumlease.Memberships{member(1, 1, 2, 3)}}}
		if rl.restored(r.moment, &r.effects, older); rl.loading != 20 || rl.setting.policy == quorumlease.Off || len(rl.voters) != 2 {
			t.Errorf("an older snapshot that was loaded meanwhile counts: loading %d, policy %s, voters %d", rl.loading, rl.setting.policy, rl.voters)
		}
		older.Index, older.Released = 20, 20
		if rl.restored(r.moment, &r.effects, older); rl.loading != 0 || rl.setting.policy != quorumlease.Off || len(rl.voters) != 3 || rl.applied != 20 || rl.released != 20 {
			t.Errorf("the snapshot was loaded: loading %d, policy %s, voters %d, applied up to %d, released up to %d", rl.loading, rl.setting.policy, rl.voters, rl.applied, rl.released)
		}
	}
}

// Replaced entries no longer count for the holders of keys, for the membership, or for the stamps of
// promises.
func TestReplacedEntriesCountNoMore(t *testing.T) {
	for from, want := range map[uint64]struct {
		settings []uint64
		voters   int
		tail     int
		cut      []uint64
	}{
		13: {[]uint64{10, 12}, 3, 4, nil},
		12: {[]uint64{10}, 3, 3, []uint64{11}},
		11: {[]uint64{10}, 2, 2, []uint64{10}},
		10: {nil, 2, 1, []uint64{9}},
	} {
		r := keyReader(9)
		rl := &r.reads
		rl.keys.stop()
		bound := &cuts{asked: newAsked(quorumlease.Config{Self: 1}, r.now)}
		rl.promises, r.last, rl.settings = bound, 12, []uint64{10, 12}
		rl.tail = []*raftpb.Entry{entryAt(10, 1, 0), entryAt(11, 1, 0), entryAt(12, 1, 0)}
		rl.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2}}, {Index: 11, Voters: []machine.NodeID{1, 2, 3}}})
		rl.noteAppended(r.moment, []*raftpb.Entry{entryAt(from, 2, 0)})
		if !slices.Equal(rl.settings, want.settings) || len(rl.voters) != want.voters || len(rl.tail) != want.tail || rl.tail[want.tail-1].GetTerm() != 2 || !slices.Equal(bound.last, want.cut) {
			t.Errorf("replaced from %d on: keys are divided by %d, %d vote, %d entries are not applied, promises hear of cuts to %d; want %+v",
				from, rl.settings, rl.voters, len(rl.tail), bound.last, want)
		}
	}
}

// A leader counts the writes in entries of its own term, and keeps its own entries that are marked. A
// follower does neither, and entries of an earlier term do not count.
func TestWhatALeaderTakesAccountOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		leader machine.NodeID
		term   uint64
		from   machine.NodeID
		kept   bool
		writes int
		own    []uint64
	}{
		{"the leader's", 1, 2, 1, false, 1, nil},
		{"the leader's, kept", 1, 2, 1, true, 1, []uint64{10}},
		{"another's, kept", 1, 2, 3, true, 1, nil},
		{"one of an earlier term, kept", 1, 1, 1, true, 0, nil},
		{"a follower's, kept", 2, 2, 1, true, 0, nil},
	} {
		r := keyReader(9)
		r.leader, r.term, r.last = tt.leader, 2, 9
		rl := &r.reads
		rl.plans.counter = placement.NewCounter(16)
		var entries []*raftpb.Entry
		for i := range uint64(100) {
			e := &raftpb.Entry{Index: new(10 + i), Term: new(tt.term)}
			e.Data = (&batch{Term: tt.term, From: tt.from, Requests: []Propose{{Body: putOf(t, "k")}}}).encode()
			if tt.kept && i == 0 {
				keep(e.Data)
			}
			entries = append(entries, e)
		}
		rl.noteAppended(r.moment, entries)
		if got := len(rl.plans.counter.Take().Of([]byte("k")).Writes); got != tt.writes || !slices.Equal(rl.keys.own, tt.own) {
			t.Errorf("an entry %s: writes of %d members are counted, and entries %d are kept; want %d, %d", tt.name, got, rl.keys.own, tt.writes, tt.own)
		}
	}
}

// In key order a leader keeps a batch of its own if it holds the keys, if all members understand kept
// entries, and if it is read from.
func TestWhatALeaderKeeps(t *testing.T) {
	put, expiry := putOf(t, "k"), bodyOf(t, kindExpire, listOf([]int64{1}))
	all := levels{2: keepsLevel, 3: keepsLevel}
	for _, tt := range []struct {
		name   string
		change func(r *Replica)
		known  levels
		body   []byte
		want   bool
	}{
		{"a put", func(*Replica) {}, all, put, true},
		{"a put in strict order", func(r *Replica) { r.reads.keys.on = false }, all, put, false},
		{"a follower's put", func(r *Replica) { r.leader = 2 }, all, put, false},
		{"a put of an earlier version", func(r *Replica) { r.cfg.Older = true }, all, put, false},
		{"a put beside a voter of an earlier version", func(*Replica) {}, levels{3: keepsLevel}, put, false},
		{"a put beside a learner of an earlier version", func(*Replica) {}, levels{2: keepsLevel, 3: 0}, put, false},
		{"the end of a lease", func(*Replica) {}, all, expiry, false},
		{"a put of what is not read here", func(r *Replica) { r.reads.plans.counter = placement.NewCounter(16) }, all, put, false},
	} {
		r := keyReader(9)
		r.leader, r.term = 1, 2
		r.reads.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2}, Learners: []machine.NodeID{3}}})
		tt.change(r)
		data := (&batch{Term: 2, From: 1, Requests: []Propose{{Body: tt.body}}}).encode()
		if got := r.reads.keepsToItself(r.moment, tt.known, data); got != tt.want {
			t.Errorf("%s is kept: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Each entry that divides keys or changes the members is noted, wherever it stands among others.
func TestEntriesAreLookedAtOneByOne(t *testing.T) {
	setting := func(index uint64, m proto.Message) *raftpb.Entry {
		body, err := EncodeRequest(m)
		if err != nil {
			t.Fatal(err)
		}
		return entryOf(index, body)
	}
	change := func(index uint64, cc *raftpb.ConfChange) *raftpb.Entry {
		e := encodedChange(t, 1, cc, cc)
		e.Index = &index
		return e
	}
	r := keyReader(9)
	rl := &r.reads
	rl.memberships, rl.settings = nil, []uint64{5}
	rl.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1}}})
	rl.look([]*raftpb.Entry{
		setting(10, wrapperspb.String("all")), setting(11, wrapperspb.Bytes(division(t).Encode())), change(12, AddMember(2, []string{"b"}, false)),
		setting(13, wrapperspb.String("all/key")), change(14, AddMember(3, []string{"c"}, true)),
	})
	if !slices.Equal(rl.settings, []uint64{5, 11, 13}) {
		t.Errorf("keys are divided by entries %d, want 5, 11 and 13", rl.settings)
	}
	if !slices.Equal(rl.everyone, []machine.NodeID{1, 2, 3}) || len(rl.memberships) != 2 || rl.memberships.Newest().Index != 14 || !slices.Equal(rl.voters, []machine.NodeID{1, 2}) {
		t.Errorf("the members are %d by %+v", rl.everyone, rl.memberships)
	}
}

// In key order a snapshot is invisible while it is being loaded, and its keys are unknown. Once loaded, it is
// visible as far as it is released. The account of keys begins there, in strict order only if some of the
// state is not released.
func TestAnAccountBeginsWithASnapshot(t *testing.T) {
	r := keyReader(9)
	rl := &r.reads
	rl.committed, r.last = 20, 20
	rl.noteSnapshot(r.moment, &r.effects, 20)
	if k := &rl.keys; !k.on || !k.loading || !k.blind || k.through != 9 || k.unknown != 20 || len(k.confs) != 1 || k.confs[0].index != 20 {
		t.Errorf("while a snapshot of 20 is loaded: in key order %v, loading %v, blind %v, released through %d, want 9; unknown up to %d, divisions %+v",
			k.on, k.loading, k.blind, k.through, k.unknown, k.confs)
	}
	ahead := keyReader(25)
	ahead.reads.committed, ahead.last = 25, 25
	if ahead.reads.noteSnapshot(ahead.moment, &ahead.effects, 20); !ahead.reads.keys.blind {
		t.Error("while a snapshot of 20 is loaded, at a member that knows 25 to be released, its keys count as known")
	}
	body, err := EncodeRequest(wrapperspb.Bytes(division(t).Encode()))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name            string
		policy          quorumlease.Policy
		released, knows uint64
		on, blind       bool
		through, told   uint64
		outcomes        []Outcome
	}{
		{"in key order, of which a part is released", quorumlease.AllByKey, 15, 12, true, true, 15, 15, nil},
		{"in key order, of which this member knows more", quorumlease.AllByKey, 15, 17, true, true, 17, 15, nil},
		{"in key order, that is released", quorumlease.AllByKey, 20, 20, true, false, 20, 20, nil},
		{"in strict order, of which a part is released", quorumlease.All, 15, 17, true, true, 17, 15, nil},
		{"in strict order, that is released", quorumlease.All, 20, 12, false, false, 9, 20, nil},
		{"in strict order, and more is released", quorumlease.All, 20, 25, false, false, 9, 20, []Outcome{Released{Through: 25}}},
	} {
		r := keyReader(9)
		rl := &r.reads
		rl.committed, r.last = 20, 20
		rl.noteSnapshot(r.moment, &r.effects, 20)
		rl.released, rl.settings = tt.knows, []uint64{11}
		rl.tail = []*raftpb.Entry{entryOf(21, putOf(t, "k")), entryOf(22, body)}
		rl.restored(r.moment, &r.effects, Restored{
			Index: 20, Term: 2, Released: tt.released, ReadPolicy: tt.policy, LeaseKeys: func(int64) [][]byte { return nil },
			Roster: Roster{Memberships: rl.memberships},
		})
		k := &rl.keys
		if k.on != tt.on || k.blind != tt.blind || k.loading || k.through != tt.through || k.told != tt.told || tt.on && !k.log.Keys().Held(21) {
			t.Errorf("a snapshot %s: account of keys %v, blind %v, loading %v, released through %d, told %d; want %v, %v, false, %d, %d",
				tt.name, k.on, k.blind, k.loading, k.through, k.told, tt.on, tt.blind, tt.through, tt.told)
		}
		if !reflect.DeepEqual(r.outcomes, tt.outcomes) || !slices.Equal(rl.settings, []uint64{22}) || tt.on && k.leaseKeys == nil {
			t.Errorf("a snapshot %s: outcomes %+v, keys are divided by %d behind it, and the keys of leases are known: %v", tt.name, r.outcomes, rl.settings, k.leaseKeys != nil)
		}
	}
}

// The account of keys begins with the entry that turns to key order. From there on every entry of the log is
// held. It ends with an entry that turns to strict order, once nothing is held. Entries that were applied
// before a snapshot do not change its account.
func TestTheOrderChangesWithTheLog(t *testing.T) {
	keysOf := func(int64) [][]byte { return nil }
	r := keyReader(9)
	rl := &r.reads
	rl.keys.stop()
	rl.setting.policy, rl.tail, rl.committed, rl.handedOut = quorumlease.All, []*raftpb.Entry{entryOf(12), entryOf(13, putOf(t, "k"))}, 13, 13
	rl.onApplied(r.moment, Applied{Index: 12, ReadPolicy: quorumlease.AllByKey, LeaseKeys: keysOf})
	if k := &rl.keys; !k.on || k.through != 12 || !k.log.Keys().Held(13) || k.blind || k.leaseKeys == nil || len(rl.tail) != 1 {
		t.Errorf("key order begins with entry 12: account of keys %v, released through %d, entry 13 is held %v, blind %v, the keys of leases are known %v", k.on, k.through, k.log.Keys().Held(13), k.blind, k.leaseKeys != nil)
	}
	for _, tt := range []struct {
		name      string
		through   uint64
		handedOut uint64
		policy    quorumlease.Policy
		on        bool
		floor     uint64
	}{
		{"in key order", 12, 12, quorumlease.AllByKey, true, 11},
		{"in key order, with more handed out", 12, 14, quorumlease.AllByKey, true, 11},
		{"back to strict order", 12, 12, quorumlease.All, false, 0},
		{"back to strict order, with an entry that is held", 11, 12, quorumlease.All, true, 11},
	} {
		r := keyReader(9)
		rl := &r.reads
		rl.keys.leaseKeys = nil
		for i := range uint64(5) {
			rl.keys.appended(entryOfPuts(t, 2, 10+i, "k"))
		}
		rl.keys.releaseThrough(tt.through)
		rl.handedOut = tt.handedOut
		rl.onApplied(r.moment, Applied{Index: 11, ReadPolicy: tt.policy, LeaseKeys: keysOf})
		if k := &rl.keys; k.on != tt.on || k.on && (k.log.Keys().Floor() != tt.floor || k.leaseKeys == nil) {
			t.Errorf("%s: account of keys %v, in every state is what is up to %d, the keys of leases are known: %v; want %v, %d", tt.name, k.on, k.log.Keys().Floor(), k.leaseKeys != nil, tt.on, tt.floor)
		}
	}
	r = keyReader(9)
	rl = &r.reads
	rl.noteSnapshot(r.moment, &r.effects, 20)
	rl.keys.leaseKeys = nil
	rl.onApplied(r.moment, Applied{Index: 9, ReadPolicy: quorumlease.All, LeaseKeys: keysOf})
	if k := &rl.keys; !k.on || !k.loading || k.leaseKeys != nil {
		t.Errorf("while a snapshot is loaded, what was applied before it ends the account: %v, it is loading: %v, keys of leases: %v", !k.on, k.loading, k.leaseKeys != nil)
	}
}

// In strict order, a reader at a follower waits for the whole log, and a reader at a certain leader
// for what was acknowledged. Readers have one lease, of the order in force, and none while the log
// changes the holders of keys. They are informed when the lease changes.
func TestWhatReadersAreTold(t *testing.T) {
	s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
	for _, command := range []string{"elect 1", "pass 500ms"} {
		s.do(command)
	}
	for _, tt := range []struct {
		name   string
		member int
		change func(r *Replica)
		index  func(r *Replica) uint64 // nil: no lease
	}{
		{"the leader", 0, func(r *Replica) { r.last += 2 }, func(r *Replica) uint64 { return r.Status().Commit }},
		{"a leader in whose leadership others judged", 0, func(r *Replica) { r.last, r.reads.far = r.last+2, true }, func(r *Replica) uint64 { return r.last }},
		{"a follower", 1, func(r *Replica) { r.last += 2 }, func(r *Replica) uint64 { return r.last }},
		{"a follower whose log divides keys", 1, func(r *Replica) { r.reads.settings = []uint64{r.last} }, nil},
		{"a follower that loads a snapshot", 1, func(r *Replica) { r.reads.loading = r.last }, nil},
		{"a follower in key order", 1, func(r *Replica) { r.reads.keys.on = true }, nil},
	} {
		r := s.members[tt.member].r
		had, hadMoment := r.reads, r.moment
		r.outcomes, r.reads.shown = nil, ReadLease{Index: 1}
		tt.change(r)
		want := ReadLease{}
		if tt.index != nil {
			want = ReadLease{Until: r.reads.until(r.moment), Index: tt.index(r)}
		}
		r.reads.publish(r.moment, &r.effects, r.raft)
		if !reflect.DeepEqual(r.outcomes, []Outcome{want}) {
			t.Errorf("readers of %s are told %+v, want %+v", tt.name, r.outcomes, want)
		}
		if r.reads.publish(r.moment, &r.effects, r.raft); len(r.outcomes) != 1 {
			t.Errorf("readers of %s are told the same again: %+v", tt.name, r.outcomes)
		}
		r.reads, r.moment, r.outcomes = had, hadMoment, nil
	}
	r, node := keyReader(9), s.members[0].r.raft
	rl := &r.reads
	if rl.publish(r.moment, &r.effects, node); len(r.outcomes) != 1 || r.outcomes[0].(*KeyLease) == nil {
		t.Fatalf("in key order readers are told %+v, want a lease", r.outcomes)
	}
	rl.settings = []uint64{9} // so that strict order has no lease
	for _, stop := range []func(){func() { rl.keys.blind = true }, rl.keys.stop} {
		r.outcomes, rl.shownKeys, rl.keys.blind, rl.keys.on = nil, new(KeyLease), false, true
		stop()
		for range 2 {
			rl.publish(r.moment, &r.effects, node)
		}
		if len(r.outcomes) != 1 || r.outcomes[0].(*KeyLease) != nil || rl.shownKeys != nil {
			t.Errorf("the lease by keys has ended, and readers are told %+v, want once that there is none", r.outcomes)
		}
	}
}

// The leader of the ledger's term decides what is released, unless it is loading a snapshot: then it
// does not know the members. Whether followers have decided for themselves is remembered for the whole
// leadership.
func TestWhichLeaderJudges(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(rl *readLeases, term uint64)
		judges bool
		far    bool
	}{
		{"the leader", func(*readLeases, uint64) {}, true, false},
		{"one that was in key order", func(rl *readLeases, _ uint64) { rl.far = true }, true, true},
		{"with reports of an earlier term", func(rl *readLeases, term uint64) { rl.ledger.Begin(term-1, rl.memberships) }, false, false},
		{"that loads a snapshot", func(rl *readLeases, _ uint64) { rl.loading = 50 }, false, false},
	} {
		s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		for _, command := range []string{"elect 1", "pass 500ms"} {
			s.do(command)
		}
		r := s.members[0].r
		rl := &r.reads
		commit := rl.committed
		tt.change(rl, r.term)
		rl.committed, rl.released = 1, 1
		version := rl.version
		rl.release(r.moment, &r.effects, r.raft)
		if judges := rl.committed == commit; judges != tt.judges || (rl.released == commit) != judges || (rl.version > version) != judges || rl.far != tt.far {
			t.Errorf("a leader %s: committed up to %d, released up to %d, others are to be told %v, others judged %v; want that it judges: %v, %v",
				tt.name, rl.committed, rl.released, rl.version > version, rl.far, tt.judges, tt.far)
		}
	}
}

// In key order a follower that has the reports finds out by itself what is released, but for what its leader keeps. Each
// time that something becomes visible, the news change. While the log turns to strict order, only what is released
// is given to the Applier; that order begins when nothing that was given is held or open.
func TestWhatAFollowerReleases(t *testing.T) {
	for _, tt := range []struct {
		name     string
		change   func(r *Replica)
		outcomes []Outcome // without committed entries
		version  uint64
		given    uint64
		on       bool
	}{
		{"by reports", func(*Replica) {}, []Outcome{Released{Through: 10, Apart: []uint64{12}}}, 1, 12, true},
		{"without the leader's word that it knows", func(r *Replica) { r.reads.keys.news.Horizon = 0 }, nil, 0, 12, true},
		{"while the order ends", func(r *Replica) { r.reads.setting.policy = quorumlease.All }, []Outcome{Released{Through: 10, Apart: []uint64{12}}}, 1, 9, false},
		{"while the order ends, and the leader knows more", func(r *Replica) {
			r.reads.setting.policy, r.reads.released = quorumlease.All, 11
		}, []Outcome{Released{Through: 10, Apart: []uint64{12}}}, 1, 11, true},
		{"when the order has ended", func(r *Replica) {
			r.reads.setting.policy, r.reads.held, r.reads.committed = quorumlease.All, nil, 9
		}, nil, 0, 9, false},
		{"when the order has ended, and not all is applied", func(r *Replica) {
			r.reads.setting.policy, r.reads.held, r.reads.committed, r.reads.applied = quorumlease.All, nil, 9, 8
		}, nil, 0, 9, true},
		{"when the order has ended, and something is held", func(r *Replica) {
			r.reads.setting.policy, r.reads.held, r.reads.committed, r.reads.handedOut = quorumlease.All, nil, 9, 10
			r.reads.applied = 10
		}, nil, 0, 10, true},
	} {
		s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		for _, command := range []string{"elect 1", "pass 500ms"} {
			s.do(command)
		}
		r := keyReader(9)
		r.cfg.ID, r.self, r.leader, r.term, r.last = 2, 2, 1, s.members[1].r.term, 12
		r.raft = s.members[1].r.raft
		rl := &r.reads
		rl.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}})
		rl.ledger.Begin(r.term, rl.memberships)
		for _, m := range []machine.NodeID{1, 2} {
			rl.ledger.Report(m, quorumlease.Report{Boot: 1, Term: r.term, Durable: 12})
		}
		k := &rl.keys
		k.told, k.news = 9, quorumlease.News{Term: r.term, Released: 9, Horizon: 9}
		for i, name := range []string{"a", "k", "b"} {
			e := entryOfPuts(t, r.term, uint64(10+i), name)
			if name == "k" {
				keep(e.Data)
			}
			rl.held = append(rl.held, e)
			k.appended(e)
		}
		rl.committed, rl.handedOut, rl.applied, rl.released, rl.version = 12, 9, 9, 9, 0
		tt.change(r)
		rl.release(r.moment, &r.effects, r.raft)
		var outcomes []Outcome
		for _, out := range r.outcomes {
			if c, ok := out.(Committed); !ok {
				outcomes = append(outcomes, out)
			} else if !c.Held {
				t.Errorf("%s: entries are given to be seen", tt.name)
			}
		}
		if !reflect.DeepEqual(outcomes, tt.outcomes) || rl.version != tt.version || rl.handedOut != tt.given || k.on != tt.on {
			t.Errorf("%s: %+v, the news change %d times, entries up to %d are given, in key order: %v; want %+v, %d, %d, %v", tt.name, outcomes, rl.version, rl.handedOut, k.on, tt.outcomes, tt.version, tt.given, tt.on)
		}
	}
}

// A change of the membership that is released in a turn counts in that turn. One that takes itself for the leader judges
// nothing, if raft does not.
func TestReleasesSettleTheMembers(t *testing.T) {
	s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
	for _, command := range []string{"elect 1", "pass 500ms"} {
		s.do(command)
	}
	r := s.members[0].r
	r.reads.count(r.reads.memberships.With(quorumlease.Membership{Index: r.reads.committed, Voters: []machine.NodeID{1, 2}}))
	if len(r.reads.memberships) != 2 {
		t.Fatalf("the memberships are %+v", r.reads.memberships)
	}
	r.reads.release(r.moment, &r.effects, r.raft)
	if len(r.reads.memberships) != 1 {
		t.Errorf("a change of the membership is released, and there count %+v", r.reads.memberships)
	}
	commit := r.reads.committed
	r.reads.ledger.Begin(r.term, r.reads.memberships)
	r.reads.committed = 1
	if r.reads.release(r.moment, &r.effects, r.raft); r.reads.committed != commit {
		t.Errorf("a leader without reports knows that all up to %d is committed, and takes %d for it", commit, r.reads.committed)
	}
	r = s.members[1].r
	r.leader, r.reads.committed = 2, 1
	if r.reads.release(r.moment, &r.effects, r.raft); r.reads.committed != 1 {
		t.Errorf("a follower that takes itself for the leader judges what is committed up to %d", r.reads.committed)
	}
}

// In key order, replaced entries hold nothing. A snapshot that is being loaded makes no more visible than was before it.
func TestKeyOrderFollowsTheLog(t *testing.T) {
	r := keyReader(9)
	r.last = 9
	rl := &r.reads
	rl.noteAppended(r.moment, []*raftpb.Entry{entryOfPuts(t, 1, 10, "a"), entryOfPuts(t, 1, 11, "b")})
	r.last = 11
	rl.noteAppended(r.moment, []*raftpb.Entry{entryOfPuts(t, 2, 10, "c")})
	if got := slices.Collect(rl.keys.log.unreleased()); !slices.Equal(got, []uint64{10}) || rl.keys.log.Keys().LastTouch(key("a")) != 0 || rl.keys.log.Keys().LastTouch(key("c")) != 10 {
		t.Errorf("where entry 10 has replaced two, the entries %d are held, and a is changed by entry %d", got, rl.keys.log.Keys().LastTouch(key("a")))
	}
	rl.released = 25
	rl.noteSnapshot(r.moment, &r.effects, 20)
	if rl.keys.through != 9 || !rl.keys.blind {
		t.Errorf("while a snapshot of 20 is loaded, all up to %d is visible, want 9", rl.keys.through)
	}
}

// Writes are counted request by request: those of a lease that ends as a state has them, and none of a request that
// cannot be read.
func TestWhichWritesAreCounted(t *testing.T) {
	revoke := bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 7})
	txn := bodyOf(t, kindTxn, &pb.TxnRequest{Success: []*pb.RequestOp{putOp(&pb.PutRequest{Key: []byte("k")})}})
	for _, tt := range []struct {
		name   string
		bodies [][]byte
		want   map[string]uint64
		pairs  int
	}{
		{"puts", [][]byte{putOf(t, "a"), putOf(t, "b"), putOf(t, "a")}, map[string]uint64{"a": 20, "b": 10}, 0},
		{"the end of a lease", [][]byte{revoke}, map[string]uint64{"of 7": 10, "and 7": 10}, 1},
		{"what cannot be read", [][]byte{putOf(t, "a"), append(slices.Clone(txn), 0xff)}, map[string]uint64{"a": 10, "k": 0}, 0},
	} {
		r := keyReader(9)
		r.leader, r.term, r.last = 1, 2, 9
		rl := &r.reads
		rl.keys.leaseKeys = func(int64) [][]byte { return [][]byte{[]byte("of 7"), []byte("and 7")} }
		rl.plans.counter = placement.NewCounter(16)
		for i := range uint64(10) {
			e := &raftpb.Entry{Index: new(10 + i), Term: new(uint64(2))}
			b := &batch{Term: 2, From: 3}
			for _, body := range tt.bodies {
				b.Requests = append(b.Requests, Propose{Body: body})
			}
			e.Data = b.encode()
			rl.noteAppended(r.moment, []*raftpb.Entry{e})
		}
		got := rl.plans.counter.Take()
		for name, want := range tt.want {
			n := uint64(0)
			if writes := got.Of([]byte(name)).Writes; len(writes) > 0 {
				n = writes[0]
			}
			if n != want {
				t.Errorf("of ten entries with %s, %d writes of %s are counted, want %d", tt.name, n, name, want)
			}
		}
		if len(got.Pairs) != tt.pairs {
			t.Errorf("of ten entries with %s, %d pairs of keys are counted as written together, want %d", tt.name, len(got.Pairs), tt.pairs)
		}
	}
}
