package driver

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/machine"
)

// alone starts a driver whose stepping goroutine may write.
func alone(t *testing.T, m machine.Machine, w *world) *Driver {
	return startWith(t, m, w, Config{Alone: true})
}

func forcedRecord(name string) effects {
	return effects{Persists: []machine.Persist{{Record: name, Then: []machine.Envelope{env(2, "after "+name)}}}}
}

// TestWhoStepsWritesWhenAlone sees it by the next input, which has to wait meanwhile.
func TestWhoStepsWritesWhenAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{hold: make(chan struct{})}
		d := alone(t, m, w)
		d.Step(forcedRecord("a"))
		synctest.Wait()
		d.Step("next")
		synctest.Wait()
		if steps, _, _ := m.saw(); slices.Contains(steps, any("next")) || len(w.sent) != 0 {
			t.Errorf("during the write stepped %v, sent %v, want nothing", steps, w.sent)
		}
		close(w.hold)
		synctest.Wait()
		if steps, _, _ := m.saw(); !slices.Contains(steps, any("next")) || len(w.sent) != 1 {
			t.Errorf("after the write stepped %v, sent %v, want both", steps, w.sent)
		}
	})
}

// TestAnotherWritesUnderLoad has a turn of two inputs, and then the machine goes on while
// its records are written, in the order of turns.
func TestAnotherWritesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{hold: make(chan struct{})}
		d := alone(t, m, w)
		synctest.Wait()
		turn := make(chan struct{})
		d.Step(func() any { <-turn; return nil })
		synctest.Wait()
		d.Step(forcedRecord("a"))
		d.Step("beside it")
		close(turn)
		synctest.Wait()
		d.Step(forcedRecord("b"))
		synctest.Wait()
		d.Step("next")
		synctest.Wait()
		if steps, _, _ := m.saw(); !slices.Contains(steps, any("next")) || len(w.written) != 0 {
			t.Errorf("during the write stepped %v, wrote %v", steps, w.written)
		}
		close(w.hold)
		synctest.Wait()
		if want := []any{"a", "b"}; !slices.Equal(w.written, want) || len(w.sent) != 2 {
			t.Errorf("wrote %v, sent %v, want %v and what waited for it", w.written, w.sent, want)
		}
	})
}

func TestAFailedWriteOfWhoStepsEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{broken: errors.New("broken")}
		d := alone(t, &recorder{}, w)
		d.Step(forcedRecord("a"))
		d.Step(forcedRecord("b"))
		synctest.Wait()
		if len(w.failed) != 1 || len(w.sent) != 0 || len(w.forced) != 1 {
			t.Errorf("failed %v, sent %v, %d writes; want one failure of one write", w.failed, w.sent, len(w.forced))
		}
	})
}

// What lingers comes before what the goroutine that steps writes itself.
func TestWhoStepsWritesWhatLingersFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		d := startWith(t, &recorder{}, w, Config{Alone: true, Linger: time.Second})
		d.Step(effects{Persists: []machine.Persist{{Record: "a"}}})
		synctest.Wait()
		d.Step(forcedRecord("b"))
		synctest.Wait()
		if want := []any{"a", "b"}; !slices.Equal(w.written, want) || len(w.sent) != 1 {
			t.Errorf("wrote %v, sent %v, want %v and what waited for it", w.written, w.sent, want)
		}
	})
}

// Nothing is written after a write that has failed, and nothing leaves that waited for it.
func TestNothingIsWrittenAfterAFailure(t *testing.T) {
	for _, c := range []Config{{Linger: time.Second}, {Alone: true, Linger: time.Second}, {Alone: true}} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{hold: make(chan struct{}), broken: errors.New("broken")}
			turn := make(chan struct{})
			d := startWith(t, &recorder{}, w, c)
			d.Step(func() any { <-turn; return nil })
			synctest.Wait()
			d.Step(forcedRecord("a")) // in a turn of two: the other goroutine writes
			d.Step("beside it")
			close(turn)
			synctest.Wait()
			d.Step(forcedRecord("b"))
			synctest.Wait()
			close(w.hold)
			synctest.Wait()
			d.Stop()
			if len(w.forced) != 1 || len(w.sent) != 0 || len(w.failed) != 1 {
				t.Errorf("%+v: %d writes, sent %v, failed %v; want one write that failed", c, len(w.forced), w.sent, w.failed)
			}
		})
	}
}
