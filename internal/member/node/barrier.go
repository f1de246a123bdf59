package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

// barriers gathers linearizable reads: all that arrive before the stepping
// goroutine looks share one question to the leader.
type barriers struct {
	mu      sync.Mutex
	number  uint64
	open    *barrier   // takes more readers
	waiting []*barrier // for the leader's word, by number
	indexed []*barrier // for index to be published
	leased  []*barrier // for index, in no order: a log may be cut
}

type barrier struct {
	number uint64
	index  uint64
	since  time.Time
	err    error
	done   chan struct{}
}

// Barrier returns when the published state includes every write that was
// acknowledged, by any member, before the call. Under a read lease that takes no
// message.
func (n *Node) Barrier(ctx context.Context) error {
	local, err := n.barrier(ctx)
	if err == nil {
		n.countRead(local)
	}
	return err
}

// barrier also reports whether it was this member's lease that answered.
func (n *Node) barrier(ctx context.Context) (local bool, err error) {
	if index, ok := n.reads.leased(); ok {
		if n.State().index >= index {
			return true, nil
		}
		// It is in this member's log, and will be applied soon, or cut off.
		if err := n.barriers.awaitIndex(n.publishedIndex, index).wait(ctx, n); !errors.Is(err, errOverdue) {
			return true, err
		}
	}
	return false, n.barriers.join(n).wait(ctx, n)
}

func (n *Node) countRead(local bool) { n.reads.count(local, n.leadership.Load().leader == n.id) }

func (b *barrier) wait(ctx context.Context, n *Node) error {
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.stop:
		return errStopped
	}
}

// errOverdue tells that an index of this member's own log was not reached in time.
var errOverdue = errors.New("node: the entries in the log were not released in time")

func (p *published) publishedIndex() uint64 { return p.State().index }

// awaitIndex gives a barrier for an index of this member's log, of which now tells
// how far it has come.
func (bs *barriers) awaitIndex(now func() uint64, index uint64) *barrier {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if k := len(bs.leased); k > 0 && bs.leased[k-1].index == index {
		return bs.leased[k-1]
	}
	b := &barrier{index: index, since: time.Now(), done: make(chan struct{})}
	if now() >= index { // in between
		close(b.done)
	} else {
		bs.leased = append(bs.leased, b)
	}
	return b
}

func (bs *barriers) join(n *Node) *barrier {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.open == nil {
		bs.number++
		bs.open = &barrier{number: bs.number, since: time.Now(), done: make(chan struct{})}
		bs.waiting = append(bs.waiting, bs.open)
		n.driver.Gather(bs.close)
	}
	return bs.open
}

// close runs on the stepping goroutine: it does not cover later callers.
func (bs *barriers) close() (replica.Input, bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	number := bs.number
	bs.open = nil
	return replica.Read{Number: number}, true
}

// confirmed takes the index that all barriers up to a number have to wait for. It looks at
// the published state under the lock: a later state releases the calls that are left here.
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
	bs.leased = slices.DeleteFunc(bs.leased, func(b *barrier) bool {
		if b.index <= index {
			close(b.done)
		}
		return b.index <= index
	})
}

// overdue ends the barriers of this member's own log that have waited since before
// then: another round finds out what there is.
func (bs *barriers) overdue(before time.Time) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.leased = slices.DeleteFunc(bs.leased, func(b *barrier) bool {
		late := b.since.Before(before)
		if late {
			b.err = errOverdue
			close(b.done)
		}
		return late
	})
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
