package watch

import "testing"

// Streams, and the events that wait and that were sent, are counted, whether they come live or from the log.
func TestStats(t *testing.T) {
	w := newWorld(t, Config{MaxStreamEvents: 2})
	counted := func(what string, streams int, pending int64, events uint64) {
		t.Helper()
		w.settle()
		if got := w.hub.Stats(); got.Streams != streams || got.Pending != pending || got.Events != events {
			t.Errorf("%s: there are %+v, want %d streams, %d events that wait and %d that were sent", what, got, streams, pending, events)
		}
	}
	one, other := w.stream(), w.stream()
	create(t, one, watch("a", "", 0))
	create(t, other, watch("a", "", 0))
	want(t, one, "0:created@1")
	want(t, other, "0:created@1")
	counted("before any event", 2, 0, 0)
	w.put("a")
	counted("an event for two", 2, 2, 0)
	want(t, one, "0:put a@2")
	counted("one of them sent", 2, 1, 1)
	w.put("a", "a", "a") // more than fit
	w.settle()
	want(t, one, "0:put a@3,put a@4,put a@5")
	counted("events from the log", 2, 1, 4)
	other.Close()
	other.Close()
	counted("a stream less", 1, 0, 4)
}
