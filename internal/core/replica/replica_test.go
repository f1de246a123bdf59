package replica

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// A message that claims another sender than the connection it came by is not
// heard; least of all one that claims to be this member's own storage.
func TestSenderMustBeWhoItSays(t *testing.T) {
	s := newStage(t)
	s.do("elect 1")
	m := s.members[0]
	before := m.r.Status()
	for _, from := range []uint64{raft.LocalAppendThread, raft.LocalApplyThread, 1, 3} {
		term, index := before.Term+1, uint64(99)
		for _, typ := range []raftpb.MessageType{raftpb.MsgStorageAppendResp, raftpb.MsgStorageApplyResp, raftpb.MsgApp, raftpb.MsgHeartbeat} {
			m.r.Receive(machine.Now{Mono: s.now}, machine.Envelope{From: 2, To: 1, Body: &raftpb.Message{
				Type: typ.Enum(), From: &from, Term: &term, Index: &index,
			}})
		}
	}
	two := uint64(2)
	m.r.Receive(machine.Now{Mono: s.now}, machine.Envelope{From: 2, To: 1, Body: &raftpb.Message{
		Type: raftpb.MsgProp.Enum(), From: &two, Entries: []*raftpb.Entry{{Data: []byte("x")}},
	}})
	m.r.Receive(machine.Now{Mono: s.now}, machine.Envelope{From: 2, To: 1, Body: durable{Record: Record{Entries: []*raftpb.Entry{entryAt(50, 9, 1)}}}})
	s.ready(m)
	if after := m.r.Status(); after.Term != before.Term || after.Leader != before.Leader || after.Last != before.Last {
		t.Errorf("the member went from %+v to %+v", before, after)
	}
}

// Only a batch of its sender gets into the log.
func TestForwardMustBeItsSendersBatch(t *testing.T) {
	s := newStage(t)
	s.do("elect 1")
	m := s.members[0]
	term := m.r.Status().Term
	good := (&batch{Term: term, From: 2, Boot: 1, Seq: 1}).encode()
	for _, f := range []forward{
		{Term: term, Seq: 1, Entry: nil},
		{Term: term, Seq: 1, Entry: []byte("nonsense")},
		{Term: term, Seq: 1, Entry: good[:len(good)-1]},
		{Term: term, Seq: 2, Entry: good},
		{Term: term + 1, Seq: 1, Entry: good},
		{Term: term, Seq: 1, Entry: (&batch{Term: term, From: 3, Boot: 1, Seq: 1}).encode()},
		{Term: term, Seq: 1, Entry: (&batch{Term: term - 1, From: 2, Boot: 1, Seq: 1}).encode()},
	} {
		last := m.r.Status().Last
		s.step(m, machine.Envelope{From: 2, To: 1, Body: f})
		if got := m.r.Status().Last; got != last {
			t.Errorf("%+v got into the log", f)
		}
	}
	last := m.r.Status().Last
	s.step(m, machine.Envelope{From: 2, To: 1, Body: forward{Term: term, Seq: 1, Entry: good}})
	if got := m.r.Status().Last; got != last+1 {
		t.Errorf("a good batch did not get into the log")
	}
}

