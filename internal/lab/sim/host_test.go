package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// probe is a machine that does what it is told and remembers what it was stepped
// with.
type probe struct {
	got   []any // messages, and ends of accesses
	ready machine.Ready[string]
	nows  []machine.Now
	due   bool // its alarm is always in the past
}

// act is what a test tells a probe.
type act = func(*machine.Ready[string])

func (p *probe) Step(now machine.Now, do act) {
	p.nows = append(p.nows, now)
	do(&p.ready)
}

func (p *probe) Receive(now machine.Now, e machine.Envelope) {
	p.nows, p.got = append(p.nows, now), append(p.got, e)
}

func (p *probe) Accessed(now machine.Now, a machine.Accessed) {
	p.nows, p.got = append(p.nows, now), append(p.got, a)
}

func (p *probe) Wake(now machine.Now) { p.nows = append(p.nows, now) }

func (p *probe) Ready() machine.Ready[string] {
	rd := p.ready
	p.ready = machine.Ready[string]{Alarm: machine.Never}
	if p.due {
		rd.Alarm = 0
	}
	return rd
}

// inputs are what came in, without what the test itself told.
func (p *probe) inputs() []any { return p.got }

func same(body any) any { return body }

func newProbe(w *World, net *Network, id machine.NodeID, rate float64) (*Process[act, string], *probe) {
	h, p := NewProcess[act, string](w, net, id, rate), &probe{ready: machine.Ready[string]{Alarm: machine.Never}}
	h.Start(p)
	return h, p
}

// ask has a machine begin an access.
func ask(id uint64) act {
	return func(rd *machine.Ready[string]) {
		rd.Accesses = append(rd.Accesses, machine.Access{ID: id, Op: machine.Read{}})
	}
}

// storage answers after d, and counts what took effect after half of it.
func storage(w *World, d time.Duration) (access func(*Host, machine.Access), effects *int) {
	effects = new(int)
	return func(h *Host, a machine.Access) {
		w.After(d/2, func() { *effects++ })
		h.After(d, func() { h.Accessed(machine.Accessed{ID: a.ID, Reply: "done"}) })
	}, effects
}

func TestAccess(t *testing.T) {
	for name, tc := range map[string]struct {
		fate func(*World, *Process[act, string], *probe)
		want string // the inputs of the machine
	}{
		"answered":             {func(*World, *Process[act, string], *probe) {}, "[{7 done <nil>}]"},
		"crashed":              {func(w *World, h *Process[act, string], p *probe) { h.Crash() }, "[]"},
		"of an earlier life":   {func(w *World, h *Process[act, string], p *probe) { h.Crash(); h.Start(p) }, "[]"},
		"paused":               {func(w *World, h *Process[act, string], p *probe) { h.Pause() }, "[]"},
		"paused, resumed":      {func(w *World, h *Process[act, string], p *probe) { h.Pause(); w.After(time.Minute, h.Resume) }, "[{7 done <nil>}]"},
		"suspended, continued": {func(w *World, h *Process[act, string], p *probe) { h.Suspend(); w.After(time.Minute, h.Resume) }, "[{7 done <nil>}]"},
	} {
		w := NewWorld(1)
		h, p := newProbe(w, nil, 1, 0)
		access, effects := storage(w, time.Second)
		h.Access = access
		h.Step(ask(7))
		w.Run(100 * time.Millisecond)
		tc.fate(w, h, p)
		w.Run(2 * time.Minute)
		if got := fmt.Sprint(p.inputs()); got != tc.want {
			t.Errorf("%s: the machine hears %s, want %s", name, got, tc.want)
		}
		if *effects != 1 {
			t.Errorf("%s: the storage was changed %d times, want once", name, *effects)
		}
	}
}

// An alarm rings when the host's clock says so, whatever its rate; never before.
func TestAlarm(t *testing.T) {
	for _, rate := range []float64{0, 0.1, -0.1} {
		for _, change := range []float64{0, 0.05, -0.05} {
			w := NewWorld(1)
			h, p := newProbe(w, nil, 1, 0)
			h.Lag = 0
			h.Drift(rate)
			w.Run(time.Second)
			at := h.Mono().Add(10 * time.Second)
			h.Step(func(rd *machine.Ready[string]) { rd.Alarm = at })
			w.After(3*time.Second, func() {
				p.ready.Alarm = at // as a machine says each time
				h.Drift(rate + change)
			})
			w.Run(20 * time.Second)
			last := p.nows[len(p.nows)-1].Mono
			if last < at || last > at.Add(time.Microsecond) {
				t.Errorf("rate %v, then %v: woken %v after the alarm", rate, rate+change, last.Sub(at))
			}
		}
	}
}

func TestClocks(t *testing.T) {
	w := NewWorld(1)
	h, _ := newProbe(w, nil, 1, 0)
	mono := h.Mono()
	wall := h.Now().Wall
	pass := func(d time.Duration, wantMono, wantWall time.Duration) {
		t.Helper()
		w.Run(d)
		if got := h.Mono().Sub(mono); got != wantMono {
			t.Errorf("the monotonic clock went on by %v, want %v", got, wantMono)
		}
		if got := time.Duration(h.Now().Wall - wall); got != wantWall {
			t.Errorf("the wall clock went on by %v, want %v", got, wantWall)
		}
	}
	if got := time.Unix(0, int64(wall)).UTC().Format(time.DateTime); got != "2026-01-01 00:00:00" {
		t.Errorf("the wall clock begins at %s", got)
	}
	pass(10*time.Second, 10*time.Second, 10*time.Second)
	h.Drift(0.5)
	pass(10*time.Second, 25*time.Second, 20*time.Second)
	h.StepWall(-time.Hour)
	pass(0, 25*time.Second, 20*time.Second-time.Hour)
	h.SlewWall(-0.5)
	h.Drift(0)
	h.Suspend()
	pass(10*time.Second, 35*time.Second, 25*time.Second-time.Hour)
	if got, want := h.TrueWait(time.Second), time.Second; got < want || got > want+time.Microsecond {
		t.Errorf("a second takes %v", got)
	}
}

