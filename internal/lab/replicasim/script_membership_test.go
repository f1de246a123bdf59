package replicasim

import (
	"errors"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3/raftpb"
)

// change asks a member for another membership.
func (s *stage) change(m *Member, cc *raftpb.ConfChange) *call {
	c := &call{}
	m.change(cc, func(err error) { c.done, c.ok, c.err = true, err == nil, err })
	return c
}

// refused wants a change to be refused for a reason, soon.
func (s *stage) refused(m *Member, cc *raftpb.ConfChange, why error) {
	s.t.Helper()
	c := s.change(m, cc)
	s.until(time.Second, "an answer", func() bool { return c.done })
	if !errors.Is(c.err, why) {
		s.fatalf("it is told %v, want %v", c.err, why)
	}
}

// add adds a learner and starts it.
func (s *stage) add(through *Member) *Member {
	s.t.Helper()
	id := uint64(len(s.members) + 1)
	s.success(time.Second, "another member", s.change(through, replica.AddMember(id, []string{"http://new:2380"}, true)))
	return s.newcomer()
}

// caughtUp waits until a member has what another has.
func (s *stage) caughtUp(m, with *Member, d time.Duration) {
	s.t.Helper()
	s.until(d, m.Lane+" has caught up", func() bool { return m.view().index >= with.view().index })
}

// votersAt are the voters that a member knows, by its log as far as it is applied.
func votersAt(m *Member) []uint64 { return m.state.Roster().ConfState().GetVoters() }

