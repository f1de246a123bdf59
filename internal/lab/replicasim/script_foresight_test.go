package replicasim

import (
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
)

// foresightScripts are of members that find out committed entries for themselves, while the set
// of counting members changes; and of changes that were never made.
var foresightScripts = []script{
	{name: "foreseen-by-voters-to-be", members: 3, learners: 2, policy: "all/key", play: func(s *stage) {
		// R23, R30. Entries behind a change are committed by its later voters, but only when
		// the earlier voters have the change: they could elect a leader that has not.
		lead, f, g := s.three()
		d, e := s.members[3], s.members[4]
		s.w.Run(2 * time.Second)
		toF, toG := s.hold(lead, f), s.hold(lead, g)
		for _, from := range []*Member{d, e} {
			s.hold(from, f)
			s.hold(from, g)
		}
		s.hold(f, g, "quorumlease.Report")
		s.hold(g, f, "quorumlease.Report")
		c := s.change(lead, replica.PromoteMember(4))
		for _, t := range []*trap{toF, toG} { // they have the first, and do not know that it is committed
			s.passOne(t, "MsgApp")
		}
		s.success(time.Second, "the vote of 4", c)
		s.change(lead, replica.PromoteMember(5))
		put := s.put(d, "k", "v")
		s.w.Run(30 * time.Millisecond)
		commit := lead.replica.Status().Commit
		if put.done || d.replica.Status().Commit > commit || e.replica.Status().Commit > commit {
			s.fatalf("what only newcomers have is taken for committed")
		}
		s.mend()
		s.success(5*time.Second, "the put", put)
		s.together(5 * time.Second)
	}},
	{name: "foreseen-while-a-snapshot-is-loaded", members: 3, learners: 2, tail: 512 << 10, policy: "all/key", play: func(s *stage) {
		// R30. By the members of before the snapshot it would be a majority with the
		// leader.
		lead, g, f := s.three()
		d, e := s.members[3], s.members[4]
		s.w.Run(2 * time.Second)
		entries := s.hold(lead, f, growth...)
		s.success(2*time.Second, "the vote of 4", s.change(lead, replica.PromoteMember(4)))
		s.success(2*time.Second, "the vote of 5", s.change(lead, replica.PromoteMember(5)))
		s.fill(lead, 400)
		s.w.Run(300 * time.Millisecond)
		lead.takeSnapshot()
		s.w.Run(400 * time.Millisecond)
		f.stall()
		entries.away()
		s.until(9*time.Second, "3 is overtaken", f.restorePending)
		s.w.Run(300 * time.Millisecond)
		for _, m := range []*Member{g, d, e} {
			s.hold(lead, m)
		}
		s.put(lead, "k", "v")
		s.w.Run(30 * time.Millisecond)
		if f.replica.Status().Commit > lead.replica.Status().Commit {
			s.fatalf("two of five have it, and one takes it for committed")
		}
		f.resume()
		s.mend()
		s.together(5 * time.Second)
	}},
	{name: "change-that-was-never-made", members: 3, learners: 2, tail: 512 << 10, policy: "all", play: func(s *stage) {
		// R23. Another change is at its index in the snapshot that replaces it.
		one, _, _ := s.three()
		s.w.Run(5 * time.Second)
		to, from := s.hold(one, nil), s.hold(nil, one)
		s.put(one, "x", "y")
		s.w.Run(2 * time.Millisecond)
		s.change(one, replica.RemoveMember(3))
		s.w.Run(2 * time.Millisecond)
		index := one.replica.Status().Last
		s.until(5*time.Second, "another leader", func() bool {
			o := s.leaderBut(one)
			return o != nil && o.state.Term() == o.replica.Status().Term
		})
		lead := s.leaderBut(one)
		c := s.change(lead, replica.PromoteMember(4))
		s.w.Run(10 * time.Millisecond)
		if lead.replica.Status().Last != index {
			s.fatalf("the changes are at %d and %d", index, lead.replica.Status().Last)
		}
		s.success(time.Second, "the vote of 4", c)
		for range 100 {
			s.put(lead, "filler", strings.Repeat("x", 4096))
			s.w.Run(2 * time.Millisecond)
		}
		lead.takeSnapshot()
		s.w.Run(400 * time.Millisecond)
		to.away()
		from.away()
		s.together(5 * time.Second)
		asked := map[machine.NodeID]bool{}
		take := s.net.Take
		s.net.Take = func(env machine.Envelope) bool {
			if env.From == one.ID && kindOf(env.Body) == "quorumlease.Request" {
				asked[env.To] = true
			}
			return take(env)
		}
		s.ask(one)
		s.until(time.Second, "it asks all voters for promises", func() bool { return len(asked) == 3 && asked[3] && asked[4] })
	}},
}

// passOne lets the next message of a kind out of a trap.
func (s *stage) passOne(t *trap, kind string) {
	s.t.Helper()
	s.until(time.Second, "a message", func() bool {
		for n, env := range t.held {
			if kindOf(env.Body) == kind {
				t.pass(n)
				return true
			}
		}
		return false
	})
}
