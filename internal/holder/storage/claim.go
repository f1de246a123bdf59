package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/stint"
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
	tenure.Claim
	leaser *Leaser
	id     machine.ID
	lease  *disklease.Lease // the driver's
	driver *driver.Driver
	access func([]machine.Access)
	leave  func() // the set

	entered chan machine.Accessed
	// renewing is when the renewal under way began; the driver's goroutine's. 0: none.
	renewing machine.Mono

	verdict   chan error    // one: nil when it is held, else why not
	held      chan struct{} // closed when there is a stint
	departing chan struct{} // closed when the machine was told to leave
	left      chan struct{} // closed when it has left, see goodbye
	over      chan struct{} // closed when the machine is gone

	mu      sync.Mutex
	stint   *stint.Stint // of the tenure; nil before
	token   uint64
	away    bool  // departing is closed
	goodbye error // of left
	trouble error // of the last access, nil if it succeeded
	slow    error // why a try was given up that others did not stand in the way of
	bound   time.Duration
	// answered: an access has succeeded at some time.
	answered bool
	// met are those who stood in the register when a try was refused.
	met []disklease.Member
	// unready is why stores were not ready when the caller gave up entering them; his goroutine's.
	unready []error
}

// pursue starts the machine of a claim, which does nothing yet.
func (l *Leaser) pursue(c tenure.Claim) (*claim, error) {
	x := &claim{
		Claim: c, leaser: l, bound: l.header.Delay,
		entered: make(chan machine.Accessed, l.header.Of), verdict: make(chan error, 1), held: make(chan struct{}),
		departing: make(chan struct{}), left: make(chan struct{}), over: make(chan struct{}),
	}
	rand.Read(x.id[:]) // never fails
	var err error
	x.lease, err = disklease.New(disklease.Config{
		ID: x.id, Holder: c.Holder, Slots: c.Slots, LockDelay: c.LockDelay,
		Term: l.header.Term, Delay: l.header.Delay, Drift: l.header.Drift,
		Poll:    max(l.header.Term/50, time.Millisecond),
		Witness: l.witnesses.of(c.Name),
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tenure.ErrClaim, err)
	}
	access, leave := l.set.Serve(c.Name, x.id, func(a machine.Accessed) {
		if a.ID >= entering {
			x.entered <- a
			return
		}
		x.driver.Step(a)
	})
	x.access, x.leave = access, leave
	begin := func(as []machine.Access) {
		if x.renewing == 0 {
			x.renewing = l.clock.Now()
		}
		access(as)
	}
	x.driver = driver.Start(driver.Config{
		Machine: quorumregister.Over(x.lease, l.set.Config(x.id, true)),
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

// enter has the stores make ready, which may take far longer than δ: the first write of
// a claim that had to wait for it would be taken for late. It returns when a majority is
// ready, or cannot be: what went wrong will go wrong again, and is told then.
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
		if !errors.Is(x.stint.Watch(), tenure.ErrLost) {
			x.awaitLeft()
		}
		// A lost lease is not released: what others wait for is at hand, and a
		// lock delay must not be cut short.
	case <-x.departing:
		x.awaitLeft()
	case <-x.leaser.halt:
	}
	x.driver.Stop()
	x.leave()
	x.leaser.mu.Lock()
	delete(x.leaser.claims, x)
	x.leaser.mu.Unlock()
	close(x.over)
}

// awaitLeft waits until others know that we have left, or would not wait for us anyway.
func (x *claim) awaitLeft() {
	limit := x.leaser.clock.Alarm(clock.After(x.leaser.clock, x.leaser.Takeover()+x.LockDelay))
	defer limit.Stop()
	select {
	case <-x.left:
	case <-limit.C:
	case <-x.leaser.halt:
	}
}

// outcomes runs on the driver's goroutine.
func (x *claim) outcomes(outs []any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, out := range outs {
		switch out := out.(type) {
		case disklease.Acquired:
			x.acquired(out)
		case disklease.Renewed:
			x.leaser.renewal.Store(int64(x.leaser.clock.Now().Sub(x.renewing)))
			x.renewing = 0
			if x.stint != nil && x.stint.Extend(out.Deadline) {
				x.decide(nil)
			}
		case disklease.Lost:
			if x.stint != nil {
				_ = x.stint.Check() // at its deadline it says what was in the way of a renewal
				x.stint.Lose(errors.New(out.Why))
				x.decide(nil)
			}
		case disklease.Refused:
			x.decide(x.refusal(out))
		case disklease.Left:
			x.goodbye = out.Err
			close(x.left)
		case disklease.Trouble:
			x.troubled(out.Err)
		case quorumregister.Took:
			x.trouble, x.answered = nil, true
			x.leaser.set.Delays().Add(out.Time)
			x.measured()
		default:
			x.leaser.troubles.note(x.leaser.clock.Now(), out)
		}
	}
}

// acquired begins the tenure, unless it comes too late. One that others may share is
// theirs to see only once it is confirmed, by its first renewal.
func (x *claim) acquired(a disklease.Acquired) {
	if x.away {
		return
	}
	x.renewing = 0
	x.stint, x.token = stint.Begin(x.leaser.clock, a.Deadline), a.Token
	close(x.held)
	if x.Slots == 1 {
		x.decide(nil)
	}
}

// decide gives whoever waits his answer; the first counts.
func (x *claim) decide(verdict error) {
	select {
	case x.verdict <- verdict:
	default:
	}
}

func (x *claim) troubled(err error) {
	if x.stint != nil {
		x.stint.Trouble(err)
	}
	if errors.Is(err, disklease.ErrSlow) {
		x.slow = err
		return
	}
	x.trouble = err
	if x.leaser.hopeless(err) {
		x.decide(err)
	}
}

// measured tells the machine how long accesses take.
func (x *claim) measured() {
	if d := x.leaser.set.Delays().Bound(); d != x.bound {
		x.bound = d
		x.driver.Step(disklease.Measured{Delay: d})
	}
}

// hopeless tells trouble that no waiting cures.
func (l *Leaser) hopeless(err error) bool {
	for _, is := range []error{disklease.ErrRecord, register.ErrTooLong, quorumregister.ErrExhausted} {
		if errors.Is(err, is) {
			return true
		}
	}
	if l.header.Of > 1 {
		return false // what is the matter with one store another may make up for
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
	if x.stint != nil {
		x.stint.End(errNotAdmitted)
	}
	if !x.away {
		x.away = true
		close(x.departing)
		x.driver.Step(disklease.Leave{})
	}
}

var errNotAdmitted = errors.New("not admitted")

// release ends the tenure, or the wait for one, and waits until others know.
func (x *claim) release(ctx context.Context) error {
	patience := time.Second
	x.mu.Lock()
	if x.stint != nil {
		patience = max(patience, x.stint.Left())
		if err := x.stint.End(fmt.Errorf("%w by its holder", tenure.ErrReleased)); errors.Is(err, tenure.ErrLost) {
			x.mu.Unlock()
			return err
		}
	}
	x.mu.Unlock()
	x.depart()

	enough := x.leaser.clock.Alarm(clock.After(x.leaser.clock, patience))
	defer enough.Stop()
	why := errors.New("no answer until its deadline")
	select {
	case <-x.left:
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-enough.C:
	case <-x.over: // by Close, or as a short term has run out
		if x.leaser.ctx.Err() != nil {
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
	return fmt.Errorf("the release was not confirmed, the lease ends by itself within %v: %w: %w",
		(x.leaser.Takeover() + x.LockDelay).Round(time.Millisecond), tenure.ErrUnavailable, why)
}
