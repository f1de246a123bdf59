package sim

import (
	"time"

	"github.com/tenure-lease/tenure/replica"
)

// readScripts: a linearizable read sees every write acknowledged before it was
// asked for.
var readScripts = []script{
	{name: "read-at-a-deposed-leader", play: func(s *stage) {
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(200 * time.Millisecond)
		s.cutOff(lead)
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.success(time.Second, "a put under the new leader", s.put(f, "k", "new"))
		s.fresh(s.read(lead, "k"), "new")
		s.mend()
		s.w.Run(3 * time.Second)
	}},
	{name: "read-at-a-leader-that-slept", play: func(s *stage) {
		// The read waits in its inbox together with the news.
		lead, f, _ := s.three()
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(200 * time.Millisecond)
		lead.Pause()
		s.until(5*time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
		s.success(time.Second, "a put under the new leader", s.put(f, "k", "new"))
		lead.inbox = nil
		r := s.read(lead, "k")
		lead.Resume()
		s.success(5*time.Second, "the read", s.fresh(r, "new"))
	}},
	{name: "confirmation-of-an-earlier-life", play: func(s *stage) {
		// Rounds are numbered anew in each life, with the member's boot beside.
		lead, f, g := s.three()
		old := s.hold(lead, f, "MsgReadIndexResp")
		s.read(f, "k")
		old.catch(1)
		old.open = false
		f.crash()
		f.boots()
		s.until(time.Second, "the follower finds its leader", func() bool {
			return f.follows(lead) && f.state.Index() == lead.state.Index()
		})
		blind := s.hold(lead, f, "MsgApp")
		s.success(time.Second, "a put", s.put(g, "k", "new"))
		lost := s.hold(f, lead, "MsgReadIndex")
		r := s.fresh(s.read(f, "k"), "new")
		lost.catch(1)
		old.pass(0)
		s.w.Run(100 * time.Millisecond)
		lost.away()
		blind.away()
		s.success(3*time.Second, "the read", r)
	}},
	{name: "confirmation-of-an-earlier-round", play: func(s *stage) {
		// The first try seems lost. The second covers more reads, so a late
		// answer to the first must not be taken for one to it.
		lead, f, g := s.three()
		old := s.hold(lead, f, "MsgReadIndexResp")
		s.read(f, "k")
		old.catch(1)
		lost := s.hold(f, lead, "MsgReadIndex")
		blind := s.hold(lead, f, "MsgApp")
		s.success(time.Second, "a put", s.put(g, "k", "new"))
		r := s.fresh(s.read(f, "k"), "new")
		s.w.Run(900 * time.Millisecond) // the first round is given up
		old.pass(0)
		s.w.Run(100 * time.Millisecond)
		old.away()
		lost.away()
		blind.away()
		s.success(3*time.Second, "the read", r)
	}},
	{name: "read-behind-one-that-set-out", play: func(s *stage) {
		// A read that arrives while a round flies is not covered by it.
		lead, f, g := s.three()
		old := s.hold(lead, f, "MsgReadIndexResp")
		s.read(f, "k")
		old.catch(1)
		blind := s.hold(lead, f, "MsgApp")
		s.success(time.Second, "a put", s.put(g, "k", "new"))
		r := s.fresh(s.read(f, "k"), "new")
		old.pass(0)
		s.w.Run(100 * time.Millisecond)
		old.away()
		blind.away()
		s.success(3*time.Second, "the read", r)
	}},
	{name: "round-lost", play: func(s *stage) {
		lead, f, _ := s.three()
		lost := s.hold(f, lead, "MsgReadIndex")
		r := s.read(f, "k")
		lost.catch(1)
		lost.away()
		s.success(2*time.Second, "the read", r)
	}},
	{name: "read-over-a-change-of-leader", play: func(s *stage) {
		lead, f, g := s.three()
		s.hold(f, lead, "MsgReadIndex")
		r := s.read(f, "k")
		s.w.Run(50 * time.Millisecond)
		s.kill(lead)
		s.success(2*time.Second, "a put under the new leader", s.put(g, "k", "new"))
		s.success(3*time.Second, "the read", r)
		s.success(3*time.Second, "another read", s.fresh(s.read(f, "k"), "new"))
	}},
	{name: "alone-after-a-crash", members: 1, play: func(s *stage) {
		// The write is durable and acknowledged; that it was committed is not
		// durable yet. Alone, the member leads at once.
		m := s.members[0]
		s.success(time.Second, "a put", s.put(m, "k", "old"))
		s.w.Run(200 * time.Millisecond)
		p := s.put(m, "k", "new")
		s.success(time.Second, "a put", p)
		m.disk.queue = nil
		for last := len(m.disk.durable) - 1; len(m.disk.durable[last].(replica.Record).Entries) == 0; last-- {
			m.disk.durable = m.disk.durable[:last] // nothing waited for it
		}
		m.crash()
		m.disk.slow = 500 * time.Millisecond
		m.boots()
		s.success(3*time.Second, "the read", s.fresh(s.read(m, "k"), "new"))
	}},
}

// fresh wants a read, if it is answered, to find a value.
func (s *stage) fresh(c *call, want string) *call {
	c.want = want
	return c
}
