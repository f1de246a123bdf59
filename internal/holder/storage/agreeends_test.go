package storage

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// TestWhatIsUnavailable: an access that failed may succeed later, unless its error is hopeless. The last error of a
// caller that has left proves nothing.
func TestWhatIsUnavailable(t *testing.T) {
	l, _ := alone(1)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want bool
	}{
		{t.Context(), nil, false}, {gone, nil, false},
		{t.Context(), register.ErrForeign, false}, {gone, register.ErrForeign, true},
		{t.Context(), register.ErrInjected, true}, {gone, register.ErrInjected, true},
	} {
		if err := l.unavailable(tt.ctx, tt.err); errors.Is(err, tenure.ErrUnavailable) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%v, of a caller that has left: %v: got %v, want it unavailable: %v", tt.err, tt.ctx.Err() != nil, err, tt.want)
		}
	}
}

// TestHowOftenAProposerGlances: fifty times a term, and no more often than four accesses take.
func TestHowOftenAProposerGlances(t *testing.T) {
	l, _ := alone(1)
	for term, want := range map[time.Duration]time.Duration{100 * stateDelay: 4 * stateDelay, 1000 * stateDelay: 20 * stateDelay} {
		if l.header.Term = term; l.glance() != want {
			t.Errorf("with a term of %v a proposer glances each %v, want %v", term, l.glance(), want)
		}
	}
}

// TestTheFirstFailureCounts: a proposer that fails twice goes on, and its caller gets the first error.
func TestTheFirstFailureCounts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := &proposer{failed: make(chan error, 1)}
		over := false
		go func() {
			a.fail(register.ErrForeign)
			a.fail(register.ErrNewer)
			over = true
		}()
		if synctest.Wait(); !over {
			t.Error("a proposer that fails again waits for its caller")
		}
		if err := <-a.failed; err != register.ErrForeign {
			t.Errorf("the caller gets %v, want the first error", err)
		}
		synctest.Wait()
	})
}

// TestErrorsOfAnAgreement: each names the agreement and says what failed.
func TestErrorsOfAnAgreement(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		clk := clock.NewSimulated(machine.Mono(time.Hour))
		memory := register.NewMemory(register.Header{Set: machine.ID{1}, Of: 1, Term: stateTerm, Delay: stateDelay / 10, Drift: 1000})
		writes := atomic.Int64{}
		faults := &register.Faults{Store: memory.Open(), Plan: func(op register.Op) register.Fault {
			if _, enters := op.Op.(register.Enter); enters {
				writes.Add(1)
			}
			return register.None
		}}
		set, err := register.NewSetBy(clk.Now, []register.Store{faults})
		if err != nil {
			t.Fatal(err)
		}
		l := New(set, Options{Clock: clk})
		defer l.Close()
		cell := set.Register(agreement("taken"))
		if _, err := cell.Write(t.Context(), []byte("mine")); err != nil {
			t.Fatal(err)
		}
		cell.Close()
		before := writes.Load()
		_, err = l.Agree(t.Context(), "taken", []byte("x"))
		if want := `look for the agreement on "taken": `; !errors.Is(err, disklease.ErrBlock) || !strings.HasPrefix(err.Error(), want) || writes.Load() > before {
			t.Errorf("a register that is no agreement: got %v, and %d claims contended; want %s…, and none", err, writes.Load()-before, want)
		}
		faults.Hang()
		why := errors.New("the operator has left")
		a := l.startProposer("x", []byte("x"))
		err = a.gaveUp(why)
		if want := `no agreement on "x" yet, ask again: `; !errors.Is(err, why) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("given up: got %v, want %s…", err, want)
		}
		a.leave()
		a.driver.Stop()
		faults.Heal()
	})
}

// TestRecordsThatCannotBeSet: a record whose register no store can have is not tried again, and a caller that leaves
// while stores fail hears its own reason. Each record has the Seq after the one that was read.
func TestRecordsThatCannotBeSet(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		clk := clock.NewSimulated(machine.Mono(time.Hour))
		memory := register.NewMemory(register.Header{Set: machine.ID{1}, Of: 1, Term: stateTerm, Delay: stateDelay / 10, Drift: 1000})
		var fail atomic.Bool
		faults := &register.Faults{Store: memory.Open(), Plan: func(op register.Op) register.Fault {
			if fail.Load() && op.Name == recordName("x") {
				return register.LostBefore
			}
			return register.None
		}}
		set, err := register.NewSetBy(clk.Now, []register.Store{faults})
		if err != nil {
			t.Fatal(err)
		}
		l := New(set, Options{Clock: clk})
		defer l.Close()
		long, err := l.TryAcquire(t.Context(), tenure.Claim{Name: strings.Repeat("x", 511)})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		short, done := context.WithTimeout(t.Context(), stateTerm/2)
		defer done()
		if err := l.SetRecord(short, long, []byte("r")); !errors.Is(err, register.ErrTooLong) || time.Since(began) > stateTerm/10 {
			t.Errorf("the record of a name that is too long for it: got %v after %v, want %v at once", err, time.Since(began), register.ErrTooLong)
		}
		x, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		for n := range uint64(2) {
			if err := l.SetRecord(t.Context(), x, []byte("r")); err != nil {
				t.Fatal(err)
			}
			v, err := l.read(t.Context(), "x", recordName("x"))
			if err != nil || v.Version.Seq != n+1 {
				t.Errorf("record %d has Seq %d, %v; want %d", n+1, v.Version.Seq, err, n+1)
			}
		}
		fail.Store(true)
		why := errors.New("the operator has left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), stateTerm/10, why)
		defer cancel()
		if err := l.SetRecord(ctx, x, []byte("r")); !errors.Is(err, why) || !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("its caller has left while stores fail: got %v, want %v and %v", err, tenure.ErrUnavailable, why)
		}
		if c, err := (engine{l, nil}).Complete(tenure.Claim{Name: "x"}); err != nil || c.TTL != stateTerm {
			t.Errorf("a claim without a TTL gets %v, %v; want %v, the term of the stores", c.TTL, err, stateTerm)
		}
	})
}
