package holder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Clocks measure leases.
type Clocks struct {
	Mono clock.Clock
	// Wall reads the synchronized clock, for an engine whose leases end by that clock, too.
	// Else it is nil.
	Wall func() time.Time
}

// Now reads the clocks.
func (c *Clocks) Now() machine.Now {
	now := machine.Now{Mono: c.Mono.Now()}
	if c.Wall != nil {
		now.Wall = machine.Wall(c.Wall().UnixNano())
	}
	return now
}

// Lease is one claim and its tenure, as far as that is the same for all engines. An engine
// embeds it in a claim of its own. It has neither a goroutine nor a timer, and its channels
// are made when somebody asks for them: there may be a million in a process. Its methods may
// be called from any goroutine.
type Lease struct {
	clocks       *Clocks
	name, holder string
	token        uint64

	mu       sync.Mutex
	deadline machine.Mono
	until    machine.Wall // 0: it does not end by this clock
	begun    bool         // admitted, perhaps over by now
	ended    bool
	why      error // why it ended; before that, the trouble of the next renewal

	stop    func()        // called at the end; nil if nothing has to be stopped
	done    chan struct{} // closed at the end
	ctx     context.Context
	cancel  context.CancelCauseFunc
	verdict chan error // for the caller that waits for the claim's admission
}

// Errors with which tenures end.
var (
	errReleased = fmt.Errorf("%w by its holder", tenure.ErrReleased)
	errDeadline = fmt.Errorf("%w: its deadline passed without a renewal", tenure.ErrLost)
	errGaveUp   = errors.New("not admitted")
)

// Make makes the part of a claim that is the same for all engines. stop, unless it is nil, is
// called when the tenure ends, or the claim is given up; it must not block.
func Make(c *Clocks, name, holder string, stop func()) Lease {
	return Lease{clocks: c, name: name, holder: holder, stop: stop}
}

// Core returns the lease, to which the engine has added its own.
func (l *Lease) Core() *Lease { return l }

// Name implements tenure.Lease.
func (l *Lease) Name() string { return l.name }

// Holder implements tenure.Lease.
func (l *Lease) Holder() string { return l.holder }

// Token implements tenure.Lease.
func (l *Lease) Token() uint64 { return l.token }

// Deadline implements tenure.Lease. Of two clocks the one counts whose end is earlier.
func (l *Lease) Deadline() time.Time { return time.Now().Add(l.Left()) }

// Begin begins the tenure, unless the claim was given up before.
func (l *Lease) Begin(token uint64, deadline machine.Mono, until machine.Wall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.begun, l.token, l.deadline, l.until, l.why = true, token, deadline, until, nil
	return true
}

// Begun reports whether the tenure has begun. It may be over.
func (l *Lease) Begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

// Left is the time until the deadline; negative after it.
func (l *Lease) Left() time.Duration { return l.LeftAt(l.clocks.Now()) }

// LeftAt is Left when the clocks show now.
func (l *Lease) LeftAt(now machine.Now) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leftAt(now)
}

func (l *Lease) leftAt(now machine.Now) time.Duration {
	left := l.deadline.Sub(now.Mono)
	if l.until != 0 {
		left = min(left, time.Duration(l.until-now.Wall))
	}
	return left
}

// Extend moves the deadline: by the monotonic clock never back. It returns false if the
// tenure had ended.
func (l *Lease) Extend(deadline machine.Mono, until machine.Wall) bool {
	return l.ExtendAt(l.clocks.Now(), deadline, until)
}

// ExtendAt is Extend when the clocks show now.
func (l *Lease) ExtendAt(now machine.Now, deadline machine.Mono, until machine.Wall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expire(now); l.ended {
		return false
	}
	l.deadline, l.until, l.why = max(l.deadline, deadline), until, nil
	return true
}

// Trouble notes why the next renewal may fail.
func (l *Lease) Trouble(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.why = err
	}
}

// Check implements tenure.Lease. A claim that is not admitted has no time left.
func (l *Lease) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expire(l.clocks.Now()); l.ended {
		return l.why
	}
	return nil
}

// Err implements tenure.Lease.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return l.why
	}
	return nil
}

// Done implements tenure.Lease.
func (l *Lease) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.ended {
			close(l.done)
		}
	}
	return l.done
}

// Context implements tenure.Lease.
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(context.Background())
		if l.ended {
			l.cancel(l.why)
		}
	}
	return l.ctx
}

// Lose ends the tenure as lost.
func (l *Lease) Lose(why error) { l.End(fmt.Errorf("%w: %w", tenure.ErrLost, why)) }

// End ends the tenure, or the claim, for the reason given, unless it had ended, and returns why it
// did. A tenure whose deadline has passed was lost, and no later reason changes that.
func (l *Lease) End(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun && !errors.Is(err, tenure.ErrLost) {
		l.expire(l.clocks.Now())
	}
	l.end(err)
	return l.why
}

// Watch ends the tenure at its deadline, and returns once it has ended, and why.
func (l *Lease) Watch() error {
	done := l.Done()
	for {
		l.mu.Lock()
		deadline := l.deadline
		l.mu.Unlock()
		alarm := l.clocks.Mono.Alarm(deadline)
		select {
		case <-done:
			alarm.Stop()
			return l.Err()
		case <-alarm.C:
			_ = l.Check() // ends it, unless it was extended
		}
	}
}

// expire ends the tenure if its deadline has passed. l.mu is held.
func (l *Lease) expire(now machine.Now) {
	if l.ended || l.leftAt(now) > 0 {
		return
	}
	err := errDeadline
	if l.why != nil {
		err = fmt.Errorf("%w: %w", err, l.why)
	}
	l.end(err)
}

// end ends it, once. l.mu is held.
func (l *Lease) end(err error) {
	if l.ended {
		return
	}
	l.ended, l.why = true, err
	if l.done != nil {
		close(l.done)
	}
	if l.cancel != nil {
		l.cancel(err)
	}
	if l.stop != nil {
		l.stop()
	}
}

// Verdict returns the channel on which the engine's decision about the claim comes: nil once
// it is admitted, else why it is not.
func (l *Lease) Verdict() <-chan error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.verdict = make(chan error, 1)
	return l.verdict
}

// Decide passes the verdict to the caller that waits for the claim. The first decision counts.
func (l *Lease) Decide(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verdict != nil {
		l.verdict <- err
		l.verdict = nil
	}
}

// GiveUp ends the claim for a caller that does not wait any more.
func (l *Lease) GiveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.verdict = nil
	if l.begun {
		l.expire(l.clocks.Now())
	}
	l.end(errGaveUp)
}
