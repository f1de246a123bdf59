package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

// restartScripts: the knowledge that a member that comes back has to have, and its repeated
// reports. While one of three is dead each write needs the reports of both others, and there
// are no more writes, after which they would acknowledge again.
var restartScripts = []script{
	{name: "grantor-that-misses-the-commit-index", policy: "all", length: 600 * time.Millisecond, play: func(s *stage) {
		// R4. The grantor had the entry and was bound to a holder that died. It restarts, and
		// learns only committed entries by heartbeats: its reports from then on must speak of
		// the entry, too.
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
		g.startUp()
		s.success(2*time.Second, "the put, when the promise has run out", p)
		s.success(slack, "a read", s.fresh(s.read(lead, "k"), "v"))
		s.renewed(slack, s.renew(lead, l))
	}},
	{name: "durable-before-it-is-committed", members: 5, policy: "all", length: 8 * time.Second, idle: time.Minute, play: func(s *stage) {
		// R4. A grantor with a slow disk knows of an entry that is committed without it. Its
		// report to the next leader, when a promise lapses, must not speak of that entry. It
		// loses the entry in a crash, and then makes a promise to a member that has not got it.
		lead, next, g, b, h := s.members[0], s.members[1], s.members[2], s.members[3], s.members[4]
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(3 * tick)
		s.success(time.Second, "a put", s.put(lead, "j", "old"))
		s.w.Run(3 * tick)
		s.hold(h, lead, "quorumlease.Request") // the holder has the promise of b alone
		s.hold(h, next, "quorumlease.Request")
		asks := s.hold(h, g, "quorumlease.Request")
		s.ask(h)
		s.ask(b) // and the grantor's promise to b is to run out
		s.w.Run(3 * tick)
		s.hold(b, g, "quorumlease.Request")
		s.w.Run(7 * time.Second)
		s.ask(h)
		s.hold(lead, h, growth...)
		s.hold(next, h, growth...)
		before, kept := g.replica.Status().Last, len(g.Disk.Durable)
		g.Disk.Slow = 30 * time.Second
		put := s.put(lead, "k", "new")
		s.until(time.Second, "the grantor knows that it is committed", func() bool { return g.replica.Status().Commit > before })
		s.hold(next, g, growth...)
		s.transfer(lead, next)
		s.until(2*time.Second, "the next leader", func() bool { return next.leads() && lead.follows(next) && b.follows(next) && g.follows(next) })
		s.w.Run(2 * time.Second)
		g.Disk.Queue, g.Disk.Durable, g.Disk.Forced = nil, g.Disk.Durable[:kept], kept
		g.crash()
		g.Disk.Slow = 0
		g.startUp()
		s.until(2*time.Second, "the grantor follows", func() bool { return g.follows(next) })
		asks.away()
		s.ask(h)
		read := s.read(h, "k")
		if put.done {
			read.want = "new"
		}
		s.w.Run(3 * time.Second)
		s.mend()
		s.success(20*time.Second, "the put", put)
		s.success(5*time.Second, "the read", read)
	}},
	{name: "acknowledgment-without-a-report", policy: "all", play: func(s *stage) {
		// R4. A follower that supposes its leader dead when it acknowledges has no member to
		// report to. Its report to the leader that it finds again must make up for that, though
		// the commit index gets lost on the way.
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
		f.startUp()
		s.until(time.Second, "the put is there again", func() bool {
			value, _ := lookUp(f.view().View, "k")
			return value == "v"
		})
	}},
}

// committed reports whether all that is in a leader's log is committed.
func (m *Member) committed() bool {
	st := m.replica.Status()
	return st.Commit == st.Last
}
