package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/leasetest"
)

// Each reason not to run the command has its exit code. That it was done is said to people only.
func TestWhyACommandIsNotRun(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code int
		says string
	}{
		{tenure.ErrDone, cli.ExitDone, ""},
		{tenure.ErrClock, cli.ExitConfig, "clocks disagree"},
		{tenure.ErrLost, cli.ExitLost, "lease lost"},
		{tenure.ErrUnavailable, cli.ExitUnavailable, "cannot be reached"},
		{tenure.ErrClaim, cli.ExitUsage, "bad claim"},
		{cli.Exit(143, errors.New("stopped waiting")), 143, "stopped waiting"},
	} {
		for _, people := range []bool{false, true} {
			var words bytes.Buffer
			e := &every{}
			if people {
				e.words = &words
			}
			ten := fakeTenancy("true")
			var got error
			list := told(t, ten, func() { got = e.refusal(ten, fmt.Errorf("nightly: %w", tt.err)) })
			wantExit(t, got, tt.code)
			if says := got.Error(); tt.says != "" && (!strings.HasPrefix(says, "nightly: ") || !strings.Contains(says, tt.says)) {
				t.Errorf("%v: the error is %q, want nightly, and %q", tt.err, says, tt.says)
			}
			if done := errors.Is(tt.err, tenure.ErrDone); len(list) > 1 || (len(list) == 1) != done || done && (list[0].Event != "done" || list[0].Name != "fake" || list[0].Why != "nightly: "+tt.err.Error()) {
				t.Errorf("%v: the events are %+v, want one if it is done, of fake and nightly", tt.err, list)
			}
			want := ""
			if people && errors.Is(tt.err, tenure.ErrDone) {
				want = "tenure: nightly: done in this period\n"
			}
			if words.String() != want {
				t.Errorf("%v, people look on: %v: said %q, want %q", tt.err, people, words.String(), want)
			}
		}
	}
}

// A signal ends a look at the record. One that comes too late for that is for the command.
func TestSignalsBeforeTheCommand(t *testing.T) {
	ten := &tenancy{claim: tenure.Claim{Name: "n"}, signals: make(chan os.Signal, 4)}
	ten.signals <- syscall.SIGTERM
	err := ten.calmly(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	wantExit(t, err, cli.ExitSignal+int(syscall.SIGTERM))
	ten.caught = nil
	ten.signals <- syscall.SIGHUP
	if err := ten.calmly(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil }); err != nil {
		t.Errorf("a signal that comes too late ends the look: %v", err)
	}
	select {
	case sig := <-ten.signals:
		if sig != syscall.SIGHUP {
			t.Errorf("the command gets %v, want %v", sig, syscall.SIGHUP)
		}
	default:
		t.Error("a signal that comes too late for the look is lost")
	}
}

// The end of a command that lost its lease is not recorded, nor is its failure said twice.
func TestEndWithoutTheLease(t *testing.T) {
	l := leasetest.NewMemory().Open()
	defer l.Close()
	e := &every{period: 1, work: tenure.Periodic{Leaser: l, Claim: tenure.Claim{Name: "n"}, Every: 1}}
	for _, released := range []bool{true, false} {
		lease, err := l.Acquire(t.Context(), e.work.Claim)
		if err != nil {
			t.Fatal(err)
		}
		if e.run, err = e.work.Begin(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		if released {
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.end(lease, 1, nil); err != nil {
			t.Errorf("the lease was lost before the end: %v: end returns %v", released, err)
		}
		if r, err := e.work.Last(t.Context()); err != nil || r.Ended.IsZero() != released || r.Failed == released {
			t.Errorf("the lease was lost before the end: %v: the last run is %+v, %v", released, r, err)
		}
	}
}

// silentRecorder is a Leaser whose store does not answer.
type silentRecorder struct{ fakeLeaser }

func (silentRecorder) Record(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", tenure.ErrUnavailable, ctx.Err())
}

func (silentRecorder) SetRecord(context.Context, tenure.Lease, []byte) error { return nil }

// unrecording is a Leaser whose store takes no record.
type unrecording struct{ tenure.Leaser }

func (unrecording) Record(context.Context, string) ([]byte, error) { return nil, nil }
func (unrecording) SetRecord(context.Context, tenure.Lease, []byte) error {
	return fmt.Errorf("%w: odd", tenure.ErrUnavailable)
}

// A run whose begin cannot be recorded does not begin, and gives its lease to the next host at once.
func TestARunThatDoesNotBeginGivesTheLeaseBack(t *testing.T) {
	memory := leasetest.NewMemory()
	here, next := memory.Open(), memory.Open()
	defer here.Close()
	defer next.Close()
	ten := fakeTenancy("true")
	got, err := (&every{period: time.Hour}).acquire(t.Context(), ten, unrecording{here}, wait{})
	if wantExit(t, err, cli.ExitUnavailable); got != nil {
		t.Errorf("a run that did not begin has the lease %v", got)
	}
	if _, err := next.TryAcquire(t.Context(), ten.claim); err != nil {
		t.Errorf("a run did not begin, and the next host gets %v, want the lease", err)
	}
}

// A run that failed counts, unless such runs are to be repeated.
func TestAFailedRunIsRepeatedIfThatIsMeant(t *testing.T) {
	for retry, want := range map[bool]string{false: "exit code 79", true: "<nil>"} {
		l := leasetest.NewMemory().Open()
		e := &every{period: time.Hour, retry: retry}
		lease, err := e.acquire(t.Context(), fakeTenancy("true"), l, wait{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(e.end(lease, 3, nil), lease.Release(t.Context())); err != nil {
			t.Fatal(err)
		}
		_, err = (&every{period: time.Hour, retry: retry}).acquire(t.Context(), fakeTenancy("true"), l, wait{})
		if fmt.Sprint(err) != want {
			t.Errorf("a run has failed, and such are repeated: %v: the next ends with %v, want %s", retry, err, want)
		}
		l.Close()
	}
}

// A run whose command cannot be found is none: the next host may have the command, and runs it.
func TestARunWithoutItsCommandDoesNotCount(t *testing.T) {
	l := leasetest.NewMemory().Open()
	defer l.Close()
	for _, argv := range [][]string{{"/no/such/command"}, {"/no/such/command", "true"}, {"/no/such/command", "/nor/this"}} {
		e := &every{period: time.Hour}
		lease, err := e.acquire(t.Context(), fakeTenancy(argv...), l, wait{})
		if wantExit(t, err, cli.ExitNotFound); lease != nil {
			t.Errorf("%q cannot be run, and has a lease", argv)
		}
		if r, err := e.work.Last(t.Context()); err != nil || !r.Started.IsZero() {
			t.Errorf("%q cannot be run, and the last run is %+v, %v", argv, r, err)
		}
	}
}

// With --wait 0 a store that does not answer is not waited for.
func TestTriedOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ten := fakeTenancy("true")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_, err := (&every{period: 1}).acquire(ctx, ten, silentRecorder{}, wait{0, true})
		wantExit(t, err, cli.ExitUnavailable)
		if took := time.Since(began); took != tryLimit {
			t.Errorf("--wait 0 waits %v for the record, want %v", took, tryLimit)
		}
	})
}
