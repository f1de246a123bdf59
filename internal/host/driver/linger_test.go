package driver

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// lazy starts a driver whose unforced records may wait for a second.
func lazy(t *testing.T, m machine.Machine[any, any], w *world) *Driver[any, any] {
	return startWith(t, m, w, Config[any, any]{Linger: time.Second})
}

func TestWhatNothingWaitsForIsWrittenWithWhatIsForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		d := lazy(t, &recorder{}, w)
		d.Step(effects{Persists: []machine.Persist{{Record: "a"}}})
		synctest.Wait()
		if len(w.written) != 0 {
			t.Errorf("wrote %v at once", w.written)
		}
		d.Step(effects{Persists: []machine.Persist{{Record: "b", Then: []machine.Envelope{env(2, "after b")}}}})
		synctest.Wait()
		if !slices.Equal(w.written, []any{"a", "b"}) || !slices.Equal(w.forced, []bool{true}) || len(w.sent) != 1 {
			t.Errorf("wrote %v, forced %v, sent %v, want both at once", w.written, w.forced, w.sent)
		}
	})
}

func TestWhatLingersIsWrittenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		d := lazy(t, &recorder{}, w)
		for i := range 2 { // the second shows that the timer is set again
			d.Step(effects{Persists: []machine.Persist{{Record: i}}})
			time.Sleep(time.Second - time.Nanosecond)
			synctest.Wait()
			w.mu.Lock()
			if len(w.written) != i {
				t.Errorf("wrote %v, and the last too early", w.written)
			}
			w.mu.Unlock()
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if len(w.written) != i+1 || w.forced[i] {
				t.Errorf("wrote %v, forced %v, want %d unforced writes", w.written, w.forced, i+1)
			}
		}
	})
}

// Records that come while one lingers do not put that off.
func TestWhatLingersIsNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		d := lazy(t, &recorder{}, w)
		for i := range 3 { // the timer's first time, and later ones
			d.Step(effects{Persists: []machine.Persist{{Record: "a"}}})
			time.Sleep(time.Second / 2)
			d.Step(effects{Persists: []machine.Persist{{Record: "b"}}})
			time.Sleep(time.Second / 2)
			synctest.Wait()
			if len(w.written) != 2*i+2 || len(w.forced) != i+1 {
				t.Errorf("wrote %v in %d writes after a second, want what had lingered for it and what came meanwhile", w.written, len(w.forced))
			}
		}
	})
}

// A write that failed is the last one, also if nothing waited for it.
func TestNothingIsWrittenAfterALazyWriteFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{hold: make(chan struct{}), broken: errors.New("broken")}
		d := lazy(t, &recorder{}, w)
		d.Step(effects{Persists: []machine.Persist{{Record: "a"}}})
		time.Sleep(time.Second)
		synctest.Wait()
		d.Step(effects{Persists: []machine.Persist{{Record: "b"}}}) // while a is written
		synctest.Wait()
		close(w.hold)
		synctest.Wait()
		d.Stop()
		if len(w.forced) != 1 || len(w.failed) != 1 {
			t.Errorf("%d writes, failed %v; want one write, which failed", len(w.forced), w.failed)
		}
	})
}

func TestWhatLingersIsWrittenAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		d := lazy(t, &recorder{}, w)
		d.Step(effects{Persists: []machine.Persist{{Record: "a"}}})
		synctest.Wait()
		d.Stop()
		if !slices.Equal(w.written, []any{"a"}) {
			t.Errorf("wrote %v, want what lingered", w.written)
		}
	})
}

// TestALookCostsNoClock has a turn of two inputs, of which neither is younger than the
// turn.
func TestALookCostsNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recorder{}
		d := start(t, m, &world{}, 0)
		d.Look(optional(func() any { time.Sleep(time.Second); return "looked" }))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		steps, times, _ := m.saw()
		if i := slices.Index(steps, any("looked")); i < 0 || times[i] != 1 {
			t.Errorf("stepped %v at %v, want it at the time of its turn", steps, times)
		}
	})
}
