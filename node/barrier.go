package node

import (
	"context"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/replica"
)

// barriers gathers linearizable reads: all that arrive before the stepping
// goroutine looks share one question to the leader.
type barriers struct {
	mu      sync.Mutex
	number  uint64
	open    *barrier   // takes more readers
	waiting []*barrier // for the leader's word, by number
	indexed []*barrier // for index to be published
}

type barrier struct {
	number uint64
	index  uint64
	since  time.Time
	err    error
	done   chan struct{}
}

// Barrier returns when the published state includes every write that was
// acknowledged, by any member, before the call.
func (n *Node) Barrier(ctx context.Context) error {
	b := n.barriers.join(n)
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.stop:
		return errStopped
	}
}

func (bs *barriers) join(n *Node) *barrier {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.open == nil {
		bs.number++
		bs.open = &barrier{number: bs.number, since: time.Now(), done: make(chan struct{})}
		bs.waiting = append(bs.waiting, bs.open)
		n.driver.Step(bs.close)
	}
	return bs.open
}

// close runs on the stepping goroutine: who comes later is not covered.
func (bs *barriers) close() any {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	number := bs.number
	bs.open = nil
	return replica.Read{Number: number}
}

// confirmed takes the index that all barriers up to a number have to wait for.
// It looks at the published state under the lock: what is published later
// releases what is left here.
func (bs *barriers) confirmed(n *Node, r replica.ReadReady) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	published := n.State().index
	for len(bs.waiting) > 0 && bs.waiting[0].number <= r.Number {
		b := bs.waiting[0]
		bs.waiting = bs.waiting[1:]
		b.index = r.Index
		if b.index <= published {
			close(b.done)
		} else {
			bs.indexed = append(bs.indexed, b)
		}
	}
}

// published releases the barriers that the new state satisfies. Indexes only
// grow from one barrier to the next.
func (bs *barriers) published(index uint64) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for len(bs.indexed) > 0 && bs.indexed[0].index <= index {
		close(bs.indexed[0].done)
		bs.indexed = bs.indexed[1:]
	}
}

// expire ends the barriers that have waited since before then.
func (bs *barriers) expire(before time.Time, answer func(since time.Time) error) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, list := range []*[]*barrier{&bs.waiting, &bs.indexed} {
		for len(*list) > 0 && (*list)[0].since.Before(before) && (*list)[0] != bs.open {
			b := (*list)[0]
			b.err = answer(b.since)
			close(b.done)
			*list = (*list)[1:]
		}
	}
}
