package flease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// Acquire implements tenure.Leaser.
func (l *Leaser) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	return holder.Admit(ctx, l.calls, engine{l}, c, false)
}

// TryAcquire implements tenure.Leaser. It waits for the peers no longer than five seconds, or
// eight round timeouts if that is more.
func (l *Leaser) TryAcquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	return holder.Admit(ctx, l.calls, engine{l}, c, true)
}

// engine is a Leaser as a holder.Engine.
type engine struct{ *Leaser }

// Complete implements holder.Engine.
func (e engine) Complete(c tenure.Claim) (tenure.Claim, error) {
	asked := c.TTL
	c, err := c.Complete()
	if err != nil {
		return c, err
	}
	// The protocol counts whole milliseconds, and needs enough of them to renew in time.
	most, least := e.peer.cfg.TMax, e.peer.pure.MinTTL()
	c.LockDelay = roundUp(c.LockDelay)
	if asked == 0 {
		c.TTL = max(min(c.TTL, most-c.LockDelay), least)
	}
	if c.TTL < least {
		return c, fmt.Errorf("%w: a TTL of %v leaves no time to renew among these peers: ask for %v or more, or give all peers a shorter round timeout", tenure.ErrClaim, c.TTL, least)
	}
	if err := wholeMilliseconds(c); err != nil {
		return c, err
	}
	if c.TTL+c.LockDelay > most {
		return c, fmt.Errorf("%w: a TTL of %v and a lock delay of %v are together more than t_max, which is %v: ask for less, or give all peers a greater t_max, which is also how long a restarted one is silent",
			tenure.ErrClaim, c.TTL, c.LockDelay, most)
	}
	return c, nil
}

// Patience implements holder.Engine.
func (e engine) Patience() time.Duration { return e.patience() }

// patience is how long TryAcquire and Observe wait for the peers.
func (l *Leaser) patience() time.Duration { return max(5*time.Second, 8*l.peer.pure.RoundTimeout) }

// Again implements holder.Engine: Acquire tries again while the peer is silent, has no majority or
// has too much to do. The pause holds callers back.
func (e engine) Again(in holder.Call, err error) (time.Duration, bool) {
	return e.peer.pure.RoundTimeout, passing(err) && !(in.Try && errors.Is(err, flease.ErrBusy))
}

// passing reports whether an error may be over soon.
func passing(err error) bool {
	for _, is := range []error{flease.ErrBusy, flease.ErrNoMajority, flease.ErrQuarantine} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// Explain implements holder.Engine.
func (e engine) Explain(_ holder.Call, c tenure.Claim, err error) error {
	if errors.Is(err, flease.ErrBusy) {
		return fmt.Errorf("acquire %q: %w: %w", c.Name, ErrBusy, err)
	}
	return e.explain("acquire", c.Name, err)
}

// Contend implements holder.Engine.
func (e engine) Contend(in holder.Call, c tenure.Claim) (holder.Claim, error) {
	if err := in.Cut(); err != nil {
		return nil, err
	}
	p := e.peer
	x := e.newClaim(c)
	verdict := x.Verdict()
	p.mu.Lock()
	p.claims[x.id] = x
	p.most = max(p.most, len(p.claims))
	p.mu.Unlock()
	p.driver.StepInTurn(flease.Acquire{
		ID: x.id, Name: c.Name, Holder: c.Holder, TTL: c.TTL, LockDelay: c.LockDelay, Slots: slots(c.Slots), Try: in.Try,
	})
	if err, decided := holder.Await(in, verdict); decided {
		return x, err
	}
	seen, late := x.giveUp(verdict)
	x.GiveBack()
	x.awaitGone(farewell)
	if late != nil {
		return nil, late
	}
	if len(seen.Holders) > 0 {
		h := seen.Holders[0]
		return nil, fmt.Errorf("gave up waiting: %w: %w", tenure.HeldError{Name: c.Name, Holder: h.Holder, Until: h.Until}, in.Cut())
	}
	return nil, in.Cut()
}

// newClaim makes a claim that the protocol does not know yet.
func (l *Leaser) newClaim(c tenure.Claim) *claim {
	p := l.peer
	return &claim{
		Lease: holder.Make(&p.clocks, c.Name, c.Holder, nil), leaser: l, id: p.lastID.Add(1), ttl: c.TTL, delay: c.LockDelay,
	}
}

// giveUp ends the wait for a verdict. It returns the holders in the way, and the refusal if one came
// after all.
func (x *claim) giveUp(verdict <-chan error) (seen tenure.State, late error) {
	x.GiveUp()
	select {
	case late = <-verdict:
	default:
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.seen != nil {
		seen = *x.seen
	}
	return seen, late
}

// farewell bounds how long a caller that gives up waits until others are told. A later claim must
// not find this one in the queue. A client also waits to hear which holder was in the way.
const farewell = 250 * time.Millisecond

// awaitGone waits until the machine has dropped a claim that was given up, and has told others;
// it waits no longer than most.
func (x *claim) awaitGone(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-x.departed():
		x.leaser.peer.driver.Do(func() {}) // after the messages of the step before
	case <-timer.C:
	}
}

func slots(n int) int {
	if n >= tenure.Shared {
		return flease.Shared
	}
	return n
}

// verdict is the error that a caller gets for a Refused.
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

// releasePatience is how long Close waits for the next release to be confirmed.
const releasePatience = 2 * time.Second

// releaseOf releases the leases of a Leaser. If l is nil, it releases all leases of this process.
// Leases of clients are left to run out, because their holders may still believe in them.
func (p *Peer) releaseOf(l *Leaser) error {
	p.mu.Lock()
	var mine []*claim
	for _, x := range p.claims {
		if x.leaser == l || l == nil && !x.leaser.client {
			mine = append(mine, x)
		}
	}
	p.mu.Unlock()
	// In a fixed order, so that a simulated world repeats.
	slices.SortFunc(mine, func(a, b *claim) int { return cmp.Compare(a.id, b.id) })
	return holder.ReleaseAll(mine, max(releasePatience, 8*p.pure.RoundTimeout), true)
}
