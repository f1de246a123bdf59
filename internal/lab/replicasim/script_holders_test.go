package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

// holderScripts: the entries that a reader under a lease has to wait for, after any history of
// its member.
var holderScripts = []script{
	{name: "read-waits-for-the-log", policy: "all", play: func(s *stage) {
		// R7, Q-2. The entry is there, and that it was released is not known yet.
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		m := s.hold(lead, h, news...)
		p := s.put(lead, "k", "new")
		m.catch(1)
		m.pass(0)
		s.success(100*time.Millisecond, "a put that the holder has", p)
		r := s.fresh(s.read(h, "k"), "new")
		s.w.Run(20 * time.Millisecond)
		m.release()
		s.success(time.Second, "the read", r)
	}},
	{name: "receipt-behind-what-is-published", policy: "all", play: func(s *stage) {
		// R8, R31. The disk is slow, so the holder says that it has the entry as soon as it
		// has, and a write does not wait for the disk. The readers' view has the entry by then.
		lead, _, h := s.three()
		s.slowly(h, lead)
		receipt := s.hold(h, lead, "quorumlease.Report")
		entry := s.hold(lead, h)
		s.hold(s.members[1], h)
		p := s.put(lead, "k", "new")
		n := 0
		s.until(50*time.Millisecond, "a receipt", func() bool { // it hears of the entry, and of nothing else
			for ; n < len(entry.held) && len(receipt.held) == 0; n++ {
				entry.pass(n)
				s.w.Run(2 * time.Millisecond)
			}
			return len(receipt.held) > 0
		})
		receipt.release()
		s.success(20*time.Millisecond, "a put that does not wait for the holder's disk", p)
		s.mend()
		s.success(time.Second, "a read", s.fresh(s.read(h, "k"), "new"))
	}},
	{name: "receipt-of-a-leader", policy: "leader", play: func(s *stage) {
		// R31. A majority has it on disk, and the leader's readers wait for it.
		lead, f, _ := s.three()
		s.slowly(lead, lead)
		s.success(20*time.Millisecond, "a put that does not wait for the leader's disk", s.put(f, "k", "new"))
		s.success(time.Second, "a read", s.fresh(s.read(lead, "k"), "new"))
	}},
	{name: "leader-behind-its-followers", policy: "all", play: func(s *stage) {
		// R9. The leader's own state is the last to have the entry, and its lease
		// must not show the one before.
		lead, f, _ := s.three()
		s.holding(lead)
		s.w.Run(tick)
		lead.stall()
		s.success(time.Second, "a put through a follower", s.put(f, "k", "new"))
		r := s.fresh(s.read(lead, "k"), "new")
		s.w.Run(20 * time.Millisecond)
		lead.resume()
		s.success(time.Second, "the read", r)
	}},
	{name: "snapshot-not-loaded-yet", policy: "all", play: func(s *stage) {
		// R16. A snapshot takes the place of the log; the state is still the old one, and the
		// holders by the new one are not known yet.
		lead, _, h := s.three()
		s.w.Run(tick)
		h.crash()
		s.fill(lead, 256)
		s.success(time.Second, "a put", s.put(lead, "k", "new"))
		s.w.Run(time.Second)
		lead.takeSnapshot() // of all that there is
		s.w.Run(time.Second)
		old := s.hold(lead, h, "MsgApp")
		h.startUp()
		s.until(time.Second, "it has applied its own log", func() bool { return h.state.ReadPolicy() != "" })
		h.stall()
		s.ask(h)
		old.release()
		s.never(2*time.Second, "a lease, by a snapshot that is not loaded", h.leased)
		r := s.fresh(s.read(h, "k"), "new")
		s.w.Run(100 * time.Millisecond)
		h.resume()
		s.success(2*time.Second, "the read", r)
	}},
	{name: "leader-that-has-released-nothing", policy: "all", length: time.Second, play: func(s *stage) {
		// R17. The new leader has the entry, and does not know that the one before
		// it released it. It has a lease already.
		lead, g, h := s.three()
		s.holding(g)
		s.w.Run(tick)
		m := s.hold(lead, g, news...)
		p := s.put(lead, "k", "new")
		m.catch(1)
		m.pass(0)
		s.success(100*time.Millisecond, "a put", p)
		s.hold(g, h, "MsgApp")
		s.kill(lead)
		s.until(time.Second, "another leader", func() bool { return h.follows(g) })
		if !g.leased() {
			s.fatalf("the new leader's lease has ended")
		}
		r := s.fresh(s.read(g, "k"), "new")
		s.w.Run(50 * time.Millisecond)
		s.mend()
		s.success(2*time.Second, "the read", r)
	}},
	{name: "renewal-at-a-leader-whose-lease-ended", policy: "leader", play: func(s *stage) {
		// S-1. The leader slept longer than its lease lasts; the messages in its inbox when it
		// wakes are questions, and no news.
		lead, f, g := s.three()
		s.holding(lead)
		l := s.grant(f, 1, 5)
		lead.Pause()
		s.cutOff(lead)
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		s.success(time.Second, "a put under the new leader", s.put(f, "k", "new"))
		s.w.Run(2 * time.Second)
		s.renew(lead, l)
		r := s.fresh(s.read(lead, "k"), "new")
		lead.Resume()
		s.until(6*time.Second, "the lease ends", func() bool { return l.gone > 0 })
		s.mend()
		s.success(5*time.Second, "the read", r)
		s.w.Run(3 * time.Second)
	}},
	{name: "renewal-under-a-lease", members: 5, policy: "leader", play: func(s *stage) {
		// The lease has the answer that a round would find out, so neither renewals nor reads
		// wait for one, of followers neither.
		lead, f := s.members[0], s.members[1]
		l := s.grant(f, 1, 5)
		s.holding(lead)
		for range 10 {
			s.renewed(4*time.Millisecond, s.renew(lead, l))
			s.renewed(8*time.Millisecond, s.renew(f, l))
			s.success(8*time.Millisecond, "a read", s.read(f, "k"))
			s.w.Run(7 * time.Millisecond)
		}
	}},
}

// slowly lets a member with a lease find out that its disk is slow.
func (s *stage) slowly(m, lead *Member) {
	s.t.Helper()
	m.Disk.Slow = 50 * time.Millisecond
	for range 5 {
		s.success(5*time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(60 * time.Millisecond)
	}
	s.holding(m)
	s.w.Run(tick)
}
