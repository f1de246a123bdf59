package tenure_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/leasetest"
)

func election(l tenure.Leaser, who string) tenure.Election {
	return tenure.Election{Leaser: l, Claim: tenure.Claim{Name: "n", Holder: who, TTL: ttl}}
}

func TestElection(t *testing.T) {
	bubble(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		a, b := election(l, "a"), election(l, "b")
		if _, err := a.Leader(t.Context()); err != tenure.ErrNoLeader {
			t.Errorf("before the election Leader returns %v, want %v", err, tenure.ErrNoLeader)
		}
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		observed := make(chan struct{})
		go func() {
			defer close(observed)
			for leader, err := range a.Observe(ctx) {
				if err != nil {
					t.Error(err)
				}
				seen = append(seen, leader.Holder)
			}
		}()
		for _, e := range []tenure.Election{a, b, a} {
			lease, err := e.Campaign(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leader, err := a.Leader(t.Context())
			if err != nil || leader.Holder != e.Claim.Holder || leader.Token != lease.Token() {
				t.Errorf("leader is %+v, %v; want %s with token %d", leader, err, e.Claim.Holder, lease.Token())
			}
			time.Sleep(2 * time.Second) // so that the observer, who looks each second, sees it
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		cancel()
		<-observed
		if want := []string{"a", "b", "a"}; !slices.Equal(seen, want) {
			t.Errorf("observed %q, want %q", seen, want)
		}
	})
}

// TestLead: who loses leadership campaigns again, after its work has returned.
func TestLead(t *testing.T) {
	bubble(t, func(t *testing.T, store *leasetest.Memory, fix leasetest.Fixture) {
		l, m := store.Open(), store.Open()
		defer l.Close()
		defer m.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var reigns atomic.Int32
		first := make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- election(l, "a").Lead(ctx, func(ctx context.Context, lease tenure.Lease) error {
				if reigns.Add(1) == 1 {
					close(first)
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		<-first
		fix.Cut(l)
		lease, err := election(m, "b").Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fix.Heal(l)
		synctest.Wait()
		if n := reigns.Load(); n != 1 {
			t.Errorf("%d reigns while another leads, want 1", n)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(ttl)
		if n := reigns.Load(); n != 2 {
			t.Errorf("%d reigns after the other resigned, want 2", n)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Lead returns %v, want %v", err, context.Canceled)
		}
	})
}
