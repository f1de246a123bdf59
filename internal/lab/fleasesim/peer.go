package fleasesim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// peer is a host with a flease.Peer, in one life after the other, and its clients.
type peer struct {
	s           *stage
	host        *sim.Process[flease.Input, flease.Report]
	config      flease.Config
	incarnation uint32
	flea        *flease.Peer
	restore     []*flease.Record // the state for the next life, nil for a quarantine
	stopping    bool

	lastID  uint64
	claims  map[uint64]*client
	clients []*client
	serving bool

	right     time.Duration // a right clock's reading at true time 0
	wandering int
}

func (p *peer) String() string { return fmt.Sprintf("peer %d", p.host.ID) }

// client wants one resource after the other, one at a time.
type client struct {
	p     *peer
	id    uint64 // of the claim that lasts, 0 if none
	name  string
	slots int
	delay time.Duration // the lock delay that it asked for
	since time.Duration // when it asked
	hold  *hold
	left  bool // it has released, and waits to hear of it
	// remote: it is in a process of its own, and goes by its last news.
	remote bool
	looks  bool // it observes
	quiet  bool // it does not act by itself
}

// start begins a life.
func (p *peer) start() {
	p.incarnation++
	cfg := p.config
	cfg.Incarnation, cfg.Seed = p.incarnation, p.s.w.Rand.Uint64()
	cfg.View = p.s.view
	cfg.Restore, p.restore = p.restore, nil
	if cfg.Durable {
		cfg.Restore = nil
		for _, r := range p.host.Disk.Durable {
			cfg.Restore = append(cfg.Restore, r.(*flease.Record))
		}
	}
	cfg.Trace = func(e flease.Event) { p.s.j.of(e.Name).onTake(p, e) }
	flea, err := flease.New(cfg)
	if err != nil {
		panic(err)
	}
	p.flea, p.claims, p.serving, p.stopping = flea, map[uint64]*client{}, false, false
	p.host.Outcome = p.outcome
	p.host.Start(flea)
	p.s.w.Note("%v starts, incarnation %d", p, p.incarnation)
	if n := p.s.next; n != nil {
		p.host.Step(flease.ChangeView{View: *n})
	}
	for _, c := range p.clients {
		c.id, c.hold, c.left = 0, nil, false
		c.later()
	}
}

func (p *peer) ask() uint64 { p.lastID++; return p.lastID }

// outcome takes the machine's reports.
func (p *peer) outcome(out flease.Report) {
	w := p.s.w
	switch out := out.(type) {
	case flease.Acquired:
		c := p.claims[out.ID]
		if c == nil || c.left {
			return
		}
		c.hold = &hold{p: p, life: p.host.Life(), id: out.ID, name: c.name, slots: c.slots, delay: c.delay, remote: c.remote, token: out.Token, deadline: out}
		p.s.j.onStart(c.hold)
		p.host.After(p.s.stay(), func() { c.leave() })
	case flease.Renewed:
		if c := p.claims[out.ID]; c != nil && c.hold != nil && !c.left {
			c.hold.deadline.Deadline, c.hold.deadline.Until = out.Deadline, out.Until
			p.s.j.onRenewal(c.hold)
		}
	case flease.Lost:
		c := p.claims[out.ID]
		w.Note("%v loses %s: %s", p, c.name, out.Why)
		w.Count("losses", 1)
		if p.s.j.steady && !p.s.changing() {
			p.s.j.fail("%v loses %s though nothing fails: %s", p, c.name, out.Why)
		}
		if c.hold != nil && !c.left {
			p.s.j.onLoss(c.hold, w.Chance(0.5))
			c.hold = nil
		}
		c.over()
	case flease.Refused:
		if out.Err == nil {
			w.Count("refusals", 1)
		}
		p.claims[out.ID].over()
	case flease.Released:
		w.Count("releases", 1)
		p.claims[out.ID].over()
	case flease.Observed:
		p.claims[out.ID].over()
	case flease.Serving:
		p.serving = true
	case flease.Quarantined:
		p.serving = false
	case flease.Snapshot:
		p.leave(out, w.Between(0, p.s.tmax))
	case flease.Alarm:
		w.Note("%v: alarm: %v of %d, %s", p, out.Kind, out.Peer, out.Why)
		w.Count("alarm: "+out.Kind.String(), 1)
		if !p.s.j.broken && (out.Kind == flease.Skew || out.Kind == flease.Jump || out.Kind == flease.Disagreement) {
			p.s.j.fail("%v raises an alarm for nothing: %v, %s", p, out.Kind, out.Why)
		}
	case flease.Active:
		w.Note("%v: view %d is active", p, out.View.Epoch)
		p.s.activated(out.View)
	}
}

