package replicasim

import (
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

// releaseScripts: which reports release an entry.
var releaseScripts = []script{
	{name: "holder-that-has-nothing", policy: "all", play: func(s *stage) {
		// R1, R2, R3. It got its promise after all that was reported before.
		lead, g, h := s.three()
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(tick)
		s.granted(h, g)
		s.hold(h, g, "quorumlease.Request")
		s.hold(lead, h, "MsgApp")
		s.released(s.put(lead, "k", "new"), h, 50*time.Millisecond)
	}},
	{name: "grantor-restarts", policy: "all", length: 500 * time.Millisecond, play: func(s *stage) {
		// R14. It forgot its promises, so it may be bound to any member.
		lead, g, h := s.three()
		s.w.Run(tick)
		s.granted(h, g)
		s.restartUnder(lead, g, h)
	}},
	{name: "grantor-restarts-with-a-learner", learners: 1, policy: "all", length: 500 * time.Millisecond, play: func(s *stage) {
		// R14. Learners hold leases, too.
		lead, f, g := s.three()
		d := s.members[3]
		s.w.Run(tick)
		s.granted(d, f, g)
		s.restartUnder(lead, g, d)
	}},
	{name: "grantor-restarts-with-a-shorter-length", policy: "all", length: 500 * time.Millisecond, play: func(s *stage) {
		// R14, Q-6. The promises that it forgot were longer than those it makes now.
		lead, g, h := s.three()
		s.w.Run(tick)
		s.granted(h, g)
		s.LeaseLength = 20 * time.Millisecond
		s.restartUnder(lead, g, h)
	}},
	{name: "receipt-of-an-earlier-life", policy: "all", play: func(s *stage) {
		// The holder had the entry in memory and said so. It comes back
		// without, in the same term, and gets promises again.
		lead, g, h := s.three()
		s.slowly(h, lead)
		earlier := s.hold(lead, h, "MsgApp")
		s.put(lead, "k", "old")
		earlier.catch(1)
		earlier.pass(0)
		s.w.Run(100 * time.Millisecond)
		h.Disk.Forced = len(h.Disk.Durable)
		earlier.away()
		s.w.Run(tick)

		entry := s.hold(lead, g, growth...)
		p := s.put(lead, "k", "new")
		s.w.Run(10 * time.Millisecond) // its receipt is there
		h.Disk.Queue = nil
		h.crash()
		h.Disk.Slow = 0
		h.startUp()
		s.hold(lead, h, growth...)
		s.hold(h, lead, "quorumlease.Request")
		s.holding(h)
		s.hold(h, g, "quorumlease.Request")
		entry.release()
		s.w.Run(10 * time.Millisecond)
		if p.done && h.leased() {
			s.fatalf("a receipt of an earlier life counts for this one")
		}
		earlier.pass(0) // for an answer of this life
		s.released(p, h, 50*time.Millisecond)
	}},
	{name: "report-overtaken", policy: "all", play: func(s *stage) {
		// R4, Q-5. A report speaks of the entries that it came with, and not of a
		// later one that another came with.
		lead, g, h := s.three()
		s.w.Run(tick)
		acks := s.hold(g, lead, "MsgAppResp")
		s.success(time.Second, "a put that two others have", s.put(lead, "k", "old"))
		acks.catch(1)
		s.w.Run(tick)
		early := len(acks.held)
		s.granted(h, g)
		s.hold(h, g, "quorumlease.Request")
		s.hold(lead, h, news...)
		p := s.put(lead, "k", "new")
		acks.catch(early + 1)
		acks.pass(early)
		s.w.Run(3 * time.Millisecond)
		acks.pass(0)
		acks.open = false
		s.released(p, h, 50*time.Millisecond+2*tick)
	}},
	{name: "report-of-an-earlier-leadership", members: 5, learners: 1, policy: "all", length: time.Second, play: func(s *stage) {
		// R4, R17, R18. In an earlier term the holder had entries under the same
		// indices, that this one knows nothing of.
		lead, c, d, e, h := s.members[0], s.members[1], s.members[2], s.members[3], s.members[4]
		learner := s.members[5]
		s.w.Run(tick)
		for _, o := range []*Member{c, d, e} {
			s.hold(lead, o)
			s.hold(o, lead)
		}
		acks := s.hold(h, lead, "MsgAppResp")
		for _, m := range []*Member{h, learner, h, learner} { // each in an entry of its own
			s.put(m, "k", "never")
			s.w.Run(3 * time.Millisecond)
		}
		n := len(acks.held)
		for i := range n {
			acks.pass(i)
		}
		s.w.Run(5 * time.Millisecond)
		acks.open = false
		for _, o := range []*Member{h, learner} { // lest they propose that again
			o.Disk.Forced = len(o.Disk.Durable)
			o.crash()
		}
		for _, o := range []*Member{c, d, e} {
			o.Step(replica.Down{Node: lead.ID})
		}
		s.until(time.Second, "another leader", func() bool { return d.follows(c) && e.follows(c) })
		h.startUp()
		learner.startUp()
		s.mend()
		s.until(5*time.Second, "all follow it", func() bool { return lead.follows(c) && h.follows(c) })
		s.lead(lead)
		s.w.Run(tick)
		s.granted(h, d, e)
		s.hold(h, d, "quorumlease.Request")
		s.hold(h, e, "quorumlease.Request")
		s.hold(lead, h, news...)
		p := s.put(lead, "k", "new")
		s.w.Run(5 * time.Millisecond)
		if p.done {
			s.fatalf("what was reported in an earlier leadership of this leader counts for this one")
		}
		if h.lease.Index >= 8 {
			s.fatalf("the put is not under an index that the earlier term had")
		}
		acks.pass(n - 1)
		s.released(p, h, 50*time.Millisecond)
		s.mend()
	}},
	{name: "report-of-a-log-that-will-be-cut", policy: "all", length: 2 * time.Second, play: func(s *stage) {
		// R4. A leader was deposed with entries of its own at the end of its log.
		// It reports before the next leader has cut them off, for it has one that
		// is committed and not released.
		h, x, g := s.three()
		s.holding(h)
		s.holding(x)
		s.w.Run(tick)
		s.hold(h, x, growth...)
		held := s.put(g, "held", "v")
		s.w.Run(10 * time.Millisecond)
		s.cutOff(h)
		s.put(h, "b", "never")
		s.w.Run(3 * time.Millisecond)
		s.put(h, "c", "never")
		s.w.Run(3 * time.Millisecond)
		x.Step(replica.Down{Node: h.ID})
		g.Step(replica.Down{Node: h.ID})
		s.until(time.Second, "another leader", func() bool { return g.leads() && x.follows(g) })
		s.mend()
		entries := s.hold(g, h, "MsgApp")
		s.hold(g, h, "quorumlease.News")
		s.until(time.Second, "it follows the next leader", func() bool { return h.follows(g) })
		p := s.put(g, "k", "new")
		s.w.Run(3 * tick)
		entries.catch(1)
		entries.pass(0) // the first of its term, and no more
		s.w.Run(5 * time.Millisecond)
		s.released(p, h, 500*time.Millisecond)
		s.success(time.Second, "the put before", held)
	}},
	{name: "most-have-it-and-it-is-not-committed", tail: 16 << 20, policy: "all", play: func(s *stage) {
		// R1, R17. An entry of an earlier term is on most members, and may be replaced yet: an
		// uncommitted entry is not released.
		lead, g, h := s.three()
		s.w.Run(tick)
		s.hold(lead, g)
		s.hold(lead, h)
		s.put(lead, "k", strings.Repeat("x", 1<<20)) // fills a message
		s.w.Run(20 * time.Millisecond)
		lead.crash()
		g.Step(replica.Down{Node: lead.ID})
		h.Step(replica.Down{Node: lead.ID})
		s.mend()
		lonely := s.hold(g, h, "MsgApp")
		s.until(time.Second, "another leader", func() bool { return h.follows(g) })
		lonely.catch(1) // its first entry is on its own disk only
		s.w.Run(20 * time.Millisecond)
		g.crash()
		s.mend()
		lead.startUp()
		first := s.hold(lead, h, "MsgApp")
		h.Step(replica.Down{Node: g.ID})
		s.until(10*time.Second, "the first leader again", func() bool { return h.follows(lead) })
		var bad bool
		s.onNews(func(released uint64) {
			known := uint64(0)
			for _, m := range s.members {
				if m.Up() {
					known = max(known, m.replica.Status().Commit)
				}
			}
			bad = bad || released > known
		})
		first.catch(1)
		first.pass(0) // there is a gap before it
		first.catch(3)
		first.pass(2) // the entry that was missing, alone
		s.w.Run(5 * tick)
		if bad {
			s.fatalf("news that an entry is released which is not committed")
		}
		s.mend()
	}},
	{name: "grantor-that-had-it-on-its-disk", policy: "all", play: func(s *stage) {
		// The entry is durable at the one that restarts, so its acknowledgment does not wait
		// for its disk; it is bound to everyone then, and later to none. There is no other
		// write that would have it acknowledge again.
		lead, g, h := s.three()
		s.w.Run(tick)
		s.hold(h, nil)
		s.hold(nil, h)
		acks := s.hold(g, lead, "MsgAppResp")
		p := s.put(lead, "k", "new")
		acks.catch(1)
		g.crash()
		acks.away()
		again := s.hold(g, lead, "MsgAppResp")
		g.startUp()
		again.catch(1)
		s.hold(lead, g) // it does not hear that the entry is committed
		again.release()
		s.success(time.Second, "a put", p)
	}},
}

// restartUnder has a grantor restart while the holder can read, and a write wait for
// that.
func (s *stage) restartUnder(lead, grantor, holder *Member) {
	s.t.Helper()
	s.hold(lead, holder, news...)
	s.hold(holder, grantor, "quorumlease.Request")
	grantor.crash()
	grantor.startUp()
	s.released(s.put(lead, "k", "new"), holder, 300*time.Millisecond)
}
