package flease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
)

// TestGivingUpWaitsUntilItIsSaid: a call whose caller gives up returns when the peer has dropped the
// claim and has told the others. So the next claim does not find it in the queue. If the peer stands
// still, the call returns after a while.
func TestGivingUpWaitsUntilItIsSaid(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		first, second := l.peers[0].Leaser(), l.peers[1].Leaser()
		claim := tenure.Claim{Name: "x", TTL: time.Second}
		l.acquire(first, time.Second, claim)
		for _, goesOn := range []bool{true, false} {
			ctx, giveUp := context.WithCancel(context.Background())
			gaveUp := make(chan error, 1)
			go func() {
				_, err := second.Acquire(ctx, claim)
				gaveUp <- err
			}()
			time.Sleep(100 * time.Millisecond)
			stalled := make(chan struct{})
			l.peers[1].Stall(stalled)
			synctest.Wait()
			giveUp()
			synctest.Wait()
			select {
			case err := <-gaveUp:
				t.Errorf("a caller gives up, and is told so (%v) while its peer has said nothing to the others", err)
				close(stalled)
				return
			default:
			}
			began := time.Now()
			if goesOn {
				close(stalled)
			}
			if err := <-gaveUp; !errors.Is(err, context.Canceled) {
				t.Errorf("a caller gave up, and is told: %v", err)
			}
			if took := time.Since(began); goesOn && took > 0 || took > time.Second {
				t.Errorf("the peer goes on: %v; the caller that gave up hears of it %v later", goesOn, took)
			}
			if !goesOn {
				close(stalled)
			}
		}
	})
}
