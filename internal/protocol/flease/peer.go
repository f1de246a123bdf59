package flease

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Peer is one member, or a part of one (see doc, shards): acceptor of the cells that it
// belongs to, proposer and owner for its callers. It is a machine.Machine.
type Peer struct {
	cfg        Config
	eps, tmax  Time
	quarantine time.Duration

	now     machine.Now
	c       Time // now.Wall
	started bool
	hlc     hlc
	floor   Time // ballots up to here are refused: after a restart (E3) and after forgetting (F-6)
	silence silence
	down    bool // after Shutdown

	views
	cellTable
	claimTable
	attemptTable
	mail
	reports

	delays  map[Ballot]Time // tokens of ours that were lost with a lock delay, and until when that lasts
	alarmed map[alarmKey]machine.Mono
	random  uint64
}

// reports are what the owner is told next.
type reports struct {
	outcomes []Report
	persists []machine.Persist
}

var _ machine.Receiver[Input, Report] = (*Peer)(nil)

// New returns a peer that begins at its first step. The error wraps ErrConfig and says what
// to change.
func New(cfg Config) (*Peer, error) {
	cfg, err := cfg.Complete()
	if err != nil {
		return nil, err
	}
	p := &Peer{
		cfg: cfg, eps: millis(cfg.Epsilon), tmax: millis(cfg.TMax), quarantine: cfg.Quarantine(),
		views:      newViews(cfg.View, cfg.Self),
		cellTable:  cellTable{names: map[string]int32{}, lines: map[int32][]waiter{}},
		claimTable: claimTable{byID: map[uint64]int32{}},
		mail:       mail{lanes: make([]*lane, MaxMember+1)},
		delays:     map[Ballot]Time{}, alarmed: map[alarmKey]machine.Mono{}, random: cfg.Seed,
	}
	return p, nil
}

// Step takes one input.
func (p *Peer) Step(now machine.Now, input Input) {
	if !p.enter(now) {
		p.refuseAll(input)
		return
	}
	switch in := input.(type) {
	case Acquire:
		p.acquire(in)
	case Release:
		p.release(in.ID, 0)
	case Handover:
		p.release(in.ID, in.To)
	case Observe:
		p.observe(in)
	case ChangeView:
		p.changeView(in.View)
	case Shutdown:
		p.shutdown()
	case ClockFault:
		p.fault(0, in.Why)
	}
}

// Receive takes a *Batch of another peer.
func (p *Peer) Receive(now machine.Now, e machine.Envelope) {
	if !p.enter(now) {
		return
	}
	if b, ok := e.Body.(*Batch); ok && e.To == p.cfg.Self {
		p.receive(e.From, b)
	}
}

// Wake lets time pass.
func (p *Peer) Wake(now machine.Now) { p.enter(now) }

// enter begins a step: it does what time alone demands. It reports false after a Shutdown.
func (p *Peer) enter(now machine.Now) bool {
	p.tick(now)
	if p.down {
		return false
	}
	p.turnView()
	p.ring()
	return true
}

// Ready returns the effects of all steps since the last call. Operations that waited for
// their turn come here, behind the renewals of those steps.
func (p *Peer) Ready() machine.Ready[Report] {
	if p.started && !p.down {
		p.takeTurns()
		p.sweep()
	}
	rd := machine.Ready[Report]{Outcomes: p.outcomes}
	p.outcomes = nil
	more := p.flush(&rd)
	rd.Persists = p.persists
	p.persists = nil
	rd.Alarm = p.alarm(more)
	return rd
}

func (p *Peer) alarm(more bool) machine.Mono {
	switch {
	case !p.started:
		return machine.Never
	case p.down:
		return machine.Never
	case more:
		return p.now.Mono
	}
	at := p.wheel.next()
	if len(p.names) > 0 {
		at = min(at, p.sweepAt)
	}
	if p.silent() {
		at = min(at, p.silence.next(p.now))
	} else if p.turn < len(p.turns) && p.late() {
		at = min(at, p.lateUntil)
	}
	if p.next != nil {
		at = min(at, p.next.tell)
		if p.next.closed {
			at = min(at, p.next.open.next(p.now))
		}
	}
	return at
}

