package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// A voter that follows a leader binds itself to members, and not to one that this leader has given
// up (R21, R23).
func TestWhoGetsAPromise(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *Replica)
		want   bool
	}{
		{"a member", func(*Replica) {}, true},
		{"of a voter that knows no leader", func(r *Replica) { r.leader = 0 }, false},
		{"of a learner", func(r *Replica) {
			r.reads.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 3}, Learners: []machine.NodeID{2}}})
		}, false},
		{"one that learns", func(r *Replica) {
			r.reads.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2}, Learners: []machine.NodeID{3}}})
		}, true},
		{"one that is no member", func(r *Replica) {
			r.reads.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2}}})
		}, false},
		{"one that is leaving", func(r *Replica) {
			r.reads.count(r.reads.memberships.With(quorumlease.Membership{Index: 9, Voters: []machine.NodeID{1, 2}}))
		}, false},
		{"one that was given up", func(r *Replica) { r.reads.stalled, r.reads.stalledTerm = []machine.NodeID{3}, r.term }, false},
		{"beside one that was given up", func(r *Replica) { r.reads.stalled, r.reads.stalledTerm = []machine.NodeID{1}, r.term }, true},
		{"one that was given up in another term", func(r *Replica) { r.reads.stalled, r.reads.stalledTerm = []machine.NodeID{3}, r.term-1 }, true},
	} {
		s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		for _, command := range []string{"elect 1", "pass 500ms", "lose"} {
			s.do(command)
		}
		r := s.members[1].r
		tt.change(r)
		r.sends = nil
		r.reads.receive(r.moment, &r.effects, 3, quorumlease.Request{Boot: 1, Seq: 1 << 40})
		if got := len(r.sends) == 1; got != tt.want {
			t.Errorf("%s gets a promise: %v, want %v", tt.name, got, tt.want)
		}
		for _, env := range r.sends {
			if p, ok := env.Body.(quorumlease.Promise); !ok || env.To != 3 || p.Seq != 1<<40 || p.TTL != 200*time.Millisecond {
				t.Errorf("%s gets %+v", tt.name, env)
			}
		}
	}
}

// A leader's list of members that are given up holds until it, or a later leader, sends another; and
// an entry that is released stays so, though older news says less.
func TestNewsOfAnEarlierTerm(t *testing.T) {
	r := keyReader(9)
	rl := &r.reads
	three, four := []machine.NodeID{3}, []machine.NodeID{4}
	for _, step := range []struct {
		news     quorumlease.News
		released uint64
		stalled  []machine.NodeID
		term     uint64
	}{
		{quorumlease.News{Term: 5, Released: 20, Stalled: three}, 20, three, 5},
		{quorumlease.News{Term: 4, Released: 12, Stalled: four}, 20, three, 5},
		{quorumlease.News{Term: 4, Released: 22}, 22, three, 5},
		{quorumlease.News{Term: 5, Released: 21, Stalled: four}, 22, four, 5},
		{quorumlease.News{Term: 6, Released: 22}, 22, nil, 6},
	} {
		rl.receive(r.moment, &r.effects, 1, step.news)
		if rl.released != step.released || !slices.Equal(rl.stalled, step.stalled) || rl.stalledTerm != step.term {
			t.Errorf("after %+v: released up to %d, given up in term %d are %d; want %d, %d, %d",
				step.news, rl.released, rl.stalledTerm, rl.stalled, step.released, step.term, step.stalled)
		}
	}
}

// A term begins with what is committed: of the rest of its log a member does not know whether it is
// the new leader's. In the same term what was vouched for stays so.
func TestATermBeginsWithWhatIsCommitted(t *testing.T) {
	for _, tt := range []struct {
		fresh                           bool
		durable                         uint64
		wantReceived, wantDurable, told uint64
	}{{true, 13, 10, 10, 0}, {true, 7, 10, 7, 0}, {false, 13, 15, 13, 1}} {
		r := keyReader(9)
		r.leader, r.term = 2, 5
		rl := &r.reads
		rl.stalls = quorumlease.NewStalls(quorumlease.Config{})
		rl.committed, rl.received, rl.durable = 10, 15, tt.durable
		rl.stalled, rl.far, rl.told = []machine.NodeID{3}, true, map[machine.NodeID]uint64{2: 1}
		rl.newLeader(r.moment, tt.fresh)
		if rl.received != tt.wantReceived || rl.durable != tt.wantDurable {
			t.Errorf("another term %v: the log is the leader's up to %d, durable up to %d; want %d, %d", tt.fresh, rl.received, rl.durable, tt.wantReceived, tt.wantDurable)
		}
		if rl.far == tt.fresh || len(rl.stalled) == 0 != tt.fresh || uint64(len(rl.told)) != tt.told || rl.ledger.Term() != 5 {
			t.Errorf("another term %v: others judged by themselves %v, given up are %d, told were %v, reports are of term %d", tt.fresh, rl.far, rl.stalled, rl.told, rl.ledger.Term())
		}
	}
}
