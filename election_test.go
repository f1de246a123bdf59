package tenure_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
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
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		a, b := election(l, "a"), election(l, "b")
		if _, err := a.Leader(t.Context()); err != tenure.ErrNoLeader {
			t.Errorf("before the election Leader returns %v, want %v", err, tenure.ErrNoLeader)
		}
		seen := make(chan string, 1)
		ctx, cancel := context.WithCancel(t.Context())
		observed := make(chan struct{})
		go func() {
			defer close(observed)
			for leader, err := range a.Observe(ctx) {
				if err != nil {
					t.Error(err)
				}
				seen <- leader.Holder
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
			if got := <-seen; got != e.Claim.Holder {
				t.Errorf("observed %q, want %q", got, e.Claim.Holder)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		cancel()
		<-observed
		if len(seen) > 0 {
			t.Errorf("observed %q once more", <-seen)
		}
	})
}

// TestLead: a leader that loses its lease campaigns again, after its work has returned.
func TestLead(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, fix leasetest.Fixture) {
		l, m := store.Open(), store.Open()
		defer l.Close()
		defer m.Close()
		ctx, cancel := context.WithCancel(t.Context())
		leaderships := make(chan uint64, 10) // their tokens
		ended := make(chan error)
		go func() {
			ended <- election(l, "a").Lead(ctx, func(ctx context.Context, lease tenure.Lease) error {
				leaderships <- lease.Token()
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		first := <-leaderships
		fix.Cut(l)
		lease, err := election(m, "b").Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fix.Heal(l)
		synctest.Wait()
		if n := len(leaderships); n != 0 {
			t.Errorf("led %d more times while another leads, want none", n)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		select {
		case second := <-leaderships:
			if second <= lease.Token() || lease.Token() <= first {
				t.Errorf("leaders with tokens %d, %d, %d; want them to grow", first, lease.Token(), second)
			}
		case err := <-ended:
			cancel()
			t.Fatalf("Lead returns %v when its lease is lost, want it to campaign again", err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Lead returns %v, want %v", err, context.Canceled)
		}
	})
}

// TestLeadEndsWithAnotherLoss: work that lost a lease of its own, while we lead, has failed.
func TestLeadEndsWithAnotherLoss(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, fix leasetest.Fixture) {
		l, m := store.Open(), store.Open()
		defer l.Close()
		defer m.Close()
		leaderships := 0
		err := election(l, "a").Lead(t.Context(), func(ctx context.Context, leading tenure.Lease) error {
			if leaderships++; leaderships > 1 {
				return errors.New("it leads again")
			}
			return tenure.Do(ctx, m, tenure.Claim{Name: "shard", TTL: ttl}, func(ctx context.Context, lease tenure.Lease) error {
				fix.Cut(m)
				<-lease.Done()
				fix.Heal(m)
				if err := leading.Check(); err != nil {
					t.Errorf("leadership was lost, too: %v", err)
				}
				return context.Cause(ctx)
			})
		})
		if !errors.Is(err, tenure.ErrLost) || leaderships != 1 {
			t.Errorf("Lead returns %v after leading %d times, want %v after 1", err, leaderships, tenure.ErrLost)
		}
	})
}

// TestLeadEndsWithTheWork: work that returns while it leads is done, whatever it returns, and leadership is given up.
func TestLeadEndsWithTheWork(t *testing.T) {
	for _, want := range []error{nil, errors.New("failure")} {
		inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
			l, m := store.Open(), store.Open()
			defer l.Close()
			defer m.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			leaderships := 0
			err := election(l, "a").Lead(ctx, func(context.Context, tenure.Lease) error {
				if leaderships++; leaderships > 1 {
					cancel()
				}
				return want
			})
			if err != want || leaderships != 1 {
				t.Errorf("the work returns %v while it leads, and Lead %v after leading %d times; want that after 1", want, err, leaderships)
			}
			if s, err := m.Observe(t.Context(), "n"); err != nil || len(s.Holders) > 0 {
				t.Errorf("then %+v lead, %v; want nobody", s.Holders, err)
			}
		})
	}
}

// TestLeadWithoutAStore: an election that cannot be held is told, and the work does not begin.
func TestLeadWithoutAStore(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		l.Close()
		err := election(l, "a").Lead(t.Context(), func(context.Context, tenure.Lease) error {
			t.Error("the work runs without a lease")
			return nil
		})
		if !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("Lead returns %v, want %v", err, tenure.ErrClosed)
		}
		if leader, err := election(l, "a").Leader(t.Context()); !errors.Is(err, tenure.ErrClosed) || errors.Is(err, tenure.ErrNoLeader) || leader != (tenure.Holding{}) {
			t.Errorf("Leader returns %+v, %v; want %v, and not that nobody leads", leader, err, tenure.ErrClosed)
		}
	})
}

