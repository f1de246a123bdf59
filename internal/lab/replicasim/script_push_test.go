package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/lab/pushlease"
)

// Lengths of the paper's protocol on stage are those of the paper, made shorter. With them a
// grantor stops after the second promise without an answer, which may be under way for longer
// than it lasts.
var (
	pushLengths = pushlease.Lengths{Guard: 300 * time.Millisecond, Lease: 400 * time.Millisecond, Grace: time.Second, Renew: 100 * time.Millisecond}
	longGuard   = pushlease.Lengths{Guard: 600 * time.Millisecond, Lease: 200 * time.Millisecond, Grace: 200 * time.Millisecond, Renew: 190 * time.Millisecond}
)

// pushScripts are of the paper's own protocol, and its ways (package pushlease).
var pushScripts = []script{
	{name: "pushed-to-all", policy: "all", paper: &pushlease.Ways{Push: pushLengths}, play: func(s *stage) {
		// Figure 5. There were no reads anywhere, and no member asks.
		requests := s.count("quorumlease.Request")
		lead, f, h := s.three()
		for _, m := range s.members {
			s.until(time.Second, m.Lane+" has a lease", m.leased)
		}
		s.never(2*time.Second, "a lease ends while all is well", func() bool { return !lead.leased() || !f.leased() || !h.leased() })
		if *requests > 0 {
			s.fatalf("%d requests", *requests)
		}
		s.success(100*time.Millisecond, "a put that all have to know of", s.put(f, "k", "new"))
		s.success(slack, "a read", s.fresh(s.read(h, "k"), "new"))
	}},
	{name: "pushed-behind-the-guard", policy: "all", paper: &pushlease.Ways{Push: pushLengths}, play: func(s *stage) {
		// Line 11. A promise was under way for so long that its grantor has given it up, and is
		// bound to no member.
		lead, g, h := s.three()
		s.w.Run(time.Second) // all promise each other
		late := s.hold(g, h, "pushlease.Pushed")
		s.hold(lead, h, "pushlease.Pushed")
		s.hold(g, h, "pushlease.Guard")
		s.hold(lead, h, "pushlease.Guard")
		late.catch(1)
		s.w.Run(pushLengths.Stall() + slack)
		s.hold(lead, h, news...)
		s.success(100*time.Millisecond, "a put that waits for nobody", s.put(lead, "k", "new"))
		late.pass(0)
		late.pass(len(late.held) - 1)
		s.never(50*time.Millisecond, "a promise counts that came too late", h.leased)
	}},
	{name: "pushed-as-late-as-may-be", policy: "all", paper: &pushlease.Ways{Push: longGuard}, play: func(s *stage) {
		// Lines 3 and 15. The promise comes just before the guard ends, and counts
		// for a whole lease from then; its grantor gave the holder up long before.
		lead, g, h := s.three()
		s.alone(h, g)
		late := s.hold(g, h, "pushlease.Pushed")
		late.catch(2)
		s.hold(g, h, "pushlease.Guard")
		s.hold(lead, h, news...)
		s.w.Run(longGuard.Lease + longGuard.Lease/2)
		p := s.put(lead, "k", "new")
		s.w.Run(longGuard.Guard - 2*longGuard.Lease)
		late.pass(1)
		s.until(slack, "the lease", h.leased)
		s.released(p, h, longGuard.Guard)
	}},
	{name: "pushed-and-not-acknowledged", policy: "all", paper: &pushlease.Ways{Push: pushLengths}, play: func(s *stage) {
		// Replies get lost. The holder reads, and its grantor counts it in until it
		// gives it up, and for guard and lease from then.
		lead, g, h := s.three()
		s.alone(h, g)
		s.until(time.Second, "the lease", h.leased)
		s.hold(h, g, "pushlease.PromiseReply")
		s.w.Run(2 * pushLengths.Renew)
		s.hold(lead, h, news...)
		s.hold(h, g, "pushlease.GuardAck")
		s.released(s.put(lead, "k", "new"), h, pushLengths.Guard+slack)
	}},
	{name: "pushed-again-behind-a-reply", policy: "all", paper: &pushlease.Ways{Push: longGuard}, play: func(s *stage) {
		// Figure 5, line 20, as it had to be mended. The reply to a promise comes
		// when the next one is on its way; that one lasts.
		lead, g, h := s.three()
		s.alone(h, g)
		replies := s.hold(h, g, "pushlease.PromiseReply")
		s.until(time.Second, "the lease", h.leased)
		replies.catch(1)
		late := s.hold(g, h, "pushlease.Pushed")
		s.hold(lead, h, news...)
		late.catch(1)
		replies.pass(0)
		s.w.Run(2 * time.Millisecond)
		g.Pause()
		p := s.put(lead, "k", "new")
		s.w.Run(longGuard.Lease + longGuard.Lease/2)
		s.hold(g, h, "pushlease.Guard") // it has been silent for too long
		late.pass(0)
		s.until(slack, "the lease again", h.leased)
		g.Resume()
		s.released(p, h, longGuard.Guard)
	}},
	{name: "pushed-twice", policy: "all", paper: &pushlease.Ways{Push: longGuard}, play: func(s *stage) {
		// The wire repeats a promise. It lasts from when it came first.
		lead, g, h := s.three()
		s.alone(h, g)
		promises := s.hold(g, h, "pushlease.Pushed")
		promises.catch(1)
		promises.pass(0)
		s.until(slack, "the lease", h.leased)
		s.hold(h, nil, "pushlease.GuardAck")
		s.w.Run(slack)
		s.hold(lead, h, news...)
		p := s.put(lead, "k", "new")
		s.until(time.Second, "the lease ends", func() bool { return !h.leased() })
		s.w.Run(longGuard.Guard - longGuard.Lease - 2*slack)
		promises.pass(0)
		s.never(10*time.Millisecond, "it counts again", h.leased)
		s.success(longGuard.Stall(), "the put", p)
	}},
	{name: "pushed-behind-the-entry", policy: "all", paper: &pushlease.Ways{Push: pushLengths}, play: func(s *stage) {
		// Section 3.6, case 2 (3), and Q-1. The grantor acknowledged an entry, then
		// promised; the first promise is lost, and the holder has not got the entry.
		lead, g, h := s.three()
		s.alone(h, g)
		guards := s.hold(g, h, "pushlease.Guard")
		s.w.Run(2 * pushLengths.Stall())
		blind := s.hold(lead, h, news...)
		s.success(100*time.Millisecond, "a put that waits for nobody", s.put(lead, "k", "new"))
		promises := s.hold(g, h, "pushlease.Pushed")
		guards.release()
		promises.catch(2)
		promises.pass(1)
		s.never(50*time.Millisecond, "a promise counts that was made behind an entry", h.leased)
		promises.release()
		blind.release()
		s.until(time.Second, "the lease, when the entry is there", h.leased)
		s.success(time.Second, "a read", s.fresh(s.read(h, "k"), "new"))
	}},
	{name: "pushed-to-one-that-dies", policy: "all", paper: &pushlease.Ways{Push: pushLengths}, play: func(s *stage) {
		// Section 3.8. Writes wait for grace, guard and lease, each after the other.
		lead, _, h := s.three()
		s.until(time.Second, "the lease", h.leased)
		s.w.Run(tick)
		h.crash()
		died, p := s.w.Now(), s.put(lead, "k", "v")
		s.bounded(pushLengths.Stall()*102/100+slack, p)
		if took := s.w.Now() - died; took < pushLengths.Stall()-2*pushLengths.Renew-slack {
			s.fatalf("it took %v: the grantors knew more than the paper's can", took)
		}
		s.bounded(slack, s.put(lead, "k", "w"))
	}},
	{name: "pushed-by-one-that-is-cut-off", policy: "all", paper: &pushlease.Ways{Push: pushLengths}, play: func(s *stage) {
		// The hole that stalls are for (R21): a holder that hears its grantors, and not its
		// leader, holds writes up for as long as that lasts. A holder whose grantors do not
		// hear it either is given up after the grace period.
		lead, g, h := s.three()
		s.until(time.Second, "the lease", h.leased)
		s.w.Run(tick)
		s.hold(lead, h, news...)
		p := s.put(lead, "k", "v")
		s.never(2*pushLengths.Stall(), "the paper's protocol finds out", func() bool { return p.done })
		s.hold(h, lead, "pushlease.PromiseReply", "pushlease.GuardAck")
		s.hold(h, g, "pushlease.PromiseReply", "pushlease.GuardAck")
		s.bounded(pushLengths.Stall()*102/100+slack, p)
		s.mend()
		s.w.Run(3 * time.Second)
	}},
	{name: "rejoins-when-its-promises-are-over", policy: "all", paper: &pushlease.Ways{Push: pushLengths, WaitToRejoin: true}, play: func(s *stage) {
		// Section 3.7, t_wait. The grantor is back, and has forgotten its promise;
		// until that has run out it acknowledges nothing.
		lead, g, h := s.three()
		s.alone(h, g)
		s.until(time.Second, "the lease", h.leased)
		s.w.Run(tick)
		s.hold(g, h, "pushlease.Pushed")
		s.hold(lead, h, news...)
		g.crash()
		g.startUp()
		back, p := s.w.Now(), s.put(lead, "k", "new")
		s.released(p, h, pushLengths.Wait())
		if took := s.w.Now() - back; took < pushLengths.Wait() {
			s.fatalf("it took part after %v", took)
		}
		s.until(time.Second, "it follows", func() bool { return g.follows(lead) })
	}},
	{name: "suspect-is-excluded", policy: "quorum/key", plan: 4 * time.Second, paper: &pushlease.Ways{Push: pushLengths, ExcludeSuspect: true}, play: func(s *stage) {
		// Section 3.7. A suspected member gets no keys any more, without waiting for the next
		// plan.
		lead, _, h := s.three()
		holds := func(m *Member) bool {
			cells := lead.replica.Status().ReadLeases.Cells
			if cells == nil {
				return false
			}
			place := cells.Place(m.ID)
			return place >= 0 && cells.Holders([]byte("k")).Has(place)
		}
		s.until(10*time.Second, "it holds what is read there", func() bool {
			s.readKey(h, "k", "")
			return holds(h)
		})
		h.crash()
		s.until(pushLengths.Grace+500*time.Millisecond, "it holds nothing any more", func() bool { return !holds(h) })
	}},
	{name: "change-lets-leases-lapse", policy: "static/key", paper: &pushlease.Ways{Push: pushLengths, Lapse: true}, play: func(s *stage) {
		// Section 3.5, the first way.
		lead, f, h := s.three()
		s.divide("default = 1,3")
		s.reader(h, "k")
		lead.setCells(s.cells("default = 1,2,3"), func() {})
		s.until(pushLengths.Lease, "a lease ends", func() bool { return !h.holdsLease() })
		s.until(2*pushLengths.Lease, "and the next begins", h.holdsLease)
		s.reader(f, "k")
	}},
	{name: "change-is-abided-by", policy: "static/key", paper: &pushlease.Ways{Push: pushLengths, Abide: true}, play: func(s *stage) {
		// Section 3.5, the second way: an earlier holder of the keys is waited for until
		// promises of that time are over, though it knows that it holds them no more.
		lead, f, h := s.three()
		s.divide("default = 1,3")
		s.reader(h, "k")
		done := false
		lead.setCells(s.cells("default = 1,2"), func() { done = true })
		s.until(time.Second, "the change is made", func() bool { return done && s.inForce(f, "default = 1,2") })
		s.hold(lead, h, "MsgApp")
		p := s.put(lead, "k", "new")
		s.never(pushLengths.Lease, "the put does not wait", func() bool { return p.done })
		s.success(slack, "a put when that is over", func() *call { s.w.Run(pushLengths.Wait()); return s.put(lead, "l", "v") }())
		s.mend()
		s.success(time.Second, "the put", p)
	}},
}

// holdsLease reports whether a member has a lease on whatever it holds.
func (m *Member) holdsLease() bool { return m.replica.Status().ReadLeases.Left > 0 }

// alone lets a member have pushed promises of one other only, from now on, and waits
// until it has none.
func (s *stage) alone(m, grantor *Member) {
	s.t.Helper()
	for _, o := range s.members {
		if o != m && o != grantor {
			s.hold(o, m, "pushlease.Guard", "pushlease.Pushed")
		}
	}
	all := s.hold(grantor, m, "pushlease.Guard", "pushlease.Pushed")
	s.w.Run(3 * s.Paper.Push.Stall())
	all.away()
	s.w.Run(time.Millisecond)
}
