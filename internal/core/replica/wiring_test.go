package replica

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// Each kind of message comes to the part that it is for.
func TestWhereMessagesGo(t *testing.T) {
	for _, tt := range []struct {
		name   string
		member int // that receives it
		body   func(r *Replica) any
		before func(r *Replica)
		got    func(r *Replica) any
		want   any
	}{
		{"an acknowledgment with a report", 0,
			func(r *Replica) any {
				return reported{&raftpb.Message{Type: raftpb.MsgAppResp.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: &r.term, Index: &r.last}, quorumlease.Report{Boot: 1, Term: r.term, Durable: r.last}}
			},
			func(r *Replica) { r.reads.ledger.Begin(r.term, r.reads.memberships) },
			func(r *Replica) (match any) {
				r.reads.ledger.Report(1, quorumlease.Report{Boot: 1, Term: r.term, Durable: r.last})
				vouched := r.reads.ledger.Acknowledged(r.last) == r.last
				r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
					if id == 2 {
						match = []bool{pr.Match == r.last, vouched}
					}
				})
				return match
			}, []bool{true, true}},
		{"a message with news", 1,
			func(r *Replica) any {
				return announced{&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(r.term + 1)}, quorumlease.News{Term: r.term + 1, Released: 77}}
			}, nil,
			func(r *Replica) any {
				return []bool{r.raft.BasicStatus().HardState.GetTerm() == r.term+1, r.reads.released == 77}
			}, []bool{true, true}},
		{"counts of reads", 0,
			func(*Replica) any { return counts{Boot: 1, Seq: 1} },
			func(r *Replica) { r.reads.plans.counter = placement.NewCounter(16) },
			func(r *Replica) any { return len(r.reads.plans.observed) }, 1},
		{"a batch that is refused", 1,
			func(r *Replica) any { return refused{Boot: 1, Term: r.term, Seq: 5} },
			func(r *Replica) {
				r.proposals.sent = []*pending{{requests: []Propose{{ID: 1}}, lane: &lane{}, term: r.term, seq: 5}}
			},
			func(r *Replica) any { return r.proposals.sent[0].term }, uint64(0)},
		{"a change that is rejected", 1,
			func(r *Replica) any { return rejected{Boot: 1, Term: r.term, Seq: 5, Why: unhealthy} },
			func(r *Replica) {
				r.outcomes = nil
				r.proposals.sent = []*pending{{requests: []Propose{{ID: 1}}, lane: &lane{}, term: r.term, seq: 5}}
			},
			func(r *Replica) any { return r.outcomes }, []Outcome{Rejected{ID: 1, Err: unhealthy.err()}}},
		{"an answer to a question", 1,
			func(*Replica) any { return readAnswer{Boot: 1, Round: 9, Index: 55} },
			func(r *Replica) { r.outcomes, r.rounds.flying = nil, []round{{id: 9, reads: 4}} },
			func(r *Replica) any { return r.outcomes }, []Outcome{ReadReady{Number: 4, Index: 55}}},
		{"an answer to a question of an earlier life", 1,
			func(*Replica) any { return readAnswer{Boot: 9, Round: 9, Index: 55} },
			func(r *Replica) { r.outcomes, r.rounds.flying = nil, []round{{id: 9, reads: 4}} },
			func(r *Replica) any { return len(r.outcomes) + 10*len(r.rounds.flying) }, 10},
		{"news", 1,
			func(r *Replica) any { return quorumlease.News{Term: r.term, Released: 77} }, nil,
			func(r *Replica) any { return r.reads.released }, uint64(77)},
	} {
		s := led(t, ReadLeases{})
		r := s.members[tt.member].r
		r.nextTick = machine.Never
		if tt.before != nil {
			tt.before(r)
		}
		r.Receive(machine.Now{Mono: s.now}, machine.Envelope{From: machine.NodeID(2 - tt.member), To: machine.NodeID(tt.member + 1), Body: tt.body(r)})
		if got := tt.got(r); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("after %s a member has %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// What a snapshot says takes the place of what was known: members, leases, users, alarms. Raft learns that the entries
// up to it are applied, and no more.
func TestWhatASnapshotTells(t *testing.T) {
	s := led(t, ReadLeases{})
	r := s.members[0].r
	last := r.raft.BasicStatus().Applied
	r.applying = []*raftpb.Entry{entryAt(last, 1, 0), entryAt(last+1, 1, 0)}
	roster := FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}})
	roster.Removed = []uint64{1}
	r.onRestored(Restored{Index: last, Term: 4, Released: last, Roster: roster, AlarmsUsed: true, Leases: []leaseChange{{ID: 7, TTL: 60}}})
	if !r.alarmsUsed || r.usersUsed || len(r.roster.Members) != 2 || !slices.Contains(r.outcomes, Outcome(Removed{})) {
		t.Errorf("a snapshot tells of alarms, and of two members without this one: alarms %v, users %v, %d members, outcomes %+v", r.alarmsUsed, r.usersUsed, len(r.roster.Members), r.outcomes)
	}
	if len(r.leases.known)+len(r.leases.table) != 1 {
		t.Errorf("a snapshot tells of a lease, and %d are known", len(r.leases.known)+len(r.leases.table))
	}
	if len(r.applying) != 1 || r.applying[0].GetIndex() != last+1 {
		t.Errorf("behind a snapshot of %d, %d entries are being applied, want that of %d", last, len(r.applying), last+1)
	}
	r.outcomes = nil
	r.onApplied(Applied{Index: last, Term: 4, Roster: roster})
	if !r.alarmsUsed || len(r.outcomes) > 0 {
		t.Errorf("an alarm was used once, and that counts: %v; the owner is told %+v", r.alarmsUsed, r.outcomes)
	}
}

