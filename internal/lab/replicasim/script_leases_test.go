package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// leaseScripts: no lease ends while a promise to its holder lasts, and none lives on without a
// renewal. The checkers watch the promises.
var leaseScripts = []script{
	{name: "whole-life-under-a-new-leader", play: func(s *stage) {
		lead, f, g := s.three()
		l := s.grant(lead, 1, 5)
		s.w.Run(100 * time.Millisecond)
		s.renewed(time.Second, s.renew(g, l))
		s.kill(lead)
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.wantEndBetween(l, 5*time.Second, 5500*time.Millisecond)
	}},
	{name: "one-ttl-under-one-leader", play: func(s *stage) {
		_, f, g := s.three()
		l := s.grant(f, 1, 3)
		s.w.Run(time.Second)
		s.renewed(time.Second, s.renew(g, l))
		s.wantEndBetween(l, 2999*time.Millisecond, 3200*time.Millisecond)
	}},
	{name: "looking-does-not-renew", play: func(s *stage) {
		lead, f, _ := s.three()
		l := s.grant(lead, 1, 2)
		answers := 0
		for range 9 {
			f.remaining(l.id, func(a replica.AnswerLease) { answers++ })
			s.w.Run(200 * time.Millisecond)
		}
		if answers != 9 {
			s.fatalf("%d answers to 9 questions", answers)
		}
		s.wantEndBetween(l, 0, 400*time.Millisecond)
	}},
	{name: "renewal-at-a-leader-that-slept", play: func(s *stage) {
		// S-1. The renewal is in its inbox when it wakes; the news is not.
		lead, f, g := s.three()
		l := s.grant(f, 1, 5)
		lead.Pause()
		s.cutOff(lead)
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.w.Run(2 * time.Second)
		s.renew(lead, l)
		lead.Resume()
		s.until(6*time.Second, "the lease ends", func() bool { return l.gone > 0 })
		s.mend()
		s.w.Run(3 * time.Second)
	}},
	{name: "answer-of-a-leader-that-slept", play: func(s *stage) {
		// It was asked before it slept, and the answer would be true: its leases
		// last from the question on. But many a holder counts from the answer.
		lead, f, g := s.three()
		l := s.grant(f, 1, 5)
		lead.Pause()
		r := s.renew(g, l)
		s.w.Run(10 * time.Millisecond)
		s.hold(nil, lead)
		s.hold(g, f, "leaseAsks")
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.until(time.Second, "another leader", func() bool { return g.follows(f) })
		answers := s.count("leaseAnswers")
		lead.Resume()
		s.w.Run(50 * time.Millisecond)
		if *answers == 0 {
			s.fatalf("the leader that slept has not answered")
		}
		if r.done {
			s.fatalf("the answer of an earlier leader was taken")
		}
		s.mend()
		s.renewed(2*time.Second, r)
	}},
	{name: "renewal-joins-a-round-that-set-out", play: func(s *stage) {
		// Two rounds fly, and are confirmed by answers from before the leader was deposed. An
		// answer that waits for a third was asked after that.
		lead, f, g := s.three()
		l := s.grant(f, 1, 5)
		slow := s.hold(nil, lead, "MsgHeartbeatResp")
		for n := range 2 {
			s.renew(lead, l)
			slow.catch(2 * (n + 1))
		}
		slow.open = false
		s.cutOff(lead)
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.w.Run(100 * time.Millisecond)
		s.renew(lead, l)
		s.w.Run(10 * time.Millisecond)
		slow.release()
		s.until(6*time.Second, "the lease ends", func() bool { return l.gone > 0 })
		s.mend()
		s.w.Run(3 * time.Second)
	}},
	{name: "expiry-by-a-leader-that-slept", play: func(s *stage) {
		// By the clock of the one that slept, all leases are over.
		lead, f, g := s.three()
		l := s.grant(lead, 1, 2)
		lead.Pause()
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		for range 10 {
			s.renewed(time.Second, s.renew(g, l))
			s.w.Run(600 * time.Millisecond)
		}
		s.renewed(time.Second, s.renew(g, l))
		lead.LoseInbox() // it hears of nothing before it has acted
		lead.Resume()
		s.w.Run(50 * time.Millisecond)
		s.lead(lead)
		s.wantEndBetween(l, 1900*time.Millisecond, 2500*time.Millisecond)
	}},
	{name: "renewal-meets-an-expiry", play: func(s *stage) {
		lead, f, _ := s.three()
		l := s.grant(lead, 1, 1)
		s.w.Run(300 * time.Millisecond)
		lead.Pause() // so that it leaves no checkpoint
		s.w.Run(720 * time.Millisecond)
		slow := s.hold(nil, lead, "MsgAppResp")
		lead.Resume()
		s.w.Run(20 * time.Millisecond)
		r := s.renew(f, l)
		s.w.Run(300 * time.Millisecond)
		slow.release()
		s.until(time.Second, "an answer", func() bool { return r.done })
		if r.ttl != 0 {
			s.fatalf("the renewal was granted, and the lease ended")
		}
	}},
	{name: "lease-not-applied-yet", play: func(s *stage) {
		lead, f, _ := s.three()
		lead.stall()
		l := s.grant(f, 1, 5)
		r := s.renew(f, l)
		s.w.Run(200 * time.Millisecond)
		lead.resume()
		s.renewed(time.Second, r)
	}},
	{name: "ask-lost", play: func(s *stage) {
		lead, f, _ := s.three()
		l := s.grant(lead, 1, 5)
		lost := s.hold(f, lead, "leaseAsks")
		r := s.renew(f, l)
		lost.catch(1)
		lost.away()
		s.renewed(2*time.Second, r)
	}},
	{name: "answer-lost", play: func(s *stage) {
		lead, f, _ := s.three()
		l := s.grant(lead, 1, 5)
		lost := s.hold(lead, f, "leaseAnswers")
		r := s.renew(f, l)
		lost.catch(1)
		lost.away()
		s.renewed(2*time.Second, r)
	}},
	{name: "ask-of-a-leader-that-died", play: func(s *stage) {
		lead, f, g := s.three()
		l := s.grant(lead, 1, 5)
		s.hold(f, lead, "leaseAsks")
		r := s.renew(f, l)
		q := s.renew(g, l)
		s.kill(lead)
		s.renewed(time.Second, r)
		s.renewed(time.Second, q)
	}},
	{name: "answer-to-an-earlier-life", play: func(s *stage) {
		lead, f, _ := s.three()
		l := s.grant(lead, 1, 5)
		old := s.hold(lead, f, "leaseAnswers")
		s.renew(f, l)
		old.catch(1)
		old.open = false
		s.success(time.Second, "the revocation", s.revoke(lead, l))
		f.crash()
		f.startUp()
		s.until(time.Second, "the follower finds its leader", func() bool { return f.follows(lead) })
		lost := s.hold(f, lead, "leaseAsks")
		r := s.renew(f, l)
		lost.catch(1)
		old.pass(0)
		s.w.Run(100 * time.Millisecond)
		if r.done {
			s.fatalf("a renewal that nobody has seen was answered: TTL %d ms", r.ttl)
		}
	}},
	{name: "renewal-removes-the-checkpoint", play: func(s *stage) {
		// S-2.
		lead, f, g := s.three()
		l := s.grant(lead, 1, 5)
		s.w.Run(4250 * time.Millisecond) // a checkpoint says: one second
		s.renewed(time.Second, s.renew(g, l))
		s.kill(lead)
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.wantEndBetween(l, 4900*time.Millisecond, 5500*time.Millisecond)
	}},
	{name: "checkpoint-outlives-its-leader", play: func(s *stage) {
		lead, f, _ := s.three()
		l := s.grant(lead, 1, 5)
		s.w.Run(4400 * time.Millisecond) // the third, at 4 s, may be up to three ticks late
		s.kill(lead)
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.wantEndBetween(l, 0, 1500*time.Millisecond)
	}},
	{name: "checkpoint-that-was-never-committed", play: func(s *stage) {
		lead, f, g := s.three()
		l := s.grant(lead, 1, 5)
		s.hold(lead, nil, "MsgApp")
		s.w.Run(4250 * time.Millisecond)
		s.cutOff(lead)
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.renewed(time.Second, s.renew(g, l))
		s.mend()
		s.lead(lead)
		s.wantEndBetween(l, 4500*time.Millisecond, 6*time.Second)
	}},
	{name: "checkpoint-behind-its-removal", play: func(s *stage) {
		// The removal takes longer to commit than it takes for the next
		// checkpoint to fall due.
		lead, f, g := s.three()
		l := s.grant(lead, 1, 5)
		s.w.Run(2150 * time.Millisecond)
		slow := s.hold(nil, lead, "MsgAppResp")
		s.renew(g, l)
		s.w.Run(50 * time.Millisecond)
		once := s.hold(g, lead, "leaseAsks") // it would be repeated
		s.w.Run(3100 * time.Millisecond)
		once.away()
		r := s.renew(g, l)
		s.w.Run(20 * time.Millisecond)
		slow.release()
		s.renewed(time.Second, r)
		s.kill(lead)
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.wantEndBetween(l, 4500*time.Millisecond, 5500*time.Millisecond)
	}},
	{name: "counting-waits-for-the-log", play: func(s *stage) {
		// The new leader has the removal of a checkpoint in its log but has not
		// applied it when it is elected.
		lead, f, g := s.three()
		l := s.grant(lead, 1, 5)
		s.w.Run(4250 * time.Millisecond)
		f.stall()
		s.success(time.Second, "a put", s.put(g, "k", "v"))
		s.w.Run(200 * time.Millisecond)
		s.renewed(time.Second, s.renew(g, l))
		s.w.Run(200 * time.Millisecond)
		s.kill(lead)
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		f.resume()
		s.wantEndBetween(l, 4500*time.Millisecond, 5500*time.Millisecond)
	}},
	{name: "leaders-come-and-go", play: func(s *stage) {
		// Each leads for 0.45 TTL: enough to leave a checkpoint behind.
		lead, f, g := s.three()
		l := s.grant(lead, 1, 10)
		granted := s.w.Now()
		for _, next := range []*Member{f, g, lead, f, g, lead} {
			s.w.Run(4500 * time.Millisecond)
			s.lead(next)
		}
		if l.gone == 0 || l.gone-granted > 11500*time.Millisecond {
			s.fatalf("a lease of 10 s that nobody renewed ended after %v, want 11.5 s at most", l.gone-granted)
		}
	}},
	{name: "leaders-lead-too-briefly", play: func(s *stage) {
		// The bound says so: below 0.4 TTL nothing is remembered.
		lead, f, g := s.three()
		l := s.grant(lead, 1, 10)
		for _, next := range []*Member{f, g, lead, f, g, lead} {
			s.w.Run(3 * time.Second)
			s.lead(next)
		}
		s.wantEndBetween(l, 9500*time.Millisecond, 10500*time.Millisecond)
	}},
	{name: "granted-again-before-its-expiry", play: func(s *stage) {
		// The leader has not applied that the lease was revoked and its ID
		// granted anew when the old one falls due.
		lead, f, _ := s.three()
		l := &held{id: 1, ttl: 2 * time.Second}
		s.success(time.Second, "the grant", s.grantCall(f, l))
		s.w.Run(1900 * time.Millisecond)
		lead.stall()
		s.success(time.Second, "the revocation", s.revoke(f, l))
		l.ttl = 5 * time.Second
		s.success(time.Second, "the second grant", s.grantCall(f, l))
		granted := s.w.Now()
		s.w.Run(300 * time.Millisecond)
		lead.resume()
		s.until(7*time.Second, "the lease ends", func() bool { return !f.has(l) })
		if after := s.w.Now() - granted; after < 5*time.Second {
			s.fatalf("a lease of %v ended after %v", l.ttl, after)
		}
	}},
	{name: "granted-again-before-its-checkpoint", play: func(s *stage) {
		lead, f, g := s.three()
		l := &held{id: 1, ttl: 5 * time.Second}
		s.success(time.Second, "the grant", s.grantCall(f, l))
		s.w.Run(3850 * time.Millisecond)
		lead.stall()
		s.success(time.Second, "the revocation", s.revoke(f, l))
		s.success(time.Second, "the second grant", s.grantCall(f, l))
		granted := s.w.Now()
		s.w.Run(400 * time.Millisecond)
		lead.resume()
		s.w.Run(200 * time.Millisecond)
		s.kill(lead)
		s.until(7*time.Second, "the lease ends", func() bool { return !g.has(l) })
		if after := s.w.Now() - granted; after < 5*time.Second {
			s.fatalf("a lease of %v ended after %v", l.ttl, after)
		}
	}},
	{name: "thousands-are-renewed-after-a-silence", tail: 4 << 20, play: func(s *stage) {
		// All have a checkpoint by then. Its removal must not cost an entry, and
		// its answer a message, for each.
		lead, f, _ := s.three()
		const n = 3000
		for id := range int64(n) {
			s.grantCall(lead, &held{id: id + 1, ttl: 10 * time.Second})
		}
		s.w.Run(5 * time.Second)
		before, messages := lead.replica.Status().Last, s.count("leaseAnswers")
		answers := 0
		for id := range int64(n) {
			f.keepAlive(id+1, func(a replica.AnswerLease) {
				if a.TTL > 0 {
					answers++
				}
			})
		}
		s.until(time.Second, "all are renewed", func() bool { return answers == n })
		if entries := lead.replica.Status().Last - before; entries < 3 || entries > 10 || *messages > 10 {
			s.fatalf("%d entries and %d messages, want a few of each", entries, *messages)
		}
	}},
	{name: "thousands-under-a-new-leader", tail: 4 << 20, play: func(s *stage) {
		// More than it gives their time in one turn. Those asked for meanwhile
		// are the last to get it.
		lead, f, g := s.three()
		const n, renewed = 4500, 10
		for id := range int64(n) {
			s.grantCall(lead, &held{id: id + 1, ttl: 2 * time.Second})
		}
		var last []*held
		s.w.Run(500 * time.Millisecond)
		for id := range int64(renewed) {
			last = append(last, s.grant(lead, n+id+1, 2))
		}
		s.kill(lead)
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		for _, l := range last {
			s.renew(g, l)
		}
		s.w.Run(time.Second)
		for _, l := range last {
			s.renewed(100*time.Millisecond, s.renew(g, l))
		}
		s.until(1500*time.Millisecond, "the others are gone", func() bool { return f.replica.Status().Leases == renewed })
		s.until(1500*time.Millisecond, "all are gone", func() bool { return f.replica.Status().Leases == 0 })
	}},
	{name: "thousands-expire-together", tail: 4 << 20, play: func(s *stage) {
		lead, f, _ := s.three()
		const n = 4500
		for id := range int64(n) {
			s.grantCall(lead, &held{id: id + 1, ttl: 2 * time.Second})
		}
		s.w.Run(1620 * time.Millisecond)
		s.w.Run(330 * time.Millisecond)
		if got := lead.replica.Status().Leases; got != n {
			s.fatalf("%d leases, want %d", got, n)
		}
		slow := s.hold(nil, lead, "MsgAppResp")
		s.w.Run(500 * time.Millisecond)
		st := lead.replica.Status()
		if on := st.Last - st.Applied; on < 2 || on > 4 {
			s.fatalf("%d expiry entries are on their way, want 4 at most", on)
		}
		slow.release()
		s.until(500*time.Millisecond, "all leases are gone", func() bool { return f.replica.Status().Leases == 0 })
	}},
}

// wantEndBetween wants a lease to end when a time between low and high has passed.
func (s *stage) wantEndBetween(l *held, low, high time.Duration) {
	s.t.Helper()
	from := s.w.Now()
	s.until(high, "the lease ends", func() bool { return l.gone > 0 })
	if after := l.gone - from; after < low {
		s.fatalf("the lease ended after %v, want %v at least", after, low)
	}
}

func (s *stage) grantCall(m *Member, l *held) *call {
	c := &call{}
	m.propose(&pb.LeaseGrantRequest{ID: l.id, TTL: int64(l.ttl / time.Second)}, c.end)
	return c
}

func (s *stage) revoke(m *Member, l *held) *call {
	c := &call{}
	l.revoked = true
	m.propose(&pb.LeaseRevokeRequest{ID: l.id}, c.end)
	return c
}
