package driver

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// recorder is a machine that does what it is told and remembers what it saw.
type recorder struct {
	next machine.Ready[any]

	mu    sync.Mutex
	steps []any
	times []machine.Mono
	ready int
}

// saw returns the inputs so far, when each was stepped, and the turns.
func (r *recorder) saw() (steps []any, times []machine.Mono, ready int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.steps), slices.Clone(r.times), r.ready
}

// effects is an input that becomes the next Ready.
type effects machine.Ready[any]

// wake stands for a wake-up among a recorder's inputs.
type wake struct{}

func (r *recorder) Step(now machine.Now, input any) { r.step(now, input, input) }

func (r *recorder) Receive(now machine.Now, e machine.Envelope) { r.step(now, e, e.Body) }

func (r *recorder) Accessed(now machine.Now, a machine.Accessed) { r.step(now, a, nil) }

func (r *recorder) Wake(now machine.Now) { r.step(now, wake{}, nil) }

// step remembers an input, and does what it says.
func (r *recorder) step(now machine.Now, input, does any) {
	r.mu.Lock()
	r.times = append(r.times, now.Mono)
	r.steps = append(r.steps, input)
	r.mu.Unlock()
	if e, ok := does.(effects); ok {
		r.next.Sends = append(r.next.Sends, e.Sends...)
		r.next.Persists = append(r.next.Persists, e.Persists...)
		r.next.Accesses = append(r.next.Accesses, e.Accesses...)
		r.next.Outcomes = append(r.next.Outcomes, e.Outcomes...)
		r.next.Alarm = e.Alarm
	}
}

func (r *recorder) Ready() machine.Ready[any] {
	r.mu.Lock()
	r.ready++
	r.mu.Unlock()
	rd := r.next
	if rd.Alarm == 0 {
		rd.Alarm = machine.Never
	}
	r.next = machine.Ready[any]{}
	return rd
}

// world is what the driver touches, and records it.
type world struct {
	mu       sync.Mutex
	sent     []machine.Envelope
	written  []any
	forced   []bool
	accesses [][]machine.Access
	outcomes []any
	failed   []error
	hold     chan struct{} // Persist waits for it, if set
	broken   error
	back     atomic.Int64 // ns by which the clock went back
	reads    atomic.Int64 // of the clock
}

// spun is 0, unless a driver makes turns without end while no time passes: then time does, or the
// test would hang.
func (w *world) spun() machine.Mono { return machine.Mono(max(0, w.reads.Add(1)-100_000)) }

func (w *world) setBack() { w.back.Store(int64(5 * time.Second)) }

func start(t *testing.T, m machine.Machine[any, any], w *world, limit int) *Driver[any, any] {
	return startWith(t, m, w, Config[any, any]{QueueLimit: limit})
}

// startWith starts a driver of a machine in a world, with the other options of a Config.
func startWith(t *testing.T, m machine.Machine[any, any], w *world, c Config[any, any]) *Driver[any, any] {
	began := time.Now()
	d := Start(Config[any, any]{
		Machine: m, QueueLimit: c.QueueLimit, Linger: c.Linger, Hold: c.Hold,
		Now: func() machine.Now {
			return machine.Now{Mono: machine.Mono(time.Since(began)) + 1 - machine.Mono(w.back.Load()) + w.spun()}
		},
		Send: func(envs []machine.Envelope) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.sent = append(w.sent, envs...)
		},
		Persist: func(records []any, force bool) error {
			if w.hold != nil {
				<-w.hold
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.written, w.forced = append(w.written, records...), append(w.forced, force)
			return w.broken
		},
		Access:  func(as []machine.Access) { w.accesses = append(w.accesses, as) },
		Outcome: func(outs []any) { w.outcomes = append(w.outcomes, outs...) },
		Fail:    func(err error) { w.failed = append(w.failed, err) },
	})
	t.Cleanup(d.Stop)
	return d
}

func env(to machine.NodeID, body string) machine.Envelope {
	return machine.Envelope{From: 1, To: to, Body: body}
}

// optional makes of f what Gather and Look want: nil is nothing.
func optional(f func() any) func() (any, bool) {
	return func() (any, bool) { in := f(); return in, in != nil }
}

// messagesOf makes messages of bodies.
func messagesOf(bodies ...any) (messages []machine.Envelope) {
	for _, b := range bodies {
		messages = append(messages, machine.Envelope{From: 2, To: 1, Body: b})
	}
	return messages
}

func TestInputsThatWaitShareATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{}
		d := start(t, m, w, 0)
		synctest.Wait()
		_, _, before := m.saw()
		release := make(chan struct{})
		d.Gather(optional(func() any { <-release; return "first" }))
		synctest.Wait()
		for i := range 10 {
			d.Step(i)
		}
		d.Gather(optional(func() any { return nil }))
		close(release)
		synctest.Wait()
		steps, _, ready := m.saw()
		if got := ready - before; got != 2 {
			t.Errorf("%d turns, want 2: one for the first input, one for all that waited", got)
		}
		if want := []any{"first", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; len(steps) < 11 || !slices.Equal(steps[len(steps)-11:], want) {
			t.Errorf("stepped %v, want %v at the end", steps, want)
		}
	})
}

// TestTheClockIsReadBehindWhatGathers has the process stand still while inputs are
// gathered: some of these may have come since their turn began.
func TestTheClockIsReadBehindWhatGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recorder{}
		d := start(t, m, &world{}, 0)
		gather := func() any { time.Sleep(time.Second); return "gathered" }
		d.Gather(optional(gather))
		d.Gather(optional(gather))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		var got []machine.Mono
		steps, times, _ := m.saw()
		for i, in := range steps {
			if in == any("gathered") {
				got = append(got, times[i])
			}
		}
		if want := []machine.Mono{machine.Mono(time.Second) + 1, machine.Mono(2*time.Second) + 1}; !slices.Equal(got, want) {
			t.Errorf("stepped at %v what was gathered by %v", got, want)
		}
	})
}

func TestAClockThatGoesBackEndsEverything(t *testing.T) {
	for _, tt := range []struct {
		name string
		turn func(d *Driver[any, any], w *world)
	}{
		{"before an input", func(d *Driver[any, any], w *world) { w.setBack(); d.Step("input") }},
		{"while an input is gathered", func(d *Driver[any, any], w *world) { d.Gather(optional(func() any { w.setBack(); return "input" })) }},
		{"while it waits for an alarm", func(d *Driver[any, any], w *world) {
			w.setBack()
			time.Sleep(2 * time.Second) // longer than one wait of the loop
			d.Step("input")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, w := &recorder{}, &world{}
				d := start(t, m, w, 0)
				d.Step(effects{Alarm: machine.Mono(time.Hour)})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				before, _, _ := m.saw()
				tt.turn(d, w)
				synctest.Wait()
				if len(w.failed) != 1 {
					t.Errorf("failed with %v, want one error", w.failed)
				}
				if after, _, _ := m.saw(); len(after) != len(before) {
					t.Errorf("stepped %v by a clock that went back", after[len(before):])
				}
				if d.Do(func() {}) {
					t.Error("Do ran after the failure")
				}
			})
		})
	}
}

func TestNothingLeavesBeforeItsRecordIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{hold: make(chan struct{})}
		d := start(t, m, w, 0)
		d.Step(effects{
			Sends: []machine.Envelope{env(2, "at once")},
			Persists: []machine.Persist{
				{Record: "a", Then: []machine.Envelope{env(2, "after a"), env(1, "own")}},
				{Record: "b"},
			},
			Outcomes: []any{"news"},
		})
		synctest.Wait()
		if want := []machine.Envelope{env(2, "at once")}; !slices.Equal(w.sent, want) {
			t.Errorf("before the write, sent %v; want %v", w.sent, want)
		}
		if !slices.Equal(w.outcomes, []any{"news"}) {
			t.Errorf("outcomes %v, want them without waiting", w.outcomes)
		}
		close(w.hold)
		synctest.Wait()
		if want := []machine.Envelope{env(2, "at once"), env(2, "after a")}; !slices.Equal(w.sent, want) {
			t.Errorf("after the write, sent %v; want %v", w.sent, want)
		}
		if !slices.Equal(w.written, []any{"a", "b"}) || !slices.Equal(w.forced, []bool{true}) {
			t.Errorf("written %v, forced %v; want a and b in one forced write", w.written, w.forced)
		}
		steps, _, _ := m.saw()
		if got := steps[len(steps)-1]; got != any(env(1, "own")) {
			t.Errorf("last stepped %v, want the machine's own envelope", got)
		}
	})
}

func TestRecordsThatNothingWaitsForAreNotForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		d := start(t, &recorder{}, w, 0)
		d.Step(effects{Persists: []machine.Persist{{Record: "a"}}})
		synctest.Wait()
		if !slices.Equal(w.forced, []bool{false}) {
			t.Errorf("forced %v, want one write that is not", w.forced)
		}
	})
}

func TestWhatOnlyWaitsIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{hold: make(chan struct{})}
		d := start(t, &recorder{}, w, 0)
		d.Step(effects{Persists: []machine.Persist{{Record: "a", Then: []machine.Envelope{env(2, "after a")}}}})
		synctest.Wait()
		d.Step(effects{Persists: []machine.Persist{{Then: []machine.Envelope{env(2, "too")}}}})
		synctest.Wait()
		if len(w.sent) != 0 {
			t.Errorf("before the write, sent %v", w.sent)
		}
		close(w.hold)
		synctest.Wait()
		if want := []machine.Envelope{env(2, "after a"), env(2, "too")}; !slices.Equal(w.sent, want) {
			t.Errorf("sent %v, want %v", w.sent, want)
		}
		if !slices.Equal(w.forced, []bool{true}) {
			t.Errorf("forced %v, want the one write", w.forced)
		}
	})
}

func TestAccessesOfATurnBeginTogetherAndEndAsInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{hold: make(chan struct{})}
		d := start(t, m, w, 0)
		first := []machine.Access{{ID: 1, At: 2, Op: "read"}, {ID: 2, Op: "write"}}
		d.Step(effects{
			Sends:    []machine.Envelope{env(2, "beside")},
			Persists: []machine.Persist{{Record: "a", Then: []machine.Envelope{env(2, "after a")}}},
			Accesses: first,
		})
		synctest.Wait() // the record is not durable yet, and no access waits for it
		d.Step(effects{Accesses: []machine.Access{{ID: 3, Op: "read"}}})
		synctest.Wait()
		if len(w.accesses) != 2 || !slices.Equal(w.accesses[0], first) || w.accesses[1][0].ID != 3 {
			t.Errorf("began %v; want each turn's together, and nothing for turns without", w.accesses)
		}
		d.Accessed(machine.Accessed{ID: 2})
		synctest.Wait()
		if steps, _, _ := m.saw(); steps[len(steps)-1] != any(machine.Accessed{ID: 2}) {
			t.Errorf("last stepped %v, want the end of the access", steps[len(steps)-1])
		}
		close(w.hold)
	})
}

func TestAFailedWriteEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{broken: errors.New("disk")}
		d := start(t, m, w, 0)
		d.Step(effects{Persists: []machine.Persist{{Record: "a", Then: []machine.Envelope{env(2, "x")}}}})
		synctest.Wait()
		if len(w.sent) != 0 {
			t.Errorf("sent %v though the write failed", w.sent)
		}
		if len(w.failed) != 1 || w.failed[0] != w.broken {
			t.Errorf("failed with %v, want %v once", w.failed, w.broken)
		}
		before, _, _ := m.saw()
		d.Step("more")
		synctest.Wait()
		if after, _, _ := m.saw(); len(after) != len(before) {
			t.Error("stepped after the failure")
		}
		if d.Do(func() {}) {
			t.Error("Do ran after the failure")
		}
	})
}

func TestTheAlarmWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := &recorder{}, &world{}
		d := start(t, m, w, 0)
		at := machine.Mono(5 * time.Second) // longer than one wait of the loop
		d.Step(effects{Alarm: at})
		synctest.Wait()
		before, _, _ := m.saw()
		time.Sleep(4900 * time.Millisecond)
		synctest.Wait()
		if after, _, _ := m.saw(); len(after) != len(before) {
			t.Errorf("woken early: %v", after[len(before):])
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		steps, times, _ := m.saw()
		steps, times = steps[len(before):], times[len(before):]
		if len(steps) != 1 || steps[0] != any(wake{}) || times[0] != at {
			t.Errorf("steps %v at %v, want one Wake at %v", steps, times, at)
		}
	})
}

func TestOfferWaitsWhileTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, &recorder{}, &world{}, 4)
		release := make(chan struct{})
		d.Gather(optional(func() any { <-release; return nil }))
		synctest.Wait()
		d.Offer(messagesOf(1, 2, 3, 4)...)
		offered := false
		go func() {
			d.Offer(messagesOf(5)...)
			offered = true
		}()
		synctest.Wait()
		if offered {
			t.Error("Offer returned while the queue was full")
		}
		d.Step("from inside") // never waits
		close(release)
		synctest.Wait()
		if !offered {
			t.Error("Offer still waits though there is room")
		}
	})
}

