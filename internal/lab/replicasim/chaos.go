package replicasim

import (
	"fmt"
	"math"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
)

// chaos lets d pass with faults of all kinds. Each world draws which kinds it
// has and how many of each: some faults hide others.
func (c *Cluster) chaos(d time.Duration) {
	w := c.w
	c.net.Loss, c.net.Duplicate, c.net.Slow = w.Swarm(0.1), w.Swarm(0.1), w.Swarm(0.02)
	kinds := []func(){}
	all := []func(){
		c.crashOne, c.crashAll, c.pauseOne, c.pauseLeader, c.suspendOne, c.partition, c.isolateLeader, c.split,
		c.slowDisk, c.handOver, c.stallOne, c.falseDeath, c.otherRate,
	}
	if c.harsh.holders {
		all = append(all, c.holderFaults()...)
	}
	for _, kind := range all {
		if w.Chance(0.5) {
			kinds = append(kinds, kind)
		}
	}
	end := w.Now() + d
	c.checks.quiet = end
	c.checks.calm.end(w.Now())
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
		if m.leads() {
			return m
		}
	}
	return nil
}

// leads reports whether a member believes to lead.
func (m *Member) leads() bool { return m.Up() && m.replica.Status().Leader == m.ID }

// handTo asks a leader to pass leadership to a member.
func (m *Member) handTo(to *Member) { m.Step(replica.HandOver{To: to.ID}) }

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
		if !m.Up() && !m.gone {
			m.startUp()
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

func (c *Cluster) pauseOne() { c.halt(c.some(), (*sim.Host).Pause) }

func (c *Cluster) pauseLeader() {
	if m := c.leader(); m != nil {
		c.halt(m, (*sim.Host).Pause)
	}
}

func (c *Cluster) suspendOne() { c.halt(c.some(), (*sim.Host).Suspend) }

// halt pauses or suspends a member for a while.
func (c *Cluster) halt(m *Member, how func(*sim.Host)) {
	if !m.Up() || m.Paused() {
		return
	}
	how(m.Host)
	m.After(c.w.Between(50*time.Millisecond, 8*time.Second), func() {
		if m.Paused() {
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

// split leaves the leader with some of the members; the others suppose that it
// died, and soon have a leader of their own if they are a majority.
func (c *Cluster) split() {
	lead := c.leader()
	if lead == nil {
		return
	}
	with := map[machine.NodeID]bool{lead.ID: true}
	for _, id := range c.ids {
		if c.w.Chance(0.4) {
			with[id] = true
		}
	}
	for _, a := range c.ids {
		for _, b := range c.ids {
			if with[a] != with[b] {
				c.net.Cut(a, b)
			}
		}
	}
	for _, m := range c.members {
		if !with[m.ID] {
			m.Step(replica.Down{Node: lead.ID})
		}
	}
	c.w.After(c.w.Between(0, 4*time.Second), c.net.Mend)
}

func (c *Cluster) slowDisk() {
	m := c.some()
	m.Disk.Slow = c.w.Between(0, 300*time.Millisecond)
	mark := c.w.Begin(sim.Fault, m.Lane, "slow disk: %v", m.Disk.Slow)
	c.w.After(c.w.Between(0, 3*time.Second), func() { m.Disk.Slow = 0; mark.End() })
}

func (c *Cluster) handOver() {
	if m := c.leader(); m != nil {
		c.w.Mark(sim.Remark, m.Lane, "is told to hand over")
		m.Step(replica.HandOver{})
	}
}

// stallOne lets a member's applier fall behind.
func (c *Cluster) stallOne() {
	m := c.some()
	m.stalled = true
	d := c.w.Between(0, 3*time.Second)
	c.w.Mark(sim.Fault, m.Lane, "its applier stands still").Until(c.w.Now() + d)
	m.After(d, func() {
		m.stalled = false
		m.apply()
	})
}

// otherRate lets a member's clock go at another rate, within the permitted bounds.
func (c *Cluster) otherRate() {
	rate := (2*c.w.Rand.Float64() - 1) * c.harsh.rate
	if c.w.Chance(0.5) {
		rate = math.Copysign(c.harsh.rate, rate)
	}
	c.some().Drift(rate)
}

// falseDeath lets members be wrong about the death of another.
func (c *Cluster) falseDeath() { c.died(c.some()) }

// heal ends all faults.
func (c *Cluster) heal() {
	c.checks.quiet = c.w.Now()
	c.net.Mend()
	c.net.Take = nil
	c.net.Loss, c.net.Duplicate, c.net.Slow = 0, 0, 0
	for _, m := range c.members {
		m.Disk.Slow = 0
		m.stalled = false
		m.apply()
		if !m.Up() && !m.gone {
			m.startUp()
		}
		if m.Paused() {
			m.Resume()
		}
	}
}

// recover wants that a healed cluster serves again: a leader within two election
// timeouts or so, operations, and the lock.
func (c *Cluster) recover() error {
	if c.OneWay != nil {
		c.w.Run(lateMessages) // one that is late holds up all behind it
	}
	if !c.w.Until(6*electionTicks*tick, func() bool { return c.leader() != nil }) {
		return fmt.Errorf("liveness: no leader %v after the faults ended", 6*electionTicks*tick)
	}
	if err := c.reshaped(); err != nil {
		return err
	}
	before := len(c.checks.history)
	if !c.w.Until(10*time.Second, func() bool { return len(c.checks.history) > before+5 }) {
		return fmt.Errorf("liveness: no operation completed in 10 s after the faults ended")
	}
	entered := c.checks.entered
	c.checks.calm = calm{from: c.w.Now() + lateMessages + c.longestPromise(), to: 1 << 62, bound: c.longestWait()}
	d := 8 * time.Second
	if c.byKey() { // promises may be long, and to divide the keys anew takes as long
		d += 2 * c.longestWait()
	}
	c.w.Run(d)
	if c.checks.entered < entered+2 && len(c.lockers) > 0 {
		return fmt.Errorf("liveness: the lock was taken %d times in %v after the faults ended", c.checks.entered-entered, d)
	}
	return nil
}

// settle stops the clients and wants the cluster to come to rest: equal states, and every lease
// that is not renewed gone within its TTL and the bound of package replica's comment.
func (c *Cluster) settle() error {
	for _, cl := range c.clients {
		cl.stop = true
	}
	for _, l := range c.lockers {
		l.stop = true
	}
	for _, s := range c.surveyors {
		s.stop = true
	}
	for _, o := range c.watchers {
		o.stop = true
	}
	c.harsh.stop = true
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
	// The writes of the last expiry may be on their way.
	c.w.Until(time.Second, func() bool { return c.laggard(lead) == nil })
	if m := c.laggard(lead); m != nil {
		return fmt.Errorf("convergence: member %d at %d, state %x; leader %d at %d, state %x",
			m.ID, m.state.Index(), m.fingerprint(), lead.ID, lead.state.Index(), lead.fingerprint())
	}
	for info := range lead.state.Store().View().Leases() {
		return fmt.Errorf("lease %d of %d s still lives long after its last renewal", info.ID, info.TTL)
	}
	if rev := lead.state.Store().Revision(); rev != c.checks.revisions.last {
		return fmt.Errorf("revision %d was published, but the state ends at %d", c.checks.revisions.last, rev)
	}
	return nil
}

// laggard returns a member that has not applied all that the leader has.
func (c *Cluster) laggard(lead *Member) *Member {
	for _, m := range c.members {
		if c.isMember(m) && (m.state.Index() != lead.state.Index() || m.fingerprint() != lead.fingerprint()) {
			return m
		}
	}
	return nil
}
