package replicasim

import (
	"errors"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// KeyOrderProtocol is the key order of package replica, in worlds that are hard for it: the
// holders of keys change all the time, at random, and so does the order itself.
func KeyOrderProtocol() sim.Protocol {
	return sim.Protocol{
		Name:  "keyorder",
		About: "key order: keys divided at random, over and over; policies of both orders; transactions on condition of other keys; holders whose logs grow late; leaders that hear nothing of what they put",
		Play:  playKeyOrder,
		Alone: true,
	}
}

// playKeyOrder has a cluster divide its keys at random while it goes through faults,
// heal, and come to rest.
func playKeyOrder(w *sim.World) error {
	defer keepRandom()()
	size := [...]struct{ voters, learners int }{{3, 0}, {5, 0}, {3, 1}, {3, 2}, {4, 0}, {3, 0}}[w.Seed%6]
	h := harshness{rate: drift, holders: true, reshape: w.Seed/6%3 == 1, lengths: w.Chance(0.3), bursts: w.Chance(0.2)}
	if w.Chance(0.7) {
		h.rate = 9e-3
	}
	o := Options{
		Voters: size.voters, Learners: size.learners, Tail: smallTail,
		ReadLease: string(quorumlease.AllByKey), LeaseLength: w.Between(quorumlease.MinTTL, 800*time.Millisecond),
		LeaseIdle: w.Between(20*time.Millisecond, 5*time.Second),
	}
	if w.Chance(0.6) { // long promises: a held entry is held for long
		o.LeaseLength, o.LeaseIdle = w.Between(time.Second, 4*time.Second), 20*time.Second
	}
	if w.Chance(0.6) {
		o.OneWay = farApart(w, apart)
		o.LeaseLength = max(o.LeaseLength, 300*time.Millisecond)
	}
	o.planning(w.Between, w.Rand.IntN)
	c := start(w, o, h)
	if o.OneWay != nil {
		c.checks.apart = apart
	}
	w.Run(3 * time.Second)
	besieged := w.Chance(0.6)
	if besieged {
		c.Surveyors(2, 2)
		c.Clients(1)
	} else {
		c.Surveyors(4, 4)
		c.Clients(2)
	}
	c.Lockers(2)
	c.Watchers(3)
	if w.Chance(0.5) {
		c.Holders(2)
		c.janitor()
	}
	c.checks.quiet = w.Now() + 14*time.Second
	c.gerrymander(w.Between(100*time.Millisecond, 2*time.Second), w.Chance(0.5))
	if w.Chance(0.5) {
		c.waver(w.Between(200*time.Millisecond, 3*time.Second))
	}
	if besieged {
		c.runSieges(c.courier())
	} else if w.Chance(0.8) {
		c.delayLogs()
	}
	if w.Chance(0.5) {
		c.slowAppliers()
	}
	c.reshape(14 * time.Second)
	c.chaos(14 * time.Second)
	c.heal()
	err := errors.Join(c.recover(), c.settle(), c.Check())
	c.count()
	return err
}

// apart is how far it is at most from one member to another.
const apart = 150 * time.Millisecond

// farApart draws how far members are from each other, each way by itself.
func farApart(w *sim.World, longest time.Duration) func(a, b machine.NodeID) time.Duration {
	far := map[[2]machine.NodeID]time.Duration{}
	for a := machine.NodeID(1); a <= 6; a++ {
		for b := machine.NodeID(1); b <= 6; b++ {
			far[[2]machine.NodeID{a, b}] = w.Between(0, 30*time.Millisecond)
			if w.Chance(0.3) {
				far[[2]machine.NodeID{a, b}] = w.Between(0, longest)
			}
		}
	}
	return func(a, b machine.NodeID) time.Duration { return far[[2]machine.NodeID{a, b}] }
}

// waver has the cluster change between policies of both orders.
func (c *Cluster) waver(every time.Duration) {
	c.w.After(c.w.Between(every/2, 3*every/2), func() {
		if c.harsh.stop {
			return
		}
		if m := c.anyMember(); m != nil {
			policy := [...]quorumlease.Policy{
				quorumlease.All, quorumlease.AllByKey, quorumlease.Leader, quorumlease.Off, quorumlease.Static, quorumlease.LeaderByKey,
			}[c.w.Rand.IntN(6)]
			m.propose(wrapperspb.String(string(policy)), func(replica.Result, error) {})
		}
		c.waver(every)
	})
}

// slowAppliers has appliers stand still for a while, and snapshots be taken and members
// restart from them, at any time: of states that are not released as well.
func (c *Cluster) slowAppliers() {
	c.w.After(c.w.Between(0, 600*time.Millisecond), func() {
		if c.harsh.stop || c.w.Now() >= c.checks.quiet {
			return
		}
		m := c.some()
		switch c.w.Rand.IntN(3) {
		case 0:
			m.stalled = true
			d := c.w.Between(0, 500*time.Millisecond)
			if c.w.Chance(0.3) { // promises that were live at the beginning have run out by the end
				d += c.LeaseLength
			}
			m.After(d, func() { m.stalled = false; m.apply() })
		case 1:
			if m.Up() {
				m.takeSnapshot()
			}
		case 2:
			if m.Up() {
				m.takeSnapshot()
				c.w.After(c.w.Between(300*time.Millisecond, 500*time.Millisecond), func() { c.crash(m, c.w.Between(0, 100*time.Millisecond)) })
			}
		}
		c.slowAppliers()
	})
}

// delayLogs has one member's log after another grow late. All other messages reach it, or all
// but news of releases.
func (c *Cluster) delayLogs() {
	c.w.After(c.w.Between(100*time.Millisecond, 1200*time.Millisecond), func() {
		if c.harsh.stop || c.w.Now() >= c.checks.quiet {
			return
		}
		m, untold := c.some().ID, c.w.Chance(0.5)
		c.net.Take = func(env machine.Envelope) bool {
			if env.To != m {
				return false
			}
			switch body := env.Body.(type) {
			case quorumlease.News:
				return untold
			case interface{ GetType() raftpb.MessageType }:
				kind := body.GetType()
				return kind == raftpb.MsgApp || kind == raftpb.MsgSnap || untold && kind == raftpb.MsgHeartbeat
			}
			return false
		}
		c.w.After(c.w.Between(50*time.Millisecond, time.Second), func() {
			c.net.Take = nil
			c.delayLogs()
		})
	})
}
