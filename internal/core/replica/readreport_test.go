package replica

import (
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// A voter tells the leader at once that a holder has given its lease up, for the leader waits
// for that holder as long as somebody is bound to it.
func TestALeaseGivenBackIsReported(t *testing.T) {
	s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
	for _, command := range []string{"elect 1", "pass 500ms", "lose"} {
		s.do(command)
	}
	voter := s.members[1]
	bound := func() []machine.NodeID {
		var ids []machine.NodeID
		holders, _ := voter.r.reads.promises.Holders(s.now)
		for _, h := range holders {
			ids = append(ids, h.Member)
		}
		return ids
	}
	if got := bound(); !slices.Equal(got, []machine.NodeID{1, 3}) {
		t.Fatalf("member 2 is bound to %d", got)
	}
	s.step(voter, machine.Envelope{From: 3, To: 2, Body: quorumlease.Return{Boot: 1, Seq: 1 << 40}})
	if got := bound(); !slices.Equal(got, []machine.NodeID{1}) {
		t.Fatalf("member 2 is bound to %d, and member 3 has given its lease up", got)
	}
	told := false
	for _, env := range s.wire {
		if report, ok := env.Body.(quorumlease.Report); ok && env.To == 1 {
			told = len(report.Holders) == 1 && report.Holders[0].Member == 1
		}
	}
	if !told {
		t.Errorf("the leader is not told that member 3 has given its lease up: %+v", s.wire)
	}
}

// A voter whose clock may have run ahead is bound again to a holder whose promise has run out since,
// and tells the leader at once: the holder may read. And it reads nothing itself until the doubt is over.
func TestADoubtBindsAgain(t *testing.T) {
	const ttl = 200 * time.Millisecond
	s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1, TTL: ttl})
	for _, command := range []string{"elect 1", "pass 500ms", "cut 3", "pass 500ms"} {
		s.do(command)
	}
	voter := s.members[1]
	rl := &voter.r.reads
	bound := func(at machine.Mono) bool {
		holders, _ := rl.promises.Holders(at)
		return slices.ContainsFunc(holders, func(l quorumlease.Lifetime) bool { return l.Member == 3 })
	}
	if bound(s.now) || rl.until(voter.r.moment) <= s.now {
		t.Fatalf("bound to member 3: %v; its own lease lasts until %v at %v", bound(s.now), rl.until(voter.r.moment), s.now)
	}
	s.wire = nil
	until := s.now.Add(time.Second)
	s.step(voter, Doubted{Since: s.now.Add(-450 * time.Millisecond), Until: until})
	if end := s.now.Add(quorumlease.Bound(ttl)); !bound(end-1) || bound(end) {
		t.Errorf("after a doubt the promise to member 3 binds for a while: %v, and for longer: %v", bound(end-1), bound(end))
	}
	told := false
	for _, env := range s.wire {
		report, ok := env.Body.(quorumlease.Report)
		told = told || ok && env.To == 1 && slices.ContainsFunc(report.Holders, func(l quorumlease.Lifetime) bool { return l.Member == 3 })
	}
	if !told {
		t.Errorf("the leader is not told that member 2 is bound to member 3 again: %+v", s.wire)
	}
	if got := rl.until(voter.r.moment); got != 0 {
		t.Errorf("a member whose clock is in doubt has a lease until %v", got)
	}
	s.step(voter, Doubted{Since: s.now, Until: s.now}) // an earlier doubt is not over by a later one
	if s.step(voter, labstage.Wake{}); rl.doubted != until || rl.wants(voter.r.moment) {
		t.Errorf("the doubt lasts until %v, want %v; it asks for a lease: %v", rl.doubted, until, rl.wants(voter.r.moment))
	}
	if voter.r.now = until; !rl.wants(voter.r.moment) {
		t.Error("it asks for no lease when the doubt is over")
	}
}

