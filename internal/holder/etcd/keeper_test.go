package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

// renewals is a scripted server: each renewal waits for its answer.
type renewals struct {
	asked chan chan answer
}

type answer struct {
	ttl time.Duration
	err error
}

func (r renewals) renew(ctx context.Context) (time.Duration, error) {
	reply := make(chan answer, 1)
	r.asked <- reply
	select {
	case a := <-reply:
		return a.ttl, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// keeperTest runs f in a bubble, with a keeper of 90 s whose clock is the test's.
func keeperTest(t *testing.T, delay time.Duration, f func(k *keeper, c *clock.Fake, asked chan chan answer)) {
	bubble.Test(t, func(t *testing.T) {
		var c clock.Fake
		c.Advance(time.Hour)
		r := renewals{asked: make(chan chan answer, 100)}
		k := newKeeper(&holder.Clocks{Mono: &c}, tenure.Claim{LockDelay: delay}, c.Now(), 90*time.Second, r.renew)
		synctest.Wait()
		f(k, &c, r.asked)
		k.End(tenure.ErrReleased)
	})
}

func advance(c *clock.Fake, d time.Duration) {
	c.Advance(d)
	synctest.Wait()
}

func TestKeeperRenewsAtAThird(t *testing.T) {
	keeperTest(t, 0, func(k *keeper, c *clock.Fake, asked chan chan answer) {
		first := until(k)
		advance(c, 30*time.Second-1)
		if len(asked) != 0 {
			t.Fatalf("%d renewals before a third of the TTL", len(asked))
		}
		advance(c, 1)
		if len(asked) != 1 {
			t.Fatalf("%d renewals after a third of the TTL, want 1", len(asked))
		}
		advance(c, 5*time.Second) // the answer takes a while, and does not count
		(<-asked) <- answer{90 * time.Second, nil}
		synctest.Wait()
		if moved := until(k).Sub(first); moved != 30*time.Second {
			t.Errorf("the deadline moved by %v, want 30s: from send to send", moved)
		}
		advance(c, 25*time.Second)
		if len(asked) != 1 {
			t.Errorf("%d renewals a third of the TTL after the last was sent, want 1", len(asked))
		}
	})
}

// The first term counts from when it was asked for, however long the answer took.
func TestKeeperCountsFromTheRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var c clock.Fake
		c.Advance(time.Hour)
		sent := c.Now()
		c.Advance(20 * time.Second) // which the answer took
		r := renewals{asked: make(chan chan answer, 100)}
		k := newKeeper(&holder.Clocks{Mono: &c}, tenure.Claim{LockDelay: 30 * time.Second}, sent, 90*time.Second, r.renew)
		defer k.End(tenure.ErrReleased)
		synctest.Wait()
		if left, want := k.Left(), 60*time.Second-600*time.Millisecond-20*time.Second; left != want {
			t.Errorf("granted by a request of 20 s ago, it lasts for %v more, want %v", left, want)
		}
		if len(r.asked) != 1 {
			t.Errorf("a third of the term after it was asked for there are %d renewals, want 1", len(r.asked))
		}
	})
}

func TestKeeperDeadline(t *testing.T) {
	keeperTest(t, 10*time.Second, func(k *keeper, c *clock.Fake, asked chan chan answer) {
		// 90 s less the lock delay and one percent of the rest for the clocks.
		end := 90*time.Second - 10*time.Second - 800*time.Millisecond
		for range int(end / time.Second) { // in steps, as time does
			advance(c, time.Second)
		}
		advance(c, end%time.Second-1)
		if err := k.Check(); err != nil {
			t.Fatalf("a nanosecond before its deadline: %v", err)
		}
		select {
		case <-k.Done():
			t.Fatal("Done is closed before the deadline")
		default:
		}
		advance(c, 1)
		select {
		case <-k.Done():
		default:
			t.Fatal("Done is open at the deadline")
		}
		if err := k.Check(); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("Check returns %v, want %v", err, tenure.ErrLost)
		}
		// Attempts: at 80 s / 3, and then each 80 s / 9.
		if got := len(asked); got != 6 {
			t.Errorf("%d renewals were sent, want 6", got)
		}
		// None is sent or accepted afterwards.
		(<-asked) <- answer{90 * time.Second, nil}
		advance(c, time.Hour)
		if err := k.Check(); !errors.Is(err, tenure.ErrLost) || len(asked) != 5 {
			t.Errorf("after a late answer Check returns %v, and %d renewals are open; want it lost, and 5", err, len(asked))
		}
	})
}