// A member knows from its state whether alarms were ever used.
func TestAMemberBeginsWithAlarms(t *testing.T) {
	r, err := New(Config{ID: 1, Boot: 1, Tick: time.Second, ElectionTicks: 10, Log: Genesis([]machine.NodeID{1, 2, 3}), Restored: Restored{Index: 1, AlarmsUsed: true}}, machine.Now{})
	if err != nil || !r.alarmsUsed {
		t.Errorf("a member that begins with a state in which alarms were used knows of them: %v, %v", r.alarmsUsed, err)
	}
}

// Asks that wait for a revocation are answered when it is visible.
func TestAsksBehindARevocation(t *testing.T) {
	s := led(t, ReadLeases{})
	r := s.members[0].r
	ls := &r.leases
	ls.revoking, ls.revocations = map[int64]uint64{7: r.visible + 1}, nil
	ls.revocations = append(ls.revocations, revocation{index: r.visible + 1, id: 7})
	ls.parked = map[int64][]parkedAsk{7: {{asker{2, 8}, leaseAsk{ID: 1, Lease: 7, Renew: true}}}}
	r.asks.outbox = nil
	r.onApplied(Applied{Index: r.visible + 1, Term: r.term, Roster: r.roster})
	if want := []answers{{asker{2, 8}, []AnswerLease{{ID: 1, Lease: 7}}}}; !reflect.DeepEqual(r.asks.outbox, want) {
		t.Errorf("a revocation is visible, and the asks behind it are answered %+v, want %+v", r.asks.outbox, want)
	}
}

// Raft's effects become the machine's: all confirmed rounds end, each by the index that raft names, and the members
// change with what is committed.
func TestWhatComesOfRaftsEffects(t *testing.T) {
	s := led(t, ReadLeases{})
	r := s.members[0].r
	r.outcomes, r.persists = nil, nil
	r.rounds.flying = []round{{id: 61, reads: 4}, {id: 62, reads: 5}}
	commit := r.reads.committed
	change := changeEntry(t, r.last, r.term, RemoveMember(3))
	to := uint64(raft.LocalApplyThread)
	r.takeReady(raft.Ready{
		ReadStates: []raft.ReadState{{Index: commit - 2, RequestCtx: readContext(61)}, {Index: commit - 1, RequestCtx: readContext(62)}},
		Messages:   []*raftpb.Message{{Type: raftpb.MsgStorageApply.Enum(), To: &to, Entries: []*raftpb.Entry{change}}},
	})
	var told []Outcome
	for _, out := range r.outcomes {
		if ready, ok := out.(ReadReady); ok {
			told = append(told, ready)
		}
	}
	if want := []Outcome{ReadReady{Number: 4, Index: commit - 2}, ReadReady{Number: 5, Index: commit - 1}}; !reflect.DeepEqual(told, want) {
		t.Errorf("raft has confirmed two rounds, and readers are told %+v, want %+v", told, want)
	}
	if got := r.tail.conf.GetVoters(); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("a removal is committed, and the voters are %d", got)
	}
}

