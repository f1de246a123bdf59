package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// slowest is the slowest disk among gray faults, and for how long after them a write
// may last that was begun before.
const slowest = time.Second

// gray lets rounds pass in which one or two things are amiss from the first moment to the last,
// while most members are well. A link is cut one way, a disk is slow, a member is down or has
// just restarted. A leader that stays must release committed entries all the time, whatever
// members hold leases.
func (c *Cluster) gray(rounds int) {
	for range rounds {
		c.checks.calm.end(c.w.Now())
		c.heal()
		c.w.Run(slowest + 2*tick)
		c.net.Loss = c.w.Swarm(0.05)
		for range 1 + c.w.Rand.IntN(2) {
			c.grayFault()
		}
		end := c.w.Now() + 3*time.Second
		c.checks.quiet = end
		for h := (holdup{}); c.w.Now() < end; c.w.Run(5 * time.Millisecond) {
			lead := c.leader()
			if lead == nil {
				continue
			}
			st := lead.replica.Status()
			r := leadership{lead.ID, st.Term}
			if h.look(c.w.Now(), r, st.Commit, st.ReadLeases.Released, c.well(lead, st.ConfState.GetVoters())) > c.longestWait() {
				c.checks.fail(c.w, "liveness: entry %d is committed, and for %v member %d has not released it, which leads a majority that is well",
					h.index, c.longestWait(), lead.ID)
				break
			}
		}
	}
	c.heal()
}

// spread has messages of the next d be as late, half of the time, as promises are long,
// and overtake each other.
func (c *Cluster) spread(d time.Duration) {
	if c.w.Chance(0.5) {
		return
	}
	before := c.net.Max
	c.net.Max = c.w.Between(time.Millisecond, 150*time.Millisecond)
	c.w.After(d, func() { c.net.Max = before })
}

// grayFault has one thing be amiss.
func (c *Cluster) grayFault() {
	lead, m := c.leader(), c.some()
	o := c.some()
	if lead != nil && c.w.Chance(0.7) {
		o = lead
	}
	switch c.w.Rand.IntN(6) {
	case 0:
		c.cutOneWay(m, o)
	case 1:
		c.cutOneWay(o, m)
	case 2:
		c.crash(m, 4*time.Second)
	case 3:
		c.crash(m, 0)
	case 4:
		m.Disk.Slow = c.w.Between(0, slowest)
	case 5:
		c.handOver()
	}
}

func (c *Cluster) cutOneWay(from, to *Member) {
	if from != to {
		c.net.Cut(from.ID, to.ID)
	}
}

// well reports whether a leader and most of its voters have each other and their disks.
func (c *Cluster) well(lead *Member, voters []uint64) bool {
	n := 0
	for _, id := range voters {
		if int(id) > len(c.members) {
			continue // it was added, and is not started yet
		}
		m := c.members[id-1]
		if m.Up() && m.Disk.Slow == 0 && !c.net.IsCut(lead.ID, m.ID) && !c.net.IsCut(m.ID, lead.ID) {
			n++
		}
	}
	return n > len(voters)/2
}

// leadership is a leader's time in office.
type leadership struct {
	leader machine.NodeID
	term   uint64
}

// holdup is since when a leader has not released an entry that is committed.
type holdup struct {
	leadership
	index uint64
	since time.Duration
}

// look returns for how long by now, or 0 if it has, or cannot be blamed.
func (h *holdup) look(now time.Duration, r leadership, commit, released uint64, well bool) time.Duration {
	if !well || r != h.leadership || released >= h.index {
		*h = holdup{r, commit, now}
	}
	return now - h.since
}
