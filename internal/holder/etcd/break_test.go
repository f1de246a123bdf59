package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
)

// TestBreak: a tenure that is broken is another's at once, whatever its lock delay, and its holder hears
// of it. A newer tenure than the one that was seen stays, and so does one beside it.
func TestBreak(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := endpoint(t)
	old, l := open(t, server), open(t, server)
	hold := func(c tenure.Claim) tenure.Lease {
		t.Helper()
		x, err := old.TryAcquire(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	seen := func(name string) []tenure.Holding {
		t.Helper()
		s, err := l.Observe(ctx, name)
		if err != nil || len(s.Holders) == 0 {
			t.Fatalf("%q: %+v, %v", name, s, err)
		}
		return s.Holders
	}
	broken := hold(tenure.Claim{Name: "x", LockDelay: time.Hour})
	first := seen("x")
	if err := l.Break(ctx, "x", first); err != nil {
		t.Fatal(err)
	}
	newer := hold(tenure.Claim{Name: "x"})
	select {
	case <-broken.Done():
	case <-ctx.Done():
	}
	if !errors.Is(broken.Err(), tenure.ErrLost) || newer.Token() <= broken.Token() {
		t.Errorf("the broken tenure, of token %d, ends with %v, want it lost; the next has token %d", broken.Token(), broken.Err(), newer.Token())
	}
	if err := l.Break(ctx, "x", first); err != nil {
		t.Errorf("break of a tenure that has ended: %v", err)
	}
	if got := seen("x"); got[0].Token != newer.Token() {
		t.Errorf("a newer tenure was broken, too: %+v", got)
	}
	one, two := hold(tenure.Claim{Name: "s", Slots: 2}), hold(tenure.Claim{Name: "s", Slots: 2})
	if err := l.Break(ctx, "s", seen("s")[:1]); err != nil {
		t.Fatal(err)
	}
	if got := seen("s"); len(got) != 1 || got[0].Token != two.Token() {
		t.Errorf("of tenures %d and %d the first was broken, and %+v holds", one.Token(), two.Token(), got)
	}
}