// TestLeadIsOverAndLost: the caller wants no more, and leadership is lost before the work has
// returned. Lead returns the error of the work, and that the lease was lost before its end.
func TestLeadIsOverAndLost(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, fix leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		ctx, cancel := context.WithCancel(t.Context())
		failure := errors.New("failure")
		err := election(l, "a").Lead(ctx, func(_ context.Context, lease tenure.Lease) error {
			cancel()
			fix.Cut(l)
			<-lease.Done()
			fix.Heal(l)
			return failure
		})
		if !errors.Is(err, failure) || !errors.Is(err, tenure.ErrLost) {
			t.Errorf("Lead returns %v, which hides what the work says: want %v and %v", err, failure, tenure.ErrLost)
		}
	})
}

// TestLeadIsToldToStop: the same cause gets the same answer, as leader and as candidate, whatever the work returns.
func TestLeadIsToldToStop(t *testing.T) {
	shutdown := errors.New("shutdown")
	for _, returned := range []error{nil, errors.New("failure"), context.Canceled} {
		inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
			l, m := store.Open(), store.Open()
			defer l.Close()
			defer m.Close()
			ctx, stop := context.WithCancelCause(t.Context())
			answers := map[string]chan error{"leader": make(chan error, 1), "candidate": make(chan error, 1)}
			led := make(chan struct{})
			go func() {
				answers["leader"] <- election(l, "a").Lead(ctx, func(ctx context.Context, _ tenure.Lease) error {
					close(led)
					<-ctx.Done()
					return returned
				})
			}()
			<-led
			candidacy, withdraw := context.WithCancelCause(t.Context()) // of its own: nobody leads behind the leader
			go func() {
				answers["candidate"] <- election(m, "b").Lead(candidacy, func(context.Context, tenure.Lease) error {
					t.Error("the candidate leads")
					return nil
				})
			}()
			synctest.Wait()
			withdraw(shutdown)
			got := map[string]error{"candidate": <-answers["candidate"]}
			stop(shutdown)
			got["leader"] = <-answers["leader"]
			for of, err := range got {
				if !errors.Is(err, context.Canceled) || !errors.Is(err, shutdown) {
					t.Errorf("the work returns %v, and Lead %v to the %s that is told to stop, want that it wraps %v and %v", returned, err, of, context.Canceled, shutdown)
				}
			}
			if err := got["leader"]; !errors.Is(err, returned) && returned != nil {
				t.Errorf("Lead returns %v, which hides what the work says: want %v", err, returned)
			}
		})
	}
}

// plain hides what a Leaser can do beside what every Leaser can.
type plain struct{ tenure.Leaser }

// TestAwaitLooks: a Leaser that does not notice changes by itself is looked at once a second.
func TestAwaitLooks(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		free, err := l.Observe(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second+time.Second/2)
		defer cancel()
		if s, err := tenure.Await(ctx, plain{l}, free); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nothing changes: %+v, %v; want %v", s, err, context.DeadlineExceeded)
		}
		time.AfterFunc(5*time.Second/2, func() { _, _ = l.Acquire(t.Context(), tenure.Claim{Name: "n", TTL: ttl}) })
		began := time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s, err := tenure.Await(ctx, plain{l}, free)
		if took := time.Since(began); err != nil || len(s.Holders) != 1 || took != 3*time.Second {
			t.Errorf("after %v: %+v, %v; want a holder after 3s", took, s, err)
		}
	})
}

// TestAwaitTellsFailures: a look that fails ends the wait, although it shows the holders of before: none.
func TestAwaitTellsFailures(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for name, l := range map[string]tenure.Leaser{"an Awaiter": l, "another Leaser": plain{l}} {
			if s, err := tenure.Await(ctx, l, tenure.State{Name: "n"}); !errors.Is(err, tenure.ErrClosed) {
				t.Errorf("%s that is closed: %+v, %v; want %v", name, s, err, tenure.ErrClosed)
			}
		}
	})
}

// shows is a Leaser that shows one state after the other.
type shows struct {
	tenure.Leaser
	states []tenure.State
	since  []tenure.State // the State that was awaited from
}

func (s *shows) Observe(context.Context, string) (tenure.State, error) {
	if len(s.states) == 0 {
		return tenure.State{}, tenure.ErrClosed
	}
	now := s.states[0]
	s.states = s.states[1:]
	return now, nil
}

