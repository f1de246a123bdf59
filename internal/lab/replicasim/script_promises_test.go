package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

// promiseScripts: which promises count, from when, and for how long. In each, a write
// that the holder does not know of waits until its lease ends, and no longer.
var promiseScripts = []script{
	{name: "promise-behind-the-entry", policy: "all", play: func(s *stage) {
		// The first promise, that says where the grantor's log ended, is lost; the renewal
		// must say it again. R5: a member that is not there yet waits.
		lead, g, h := s.three()
		s.w.Run(tick)
		blind := s.hold(lead, h, news...)
		behind := s.hold(lead, g, news...)
		p := s.put(lead, "k", "new")
		behind.catch(1)
		behind.pass(0)
		s.success(time.Second, "a put that nobody else has to know of", p)
		s.hold(h, lead, "quorumlease.Request")
		promises := s.hold(g, h, "quorumlease.Promise")
		s.ask(h)
		promises.catch(2)
		promises.pass(1)
		s.never(50*time.Millisecond, "a promise counts that was made behind an entry", h.leased)
		promises.release()
		behind.release()
		blind.release()
		s.until(time.Second, "the lease, when the entry is there", h.leased)
		s.success(time.Second, "a read", s.fresh(s.read(h, "k"), "new"))
	}},
	{name: "promise-of-a-minority", members: 5, policy: "all", play: func(s *stage) {
		// R6. One grantor and itself are two of five.
		lead, h := s.members[0], s.members[4]
		for _, o := range s.members[:3] {
			s.hold(h, o, "quorumlease.Request")
		}
		s.w.Run(tick)
		s.ask(h)
		s.w.Run(20 * time.Millisecond)
		s.hold(lead, h, news...)
		s.hold(lead, s.members[3], news...)
		s.success(time.Second, "a put", s.put(lead, "k", "new"))
		s.never(50*time.Millisecond, "two of five have a lease", h.leased)
	}},
	{name: "promise-to-a-learner", learners: 1, policy: "all", play: func(s *stage) {
		// R6. A learner is no voter, so its own promise is worth nothing.
		lead, f, g := s.three()
		d := s.members[3]
		s.w.Run(tick)
		s.hold(d, lead, "quorumlease.Request")
		s.hold(d, f, "quorumlease.Request")
		s.ask(d)
		s.w.Run(20 * time.Millisecond)
		s.hold(lead, d, news...)
		s.hold(lead, g, news...)
		s.success(time.Second, "a put", s.put(lead, "k", "new"))
		s.never(50*time.Millisecond, "a learner has a lease by one voter of three", d.leased)
	}},
	{name: "promise-that-came-late", policy: "all", play: func(s *stage) {
		// R10. It counts from when its own request was sent, not a later one.
		lead, g, h := s.three()
		s.w.Run(tick)
		s.hold(h, lead, "quorumlease.Request")
		requests := s.hold(h, g, "quorumlease.Request")
		promises := s.hold(g, h, "quorumlease.Promise")
		s.ask(h)
		requests.catch(1)
		requests.pass(0)
		requests.catch(4)
		promises.catch(1)
		promises.pass(0)
		s.until(10*time.Millisecond, "the lease", h.leased)
		s.hold(lead, h, news...)
		s.released(s.put(lead, "k", "new"), h, 50*time.Millisecond)
	}},
	{name: "clocks-that-differ", policy: "all", length: 5 * time.Second, play: func(s *stage) {
		// R10. The holder's clock is slow and the grantor's fast, by almost one in
		// a hundred.
		lead, g, h := s.three()
		h.Drift(-0.0095)
		g.Drift(0.0095)
		s.w.Run(tick)
		s.granted(h, g)
		s.hold(h, g, "quorumlease.Request")
		s.hold(lead, h, "MsgApp")
		s.released(s.put(lead, "k", "new"), h, 300*time.Millisecond)
	}},
	{name: "clock-that-stood-still", policy: "all", play: func(s *stage) {
		// R11. Earlier promises to a holder may be over long since.
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		h.Drift(-0.999)
		s.cutOff(h)
		s.doubt(h, h.Now().Mono)
		s.success(time.Second, "a put", s.put(lead, "k", "new"))
		s.never(time.Second, "it has a lease", h.leased)
	}},
	{name: "clock-that-ran-ahead", policy: "all", length: 5 * time.Second, play: func(s *stage) {
		// R11. A grantor's promise may not be over.
		lead, g, h := s.three()
		s.w.Run(tick)
		s.granted(h, g)
		s.hold(h, g, "quorumlease.Request")
		s.hold(lead, h, "MsgApp")
		since := g.Now().Mono
		g.StepMono(6 * time.Second)
		s.doubt(g, since)
		s.released(s.put(lead, "k", "new"), h, 2*time.Second)
	}},
	{name: "clock-that-runs-too-fast", policy: "all", length: 2 * time.Second, play: func(s *stage) {
		// R11. It goes nearly twice as fast as it should, and each look at it shows that.
		lead, g, h := s.three()
		s.w.Run(tick)
		g.Drift(0.9)
		s.granted(h, g)
		s.hold(h, g, "quorumlease.Request")
		s.hold(lead, h, "MsgApp")
		s.failClock(g)
		s.released(s.put(lead, "k", "new"), h, 4*time.Second)
	}},
	{name: "clock-that-stays-in-doubt", policy: "all", length: 400 * time.Millisecond, play: func(s *stage) {
		// R11, liveness: promises to the dead end, however long the doubt lasts.
		lead, g, h := s.three()
		s.holding(h)
		s.granted(h, g)
		s.failClock(g)
		s.w.Run(time.Second)
		s.holding(h)
		h.crash()
		s.success(4*s.LeaseLength, "a put", s.put(lead, "k", "new"))
		s.w.Run(s.LeaseLength + 50*time.Millisecond)
		for range 3 {
			s.w.Run(100 * time.Millisecond)
			s.success(50*time.Millisecond, "another", s.put(lead, "k", "newer"))
		}
	}},
	{name: "promise-made-anew-in-doubt", policy: "all", play: func(s *stage) {
		// R11, R5. It had run out by a clock that was right, and a write was done meanwhile:
		// the next promise is not a renewal.
		lead, g, h := s.three()
		s.holding(h)
		since := g.Now().Mono
		s.hold(h, g, "quorumlease.Request")
		s.hold(h, lead, "quorumlease.Request")
		s.w.Run(250 * time.Millisecond)
		s.hold(lead, h, "MsgApp")
		s.success(50*time.Millisecond, "the write", s.put(lead, "k", "new"))
		s.doubt(g, since)
		s.mend()
		s.hold(lead, h, "MsgApp")
		s.never(150*time.Millisecond, "it has a lease", func() bool { s.ask(h); return h.leased() })
	}},
	{name: "clock-that-is-right-again", policy: "all", play: func(s *stage) {
		// Doubt ends, and then all is as before.
		_, _, h := s.three()
		s.holding(h)
		s.doubt(h, h.Now().Mono)
		s.until(10*time.Millisecond, "it gives its lease back", func() bool { return !h.leased() })
		s.never(900*time.Millisecond, "it has a lease", func() bool { s.ask(h); return h.leased() })
		s.holding(h)
	}},
	{name: "promise-of-another-length", policy: "all", length: 500 * time.Millisecond, play: func(s *stage) {
		// The grantor came back with shorter promises than the holder's.
		lead, g, h := s.three()
		s.w.Run(tick)
		s.LeaseLength = 100 * time.Millisecond
		g.crash()
		g.startUp()
		s.w.Run(time.Second)
		s.granted(h, g)
		s.hold(h, g, "quorumlease.Request")
		s.hold(lead, h, news...)
		s.released(s.put(lead, "k", "new"), h, 50*time.Millisecond)
	}},
	{name: "promise-to-an-earlier-life", policy: "all", play: func(s *stage) {
		// R15. The numbers of requests begin anew, so the promise seems to answer
		// one of this life's.
		lead, g, h := s.three()
		s.w.Run(tick)
		s.hold(h, lead, "quorumlease.Request")
		promises := s.hold(g, h, "quorumlease.Promise")
		s.ask(h)
		promises.catch(1)
		h.Disk.Forced = len(h.Disk.Durable)
		h.crash()
		h.startUp()
		s.until(time.Second, "it is back", func() bool { return h.follows(lead) && h.state.Index() == lead.state.Index() })
		s.w.Run(300 * time.Millisecond) // the promise has run out
		lost := s.hold(h, g, "quorumlease.Request")
		s.ask(h)
		lost.catch(1)
		s.hold(lead, h, news...)
		promises.pass(0)
		s.w.Run(5 * time.Millisecond)
		s.success(time.Second, "a put that waits for nobody", s.put(lead, "k", "new"))
		s.never(50*time.Millisecond, "the promise counts", h.leased)
	}},
	{name: "life-that-is-over", policy: "all", play: func(s *stage) {
		// R15. No write waits for a lease of a life that ended: the holder is back and has said
		// so, but has nothing of the write yet.
		lead, _, h := s.three()
		s.w.Run(tick)
		earlier := s.hold(lead, h, "MsgApp")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		earlier.catch(1)
		earlier.pass(0)
		s.w.Run(tick)
		h.Disk.Forced = len(h.Disk.Durable)
		s.holding(h)
		p := s.put(lead, "k", "new")
		s.w.Run(5 * time.Millisecond)
		h.crash()
		h.startUp()
		earlier.pass(0)
		s.success(30*time.Millisecond, "a put that waited for the life before", p)
	}},
	{name: "promise-given-back-too-late", policy: "all", idle: 50 * time.Millisecond, play: func(s *stage) {
		// The holder gave its promises back, and asked again at once. The first
		// message comes after the second.
		lead, g, h := s.three()
		s.w.Run(tick)
		s.granted(h, g)
		late := s.hold(h, g, "quorumlease.Return")
		late.catch(1)
		s.holding(h)
		late.release()
		s.w.Run(2 * time.Millisecond)
		s.hold(lead, h, news...)
		p := s.put(lead, "k", "new")
		for range 3 {
			s.ask(h) // so that it is not given back again
			s.w.Run(10 * time.Millisecond)
		}
		s.hold(h, g, "quorumlease.Request", "quorumlease.Return")
		s.released(p, h, 300*time.Millisecond)
	}},
	{name: "stamp-of-a-later-term", members: 5, policy: "all", length: 400 * time.Millisecond, play: func(s *stage) {
		// R5. The holder's log is long enough, by entries of an earlier term that
		// the later one knows nothing of.
		lead, c, d, e, h := s.members[0], s.members[1], s.members[2], s.members[3], s.members[4]
		s.w.Run(tick)
		for _, o := range []*Member{c, d, e} {
			s.hold(lead, o)
			s.hold(o, lead)
		}
		for _, key := range []string{"v", "w", "x", "y", "z"} {
			s.put(lead, key, "never")
			s.w.Run(3 * time.Millisecond)
		}
		later := s.hold(c, h, "MsgApp")
		s.hold(c, h, "MsgHeartbeat", "quorumlease.News")
		for _, o := range []*Member{c, d, e} {
			o.Step(replica.Down{Node: lead.ID})
		}
		s.until(time.Second, "another leader", func() bool { return c.follows(c) && d.follows(c) && e.follows(c) })
		later.catch(1)
		s.success(time.Second, "a put under the new leader", s.put(c, "k", "new"))
		s.w.Run(20 * time.Millisecond)
		s.ask(h)
		s.w.Run(10 * time.Millisecond)
		later.pass(0) // no more than the first entry of the term
		s.never(50*time.Millisecond, "it reads without the second", h.leased)
		s.mend()
		s.w.Run(3 * time.Second)
	}},
}
