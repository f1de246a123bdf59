package fastct_test

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// watcher is a machine whose failure detector watches one other member, with a Timeout of a second.
type watcher struct {
	t   *testing.T
	m   *fastct.Machine
	now int64 // in milliseconds
}

func newWatcher(t *testing.T) *watcher {
	t.Helper()
	m, err := fastct.New(fastct.Config{
		ID: 1, Members: []machine.NodeID{1, 2}, Plain: true, Retry: time.Hour, Heartbeat: 500 * time.Millisecond, Timeout: time.Second,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{t: t, m: m, now: 1 << 40} // clocks begin anywhere
	w.wake()
	return w
}

func (w *watcher) time() machine.Now {
	return machine.Now{Mono: machine.Mono(w.now) * machine.Mono(time.Millisecond)}
}
func (w *watcher) wake() { w.m.Wake(w.time()) }

// hears takes in a sign of life after some milliseconds without any.
func (w *watcher) hears(after int64) {
	w.now += after
	w.m.Receive(w.time(), machine.Envelope{From: 2, To: 1, Body: fastct.Counts{Counts: []uint64{0, 0}}})
}

// patience is for how many milliseconds from now on the other member may be silent before it is suspected.
func (w *watcher) patience() int64 {
	w.t.Helper()
	began := w.now
	for len(w.m.Suspects()) == 0 {
		if w.now-began > 1<<17 {
			w.t.Fatal("a member that is silent is never suspected")
		}
		w.now++
		w.wake()
	}
	return w.now - began - 1
}

// The timeout of a member that was suspected though it lives doubles, up to 64 times the one that was set.
func TestATimeoutThatWasTooShort(t *testing.T) {
	w := newWatcher(t)
	for _, want := range []int64{1000, 2000, 4000, 8000, 16_000, 32_000, 64_000} {
		w.hears(10)
		if got := w.patience(); got != want {
			t.Fatalf("it is suspected after %d ms of silence, want %d", got, want)
		}
	}
	w.hears(10)
	if got := w.patience(); got != 64_000 {
		t.Errorf("a silence of 64 timeouts has made the next one %d ms long, want 64000: such a suspicion was right", got)
	}
}

// A suspicion that the owner has told of was right, and the timeout stays.
func TestATimeoutAfterAWord(t *testing.T) {
	w := newWatcher(t)
	w.hears(10)
	w.patience()
	w.m.Step(w.time(), fastct.Suspect{Node: 2, Suspected: true}) // somebody has seen it end
	w.hears(10)
	if got := w.patience(); got != 1000 {
		t.Errorf("it is suspected after %d ms of silence, want 1000", got)
	}
	w.m.Step(w.time(), fastct.Suspect{Node: 2}) // it lives, and was not heard
	if got := w.m.Suspects(); len(got) > 0 {
		t.Errorf("suspected are %v, though the owner says that it lives", got)
	}
	w.hears(10)
	if got := w.patience(); got != 1000 {
		t.Errorf("after a word that it lives it is suspected after %d ms of silence, want 1000", got)
	}
}

// A timeout that has doubled is halved when 32 timeouts, and twice as many after each mistake, have gone by
// without a silence of more than its half, and gets no shorter than the one that was set.
func TestATimeoutIsHalved(t *testing.T) {
	for name, tt := range map[string]struct {
		mistakes int
		quiet    int64 // how long there is a sign of life each 500 ms
		silence  int64 // of one silence amid that
		want     int64
	}{
		"a short quiet":            {1, 63_000, 500, 2000},
		"a quiet":                  {1, 65_000, 500, 1000},
		"a quiet of long silences": {1, 65_000, 1001, 2000},
		"silences of the half":     {1, 65_000, 1000, 1000},
		"two mistakes":             {2, 65_000, 500, 4000},
		"two, and a longer quiet":  {2, 130_000, 500, 2000},
		"as short as can be":       {0, 130_000, 500, 1000},
		"one, and two quiets":      {1, 130_000, 500, 1000},
	} {
		w := newWatcher(t)
		w.hears(10)
		for range tt.mistakes {
			w.patience()
			w.hears(1)
		}
		for began := w.now; w.now-began < tt.quiet; {
			w.hears(500)
			if w.now-began == 10_000 {
				w.hears(tt.silence)
			}
		}
		if got := w.patience(); got != tt.want {
			t.Errorf("%s: it is suspected after %d ms of silence, want %d", name, got, tt.want)
		}
	}
}