// TestKeeperIsAsleep: the machine was suspended, everything rings at once.
func TestKeeperIsAsleep(t *testing.T) {
	keeperTest(t, 0, func(k *keeper, c *clock.Fake, asked chan chan answer) {
		advance(c, 30*time.Second)
		(<-asked) <- answer{90 * time.Second, nil} // arrives during the sleep
		c.Advance(time.Hour)
		if err := k.Check(); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("Check returns %v before any goroutine ran, want %v", err, tenure.ErrLost)
		}
		synctest.Wait()
		if err := k.End(tenure.ErrReleased); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("a release after the sleep returns %v, want %v", err, tenure.ErrLost)
		}
	})
}

func TestKeeperSurvivesFailures(t *testing.T) {
	keeperTest(t, 0, func(k *keeper, c *clock.Fake, asked chan chan answer) {
		advance(c, 30*time.Second)
		(<-asked) <- answer{0, errors.New("connection refused")}
		synctest.Wait()
		advance(c, 10*time.Second)
		stuck := <-asked // gets no answer for now
		advance(c, 10*time.Second)
		(<-asked) <- answer{60 * time.Second, nil} // 50 s: and less is granted
		synctest.Wait()
		want := 50*time.Second + 60*time.Second*99/100
		if got := k.Left() + 50*time.Second; got != max(want, 90*time.Second*99/100) {
			t.Errorf("the deadline is at %v, want %v", got, want)
		}
		// An old answer that comes late moves the deadline from its own send.
		stuck <- answer{90 * time.Second, nil}
		synctest.Wait()
		want = 40*time.Second + 90*time.Second*99/100
		if got := k.Left() + 50*time.Second; got != want {
			t.Errorf("the deadline is at %v, want %v", got, want)
		}
	})
}

func TestKeeperOfUnknownLease(t *testing.T) {
	keeperTest(t, 0, func(k *keeper, c *clock.Fake, asked chan chan answer) {
		advance(c, 30*time.Second)
		(<-asked) <- answer{0, errUnknownLease}
		synctest.Wait()
		if err := k.Check(); !errors.Is(err, tenure.ErrLost) || !errors.Is(err, errUnknownLease) {
			t.Errorf("Check returns %v, want it lost because of %v", err, errUnknownLease)
		}
	})
}

func TestKeeperSaysWhy(t *testing.T) {
	keeperTest(t, 0, func(k *keeper, c *clock.Fake, asked chan chan answer) {
		refused := errors.New("connection refused")
		for k.ctx.Err() == nil {
			advance(c, 10*time.Second)
			for len(asked) > 0 {
				(<-asked) <- answer{0, refused}
				synctest.Wait()
			}
		}
		if err := k.Check(); !errors.Is(err, tenure.ErrLost) || !errors.Is(err, refused) {
			t.Errorf("Check returns %v, want it lost because of %v", err, refused)
		}
	})
}

// TestKeeperWithLongDelay: the lock delay is no time to renew in, and only the server's clock
// measures it.
func TestKeeperWithLongDelay(t *testing.T) {
	keeperTest(t, 87*time.Second, func(k *keeper, c *clock.Fake, asked chan chan answer) {
		if left := k.Left(); left != 2970*time.Millisecond {
			t.Errorf("the deadline is %v away, want 2.97s", left)
		}
		for range 10 {
			advance(c, time.Second)
			if len(asked) != 1 {
				t.Fatalf("%d renewals a third of the holder's part after the last, want 1", len(asked))
			}
			(<-asked) <- answer{90 * time.Second, nil}
			synctest.Wait()
		}
		if err := k.Check(); err != nil {
			t.Errorf("renewed each second: %v", err)
		}
	})
}

