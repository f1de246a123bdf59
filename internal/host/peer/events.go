package peer

import (
	"sync"
)

// events runs callbacks one after the other on a goroutine of its own, so that
// neither a sender nor a stream waits for them. Each remote adds a few at most
// per connection, so the queue stays short.
type events struct {
	mu     sync.Mutex
	queue  []func()
	closed bool
	wake   chan struct{}
}

func newEvents() *events { return &events{wake: make(chan struct{}, 1)} }

func (e *events) add(f func()) {
	e.mu.Lock()
	e.queue = append(e.queue, f)
	e.mu.Unlock()
	nudge(e.wake)
}

func (e *events) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	nudge(e.wake)
}

func (e *events) run() {
	for range e.wake {
		e.mu.Lock()
		queue, closed := e.queue, e.closed
		e.queue = nil
		e.mu.Unlock()
		if closed {
			return
		}
		for _, f := range queue {
			f()
		}
	}
}

// nudge wakes the receiver of a channel with room for one.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
