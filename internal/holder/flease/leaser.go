package flease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// Leaser is a tenure.Leaser over a peer of this process. It is a tenure.Awaiter and a tenure.Lister
// as well.
type Leaser struct {
	peer  *Peer
	owner bool // Close closes the peer, too
	// client: the holders are in another process, and believe their last deadline though the peer
	// closes.
	client bool

	calls  *holder.Calls // end with Close, or with the peer
	close  sync.Once
	closed error
}

var (
	_ tenure.Leaser  = (*Leaser)(nil)
	_ tenure.Awaiter = (*Leaser)(nil)
)

// Leaser makes a Leaser over the peer. Its Close releases its leases, and the peer goes on.
func (p *Peer) Leaser() *Leaser {
	return &Leaser{peer: p, calls: holder.NewCalls(p.ctx, ended)}
}

// clientLeaser makes a Leaser for a session.
func (p *Peer) clientLeaser() *Leaser {
	l := p.Leaser()
	l.client = true
	return l
}

// Open starts a peer and returns a Leaser whose Close closes the peer.
func Open(ctx context.Context, cfg Config) (*Leaser, error) {
	p, err := Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l := p.Leaser()
	l.owner = true
	return l, nil
}

// Peer returns the peer behind the Leaser.
func (l *Leaser) Peer() *Peer { return l.peer }

// Close implements tenure.Leaser. It waits for releases to be confirmed, and gives up when none
// was confirmed for some seconds.
func (l *Leaser) Close() error {
	l.close.Do(func() {
		l.calls.Close()
		l.closed = l.peer.releaseOf(l)
		if l.owner {
			l.closed = errors.Join(l.closed, l.peer.Close())
		}
	})
	return l.closed
}

// ended is the error of calls to a peer that has ended.
func ended(why error) error {
	if errors.Is(why, tenure.ErrClosed) {
		return tenure.ErrClosed
	}
	return fmt.Errorf("%w: the peer has ended: %w", tenure.ErrUnavailable, why)
}

// wholeMilliseconds returns an error for a claim whose TTL has a part of a millisecond.
func wholeMilliseconds(c tenure.Claim) error {
	if c.TTL%time.Millisecond != 0 {
		return fmt.Errorf("%w: a TTL of %v is not in whole milliseconds, which peers count", tenure.ErrClaim, c.TTL)
	}
	return nil
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
	in, err := l.calls.Call(outer)
	if err != nil {
		return tenure.State{Name: name}, err
	}
	defer l.calls.Leave()
	in, cancel := in.Within(l.patience())
	defer cancel()
	s, err := l.look(in, name)
	return s, l.final(outer, "observe", name, err)
}

// look asks until a majority answers or the call is over.
func (l *Leaser) look(in holder.Call, name string) (tenure.State, error) {
	p := l.peer
	answer := make(chan flease.Observed, 1)
	id := p.lastID.Add(1)
	for pause := p.pure.RoundTimeout; ; {
		p.mu.Lock()
		p.looks[id] = answer
		p.mu.Unlock()
		p.driver.Step(flease.Observe{ID: id, Name: name})
		o, answered := holder.Await(in, answer)
		if !answered {
			p.mu.Lock()
			delete(p.looks, id)
			p.mu.Unlock()
			return tenure.State{Name: name}, in.Cut()
		}
		switch {
		case o.Err == nil:
			return stateOf(name, o.State), nil
		case errors.Is(o.Err, flease.ErrClaim):
			return tenure.State{Name: name}, fmt.Errorf("%w: %w", tenure.ErrClaim, o.Err)
		}
		if err := in.Wait(pause); err != nil {
			return tenure.State{Name: name}, fmt.Errorf("%w: %w", o.Err, err)
		}
	}
}

// stateOf is a register's state as a tenure.State.
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

// final is the error of a call that peers did not answer.
func (l *Leaser) final(outer context.Context, verb, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case l.calls.CutShort(outer):
		return tenure.ErrClosed
	}
	return l.explain(verb, name, err)
}

// explain is the error of a call that Close has not ended.
func (l *Leaser) explain(verb, name string, err error) error {
	if errors.Is(err, tenure.ErrClaim) {
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
