package clock

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// slice is how long a sliceWaiter trusts a timer that may stop during suspend.
const slice = 250 * time.Millisecond

// sliceWaiter waits without help from the kernel: it never sleeps for long.
type sliceWaiter struct {
	armed chan machine.Mono // the newest reading to wait for; capacity 1
	at    machine.Mono
	now   func() machine.Mono
}

func newSliceWaiter() *sliceWaiter {
	return &sliceWaiter{armed: make(chan machine.Mono, 1), now: now}
}

func (w *sliceWaiter) arm(at machine.Mono) {
	select {
	case <-w.armed:
	default:
	}
	w.armed <- at
}

func (w *sliceWaiter) wait() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case w.at = <-w.armed:
		case <-timer.C:
		}
		left := w.at.Sub(w.now())
		if left <= 0 {
			return
		}
		timer.Reset(min(left, slice))
	}
}
