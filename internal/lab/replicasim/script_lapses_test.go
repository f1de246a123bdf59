package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The length of promises in scripts, and for how long a grantor is bound by one.
const (
	promiseLength = 200 * time.Millisecond
	promiseBound  = promiseLength + 10*time.Millisecond
	// slack is for messages and disks.
	slack = 30 * time.Millisecond
)

// lapseScripts: how long a write waits for holders that are gone or slow, and events that do
// not end a lease.
var lapseScripts = []script{
	{name: "holder-dies", policy: "all", play: func(s *stage) {
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		h.crash()
		s.bounded(promiseBound+slack, s.put(lead, "k", "v"))
		s.bounded(slack, s.put(lead, "k", "w")) // once only
	}},
	{name: "holder-sleeps", policy: "all", play: func(s *stage) {
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		h.Pause()
		s.bounded(promiseBound+slack, s.put(lead, "k", "v"))
		r := s.fresh(s.read(h, "k"), "v")
		h.Resume()
		s.success(time.Second, "the read", r)
	}},
	{name: "holder-suspended", policy: "all", play: func(s *stage) {
		// R11. Its clock has gone on when it wakes up.
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		h.Suspend()
		s.bounded(promiseBound+slack, s.put(lead, "k", "v"))
		r := s.fresh(s.read(h, "k"), "v")
		h.Resume()
		s.success(time.Second, "the read", r)
	}},
	{name: "holder-without-its-leader", policy: "all", play: func(s *stage) {
		// R21. It hears its grantors, and they hear it: it would go on for ever.
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		s.hold(lead, h, news...)
		for range 3 {
			s.bounded(promiseLength/2+promiseBound+tick+slack, s.put(lead, "k", "v"))
		}
		s.mend()
		s.w.Run(tick)
		s.until(time.Second, "the lease, when it has come as far as the others", h.leased)
	}},
	{name: "holder-that-is-not-heard", policy: "all", play: func(s *stage) {
		// R21. Its leader does not hear that it has the entries.
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		s.hold(h, lead, "MsgAppResp", "quorumlease.Report")
		for range 3 {
			s.bounded(promiseLength/2+promiseBound+tick+slack, s.put(lead, "k", "v"))
		}
		s.mend()
		s.w.Run(tick)
		s.until(time.Second, "the lease, when it is heard", h.leased)
	}},
	{name: "holder-with-a-stuck-disk", policy: "all", play: func(s *stage) {
		// R21, R31. The state in its memory is good enough for it to read.
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		h.Disk.Slow = 3 * time.Second
		for range 5 {
			s.bounded(promiseLength/2+promiseBound+tick+slack, s.put(lead, "k", "v"))
		}
	}},
	{name: "holder-that-lags", policy: "all", play: func(s *stage) {
		// R21. All that it hears from its leader is as old as half a promise is
		// long, and more: it catches up again and again, and not for good.
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		s.net.OneWay = func(from, to machine.NodeID) time.Duration {
			if from == lead.ID && to == h.ID {
				return promiseLength/2 + 20*time.Millisecond
			}
			return 0
		}
		for range 30 {
			s.bounded(promiseLength/2+promiseBound+tick+slack, s.put(lead, "k", "v"))
			s.w.Run(7 * time.Millisecond)
		}
	}},
	{name: "leader-in-a-minority", members: 5, policy: "all", play: func(s *stage) {
		// R22. It releases nothing, and the others wait for its promises and its
		// lease, which run out while they elect.
		old, f := s.members[0], s.members[1]
		s.holding(old)
		s.holding(s.members[4])
		s.w.Run(tick)
		for _, o := range s.members[1:4] {
			for _, m := range []*Member{old, s.members[4]} {
				s.hold(o, m)
				s.hold(m, o)
			}
		}
		lost := s.put(old, "k", "lost")
		for _, o := range s.members[1:4] {
			o.Step(replica.Down{Node: old.ID})
		}
		s.until(time.Second, "another leader", func() bool { return s.members[3].follows(f) })
		s.bounded(promiseBound+slack, s.put(f, "k", "new"))
		if lost.done {
			s.fatalf("a leader without a majority released a write")
		}
		r := s.fresh(s.read(s.members[4], "k"), "new")
		s.w.Run(tick)
		s.mend()
		s.success(5*time.Second, "the read", r)
	}},
	{name: "leader-in-a-minority-until-another-is-elected", members: 5, policy: "all", play: func(s *stage) {
		// R22. To elect takes longer than its promises last: then no write waits for them.
		old := s.members[0]
		s.holding(old)
		s.holding(s.members[4])
		s.w.Run(tick)
		for _, o := range s.members[1:4] {
			for _, m := range []*Member{old, s.members[4]} {
				s.hold(o, m)
				s.hold(m, o)
			}
		}
		lost := s.put(old, "k", "lost")
		s.until(5*time.Second, "another leader", func() bool { return s.leaderBut(old) != nil })
		s.bounded(2*slack, s.put(s.leaderBut(old), "k", "new"))
		if lost.done {
			s.fatalf("a leader without a majority released a write")
		}
	}},
	{name: "leader-with-a-lease-dies", policy: "leader", play: func(s *stage) {
		// The promises run out while the others elect: max(election, D).
		lead, f, _ := s.three()
		s.holding(lead)
		s.w.Run(tick)
		s.kill(lead)
		s.bounded(promiseBound+2*slack, s.put(f, "k", "v"))
	}},
	{name: "hand-over-gives-the-lease-back", policy: "all", length: 2 * time.Second, play: func(s *stage) {
		lead, f, _ := s.three()
		s.holding(lead)
		s.w.Run(tick)
		lead.Step(replica.HandOver{})
		s.until(300*time.Millisecond, "another leader", func() bool { return s.leaderBut(lead) != nil })
		lead.crash() // as it does that hands over to end
		s.bounded(300*time.Millisecond, s.put(f, "k", "v"))
	}},
	{name: "idle-holder-dies", policy: "all", idle: 300 * time.Millisecond, play: func(s *stage) {
		// No write waits for a member without readers.
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(time.Second)
		if h.leased() {
			s.fatalf("it has a lease that it does not need")
		}
		h.crash()
		s.bounded(slack, s.put(lead, "k", "v"))
	}},
	{name: "holder-restarts-at-once", policy: "all", length: 2 * time.Second, play: func(s *stage) {
		// R15. Its earlier life reads no more, so no write waits for that.
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		h.crash()
		p := s.put(lead, "k", "v")
		s.w.Run(10 * time.Millisecond)
		h.startUp()
		s.bounded(2*tick+slack, p)
	}},
	{name: "policy-changes", policy: "leader", play: func(s *stage) {
		// R12. The lease of one that holds before and after goes on all the time.
		lead, f, _ := s.three()
		s.holding(lead)
		for _, policy := range []string{"all", "leader", "all"} {
			c := &call{}
			lead.propose(wrapperspb.String(policy), c.end)
			s.never(2*promiseLength, "the leader has no lease", func() bool { return !lead.leased() })
			s.success(time.Second, "another policy", c)
			s.ask(f)
			s.until(time.Second, "followers do as it says", func() bool { return f.leased() == (policy == "all") })
		}
		c := &call{}
		f.propose(wrapperspb.String("off"), c.end)
		s.until(time.Second, "nobody reads by itself", func() bool { return !lead.leased() && !f.leased() })
		s.success(time.Second, "a read", s.read(f, "k"))
	}},
}

// bounded wants a write to be done within d.
func (s *stage) bounded(d time.Duration, c *call) {
	s.t.Helper()
	s.success(d, "a write with a bound", c)
}