// TestKeeperForgetsOldAttempts: an attempt that gets no answer ends when its answer
// could promise nothing, though the tenure goes on.
func TestKeeperForgetsOldAttempts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var c clock.Fake
		c.Advance(time.Hour)
		ended := make(chan struct{})
		first := true
		k := newKeeper(&holder.Clocks{Mono: &c}, tenure.Claim{}, c.Now(), 90*time.Second, func(ctx context.Context) (time.Duration, error) {
			if !first {
				return 90 * time.Second, nil
			}
			first = false
			defer close(ended)
			<-ctx.Done()
			return 0, ctx.Err()
		})
		synctest.Wait()
		advance(&c, 30*time.Second)
		advance(&c, 10*time.Second) // the second attempt succeeds
		select {
		case <-ended:
		case <-time.After(time.Hour): // of the bubble's
			t.Error("an attempt without an answer is still under way an hour later")
		}
		k.End(tenure.ErrReleased)
	})
}

// TestKeeperRenewsTheHoldersPart: the time that a renewal gets beyond the lock delay is the
// holder's.
func TestKeeperRenewsTheHoldersPart(t *testing.T) {
	keeperTest(t, 60*time.Second, func(k *keeper, c *clock.Fake, asked chan chan answer) {
		advance(c, 10*time.Second)
		(<-asked) <- answer{90 * time.Second, nil}
		synctest.Wait()
		if left := k.Left(); left != 29700*time.Millisecond {
			t.Errorf("after a renewal the deadline is %v away, want 29.7s: the rest is the lock delay", left)
		}
	})
}

// TestKeeperSaysThatNobodyAnswered: a lease that no renewal was answered for, from the first on or
// since the last, was lost for that reason.
func TestKeeperSaysThatNobodyAnswered(t *testing.T) {
	for _, answers := range []int{0, 1} {
		keeperTest(t, 0, func(k *keeper, c *clock.Fake, asked chan chan answer) {
			if answers > 0 {
				advance(c, 30*time.Second)
				(<-asked) <- answer{90 * time.Second, nil}
				synctest.Wait()
			}
			advance(c, 90*time.Second)
			if err := k.Check(); !errors.Is(err, tenure.ErrLost) || !errors.Is(err, errNoAnswer) {
				t.Errorf("after %d answers: Check returns %v, want it lost because of %v", answers, err, errNoAnswer)
			}
		})
	}
}

// TestKeeperGoesByWhatWasGranted: a renewal that is granted less, or more, has the next follow
// after a third of that, and leaves no alarm of before behind.
func TestKeeperGoesByWhatWasGranted(t *testing.T) {
	for _, granted := range []time.Duration{45 * time.Second, 180 * time.Second} {
		keeperTest(t, 0, func(k *keeper, c *clock.Fake, asked chan chan answer) {
			advance(c, 30*time.Second)
			(<-asked) <- answer{granted, nil}
			synctest.Wait()
			if n := c.Waiting(); n != 2 {
				t.Errorf("%d alarms wait, want that of the deadline and that of the next renewal", n)
			}
			advance(c, granted/3-1)
			if len(asked) != 0 {
				t.Errorf("%v were granted: %d renewals before a third of that", granted, len(asked))
			}
			advance(c, 1)
			if len(asked) != 1 {
				t.Errorf("%v were granted: %d renewals after a third of that, want 1", granted, len(asked))
			}
			advance(c, granted/9)
			if len(asked) != 2 {
				t.Errorf("%v were granted: %d renewals a ninth of that later, want 2", granted, len(asked))
			}
		})
	}
}

// TestKeeperIsGrantedNothing: a renewal that leaves no time to the holder, as all of it is the lock
// delay, moves nothing.
func TestKeeperIsGrantedNothing(t *testing.T) {
	for _, granted := range []time.Duration{60 * time.Second, 30 * time.Second, 0} {
		keeperTest(t, 60*time.Second, func(k *keeper, c *clock.Fake, asked chan chan answer) {
			before := until(k)
			advance(c, 10*time.Second)
			(<-asked) <- answer{granted, nil}
			synctest.Wait()
			advance(c, 30*time.Second/9)
			if moved := until(k).Sub(before); moved != 0 || len(asked) != 1 || k.Check() != nil {
				t.Errorf("%v were granted, with a lock delay of a minute: the deadline moved by %v, and %d renewals were sent a ninth later, %v; want 1", granted, moved, len(asked), k.Check())
			}
		})
	}
}

// until is the deadline.
func until(k *keeper) machine.Mono { return k.clock.Now().Add(k.Left()) }
