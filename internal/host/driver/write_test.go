package driver

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

func forcedRecord(name string) effects {
	return effects{Persists: []machine.Persist{{Record: name, Then: []machine.Envelope{env(2, "after "+name)}}}}
}

// goroutine names the one that calls it.
func goroutine() string {
	b := make([]byte, 64)
	return strings.Fields(string(b[:runtime.Stack(b, false)]))[1]
}

// TestNobodyIsWokenToWrite has one input at a time: the goroutine that steps it writes,
// too, and steps the machine's own envelope.
func TestNobodyIsWokenToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did []string
		d := Start(Config[any, any]{
			Machine: &recorder{}, Now: func() machine.Now { return machine.Now{Mono: 1} }, Send: func([]machine.Envelope) {},
			Persist: func([]any, bool) error { did = append(did, goroutine()); return nil },
			Outcome: func([]any) { did = append(did, goroutine()) },
		})
		defer d.Stop()
		synctest.Wait() // until both wait: a goroutine that begins late may find the first input
		for i := range 10 {
			did = nil
			own := env(1, "own")
			own.Body = effects{Outcomes: []any{i}}
			d.Step(effects{Outcomes: []any{i}, Persists: []machine.Persist{{Record: i, Then: []machine.Envelope{own}}}})
			synctest.Wait()
			if len(did) != 3 || did[0] != did[1] || did[1] != did[2] {
				t.Fatalf("stepped, written and stepped by goroutines %v, want one", did)
			}
		}
	})
}

// TestTheOtherStepsDuringAWrite has the machine go on while its records are written, in the
// order of turns.
func TestTheOtherStepsDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{hold: make(chan struct{})}
		d := start(t, m, w, 0)
		for _, name := range []string{"a", "b", "c"} {
			d.Step(forcedRecord(name))
			synctest.Wait()
		}
		d.Step("next")
		synctest.Wait()
		if steps, _, _ := m.saw(); !slices.Contains(steps, any("next")) || len(w.written) != 0 || len(w.sent) != 0 {
			t.Errorf("during the write stepped %v, wrote %v, sent %v", steps, w.written, w.sent)
		}
		close(w.hold)
		synctest.Wait()
		if want := []any{"a", "b", "c"}; !slices.Equal(w.written, want) || len(w.sent) != 3 || len(w.forced) != 2 {
			t.Errorf("wrote %v in %d writes, sent %v, want %v in two, and what waited for it", w.written, len(w.forced), w.sent, want)
		}
	})
}

// TestWhatWasSteppedDuringAWriteIsWrittenNext has b stepped while a is written. Then the
// owner takes long over the outcome that waited for a: b does not wait for the owner, nor
// the owner for b.
func TestWhatWasSteppedDuringAWriteIsWrittenNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, told []any
		durable, heard := make(chan struct{}), make(chan struct{})
		d := Start(Config[any, any]{
			Machine: &recorder{}, Now: func() machine.Now { return machine.Now{Mono: 1} }, Send: func([]machine.Envelope) {},
			Persist: func(records []any, _ bool) error { begun = append(begun, records...); <-durable; return nil },
			Outcome: func(news []any) { told = append(told, news...); <-heard },
		})
		defer d.Stop()
		own := env(1, "own")
		own.Body = effects{Outcomes: []any{"a is durable"}}
		d.Step(effects{Persists: []machine.Persist{{Record: "a", Then: []machine.Envelope{own}}}})
		synctest.Wait()
		d.Step(forcedRecord("b"))
		synctest.Wait()
		durable <- struct{}{}
		synctest.Wait()
		if want := []any{"a", "b"}; !slices.Equal(begun, want) || len(told) != 1 {
			t.Errorf("began to write %v, and told %v; want %v, and that a is durable", begun, told, want)
		}
		close(durable)
		close(heard)
	})
}

// TestWhatWaitedLeavesInTheOrderOfTurns has sending stand still: nobody writes, or sends what
// waited for a later write, before that is through.
func TestWhatWaitedLeavesInTheOrderOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did []any
		sending := make(chan struct{})
		d := Start(Config[any, any]{
			Machine: &recorder{}, Now: func() machine.Now { return machine.Now{Mono: 1} }, Outcome: func([]any) {},
			Persist: func(records []any, _ bool) error { did = append(did, records...); return nil },
			Send: func(envs []machine.Envelope) {
				if envs[0].Body == "after a" {
					<-sending
				}
				did = append(did, envs[0].Body)
			},
		})
		defer d.Stop()
		d.Step(forcedRecord("a"))
		synctest.Wait()
		d.Step(forcedRecord("b"))
		synctest.Wait()
		if want := []any{"a"}; !slices.Equal(did, want) {
			t.Errorf("while what waited for a is being sent, %v was written and sent; want %v", did, want)
		}
		close(sending)
		synctest.Wait()
		if want := []any{"a", "after a", "b", "after b"}; !slices.Equal(did, want) {
			t.Errorf("written and sent: %v, want %v", did, want)
		}
	})
}

