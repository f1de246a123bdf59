package leasetest

import (
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
)

// waiters is how many wait in a line, and rounds how many such lines there are. Order of
// arrival is a courtesy for some engines, which a pause of the machine may cost: one
// line in order is enough. An engine that lets in at random has one in 40.
const (
	waiters = 5
	rounds  = 3
)

// inOrder lets exclusive claims wait, one after the other, and wants them let in as they came.
func inOrder(b *bench) {
	var got []int
	for range rounds {
		if got = b.line(); slices.IsSorted(got) {
			return
		}
	}
	b.Errorf("in %d queues of %d exclusive waiters some were admitted before earlier ones: the last queue in the order %v", rounds, waiters, got)
}

// line returns the order in which waiters were let in. They came in the order of their
// numbers.
func (b *bench) line() (order []int) {
	l := b.leaser()
	holder := b.acquire(l, b.claim())
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range waiters {
		w := b.leaser()
		all.Go(func() {
			lease, err := w.Acquire(b.ctx, b.claim())
			if err != nil {
				b.Errorf("acquire behind %d others: %v", i, err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			b.release(lease)
		})
		b.waiting(l, b.names, i+1)
	}
	b.release(holder)
	all.Wait()
	return order
}

// waiting returns once so many wait for a name.
func (b *bench) waiting(l tenure.Leaser, name string, n int) {
	b.Helper()
	for {
		s, err := l.Observe(b.ctx, name)
		if err != nil {
			b.Fatalf("observe: %v", err)
		}
		if s.Waiting >= n {
			return
		}
		b.pass(max(b.TTL/100, time.Millisecond))
	}
}
