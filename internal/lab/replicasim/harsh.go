package replicasim

import (
	"errors"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/pushlease"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// harshness are the parts that make a world hard for holders of read leases.
type harshness struct {
	rate    float64 // by which clocks differ from true time at most, each way
	lengths bool    // promises are of another length in each life of a member
	holders bool    // there are faults that are aimed at holders
	bursts  bool    // there are no readers for a while, again and again
	stop    bool    // the politician rests
	reshape bool    // members come and go
}

// ReadLeaseProtocol is package quorumlease, in replicas, in worlds that are hard for read leases: the
// clocks' rates differ by almost as much as is allowed for.
func ReadLeaseProtocol() sim.Protocol {
	return sim.Protocol{
		Name:  "quorumlease",
		About: "read leases: three to five voters, learners; clocks 0.9 % off, changes of policy and lengths, cut-off and slow holders; nobody reads less than anybody was shown",
		Play:  playReadLeases,
		Alone: true,
	}
}

// playReadLeases has a cluster with holders go through faults, heal, and come to rest.
func playReadLeases(w *sim.World) error {
	defer keepRandom()()
	size := [...]struct{ voters, learners int }{{3, 0}, {5, 0}, {3, 1}, {3, 2}, {2, 1}, {4, 0}}[w.Seed%6]
	h := harshness{rate: drift, holders: true, reshape: w.Seed/6%3 == 2, lengths: w.Chance(0.5), bursts: w.Chance(0.5)}
	if w.Chance(0.7) {
		h.rate = 9e-3
	}
	o := Options{
		Voters: size.voters, Learners: size.learners, Tail: smallTail,
		ReadLease: "all", LeaseLength: w.Between(quorumlease.MinTTL, 600*time.Millisecond),
		LeaseIdle: w.Between(20*time.Millisecond, 3*time.Second),
	}
	if w.Chance(0.2) {
		o.ReadLease = "leader"
	}
	if w.Chance(0.5) { // given back, and asked for again, all the time
		o.LeaseIdle = w.Between(5*time.Millisecond, 120*time.Millisecond)
	}
	c := start(w, o, h)
	w.Run(3 * time.Second)
	c.Clients(4)
	c.Surveyors(3, 0)
	c.Holders(2)
	c.Watchers(2)
	c.Lockers(2)
	c.janitor()
	if w.Chance(0.5) {
		c.changePolicies(w.Between(200*time.Millisecond, 2*time.Second))
	}
	var err error
	for range 2 {
		c.spread(14 * time.Second)
		c.reshape(14 * time.Second)
		c.chaos(14 * time.Second)
		c.heal()
		err = errors.Join(err, c.recover())
	}
	c.gray(2)
	err = errors.Join(err, c.settle(), c.Check())
	c.count()
	return err
}

// count adds to the counters what there was to be judged.
func (c *Cluster) count() {
	w := c.w
	w.Count("operations", len(c.checks.history)+len(c.checks.surveys))
	for _, m := range c.members {
		w.Count("reads under a lease", m.local)
		w.Count("reads without a turn", m.unasked)
		w.Count("requests that shared an entry", m.shared)
	}
	w.Count("leases", len(c.checks.leases))
	w.Count("locks taken", c.checks.entered)
}

// changePolicies proposes one policy after the other, through any member.
func (c *Cluster) changePolicies(every time.Duration) {
	c.w.After(c.w.Between(every/2, 3*every/2), func() {
		if c.harsh.stop {
			return
		}
		if m := c.anyMember(); m != nil {
			policy := [...]string{"all", "all", "leader", "off"}[c.w.Rand.IntN(4)]
			m.propose(wrapperspb.String(policy), func(replica.Result, error) {})
		}
		c.changePolicies(every)
	})
}

// holderFaults are aimed at holders of read leases.
func (c *Cluster) holderFaults() []func() {
	return []func(){c.deafHolder, c.lonelyHolder, c.slowFlush, c.blink, c.roll, c.amnesia, c.overtaken, c.deserted}
}

// follower draws a member that does not lead.
func (c *Cluster) follower() (lead, m *Member) {
	lead, m = c.leader(), c.some()
	if lead == nil || lead == m {
		return nil, nil
	}
	return lead, m
}

// deafHolder lets a member hear its grantors but not its leader, or not be heard by it.
func (c *Cluster) deafHolder() {
	lead, m := c.follower()
	if m == nil {
		return
	}
	how := c.w.Rand.IntN(3)
	if how != 0 {
		c.net.Cut(lead.ID, m.ID)
	}
	if how != 1 {
		c.net.Cut(m.ID, lead.ID)
	}
	c.w.After(c.w.Between(0, 3*time.Second), c.net.Mend)
}

// lonelyHolder leaves a member only its leader.
func (c *Cluster) lonelyHolder() {
	lead, m := c.follower()
	if m == nil {
		return
	}
	how := c.w.Rand.IntN(3)
	for _, id := range c.ids {
		if id == lead.ID || id == m.ID {
			continue
		}
		if how != 0 {
			c.net.Cut(id, m.ID)
		}
		if how != 1 {
			c.net.Cut(m.ID, id)
		}
	}
	c.w.After(c.w.Between(0, 3*time.Second), c.net.Mend)
}

// slowFlush gives a member a disk that is slow, but not out of order.
func (c *Cluster) slowFlush() {
	m := c.some()
	m.Disk.Slow = c.w.Between(10*time.Millisecond, 100*time.Millisecond)
	mark := c.w.Begin(sim.Fault, m.Lane, "slow disk: %v", m.Disk.Slow)
	c.w.After(c.w.Between(0, 4*time.Second), func() { m.Disk.Slow = 0; mark.End() })
}

// blink restarts a member while promises that it got or made may be live.
func (c *Cluster) blink() { c.crash(c.some(), c.w.Between(0, 200*time.Millisecond)) }

// roll restarts all members, one after the other.
func (c *Cluster) roll() {
	end := c.checks.quiet
	for i, m := range c.members {
		c.w.After(time.Duration(i)*c.w.Between(50*time.Millisecond, time.Second), func() {
			if c.w.Now() < end {
				c.crash(m, c.w.Between(0, 300*time.Millisecond))
			}
		})
	}
}

// amnesia cuts a holder off from its leader and restarts its grantors when the
// leader's own promise to it may have run out, and theirs has not.
func (c *Cluster) amnesia() {
	lead, m := c.follower()
	if m == nil {
		return
	}
	end := c.checks.quiet
	c.net.Cut(lead.ID, m.ID)
	c.net.Cut(m.ID, lead.ID)
	c.w.After(c.w.Between(c.LeaseLength/2, 3*c.LeaseLength/2), func() {
		for _, g := range c.members {
			if g != lead && g != m && c.w.Now() < end {
				c.crash(g, c.w.Between(0, 30*time.Millisecond))
			}
		}
	})
	c.w.After(c.w.Between(2*c.LeaseLength, 3*time.Second), c.net.Mend)
}

// overtaken lets one kind of a member's messages be late, so that later messages come before.
func (c *Cluster) overtaken() {
	m, kind := c.some(), c.w.Rand.IntN(5)
	late := 2 * c.LeaseLength
	c.net.Take = func(env machine.Envelope) bool {
		var is bool
		switch env.Body.(type) {
		case quorumlease.Request, pushlease.Guard:
			is = kind == 0
		case quorumlease.Promise, pushlease.Pushed:
			is = kind == 1
		case quorumlease.Return, pushlease.GuardAck, pushlease.PromiseReply:
			is = kind == 2
		case quorumlease.Report, quorumlease.News:
			is = kind == 3
		default:
			is = kind == 4
		}
		if is = is && env.From == m.ID; is {
			c.w.After(c.w.Between(0, late), func() { c.net.Deliver(env) })
		}
		return is
	}
	c.w.After(c.w.Between(0, 4*time.Second), func() { c.net.Take = nil })
}

// deserted cuts a leader off while writes come in through it, so that the end of its
// log is cut later; it may keep one follower.
func (c *Cluster) deserted() {
	lead := c.leader()
	if lead == nil {
		return
	}
	with := machine.NodeID(0)
	if c.w.Chance(0.5) {
		with = c.some().ID
	}
	for _, id := range c.ids {
		if id != lead.ID && id != with {
			c.net.Cut(lead.ID, id)
			c.net.Cut(id, lead.ID)
		}
	}
	for range 1 + c.w.Rand.IntN(4) {
		lead.propose(wrapperspb.String(c.ReadLease), func(replica.Result, error) {})
	}
	c.w.After(c.w.Between(0, 4*time.Second), c.net.Mend)
}
