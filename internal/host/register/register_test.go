package register

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

func TestACell(t *testing.T) {
	stores, faults := memories(3)
	s := newSet(t, stores)
	x, y := s.Register("x"), s.Regular("x")
	ctx := t.Context()
	if v, err := x.Read(ctx); err != nil || v.Version.Seq != 0 || v.Next != 1 {
		t.Errorf("empty: %+v, %v", v, err)
	}
	faults[1].Fail(errors.New("unplugged"))
	version, err := x.Write(ctx, []byte("one"))
	if err != nil || version.Seq != 1 {
		t.Errorf("wrote %v, %v", version, err)
	}
	if err := x.Note(ctx, []byte("note")); err != nil {
		t.Error(err)
	}
	v, err := y.Read(ctx)
	if err != nil || string(v.Data) != "one" || v.Version != version || len(v.Notes) != 1 || string(v.Notes[0].Data) != "note" {
		t.Errorf("read %+v, %v", v, err)
	}
	if got, want := x.Bounds(), (Bounds{10 * time.Millisecond, true}); got != want {
		t.Errorf("bounds %v, want %v", got, want)
	}
	if y.Bounds().Atomic {
		t.Error("a regular cell says that it is atomic")
	}

	faults[2].Fail(errors.New("on fire"))
	if _, err := x.Write(ctx, nil); !errors.Is(err, quorumregister.ErrMinority) ||
		!strings.Contains(err.Error(), `write register "x"`) || !strings.Contains(err.Error(), "store 2: on fire") {
		t.Errorf("error %v", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if err := x.Note(ctx, nil); !errors.Is(err, errClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	s.Close()
	if _, err := y.Read(ctx); !errors.Is(err, errClosed) {
		t.Errorf("the set is closed: %v", err)
	}
}

// TestACellMeasures: δ grows with the time of its operations, and the cells of a set measure
// together.
func TestACellMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores, faults := memories(1)
		s, err := NewSetBy(func() machine.Mono { return machine.Mono(time.Now().UnixNano()) }, stores)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		x, y := s.Register("x"), s.Register("y")
		defer x.Close()
		defer y.Close()
		faults[0].Delay = 15 * time.Millisecond
		faults[0].Plan = func(Op) Fault { return Late }
		if _, err := x.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, c := range []*Cell{x, y} {
			if got := c.Bounds().Delay; got != 20*time.Millisecond {
				t.Errorf("an operation took 15ms, and δ was 10ms: it is %v, want 20ms", got)
			}
		}
	})
}

func TestOneStoreIsAtomic(t *testing.T) {
	x := newSet(t, []Store{NewMemory(header(1, 0)).Open()}).Regular("x")
	defer x.Close()
	if !x.Bounds().Atomic {
		t.Error("not atomic")
	}
}

// TestPatienceEnds: the caller of an operation that hangs gets the cause, and the next one does not
// pile up behind it.
func TestPatienceEnds(t *testing.T) {
	stores, faults := memories(3)
	x := newSet(t, stores).Register("x")
	defer x.Close()
	if _, err := x.Write(t.Context(), []byte("one")); err != nil {
		t.Fatal(err)
	}
	faults[0].Hang()
	faults[1].Hang()
	faults[2].Fail(errors.New("unplugged"))
	impatient := errors.New("no more patience")
	for range 3 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, impatient)
		_, err := x.Read(ctx)
		cancel()
		if !errors.Is(err, impatient) || !strings.Contains(err.Error(), "store 2: unplugged") {
			t.Errorf("error %v", err)
		}
	}
	for _, f := range faults {
		f.Heal()
	}
	if v, err := x.Read(t.Context()); err != nil || string(v.Data) != "one" {
		t.Errorf("read %q, %v", v.Data, err)
	}
}

// TestWaitingForATurn ends with the caller's context, and its error has the cause.
func TestWaitingForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores, faults := memories(3)
		x := newSet(t, stores).Register("x")
		defer x.Close()
		faults[0].Hang()
		faults[1].Hang()
		faults[2].Fail(errors.New("unplugged"))
		first, cancel := context.WithCancel(t.Context())
		go x.Read(first)
		synctest.Wait() // it has the turn
		impatient := errors.New("no more patience")
		ctx, done := context.WithTimeoutCause(t.Context(), time.Second, impatient)
		defer done()
		if _, err := x.Write(ctx, nil); !errors.Is(err, impatient) || !strings.Contains(err.Error(), "store 2: unplugged") {
			t.Errorf("behind an operation that hangs: %v, want %v and what is amiss", err, impatient)
		}
		cancel()
		faults[0].Heal()
		faults[1].Heal()
	})
}

func TestCloseEndsWhatWaits(t *testing.T) {
	stores, faults := memories(1)
	s := newSet(t, stores)
	x := s.Register("x")
	faults[0].Hang()
	defer faults[0].Heal()
	errs := make(chan error)
	for range 2 { // one lasts, one waits for its turn
		go func() { _, err := x.Read(context.Background()); errs <- err }()
	}
	x.Close()
	for range 2 {
		if err := <-errs; !errors.Is(err, errClosed) {
			t.Errorf("ended with %v", err)
		}
	}
}