func TestConfigErrors(t *testing.T) {
	log := Genesis([]machine.NodeID{1})
	for want, cfg := range map[string]Config{
		"ID is zero":         {},
		"is not positive":    {ID: 1},
		"is less than 3":     {ID: 1, Tick: time.Second, ElectionTicks: 2},
		"use Genesis":        {ID: 1, Tick: time.Second, ElectionTicks: 10},
		"before the snapsho": {ID: 1, Tick: time.Second, ElectionTicks: 10, Log: log},
	} {
		if _, err := New(cfg, machine.Now{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// An entry that this version does not understand stops the Applier; it must not
// guess what the others do.
func TestApplierRefuses(t *testing.T) {
	unknown := (&batch{Term: 2, From: 1, Requests: []Propose{{Body: []byte{200}}}}).encode()
	broken := (&batch{Term: 2, From: 1, Requests: []Propose{{Body: []byte{kindPut, 0xff}}}}).encode()
	two, three, four := uint64(2), uint64(3), uint64(4)
	for name, e := range map[string]*raftpb.Entry{
		"a gap":              {Index: &four, Term: &two},
		"one applied before": {Index: new(uint64), Term: &two},
		"no batch":           {Index: &two, Term: &two, Data: []byte("x")},
		"an unknown kind":    {Index: &two, Term: &two, Data: unknown},
		"a broken request":   {Index: &two, Term: &two, Data: broken},
		"a new membership":   {Index: &two, Term: &two, Type: raftpb.EntryConfChange.Enum()},
	} {
		a := NewApplier(1, 1)
		if err := a.Apply(e); err == nil || a.Index() != 1 {
			t.Errorf("%s: applied up to %d, error %v", name, a.Index(), err)
		}
	}
	a := NewApplier(1, 1)
	void := (&batch{Term: 2, From: 1, Boot: 1, Seq: 7, Requests: []Propose{{ID: 1, Body: []byte{200}}}}).encode()
	if err := a.Apply(&raftpb.Entry{Index: &two, Term: &three, Data: void}); err != nil {
		t.Errorf("a batch for another term: %v", err)
	}
	applied, results := a.Take()
	if len(results) != 0 || len(applied.Batches) != 1 || applied.Batches[0] != (batchFate{Seq: 7, Refused: true}) {
		t.Errorf("a batch for another term: %+v, results %v", applied, results)
	}
}

// What was applied before a snapshot says nothing of the state behind it, though it was not
// released yet.
func TestASnapshotReplacesWhatWaitsToBeShown(t *testing.T) {
	m := newStage(t).members[0]
	r := m.r
	r.unreleased = []Applied{{Index: 3, Term: 1, Leases: []leaseChange{{ID: 5, Kind: leaseGranted, TTL: 60}}, Roster: r.roster}}
	in := m.a.Restored()
	in.Index, in.Term, in.Released = 10, 2, 10
	r.onRestored(in)
	if r.show(); r.visible != 10 || r.visibleTerm != 2 || len(r.leases.table)+len(r.leases.late) > 0 {
		t.Errorf("behind a snapshot of 10 the state is one of %d, term %d, with %d leases", r.visible, r.visibleTerm, len(r.leases.table)+len(r.leases.late))
	}
}

// A snapshot hides the fate of batches that were addressed before it, for their entries are
// not seen: their callers are told so. One that is addressed to a later leader, or to nobody yet,
// goes on (P3).
func TestASnapshotHidesFates(t *testing.T) {
	m := newStage(t).members[0]
	r := m.r
	r.proposals.sent = []*pending{
		{requests: []Propose{{ID: 1}, {ID: 2}}, lane: &lane{}, seq: 1, term: 1, since: r.now},
		{requests: []Propose{{ID: 3}}, lane: &lane{}, seq: 2, term: 2, since: r.now},
		{requests: []Propose{{ID: 4}}, lane: &lane{}, seq: 3, term: 3, since: r.now},
		{requests: []Propose{{ID: 5}}, lane: &lane{}, since: r.now},
	}
	in := m.a.Restored()
	in.Index, in.Term, in.Released = 10, 2, 10
	r.onRestored(in)
	var told []Outcome
	for _, out := range r.outcomes {
		if d, ok := out.(Dropped); ok {
			told = append(told, d)
		}
	}
	if want := []Outcome{Dropped{IDs: []uint64{1, 2}, Ambiguous: true}, Dropped{IDs: []uint64{3}, Ambiguous: true}}; !reflect.DeepEqual(told, want) {
		t.Errorf("behind a snapshot of term 2 callers are told %+v, want %+v", told, want)
	}
	if left := r.proposals.sent; len(left) != 2 || left[0].seq != 3 || left[1].term != 0 || r.proposals.appliedTerm != 2 {
		t.Errorf("behind a snapshot of term 2 %d batches go on, and dead ones were looked for up to term %d; want two, and 2", len(left), r.proposals.appliedTerm)
	}
}

// The alarm is for what is due first, whatever that is.
func TestTheAlarmIsForWhatIsDueFirst(t *testing.T) {
	s := newStage(t)
	s.do("elect 1")
	s.do("pass 1s")
	r := s.members[0].r
	if got := r.alarm(); got != r.nextTick {
		t.Fatalf("with nothing to do the alarm is in %v, want the next tick, in %v", got.Sub(r.now), r.nextTick.Sub(r.now))
	}
	due := r.now.Add(spacing)
	r.nextTick = r.now.Add(time.Second)
	r.proposals.lanes = []*lane{{open: []Propose{{ID: 1}}, flying: maxBatches, last: r.now}}
	if got := r.alarm(); got != due {
		t.Errorf("with a batch that waits for its turn the alarm is in %v, want %v", got.Sub(r.now), spacing)
	}
	r.proposals.lanes = nil
	r.rounds.flying, r.rounds.wanted = []round{{since: r.now}, {since: r.now}}, 99
	if got := r.alarm(); got != due {
		t.Errorf("with a round that waits for its turn the alarm is in %v, want %v", got.Sub(r.now), spacing)
	}
	r.rounds.reset()
	r.bereaved, r.campaignAt = true, r.now+7
	if got := r.alarm(); got != r.now+7 {
		t.Errorf("with a campaign to come the alarm is in %v, want 7ns", got.Sub(r.now))
	}
}

// Leadership goes to the follower that has most of the log, and to a voter that is named if one is.
func TestLeadershipGoesToWhoHasMost(t *testing.T) {
	for name, c := range map[string]struct {
		to, want machine.NodeID
		typ      raftpb.MessageType
	}{"nobody is named": {0, 2, raftpb.MsgTimeoutNow}, "member 3 is named": {3, 3, raftpb.MsgApp}} {
		s := newStage(t)
		for _, command := range []string{"elect 1", "pass 1s", "cut 3", "put 1 a b", "deliver"} {
			s.do(command)
		}
		m := s.members[0]
		s.wire = nil
		m.r.reads.served(m.r.now) // somebody reads here
		s.step(m, HandOver{To: c.to})
		// With nobody named it will come to it, and the next leader need not wait for this one's lease.
		if keeps := m.r.reads.wanted > s.now; keeps != (c.to != 0) {
			t.Errorf("%s: the leader keeps its lease: %v", name, keeps)
		}
		found := false
		for _, env := range s.wire {
			var msg *raftpb.Message
			switch body := env.Body.(type) {
			case *raftpb.Message:
				msg = body
			case announced:
				msg = body.Message
			default:
				continue
			}
			found = found || env.To == c.want && msg.GetType() == c.typ
			if msg.GetType() == raftpb.MsgTimeoutNow && env.To != c.want {
				t.Errorf("%s, and member %d is to lead", name, env.To)
			}
		}
		if !found {
			t.Errorf("%s: no %v to member %d, which has most of the log or is to have it", name, c.typ, c.want)
		}
	}
}

// Answers about leases are the followed leader's. Another member may have led before, and have slept
// since.
func TestOnlyTheLeaderAnswersAboutLeases(t *testing.T) {
	for from, want := range map[machine.NodeID]int{2: 1, 3: 0} {
		r := keyReader(9)
		r.leader = 2
		r.heard = map[machine.NodeID]machine.Mono{}
		r.asks.own = map[uint64]*ownAsk{1: {ask: leaseAsk{ID: 1, Lease: 7}}}
		r.receive(machine.Envelope{From: from, To: 1, Body: leaseAnswers{Answers: []AnswerLease{{ID: 1, Lease: 7, TTL: 60}}}})
		if len(r.outcomes) != want {
			t.Errorf("member 2 leads, member %d answers, and %d answers are told; want %d", from, len(r.outcomes), want)
		}
	}
}

// A snapshot is wanted when the log has grown, or a newcomer needs one, if there is a state to make it
// of. It is wanted once.
func TestWhenASnapshotIsWanted(t *testing.T) {
	const snapshot, joined, bound = 5, 8, 1000
	for _, tt := range []struct {
		name    string
		bytes   int
		applied uint64
		missed  bool
		want    bool
	}{
		{"of a log that has not grown", bound / 2, 9, false, false},
		{"of a log that has grown", bound/2 + 1, 9, false, true},
		{"of a log that has grown, and of which nothing is applied", bound/2 + 1, snapshot, false, false},
		{"of a log that has grown, and of which an entry is applied", bound/2 + 1, snapshot + 1, false, true},
		{"for a newcomer", 0, joined, true, true},
		{"for a newcomer whose entry is not applied", 0, joined - 1, true, false},
	} {
		r := newStage(t).members[0].r
		r.cfg.MaxTailBytes, r.tail.snap, r.tail.joined = bound, snapshotAt(snapshot, 1), joined
		r.tail.bytes, r.tail.missed, r.reads.applied = tt.bytes, tt.missed, tt.applied
		wanted := 0
		for range 2 {
			for _, out := range r.Ready().Outcomes {
				if out == (WantSnapshot{}) {
					wanted++
				}
			}
		}
		if got := wanted == 1; got != tt.want || wanted > 1 {
			t.Errorf("%s, a snapshot is wanted %d times, want it: %v", tt.name, wanted, tt.want)
		}
	}
}

// Raft learns of all that is applied, the last entry included. Otherwise it would hand out ever less.
func TestRaftKnowsWhatIsApplied(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "put 1 a b", "deliver", "pass 200ms"} {
		s.do(command)
	}
	for _, m := range s.members {
		if st := m.r.raft.BasicStatus(); st.Applied != st.HardState.GetCommit() || len(m.r.applying) > 0 {
			t.Errorf("member %d has applied all up to %d, and raft knows of %d; %d entries are still being applied", m.id, st.HardState.GetCommit(), st.Applied, len(m.r.applying))
		}
	}
}

// Leadership is handed to a voter that was heard of just now, however much of the log another has.
func TestLeadershipGoesToALivingVoter(t *testing.T) {
	for name, tt := range map[string]struct {
		commands []string
		learner  uint64
		want     uint64
	}{
		"member 2 has as much, and is silent": {[]string{"put 1 a b", "deliver", "cut 2", "pass 2s"}, 0, 3},
		"member 3 has more, and learns":       {[]string{"cut 2", "put 1 a b", "deliver", "mend 2"}, 3, 2},
	} {
		s := newStage(t)
		for _, command := range append([]string{"elect 1", "pass 1s"}, tt.commands...) {
			s.do(command)
		}
		r := s.members[0].r
		if tt.learner != 0 {
			r.raft.ApplyConfChange(&raftpb.ConfChange{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: &tt.learner})
		}
		if r.handOver(0); r.raft.BasicStatus().LeadTransferee != tt.want {
			t.Errorf("%s: member %d is to lead, want %d", name, r.raft.BasicStatus().LeadTransferee, tt.want)
		}
	}
}