// Of what waited for a record the machine's own envelopes are stepped, and all others are sent.
func TestWhatWaitedIsSentOrStepped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{}
		d := start(t, m, w, 0)
		synctest.Wait()
		before, _, _ := m.saw()
		record := machine.Persist{Record: "r", Then: []machine.Envelope{env(2, "a"), env(1, "b"), env(3, "c"), env(1, "d")}}
		input := effects{Persists: []machine.Persist{record}}
		d.Look(optional(func() any { return input }))
		synctest.Wait()
		if want := []machine.Envelope{env(2, "a"), env(3, "c")}; !slices.Equal(w.sent, want) {
			t.Errorf("sent %v, want %v", w.sent, want)
		}
		steps, _, _ := m.saw()
		if own := steps[min(len(before)+1, len(steps)):]; !slices.Equal(own, []any{env(1, "b"), env(1, "d")}) {
			t.Errorf("stepped %v of what waited, want the machine's own two envelopes", own)
		}
	})
}

// An alarm rings while records are written, too.
func TestTheAlarmRingsDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{hold: make(chan struct{})}
		d := start(t, m, w, 0)
		at := machine.Mono(time.Hour)
		input := forcedRecord("a")
		input.Alarm = at
		d.Step(input)
		synctest.Wait()
		before, _, _ := m.saw()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if steps, times, _ := m.saw(); len(steps) != len(before)+1 || times[len(before)] < at {
			t.Errorf("stepped %v during the write, want a Wake", steps[len(before):])
		}
		close(w.hold)
	})
}

func TestAFailedWriteOfWhoStepsEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{broken: errors.New("broken")}
		d := start(t, &recorder{}, w, 0)
		d.Step(forcedRecord("a"))
		d.Step(forcedRecord("b"))
		synctest.Wait()
		if len(w.failed) != 1 || len(w.sent) != 0 || len(w.forced) != 1 {
			t.Errorf("failed %v, sent %v, %d writes; want one failure of one write", w.failed, w.sent, len(w.forced))
		}
	})
}

// Lingering records come before those that the goroutine that steps writes itself.
func TestWhoStepsWritesWhatLingersFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		d := startWith(t, &recorder{}, w, Config[any, any]{Linger: time.Second})
		d.Step(effects{Persists: []machine.Persist{{Record: "a"}}})
		synctest.Wait()
		d.Step(forcedRecord("b"))
		synctest.Wait()
		if want := []any{"a", "b"}; !slices.Equal(w.written, want) || len(w.sent) != 1 {
			t.Errorf("wrote %v, sent %v, want %v and what waited for it", w.written, w.sent, want)
		}
	})
}

// An alarm that rings during a turn does not wait for the write of that turn either.
func TestAnAlarmDuringATurnDoesNotWaitForItsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{hold: make(chan struct{})}
		d := start(t, m, w, 0)
		at := machine.Mono(500 * time.Millisecond)
		d.Step(effects{Alarm: at})
		synctest.Wait()
		input := forcedRecord("a")
		input.Alarm = at
		d.Look(optional(func() any { time.Sleep(time.Second); return input }))
		time.Sleep(time.Second)
		synctest.Wait()
		steps, times, _ := m.saw()
		if last := len(steps) - 1; steps[last] != any(wake{}) || times[last] != machine.Mono(time.Second)+1 {
			t.Errorf("last stepped %v at %v, want a Wake as soon as the turn has ended", steps[last], times[last])
		}
		close(w.hold)
	})
}

// Nothing is written after a write that has failed, and nothing leaves that waited for it.
func TestNothingIsWrittenAfterAFailure(t *testing.T) {
	for _, c := range []Config[any, any]{{Linger: time.Second}, {}} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{hold: make(chan struct{}), broken: errors.New("broken")}
			d := startWith(t, &recorder{}, w, c)
			d.Step(forcedRecord("a"))
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

// Inputs that come during a turn are stepped while the records of that turn are written.
func TestWhatComesDuringATurnDoesNotWaitForItsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{hold: make(chan struct{})}
		d := start(t, m, w, 0)
		synctest.Wait()
		d.Gather(optional(func() any {
			d.Step("next")
			a := forcedRecord("a")
			a.Alarm = machine.Mono(time.Hour) // nothing but the input is a reason to step
			return a
		}))
		synctest.Wait()
		if steps, _, _ := m.saw(); !slices.Contains(steps, any("next")) || len(w.written) != 0 {
			t.Errorf("stepped %v, wrote %v: what came during the turn waits for the disk", steps, w.written)
		}
		close(w.hold)
	})
}

