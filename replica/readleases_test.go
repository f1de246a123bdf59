package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/quorumlease"
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
		{"while all promises have to lapse", func(r *Replica) { r.reads.controls.lapsing = true }, false},
	} {
		s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		for _, command := range []string{"elect 1", "pass 500ms", "lose"} {
			s.do(command)
		}
		r := s.members[1].r
		tt.change(r)
		r.sends = nil
		r.reads.receive(r, 3, quorumlease.Request{Boot: 1, Seq: 1 << 40})
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

// What a leader says of who is given up holds until it, or a later one, says something else; and
// what is released stays so, whoever says less.
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
		rl.receive(r, 1, step.news)
		if rl.released != step.released || !slices.Equal(rl.stalled, step.stalled) || rl.stalledTerm != step.term {
			t.Errorf("after %+v: released up to %d, given up in term %d are %d; want %d, %d, %d",
				step.news, rl.released, rl.stalledTerm, rl.stalled, step.released, step.term, step.stalled)
		}
	}
}