func TestAStoreThatWentBackIsTold(t *testing.T) {
	var ts troubles
	ts.note(quorumregister.Stale{Base: 1})
	ts.note(quorumregister.Failing{Base: 0, Err: errors.New("unplugged")})
	why := errors.New("why")
	if err := ts.explain(why); !errors.Is(err, why) || !strings.Contains(err.Error(), "store 0: unplugged; store 1: went back") {
		t.Errorf("error %v", err)
	}
	ts.note(quorumregister.Counted{Base: 1})
	ts.note(quorumregister.Failing{Base: 0})
	if err := ts.explain(why); err != why {
		t.Errorf("error %v", err)
	}
}

func TestDelays(t *testing.T) {
	const least, usual = 10 * time.Millisecond, 8 * time.Millisecond
	d := newDelays(least)
	add := func(n int, took time.Duration) {
		for range n {
			d.Add(took)
		}
	}
	for _, c := range []struct {
		what     string
		n        int
		took     time.Duration
		low, top time.Duration
	}{
		{"fast ones", 100, time.Millisecond, least, least},
		{"usual ones", 100, usual, 2 * usual, 2 * usual},
		{"one that hung", 1, time.Minute, 4 * usual, 4 * usual},
		{"and usual ones, slowly", window / 8, usual, 2 * usual, 4 * usual},
		{"and more", 2 * window, usual, 2 * usual, 2*usual + 3*time.Millisecond},
		{"slow ones", 2 * often, time.Second, 2 * time.Second, 2 * time.Second},
		{"they are remembered", window - often, usual, time.Second, 2 * time.Second},
		{"and forgotten", 8 * window, usual, 2 * usual, 3 * usual},
	} {
		add(c.n, c.took)
		if got := d.Bound(); got < c.low || got > c.top {
			t.Errorf("after %d %s (%v): %v, want %v to %v", c.n, c.what, c.took, got, c.low, c.top)
		}
	}
}

// One slow operation, or two, do not make a bound: it doubles at most, and goes back by an eighth at each look.
func TestABoundMovesSlowly(t *testing.T) {
	for _, tt := range []struct {
		slow []time.Duration
		want []time.Duration // at each look
	}{
		{[]time.Duration{15 * time.Millisecond}, []time.Duration{18750 * time.Microsecond, 17656250, 16699219}},
		{[]time.Duration{time.Minute, time.Minute}, []time.Duration{80 * time.Millisecond, 160 * time.Millisecond, 320 * time.Millisecond}},
	} {
		d := newDelays(10 * time.Millisecond)
		for _, took := range tt.slow {
			d.Add(took)
		}
		for look, want := range tt.want {
			for range often - len(tt.slow) {
				d.Add(time.Millisecond)
			}
			tt.slow = nil
			if got := d.Bound(); got != want {
				t.Errorf("look %d: %v, want %v", look, got, want)
			}
		}
	}
}

func TestBackup(t *testing.T) {
	m := NewMemory(header(1, 0))
	s := m.Open()
	put := func(seq uint64) { s.Do([]Op{{Name: "x", Op: quorumregister.Put{Version: machine.Version{Seq: seq}}}}) }
	read := func() quorumregister.State {
		return s.Do([]Op{{Name: "x", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State)
	}
	put(1)
	restore := m.Backup()
	for range 2 {
		put(5)
		if got := read(); got.Version.Seq != 5 || got.Floor != 5 {
			t.Errorf("wrote 5, shows %+v", got)
		}
		restore()
		if got := read(); got.Version.Seq != 1 || got.Floor != 1 {
			t.Errorf("restored 1, shows %+v", got)
		}
	}
}

// TestCellsAreDifferentWriters, of any kind: two of one identity would take each other's writes for
// their own.
func TestCellsAreDifferentWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{Store: NewMemory(header(1, 0)).Open()}
		s := newSet(t, []Store{b})
		for range 100 {
			x := s.Register("x")
			if _, err := x.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			x.Close()
		}
		synctest.Wait()
		writers := map[machine.ID]bool{}
		for _, op := range slices.Concat(b.got...) {
			writers[op.Writer] = true
		}
		if len(writers) != 100 {
			t.Errorf("100 cells are %d writers", len(writers))
		}
	})
}

// TestWhatFailedIsSaid: the error of an operation says which it was, and of which register.
func TestWhatFailedIsSaid(t *testing.T) {
	stores, faults := memories(1)
	x := newSet(t, stores).Register("x")
	defer x.Close()
	faults[0].Fail(errors.New("unplugged"))
	for want, do := range map[string]func() error{
		`read register "x"`:    func() error { _, err := x.Read(t.Context()); return err },
		`write register "x"`:   func() error { _, err := x.Write(t.Context(), nil); return err },
		`note at register "x"`: func() error { return x.Note(t.Context(), nil) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "unplugged") {
			t.Errorf("%v, want one that says %s", err, want)
		}
	}
}

// TestAnAnswerIsOfItsOperation: an operation on a cell lasts until its answer was handed over: the
// next could take it for its own.
func TestAnAnswerIsOfItsOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cell{turn: make(chan struct{}, 1), done: make(chan machine.Accessed)}
		c.turn <- struct{}{}
		go c.outcomes([]quorumregister.Outcome{{Accessed: machine.Accessed{ID: 7}}})
		synctest.Wait()
		if len(c.turn) != 1 {
			t.Error("the next operation may begin before the answer of this one was handed over")
		}
		if a := <-c.done; a.ID != 7 {
			t.Errorf("the answer is %+v, want that of operation 7", a)
		}
		if synctest.Wait(); len(c.turn) != 0 {
			t.Error("an operation has its answer, and the next may not begin")
		}
	})
}
