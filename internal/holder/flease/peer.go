package flease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
	"github.com/tenure-lease/tenure/internal/wire"
)

// Peer is one of the peers that keep leases among themselves. Its methods may be called from any
// goroutine.
type Peer struct {
	cfg    Config
	self   machine.NodeID
	pure   flease.Config
	clocks holder.Clocks // of leases

	transport *peer.Transport
	linked    atomic.Pointer[peer.Transport] // transport, once it is set
	driver    *driver.Driver[flease.Input, flease.Report]
	machine   *flease.Peer // only for the goroutine that steps it
	batches   sync.Pool    // of *flease.Batch, empty
	decoders  sync.Pool    // of *flease.Decoder
	lastID    atomic.Uint64
	renewals  punctuality
	// activeEpoch is the epoch of the view in which the peer votes.
	activeEpoch atomic.Uint64

	lifecycle

	changing sync.Mutex // held while the members change

	mu      sync.Mutex // of what follows
	ended   bool       // Close has ended the peer
	members Members
	before  map[machine.NodeID]string // members of the list before, if this start knows any
	passed  bool                      // the host has passed the list before
	later   Members                   // next members, which wait until the epoch of members is active; or zero
	health
	wishes

	shelf shelf

	watcher *Leaser // the peer's own, for watches
}

// lifecycle is how a peer ends.
type lifecycle struct {
	ctx     context.Context // ends with Close, or when the peer fails
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	close   sync.Once
	closed  error
}

// health is what keeps a peer, or others, from helping.
type health struct {
	troubles map[machine.NodeID]error // why a peer's terms keep it from helping
	heard    map[machine.NodeID]heard // faults that were heard of a peer
	twice    map[machine.NodeID]bool  // the peers that say that another process runs as this one
	clock    error                    // why the kernel does not vouch for our clock
	serving  bool
	silent   flease.Quarantined // until when the peer is silent, while it does not serve
}

// wishes are what callers have asked the machine for.
type wishes struct {
	claims   map[uint64]*claim
	most     int // most claims since the map was made
	looks    map[uint64]chan flease.Observed
	watches  map[string]*watch
	snapshot chan *flease.Record
}