// The owner may take long over a failure. Nothing is stepped meanwhile.
func TestNothingIsSteppedWhileTheOwnerHearsOfAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, heard := &recorder{}, make(chan struct{})
		d := Start(Config[any, any]{
			Machine: m, Now: func() machine.Now { return machine.Now{Mono: 1} }, Send: func([]machine.Envelope) {},
			Persist: func([]any, bool) error { return errors.New("broken") }, Outcome: func([]any) {},
			Fail: func(error) { <-heard },
		})
		d.Step(forcedRecord("a"))
		synctest.Wait()
		d.Step("late")
		synctest.Wait()
		if steps, _, _ := m.saw(); slices.Contains(steps, any("late")) {
			t.Error("stepped while the owner hears of the failure")
		}
		close(heard)
		d.Stop()
	})
}

// The owner hears of one failure, though a write fails and the clock goes back.
func TestTheOwnerHearsOfOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{hold: make(chan struct{}), broken: errors.New("broken")}
		d := start(t, &recorder{}, w, 0)
		d.Step(forcedRecord("a"))
		synctest.Wait()
		release := make(chan struct{})
		d.Gather(optional(func() any { <-release; return nil }))
		synctest.Wait()
		close(w.hold)
		synctest.Wait()
		w.setBack()
		close(release)
		d.Stop()
		if len(w.failed) != 1 || w.failed[0] != w.broken {
			t.Errorf("failed with %v, want the first failure alone", w.failed)
		}
	})
}

// One record that something waits for has all of a turn written, wherever it stands among them.
func TestOneForcedRecordForcesItsTurn(t *testing.T) {
	lazy := machine.Persist{Record: "lazy"}
	forced := machine.Persist{Record: "forced", Then: []machine.Envelope{env(2, "then")}}
	for _, tt := range []struct {
		ps     []machine.Persist
		writes []bool // and whether each is forced
	}{
		{[]machine.Persist{lazy, lazy}, nil},
		{[]machine.Persist{forced}, []bool{true}},
		{[]machine.Persist{forced, lazy}, []bool{true}},
		{[]machine.Persist{lazy, forced}, []bool{true}},
		{[]machine.Persist{lazy, forced, lazy}, []bool{true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{}
			d := startWith(t, &recorder{}, w, Config[any, any]{Linger: time.Second})
			d.Step(effects{Persists: slices.Clone(tt.ps)})
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if !slices.Equal(w.forced, tt.writes) || len(tt.writes) > 0 && len(w.written) != len(tt.ps) {
				t.Errorf("of %v wrote %v at once, forced: %v; want %v", tt.ps, w.written, w.forced, tt.writes)
			}
		})
	}
}

// A record that something waits for is written though there is always more to step.
func TestWhatIsForcedIsWrittenBesideAllElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, took, written := time.Now(), time.Duration(0), make(chan struct{})
		var d *Driver[any, any]
		d = Start(Config[any, any]{
			Machine: &recorder{}, Now: func() machine.Now { return machine.Now{Mono: 1} }, Send: func([]machine.Envelope) {},
			Persist: func([]any, bool) error { took = time.Since(begun); close(written); return nil },
			Outcome: func(news []any) {
				if news[0] == "first" {
					d.Step(effects{Outcomes: []any{"more"}})
					return
				}
				select {
				case <-written:
				case <-time.After(time.Hour):
				}
			},
		})
		defer d.Stop()
		synctest.Wait() // the first alarm wakes no goroutine that could write
		input := forcedRecord("a")
		input.Outcomes = []any{"first"}
		d.Step(input)
		<-written
		if took != 0 {
			t.Errorf("a record that something waits for is written after %v, when there is nothing to step", took)
		}
	})
}

// A machine that was halted in the middle of a turn is not stepped again, though its alarm was due
// by then.
func TestAnAlarmThatWasDueAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, began := &recorder{}, time.Now()
		var d *Driver[any, any]
		d = Start(Config[any, any]{
			Machine: m, Now: func() machine.Now { return machine.Now{Mono: machine.Mono(time.Since(began)) + 1} },
			Persist: func([]any, bool) error { return nil }, // so that another goroutine hears the timer
			Outcome: func([]any) { time.Sleep(time.Hour); d.Halt() },
		})
		synctest.Wait()
		before, _, _ := m.saw()
		d.Step(effects{Alarm: machine.Mono(time.Minute), Outcomes: []any{"news"}})
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if after, _, _ := m.saw(); len(after) != len(before)+1 {
			t.Errorf("stepped %v after the end", after[len(before)+1:])
		}
		d.Stop()
	})
}
