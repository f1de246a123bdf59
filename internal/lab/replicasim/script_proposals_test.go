package replicasim

import (
	"errors"
	"time"
)

// proposalScripts: a request enters the log once, or its client is told that it
// may not have.
var proposalScripts = []script{
	{name: "forward-duplicated", play: func(s *stage) {
		lead, f, _ := s.three()
		h := s.hold(f, lead, "forward")
		p := s.put(f, "k", "v")
		h.catch(1)
		h.pass(0)
		s.success(time.Second, "the put", p)
		h.pass(0)
		s.once("k")
	}},
	{name: "forward-lost", play: func(s *stage) {
		lead, f, _ := s.three()
		h := s.hold(f, lead, "forward")
		p := s.put(f, "k", "v")
		h.catch(1)
		h.away()
		s.success(3*time.Second, "the put", p)
		s.once("k")
	}},
	{name: "forward-of-another-term", play: func(s *stage) {
		lead, f, g := s.three()
		h := s.hold(f, lead, "forward")
		p := s.put(f, "k", "v")
		h.catch(1)
		s.lead(g)
		s.success(3*time.Second, "the put, under the next leader", p)
		s.lead(lead)
		h.pass(0)
		s.once("k")
	}},
	{name: "forward-refused-then-duplicated", play: func(s *stage) {
		// While leadership is being passed on, a leader takes no proposals.
		lead, f, g := s.three()
		s.hold(lead, g, "MsgTimeoutNow")
		s.transfer(lead, g)
		h := s.hold(f, lead, "forward")
		p := s.put(f, "k", "v")
		h.catch(1)
		h.pass(0)
		s.w.Run(1500 * time.Millisecond) // until the leader gives up
		h.catch(2)
		h.pass(len(h.held) - 1)
		s.success(time.Second, "the put", p)
		h.pass(0)
		s.once("k")
	}},
	{name: "refusal-lost", play: func(s *stage) {
		lead, f, g := s.three()
		s.hold(lead, g, "MsgTimeoutNow")
		s.transfer(lead, g)
		r := s.hold(lead, f, "refused")
		p := s.put(f, "k", "v")
		r.catch(1)
		s.w.Run(1500 * time.Millisecond)
		r.away()
		s.success(3*time.Second, "the put", p)
		s.once("k")
	}},
	{name: "refusal-of-an-earlier-life", play: func(s *stage) {
		lead, f, g := s.three()
		s.hold(lead, g, "MsgTimeoutNow")
		s.transfer(lead, g)
		r := s.hold(lead, f, "refused")
		s.put(f, "first", "v")
		r.catch(1)
		s.w.Run(1500 * time.Millisecond)
		r.open = false
		f.crash()
		f.startUp()
		s.until(time.Second, "the follower finds its leader", func() bool { return f.follows(lead) })
		blind := s.hold(lead, f, "MsgApp", "MsgHeartbeat")
		s.put(f, "k", "v")
		s.w.Run(50 * time.Millisecond)
		r.pass(0)
		s.w.Run(200 * time.Millisecond)
		blind.release()
		s.once("k")
	}},
	{name: "refused-by-a-busy-leader", play: func(s *stage) {
		// A busy leader must not be asked again and again at wire speed.
		lead, f, g := s.three()
		s.hold(lead, g, "MsgTimeoutNow")
		s.transfer(lead, g)
		n := s.count("forward")
		p := s.put(f, "k", "v")
		s.success(3*time.Second, "the put", p)
		if *n > 20 {
			s.fatalf("the batch was forwarded %d times in a second", *n)
		}
		s.once("k")
	}},
	{name: "leader-dies-with-a-forward", play: func(s *stage) {
		lead, f, _ := s.three()
		s.hold(f, lead, "forward")
		p := s.put(f, "k", "v")
		s.w.Run(20 * time.Millisecond)
		s.kill(lead)
		s.success(2*time.Second, "the put, under the next leader", p)
		lead.startUp()
		s.once("k")
	}},
	{name: "deposed-with-a-batch-of-its-own", play: func(s *stage) {
		// The batch reached the log of the old leader only.
		lead, f, _ := s.three()
		s.cutOff(lead)
		p := s.put(lead, "k", "v")
		s.until(5*time.Second, "another leader", func() bool { l := s.leaderBut(lead); return l != nil })
		s.success(time.Second, "a put under the new leader", s.put(f, "other", "v"))
		s.mend()
		s.success(5*time.Second, "the put", p)
		s.once("k")
	}},
	{name: "own-batch-with-its-acknowledgments-late", play: func(s *stage) {
		// A batch is alive while its term is, however long it takes; the next
		// leader may find it in the log.
		lead, f, g := s.three()
		s.hold(nil, lead, "MsgAppResp")
		p := s.put(lead, "k", "v")
		s.w.Run(3 * time.Second)
		s.kill(lead)
		s.until(5*time.Second, "another leader", func() bool { return f.leads() || g.leads() })
		s.mend()
		lead.startUp()
		s.once("k")
		if p.ok {
			s.fatalf("a request was answered by a member that had died")
		}
	}},
	{name: "leader-changes-with-a-batch-in-the-log", play: func(s *stage) {
		lead, f, g := s.three()
		s.hold(nil, lead, "MsgAppResp")
		p := s.put(g, "k", "v")
		s.w.Run(50 * time.Millisecond)
		s.kill(lead)
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.mend()
		lead.startUp()
		s.success(time.Second, "the put", p)
		s.once("k")
	}},
	{name: "entry-of-this-term-is-no-reason", play: func(s *stage) {
		// The batch is on its way in the very term whose first entry is applied.
		lead, f, g := s.three()
		f.stall()
		s.lead(g)
		s.lead(lead)
		s.until(time.Second, "the follower knows of the leader's first entry", func() bool {
			st := f.replica.Status()
			return f.follows(lead) && st.Commit >= lead.replica.Status().Commit
		})
		s.w.Run(200 * time.Millisecond)
		p := s.put(f, "k", "v")
		s.w.Run(200 * time.Millisecond)
		// One report for each hand-out, so that the leader's first entry is
		// reported before the batch.
		f.resume()
		s.success(3*time.Second, "the put", p)
		s.once("k")
	}},
	{name: "fate-hidden-by-a-snapshot", play: func(s *stage) {
		lead, f, g := s.three()
		f.stall()
		blind := s.hold(lead, f, "MsgApp")
		p := s.put(f, "k", "v")
		s.w.Run(100 * time.Millisecond)
		s.fill(g, 120)
		if first := lead.replica.Status().Last; first == 0 || len(lead.snapshots) == 0 {
			s.fatalf("no snapshot was taken")
		}
		blind.away()
		f.resume()
		s.until(5*time.Second, "the request is given up", func() bool { return p.done })
		if !errors.Is(p.err, errAmbiguous) {
			s.fatalf("the request's fate was told: %v", p.err)
		}
		s.once("k")
	}},
	{name: "batch-of-an-earlier-life-in-the-log", play: func(s *stage) {
		// Requests and batches are numbered anew in each life.
		lead, f, _ := s.three()
		s.success(time.Second, "the first put", s.put(f, "first", "v"))
		f.crash()
		f.startUp()
		f.stall()
		s.until(time.Second, "the follower finds its leader", func() bool { return f.follows(lead) })
		h := s.hold(f, lead, "forward")
		p := s.put(f, "k", "v")
		h.catch(1)
		f.resume()
		s.w.Run(100 * time.Millisecond)
		if p.done {
			s.fatalf("a request that nobody has seen was answered: %v", p.err)
		}
		h.away()
		s.success(3*time.Second, "the put", p)
		s.once("k")
	}},
}
