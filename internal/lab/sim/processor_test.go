package sim

import (
	"slices"
	"testing"
	"time"
)

// A processor does one thing at a time, a machine's work first; a crash cancels the rest,
// and the next life starts afresh.
func TestProcessor(t *testing.T) {
	w := NewWorld(1)
	h := newHost(w, nil, 1, 0)
	var did []string
	work := func(name string) func() (time.Duration, func()) {
		return func() (time.Duration, func()) {
			return time.Second, func() { did = append(did, name) }
		}
	}
	h.Work(work("takes no time"))
	h.Processor = &Processor{}
	h.Serve(work("first"))
	h.Serve(work("third"))
	h.Work(work("second"))
	w.Run(3500 * time.Millisecond)
	h.Serve(work("is overtaken"))
	h.Serve(work("waits for it"))
	w.Run(time.Second / 2)
	h.Crash()
	h.Serve(work("after the crash"))
	w.Run(5 * time.Second)
	if want := []string{"takes no time", "first", "second", "third", "after the crash"}; !slices.Equal(did, want) {
		t.Errorf("it did %q, want %q", did, want)
	}
	if got := h.Processor.Worked(); got != 5*time.Second {
		t.Errorf("it has worked for %v, want the 5 s of what it ended or lost", got)
	}
}
