package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
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
		lead.LoseInbox()
		r := s.read(lead, "k")
		lead.Resume()
		s.success(5*time.Second, "the read", s.fresh(r, "new"))
	}},
	{name: "confirmation-of-an-earlier-life", play: func(s *stage) {
		// Rounds are numbered anew in each life, with the member's boot beside.
		lead, f, g := s.three()
		old := s.hold(lead, f, "readAnswer")
		s.read(f, "k")
		old.catch(1)
		old.open = false
		f.crash()
		f.startUp()
		s.until(time.Second, "the follower finds its leader", func() bool {
			return f.follows(lead) && f.state.Index() == lead.state.Index()
		})
		blind := s.hold(lead, f, "MsgApp")
		s.success(time.Second, "a put", s.put(g, "k", "new"))
		lost := s.hold(f, lead, "readAsk")
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
		old := s.hold(lead, f, "readAnswer")
		s.read(f, "k")
		old.catch(1)
		lost := s.hold(f, lead, "readAsk")
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
		old := s.hold(lead, f, "readAnswer")
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
	{name: "question-in-a-minority", members: 5, play: func(s *stage) {
		// Two of five cannot confirm each other.
		lead, f := s.members[0], s.members[1]
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(200 * time.Millisecond)
		for _, m := range s.members[2:] {
			for _, cut := range s.members[:2] {
				s.hold(m, cut)
				s.hold(cut, m)
			}
			m.Step(replica.Down{Node: lead.ID})
		}
		next := s.members[2]
		s.until(time.Second, "another leader", func() bool { return next.leads() })
		s.success(time.Second, "a put under the new leader", s.put(next, "k", "new"))
		if !f.follows(lead) {
			s.fatalf("the one that asks knows that the leader was deposed")
		}
		r := s.fresh(s.read(f, "k"), "new")
		s.w.Run(100 * time.Millisecond)
		s.mend()
		s.success(5*time.Second, "the read", r)
	}},
	{name: "question-among-five", members: 5, play: func(s *stage) {
		lead, f := s.members[0], s.members[4]
		s.success(time.Second, "a put", s.put(lead, "k", "new"))
		s.success(100*time.Millisecond, "a read", s.fresh(s.read(f, "k"), "new"))
	}},
	{name: "question-of-a-learner", learners: 1, play: func(s *stage) {
		// A learner has no vote that it could have withheld.
		lead, f, g := s.three()
		d := s.members[3]
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(200 * time.Millisecond)
		for _, m := range []*Member{f, g} {
			for _, cut := range []*Member{lead, d} {
				s.hold(m, cut)
				s.hold(cut, m)
			}
			m.Step(replica.Down{Node: lead.ID})
		}
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.success(time.Second, "a put under the new leader", s.put(f, "k", "new"))
		if !d.follows(lead) {
			s.fatalf("the learner knows that the leader was deposed")
		}
		r := s.fresh(s.read(d, "k"), "new")
		s.w.Run(100 * time.Millisecond)
		s.mend()
		s.success(5*time.Second, "the read", r)
	}},
	{name: "question-after-a-vote-and-a-crash", play: func(s *stage) {
		// The one that asks has helped another leader, and hears of the old one
		// first when it is back.
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(200 * time.Millisecond)
		s.hold(g, lead) // which goes on as a leader
		s.hold(f, lead, "MsgAppResp", "MsgHeartbeatResp")
		beats := s.hold(lead, f, "MsgApp", "MsgHeartbeat")
		f.Disk.Slow = 100 * time.Millisecond
		s.transfer(lead, g)
		s.until(time.Second, "another leader", func() bool { return g.leads() })
		s.hold(lead, g)
		s.success(time.Second, "a put under the new leader", s.put(g, "k", "new"))
		f.crash()
		f.Disk.Slow = 0
		f.startUp()
		s.hold(g, f)
		beats.release()
		r := s.fresh(s.read(f, "k"), "new")
		s.w.Run(100 * time.Millisecond)
		if !lead.leads() {
			s.fatalf("the old leader knows that it was deposed")
		}
		s.mend()
		s.success(5*time.Second, "the read", r)
	}},
	{name: "question-to-a-new-leader", play: func(s *stage) {
		// The next leader has the write in its log, and does not know that it
		// was committed.
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(200 * time.Millisecond)
		acks := s.hold(nil, lead, "MsgAppResp")
		p := s.put(lead, "k", "new")
		acks.catch(2)
		s.hold(lead, nil) // which would tell it of the commit
		acks.release()
		s.success(time.Second, "the put", p)
		s.kill(lead)
		slow := s.hold(f, g, "MsgApp")
		s.until(time.Second, "another leader", func() bool { return g.follows(f) })
		r := s.fresh(s.read(g, "k"), "new")
		s.w.Run(100 * time.Millisecond)
		slow.release()
		s.success(3*time.Second, "the read", r)
	}},
	{name: "round-lost", play: func(s *stage) {
		lead, f, _ := s.three()
		lost := s.hold(f, lead, "readAsk")
		r := s.read(f, "k")
		lost.catch(1)
		lost.away()
		s.success(2*time.Second, "the read", r)
	}},
	{name: "read-far-from-the-leader", play: func(s *stage) {
		// The answer comes when the round was given up already, and so would each.
		_, f, _ := s.three()
		s.net.OneWay = func(from, to machine.NodeID) time.Duration {
			if from == f.ID || to == f.ID {
				return 3 * tick // there and back, more than half an election timeout
			}
			return 0
		}
		s.w.Run(electionTicks * tick)
		s.success(2*electionTicks*tick, "a read", s.read(f, "k"))
		s.success(7*tick, "another, since the first says how long that takes", s.read(f, "k"))
	}},
	{name: "read-over-a-change-of-leader", play: func(s *stage) {
		lead, f, g := s.three()
		s.hold(f, lead, "readAsk")
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
		m.Disk.Queue = nil
		for last := len(m.Disk.Durable) - 1; len(m.Disk.Durable[last].(replica.Record).Entries) == 0; last-- {
			m.Disk.Durable = m.Disk.Durable[:last] // nothing waited for it
		}
		m.crash()
		m.Disk.Slow = 500 * time.Millisecond
		m.startUp()
		s.success(3*time.Second, "the read", s.fresh(s.read(m, "k"), "new"))
	}},
}

// fresh wants a read, if it is answered, to find a value.
func (s *stage) fresh(c *call, want string) *call {
	c.want = want
	return c
}