// Envelopes to a paused process wait for it; those to a suspended host are lost.
func TestPauseAndSuspend(t *testing.T) {
	for name, tc := range map[string]struct {
		stop func(*Host)
		want string
	}{
		"pause":   {(*Host).Pause, "[{2 1 hello}]"},
		"suspend": {(*Host).Suspend, "[]"},
	} {
		w := NewWorld(1)
		net := NewNetwork(w, same)
		h, p := newProbe(w, net, 1, 0)
		other, _ := newProbe(w, net, 2, 0)
		tc.stop(h.Host)
		other.Step(func(rd *machine.Ready[string]) {
			rd.Sends = append(rd.Sends, machine.Envelope{From: 2, To: 1, Body: "hello"})
		})
		w.Run(time.Minute)
		if !h.Paused() || len(p.got) > 0 {
			t.Errorf("%s: a host that stands still hears %v", name, p.got)
		}
		h.Resume()
		w.Run(time.Second)
		if got := fmt.Sprint(p.inputs()); got != tc.want {
			t.Errorf("%s: afterwards it hears %s, want %s", name, got, tc.want)
		}
	}
}

// A record that became durable during a pause is there, but messages that wait for it leave
// only when the process goes on.
func TestWriteEndsInAPause(t *testing.T) {
	w := NewWorld(1)
	net := NewNetwork(w, same)
	h, _ := newProbe(w, net, 1, 0)
	_, p := newProbe(w, net, 2, 0)
	h.Disk.Slow = time.Second
	h.Step(func(rd *machine.Ready[string]) {
		rd.Persists = append(rd.Persists, machine.Persist{Record: "r", Then: []machine.Envelope{{From: 1, To: 2, Body: "durable"}}})
	})
	w.Run(500 * time.Millisecond)
	h.Pause()
	w.Run(time.Minute)
	if got := fmt.Sprint(h.Disk.Durable, h.Disk.Forced, p.inputs()); got != "[r] 1 []" {
		t.Errorf("during the pause: got %s, want [r] 1 []", got)
	}
	h.Resume()
	w.Run(time.Second)
	if got := fmt.Sprint(p.inputs()); got != "[{1 2 durable}]" {
		t.Errorf("after the pause: got %s", got)
	}
}

// The engine itself marks what it does to hosts.
func TestFaultsAreMarked(t *testing.T) {
	w, _ := Protocol{Name: "p", Play: func(w *World) error {
		net := NewNetwork(w, same)
		h, p := newProbe(w, net, 1, 0)
		for _, step := range []func(){
			h.Crash, func() { h.Start(p) }, h.Pause, h.Resume, h.Suspend, h.Crash, func() { h.Start(p) },
			func() { net.Cut(1, 2); net.Cut(2, 1) }, net.Mend, func() { h.StepWall(time.Hour) }, h.Crash,
		} {
			step()
			w.Run(time.Second)
		}
		return nil
	}}.Replay(1)
	var b strings.Builder
	if err := w.Timeline().text(&b); err != nil {
		t.Fatal(err)
	}
	want := `p, seed 1: from 0.000000 s to 11.000000 s of 11.000000 s
      0.000000               host 1   starts
      0.000000          +1s  host 1   fault crash
      1.000000               host 1   starts
      2.000000          +1s  host 1   fault pause
      4.000000          +1s  host 1   fault suspend
      5.000000          +1s  host 1   fault crash
      6.000000               host 1   starts
      7.000000          +1s  network  fault cut 1>2 2>1
      9.000000               host 1   fault the wall clock steps by 1h0m0s
     10.000000          +1s  host 1   fault crash
`
	if got := b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A machine whose alarm is always due keeps a processor busy, which no other check would see.
func TestSpins(t *testing.T) {
	w := NewWorld(1)
	h, p := newProbe(w, nil, 1, 0)
	p.due = true
	h.Step(func(*machine.Ready[string]) {})
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "host 1 spins") {
			t.Errorf("a machine that always wants to be woken at once: %v, want the world to stop", said)
		}
	}()
	w.Run(time.Second)
}

// A process that was stopped before its turn takes that when it goes on.
func TestNoTurnInAPause(t *testing.T) {
	for _, stop := range []func(*Host){(*Host).Pause, (*Host).Suspend} {
		w := NewWorld(1)
		h, p := newProbe(w, nil, 1, 0)
		w.Run(time.Second)
		turns := len(p.nows)
		h.Receive(machine.Envelope{From: 2, To: 1, Body: "hello"})
		stop(h.Host) // sooner than the turn begins
		if w.Run(time.Minute); len(p.nows) != turns {
			t.Errorf("a host that stands still takes %d turns", len(p.nows)-turns)
		}
		h.Resume()
		if w.Run(time.Second); fmt.Sprint(p.inputs()) != "[{2 1 hello}]" {
			t.Errorf("when it goes on it hears %v, want what was there before", p.inputs())
		}
	}
}
