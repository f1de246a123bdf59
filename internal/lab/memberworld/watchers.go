package memberworld

import (
	"context"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// event is one that a watcher was told of, or that is in the log.
type event struct {
	rev        int64
	key, value string
	deleted    bool
}

func eventOf(e *clientv3.Event) event {
	return event{e.Kv.ModRevision, string(e.Kv.Key), string(e.Kv.Value), e.Type == clientv3.EventTypeDelete}
}

// watcher watches the registers, and goes on where it was if it is cut off.
type watcher struct {
	name   string
	from   int64 // the first revision that is asked for next, if nothing was told
	events []event
	missed [][2]int64 // first and last revisions that were compacted before the watcher had them
	shown  int64      // the watcher has all up to there, by the member's word
}

// due reports whether the watcher has to be told of an event.
func (wt *watcher) due(e event) bool {
	return !slices.ContainsFunc(wt.missed, func(m [2]int64) bool { return m[0] <= e.rev && e.rev <= m[1] })
}

// watch watches until the world has been judged.
func (c *cluster) watch(number int) {
	wt := &watcher{name: fmt.Sprintf("w%d", number), from: 1}
	c.watches = append(c.watches, wt)
	r := c.w.Rand("client " + wt.name)
	c.work.Go(func() {
		for !c.resting() {
			of := c.hosts
			if r.IntN(2) == 0 {
				of = of[r.IntN(c.spec.Members):][:1]
			}
			cl := c.client(wt.name, of...)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second+time.Duration(r.Int64N(int64(30*time.Second))))
			stop := context.AfterFunc(ctx, func() {})
			go func() {
				select {
				case <-c.quiet:
					cancel()
				case <-ctx.Done():
				}
			}()
			if c.spec.Compacts && r.IntN(2) == 0 { // away, while others compact
				c.pause(time.Duration(r.Int64N(int64(8 * time.Second))))
			}
			c.follow(clientv3.WithRequireLeader(ctx), cl, wt)
			stop()
			cancel()
			cl.Close()
			c.pause(100 * time.Millisecond)
		}
	})
}

// follow watches from the next revision on, until the context ends or the watch is cut off.
func (c *cluster) follow(ctx context.Context, cl *clientv3.Client, wt *watcher) {
	next := wt.from
	if n := len(wt.events); n > 0 {
		next = max(next, wt.events[n-1].rev+1)
	}
	for resp := range cl.Watch(ctx, "k/", clientv3.WithPrefix(), clientv3.WithRev(next), clientv3.WithProgressNotify()) {
		if resp.Err() != nil {
			c.w.Trace.Add("%s: watch ends: %v", wt.name, resp.Err())
			if resp.CompactRevision > 0 {
				c.miss(wt, next, resp.CompactRevision)
			}
			return
		}
		if resp.IsProgressNotify() {
			c.w.Count("progress told", 1)
			wt.shown = max(wt.shown, resp.Header.Revision)
		}
		for _, e := range resp.Events {
			c.told(wt, eventOf(e))
		}
	}
}

// told judges an event of a watcher by its earlier events.
func (c *cluster) told(wt *watcher, got event) {
	c.w.Count("events told", 1)
	switch n := len(wt.events); {
	case got.rev <= wt.shown:
		c.w.Fail("watcher %s was told that it had seen all up to revision %d, and then of %+v", wt.name, wt.shown, got)
	case n > 0 && got.rev <= wt.events[n-1].rev: // each request changes one register
		c.w.Fail("watcher %s was told of %+v after %+v", wt.name, got, wt.events[n-1])
	}
	wt.events = append(wt.events, got)
}

// miss has a watcher go on behind a compaction.
func (c *cluster) miss(wt *watcher, next, compacted int64) {
	if n := len(wt.events); n > 0 { // the client may have gone on there by itself
		next = max(next, wt.events[n-1].rev+1)
	}
	c.w.Count("watches behind a compaction", 1)
	if _, asked := c.chronicle.has(); compacted > asked {
		c.w.Fail("watcher %s was told of a compaction to revision %d, and none was asked for beyond %d", wt.name, compacted, asked)
	}
	if next > compacted {
		c.w.Fail("watcher %s wanted revision %d, and was told that all up to %d is compacted", wt.name, next, compacted)
	}
	wt.missed = append(wt.missed, [2]int64{next, compacted})
	wt.from = compacted + 1
}

// log is the content of a member's log of events, from the newest compaction up to a revision,
// and before it the chronicle's.
func (c *cluster) log(h *host, upTo int64) (events []event, err error) {
	cl := c.client("judge of "+h.name, h)
	defer cl.Close()
	ctx, cancel := within(20 * time.Second)
	defer cancel()
	old, compacted := c.chronicle.has()
	events, err = eventsBetween(ctx, cl, compacted+1, upTo)
	return append(old[:len(old):len(old)], events...), err
}
