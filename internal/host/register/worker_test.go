package register

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// TestTheLastThatIsDone is a Leave; all else that waits when a store is closed ends, and is not begun.
func TestTheLastThatIsDone(t *testing.T) {
	for _, last := range []bool{false, true} {
		w := newWorker(NewMemory(header(1, 0)).Open())
		waits, leaves := &ends{}, &ends{}
		w.queue = []job{
			{machine.Access{ID: 1, Op: quorumregister.Query{}}, &client{name: "x", step: waits.step, began: make([]bool, 1)}},
			{machine.Access{ID: 2, Op: Leave{}}, &client{name: "x", step: leaves.step, began: make([]bool, 1)}},
		}
		served := w.take(last)
		if want := map[bool]int{false: 2, true: 1}[last]; len(served) != want || served[want-1].ID != 2 {
			t.Errorf("the last time, %v: %+v are done, want %d", last, served, want)
		}
		if told := len(waits.got) == 1 && errors.Is(waits.got[0].Err, errClosed); told != last || len(leaves.got) > 0 {
			t.Errorf("the last time, %v: %+v and %+v are told", last, waits.got, leaves.got)
		}
	}
}

// stubborn is a store whose Close hangs until it is healed, and fails then.
type stubborn struct {
	Store
	healed chan struct{}
	err    error
}

func (s stubborn) Close() error {
	<-s.healed
	return s.err
}

// TestWhatHangsTwice: a store that hangs, and then does so again when it is closed, is
// given a second each time. The error of its Close is reported.
func TestWhatHangsTwice(t *testing.T) {
	why := errors.New("unplugged")
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &Faults{Store: NewMemory(header(1, 0)).Open()}
			store := stubborn{f, make(chan struct{}), why}
			s, err := NewSet([]Store{store})
			if err != nil {
				t.Fatal(err)
			}
			f.Hang()
			access, _ := s.Serve("x", machine.ID{1}, func(machine.Accessed) {})
			access([]machine.Access{{ID: 1, Op: quorumregister.Query{}}})
			synctest.Wait()
			want, wait := why, closeWait
			if again {
				want, wait = errHangs, 2*closeWait
			} else {
				close(store.healed)
			}
			began, closed := time.Now(), make(chan error, 1)
			go func() { closed <- s.Close() }()
			select {
			case err := <-closed:
				if !errors.Is(err, want) || time.Since(began) != wait {
					t.Errorf("closed with %v after %v, want %v after %v", err, time.Since(began), want, wait)
				}
			case <-time.After(time.Minute):
				t.Error("Close hangs with its store")
			}
			f.Heal()
			if again {
				close(store.healed)
			}
		})
	}
}

// TestASetThatIsClosed ends the accesses under way and those that wait for their turn.
func TestASetThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores, faults := memories(1)
		s := newSet(t, stores)
		x := s.Register("x")
		defer x.Close()
		faults[0].Hang()
		ended := make(chan error, 2)
		for range 2 {
			go func() { _, err := x.Read(context.WithoutCancel(t.Context())); ended <- err }()
		}
		synctest.Wait()
		s.Close()
		for range 2 {
			select {
			case err := <-ended:
				if !errors.Is(err, errClosed) {
					t.Errorf("ended with %v, want %v", err, errClosed)
				}
			case <-time.After(time.Minute):
				t.Error("the set is closed, and an operation of its register still waits")
			}
		}
		faults[0].Heal()
	})
}

// TestACellGoesByTheClockOfItsSet: the times of its operations are read there.
func TestACellGoesByTheClockOfItsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores, _ := memories(1)
		reading := machine.Mono(1)
		s, err := NewSetBy(func() machine.Mono { reading = reading.Add(time.Minute); return reading }, stores)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		x := s.Register("x")
		if _, err := x.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		x.Close()
		if d := s.Delays().Bound(); d <= s.Header().Delay {
			t.Errorf("an operation took minutes by the clock of the set, and δ is %v", d)
		}
	})
}

// TestABoundThatIsKept: an operation that takes as long as it allows for does not raise it.
func TestABoundThatIsKept(t *testing.T) {
	d := newDelays(time.Second)
	if d.Add(time.Second); d.Bound() != time.Second {
		t.Errorf("%v after an operation of a second, want it kept", d.Bound())
	}
	if d.Add(time.Second + 1); d.Bound() != 2*time.Second {
		t.Errorf("%v after an operation of more than a second, want it doubled", d.Bound())
	}
}

// A caller that asks a worker that has ended is told so, once, and waits for nothing.
func TestAWorkerThatHasEnded(t *testing.T) {
	w := newWorker(NewMemory(header(1, 0)).Open())
	w.take(true)
	asks := &ends{}
	w.add(job{machine.Access{ID: 7, Op: quorumregister.Query{}}, &client{name: "x", step: asks.step, began: make([]bool, 1)}})
	if len(asks.got) != 1 || asks.got[0].ID != 7 || !errors.Is(asks.got[0].Err, errClosed) {
		t.Errorf("told %+v, want ErrClosed once", asks.got)
	}
	if len(w.queue) != 0 || len(w.wake) != 0 {
		t.Errorf("%d wait for a worker that has ended, which is woken %d times", len(w.queue), len(w.wake))
	}
}
