package replicasim

import "time"

// stallBound is how long a write may wait for a holder that is cut off: until it is
// given up, and until the last promise to it has run out.
const stallBound = promiseLength/2 + promiseBound + slack

// stallScripts: a holder that holds up writes is given up, under any leader and with any
// knowledge of earlier lives, and each member that is bound to it hears of that at once.
var stallScripts = []script{
	{name: "stalled-at-a-new-leader", policy: "all", play: func(s *stage) {
		// R21. The new leader does not hear the holder, so that not even the first
		// entry of its term is released; and the third goes on promising.
		lead, f, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		s.hold(h, f)
		s.transfer(lead, f)
		s.until(time.Second, "another leader", func() bool { return f.leads() && lead.follows(f) && h.follows(f) })
		s.bounded(stallBound, s.put(f, "k", "v"))
	}},
	{name: "stalled-in-its-next-life", members: 5, policy: "all", play: func(s *stage) {
		// R15, R21. The last word of a member that is dead names an earlier life of the holder,
		// for which no write has to wait. It must not pass for this one.
		lead, dead, h := s.members[0], s.members[1], s.members[4]
		s.holding(h)
		s.w.Run(tick)
		s.success(time.Second, "a put that all report", s.put(lead, "k", "old"))
		s.w.Run(10 * time.Millisecond)
		dead.crash()
		h.crash()
		h.startUp()
		s.until(2*time.Second, "it is back", func() bool { return h.follows(lead) })
		s.success(time.Second, "a put that the others report", s.put(lead, "k", "older"))
		s.holding(h)
		s.w.Run(2 * promiseBound) // no member is bound to everyone
		s.holding(h)
		s.w.Run(tick)
		s.hold(h, lead)
		s.bounded(stallBound, s.put(lead, "k", "v"))
	}},
	{name: "stalled-is-told-at-once", policy: "all", play: func(s *stage) {
		// R21. The leader does not wait for its next heartbeat to say so, however
		// long ago the last one was.
		lead, _, h := s.three()
		for range 5 {
			s.holding(h)
			s.w.Run(tick)
			s.hold(h, lead, "MsgAppResp", "quorumlease.Report")
			s.bounded(stallBound, s.put(lead, "k", "v"))
			s.mend()
			s.w.Run(tick + tick/5)
			s.until(time.Second, "the lease, when it is heard", h.leased)
			s.w.Run(tick / 5)
		}
	}},
}
