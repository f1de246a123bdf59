package flease

import (
	"testing"
	"testing/synctest"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// TestAwaitGoesByLaterLooks: a look that had begun before an Await may be older than the state that
// its caller knows, so its result is no news. That of the next one is.
func TestAwaitGoesByLaterLooks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		state := func(token uint64) tenure.State {
			return tenure.State{Name: "x", Holders: []tenure.Holding{{Token: token}}}
		}
		p := barePeer(t, Config{})
		// Another caller awaits the name, and a third look is under way.
		w := &watch{kick: make(chan struct{}, 1), changed: make(chan struct{}), refs: 1, begun: 3, seen: 2, state: state(6)}
		p.watches = map[string]*watch{"x": w}
		seen := func(n uint64, s tenure.State) {
			p.mu.Lock()
			defer p.mu.Unlock()
			w.begun, w.seen, w.state = max(w.begun, n), n, s
			close(w.changed)
			w.changed = make(chan struct{})
		}
		got := make(chan tenure.State, 1)
		go func() {
			s, err := p.Leaser().Await(t.Context(), state(7))
			if err != nil {
				t.Error(err)
			}
			got <- s
		}()
		news := func() (s tenure.State, ok bool) {
			synctest.Wait()
			select {
			case s = <-got:
				return s, true
			default:
				return s, false
			}
		}
		if s, ok := news(); ok {
			t.Fatalf("a look that had ended before shows %+v, and is taken for news", s)
		}
		if len(w.kick) != 1 || w.refs != 2 {
			t.Errorf("a caller has come: the next look is at once: %v, for %d callers, want 2", len(w.kick) == 1, w.refs)
		}
		seen(3, state(6))
		if s, ok := news(); ok {
			t.Fatalf("a look that had begun before shows %+v, and is taken for news", s)
		}
		seen(4, state(7))
		if s, ok := news(); ok {
			t.Fatalf("the holders are those that are known, and %+v is taken for news", s)
		}
		seen(5, state(8))
		if s, ok := news(); !ok || s.Holders[0].Token != 8 {
			t.Errorf("token 8 holds instead of 7, and that is told: %v, %+v", ok, s)
		}
		if w.refs != 1 || p.watches["x"] != w {
			t.Errorf("of two callers one has gone; %d are left, and the name is looked at: %v", w.refs, p.watches["x"] == w)
		}
	})
}
