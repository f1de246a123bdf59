package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/replica"
)

// restartScripts: what a member that comes back has to know and to say again. While
// one of three is dead each write needs the reports of both others, and nobody writes
// again, so that they would acknowledge again.
var restartScripts = []script{
	{name: "grantor-that-misses-the-commit-index", policy: "all", length: 600 * time.Millisecond, play: func(s *stage) {
		// R4. The grantor had the entry and was bound to a holder that died. It
		// restarts, and learns by heartbeats only what is committed: what it reports
		// from then on must speak of the entry, too.
		lead, h, g := s.three()
		l := s.grant(lead, 77, 60)
		s.holding(h)
		s.w.Run(tick)
		h.crash()
		p := s.put(lead, "k", "v")
		s.until(time.Second, "it is committed", func() bool { return lead.committed() && lead.state.Index() < lead.replica.Status().Last })
		late := s.hold(lead, g, "MsgApp")
		g.crash()
		s.w.Run(2 * time.Millisecond)
		late.away()
		g.boots()
		s.success(2*time.Second, "the put, when the promise has run out", p)
		s.success(slack, "a read", s.fresh(s.read(lead, "k"), "v"))
		s.renewed(slack, s.renew(lead, l))
	}},
	{name: "acknowledgment-without-a-report", policy: "all", play: func(s *stage) {
		// R4. A follower that supposes its leader dead when it acknowledges has
		// nobody to report to. What it says to the leader that it finds again must
		// make up for that, though the commit index gets lost on the way.
		lead, h, g := s.three()
		s.w.Run(3 * tick)
		h.crash()
		s.w.Run(time.Second)
		entries := s.hold(lead, g, "MsgApp")
		p := s.put(lead, "k", "v")
		entries.catch(1)
		g.Pause()
		entries.pass(0)
		s.w.Run(2 * time.Millisecond)
		g.Step(replica.Down{Node: lead.ID})
		g.Resume()
		s.until(time.Second, "it is committed", lead.committed)
		s.w.Run(5 * time.Millisecond)
		entries.away()
		s.success(2*time.Second, "the put", p)
	}},
	{name: "alone-after-a-restart", play: func(s *stage) {
		// R2. All went down and one is back. It shows whatever it knew to be
		// released, as a serializable read or a snapshot for a restore wants it.
		lead, f, _ := s.three()
		s.success(time.Second, "a put", s.put(lead, "k", "v"))
		s.w.Run(3 * tick)
		s.success(time.Second, "a put that tells of the first", s.put(lead, "other", "v"))
		s.w.Run(3 * tick)
		for _, m := range s.members {
			m.crash()
		}
		f.boots()
		s.until(time.Second, "the put is there again", func() bool {
			value, _ := lookUp(f.view().View, "k")
			return value == "v"
		})
	}},
}

// committed tells whether all that is in a leader's log is committed.
func (m *Member) committed() bool {
	st := m.replica.Status()
	return st.Commit == st.Last
}
