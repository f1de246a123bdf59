package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// claim is one claim with the machine that pursues it, from contending until nobody
// has to wait for it any more.
type claim struct {
	holder.Lease
	slots  int
	delay  time.Duration // the lock delay
	leaser *Leaser
	id     machine.ID
	lease  *disklease.Lease // the driver's
	driver *driver.Driver[disklease.LeaseInput, disklease.Outcome]
	access func([]machine.Access)
	leave  func() // the set

	entered chan machine.Accessed
	// renewing is when the renewal under way began; the driver's goroutine's. 0: none.
	renewing machine.Mono

	held      chan struct{} // closed when the tenure begins
	departing chan struct{} // closed when the machine was told to leave
	left      chan struct{} // closed when it has left, see goodbye
	over      chan struct{} // closed when the machine is gone

	recording chan struct{} // holds a token while a record is set
	records   uint64        // how many were; recording's

	mu      sync.Mutex
	tether  *tether // nil: not tied
	untied  bool    // for good
	away    bool    // departing is closed
	goodbye error   // of left
	trouble error   // of the last access, nil if it succeeded
	slow    error   // why a try was given up that others did not stand in the way of
	bound   time.Duration
	// answered: an access has succeeded at some time.
	answered bool
	// met are the members of the register when a try was refused.
	met []disklease.Member
	// unready is why stores were not ready when the caller gave up entering them. Only the caller's
	// goroutine uses it.
	unready []error
}

// pursue starts the machine of a claim, which does nothing yet. It waits for none of the broken tenures.
func (l *Leaser) pursue(c tenure.Claim, broken ...uint64) (*claim, error) {
	x := &claim{
		Lease: holder.Make(&l.clocks, c.Name, c.Holder, nil), slots: c.Slots, delay: c.LockDelay, leaser: l, bound: l.header.Delay,
		entered: make(chan machine.Accessed, l.header.Of), held: make(chan struct{}),
		departing: make(chan struct{}), left: make(chan struct{}), over: make(chan struct{}),
		recording: make(chan struct{}, 1),
	}
	rand.Read(x.id[:]) // never fails
	var err error
	x.lease, err = disklease.New(disklease.Config{
		ID: x.id, Holder: c.Holder, Slots: c.Slots, LockDelay: c.LockDelay,
		Term: l.header.Term, Delay: l.header.Delay, Drift: l.header.Drift,
		Poll:    max(l.header.Term/50, time.Millisecond),
		Witness: l.witnesses.of(c.Name), Broken: broken,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tenure.ErrClaim, err)
	}
	access, leave := l.set.Serve(c.Name, x.id, func(a machine.Accessed) {
		if a.ID >= entering {
			x.entered <- a
			return
		}
		x.driver.Accessed(a)
	})
	x.access, x.leave = access, leave
	begin := func(as []machine.Access) {
		if x.renewing == 0 {
			x.renewing = l.clock.Now()
		}
		access(as)
	}
	x.driver = driver.Start(driver.Config[disklease.LeaseInput, disklease.Outcome]{
		Machine: quorumregister.Over(x.lease, l.set.Config(x.id, true), ofStores),
		Now:     func() machine.Now { return machine.Now{Mono: l.clock.Now()} },
		Access:  begin,
		Outcome: x.outcomes,
	})
	x.measured()
	l.mu.Lock()
	l.claims[x] = struct{}{}
	l.minded.Add(1)
	l.mu.Unlock()
	go x.mind()
	return x, nil
}

// entering marks the accesses by which a claim enters the stores. A machine's own count
// from 1.
const entering = 1 << 63

// enter has the stores make ready, which may take far longer than δ: the first write of a claim
// that had to wait for it would be taken for late. It returns when a majority is ready, or cannot
// be. An error here comes again later, and is returned then.
func (x *claim) enter(ctx context.Context) {
	n := x.leaser.header.Of
	ask := func(i int) { x.access([]machine.Access{{ID: entering + uint64(i), At: i, Op: register.Enter{}}}) }
	for i := range n {
		ask(i)
	}
	again := time.NewTicker(max(x.leaser.header.Delay, 10*time.Millisecond))
	defer again.Stop()
	var failed []int
	why := make([]error, n)
	for good := 0; good <= n/2 && n-len(failed) > n/2; {
		select {
		case a := <-x.entered:
			i := int(a.ID - entering)
			if why[i] = a.Err; a.Err == nil {
				good++
			} else {
				failed = append(failed, i)
			}
		case <-again.C: // others may hang, so that these are needed
			for _, i := range failed {
				ask(i)
			}
			failed = nil
		case <-ctx.Done():
			for i, err := range why {
				if err != nil {
					x.unready = append(x.unready, fmt.Errorf("store %d: %w", i, err))
				}
			}
			return
		}
	}
}

