package flease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// Acquire implements tenure.Leaser.
func (l *Leaser) Acquire(outer context.Context, c tenure.Claim) (tenure.Lease, error) {
	return l.acquire(outer, c, false)
}

// TryAcquire implements tenure.Leaser. It waits for the peers no longer than five seconds, or
// eight round timeouts if that is more.
func (l *Leaser) TryAcquire(outer context.Context, c tenure.Claim) (tenure.Lease, error) {
	return l.acquire(outer, c, true)
}

func (l *Leaser) acquire(outer context.Context, c tenure.Claim, try bool) (tenure.Lease, error) {
	c, err := l.complete(c)
	if err != nil {
		return nil, err
	}
	in, err := l.begin(outer)
	if err != nil {
		return nil, err
	}
	defer l.calls.Done()
	if try {
		bound, cancel := context.WithTimeoutCause(outer, l.patience(), errPatience)
		defer cancel()
		in.ctx = bound
	}
	for {
		x, err := in.pursue(c, try)
		if err == nil && x.Check() == nil {
			return x, nil
		}
		if err == nil {
			continue // lost before anybody knew of it
		}
		if !passing(err) || try && errors.Is(err, flease.ErrBusy) {
			return nil, l.refusal(outer, c.Name, err)
		}
		// The peer is silent, or nobody answers, or it has too much to do: whoever can wait
		// does, which holds callers back.
		if cut := in.wait(l.peer.pure.RoundTimeout); cut != nil {
			return nil, l.refusal(outer, c.Name, fmt.Errorf("%w: %w", cut, err))
		}
	}
}

// passing tells trouble that may be over soon.
func passing(err error) bool {
	for _, is := range []error{flease.ErrBusy, flease.ErrNoMajority, flease.ErrQuarantine} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// pursue makes one claim, and waits for its verdict.
func (in call) pursue(c tenure.Claim, try bool) (*claim, error) {
	if err := in.cut(); err != nil {
		return nil, err
	}
	p := in.l.peer
	answer := make(chan error, 1)
	x := &claim{leaser: in.l, name: c.Name, holder: c.Holder, ttl: c.TTL, delay: c.LockDelay, answer: answer}
	x.id = p.lastID.Add(1)
	p.mu.Lock()
	p.claims[x.id] = x
	p.most = max(p.most, len(p.claims))
	p.mu.Unlock()
	p.driver.Offer(flease.Acquire{
		ID: x.id, Name: c.Name, Holder: c.Holder, TTL: c.TTL, LockDelay: c.LockDelay, Slots: slots(c.Slots), Try: try,
	})
	select {
	case err := <-answer:
		return x, err
	case <-in.ctx.Done():
	case <-in.l.ctx.Done():
	}
	seen, late := x.giveUp()
	p.driver.Step(flease.Release{ID: x.id})
	x.awaitGone(farewell)
	if late != nil && !errors.Is(late, errHeld) {
		return nil, late
	}
	if len(seen.Holders) > 0 {
		h := seen.Holders[0]
		return nil, fmt.Errorf("gave up waiting: %w: %w", tenure.HeldError{Name: c.Name, Holder: h.Holder, Until: h.Until}, in.cut())
	}
	return nil, in.cut()
}

// farewell is how long a caller who gives up waits for that to be on its way, so that
// whoever tries next does not find him in the queue; and, of a client, to hear who was in
// the way.
const farewell = 250 * time.Millisecond

// awaitGone waits until the machine has let go of a claim that was given up, and has said
// so to others; a while at most.
func (x *claim) awaitGone(most time.Duration) {
	x.mu.Lock()
	if x.freed == nil {
		x.freed = make(chan struct{})
		if x.gone != nil {
			close(x.freed)
		}
	}
	left := x.freed
	x.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-left:
		x.leaser.peer.driver.Do(func() {}) // behind what the step before has sent
	case <-timer.C:
	}
}

func slots(n int) int {
	if n >= tenure.Shared {
		return flease.Shared
	}
	return n
}

// refusal is the error of a claim that was not admitted.
func (l *Leaser) refusal(outer context.Context, name string, err error) error {
	switch {
	case errors.Is(err, flease.ErrBusy):
		return fmt.Errorf("acquire %q: %w: %w", name, ErrBusy, err)
	case outer.Err() == nil && l.isClosed():
		return tenure.ErrClosed
	case errors.As(err, new(tenure.HeldError)):
		return err
	}
	return l.final(outer, "acquire", name, err)
}

// verdict is a Refused, as its caller gets it.
func verdict(name string, r flease.Refused) error {
	switch {
	case errors.Is(r.Err, flease.ErrClaim):
		return fmt.Errorf("%w: %w", tenure.ErrClaim, r.Err)
	case r.Err != nil:
		return r.Err
	}
	held := tenure.HeldError{Name: name, Holder: "another claim, which was quicker"}
	if s := stateOf(name, r.State); len(s.Holders) > 0 {
		held.Holder, held.Until = s.Holders[0].Holder, s.Holders[0].Until
	} else if s.Waiting > 0 {
		held.Holder = "nobody yet: others were here before"
	}
	return held
}

// releasePatience is how long a Leaser that closes waits for the next of its releases, and
// releaseWindow how many are under way: peers that get a million at once would be late
// with all of them.
const (
	releasePatience = 2 * time.Second
	releaseWindow   = 4096
)

// releaseOf releases the leases of a Leaser, many at a time.
func (p *Peer) releaseOf(l *Leaser) error {
	p.mu.Lock()
	var mine []*claim
	for _, x := range p.claims {
		if x.leaser == l || l == nil && !x.leaser.client {
			mine = append(mine, x)
		}
	}
	p.mu.Unlock()
	patience := max(releasePatience, 8*p.pure.RoundTimeout)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	enough := time.AfterFunc(patience, func() { cancel(errPatience) })
	defer enough.Stop()
	waits := make([]func(context.Context) error, 0, len(mine))
	var errs []error
	for i, x := range mine {
		for n := len(waits); n < min(i+releaseWindow, len(mine)); n++ {
			waits = append(waits, mine[n].beginRelease())
		}
		switch err := waits[i](ctx); {
		case err == nil:
			enough.Reset(patience)
		case !errors.Is(err, tenure.ErrLost) && len(errs) < 10: // of what was lost, its holder has been told
			errs = append(errs, fmt.Errorf("%q: %w", x.name, err))
		}
		waits[i] = nil
	}
	return errors.Join(errs...)
}

// releaseAll releases what is held through the peer, whichever Leaser it is of, but what
// other processes hold: that ends by itself, when they know.
func (p *Peer) releaseAll() error { return p.releaseOf(nil) }