// leave ends a life that was shut down, with its state for the next, in a while.
func (p *peer) leave(out flease.Snapshot, down time.Duration) {
	p.restore = nil
	if out.Record != nil {
		data, err := out.Record.MarshalBinary()
		if err != nil {
			panic(err)
		}
		r := &flease.Record{}
		if err := r.UnmarshalBinary(data); err != nil {
			panic(err)
		}
		p.restore = []*flease.Record{r}
	}
	p.host.Crash()
	p.endAll()
	p.s.w.After(down, p.start)
}

// over is the end of the client's request.
func (c *client) over() {
	if c.hold != nil {
		c.p.s.j.onEnd(c.hold)
	}
	delete(c.p.claims, c.id)
	c.id, c.hold, c.left = 0, nil, false
	c.later()
}

func (c *client) later() {
	if !c.quiet {
		c.p.host.After(c.p.s.away(), c.act)
	}
}

// act asks for something.
func (c *client) act() {
	s, w := c.p.s, c.p.s.w
	if c.id != 0 || c.quiet || c.p.stopping {
		return
	}
	c.ask(s.resources[w.Rand.IntN(len(s.resources))])
	in := flease.Acquire{ID: c.id, Name: c.name, Holder: c.p.host.Lane, Slots: s.slots[w.Rand.IntN(len(s.slots))]}
	c.slots, c.delay, c.remote = in.Slots, 0, w.Chance(0.5)
	switch x := w.Rand.Float64(); {
	case x < 0.1:
		c.looks = true
		c.p.host.Step(flease.Observe{ID: c.id, Name: c.name})
		return
	case x < 0.2:
		in.Try = true
	case x < 0.3:
		in.Try, in.Decide = true, true
	}
	if w.Chance(0.3) {
		in.TTL = c.p.config.MinTTL() + w.Between(0, s.tmax-c.p.config.MinTTL())
		in.LockDelay = w.Between(0, s.tmax-in.TTL-time.Millisecond).Truncate(time.Millisecond)
		c.delay = in.LockDelay
	}
	c.p.host.Step(in)
	if w.Chance(0.1) {
		c.p.host.After(w.Between(0, s.tmax), c.leave)
	}
}

func (c *client) ask(name string) {
	c.id, c.name, c.since, c.looks = c.p.ask(), name, c.p.s.w.Now(), false
	c.p.claims[c.id] = c
}

// leave stops believing and says so.
func (c *client) leave() {
	if c.id == 0 || c.left || c.looks {
		return
	}
	if c.p.host.Paused() {
		c.p.host.After(10*time.Millisecond, c.leave)
		return
	}
	if c.hold != nil {
		c.p.s.j.onEnd(c.hold)
	}
	c.left = true
	if s := c.p.s; s.w.Chance(0.2) {
		c.p.host.Step(flease.Handover{ID: c.id, To: s.peers[s.w.Rand.IntN(len(s.peers))].host.ID})
		return
	}
	c.p.host.Step(flease.Release{ID: c.id})
}

// endAll is the end of all that the clients had, with the peer's life. Those in other processes
// do not hear of it, and unreleased leases have their lock delay.
func (p *peer) endAll() {
	for _, c := range p.clients {
		if c.hold != nil && !c.left {
			p.s.j.onLoss(c.hold, false)
		}
		c.id, c.hold = 0, nil
	}
}

// crash loses all that the peer knew.
func (p *peer) crash(down time.Duration) {
	if !p.host.Up() || p.s.j.broken && !p.config.Durable {
		return
	}
	p.host.Crash()
	p.endAll()
	p.restore = nil
	p.s.w.After(down, func() {
		if !p.host.Up() {
			p.start()
		}
	})
}

// restart is a planned one.
func (p *peer) restart() {
	if !p.host.Up() || p.stopping || p.config.Durable {
		return
	}
	p.stopping = true
	p.host.Step(flease.Shutdown{})
}

// stop pauses or suspends it for a while. It goes on believing as its clocks allow.
func (p *peer) stop(d time.Duration, suspend bool) {
	if !p.host.Up() || p.host.Paused() {
		return
	}
	if suspend {
		p.host.Suspend()
	} else {
		p.host.Pause()
	}
	life := p.host.Life()
	p.s.w.After(d, func() {
		if p.host.Life() == life && p.host.Paused() {
			p.host.Resume()
		}
	})
}

// wander lets the synchronized clock go to another place inside ±ε/2 of true time, slowly
// enough to be no step, and then to the next.
func (p *peer) wander() {
	s := p.s
	off := p.offset()
	target := s.w.Between(-s.eps/2+time.Millisecond, s.eps/2-time.Millisecond)
	rate := (0.1 + 0.9*s.w.Rand.Float64()) * 1e-3
	d := time.Duration(float64(max(target-off, off-target)) / rate)
	if target < off {
		rate = -rate
	}
	p.host.SlewWall(rate)
	p.wandering++
	turn := p.wandering
	s.w.After(d, func() {
		if p.wandering == turn {
			p.wander()
		}
	})
}

// offset is how far the synchronized clock is ahead of true time.
func (p *peer) offset() time.Duration {
	return time.Duration(p.host.Now().Wall) - p.right - p.s.w.Now()
}