// receive takes a batch. It ignores operations that make no sense.
func (p *Peer) receive(from machine.NodeID, b *Batch) {
	if from < 1 || from > MaxMember {
		return
	}
	if from != p.cfg.Self && !p.viewed(from, b) {
		return
	}
	for i := range b.Ops {
		p.take(from, b.Epoch, &b.Ops[i])
	}
}

// take takes one operation.
func (p *Peer) take(from machine.NodeID, epoch uint64, o *Op) {
	switch o.Kind {
	case Read, Write, Peek, Quit:
		// Nobody may draw ballots for another: they would not be unique any more.
		if o.Name != "" && len(o.Name) <= maxName && (o.Kind == Quit || o.Ballot.Member() == from) {
			p.serve(from, epoch, o)
		}
	case AckRead, NackRead, AckWrite, NackWrite, Skewed, Peeked, WrongView:
		p.answered(from, o)
	case Learn:
		p.learn(o)
	}
}

func (rs *reports) report(r Report) { rs.outcomes = append(rs.outcomes, r) }

// rand draws a number below n from SplitMix64.
func (p *Peer) rand(n time.Duration) time.Duration {
	p.random += 0x9e3779b97f4a7c15
	if n <= 0 {
		return 0
	}
	return time.Duration(mix(p.random) % uint64(n))
}

func (p *Peer) ballot() Ballot { return p.hlc.next(p.c, p.cfg.Self) }

// cellOf finds the place of a name, making one if need be.
func (p *Peer) cellOf(name string) int32 {
	if i, ok := p.names[name]; ok {
		return i
	}
	name = strings.Clone(name) // it may be a part of a whole batch
	var i int32
	if n := len(p.freeCells); n > 0 {
		i = p.freeCells[n-1]
		p.freeCells = p.freeCells[:n-1]
	} else {
		i = int32(len(p.cells))
		p.cells = append(p.cells, cell{})
	}
	p.cells[i] = cell{name: name, claims: -1, slot: uint16(slotOf(name))}
	p.names[p.cells[i].name] = i
	if len(p.names) == 1 {
		p.sweepAt = p.now.Mono.Add(p.sweepEvery())
	}
	return i
}

// sweepEvery is how often a part of the cells is looked at: each one is every t_max.
func (p *Peer) sweepEvery() time.Duration { return p.cfg.TMax / 64 }

// sweep forgets cells whose ballots are all below the floor: their leases are over at all
// clocks, and every request that they would refuse is refused without them. So an idle
// resource takes no memory, and nothing has to say so.
func (p *Peer) sweep() {
	if len(p.names) == 0 || p.now.Mono < p.sweepAt {
		return
	}
	p.sweepAt = p.now.Mono.Add(p.sweepEvery())
	for token, until := range p.delays {
		if until+p.eps <= p.c {
			delete(p.delays, token)
		}
	}
	for range max(len(p.cells)/64+1, p.sweepLeast) {
		if p.sweepNext >= len(p.cells) {
			p.sweepNext, p.sweepLeast = 0, 0
		}
		i := int32(p.sweepNext)
		p.sweepNext++
		c := &p.cells[i]
		if c.name == "" {
			continue
		}
		if c.lined {
			p.line(i)
		}
		if c.promised.Time() <= p.floor && c.claims < 0 && !c.lined && !c.dirty {
			delete(p.names, c.name)
			*c = cell{}
			p.freeCells = append(p.freeCells, i)
		}
	}
	p.shrink()
}

// Names returns the resources of which this peer, as an acceptor, remembers a lease that
// may be valid, or a waiter; in no particular order.
func (p *Peer) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range p.cells {
			c := &p.cells[i]
			known := c.name != "" && (c.lined || slices.ContainsFunc(c.value, func(h Holding) bool { return p.mayHold(&h) }))
			if known && !yield(c.name) {
				return
			}
		}
	}
}
