package holder

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

// scripted is an engine whose attempts end as a test says.
type scripted struct {
	attempts []func(Call) (Claim, error) // one after the other; the last again and again
	made     int
	again    error // is worth another attempt, a second later
	try      bool
	odd      []string // about the calls of Contend
	last     Call     // of Contend
}

func (e *scripted) Complete(c tenure.Claim) (tenure.Claim, error) {
	if c.Name == "" {
		return c, tenure.ErrClaim
	}
	c.Slots = 7
	return c, nil
}

func (e *scripted) Contend(in Call, c tenure.Claim) (Claim, error) {
	if c.Slots != 7 {
		e.odd = append(e.odd, "a claim that the engine did not complete")
	}
	if in.Try != e.try {
		e.odd = append(e.odd, fmt.Sprintf("a call whose Try is %v", in.Try))
	}
	e.last = in
	attempt := e.attempts[min(e.made, len(e.attempts)-1)]
	e.made++
	return attempt(in)
}

func (e *scripted) Again(_ Call, err error) (time.Duration, bool) {
	return time.Second, e.again != nil && errors.Is(err, e.again)
}

func (e *scripted) Explain(_ Call, c tenure.Claim, err error) error { return Unexplained(c.Name, err) }

func (e *scripted) Patience() time.Duration { return 5 * time.Second }

// until is an attempt that is admitted until a deadline.
func until(deadline machine.Mono) func(Call) (Claim, error) {
	return func(Call) (Claim, error) {
		c := &recorded{Lease: Make(&Clocks{Mono: new(clock.Fake)}, "n", "holder", nil)}
		c.Begin(1, deadline, 0)
		return c, nil
	}
}

func failWith(err error) func(Call) (Claim, error) {
	return func(Call) (Claim, error) { return nil, err }
}

func waitForAnHour(in Call) (Claim, error) {
	if err := in.Wait(time.Hour); err != nil {
		return nil, err
	}
	return nil, errors.New("it waited for an hour")
}

// waitAndCleanUp is an attempt that takes a second to end after its call.
func waitAndCleanUp(in Call) (Claim, error) {
	_, err := waitForAnHour(in)
	time.Sleep(time.Second)
	return nil, err
}

// Acquire and TryAcquire of all engines: their results, after how many attempts, and when.
func TestAdmit(t *testing.T) {
	errBusy, errBroken := errors.New("busy"), errors.New("broken")
	heldByAnother := tenure.HeldError{Name: "n", Holder: "another"}
	for name, c := range map[string]struct {
		claim    string
		attempts []func(Call) (Claim, error)
		try      bool
		patience time.Duration // the caller's; 0: it waits for ever
		close    time.Duration // when the Leaser is closed; 0: never
		want     error
		text     string
		made     int
		took     time.Duration
	}{
		"admitted":                        {"n", []func(Call) (Claim, error){until(60)}, false, 0, 0, nil, "", 1, 0},
		"a claim that makes no sense":     {"", []func(Call) (Claim, error){until(60)}, false, 0, 0, tenure.ErrClaim, "", 0, 0},
		"lost before the caller knew":     {"n", []func(Call) (Claim, error){until(0), until(60)}, false, 0, 0, nil, "", 2, 0},
		"another attempt":                 {"n", []func(Call) (Claim, error){failWith(errBusy), failWith(errBusy), until(60)}, false, 0, 0, nil, "", 3, 2 * time.Second},
		"held by another":                 {"n", []func(Call) (Claim, error){failWith(heldByAnother)}, true, 0, 0, heldByAnother, heldByAnother.Error(), 1, 0},
		"broken":                          {"n", []func(Call) (Claim, error){failWith(errBroken)}, false, 0, 0, errBroken, `acquire "n": broken`, 1, 0},
		"a try waits for some seconds":    {"n", []func(Call) (Claim, error){waitForAnHour}, true, 0, 0, ErrPatience, "", 1, 5 * time.Second},
		"an Acquire waits for its caller": {"n", []func(Call) (Claim, error){waitForAnHour}, false, time.Minute, 0, context.DeadlineExceeded, "", 1, time.Minute},
		"cut short between two attempts":  {"n", []func(Call) (Claim, error){failWith(errBusy)}, false, 1500 * time.Millisecond, 0, context.DeadlineExceeded, `acquire "n": context deadline exceeded: busy`, 2, 1500 * time.Millisecond},
		"closed":                          {"n", []func(Call) (Claim, error){waitForAnHour}, false, 0, 3 * time.Second, tenure.ErrClosed, tenure.ErrClosed.Error(), 1, 3 * time.Second},
		"closed after its caller went":    {"n", []func(Call) (Claim, error){waitAndCleanUp}, false, time.Second, 1500 * time.Millisecond, context.DeadlineExceeded, `acquire "n": context deadline exceeded`, 1, 2 * time.Second},
		"closed between two attempts":     {"n", []func(Call) (Claim, error){failWith(errBusy)}, false, 0, 1500 * time.Millisecond, tenure.ErrClosed, tenure.ErrClosed.Error(), 2, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.patience > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.patience)
					defer cancel()
				}
				calls := NewCalls(context.Background(), nil)
				if c.close > 0 {
					time.AfterFunc(c.close, calls.Close)
				}
				e, begun := &scripted{attempts: c.attempts, again: errBusy, try: c.try}, time.Now()
				x, err := Admit(ctx, calls, e, tenure.Claim{Name: c.claim}, c.try)
				if !errors.Is(err, c.want) || c.text != "" && err.Error() != c.text {
					t.Errorf("the error is %v, want %v %s", err, c.want, c.text)
				}
				if (err == nil) != (x != nil) || x != nil && x.Check() != nil {
					t.Errorf("beside the error %v it returns the claim %v", err, x)
				}
				if took := time.Since(begun); took != c.took || e.made != c.made {
					t.Errorf("it took %v and %d attempts, want %v and %d", took, e.made, c.took, c.made)
				}
				if len(e.odd) > 0 {
					t.Errorf("the engine gets %q", e.odd)
				}
				if c.try && e.last.ctx.Err() == nil {
					t.Error("the call has returned, and the clock of its patience runs on")
				}
				closed := false
				go func() { calls.Close(); closed = true }()
				if synctest.Wait(); !closed {
					t.Error("the call has returned, and Close waits for it")
					calls.Leave()
				}
			})
		})
	}
}

// TestAdmitAfterClose: a Leaser that was closed makes no attempt, and leaves nothing that Close waits for.
func TestAdmitAfterClose(t *testing.T) {
	calls := NewCalls(context.Background(), nil)
	calls.Close()
	e := &scripted{attempts: []func(Call) (Claim, error){until(60)}}
	defer func() {
		if broken := recover(); broken != nil {
			t.Errorf("a call that never began is ended: %v", broken)
		}
	}()
	if x, err := Admit(t.Context(), calls, e, tenure.Claim{Name: "n"}, false); x != nil || err != tenure.ErrClosed || e.made != 0 {
		t.Errorf("after Close: %v and %v, after %d attempts; want %v, and none", x, err, e.made, tenure.ErrClosed)
	}
}
