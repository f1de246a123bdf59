package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"go.etcd.io/raft/v3/raftpb"
)

// Another batch of a lane is due when its last has been on its way for a moment, if anything waits there and not too
// many are on their way. The first lane to be due sets the alarm.
func TestWhenTheNextBatchIsDue(t *testing.T) {
	const now = machine.Mono(time.Hour)
	open := []Propose{{ID: 1}}
	of := func(flying int, age time.Duration, open []Propose) *lane {
		return &lane{flying: flying, last: now.Add(-age), open: open}
	}
	for _, tt := range []struct {
		name  string
		lanes []*lane
		want  machine.Mono
	}{
		{"nothing", nil, machine.Never},
		{"a lane that waits", []*lane{of(maxBatches, 1, open)}, now.Add(spacing - 1)},
		{"a lane with nothing open", []*lane{of(maxBatches, 1, nil)}, machine.Never},
		{"a lane that may go", []*lane{of(maxBatches-1, 1, open)}, machine.Never},
		{"a lane with as many as may be", []*lane{of(maxFlying, 1, open)}, machine.Never},
		{"two lanes, the first sooner", []*lane{of(maxBatches, 3, open), of(maxBatches, 1, open)}, now.Add(spacing - 3)},
		{"two lanes, the second sooner", []*lane{of(maxBatches, 1, open), of(maxBatches, 3, open)}, now.Add(spacing - 3)},
	} {
		if got := (&proposals{lanes: tt.lanes}).due(now); got != tt.want {
			t.Errorf("with %s, the next batch is due at %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Batches that wait for the next tick, or that are on their way, are not addressed. One that another term's leader has
// refused by the log is addressed at once. An older snapshot does not bring an older term back.
func TestWhichBatchesAreAddressed(t *testing.T) {
	p := &proposals{appliedTerm: 4}
	batches := []*pending{{}, {waits: true}, {term: 3}, {term: 3, waits: true}, {}}
	p.sent = batches
	if got := p.unaddressed(); !slices.Equal(got, []*pending{batches[0], batches[4]}) {
		t.Errorf("of five batches %d are addressed, want the first and the last", len(got))
	}
	refused := &pending{term: 4, seq: 7}
	p.sent = []*pending{refused}
	p.settled(Applied{Term: 4, Batches: []batchFate{{Seq: 7, Refused: true}}})
	if got := p.unaddressed(); len(got) != 1 {
		t.Errorf("a batch that the log has refused waits: %+v", *refused)
	}
	if p.restored(new(effects), 3); p.appliedTerm != 4 {
		t.Errorf("behind a snapshot of term 3, dead batches were looked for up to term %d, want 4", p.appliedTerm)
	}
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	for i, entry := range []bool{false, true} { // a leader keeps no copy of what it has in its log
		r := s.members[i].r
		b := &pending{requests: []Propose{{ID: 1, Body: putOf(t, "k")}}}
		if !r.address(b) || (b.entry != nil) != entry || b.term != r.term || b.seq != r.proposals.seq || b.sent != r.now {
			t.Errorf("member %d addresses a batch: %+v, want an entry kept: %v", i+1, *b, entry)
		}
	}
}

// A batch takes what fits, to the byte, and its requests are its own. The size of a request bounds what it takes in an
// entry, with its caller.
func TestWhatFitsInABatch(t *testing.T) {
	reqs := []Propose{{ID: 1, Body: make([]byte, 100)}, {ID: 2, Body: make([]byte, 200)}, {ID: 3, Body: make([]byte, 300)}}
	two := reqs[0].size() + reqs[1].size()
	for _, tt := range []struct{ max, want int }{{1, 1}, {two - 1, 1}, {two, 2}, {two + reqs[2].size() - 1, 2}, {two + reqs[2].size(), 3}} {
		l := &lane{open: slices.Clone(reqs)}
		got := l.next(tt.max)
		if len(got) != tt.want || len(l.open) != 3-tt.want {
			t.Errorf("of up to %d bytes a batch takes %d requests, and %d wait, want %d", tt.max, len(got), len(l.open), tt.want)
		}
		if _ = append(got, Propose{ID: 99}); len(l.open) > 0 && l.open[0].ID == 99 {
			t.Error("a batch that grows takes the place of what waits")
		}
	}
	empty := len((&batch{}).encode())
	for _, req := range []Propose{
		{}, {ID: 1 << 63, Body: make([]byte, 1<<16)}, {ID: 1 << 63, Caller: auth.Caller{User: string(make([]byte, 1<<12)), Revision: 1 << 62}}, {Caller: auth.Caller{Member: true}},
	} {
		if got := len((&batch{Requests: []Propose{req}}).encode()) - empty; got > req.size() {
			t.Errorf("a request of size %d takes %d bytes", req.size(), got)
		}
	}
}

// Voters and learners are named in order, whichever came last.
func TestMembersAreNamedInOrder(t *testing.T) {
	for _, tt := range []struct {
		change           *raftpb.ConfChange
		voters, learners []machine.NodeID
	}{
		{AddMember(3, []string{"a"}, false), []machine.NodeID{2, 3, 5}, []machine.NodeID{4, 7}},
		{AddMember(6, []string{"a"}, true), []machine.NodeID{2, 5}, []machine.NodeID{4, 6, 7}},
		{AddMember(1, []string{"a"}, true), []machine.NodeID{2, 5}, []machine.NodeID{1, 4, 7}},
		{PromoteMember(4), []machine.NodeID{2, 4, 5}, []machine.NodeID{7}},
		{RemoveMember(5), []machine.NodeID{2}, []machine.NodeID{4, 7}},
		{RemoveMember(4), []machine.NodeID{2, 5}, []machine.NodeID{7}},
		{UpdateMember(5, []string{"b"}), []machine.NodeID{2, 5}, []machine.NodeID{4, 7}},
	} {
		got := next(quorumlease.Membership{Index: 1, Voters: []machine.NodeID{2, 5}, Learners: []machine.NodeID{4, 7}}, 9, tt.change)
		if got.Index != 9 || !slices.Equal(got.Voters, tt.voters) || !slices.Equal(got.Learners, tt.learners) {
			t.Errorf("after %v: %+v, want voters %d, learners %d of entry 9", tt.change, got, tt.voters, tt.learners)
		}
	}
}

// A record's promise is no news any more. A record that is written at once is waited for, as all that are handed out.
func TestWhatIsWaitedFor(t *testing.T) {
	hard := &raftpb.HardState{Term: new(uint64(2)), Commit: new(uint64(9))}
	for _, tt := range []struct {
		name string
		rec  Record
		want bool
	}{
		{"a commit index", Record{HardState: hard}, false},
		{"entries", Record{HardState: hard, Entries: []*raftpb.Entry{entryAt(3, 1, 0)}}, true},
		{"a snapshot", Record{HardState: hard, Snapshot: new(raftpb.Snapshot)}, true},
		{"a vote", Record{HardState: &raftpb.HardState{Term: new(uint64(2)), Vote: new(uint64(3))}}, true},
		{"a term", Record{HardState: &raftpb.HardState{Term: new(uint64(3))}}, true},
		{"nothing", Record{}, false},
	} {
		w := &writes{term: 2, news: hard}
		got := w.promises(&tt.rec)
		if got != tt.want || got && w.news != nil || !got && w.news != tt.rec.HardState {
			t.Errorf("a record with %s promises something: %v, want %v; the news are %v", tt.name, got, tt.want, w.news)
		}
	}
	r := keyReader(9)
	r.tail = newTail(nil, snapshotAt(4, 1), []*raftpb.Entry{entryAt(5, 1, 1)}, 1000)
	r.writes.news = hard
	r.writeAtOnce()
	if len(r.persists) != 1 || len(r.persists[0].Then) != 1 || r.writes.underWay != 1 || r.writes.news != nil {
		t.Fatalf("news are written at once as %+v, and %d records are under way", r.persists, r.writes.underWay)
	}
	if r.writeAtOnce(); len(r.persists) != 1 {
		t.Error("without news a record is written")
	}
	r.onDurable(durable{Record: Record{Snapshot: &raftpb.Snapshot{Metadata: snapshotAt(8, 2)}}})
	if r.writes.underWay != 0 || r.tail.snap.GetIndex() != 8 || r.tail.first() != 9 || r.tail.last() != 8 {
		t.Fatalf("behind a durable snapshot of 8 the log is from %d to %d, and %d records are under way", r.tail.first(), r.tail.last(), r.writes.underWay)
	}
	if r.onDurable(durable{Record: Record{Entries: []*raftpb.Entry{entryAt(9, 2, 1)}}}); r.tail.last() != 9 {
		t.Errorf("an entry behind it is durable, and the log is up to %d", r.tail.last())
	}
}

// A holder whose disk is slow tells the leader at once what has arrived, for a write waits for it. Others do not.
func TestArrivalsAreToldWithTheWrite(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *Replica)
		want   bool
	}{
		{"a holder with a slow disk", func(*Replica) {}, true},
		{"a holder with a fast disk", func(r *Replica) { r.reads.flush = slowFlush }, false},
		{"one without a lease", func(r *Replica) { r.reads.wanted = 0 }, false},
	} {
		r := keyReader(9)
		r.leader, r.term, r.last = 2, 1, 9
		r.reads.keys.stop()
		r.reads.flush = slowFlush + 1
		tt.change(r)
		r.write(&raftpb.Message{Type: raftpb.MsgStorageAppend.Enum(), Entries: []*raftpb.Entry{entryAt(10, 1, 1)}})
		if got := len(r.sends) == 1 && r.sends[0].To == 2; got != tt.want || len(r.persists) != 1 || r.last != 10 {
			t.Errorf("%s tells the leader at once: %+v, want %v; it writes %d records, and its log ends at %d", tt.name, r.sends, tt.want, len(r.persists), r.last)
		}
	}
}
