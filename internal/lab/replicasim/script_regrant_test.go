package replicasim

import (
	"slices"
	"time"
)

// regrantScripts: an ID that is granted anew while things said about its earlier
// lease are still on their way.
var regrantScripts = []script{
	{name: "grants-under-way-do-not-keep-a-lease", play: func(s *stage) {
		// Some grant of the same ID is always on its way. They fail as long as the
		// lease is there, and the first behind its end succeeds.
		_, f, g := s.three()
		l := &held{id: 1, ttl: 2 * time.Second}
		s.success(time.Second, "the grant", s.grantCall(f, l))
		granted := s.w.Now()
		var calls []*call
		won := func() bool { return slices.ContainsFunc(calls, func(c *call) bool { return c.ok }) }
		for !won() {
			calls = slices.DeleteFunc(calls, func(c *call) bool { return c.done && !c.ok })
			calls = append(calls, s.grantCall(f, l), s.grantCall(g, l))
			s.w.Run(time.Millisecond)
			if after := s.w.Now() - granted; after > 3*time.Second {
				s.fatalf("a lease of %v is there after %v, and nobody renews it", l.ttl, after)
			}
		}
		if after := s.w.Now() - granted; after < l.ttl {
			s.fatalf("a lease of %v ended after %v", l.ttl, after)
		}
	}},
	{name: "grants-under-way-do-not-hold-up-a-renewal", play: func(s *stage) {
		_, f, g := s.three()
		l := s.grant(f, 1, 5)
		s.w.Run(2200 * time.Millisecond) // there is a checkpoint, which a renewal removes
		r := s.renew(g, l)
		var calls []*call
		for began := s.w.Now(); !r.done && s.w.Now()-began < time.Second; {
			calls = append(calls, s.grantCall(f, l), s.grantCall(g, l))
			s.w.Run(time.Millisecond)
		}
		s.renewed(0, r)
		s.w.Run(time.Second)
		for _, c := range calls {
			if c.ok {
				s.fatalf("a lease was granted that was there")
			}
		}
	}},
	{name: "granted-again-before-its-removal", play: func(s *stage) {
		// The removal of the old lease's checkpoint comes after the new lease's
		// grant in the log. Taken for the removal of a checkpoint of the new one,
		// it would let a renewal be answered too early. The followers' disks are
		// slow, so that entries take their time to be committed.
		lead, f, g := s.three()
		s.success(time.Second, "the grant", s.grantCall(f, &held{id: 1, ttl: 2 * time.Second}))
		s.w.Run(950 * time.Millisecond) // it has a checkpoint
		slow := s.hold(nil, lead, "MsgAppResp")
		l := &held{id: 1, ttl: 2 * time.Second}
		s.revoke(f, &held{id: 1})
		again := s.grantCall(f, l)
		s.w.Run(20 * time.Millisecond)
		s.renew(g, &held{id: 1, revoked: true})
		s.w.Run(20 * time.Millisecond)
		slow.pass(0) // the grant is committed, later entries are not
		s.success(time.Second, "the second grant", again)
		s.checks.leases[1] = l
		s.w.Run(930 * time.Millisecond) // it has a checkpoint too, on its way
		old := len(slow.held)
		s.hold(lead, nil, "MsgApp") // which is the last that the followers see
		s.renew(g, l)
		s.w.Run(20 * time.Millisecond)
		for n := range old {
			slow.pass(n)
		}
		s.w.Run(20 * time.Millisecond)
		s.kill(lead)
		s.mend()
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.until(5*time.Second, "the lease ends", func() bool { return l.gone > 0 })
	}},
	{name: "granted-in-vain-while-renewed", play: func(s *stage) {
		lead, f, g := s.three()
		l := s.grant(f, 1, 2)
		s.w.Run(950 * time.Millisecond) // it has a checkpoint
		slow := s.hold(nil, lead, "MsgAppResp")
		vain := s.grantCall(f, l)
		s.w.Run(20 * time.Millisecond)
		r := s.renew(g, l)
		s.w.Run(20 * time.Millisecond)
		slow.release()
		s.renewed(100*time.Millisecond, r)
		if !vain.done || vain.ok {
			s.fatalf("a lease was granted twice")
		}
	}},
}