// Start starts a peer. It does not wait for other peers, nor for the silence after the start to
// end: the calls of its Leasers do.
func Start(ctx context.Context, cfg Config) (*Peer, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	p := &Peer{
		cfg: cfg, clocks: holder.Clocks{Mono: cfg.Clock, Wall: cfg.Wall},
		health: health{troubles: map[machine.NodeID]error{}, heard: map[machine.NodeID]heard{}},
		wishes: wishes{claims: map[uint64]*claim{}, looks: map[uint64]chan flease.Observed{}, watches: map[string]*watch{}, snapshot: make(chan *flease.Record, 1)},
	}
	p.shelf = shelf{records: map[string]kept{}, fetches: map[string]bool{}, knowledge: knowledge{whole: cfg.fresh}}
	if err := p.configure(ctx); err != nil {
		return nil, err
	}
	listener := cfg.Listener
	if listener == nil {
		var listen net.ListenConfig
		if listener, err = listen.Listen(ctx, "tcp", cfg.Listen); err != nil {
			return nil, fmt.Errorf("flease: listen for peers: %w", err)
		}
	}
	if p.pure.Restore, err = p.restore(); err != nil {
		listener.Close()
		return nil, err
	}
	m, err := flease.New(p.pure)
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if now := cfg.clocks(); p.pure.Restore == nil { // until the machine reports it
		w := p.pure.Quarantine()
		p.silent = flease.Quarantined{Deadline: now.Mono.Add(w), Until: now.Wall + machine.Wall(w)}
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.machine, p.watcher = m, p.Leaser()
	p.driver = driver.Start(driver.Config[flease.Input, flease.Report]{
		Machine: stepped{m, p}, Now: cfg.clocks, Send: p.send, Outcome: p.handle, Fail: p.fail,
		// Room for a few claims of each of many callers. A caller with more waits.
		QueueLimit: 1 << 16,
	})
	if len(p.members.Was) > 0 { // before any message of another peer
		p.driver.Step(flease.ChangeView{View: p.members.view(cfg.Replicas)})
	}
	p.transport, err = peer.New(peer.Config{
		Self: p.self, ClusterID: p.terms().id(), Listener: listener, Peers: p.members.all(), TLS: cfg.TLS, Dial: cfg.Dial,
		FrameBytesMax: 2 * flease.MaxBatch, QueueBytes: 16 * flease.MaxBatch,
		Deliver: p.deliver, Answer: p.answer, Up: p.up, Refused: p.refused, Logger: cfg.Logger,
	})
	if err != nil {
		p.cancel(tenure.ErrClosed)
		p.driver.Stop()
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	p.linked.Store(p.transport)
	p.spawn(p.followMembers)
	p.spawn(p.compareAgain)
	p.spawn(p.keepAwake)
	p.spawn(p.recollect)
	if cfg.CheckClock {
		p.spawn(p.watchClock)
	}
	return p, nil
}

// configure finds the members and this peer's place among them, and makes the machine's
// configuration. It returns an error if the peer must not run: beside peers with another list, or
// by a clock for which the kernel does not vouch.
func (p *Peer) configure(ctx context.Context) (err error) {
	cfg := &p.cfg
	if p.members, err = cfg.Membership(ctx, Members{}); err != nil {
		return err
	}
	if err := p.members.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	p.before = p.members.Was
	member := false
	if p.self, member = p.members.index(cfg.Self); !member {
		return fmt.Errorf("%w: this peer, %s, is not among the members (%v): give its address as the list has it, or add it to the list", ErrConfig, cfg.Self, p.members)
	}
	life, err := incarnation(cfg.Rand)
	if err != nil {
		return err
	}
	p.pure, err = flease.Config{
		Self: p.self, Incarnation: life, View: p.members.first(cfg.Replicas),
		TMax: cfg.TMax, Epsilon: cfg.Epsilon, RoundTimeout: cfg.RoundTimeout, Guard: cfg.Guard,
		MaxClaims: cfg.MaxClaims, Seed: uint64(life),
	}.Complete()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if advice := p.pure.Advice(); advice != "" {
		cfg.Logger.Warn("flease: " + advice)
	}
	p.activeEpoch.Store(p.pure.View.Epoch)
	if err := p.askEpoch(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if cfg.CheckClock {
		if err := cfg.kernel(cfg.Epsilon / 2); err != nil {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	return nil
}

// incarnation draws a number that no earlier start of this peer has used, with a chance of one in
// four billion to fail. A clock would repeat itself within a second.
func incarnation(from io.Reader) (uint32, error) {
	var b [4]byte
	if _, err := io.ReadFull(from, b[:]); err != nil {
		return 0, fmt.Errorf("flease: draw an incarnation: %w", err)
	}
	r := wire.Reader{Rest: b[:]}
	return max(1, r.Uint32()), nil
}

// Members returns the newest list that the peer has adopted or is changing to.
func (p *Peer) Members() Members {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.members
}

// Ready waits until the peer serves: until the silence after its start is over. It returns an error
// if ctx or the peer ends first.
func (p *Peer) Ready(ctx context.Context) error {
	for {
		p.mu.Lock()
		serving := p.serving
		p.mu.Unlock()
		if serving {
			return nil
		}
		if p.ctx.Err() != nil {
			return p.Err()
		}
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// Done is closed when the peer has ended, by Close or because it must not go on; see Err.
func (p *Peer) Done() <-chan struct{} { return p.ctx.Done() }

// Err returns nil while the peer runs, then tenure.ErrClosed or why the peer had to end.
func (p *Peer) Err() error {
	if p.ctx.Err() == nil {
		return nil
	}
	return context.Cause(p.ctx)
}

// fail ends the peer at once, and all its leases are lost.
func (p *Peer) fail(err error) {
	if p.ctx.Err() != nil {
		return
	}
	p.cfg.Logger.Error("flease: the peer ends", "error", err)
	p.cancel(err)
	p.driver.Halt()
	p.abandon(err)
}

// Close releases all leases, falls silent and ends the peer. If there is a Config.State, it leaves
// there all that spares the next start the silence.
func (p *Peer) Close() error {
	p.close.Do(func() {
		if p.ctx.Err() == nil {
			p.closed = errors.Join(p.releaseOf(nil), p.save())
			p.cancel(tenure.ErrClosed)
		}
		p.driver.Stop()
		p.abandon(tenure.ErrClosed)
		p.mu.Lock()
		p.ended = true // no goroutine is started any more
		p.mu.Unlock()
		p.running.Wait()
		p.closed = errors.Join(p.closed, p.transport.Close())
	})
	return p.closed
}

// offline returns why there is no connection, in words.
func offline(last error) error {
	switch {
	case last == nil:
		return errors.New("not yet tried")
	case errors.Is(last, io.EOF), errors.Is(last, net.ErrClosed):
		return errors.New("it ended, and there is no new one yet")
	}
	return last
}

// why returns what keeps the peer from its work, for errors of calls without an answer; nil if
// nothing is known.
func (p *Peer) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []error
	if p.clock != nil {
		all = append(all, p.clock)
	}
	if !p.serving && p.silent.Deadline != 0 {
		now := p.cfg.clocks()
		left := max(p.silent.Deadline.Sub(now.Mono), time.Duration(p.silent.Until-now.Wall), 0)
		all = append(all, fmt.Errorf("the peer is silent after its start, for another %v", left.Round(time.Millisecond)))
	}
	for _, id := range p.members.indices() {
		if id == p.self {
			continue
		}
		if err := p.trouble(id); err != nil {
			all = append(all, err)
		} else if s := p.transport.Stats(id); !s.Connected {
			all = append(all, fmt.Errorf("no connection to peer %d: %w", id, offline(s.LastError)))
		}
	}
	return errors.Join(all...)
}
