package leasetest

import (
	"context"
	"sync"
	"time"
)

// line is the way from a memoryLeaser to its store.
type line struct {
	mu    sync.Mutex
	open  chan struct{} // closed while traffic passes; nil means the same
	delay time.Duration
}

func (n *line) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open == nil {
		n.open = make(chan struct{})
	}
}

func (n *line) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open != nil {
		close(n.open)
		n.open = nil
	}
}

func (n *line) lag(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

// call runs f at the store when the line lets it through, and returns when the
// answer is here. If ctx ends before that, f may still run, as in any network.
func (n *line) call(ctx context.Context, f func()) error {
	answer := make(chan struct{})
	go func() {
		n.mu.Lock()
		open, delay := n.open, n.delay
		n.mu.Unlock()
		if open != nil {
			select {
			case <-open:
			case <-ctx.Done():
				return
			}
		}
		f()
		if delay > 0 {
			select {
			case <-time.After(delay):
			case <-ctx.Done():
			}
		}
		close(answer)
	}()
	select {
	case <-answer:
		return ctx.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
