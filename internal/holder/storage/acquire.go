package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// Acquire implements tenure.Leaser.
func (l *Leaser) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	return holder.Admit(ctx, l.calls, engine{l, nil}, c, false)
}

// TryAcquire implements tenure.Leaser. It waits for the stores no longer than five
// seconds, or 16 δ if that is more.
func (l *Leaser) TryAcquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	return holder.Admit(ctx, l.calls, engine{l, nil}, c, true)
}

// engine is a Leaser as a holder.Engine.
type engine struct {
	*Leaser
	broken []uint64 // tokens of tenures that are to end by force
}

// Patience implements holder.Engine.
func (e engine) Patience() time.Duration { return max(5*time.Second, 16*e.Delay()) }

// Again implements holder.Engine: the machine has waited out all trouble that waiting cures.
func (engine) Again(holder.Call, error) (time.Duration, bool) { return 0, false }

// Explain implements holder.Engine.
func (engine) Explain(_ holder.Call, c tenure.Claim, err error) error {
	return holder.Unexplained(c.Name, err)
}

// Contend implements holder.Engine.
func (e engine) Contend(in holder.Call, c tenure.Claim) (holder.Claim, error) {
	l := e.Leaser
	ctx, end := in.Context()
	defer end()
	how := disklease.LeaseInput(disklease.Acquire{})
	if in.Try {
		how = disklease.TryAcquire{}
	}
	var slow slowness
	var ended []disklease.Ended // a try's claims have learned of these
	for {
		x, err := l.pursue(c, e.broken...)
		if err != nil {
			return nil, err
		}
		x.enter(ctx)
		x.tie(ctx)
		verdict := x.Verdict()
		for _, e := range ended {
			x.driver.Step(e)
		}
		x.driver.Step(how)
		heeded := x.heed(ctx)
		select {
		case err = <-verdict:
		case <-ctx.Done():
			err = x.gaveUp(ctx)
		}
		ended = append(ended, heeded()...)
		if err == nil && x.Check() == nil {
			l.witnesses.forget(c.Name)
			x.succeed(ended)
			return x, nil
		}
		x.depart()
		if err != nil { // of a try: only tries learn who is in the way
			if more := l.ended(ctx, x.others()); len(more) > 0 {
				ended = append(ended, more...)
				continue
			}
		}
		switch {
		case err == nil: // lost before anybody knew of it
		case slow.outlast(ctx, x, err):
		case slow.err != nil:
			return nil, slow.err
		default:
			return nil, err
		}
	}
}

// slowness has the claims that are in a try's way because its own writes were slow.
type slowness struct {
	claims []machine.ID
	err    error // of the last
}

// outlast waits for the traces of our own slow claims, if nobody else is in the way and there is
// time for it. It returns false if another try makes no sense.
func (s *slowness) outlast(ctx context.Context, x *claim, err error) bool {
	l := x.leaser
	switch end, _ := ctx.Deadline(); { // every try has one
	case ctx.Err() != nil:
		return false
	case errors.Is(err, disklease.ErrSlow):
		s.claims, s.err = append(s.claims, x.id), err
		// The next try sees the traces, and the wait begins then.
		return time.Until(end) > l.Takeover()+8*l.Delay()
	case s.err == nil || !s.alone(x):
		s.err = nil
		return false
	}
	select {
	case <-time.After(l.header.Term / 20):
		return true
	case <-ctx.Done():
		return false
	}
}

// alone reports whether the claim would fit in but for those of this try.
func (s *slowness) alone(x *claim) bool {
	var slots []int
	for _, m := range x.met {
		if !slices.Contains(s.claims, m.ID) {
			slots = append(slots, m.Slots)
		}
	}
	return tenure.Admitted(append(slots, x.slots)) == len(slots)+1
}

// refusal is the answer to a TryAcquire that was refused. A slow claim has left a record in the
// register, for which even we have to wait.
func (x *claim) refusal(r disklease.Refused) error {
	x.leaser.witnesses.keep(x.Name(), r.Witness)
	held := tenure.HeldError{Name: x.Name(), Holder: "another claim, which was quicker"}
	switch {
	case errors.Is(r.Err, disklease.ErrSlow):
		held.Holder, held.Until = x.Holder(), time.Now().Add(x.leaser.Takeover())
		return fmt.Errorf("%w: %w; another try may succeed after that time", held, r.Err)
	case r.Err != nil && x.leaser.hopeless(r.Err):
		return r.Err
	case r.Err != nil:
		return fmt.Errorf("%w: %w", tenure.ErrUnavailable, r.Err)
	}
	x.met = slices.DeleteFunc(slices.Clone(r.State.Members), func(m disklease.Member) bool { return m.Released || m.Dead })
	if s := x.leaser.state(x.Name(), r.State); len(s.Holders) > 0 {
		held.Holder, held.Until = s.Holders[0].Holder, s.Holders[0].Until
	}
	return held
}

// others are the members of the register that stood in the way of a try.
func (x *claim) others() []disklease.Member {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.met
}

// gaveUp is the error of a caller that does not wait any more. It names the holder, or says that
// the stores do not answer.
func (x *claim) gaveUp(ctx context.Context) error {
	var seen disklease.State
	var witness []byte
	var stuck bool
	l, cause := x.leaser, context.Cause(ctx)
	x.driver.Do(func() {
		seen, witness = x.lease.State(), x.lease.Witness()
		stuck = x.lease.Stuck(l.clock.Now())
	})
	l.witnesses.keep(x.Name(), witness)
	seen.Members = withoutID(seen.Members, x.id)
	s := l.state(x.Name(), seen)

	x.mu.Lock()
	defer x.mu.Unlock()
	why := error(nil)
	switch {
	case x.trouble != nil:
		why = x.trouble
	case x.unready != nil:
		why = errors.Join(x.unready...)
	case stuck || !x.answered:
		why = errors.Join(l.troubles.errors()...)
	case len(s.Holders) > 0:
		h := s.Holders[0]
		return fmt.Errorf("gave up waiting: %w: %w", tenure.HeldError{Name: x.Name(), Holder: h.Holder, Until: h.Until}, cause)
	case x.slow != nil:
		why = x.slow
	default:
		return cause
	}
	if why == nil {
		return fmt.Errorf("%w: %w", tenure.ErrUnavailable, cause)
	}
	return fmt.Errorf("%w: %w (%w)", tenure.ErrUnavailable, cause, why)
}
