package memberworld

import (
	"slices"
	"strconv"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

const (
	// everywhere makes a Crash one of all machines at once.
	everywhere = "everywhere"
	// fromMembers leaves an isolated member to its clients.
	fromMembers = "from members"
)

// happen carries out what no process carries out itself.
func (c *cluster) happen(f world.Fault) {
	if f.Kind == world.Cut {
		c.net.Cut(f.Who, f.With, f.For)
		return
	}
	h := c.host(f.Who)
	switch f.Kind {
	case world.Isolate:
		if f.With == fromMembers {
			for _, o := range c.hosts {
				c.net.Cut(h.name, o.name, f.For)
				c.net.Cut(o.name, h.name, f.For)
			}
			return
		}
		c.net.Isolate(h.name, f.For)
	case world.Reset:
		c.net.Reset(h.name, f.With)
	case world.HalfOpen:
		c.net.HalfOpen(h.name)
	case world.Kill:
		h.end(nil, exits)
	case world.Crash:
		if f.With == everywhere {
			for _, o := range c.hosts {
				o.end(nil, crashes)
			}
		}
		h.end(nil, crashes)
	case world.Older:
		if c.mayLose(h) {
			h.disk.Keep()
			c.pause(f.For)
			h.end(nil, ages)
		}
	case world.Empty:
		if c.mayLose(h) {
			h.end(nil, empties)
		}
	case world.Restart:
		h.mu.Lock()
		if h.flags.older {
			c.w.Count("upgrades", 1)
		}
		h.flags = c.spec.flags(h.rand)
		h.mu.Unlock()
		h.end(nil, exits)
	case world.Stranger:
		c.intrude(h, f.With)
	case world.ClockJump: // the time of day is set
		by, err := time.ParseDuration(f.With)
		if err != nil {
			panic(err)
		}
		h.wall.Jump(by)
	case world.ClockRate:
		rate, err := strconv.ParseFloat(f.With, 64)
		if err != nil {
			panic(err)
		}
		h.mono.SetRate(rate)
		h.wall.SetRate(rate)
		c.pause(f.For)
		h.mono.SetRate(1)
		h.wall.SetRate(1)
	case world.ClockHalt: // a virtual machine is frozen, and its clocks with it
		h.mu.Lock()
		if h.life != nil {
			h.life.p.Stop(f.For)
		}
		h.mu.Unlock()
		h.mono.Freeze()
		h.wall.Freeze()
		c.pause(f.For)
		h.mono.Thaw()
		h.wall.Thaw()
		c.pause(time.Second)
		h.wall.Jump(f.For + time.Second) // and it is told the time
	case world.Member:
		c.employ(f.With, h)
	default:
		panic("memberworld: " + f.String())
	}
}

// mayLose waits until the loss of a host's data is no more than a cluster is made for, and
// notes the loss. Before all founders take part it is more: an operator has to begin the
// cluster anew then, as package node says. So it is while another member is being replaced,
// for a voter that has not joined yet counts as lost.
func (c *cluster) mayLose(h *host) bool {
	for c.w.Elapsed() < c.spec.Storm-time.Second {
		if c.whole(h) {
			return true
		}
		c.pause(50 * time.Millisecond)
	}
	c.w.Count("data not lost, for it would have been too much", 1)
	return false
}

func (c *cluster) whole(h *host) bool {
	c.losing.Lock()
	defer c.losing.Unlock()
	// A founder that comes back empty is of another cluster once its flags say where another has moved.
	if !c.begun() || c.busy.Load() > 0 || c.moved.Load() || slices.ContainsFunc(c.hosts, (*host).isLost) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = true
	return true
}

// begun reports whether all founders take part, or have.
func (c *cluster) begun() bool {
	return !slices.ContainsFunc(c.hosts[:c.spec.Members], func(h *host) bool { return !h.admitted.Load() })
}
