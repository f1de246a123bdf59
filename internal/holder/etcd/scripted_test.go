package etcd

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// TestWhatIsObserved: keys that are in no queue count neither as holders nor as waiting, and a
// holder's token is the revision at which its key was made, even if the key was written since.
func TestWhatIsObserved(t *testing.T) {
	queue := queueOf(5, 6, 8)
	queue[0].ModRevision = 9
	stranger := &mvccpb.KeyValue{Key: []byte("n/config"), CreateRevision: 3, Value: []byte("x")}
	c := &scripted{queue: append([]*mvccpb.KeyValue{stranger}, queue...)}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		s, err := l.Observe(t.Context(), "n")
		if err != nil || len(s.Holders) != 1 || s.Waiting != 2 || s.Name != "n" {
			t.Fatalf("observed %+v, %v; want a holder, and two that wait", s, err)
		}
		if h, until := s.Holders[0], time.Now().Add(time.Minute); h.Token != 5 || h.Holder != "h" || h.Slots != 1 || !h.Until.Equal(until) {
			t.Errorf("the holder is %+v, want h with token 5, of one slot, until %v", h, until)
		}
	})
}

// TestCloseEndsAnAwait: a caller that awaits a change that does not come is told that the Leaser was closed.
func TestCloseEndsAnAwait(t *testing.T) {
	scriptedTest(t, &scripted{}, func(t *testing.T, l *Leaser) {
		ended := make(chan error, 1)
		go func() {
			_, err := l.Await(t.Context(), tenure.State{Name: "n"})
			ended <- err
		}()
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("a call that awaits a change returns %v, want %v", err, tenure.ErrClosed)
		}
	})
}

// TestHeldNamesTheFirst: of several holders the one that came first is named, and until when it holds.
func TestHeldNamesTheFirst(t *testing.T) {
	until := time.Unix(100, 0)
	got := held(tenure.State{Name: "n", Holders: []tenure.Holding{{Holder: "first", Until: until}, {Holder: "second", Until: until.Add(1)}}})
	if want := (tenure.HeldError{Name: "n", Holder: "first", Until: until}); got != want {
		t.Errorf("held: %+v, want %+v", got, want)
	}
}

// TestALateAnswerAndTheNextRenewal: an answer that comes after later attempts counts from when it
// was asked for, and has no other attempt sent sooner than a ninth after the last.
func TestALateAnswerAndTheNextRenewal(t *testing.T) {
	for _, tt := range []struct{ answered, next time.Duration }{
		{45 * time.Second, 60 * time.Second}, // asked for at 30 s, and again at 40 s: a third after the first
		{61 * time.Second, 70 * time.Second}, // again at 50 s and 60 s: a ninth after the last
	} {
		keeperTest(t, 0, func(k *keeper, c *clock.Fake, asked chan chan answer) {
			began := c.Now()
			for c.Now().Sub(began) < tt.answered {
				advance(c, time.Second)
			}
			(<-asked) <- answer{90 * time.Second, nil}
			synctest.Wait()
			for before := len(asked); len(asked) == before && c.Now().Sub(began) < 2*time.Minute; {
				advance(c, time.Second)
			}
			if got := c.Now().Sub(began); got != tt.next {
				t.Errorf("the first renewal is answered after %v, and the next sent after %v, want %v", tt.answered, got, tt.next)
			}
		})
	}
}

// TestOpenOfNothing: without an address there is no Leaser, and the error says that it is missing.
func TestOpenOfNothing(t *testing.T) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("Open without an address: %v", p)
		}
	}()
	if l, err := Open(t.Context(), Config{}); l != nil || !errors.Is(err, clientv3.ErrNoAvailableEndpoints) {
		t.Errorf("Open without an address returns %v, %v; want %v", l, err, clientv3.ErrNoAvailableEndpoints)
	}
}

// TestBreakOfWhatEnds: of the tenures that are broken, one whose lease ends meanwhile is no failure, and the
// others are broken still. No other is.
func TestBreakOfWhatEnds(t *testing.T) {
	c := &scripted{queue: queueOf(5, 6, 8)}
	c.revoke = func() error {
		if len(c.revoked) == 1 {
			return rpctypes.ErrLeaseNotFound
		}
		return nil
	}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		if err := l.Break(t.Context(), "n", []tenure.Holding{{Token: 5}, {Token: 8}}); err != nil {
			t.Errorf("break: %v, want none of a tenure that has ended", err)
		}
		if got, want := c.revocations(), []clientv3.LeaseID{5, 8}; !slices.Equal(got, want) {
			t.Errorf("the tenures of leases %v are broken, want %v", got, want)
		}
		if err := l.Break(t.Context(), "n", nil); err != nil || len(c.revocations()) != 2 {
			t.Errorf("break of none: %v, and %v are broken", err, c.revocations())
		}
	})
}
