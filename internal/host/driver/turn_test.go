package driver

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Messages of a turn may rest on outcomes that the owner is told in it.
func TestTheOwnerHearsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did []string
		d := Start(Config[any, any]{
			Machine: &recorder{}, Now: func() machine.Now { return machine.Now{Mono: 1} },
			Send:    func([]machine.Envelope) { did = append(did, "sent") },
			Outcome: func([]any) { did = append(did, "told") },
		})
		defer d.Stop()
		d.Step(effects{Sends: []machine.Envelope{env(2, "x")}, Outcomes: []any{"news"}})
		synctest.Wait()
		if want := []string{"told", "sent"}; !slices.Equal(did, want) {
			t.Errorf("%v, want %v", did, want)
		}
	})
}

// Nor is any record of a turn written before the owner has heard its outcomes. Messages
// that wait for a record may rest on them, and another goroutine writes while the owner is
// told.
func TestTheOwnerHearsBeforeAnythingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var did []string
		does := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			did = append(did, what)
		}
		d := Start(Config[any, any]{
			Machine: &recorder{}, Now: func() machine.Now { return machine.Now{Mono: 1} },
			Send:    func([]machine.Envelope) { does("sent") },
			Persist: func([]any, bool) error { does("written"); return nil },
			Outcome: func([]any) { time.Sleep(time.Minute); does("told") },
		})
		defer d.Stop()
		d.Step(effects{Persists: []machine.Persist{{Record: "r", Then: []machine.Envelope{env(2, "x")}}}, Outcomes: []any{"news"}})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"told", "written", "sent"}; !slices.Equal(did, want) {
			t.Errorf("%v, want %v", did, want)
		}
	})
}

// Go's timers stand still while the machine sleeps, and its clock goes on.
func TestAnAlarmBehindASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{}
		d := start(t, m, w, 0)
		at := machine.Mono(time.Hour)
		d.Step(effects{Alarm: at})
		synctest.Wait()
		before, _, _ := m.saw()
		w.back.Store(-int64(2 * time.Hour)) // it was suspended for so long
		time.Sleep(time.Second)
		synctest.Wait()
		steps, times, _ := m.saw()
		if steps, times = steps[len(before):], times[len(before):]; len(steps) != 1 || steps[0] != any(wake{}) || times[0] < at {
			t.Errorf("steps %v at %v within a second, want a Wake", steps, times)
		}
	})
}

// A turn behind a suspend sets the timer anew: an alarm that is due soon does not wait for
// a timer that has slept.
func TestAnAlarmSoonBehindASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{}
		d := start(t, m, w, 0)
		began := time.Now()
		d.Step(effects{Alarm: machine.Mono(100 * time.Hour)})
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		w.back.Store(-int64(2 * time.Hour))
		at := machine.Mono(time.Since(began) + 2*time.Hour + 50*time.Millisecond)
		d.Step(effects{Alarm: at})
		synctest.Wait()
		before, _, _ := m.saw()
		time.Sleep(60 * time.Millisecond)
		synctest.Wait()
		steps, times, _ := m.saw()
		if steps, times = steps[len(before):], times[len(before):]; len(steps) != 1 || steps[0] != any(wake{}) || times[0] < at {
			t.Errorf("steps %v at %v, want a Wake 50 ms after the turn behind the suspend", steps, times)
		}
	})
}

// A machine is woken when it starts: it may have something to do.
func TestAMachineIsWokenWhenItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recorder{}
		start(t, m, &world{}, 0)
		synctest.Wait()
		if steps, times, ready := m.saw(); !slices.Equal(steps, []any{wake{}}) || times[0] != 1 || ready != 1 {
			t.Errorf("stepped %v at %v in %d turns, want a Wake at once", steps, times, ready)
		}
	})
}

// An alarm that is due when inputs are stepped is stepped with them, however many come.
func TestAnAlarmThatIsDueSharesATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recorder{}
		d := start(t, m, &world{}, 0)
		d.Step(effects{Alarm: machine.Mono(time.Second)})
		synctest.Wait()
		before, _, turns := m.saw()
		d.Gather(optional(func() any { time.Sleep(2 * time.Second); return "input" }))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		steps, _, ready := m.saw()
		if steps = steps[len(before):]; !slices.Equal(steps, []any{"input", wake{}}) || ready != turns+1 {
			t.Errorf("stepped %v in %d turns, want the input and a Wake in one", steps, ready-turns)
		}
	})
}

// A clock that is slower than Go's timers has them ring early. An alarm that is due then is
// stepped all the same.
func TestAnAlarmOfASlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, began, at := &recorder{}, time.Now(), machine.Mono(400*time.Millisecond)
		d := Start(Config[any, any]{Machine: m, Now: func() machine.Now { return machine.Now{Mono: machine.Mono(time.Since(began)/2) + 1} }})
		d.Step(effects{Alarm: at})
		synctest.Wait()
		before, _, _ := m.saw()
		time.Sleep(time.Second)
		synctest.Wait()
		steps, times, _ := m.saw()
		if steps = steps[len(before):]; !slices.Equal(steps, []any{wake{}}) || times[len(before)] < at {
			t.Errorf("stepped %v at %v, want a Wake at %v by that clock", steps, times[len(before):], at)
		}
		d.Stop()
	})
}

// dated is a machine that remembers by which clocks it was stepped.
type dated struct {
	recorder
	by []machine.Now
}

func (m *dated) Step(now machine.Now, input any) {
	m.by = append(m.by, now)
	m.recorder.Step(now, input)
}

func (m *dated) Wake(now machine.Now) {
	m.by = append(m.by, now)
	m.recorder.Wake(now)
}

// A machine is told of both clocks, as they are when its turn comes.
func TestBothClocksAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, now := &dated{}, machine.Now{Mono: 1, Wall: 1000}
		d := Start(Config[any, any]{Machine: m, Now: func() machine.Now { return now }})
		synctest.Wait()
		now = machine.Now{Mono: 2, Wall: 900} // this one may go back
		d.Step("input")
		synctest.Wait()
		d.Gather(optional(func() any { now = machine.Now{Mono: 3, Wall: 1100}; return "gathered" }))
		synctest.Wait()
		if want := []machine.Now{{Mono: 1, Wall: 1000}, {Mono: 2, Wall: 900}, {Mono: 3, Wall: 1100}}; !slices.Equal(m.by, want) {
			t.Errorf("stepped by %v, want %v", m.by, want)
		}
		d.Stop()
	})
}

// waking is a machine that says something when it is woken.
type waking struct{ recorder }

func (m *waking) Wake(now machine.Now) {
	m.recorder.Wake(now)
	m.next.Sends = append(m.next.Sends, env(2, "awake"))
}

// A wake-up that is asked for wakes the machine though no alarm is due; what comes of a wake-up leaves
// with its turn.
func TestAWakeUpThatIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &waking{}, &world{}
		d := start(t, m, w, 0)
		synctest.Wait()
		if len(w.sent) != 1 {
			t.Errorf("an alarm has rung, and what the machine says at it is not sent: %v", w.sent)
		}
		d.Wake()
		synctest.Wait()
		if steps, _, _ := m.saw(); !slices.Equal(steps, []any{wake{}, wake{}}) || len(w.sent) != 2 {
			t.Errorf("a wake-up was asked for: stepped %v, sent %v, want a second Wake, and what it says", steps, w.sent)
		}
	})
}
