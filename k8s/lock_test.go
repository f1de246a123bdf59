package k8s

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/leasetest"
)

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	takeOver      = 5 * time.Second // a try comes at latest after 2.2 retry periods
)

// history is what several candidates did, in order.
type history struct {
	mu     sync.Mutex
	events []event
}

type event struct {
	by, what string // leads, is told, returns, stopped
	at       time.Time
	token    uint64
	cause    error
}

func (h *history) add(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.at = time.Now()
	h.events = append(h.events, e)
}

// find returns the n-th event of a kind, from 1.
func (h *history) find(t *testing.T, by, what string, n int) event {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.by == by && e.what == what {
			if n--; n == 0 {
				return e
			}
		}
	}
	t.Fatalf("%s never %s, but %+v", by, what, h.events)
	return event{}
}

func (h *history) has(by, what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.by == by && e.what == what {
			return true
		}
	}
	return false
}

// candidate is one with an elector.
type candidate struct {
	lock    *Lock
	elector *leaderelection.LeaderElector
	stop    context.CancelFunc // ends its elector
	ended   chan struct{}
}

type options struct {
	config  Config
	bare    bool // without Guard
	release bool
	work    func(ctx context.Context)
	lease   time.Duration
	renew   time.Duration
	retry   time.Duration
}

// elected runs an elector with work that returns when it is told.
func elected(t *testing.T, h *history, leaser tenure.Leaser, id string, o options) *candidate {
	t.Helper()
	if o.config.Name == "" {
		o.config.Name = "election"
	}
	if o.config.Identity == "" {
		o.config.Identity = id
	}
	if o.lease == 0 {
		o.lease, o.renew, o.retry = leaseDuration, renewDeadline, retryPeriod
	}
	c := &candidate{lock: NewLock(leaser, o.config)}
	callbacks := leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			e := event{by: id, what: "leads"}
			if lease, ok := LeaseFrom(ctx); ok {
				e.token = lease.Token()
			}
			h.add(e)
			<-ctx.Done()
			h.add(event{by: id, what: "is told", cause: context.Cause(ctx)})
			if o.work != nil {
				o.work(ctx)
			}
			h.add(event{by: id, what: "returns"})
		},
		OnStoppedLeading: func() { h.add(event{by: id, what: "stopped"}) },
	}
	if !o.bare {
		callbacks = c.lock.Guard(callbacks)
	}
	var err error
	c.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c.lock, LeaseDuration: o.lease, RenewDeadline: o.renew, RetryPeriod: o.retry,
		ReleaseOnCancel: o.release, Callbacks: callbacks,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.run(t)
	return c
}

func (c *candidate) run(t *testing.T) {
	var ctx context.Context
	ctx, c.stop = context.WithCancel(t.Context())
	ended := make(chan struct{})
	c.ended = ended
	go func() {
		defer close(ended)
		c.elector.Run(ctx)
	}()
}

// end stops candidates and waits for them.
func end(candidates ...*candidate) {
	for _, c := range candidates {
		c.stop()
	}
	for _, c := range candidates {
		<-c.ended
	}
}

