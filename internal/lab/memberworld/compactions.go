package memberworld

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// chronicle has the events that members need not have any more: the client that compacts reads
// them first.
type chronicle struct {
	mu     sync.Mutex
	events []event
	upTo   int64 // the newest revision that any compaction was asked for; all up to there is in events
}

// has is the content of the chronicle.
func (ch *chronicle) has() (events []event, upTo int64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.events, ch.upTo
}

func (ch *chronicle) add(events []event, upTo int64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.events, ch.upTo = append(ch.events[:len(ch.events):len(ch.events)], events...), upTo
}

// valueAt is the value of a register at a revision.
func valueAt(events []event, key string, rev int64) (value string) {
	for _, e := range events {
		if e.key == key && e.rev <= rev {
			value = e.value
		}
	}
	return value
}

// compact has the members forget old revisions, again and again.
func (c *cluster) compact() {
	r := c.w.Rand("compactions")
	cl := c.client("compactor")
	defer cl.Close()
	for !c.resting() {
		c.pause(500*time.Millisecond + time.Duration(r.Int64N(int64(3*time.Second))))
		if err := c.compactOnce(cl, r); err != nil {
			c.w.Trace.Add("compactor: %v", err)
		}
	}
}

func (c *cluster) compactOnce(cl *clientv3.Client, r *rand.Rand) error {
	ctx, cancel := within(4 * time.Second)
	defer cancel()
	now, err := cl.Get(ctx, "k/0")
	if err != nil {
		return err
	}
	_, from := c.chronicle.has()
	if now.Header.Revision <= from {
		return nil
	}
	to := now.Header.Revision - r.Int64N(min(20, now.Header.Revision-from))
	events, err := eventsBetween(ctx, cl, from+1, to)
	if err != nil {
		return err
	}
	c.chronicle.add(events, to)
	if _, err := cl.Compact(ctx, to); err != nil {
		return fmt.Errorf("compact to %d: %w", to, err)
	}
	c.w.Count("compactions", 1)
	c.w.Trace.Add("compactor: compacted to %d", to)
	return c.compacted(ctx, cl, to, fmt.Sprintf("k/%d", r.IntN(keys)))
}

// compacted judges reads of the past: at the revision of the compaction there is the state of
// then, and before there is nothing to be had.
func (c *cluster) compacted(ctx context.Context, cl *clientv3.Client, rev int64, key string) error {
	resp, err := cl.Get(ctx, key, clientv3.WithRev(rev))
	if err != nil {
		return err
	}
	got := ""
	if len(resp.Kvs) > 0 {
		got = string(resp.Kvs[0].Value)
	}
	c.leftAt(rev, key, got)
	if rev < 2 {
		return nil
	}
	_, err = cl.Get(ctx, key, clientv3.WithRev(rev-1))
	return c.goneBefore(rev, key, err)
}

// leftAt judges a key's value at the revision of a compaction.
func (c *cluster) leftAt(rev int64, key, got string) {
	events, _ := c.chronicle.has()
	if want := valueAt(events, key, rev); got != want {
		c.w.Fail("after the compaction to revision %d, %s reads %q at that revision, and was %q", rev, key, got, want)
	}
}

// goneBefore judges the result of a read before the revision of a compaction.
func (c *cluster) goneBefore(rev int64, key string, err error) error {
	switch {
	case err == nil:
		c.w.Fail("after the compaction to revision %d, %s can be read at revision %d", rev, key, rev-1)
	case errors.Is(err, rpctypes.ErrCompacted):
		c.w.Count("reads of what is compacted", 1)
	default:
		return err
	}
	return nil
}

// eventsBetween reads the events of some revisions, both included. Those of one revision come
// together.
func eventsBetween(ctx context.Context, cl *clientv3.Client, from, to int64) (events []event, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for resp := range cl.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if resp.Err() != nil {
			return nil, resp.Err()
		}
		for _, e := range resp.Events {
			if e.Kv.ModRevision <= to {
				events = append(events, eventOf(e))
			}
		}
		if n := len(resp.Events); n > 0 && resp.Events[n-1].Kv.ModRevision >= to {
			return events, nil
		}
	}
	return nil, fmt.Errorf("the events end before revision %d: %w", to, context.Cause(ctx))
}
