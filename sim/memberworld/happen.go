package memberworld

import (
	"strconv"
	"time"

	"github.com/tenure-lease/tenure/sim/world"
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
		h.disk.Keep()
		c.pause(f.For)
		h.lose(ages)
	case world.Empty:
		h.lose(empties)
	case world.Restart:
		h.mu.Lock()
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

// lose ends a host's life with its data gone, or old. It is the only one of its kind.
func (h *host) lose(how ending) {
	h.mu.Lock()
	h.lost = true
	h.mu.Unlock()
	h.end(nil, how)
}

// attend replaces members that lost their data and say so.
func (c *cluster) attend() {
	for !c.over() {
		for _, h := range c.hosts {
			h.mu.Lock()
			replace := h.lost && (refused(h.lastErr) || h.advised.Load())
			if replace {
				h.lost, h.lastErr = false, nil
				h.advised.Store(false)
			}
			h.mu.Unlock()
			if replace {
				c.w.Count("members that noticed that they lost data", 1)
				c.employ("replace", h)
			}
		}
		c.pause(200 * time.Millisecond)
	}
}