// bubble runs a test in simulated time over two processes with a store that can be cut off.
func bubble(t *testing.T, test func(t *testing.T, f leasetest.Fixture, a, b tenure.Leaser, h *history)) {
	synctest.Test(t, func(t *testing.T) {
		f := leasetest.NewMemory().Fixture(leaseDuration)
		var both [2]tenure.Leaser
		for i := range both {
			var err error
			if both[i], err = f.Open(); err != nil {
				t.Fatal(err)
			}
		}
		test(t, f, both[0], both[1], &history{})
		for _, l := range both {
			f.Heal(l)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
	})
}

// One of two candidates leads, for longer than any lease lasts. When it ends, the other leads as soon as its
// work has returned, whatever ReleaseOnCancel says, and with a greater token.
func TestTwoCandidates(t *testing.T) {
	for _, release := range []bool{false, true} {
		bubble(t, func(t *testing.T, f leasetest.Fixture, a, b tenure.Leaser, h *history) {
			const slow = 5 * time.Second
			first := elected(t, h, a, "a", options{release: release, work: func(context.Context) { time.Sleep(slow) }})
			time.Sleep(time.Second)
			second := elected(t, h, b, "b", options{release: release})
			time.Sleep(10 * leaseDuration)
			if h.has("b", "leads") || !first.elector.IsLeader() || second.elector.GetLeader() != "a" {
				t.Fatalf("after a while b leads: %v, and takes %q for the leader", h.has("b", "leads"), second.elector.GetLeader())
			}
			if first.lock.Lease() == nil || second.lock.Lease() != nil {
				t.Error("the lease is not at the leader")
			}
			end(first)
			time.Sleep(slow + takeOver)
			end(second)
			returned, stopped, leads := h.find(t, "a", "returns", 1), h.find(t, "a", "stopped", 1), h.find(t, "b", "leads", 1)
			if leads.at.Before(returned.at) || leads.at.Sub(returned.at) > takeOver {
				t.Errorf("b leads %v after the work of a returned", leads.at.Sub(returned.at))
			}
			if stopped.at.Before(returned.at) {
				t.Error("a is told that it has stopped before its work returned")
			}
			if leads.token <= h.find(t, "a", "leads", 1).token {
				t.Errorf("the token of b is %d", leads.token)
			}
		})
	}
}

// A leader that the store has not heard of for the lease's time is told of its end before another leads, and leads
// again only once its elector has stopped.
func TestHungLeader(t *testing.T) {
	bubble(t, func(t *testing.T, f leasetest.Fixture, a, b tenure.Leaser, h *history) {
		var lost []error
		first := elected(t, h, a, "a", options{config: Config{OnLost: func(err error) { lost = append(lost, err) }}})
		time.Sleep(time.Second)
		second := elected(t, h, b, "b", options{})
		time.Sleep(time.Minute)
		f.Cut(a)
		time.Sleep(leaseDuration + takeOver)
		told, leads := h.find(t, "a", "is told", 1), h.find(t, "b", "leads", 1)
		if !errors.Is(told.cause, tenure.ErrLost) {
			t.Errorf("a was told %v", told.cause)
		}
		if !told.at.Before(leads.at) {
			t.Errorf("b leads %v before a is told of its end", told.at.Sub(leads.at))
		}
		// The store is back, and free, while the elector of a still tries to renew.
		end(second)
		f.Heal(a)
		if h.has("a", "stopped") {
			t.Fatal("the elector of a has stopped already")
		}
		time.Sleep(2 * leaseDuration)
		if first.lock.Lease() != nil || !h.has("a", "stopped") {
			t.Error("the elector of a went on with another lease, and its work was over")
		}
		end(first)
		if len(lost) != 1 || !errors.Is(lost[0], tenure.ErrLost) {
			t.Errorf("the loss was told as %v", lost)
		}
		first.run(t)
		time.Sleep(takeOver)
		if again := h.find(t, "a", "leads", 2); again.token <= leads.token {
			t.Errorf("a leads again with the token %d", again.token)
		}
		end(first)
	})
}

// Nobody leads beside work that does not return.
func TestWorkThatDoesNotReturn(t *testing.T) {
	bubble(t, func(t *testing.T, f leasetest.Fixture, a, b tenure.Leaser, h *history) {
		done := make(chan struct{})
		first := elected(t, h, a, "a", options{release: true, work: func(context.Context) { <-done }})
		time.Sleep(time.Second)
		second := elected(t, h, b, "b", options{})
		stopping := time.Now()
		end(first)
		if waited := time.Since(stopping); waited != DefaultGrace {
			t.Errorf("a was told after %v that it has stopped, want %v", waited, DefaultGrace)
		}
		first.run(t) // and the work of its last term still runs
		time.Sleep(time.Hour)
		if h.has("b", "leads") {
			t.Fatal("b leads beside the work of a")
		}
		end(first)
		close(done)
		time.Sleep(takeOver)
		h.find(t, "b", "leads", 1)
		end(second)
	})
}

// An elector that gives up a lease in the moment of its loss makes no way for another while the work runs.
func TestLostWhileItIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, f leasetest.Fixture, a, b tenure.Leaser, h *history) {
		done := make(chan struct{})
		first := elected(t, h, a, "a", options{work: func(context.Context) { <-done }})
		time.Sleep(time.Minute)
		f.Cut(a)
		time.Sleep(leaseDuration)
		f.Heal(a)
		if err := first.lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
			t.Error(err)
		}
		end(first)
		first.run(t)
		time.Sleep(time.Minute)
		if first.lock.Lease() != nil {
			t.Error("a holds another lease beside its work of the last")
		}
		close(done)
		end(first)
	})
}