// StepInTurn waits as Offer does, and steps its input once there is room. When the driver stops
// first, it returns.
func TestStepInTurnWaitsWhileTheQueueIsFull(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &recorder{}
			d := start(t, m, &world{}, 1)
			release := make(chan struct{})
			d.Gather(optional(func() any { <-release; return nil }))
			synctest.Wait()
			d.Step("first")
			stepped := false
			go func() { d.StepInTurn("in turn"); stepped = true }()
			synctest.Wait()
			if stepped {
				t.Error("StepInTurn returned while the queue was full")
			}
			if stops {
				go d.Stop()
				synctest.Wait()
			}
			close(release)
			synctest.Wait()
			if !stepped {
				t.Errorf("stops: %v: StepInTurn still waits", stops)
			}
			saw, _, _ := m.saw()
			if got, want := slices.Contains(saw, any("in turn")), !stops; got != want {
				t.Errorf("stops: %v: the input was stepped: %v, want %v", stops, got, want)
			}
		})
	}
}

// TestRoomInAQueueThatIsJustFull has exactly as many inputs wait as may. A caller that
// offers more goes on when they are taken, and not only when another has queued one
// besides.
func TestRoomInAQueueThatIsJustFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recorder{}
		d := start(t, m, &world{}, 4)
		release := make(chan struct{})
		d.Gather(optional(func() any { <-release; return nil }))
		synctest.Wait()
		d.Offer(messagesOf(1, 2, 3, 4)...)
		for i := range 3 { // more than one may wait
			go d.Offer(messagesOf(5 + i)...)
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		if steps, _, _ := m.saw(); len(steps) < 7 || !slices.Contains(steps, any(messagesOf(7)[0])) {
			t.Errorf("stepped %v; a caller that offered more than four still waits, though they were taken", steps)
		}
	})
}

// TestRoomForOne has three wait that each fill the queue: one of them goes on when it is taken, and
// the others find it full again.
func TestRoomForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, &recorder{}, &world{}, 2)
		first, second := make(chan struct{}), make(chan struct{})
		d.Gather(optional(func() any { <-first; return nil }))
		synctest.Wait()
		d.Gather(optional(func() any { <-second; return nil }))
		d.Offer(messagesOf(2)...)
		for range 3 {
			go d.Offer(messagesOf(3, 4)...)
		}
		synctest.Wait()
		close(first)
		synctest.Wait()
		d.mu.Lock()
		if len(d.queue) != 2 {
			t.Errorf("%d inputs wait, though two are the limit", len(d.queue))
		}
		d.mu.Unlock()
		close(second)
		synctest.Wait()
	})
}

func TestStopReleasesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, &recorder{}, &world{}, 1)
		release := make(chan struct{})
		d.Gather(optional(func() any { <-release; return nil }))
		synctest.Wait()
		d.Offer(messagesOf(1)...)
		offered, done := false, false
		go func() { d.Offer(messagesOf(2)...); offered = true }()
		go func() { d.Do(func() {}); done = true }()
		synctest.Wait()
		go d.Stop()
		synctest.Wait()
		if !offered || !done {
			t.Errorf("after Stop an Offer has returned: %v, a Do: %v; want both", offered, done)
			d.room.Broadcast()
		}
		close(release)
	})
}

// Do has run its function, behind what was queued before, when it returns.
func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, &recorder{}, &world{}, 4)
		var ran []string
		d.Gather(optional(func() any { ran = append(ran, "before"); return nil }))
		if !d.Do(func() { ran = append(ran, "done") }) || !slices.Equal(ran, []string{"before", "done"}) {
			t.Errorf("ran %v, want what was queued before, and then what is to be done", ran)
		}
		d.Stop()
		if d.Do(func() { t.Error("it ran after the end") }) {
			t.Error("it is said to have run after the end")
		}
	})
}

func TestWhatComesAfterTheEndIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{hold: make(chan struct{})}
		d := start(t, &recorder{}, w, 1)
		d.Step(effects{Persists: []machine.Persist{{Record: "a", Then: []machine.Envelope{env(1, "own")}}}})
		d.Step(effects{Persists: []machine.Persist{{Record: "b"}}})
		synctest.Wait()
		d.Halt()
		close(w.hold)
		synctest.Wait()
		d.Step("x")
		d.Offer(messagesOf("y", "z")...)
		d.Stop()
		d.Stop()
		if len(d.queue) != 0 {
			t.Errorf("kept %v after the end", d.queue)
		}
	})
}

// The defaults are those of Config's documentation.
func TestTheQueueByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := start(t, &recorder{}, &world{}, 0).cfg.QueueLimit; got != 16384 {
			t.Errorf("%d inputs may wait by default, want 16,384", got)
		}
	})
}
