package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// MaxProposal is the longest value that can be agreed on, in bytes.
const MaxProposal = disklease.MaxProposal

// ErrProposal is a value that nobody can agree on.
var ErrProposal = errors.New("bad proposal")

// Agree decides on one value for a name, for ever. All callers for the name get the same value,
// which one of them proposed. It is uniform consensus over the stores (section 9 of the paper, see
// disklease.Consensus). It is safe even when leases are not: if clocks run wild and two hold one
// lease, both still get the same answer.
//
//	winner, err := leaser.Agree(ctx, "config/7", mine)   // perhaps mine
//	value, ok, err := leaser.Decided(ctx, "config/7")    // without a proposal
//
// It returns when there is a decision. For that, one caller has to lead for long enough, so each
// contends for the lease of the same name meanwhile. Alone, it takes two writes and two reads more
// than the lease. If Agree fails, or ctx ends, the proposal may be decided all the same.
//
// The names of agreements and of leases are independent, but Agree contends for the lease of its
// name. In the stores an agreement is a register by the name with a slash at its end, which no
// lease can have. Its decision is never forgotten, so new names all the time fill the stores.
//
// It asks more of the stores than leases do, which expire anyway: a store must keep all that it
// acknowledged. A store that was restored from a backup counts among the minority that may fail,
// and for ever. One that was filled from a majority of the others, as by package redis's Restore, counts
// again: of a proposal that it may have forgotten nobody makes use after the wait of that.
func (l *Leaser) Agree(outer context.Context, name string, proposal []byte) ([]byte, error) {
	if len(proposal) > MaxProposal {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are possible: agree on the name or the checksum of a longer value", ErrProposal, len(proposal), MaxProposal)
	}
	value, ok, err := l.Decided(outer, name)
	if ok || err != nil && !errors.Is(err, tenure.ErrUnavailable) {
		return value, err
	}
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return nil, err
	}
	defer end()
	a := l.startProposer(name, proposal)
	defer a.leave()
	defer a.driver.Stop()
	ctx, over := context.WithCancel(ctx)
	var leading sync.WaitGroup
	leading.Go(func() { a.lead(ctx) })
	defer leading.Wait()
	defer over()
	select {
	case value := <-a.decided:
		return value, nil
	case err := <-a.failed:
		return nil, fmt.Errorf("agree on %q: %w", name, err)
	case <-ctx.Done():
		if l.calls.CutShort(outer) {
			return nil, tenure.ErrClosed
		}
		return nil, a.gaveUp(context.Cause(ctx))
	}
}

// Decided returns the decision for the name, if there is one. Once it, or an Agree, has returned a
// decision, every call that begins later returns it.
func (l *Leaser) Decided(outer context.Context, name string) (value []byte, ok bool, err error) {
	v, err := l.read(outer, name, agreement(name))
	if err == nil {
		value, ok, err = disklease.Decision(v)
	}
	if err != nil {
		return nil, false, fmt.Errorf("look for the agreement on %q: %w", name, err)
	}
	return value, ok, nil
}

// read reads a register that belongs to a name, atomically.
func (l *Leaser) read(outer context.Context, name, register string) (v machine.Value, err error) {
	if err := tenure.CheckName(name); err != nil {
		return v, err
	}
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return v, err
	}
	defer end()
	cell := l.set.Register(register)
	defer cell.Close()
	if v, err = cell.Read(ctx); err != nil && l.calls.CutShort(outer) {
		return v, tenure.ErrClosed
	}
	return v, l.unavailable(ctx, err)
}

// unavailable adds to the error of an access what it means, if waiting may cure it.
func (l *Leaser) unavailable(ctx context.Context, err error) error {
	if err != nil && (ctx.Err() != nil || !l.hopeless(err)) {
		return fmt.Errorf("%w: %w", tenure.ErrUnavailable, err)
	}
	return err
}

// agreement is the name of the register.
func agreement(name string) string { return name + "/" }

// proposer is the part of one call of Agree in an agreement.
type proposer struct {
	leaser *Leaser
	name   string
	driver *driver.Driver[disklease.ConsensusInput, disklease.Outcome]
	leave  func() // the set

	decided chan []byte // one
	failed  chan error  // one, that no waiting cures

	mu      sync.Mutex
	trouble error // of the last access, nil if it succeeded
}

func (l *Leaser) startProposer(name string, proposal []byte) *proposer {
	a := &proposer{leaser: l, name: name, decided: make(chan []byte, 1), failed: make(chan error, 1)}
	var id machine.ID
	rand.Read(id[:]) // never fails
	access, leave := l.set.Serve(agreement(name), id, func(in machine.Accessed) { a.driver.Accessed(in) })
	a.leave = leave
	cfg := l.set.Config(id, true)
	cfg.Quiet = 1 << 62 // a store that forgot something counts no more, see Agree
	a.driver = driver.Start(driver.Config[disklease.ConsensusInput, disklease.Outcome]{
		Machine: quorumregister.Over(disklease.RankedOverNotes(disklease.NewConsensus(id, l.glance()), id, l.header.Quiet()), cfg, ofStores),
		Now:     func() machine.Now { return machine.Now{Mono: l.clock.Now()} },
		Access:  access,
		Outcome: a.outcomes,
	})
	a.driver.Step(disklease.Propose{Value: proposal})
	return a
}

// glance is how often a caller that does not lead looks for the decision.
func (l *Leaser) glance() time.Duration { return max(l.header.Term/50, 4*l.header.Delay) }

// outcomes runs on the driver's goroutine.
func (a *proposer) outcomes(outs []disklease.Outcome) {
	for _, out := range outs {
		switch out := out.(type) {
		case disklease.Decided:
			a.decided <- out.Value
		case disklease.Trouble:
			a.note(out.Err)
			if errors.Is(out.Err, disklease.ErrBlock) || a.leaser.hopeless(out.Err) {
				a.fail(out.Err)
			}
		case storesTold:
			if took, ok := out.Event.(quorumregister.Took); ok {
				a.note(nil)
				a.leaser.set.Delays().Add(took.Time)
			} else {
				a.leaser.troubles.note(a.leaser.clock.Now(), out.Event)
			}
		}
	}
}

func (a *proposer) note(trouble error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trouble = trouble
}

func (a *proposer) fail(err error) {
	select {
	case a.failed <- err:
	default:
	}
}

// lead contends for the lease of the name, and says when it is held: that is the oracle.
// It may well be wrong, so no deadline has to be handed on.
func (a *proposer) lead(ctx context.Context) {
	for ctx.Err() == nil {
		lease, err := a.leaser.Acquire(ctx, tenure.Claim{Name: a.name})
		if err != nil {
			if ctx.Err() == nil {
				a.fail(err)
			}
			return
		}
		a.driver.Step(disklease.Leads{Token: lease.Token(), Deadline: machine.Never})
		select {
		case <-lease.Done():
			a.driver.Step(disklease.Follows{Why: lease.Err().Error()})
		case <-ctx.Done():
		}
		_ = lease.Release(context.WithoutCancel(ctx)) // else it ends by itself
	}
}

// gaveUp is the error of a caller that does not wait any more.
func (a *proposer) gaveUp(cause error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if why := errors.Join(append(a.leaser.troubles.errors(), a.trouble)...); why != nil {
		cause = fmt.Errorf("%w: %w (%w)", tenure.ErrUnavailable, cause, why)
	}
	return fmt.Errorf("no agreement on %q yet, ask again: %w", a.name, cause)
}
