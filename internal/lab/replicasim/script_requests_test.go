package replicasim

import "time"

// requestScripts: the members that ask for promises, and promises that are given back. A write
// waits for no member that does not read.
var requestScripts = []script{
	{name: "request-that-comes-twice", policy: "all", length: time.Second, play: func(s *stage) {
		// The second time is long after its holder's death, and after its promise.
		lead, h, g := s.three()
		s.holding(h)
		s.w.Run(tick)
		requests := s.hold(h, nil, "quorumlease.Request")
		requests.catch(2)
		requests.release()
		s.w.Run(5 * time.Millisecond)
		h.crash()
		s.w.Run(1500 * time.Millisecond)
		requests.pass(0)
		requests.pass(1)
		s.w.Run(5 * time.Millisecond)
		s.bounded(slack, s.put(lead, "k", "v"))
		s.bounded(slack, s.put(g, "k", "w"))
	}},
	{name: "request-behind-its-return", policy: "all", length: time.Second, idle: 300 * time.Millisecond, play: func(s *stage) {
		// The promise that it asks for was given back before it comes.
		lead, h, g := s.three()
		s.holding(h)
		s.w.Run(tick / 2)
		requests := s.hold(h, nil, "quorumlease.Request")
		s.until(time.Second, "the lease is given back", func() bool { return h.lease.Until == 0 })
		s.w.Run(5 * time.Millisecond)
		requests.release()
		s.w.Run(5 * time.Millisecond)
		h.crash()
		s.bounded(slack, s.put(lead, "k", "v"))
		s.bounded(slack, s.put(g, "k", "w"))
	}},
	{name: "renewals-at-a-follower", policy: "all", play: func(s *stage) {
		// It passes them on, and its own lease would be of no use to them: it asks
		// for none, lest writes wait for it.
		lead, f, _ := s.three()
		l := s.grant(lead, 77, 60)
		for range 10 {
			s.renewed(time.Second, s.renew(f, l))
			s.never(tick, "a member has a lease where nobody reads", f.leased)
		}
	}},
	{name: "disk-of-a-leader-that-holds", policy: "leader", play: func(s *stage) {
		// R31. Two others have it on their disks, so it is committed; the leader has
		// it in memory, as a reader there needs it. It did not expect its disk to be
		// slow.
		lead, f, _ := s.three()
		s.holding(lead)
		s.w.Run(tick)
		lead.Disk.Slow = 3 * time.Second
		s.bounded(slack, s.put(f, "k", "v"))
	}},
}
