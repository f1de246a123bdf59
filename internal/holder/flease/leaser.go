package flease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// Leaser is a tenure.Leaser over a peer of this process. It is a tenure.Awaiter as well.
type Leaser struct {
	peer  *Peer
	owner bool // of the peer: Close closes it, too
	// client: the holders are in another process, and believe what they were told though
	// the peer closes.
	client bool

	ctx    context.Context // ends with Close, or with the peer
	cancel context.CancelCauseFunc
	close  sync.Once
	closed error

	mu    sync.Mutex
	calls sync.WaitGroup
}

var (
	_ tenure.Leaser  = (*Leaser)(nil)
	_ tenure.Awaiter = (*Leaser)(nil)
)

// Leaser makes a Leaser over the peer. Closing it releases its leases and leaves the peer
// running.
func (p *Peer) Leaser() *Leaser {
	l := &Leaser{peer: p}
	l.ctx, l.cancel = context.WithCancelCause(p.ctx)
	return l
}

// clientLeaser makes a Leaser for a session.
func (p *Peer) clientLeaser() *Leaser {
	l := p.Leaser()
	l.client = true
	return l
}

// Open starts a peer and returns a Leaser that closes it in the end.
func Open(ctx context.Context, cfg Config) (*Leaser, error) {
	p, err := Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l := p.Leaser()
	l.owner = true
	return l, nil
}

// Peer is the peer that the leases are taken through.
func (l *Leaser) Peer() *Peer { return l.peer }

// Close implements tenure.Leaser. It waits for releases to be confirmed until there was none
// for some seconds.
func (l *Leaser) Close() error {
	l.close.Do(func() {
		l.mu.Lock() // no call begins any more
		l.cancel(tenure.ErrClosed)
		l.mu.Unlock()
		l.calls.Wait()
		l.closed = l.peer.releaseOf(l)
		if l.owner {
			l.closed = errors.Join(l.closed, l.peer.Close())
		}
	})
	return l.closed
}

// call is a call of a Leaser. It ends with its caller's context, with the Leaser, or with
// the peer; a context of its own would cost more than the rest of it.
type call struct {
	l   *Leaser
	ctx context.Context
}

// begin registers a call that Close waits for, until l.calls.Done.
func (l *Leaser) begin(ctx context.Context) (call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return call{}, ended(context.Cause(l.ctx))
	}
	l.calls.Add(1)
	return call{l, ctx}, nil
}

// cut says why the call is over; nil while it is not.
func (c call) cut() error {
	switch {
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case c.l.ctx.Err() != nil:
		return ended(context.Cause(c.l.ctx))
	}
	return nil
}

// wait lets d pass, or returns why the call is over.
func (c call) wait(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ctx.Done():
	case <-c.l.ctx.Done():
	}
	return c.cut()
}

// isClosed tells a Leaser that was closed from one whose peer has failed.
func (l *Leaser) isClosed() bool { return errors.Is(context.Cause(l.ctx), tenure.ErrClosed) }

// ended is the error of calls to a peer that has ended.
func ended(why error) error {
	if errors.Is(why, tenure.ErrClosed) {
		return tenure.ErrClosed
	}
	return fmt.Errorf("%w: the peer has ended: %w", tenure.ErrUnavailable, why)
}

// complete fills in a claim's defaults, or says which field to change.
func (l *Leaser) complete(c tenure.Claim) (tenure.Claim, error) {
	asked := c.TTL
	c, err := c.Complete()
	if err != nil {
		return c, err
	}
	most := l.peer.cfg.TMax
	if asked == 0 {
		c.TTL = min(c.TTL, most-c.LockDelay)
	}
	// What it can do: whole milliseconds, and enough of them to renew in time.
	c.TTL = max(roundUp(c.TTL), l.peer.pure.MinTTL())
	c.LockDelay = roundUp(c.LockDelay)
	if c.TTL+c.LockDelay > most {
		return c, fmt.Errorf("%w: a TTL of %v and a lock delay of %v are together more than t_max, which is %v: ask for less, or give all peers a greater t_max, which is also how long a restarted one is silent",
			tenure.ErrClaim, c.TTL, c.LockDelay, most)
	}
	return c, nil
}

// roundUp returns whole milliseconds: d or a little more, or less if no Duration is more.
func roundUp(d time.Duration) time.Duration {
	rest := d % time.Millisecond
	if rest == 0 || d > math.MaxInt64-time.Millisecond {
		return d - rest
	}
	return d + time.Millisecond - rest
}

// Observe implements tenure.Leaser. It waits for the peers no longer than some seconds.
func (l *Leaser) Observe(outer context.Context, name string) (tenure.State, error) {
	if err := tenure.CheckName(name); err != nil {
		return tenure.State{Name: name}, err
	}
	c, err := l.begin(outer)
	if err != nil {
		return tenure.State{Name: name}, err
	}
	defer l.calls.Done()
	ctx, cancel := context.WithTimeoutCause(outer, l.patience(), errPatience)
	defer cancel()
	c.ctx = ctx
	s, err := c.look(name)
	return s, l.final(outer, "observe", name, err)
}

// look asks until a majority answers or the call is over.
func (c call) look(name string) (tenure.State, error) {
	p := c.l.peer
	answer := make(chan flease.Observed, 1)
	id := p.lastID.Add(1)
	for pause := p.pure.RoundTimeout; ; {
		p.mu.Lock()
		p.looks[id] = answer
		p.mu.Unlock()
		p.driver.Step(flease.Observe{ID: id, Name: name})
		var o flease.Observed
		select {
		case o = <-answer:
		case <-c.ctx.Done():
		case <-c.l.ctx.Done():
		}
		if o.ID == 0 {
			p.mu.Lock()
			delete(p.looks, id)
			p.mu.Unlock()
			return tenure.State{Name: name}, c.cut()
		}
		switch {
		case o.Err == nil:
			return stateOf(name, o.State), nil
		case errors.Is(o.Err, flease.ErrClaim):
			return tenure.State{Name: name}, fmt.Errorf("%w: %w", tenure.ErrClaim, o.Err)
		}
		if err := c.wait(pause); err != nil {
			return tenure.State{Name: name}, fmt.Errorf("%w: %w", o.Err, err)
		}
	}
}

// stateOf is what a register showed, in the contract's words.
func stateOf(name string, s flease.State) tenure.State {
	st := tenure.State{Name: name, Waiting: s.Waiting}
	for _, h := range s.Holdings {
		until := time.Duration(h.Until.Wall()) - time.Duration(h.Delay)*time.Millisecond
		st.Holders = append(st.Holders, tenure.Holding{
			Holder: h.Holder, Token: uint64(h.Token), Slots: int(h.Slots), Until: time.Unix(0, int64(until)),
		})
	}
	return st
}

// errPatience is our own: it is no deadline of the caller's that has passed.
var errPatience = errors.New("waited for some seconds")

// patience is how long calls that do not wait for holders wait for peers.
func (l *Leaser) patience() time.Duration { return max(5*time.Second, 8*l.peer.pure.RoundTimeout) }

// final is the error that a caller gets for a call that peers did not answer.
func (l *Leaser) final(outer context.Context, verb, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case outer.Err() == nil && l.isClosed():
		return tenure.ErrClosed
	case errors.Is(err, tenure.ErrClaim):
		return err
	}
	if why := l.peer.why(); why != nil {
		err = fmt.Errorf("%w (%w)", err, why)
	}
	return fmt.Errorf("%s %q: %w: %w", verb, name, tenure.ErrUnavailable, err)
}

// wait lets d pass, or returns why ctx ended.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