// In one turn the parts work for each other: asks go with the round that sets out, what is released becomes visible, and
// checkpoints of renewed leases are removed.
func TestWhatOneTurnDoes(t *testing.T) {
	s := led(t, ReadLeases{})
	r := s.members[0].r
	r.nextTick = machine.Never
	r.Step(machine.Now{Mono: s.now}, AskLease{ID: 3, Lease: 7})
	r.turn()
	if n := len(r.rounds.flying); n != 1 || len(r.rounds.flying[0].asks) != 1 {
		t.Errorf("somebody asks a leader about a lease, and %d rounds set out in that turn, want one with the ask", n)
	}
	r.unreleased = []Applied{{Index: r.visible + 1, Term: r.term, Roster: r.roster}}
	index := r.visible + 1
	if r.turn(); r.visible != index {
		t.Errorf("up to %d all is applied and released, and after a turn up to %d is visible", index, r.visible)
	}
}

// The first due thing of read leases and of leases sets the alarm as well.
func TestTheAlarmIsForLeasesToo(t *testing.T) {
	s := led(t, ReadLeases{})
	r := s.members[0].r
	r.nextTick = machine.Never
	for _, tt := range []struct {
		name string
		set  func(at machine.Mono)
	}{
		{"a report of what lapses", func(at machine.Mono) { r.reads.reported.lapse = at }},
		{"a lease that ends", func(at machine.Mono) {
			r.leases.ticking = true
			l := &lease{id: 7, ttl: 60, deadline: at, due: at}
			r.leases.table[7] = l
			r.leases.heap.add(l)
			r.leases.heap.order()
		}},
	} {
		r.reads.reported.lapse = machine.Never
		at := s.now + 1
		if before := r.alarm(); before <= at {
			t.Fatalf("before %s the alarm is in %v", tt.name, before.Sub(s.now))
		}
		if tt.set(at); r.alarm() != at {
			t.Errorf("with %s due in 1ns, the alarm is in %v", tt.name, r.alarm().Sub(s.now))
		}
	}
}

// Raft is told how a member of this cluster does things.
func TestHowRaftIsSetUp(t *testing.T) {
	s := led(t, ReadLeases{})
	if err := s.members[1].r.raft.Propose([]byte("x")); err == nil {
		t.Error("a follower's raft takes a proposal, and would forward it by itself")
	}
	leader := s.members[0].r.raft
	leader.ApplyConfChange(&raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(1))})
	if got := leader.BasicStatus().RaftState; got != raft.StateFollower {
		t.Errorf("a leader that is removed goes on as %v", got)
	}

	// What is committed is handed out a bounded part at a time.
	log := Genesis([]machine.NodeID{1, 2, 3})
	for i := range uint64(4) {
		e := entryAt(2+i, 1, 0)
		e.Data = make([]byte, maxApplyingBytes/4)
		log.Entries = append(log.Entries, e)
	}
	log.HardState = &raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(5)), Vote: new(uint64(0))}
	r, err := New(Config{ID: 1, Boot: 1, Tick: time.Second, ElectionTicks: 10, Log: log, Restored: Restored{Index: 1}}, machine.Now{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.raft.Ready().Messages {
		if n := len(m.GetEntries()); m.GetTo() == raft.LocalApplyThread && n != 3 {
			t.Errorf("raft hands out %d entries of a quarter of what may be applied at a time, want three", n)
		}
	}

	// A message of entries is no larger than an eighth of the bound of the log.
	log = Genesis([]machine.NodeID{1, 2, 3})
	for i := range uint64(8) {
		e := entryAt(2+i, 1, 0)
		e.Data = make([]byte, 1000)
		log.Entries = append(log.Entries, e)
	}
	log.HardState = &raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(1)), Vote: new(uint64(0))}
	r, err = New(Config{ID: 1, Boot: 1, Tick: time.Second, ElectionTicks: 10, MaxTailBytes: 16_000, Log: log, Restored: Restored{Index: 1}}, machine.Now{})
	if err != nil {
		t.Fatal(err)
	}
	if got := maxSent(t, r); got > 2 {
		t.Errorf("a message has %d entries of 1,000 bytes, want two at most where the log may have 16,000", got)
	}
}