// membershipScripts: members that come and go, while others read (R23).
var membershipScripts = []script{
	{name: "learner-catches-up-and-votes", policy: "all", play: func(s *stage) {
		// Its leader's log does not reach back to the beginning, and no snapshot that
		// there is knows of it.
		lead, f, _ := s.three()
		s.fill(lead, 200)
		s.w.Run(time.Second)
		id := uint64(4)
		s.success(time.Second, "a learner", s.change(f, replica.AddMember(id, []string{"http://d:2380"}, true)))
		s.refused(f, replica.PromoteMember(id), rpctypes.ErrGRPCLearnerNotReady)
		d := s.newcomer()
		s.caughtUp(d, lead, 10*time.Second)
		s.refused(d, replica.PromoteMember(1), rpctypes.ErrGRPCMemberNotLearner)
		s.success(2*time.Second, "its vote", s.change(d, replica.PromoteMember(id)))
		s.until(time.Second, "four voters", func() bool { return len(votersAt(lead)) == 4 })
		s.lead(d)
		s.success(time.Second, "a put", s.put(d, "k", "v"))
		s.together(5 * time.Second)
		d.crash()
		d.startUp()
		s.together(5 * time.Second)
	}},
	{name: "member-that-waits-to-be-one", policy: "all", play: func(s *stage) {
		lead, f, _ := s.three()
		d := s.newcomer()
		s.w.Run(5 * time.Second) // in which it disturbs no member
		s.success(time.Second, "a voter", s.change(lead, replica.AddMember(4, []string{"http://d:2380"}, false)))
		s.caughtUp(d, f, 3*time.Second)
		s.success(time.Second, "a put", s.put(d, "k", "v"))
		s.once("k")
	}},
	{name: "one-grows-to-two", members: 1, policy: "all", play: func(s *stage) {
		// The change is answered before the other has ever been started.
		lead := s.members[0]
		s.success(time.Second, "a voter", s.change(lead, replica.AddMember(2, []string{"http://b:2380"}, false)))
		p := s.put(lead, "k", "v")
		s.never(time.Second, "one of two is a majority", func() bool { return p.done })
		s.caughtUp(s.newcomer(), lead, 3*time.Second)
		s.success(time.Second, "the put", p)
		s.lead(s.members[1])
		s.success(time.Second, "another", s.put(s.members[1], "k", "w"))
	}},
	{name: "one-grows-to-two-in-key-order", members: 1, policy: "all/key", play: func(s *stage) {
		// Entries that are committed together with the change are behind it, and wait for the
		// newcomer, which needs a snapshot that knows of the change.
		lead := s.members[0]
		s.fill(lead, 200)
		s.w.Run(time.Second)
		lead.Disk.Slow = 50 * time.Millisecond
		s.put(lead, "j", "v")
		s.w.Run(5 * time.Millisecond)
		c := s.change(lead, replica.AddMember(2, []string{"http://b:2380"}, false))
		s.w.Run(5 * time.Millisecond)
		p := s.put(lead, "k", "v")
		s.success(time.Second, "a voter", c)
		lead.Disk.Slow = 0
		s.never(300*time.Millisecond, "one of two is a majority", func() bool { return p.done })
		s.caughtUp(s.newcomer(), lead, 3*time.Second)
		s.success(time.Second, "the put", p)
	}},
	{name: "two-shrink-to-one-that-restarts", members: 2, policy: "all", play: func(s *stage) {
		// It has forgotten that the change was released, and the member that could vouch for it
		// is gone.
		lead, f := s.members[0], s.members[1]
		lead.promised = 0
		hear := s.hold(f, lead, "quorumlease.Report")
		c := s.change(lead, replica.RemoveMember(2))
		s.until(time.Second, "a change of the log", func() bool { return len(lead.replica.Status().ConfState.GetVoters()) == 1 })
		s.w.Run(10 * time.Millisecond)
		hear.away()
		f.switchOff()
		lead.crash()
		lead.startUp()
		s.until(3*time.Second, "it leads", lead.leads)
		s.success(2*time.Second, "a put", s.put(lead, "k", "v"))
		_ = c // its asker died
	}},
	{name: "two-shrink-to-one-and-who-left-had-forgotten", members: 2, learners: 1, policy: "all", play: func(s *stage) {
		// It restarted and may be bound to anybody; then it is gone, and will never say
		// that it is not. The one that is left is a majority by itself.
		lead, f, d := s.members[0], s.members[1], s.members[2]
		s.w.Run(tick)
		f.crash()
		f.startUp()
		s.until(3*time.Second, "it is back", func() bool { return f.follows(lead) })
		s.cutOff(d)
		c := s.change(lead, replica.RemoveMember(2))
		s.until(time.Second, "a change of the log", func() bool { return len(lead.replica.Status().ConfState.GetVoters()) == 1 })
		f.switchOff()
		s.success(time.Second, "the removal", c)
	}},
	{name: "follower-removed", policy: "all", play: func(s *stage) {
		lead, f, g := s.three()
		s.success(time.Second, "a removal", s.change(g, replica.RemoveMember(3)))
		s.until(time.Second, "it stops", func() bool { return g.gone })
		s.refused(f, replica.RemoveMember(3), rpctypes.ErrGRPCMemberNotFound)
		s.refused(f, replica.AddMember(3, []string{"http://new:2380"}, false), rpctypes.ErrGRPCMemberExist)
		s.refused(f, replica.AddMember(4, []string{urlOf(2)}, false), rpctypes.ErrGRPCPeerURLExist)
		s.success(time.Second, "a put", s.put(lead, "k", "v"))
		s.success(time.Second, "a read", s.fresh(s.read(f, "k"), "v"))
	}},
	{name: "leader-removed", policy: "all", play: func(s *stage) {
		// Another member leads before it goes.
		lead, f, _ := s.three()
		s.success(time.Second, "a removal", s.change(lead, replica.RemoveMember(1)))
		s.success(500*time.Millisecond, "a put", s.put(f, "k", "v"))
		s.until(time.Second, "it stops", func() bool { return lead.gone })
	}},
	{name: "removed-holder-gives-its-promises-back", policy: "all", length: 5 * time.Second, play: func(s *stage) {
		// It stops reading when it sees the entry, and no write waits for it.
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		s.success(time.Second, "a removal", s.change(lead, replica.RemoveMember(3)))
		if h.leased() {
			s.fatalf("it may read")
		}
		s.success(200*time.Millisecond, "a put", s.put(lead, "k", "v"))
	}},
	{name: "removed-holder-that-is-cut-off", policy: "all", play: func(s *stage) {
		// It does not know, and reads on: no member may forget it before it cannot.
		lead, g, h := s.three()
		s.granted(h, g)
		s.w.Run(tick)
		s.hold(lead, h)
		s.hold(h, lead)
		c := s.change(lead, replica.RemoveMember(3))
		s.w.Run(5 * time.Millisecond)
		s.released(s.put(lead, "k", "new"), h, 50*time.Millisecond)
		s.success(time.Second, "the removal", c)
		s.never(time.Second, "one that was removed has a lease again", func() bool { s.ask(h); return h.leased() })
	}},
	{name: "removed-holder-in-key-order", policy: "all/key", play: func(s *stage) {
		// As before; the change is a barrier for members that hold any keys.
		lead, g, h := s.three()
		s.hold(h, lead, "quorumlease.Request")
		s.ask(h)
		s.w.Run(tick)
		s.hold(lead, h)
		s.hold(h, lead)
		s.hold(g, h, "MsgApp", "quorumlease.Report", "quorumlease.News")
		c := s.change(lead, replica.RemoveMember(3))
		s.w.Run(30 * time.Millisecond)
		if c.done {
			s.fatalf("the change is released, and a holder does not know of it")
		}
		p := s.put(lead, "k", "new")
		s.w.Run(5 * time.Millisecond)
		if p.done {
			s.fatalf("a put is released before the change that is before it")
		}
		s.success(2*time.Second, "the put", p)
		s.success(time.Second, "the removal", c)
	}},
	{name: "grantor-that-was-removed", members: 4, policy: "all", length: 5 * time.Second, play: func(s *stage) {
		// Two of three are a majority, but not with one that is none of them.
		lead, f, h, g := s.members[0], s.members[1], s.members[2], s.members[3]
		s.hold(h, lead, "quorumlease.Request")
		s.hold(h, f, "quorumlease.Request")
		s.ask(h)
		s.w.Run(tick)
		s.hold(lead, g)
		s.success(time.Second, "a removal", s.change(lead, replica.RemoveMember(4)))
		s.w.Run(tick / 2)
		s.hold(lead, h, news...)
		s.success(time.Second, "a put", s.put(lead, "k", "new"))
		s.never(50*time.Millisecond, "the promise of one that was removed counts", h.leased)
	}},
	{name: "one-change-at-a-time", learners: 2, policy: "all", length: 2 * time.Second, play: func(s *stage) {
		// Of three, then four, then five: a majority of the first voters and one of the last
		// voters need not share a member. So the second change waits until the holder has the
		// first, or cannot read.
		lead, g, h := s.three()
		s.granted(h, g)
		s.w.Run(tick)
		s.hold(lead, h)
		s.hold(h, lead)
		first := s.change(lead, replica.PromoteMember(4))
		s.w.Run(2 * tick)
		second := s.change(lead, replica.PromoteMember(5))
		s.w.Run(3 * tick)
		s.released(s.put(lead, "k", "new"), h, 50*time.Millisecond)
		s.success(time.Second, "a vote", first)
		s.success(time.Second, "another", second)
	}},
	{name: "majority-before-the-change", members: 4, policy: "all", play: func(s *stage) {
		// Two are a majority of the three that are left, and not of the four that there
		// were. Until it knows that the change is released, the reader needs both.
		lead, f, h, g := s.members[0], s.members[1], s.members[2], s.members[3]
		s.hold(h, lead, "quorumlease.Request")
		s.hold(h, g, "quorumlease.Request")
		s.ask(h)
		s.w.Run(tick)
		late := s.hold(lead, h, news...)
		s.change(f, replica.RemoveMember(4))
		late.catch(1)
		late.pass(0)
		s.never(30*time.Millisecond, "it has a lease by a change that is not released", h.leased)
		late.release()
		s.until(tick, "the lease, when it is", h.leased)
	}},
	{name: "slow-holder-and-a-newcomer", policy: "all", play: func(s *stage) {
		// A reader that does not know the newcomer is waited for.
		lead, g, h := s.three()
		s.granted(h, g)
		s.w.Run(tick)
		late := s.hold(lead, h, news...)
		c := s.change(lead, replica.AddMember(4, []string{"http://d:2380"}, true))
		s.never(50*time.Millisecond, "the change is released, and a holder does not know of it", func() bool { return c.done })
		late.release()
		s.success(time.Second, "the learner", c)
		if !h.leased() {
			s.fatalf("it lost its lease")
		}
		d := s.newcomer()
		s.caughtUp(d, lead, 3*time.Second)
		s.holding(d)
		s.success(time.Second, "a put", s.put(d, "k", "v"))
		s.success(time.Second, "a read", s.fresh(s.read(d, "k"), "v"))
	}},
	{name: "leader-dies-with-a-change", learners: 1, policy: "all", play: func(s *stage) {
		// All members that could lead know that it is committed, and none that it is released.
		lead, f, g := s.three()
		d := s.members[3]
		s.holding(d)
		s.w.Run(tick)
		s.hold(lead, d)
		s.hold(d, lead)
		last := lead.replica.Status().Last
		c := s.change(f, replica.UpdateMember(2, []string{"http://else:2380"}))
		s.until(time.Second, "it is committed", func() bool { return f.replica.Status().Commit > last && g.replica.Status().Commit > last })
		s.kill(lead)
		s.until(time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
		s.success(2*time.Second, "the change", c)
	}},
	{name: "change-behind-much-that-is-held", learners: 1, tail: 256 << 20, policy: "all", length: 4 * time.Second, play: func(s *stage) {
		// Raft would have to hand the change out before anybody can lead, and hands out
		// no more than so many megabytes that wait to be released.
		lead, f, _ := s.three()
		d := s.members[3]
		s.holding(d)
		s.w.Run(tick)
		s.cutOff(d)
		for range 10 {
			s.put(lead, "big", strings.Repeat("x", 1<<20))
			s.w.Run(10 * time.Millisecond)
		}
		s.w.Run(200 * time.Millisecond)
		s.change(f, replica.UpdateMember(2, []string{"http://else:2380"}))
		s.w.Run(500 * time.Millisecond)
		s.kill(lead)
		s.until(5*time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
	}},
	{name: "disk-lost-and-replaced", policy: "all", play: func(s *stage) {
		lead, f, g := s.three()
		s.holding(g)
		s.holding(f)
		g.switchOff()
		s.success(3*time.Second, "a removal", s.change(f, replica.RemoveMember(3)))
		d := s.add(lead)
		s.caughtUp(d, lead, 3*time.Second)
		s.success(time.Second, "its vote", s.change(d, replica.PromoteMember(4)))
		s.kill(f) // two of three are left
		s.success(2*time.Second, "a put", s.put(lead, "k", "v"))
		s.success(time.Second, "a read", s.fresh(s.read(d, "k"), "v"))
	}},
	{name: "change-that-would-stop-the-cluster", policy: "all", play: func(s *stage) {
		lead, f, g := s.three()
		g.crash()
		s.w.Run(1500 * time.Millisecond)
		s.refused(f, replica.RemoveMember(2), rpctypes.ErrGRPCUnhealthy)
		s.refused(f, replica.AddMember(4, []string{"http://d:2380"}, false), rpctypes.ErrGRPCUnhealthy)
		s.success(time.Second, "one that does not", s.change(f, replica.RemoveMember(3)))
		s.refused(lead, replica.RemoveMember(9), rpctypes.ErrGRPCMemberNotFound)
	}},
	{name: "learners-in-number", policy: "all", learners: 1, play: func(s *stage) {
		s.add(s.members[1])
		s.refused(s.members[1], replica.AddMember(6, []string{"http://f:2380"}, true), rpctypes.ErrGRPCTooManyLearners)
	}},
	{name: "change-forwarded-twice", play: func(s *stage) {
		// Its second copy comes when the first has taken effect and was followed.
		lead, f, _ := s.three()
		sent := s.hold(f, lead, "forward")
		c := s.change(f, replica.AddMember(4, []string{"http://d:2380"}, true))
		sent.catch(1)
		sent.pass(0)
		s.success(time.Second, "a learner", c)
		s.success(time.Second, "its removal", s.change(lead, replica.RemoveMember(4)))
		sent.release()
		s.w.Run(time.Second)
		if s.roster().Find(4) != nil {
			s.fatalf("a member that was removed is back")
		}
	}},
	{name: "removed-and-does-not-know", policy: "all", play: func(s *stage) {
		// It was cut off, and asks for votes ever after.
		lead, f, g := s.three()
		s.hold(lead, g)
		s.success(time.Second, "a removal", s.change(lead, replica.RemoveMember(3)))
		s.w.Run(3 * time.Second)
		s.mend()
		term := lead.replica.Status().Term
		s.never(5*time.Second, "it has disturbed the others", func() bool { return lead.replica.Status().Term != term })
		s.success(time.Second, "a put", s.put(f, "k", "v"))
	}},
}
