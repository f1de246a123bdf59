package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// dice is a protocol whose worlds throw dice and fail on some.
var dice = Protocol{Name: "dice", Play: func(w *World) error {
	for range 10 {
		w.Run(w.Between(0, time.Second))
		w.Note("%d", w.Rand.IntN(6))
		w.Mark(Writes, "dice", "a throw")
		w.Count("throws", 1)
	}
	switch w.Seed % 50 {
	case 13:
		return errors.New("thirteen")
	case 17:
		panic("seventeen")
	}
	return nil
}}

func TestRun(t *testing.T) {
	calls := 0
	r, err := Run(t.Context(), Options{Protocol: dice, First: 1, Worlds: 70, Workers: 1, Progress: func(worlds, failures int) {
		if calls++; worlds != calls {
			t.Errorf("told of %d worlds after %d", worlds, calls)
		}
	}})
	if err != nil || r.Worlds != 70 || calls != 70 || r.Counters["throws"] != 700 {
		t.Errorf("got %+v after %d calls, %v; want 70 worlds, 700 throws", r, calls, err)
	}
	var failed []string
	for _, f := range r.Failures {
		text, _, _ := strings.Cut(f.Err.Error(), ",")
		failed = append(failed, fmt.Sprintf("%d %s", f.Seed, text))
	}
	if want := []string{"13 thirteen", "17 panic: seventeen", "63 thirteen", "67 panic: seventeen"}; !slices.Equal(failed, want) {
		t.Errorf("failures: got %q, want %q", failed, want)
	}
	if got := r.Failures[1].Err.Error(); !strings.Contains(got, "run_test.go") && !strings.Contains(got, "sim.init.func1:") {
		t.Errorf("the panic does not say where: %s", got)
	}
}

// The report depends on nothing but the seeds.
func TestRunRepeats(t *testing.T) {
	report := func(o Options) Report {
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, failures := range []int{0, 1, 3} {
		o := Options{Protocol: dice, First: 1, Worlds: 200, Workers: 1, Failures: failures}
		one := report(o)
		o.Workers = 8
		many := report(o)
		if fmt.Sprint(one) != fmt.Sprint(many) {
			t.Errorf("one worker reports %v, eight %v", one, many)
		}
		if failures > 0 && len(one.Failures) != failures {
			t.Errorf("got %d failures, want %d", len(one.Failures), failures)
		}
		o.First = 2
		if other := report(o); other.Hash == one.Hash {
			t.Errorf("other worlds have the same hash %x", other.Hash)
		}
	}
}

func TestRunIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Run(ctx, Options{Protocol: dice, First: 1, Worlds: 1 << 30, Workers: 4, Progress: func(worlds, _ int) {
		if worlds == 10 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || r.Worlds < 10 {
		t.Errorf("got %d worlds, %v; want 10 and that it was stopped", r.Worlds, err)
	}
}

func TestAlone(t *testing.T) {
	playing, most := 0, 0 // without a lock: the race detector would notice a second worker
	p := Protocol{Alone: true, Play: func(*World) error {
		playing++
		most = max(most, playing)
		playing--
		return nil
	}}
	if _, err := Run(t.Context(), Options{Protocol: p, Worlds: 100, Workers: 8}); err != nil || most != 1 {
		t.Errorf("got %d worlds at once, %v", most, err)
	}
}

// A replay is the same world, seen.
func TestReplay(t *testing.T) {
	for _, seed := range []uint64{12, 13, 17} {
		r, err := Run(t.Context(), Options{Protocol: dice, First: seed, Worlds: 1})
		if err != nil {
			t.Fatal(err)
		}
		w, failure := dice.Replay(seed)
		v := NewWorld(seed)
		again := dice.play(v)
		if w.Hash() != v.Hash() || fmt.Sprint(failure) != fmt.Sprint(again) {
			t.Errorf("seed %d: recorded %x, %v; otherwise %x, %v", seed, w.Hash(), failure, v.Hash(), again)
		}
		if (failure != nil) != (len(r.Failures) == 1) || (failure != nil) != w.Timeline().has(Violation) {
			t.Errorf("seed %d: got %v, in the timeline %v", seed, failure, w.Timeline().has(Violation))
		}
		if failure != nil && fmt.Sprint(w.Clues(2)) != fmt.Sprint(v.Recent(2)) {
			t.Errorf("seed %d: clues %q, want the notes before it failed, %q", seed, w.Clues(2), v.Recent(2))
		}
		if v.recording() || !w.recording() || v.Timeline() != nil {
			t.Errorf("seed %d: only the replay is recorded", seed)
		}
	}
}

// Events after a violation do not hide those before it.
func TestClues(t *testing.T) {
	w, err := Protocol{Name: "p", Play: func(w *World) error {
		w.Note("a clue")
		w.Mark(Violation, "", "trouble")
		for range 9000 {
			w.Note("later")
		}
		w.Mark(Violation, "", "more trouble")
		return errors.New("trouble")
	}}.Replay(1)
	if got := w.Clues(5); err == nil || len(got) != 1 || !strings.HasSuffix(got[0], "a clue") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestSwarm(t *testing.T) {
	w := NewWorld(1)
	off := 0
	for range 1000 {
		switch p := w.Swarm(0.1); {
		case p == 0:
			off++
		case p < 0 || p >= 0.1:
			t.Fatalf("got %v, want less than 0.1", p)
		}
	}
	if off < 400 || off > 600 {
		t.Errorf("a kind of fault is off in %d of 1000 worlds, want about half", off)
	}
}
