package sim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/replica"
)

// Chaos lets d pass with faults of all kinds. Each world draws which kinds it
// has and how many of each: some faults hide others.
func (c *Cluster) Chaos(d time.Duration) {
	w := c.w
	swarm := func(p float64) float64 {
		if w.Chance(0.5) {
			return 0
		}
		return p * w.Rand.Float64()
	}
	c.net.Loss, c.net.Duplicate, c.net.Slow = swarm(0.1), swarm(0.1), swarm(0.02)
	kinds := []func(){}
	for _, kind := range []func(){c.crashOne, c.crashAll, c.pauseOne, c.pauseLeader, c.partition, c.isolateLeader, c.slowDisk, c.handOver, c.stallOne, c.falseDeath} {
		if w.Chance(0.6) {
			kinds = append(kinds, kind)
		}
	}
	end := w.Now() + d
	c.checks.quiet = end
	every := w.Between(300*time.Millisecond, 4*time.Second)
	var strike func()
	strike = func() {
		if w.Now() >= end {
			return
		}
		if len(kinds) > 0 {
			kinds[w.Rand.IntN(len(kinds))]()
		}
		w.After(w.Between(0, 2*every), strike)
	}
	w.After(0, strike)
	w.Run(d)
}

func (c *Cluster) leader() *Member {
	for _, m := range c.members {
		if m.Up() {
			if st := m.replica.Status(); st.Leader == m.ID {
				return m
			}
		}
	}
	return nil
}

// died tells the others that a member's connections closed, most of the time.
func (c *Cluster) died(dead *Member) {
	for _, m := range c.members {
		if m != dead && c.w.Chance(0.8) {
			c.w.After(c.w.Between(0, 5*time.Millisecond), func() { m.Step(replica.Down{Node: dead.ID}) })
		}
	}
}

func (c *Cluster) crash(m *Member, down time.Duration) {
	if !m.Up() {
		return
	}
	m.crash()
	c.died(m)
	c.w.After(down, func() {
		if !m.Up() {
			m.boots()
		}
	})
}

func (c *Cluster) some() *Member { return c.members[c.w.Rand.IntN(len(c.members))] }

func (c *Cluster) crashOne() { c.crash(c.some(), c.w.Between(0, 3*time.Second)) }

func (c *Cluster) crashAll() {
	for _, m := range c.members {
		c.crash(m, c.w.Between(0, time.Second))
	}
}

func (c *Cluster) pauseOne() { c.pause(c.some(), c.w.Between(50*time.Millisecond, 8*time.Second)) }

func (c *Cluster) pauseLeader() {
	if m := c.leader(); m != nil {
		c.pause(m, c.w.Between(50*time.Millisecond, 8*time.Second))
	}
}

func (c *Cluster) pause(m *Member, d time.Duration) {
	if !m.Up() || m.paused {
		return
	}
	m.Pause()
	life := m.life
	c.w.After(d, func() {
		if m.life == life && m.paused {
			m.Resume()
		}
	})
}

// partition cuts some of the links, each way or one way only, for a while.
func (c *Cluster) partition() {
	for _, a := range c.ids {
		for _, b := range c.ids {
			if a != b && c.w.Chance(0.4) {
				c.net.Cut(a, b)
			}
		}
	}
	c.w.After(c.w.Between(0, 4*time.Second), c.net.Mend)
}

// isolateLeader leaves the leader able to send, or to hear, or neither.
func (c *Cluster) isolateLeader() {
	m := c.leader()
	if m == nil {
		return
	}
	how := c.w.Rand.IntN(3)
	for _, id := range c.ids {
		if id == m.ID {
			continue
		}
		if how != 0 {
			c.net.Cut(m.ID, id)
		}
		if how != 1 {
			c.net.Cut(id, m.ID)
		}
	}
	c.w.After(c.w.Between(0, 5*time.Second), c.net.Mend)
}

func (c *Cluster) slowDisk() {
	m := c.some()
	m.disk.slow = c.w.Between(0, 300*time.Millisecond)
	c.w.After(c.w.Between(0, 3*time.Second), func() { m.disk.slow = 0 })
}

func (c *Cluster) handOver() {
	if m := c.leader(); m != nil {
		m.Step(replica.HandOver{})
	}
}

// stallOne lets a member's applier fall behind.
func (c *Cluster) stallOne() {
	m := c.some()
	m.stalled = true
	life := m.life
	c.w.After(c.w.Between(0, 3*time.Second), func() {
		if m.life == life {
			m.stalled = false
			m.apply()
		}
	})
}

// falseDeath lets members be wrong about the death of another.
func (c *Cluster) falseDeath() { c.died(c.some()) }

// Heal ends all faults.
func (c *Cluster) Heal() {
	c.checks.quiet = c.w.Now()
	c.net.Mend()
	c.net.Loss, c.net.Duplicate, c.net.Slow = 0, 0, 0
	for _, m := range c.members {
		m.disk.slow = 0
		m.stalled = false
		m.apply()
		if !m.Up() {
			m.boots()
		}
		if m.paused {
			m.Resume()
		}
	}
}

// Settle stops the clients and wants a healed cluster to come to rest: a leader
// within two election timeouts or so, equal states, and every lease that nobody
// renews gone within its TTL and the bound of package replica's comment.
func (c *Cluster) Settle() error {
	if !c.w.Until(6*electionTicks*tick, func() bool { return c.leader() != nil }) {
		return fmt.Errorf("liveness: no leader %v after the faults ended", 6*electionTicks*tick)
	}
	before := len(c.checks.history)
	if !c.w.Until(10*time.Second, func() bool { return len(c.checks.history) > before+5 }) {
		return fmt.Errorf("liveness: no operation completed in 10 s after the faults ended")
	}
	entered := c.checks.entered
	c.w.Run(8 * time.Second)
	if c.checks.entered < entered+2 && len(c.lockers) > 0 {
		return fmt.Errorf("liveness: the lock was taken %d times in 8 s after the faults ended", c.checks.entered-entered)
	}
	for _, cl := range c.clients {
		cl.stop = true
	}
	for _, l := range c.lockers {
		l.stop = true
	}
	longest := time.Duration(0)
	for _, h := range c.checks.holders {
		h.stop = true
		if h.lease != nil {
			longest = max(longest, h.lease.ttl)
		}
	}
	c.w.Run(longest + 4*time.Second + 5*time.Second)
	lead := c.leader()
	if lead == nil {
		return fmt.Errorf("liveness: the leader was lost without a fault")
	}
	for _, m := range c.members {
		if m.state.Index() != lead.state.Index() || m.fingerprint() != lead.fingerprint() {
			return fmt.Errorf("convergence: member %d at %d, state %x; leader %d at %d, state %x",
				m.ID, m.state.Index(), m.fingerprint(), lead.ID, lead.state.Index(), lead.fingerprint())
		}
		for info := range m.state.Store().View().Leases() {
			return fmt.Errorf("lease %d of %d s still lives long after its last renewal", info.ID, info.TTL)
		}
	}
	if rev := lead.state.Store().Revision(); rev != c.checks.revisions.last {
		return fmt.Errorf("revision %d was published, but the state ends at %d", c.checks.revisions.last, rev)
	}
	return nil
}
