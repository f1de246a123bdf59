package cli

import (
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress: the line is drawn anew ten times a second at most, and taken away. A file that is no
// terminal gets none.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p := NewProgress(w, 10, "worlds")
		p.Show(1, 0)
		p.Clear()
		p.terminal = w
		for _, show := range []struct {
			after time.Duration
			done  int
		}{{time.Second, 2}, {100*time.Millisecond - 1, 3}, {1, 4}, {99 * time.Millisecond, 5}} {
			time.Sleep(show.after)
			p.Show(show.done, 0)
		}
		p.Clear()
		w.Close()
		shown, err := io.ReadAll(r)
		const line = "\r\x1b[K"
		const want = line + "2 of 10 worlds, 2.0/s, 4s left" + line + "4 of 10 worlds, 3.6/s, 2s left" + line
		if err != nil || string(shown) != want {
			t.Errorf("shown is %q, %v; want %q", shown, err, want)
		}
	})
}

// The floor is a sixteenth of the memory at most, and an operator's own settings of the collector stand.
func TestHeapFloor(t *testing.T) {
	for _, tt := range []struct {
		collector, limit string
		memory           int64
		want             int
	}{{"", "", 0, HeapFloorBytes}, {"", "", 1 << 40, HeapFloorBytes}, {"", "", 256 << 20, 16 << 20}, {"50", "", 0, 0}, {"", "1GiB", 1 << 40, 0}} {
		t.Setenv("GOGC", tt.collector)
		t.Setenv("GOMEMLIMIT", tt.limit)
		if got := len(HeapFloor(tt.memory)); got != tt.want {
			t.Errorf("with GOGC=%s, GOMEMLIMIT=%s and %d bytes of memory the floor is %d bytes, want %d", tt.collector, tt.limit, tt.memory, got, tt.want)
		}
	}
}

func TestProgressLine(t *testing.T) {
	for _, tc := range []struct {
		done, failures int
		want           string
	}{
		{0, 0, "0 of 100 worlds, 0.0/s"},
		{20, 0, "20 of 100 worlds, 2.0/s, 40s left"},
		{100, 3, "100 of 100 worlds, 10.0/s, 0s left, 3 with a violation"},
	} {
		if got := progressLine("worlds", tc.done, 100, tc.failures, 10*time.Second); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
