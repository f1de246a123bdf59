package stint

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

// Stint is the time of one tenure. Its methods may be called from any goroutine.
type Stint struct {
	clock clock.Clock
	ctx   context.Context // ends with the tenure
	stop  context.CancelFunc

	mu       sync.Mutex
	deadline machine.Mono
	trouble  error // since the last renewal
	err      error // why it ended
}

// Begin begins a tenure that lasts until the deadline.
func Begin(c clock.Clock, deadline machine.Mono) *Stint {
	s := &Stint{clock: c, deadline: deadline}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Context ends with the tenure.
func (s *Stint) Context() context.Context { return s.ctx }

// Done is closed when the tenure ends.
func (s *Stint) Done() <-chan struct{} { return s.ctx.Done() }

// Deadline is when it ends unless it is extended.
func (s *Stint) Deadline() machine.Mono {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline
}

// Left is the time until the deadline; negative after it.
func (s *Stint) Left() time.Duration { return s.Deadline().Sub(s.clock.Now()) }

// Extend moves the deadline, never back. It returns false if the tenure had ended.
func (s *Stint) Extend(deadline machine.Mono) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expire(); s.err != nil {
		return false
	}
	s.deadline, s.trouble = max(s.deadline, deadline), nil
	return true
}

// Trouble notes what is in the way of the next renewal.
func (s *Stint) Trouble(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = err
}

// Check reads the clock. It returns nil while the tenure lasts, and then why it ended.
func (s *Stint) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	return s.err
}

// Err is nil until Done is closed.
func (s *Stint) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Lose ends the tenure as lost.
func (s *Stint) Lose(why error) { s.End(fmt.Errorf("%w: %w", tenure.ErrLost, why)) }

// End ends the tenure for the reason given, unless it had ended, and returns why it
// did.
func (s *Stint) End(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(err, tenure.ErrLost) {
		s.expire()
	}
	s.end(err)
	return s.err
}

// Watch ends the tenure at its deadline, and returns once it has ended, and why.
func (s *Stint) Watch() error {
	for {
		alarm := s.clock.Alarm(s.Deadline())
		select {
		case <-s.ctx.Done():
			alarm.Stop()
			return s.Check()
		case <-alarm.C:
			_ = s.Check() // ends it, unless it was extended
		}
	}
}

func (s *Stint) expire() {
	if s.err != nil || s.clock.Now() < s.deadline {
		return
	}
	err := fmt.Errorf("%w: its deadline passed without a renewal", tenure.ErrLost)
	if s.trouble != nil {
		err = fmt.Errorf("%w: %w", err, s.trouble)
	}
	s.end(err)
}

func (s *Stint) end(err error) {
	if s.err == nil {
		s.err = err
		s.stop()
	}
}