// maxSent has a member of three become the leader, and returns how many entries it sends in one message at most.
func maxSent(t *testing.T, r *Replica) (most int) {
	t.Helper()
	if err := r.raft.Campaign(); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		for r.raft.HasReady() {
			rd := r.raft.Ready()
			for _, m := range rd.Messages {
				answer := &raftpb.Message{From: m.To, To: m.From, Term: m.Term}
				switch m.GetType() {
				case raftpb.MsgPreVote:
					answer.Type = raftpb.MsgPreVoteResp.Enum()
				case raftpb.MsgVote:
					answer.Type = raftpb.MsgVoteResp.Enum()
				case raftpb.MsgApp:
					most = max(most, len(m.GetEntries()))
					answer.Type, answer.Reject, answer.Index, answer.RejectHint, answer.LogTerm = raftpb.MsgAppResp.Enum(), new(true), m.Index, new(uint64(1)), new(uint64(1))
				case raftpb.MsgStorageAppend:
					for _, resp := range m.GetResponses() {
						if resp.GetTo() == 1 {
							_ = r.raft.Step(resp)
						}
					}
					continue
				default:
					continue
				}
				_ = r.raft.Step(answer)
			}
		}
	}
	return most
}

// One Ready has all that follows from its step: readers are told of their lease, asks that waited for the leader to
// count time are answered, and news of what is released go with raft's messages of that turn.
func TestWhatOneReadyTells(t *testing.T) {
	s := led(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
	r := s.members[1].r
	r.reads.shown = ReadLease{}
	if out := r.Ready().Outcomes; len(out) != 1 || out[0] != Outcome(ReadLease{Until: r.reads.until(r.moment), Index: r.last}) {
		t.Errorf("a member has a lease until %v, and its readers are told %+v", r.reads.until(r.moment), out)
	}

	s = led(t, ReadLeases{})
	r = s.members[0].r
	r.leases.stop(r.moment)
	r.asks.confirmed = []askBatch{{asker: asker{2, 8}, index: r.visible, asks: []leaseAsk{{ID: 1, Lease: 4}}}}
	want := machine.Envelope{From: 1, To: 2, Body: leaseAnswers{Boot: 8, Answers: []AnswerLease{{ID: 1, Lease: 4}}}}
	if sends := r.Ready().Sends; !slices.ContainsFunc(sends, func(env machine.Envelope) bool { return reflect.DeepEqual(env, want) }) {
		t.Errorf("a leader begins to count time, and sends %+v, want %+v among them", sends, want)
	}

	s = led(t, ReadLeases{})
	r = s.members[0].r
	s.do("put 1 a b")
	s.deliver(false) // to the others
	for _, env := range s.wire {
		r.Receive(machine.Now{Mono: s.now}, env)
	}
	sends := r.Ready().Sends
	told := 0
	for _, env := range sends {
		if m, ok := env.Body.(announced); ok {
			told++
			if m.News.Released != r.last {
				t.Errorf("the entry %d is released, and member %d is told with it that %d is", r.last, env.To, m.News.Released)
			}
		}
	}
	if told == 0 {
		t.Errorf("the entry %d is released, and nobody is told: %+v", r.last, sends)
	}
}