// Two candidates with one identity are two.
func TestTwins(t *testing.T) {
	bubble(t, func(t *testing.T, f leasetest.Fixture, a, b tenure.Leaser, h *history) {
		first := elected(t, h, a, "a", options{config: Config{Identity: "same"}})
		time.Sleep(time.Second)
		second := elected(t, h, b, "b", options{config: Config{Identity: "same"}})
		time.Sleep(time.Minute)
		if h.has("b", "leads") || second.elector.IsLeader() {
			t.Errorf("the second leads beside the first, or takes itself for the leader: it sees %q", second.elector.GetLeader())
		}
		end(second, first)
	})
}

// Without Guard an elector ends by itself before another may lead.
func TestBareElectorEndsInTime(t *testing.T) {
	for cut := range 12 { // at any time between two renewals
		bubble(t, func(t *testing.T, f leasetest.Fixture, a, b tenure.Leaser, h *history) {
			var lost []error
			first := elected(t, h, a, "a", options{bare: true, config: Config{OnLost: func(err error) { lost = append(lost, err) }}})
			time.Sleep(time.Second)
			second := elected(t, h, b, "b", options{bare: true})
			time.Sleep(time.Minute + time.Duration(cut)*450*time.Millisecond)
			f.Cut(a)
			time.Sleep(3 * leaseDuration)
			stopped, leads := h.find(t, "a", "stopped", 1), h.find(t, "b", "leads", 1)
			if !stopped.at.Before(leads.at) {
				t.Errorf("b leads %v before the elector of a has stopped", stopped.at.Sub(leads.at))
			}
			f.Heal(a)
			end(first)
			first.run(t) // nobody has told the lock that all is over
			end(second)
			time.Sleep(time.Minute)
			if first.lock.Lease() != nil || len(lost) != 1 {
				t.Errorf("a lock that has lost its lease, and told so by %v, takes another", lost)
			}
			end(first)
		})
	}
}

// Without Guard, the lease goes with the elector: at once if that says so, else when it has been silent for
// long enough.
func TestBareElectorStops(t *testing.T) {
	for _, release := range []bool{true, false} {
		bubble(t, func(t *testing.T, f leasetest.Fixture, a, b tenure.Leaser, h *history) {
			var lost []error
			first := elected(t, h, a, "a", options{bare: true, release: release, config: Config{OnLost: func(err error) { lost = append(lost, err) }}})
			time.Sleep(time.Second)
			second := elected(t, h, b, "b", options{bare: true, release: true})
			time.Sleep(time.Minute)
			if h.has("b", "leads") {
				t.Fatal("b leads beside a, whose elector lives")
			}
			end(first)
			time.Sleep(leaseDuration + takeOver)
			passed := h.find(t, "b", "leads", 1).at.Sub(h.find(t, "a", "stopped", 1).at)
			if release && (passed > takeOver || len(lost) > 0) || !release && (passed < leaseDuration-retryPeriod-time.Second || len(lost) != 1) {
				t.Errorf("with ReleaseOnCancel %v, b leads %v after a has stopped, and a was told %v", release, passed, lost)
			}
			end(second)
			if release {
				first.run(t)
				time.Sleep(takeOver)
				h.find(t, "a", "leads", 2)
				end(first)
			}
		})
	}
}

// A record that cannot be kept is refused in words.
func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, f leasetest.Fixture, a, b tenure.Leaser, h *history) {
		record := resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15}
		short := NewLock(a, Config{Name: "short", Identity: "a", TTL: DefaultGrace})
		if err := short.Create(t.Context(), record); err == nil || !strings.Contains(err.Error(), "give it a longer TTL") {
			t.Errorf("a lease that the elector outlasts: %v", err)
		}
		if state, err := b.Observe(t.Context(), "short"); err != nil || len(state.Holders) != 0 {
			t.Errorf("it is held all the same: %+v, %v", state, err)
		}
		lock := NewLock(a, Config{Name: "election", Identity: "a"})
		coordinated := record
		coordinated.Strategy = "OldestEmulationVersion"
		if err := lock.Create(t.Context(), coordinated); err == nil || !strings.Contains(err.Error(), "Coordinated") {
			t.Errorf("coordinated election: %v", err)
		}
		if err := lock.Create(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if err := lock.Create(t.Context(), record); err == nil {
			t.Error("a second elector took the lock")
		}
		if err := NewLock(b, Config{Name: "election", Identity: "b"}).Create(t.Context(), record); !errors.Is(err, tenure.ErrHeld) {
			t.Errorf("another candidate: %v", err)
		}
		if lock.Describe() != "tenure/election" || lock.Identity() != "a" {
			t.Errorf("it is called %s, %s", lock.Describe(), lock.Identity())
		}
		if _, ok := LeaseFrom(t.Context()); ok {
			t.Error("any context has a lease")
		}
	})
}