// A report that goes with an acknowledgment is about the leader's term. An acknowledgment of an earlier term, one to a
// member that does not lead, and a refusal say nothing about this leader's log.
func TestWhatAcknowledgmentsReport(t *testing.T) {
	for _, tt := range []struct {
		name     string
		change   func(m *raftpb.Message)
		older    bool
		received uint64 // then; 9 before
	}{
		{"of this term", func(*raftpb.Message) {}, false, 12},
		{"of less", func(m *raftpb.Message) { m.Index = new(uint64(8)) }, false, 9},
		{"by one of an earlier version", func(*raftpb.Message) {}, true, 12},
		{"of an earlier term", func(m *raftpb.Message) { m.Term = new(uint64(4)) }, false, 0},
		{"to another", func(m *raftpb.Message) { m.To = new(uint64(3)) }, false, 0},
		{"that refuses", func(m *raftpb.Message) { m.Reject = new(true) }, false, 0},
		{"of a heartbeat", func(m *raftpb.Message) { m.Type = raftpb.MsgHeartbeatResp.Enum() }, false, 0},
	} {
		r := keyReader(9)
		r.leader, r.term, r.cfg.Older = 2, 5, tt.older
		rl := &r.reads
		rl.promises, rl.received = newAsked(quorumlease.Config{Self: 1}, r.now), 9
		m := &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: new(uint64(5)), To: new(uint64(2)), Index: new(uint64(12))}
		tt.change(m)
		body := rl.acknowledges(r.moment, &r.effects, m)
		got, ok := body.(reported)
		if ok != (tt.received > 0) || !ok && (body != any(m) || rl.received != 9 || len(m.GetContext()) > 0) {
			t.Errorf("an acknowledgment %s is sent as %+v, and the log is the leader's up to %d", tt.name, body, rl.received)
		}
		if !ok {
			continue
		}
		if rl.received != tt.received || got.Report.Received != tt.received || got.Report.Durable != m.GetIndex() || got.Report.Term != 5 || got.Message != m {
			t.Errorf("an acknowledgment %s reports %+v; want received %d, durable %d in term 5", tt.name, got.Report, tt.received, m.GetIndex())
		}
		if len(m.GetContext()) == 0 != tt.older {
			t.Errorf("an acknowledgment %s tells of a level: %v", tt.name, len(m.GetContext()) > 0)
		}
	}
}

// Entries that are committed here are durable here, and every later leader has them. A report must say so, even
// if nothing is left to be acknowledged.
func TestWhatIsCommittedIsReported(t *testing.T) {
	for _, tt := range []struct{ received, durable, want, wantDurable uint64 }{{8, 7, 11, 11}, {12, 11, 12, 11}, {14, 13, 14, 13}} {
		r := keyReader(9)
		rl := &r.reads
		rl.received, rl.durable = tt.received, tt.durable
		rl.noteCommitted(r.now, []*raftpb.Entry{entryAt(10, 1, 0), entryAt(11, 1, 0)})
		if rl.received != tt.want || rl.durable != tt.wantDurable || len(rl.held) != 2 {
			t.Errorf("entries up to 11 are committed, and were received up to %d, durable up to %d: now %d and %d, want %d and %d; %d wait to be released",
				tt.received, tt.durable, rl.received, rl.durable, tt.want, tt.wantDurable, len(rl.held))
		}
	}
}

// The disk has what it had, whichever write is told last; and of another term's log it says nothing.
func TestWhatIsFlushed(t *testing.T) {
	r := keyReader(9)
	r.term = 5
	rl := &r.reads
	rl.promises, rl.durable = newAsked(quorumlease.Config{Self: 1}, r.now), 10
	for _, step := range []struct{ term, index, want uint64 }{{5, 12, 12}, {5, 11, 12}, {4, 20, 12}, {6, 20, 12}, {5, 13, 13}} {
		if rl.flushed(r.moment, durable{Term: step.term, Index: step.index}); rl.durable != step.want {
			t.Errorf("a write up to %d of term %d is durable, and the log up to %d; want %d", step.index, step.term, rl.durable, step.want)
		}
	}
}