func (s *shows) Await(ctx context.Context, since tenure.State) (tenure.State, error) {
	s.since = append(s.since, since)
	return s.Observe(ctx, since.Name)
}

// TestObserveNeverGoesBack: a store that shows an older state now and then shows no leader again.
func TestObserveNeverGoesBack(t *testing.T) {
	l := &shows{}
	for _, token := range []uint64{5, 3, 5, 0, 5, 7} {
		s := tenure.State{Name: "n"}
		if token > 0 {
			s.Holders = []tenure.Holding{{Holder: "a", Token: token}}
		}
		l.states = append(l.states, s)
	}
	var got []uint64
	for leader, err := range election(l, "b").Observe(t.Context()) {
		if err == nil {
			got = append(got, leader.Token)
		}
	}
	if want := []uint64{5, 7}; !slices.Equal(got, want) {
		t.Errorf("leaders with tokens %d are observed, want %d", got, want)
	}
}

// TestObserveAwaitsWhatItHasNotSeen: an observer waits for other holders than those that were shown last.
func TestObserveAwaitsWhatItHasNotSeen(t *testing.T) {
	states := []tenure.State{{Name: "n", Holders: []tenure.Holding{{Holder: "a", Token: 5}}}, {Name: "n"}, {Name: "n", Holders: []tenure.Holding{{Holder: "b", Token: 7}}}}
	l := &shows{states: slices.Clone(states)}
	for range election(l, "b").Observe(t.Context()) {
	}
	if !reflect.DeepEqual(l.since, states) {
		t.Errorf("shown were %+v, and others were awaited than those of %+v", states, l.since)
	}
}

// TestTheFirstOfSeveralLeads: where the claims of an election share, the one that came first leads, to Leader and to
// Observe alike.
func TestTheFirstOfSeveralLeads(t *testing.T) {
	first, second := tenure.Holding{Holder: "a", Token: 5, Slots: 2}, tenure.Holding{Holder: "b", Token: 7, Slots: 2}
	both := tenure.State{Name: "n", Holders: []tenure.Holding{first, second}}
	if got, err := election(&shows{states: []tenure.State{both}}, "c").Leader(t.Context()); err != nil || got != first {
		t.Errorf("Leader returns %+v, %v; want the one that came first: %+v", got, err, first)
	}
	var got []tenure.Holding
	for leader, err := range election(&shows{states: []tenure.State{both, both}}, "c").Observe(t.Context()) {
		if err == nil {
			got = append(got, leader)
		}
	}
	if !slices.Equal(got, []tenure.Holding{first}) {
		t.Errorf("Observe yields %+v, want the one that came first: %+v", got, first)
	}
}

// TestObserveEndsWithAnError: it is yielded once, and nothing after it.
func TestObserveEndsWithAnError(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		l.Close()
		var errs []error
		for leader, err := range election(l, "a").Observe(t.Context()) {
			if errs = append(errs, err); leader.Token != 0 || len(errs) > 1 {
				break
			}
		}
		if len(errs) != 1 || !errors.Is(errs[0], tenure.ErrClosed) {
			t.Errorf("a Leaser that is closed shows %v, want %v once", errs, tenure.ErrClosed)
		}
	})
}

// TestSameHolders: a tenure is told by its token, for a holder may come back.
func TestSameHolders(t *testing.T) {
	state := func(holders ...tenure.Holding) tenure.State { return tenure.State{Name: "n", Holders: holders} }
	a, b := tenure.Holding{Holder: "a", Token: 1}, tenure.Holding{Holder: "b", Token: 2}
	for _, tc := range []struct {
		name string
		x, y tenure.State
		want bool
	}{
		{"nobody", state(), state(), true},
		{"one, and others wait", state(a), tenure.State{Holders: []tenure.Holding{a}, Waiting: 3}, true},
		{"a candidate that has renewed", state(a), state(tenure.Holding{Holder: "a", Token: 1, Until: time.Unix(1, 0)}), true},
		{"a candidate that has come back", state(a), state(tenure.Holding{Holder: "a", Token: 3}), false},
		{"another", state(a), state(b), false},
		{"one more", state(a), state(a, b), false},
		{"the one who came first has left", state(a, b), state(b), false},
	} {
		if got := tenure.SameHolders(tc.x, tc.y); got != tc.want {
			t.Errorf("%s: the same is %v, want %v", tc.name, got, tc.want)
		}
	}
}