// mind ends the machine when it has nothing left to do.
func (x *claim) mind() {
	defer x.leaser.minded.Done()
	select {
	case <-x.held:
		if !errors.Is(x.Watch(), tenure.ErrLost) {
			x.awaitLeft()
		}
		// A lost lease is not released: the end for which others wait is near, and a lock delay
		// must not be cut short.
	case <-x.departing:
		x.awaitLeft()
	case <-x.leaser.halt:
	}
	x.driver.Stop()
	x.leave()
	x.untie()
	x.leaser.mu.Lock()
	delete(x.leaser.claims, x)
	x.leaser.mu.Unlock()
	close(x.over)
}

// awaitLeft waits until others know that we have left, or would not wait for us anyway.
func (x *claim) awaitLeft() {
	limit := x.leaser.clock.Alarm(clock.After(x.leaser.clock, x.leaser.Takeover()+x.delay))
	defer limit.Stop()
	select {
	case <-x.left:
	case <-limit.C:
	case <-x.leaser.halt:
	}
}

// outcomes runs on the driver's goroutine.
func (x *claim) outcomes(outs []disklease.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, out := range outs {
		switch out := out.(type) {
		case disklease.Acquired:
			x.acquired(out)
		case disklease.Renewed:
			x.leaser.renewal.Store(int64(x.leaser.clock.Now().Sub(x.renewing)))
			x.renewing = 0
			x.noteHeld()
			if x.Begun() && x.Extend(out.Deadline, 0) {
				x.Decide(nil)
			}
		case disklease.Lost:
			if x.Begun() {
				_ = x.Check() // at its deadline it says why no renewal succeeded
				x.Lose(errors.New(out.Why))
				x.Decide(nil)
			}
		case disklease.Refused:
			x.Decide(x.refusal(out))
		case disklease.Left:
			x.goodbye = out.Err
			close(x.left)
		case disklease.Trouble:
			x.troubled(out.Err)
		case storesTold:
			if took, ok := out.Event.(quorumregister.Took); ok {
				x.trouble, x.answered = nil, true
				x.leaser.set.Delays().Add(took.Time)
				x.measured()
			} else {
				x.leaser.troubles.note(x.leaser.clock.Now(), out.Event)
			}
		}
	}
}

// acquired begins the tenure, unless it comes too late. One that others may share is
// theirs to see only once it is confirmed, by its first renewal.
func (x *claim) acquired(a disklease.Acquired) {
	if !x.Begin(a.Token, a.Deadline, 0) {
		return
	}
	x.renewing = 0
	x.noteHeld()
	close(x.held)
	if x.slots == 1 {
		x.Decide(nil)
	}
}

func (x *claim) troubled(err error) {
	x.Lease.Trouble(err)
	if errors.Is(err, disklease.ErrSlow) {
		x.slow = err
		return
	}
	x.trouble = err
	if x.leaser.hopeless(err) {
		x.Decide(err)
	}
}

// measured passes the measured δ to the machine.
func (x *claim) measured() {
	if d := x.leaser.set.Delays().Bound(); d != x.bound {
		x.bound = d
		x.driver.Step(disklease.Measured{Delay: d})
	}
}

// hopeless reports whether an error is trouble that no waiting cures.
func (l *Leaser) hopeless(err error) bool {
	for _, is := range []error{disklease.ErrRecord, register.ErrTooLong, quorumregister.ErrExhausted} {
		if errors.Is(err, is) {
			return true
		}
	}
	if l.header.Of > 1 {
		return false // another store may make up for the trouble of one
	}
	for _, is := range []error{register.ErrForeign, register.ErrNewer, register.ErrMismatch} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// depart gives up contending or holding.
func (x *claim) depart() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.GiveUp()
	if !x.away {
		x.away = true
		close(x.departing)
		x.driver.Step(disklease.Leave{})
	}
}

// Release implements tenure.Lease.
func (x *claim) Release(ctx context.Context) error { return holder.Release(ctx, x) }

// GiveBack implements holder.Claim.
func (x *claim) GiveBack() { x.depart() }

// Abandon implements holder.Claim: of a lost claim the stores hear nothing.
func (x *claim) Abandon(context.Context) {}

// AwaitFreed implements holder.Claim. Of a claim that was not admitted nobody wants to hear.
func (x *claim) AwaitFreed(ctx context.Context, left time.Duration) error {
	if err := x.awaitFreed(ctx, left); x.Begun() {
		return err
	}
	return nil
}

func (x *claim) awaitFreed(ctx context.Context, left time.Duration) error {
	enough := x.leaser.clock.Alarm(clock.After(x.leaser.clock, max(left, time.Second)))
	defer enough.Stop()
	why := errors.New("no answer until its deadline")
	select {
	case <-x.left:
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-enough.C:
	case <-x.over: // by Close, or as a short term has run out
		if x.leaser.calls.Err() != nil {
			why = tenure.ErrClosed
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.left:
		if x.goodbye == nil {
			return nil
		}
		why = x.goodbye
	default:
	}
	if x.trouble != nil {
		why = fmt.Errorf("%w (%w)", why, x.trouble)
	}
	return holder.Unconfirmed(x.leaser.Takeover()+x.delay, fmt.Errorf("%w: %w", tenure.ErrUnavailable, why))
}
