package memberworld

import (
	"fmt"
	"maps"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"
)

// terms knows the leaders and their times.
type terms struct {
	mu     sync.Mutex
	leader map[uint64]uint64 // by term
}

// sample looks at the members ten times a second: at their leader of a term, and at the memory
// that all of them use.
func (c *cluster) sample() {
	c.terms.leader = map[uint64]uint64{}
	for !c.over() && !c.anew.Load() {
		c.judgeMemory(heap())
		for _, h := range c.hosts {
			srv := h.running()
			if srv == nil {
				continue
			}
			leader, term, _ := srv.Node.Leader()
			if leader == 0 {
				continue
			}
			c.judgeLeader(term, leader)
		}
		c.pause(100 * time.Millisecond)
	}
}

// heap is how many bytes this program uses, with garbage that is not collected yet.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// judgeMemory judges how much memory was seen in use.
func (c *cluster) judgeMemory(bytes uint64) {
	if bytes > heapPeak && !c.greedy.Swap(true) {
		c.w.Fail("%d MiB are in use, more than %d", bytes>>20, heapPeak>>20)
	}
}

// judgeLeader judges that no term has two leaders, given one that was seen.
func (c *cluster) judgeLeader(term, leader uint64) {
	c.terms.mu.Lock()
	was, known := c.terms.leader[term]
	c.terms.leader[term] = leader
	c.terms.mu.Unlock()
	switch {
	case !known:
		c.w.Count("elections", 1)
	case was != leader:
		c.w.Fail("two leaders of term %d: %x and %x", term, was, leader)
	}
}

// all are the terms that had a leader.
func (ts *terms) all() map[uint64]uint64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return maps.Clone(ts.leader)
}

// Bounds of the memory that all may use together when nothing is going on.
const (
	goroutinesMax = 256 + 100 // for each member; 256 are gRPC's own
	connsMax      = 60        // for each member
	heapMax       = 512 << 20
	heapPeak      = 1 << 30 // at any time, with garbage that is not collected yet
)

// judge is made when nothing is wrong any more. The events that it asks for have to come.
func (c *cluster) judge() {
	if !c.restored(90 * time.Second) {
		return
	}
	c.calm.Store(true)
	cl := c.client("judge")
	defer cl.Close()
	// Leases that are not renewed end, from when a majority works: a TTL later, of which
	// the longest is 5 s, and another if a new leader gave it.
	c.pause(15 * time.Second)
	c.late(cl)
	c.lockers.last()
	close(c.quiet)
	c.pause(12 * time.Second) // for clients that still wait
	c.judgeOrphans(cl)
	c.punctual(cl)
	c.dismissed()
	c.bounded()

	ctx, cancel := within(10 * time.Second)
	defer cancel()
	last, err := cl.Put(ctx, "end", "of the world")
	if err != nil {
		c.w.Fail("nothing is wrong any more, and a put fails: %v", err)
		return
	}
	first, ok := c.agreed("nothing is wrong any more", last.Header.Revision)
	if !ok {
		return
	}
	c.acknowledged(first)
	c.audited(first)
	c.watched(first)
	if c.cutPower(first, last.Header.Revision) {
		c.settled = first
	}
}

// agreed returns the events of all members' logs up to a revision, which have to be the same.
func (c *cluster) agreed(when string, upTo int64) (first []event, ok bool) {
	var of string
	for _, h := range c.hosts {
		if h.running() == nil || h.removed {
			continue
		}
		events, err := c.log(h, upTo)
		if err != nil {
			c.w.Fail("%s, the events of %s cannot be read: %v", when, h.name, err)
			return nil, false
		}
		if of == "" {
			first, of = events, h.name
			continue
		}
		c.agree(when, of, first, h.name, events)
	}
	return first, true
}

// cutPower cuts the power of all machines at once: the agreed writes have to be on their disks,
// and every member has to start again with them.
func (c *cluster) cutPower(first []event, upTo int64) bool {
	for _, h := range c.hosts {
		h.end(nil, crashes)
	}
	if !c.restored(60 * time.Second) {
		return false
	}
	again, ok := c.agreed("after a loss of power of all", upTo)
	if !ok {
		return false
	}
	c.w.Count("returns of all", 1)
	if !slices.Equal(first, again) {
		c.w.Fail("after a loss of power of all, what was agreed is not there: %s", difference("all before", first, "all after", again))
	}
	return true
}

// agree judges that two members have the same log.
func (c *cluster) agree(when, a string, x []event, b string, y []event) {
	c.w.Count("logs compared", 1)
	if !slices.Equal(x, y) {
		c.w.Fail("%s, the logs of members differ: %s", when, difference(a, x, b, y))
	}
}

func difference(a string, x []event, b string, y []event) string {
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("event %d is %+v at %s and %+v at %s", i, x[i], a, y[i], b)
		}
	}
	return fmt.Sprintf("%d events at %s, %d at %s", len(x), a, len(y), b)
}

// restored waits until all members run, know a leader and answer, as they must.
func (c *cluster) restored(limit time.Duration) bool {
	deadline := c.w.Elapsed() + limit
	for _, h := range c.hosts {
		for {
			h.mu.Lock()
			absent := h.held > 0 || h.starts == 0 || h.removed
			lastErr := h.lastErr
			h.mu.Unlock()
			if absent {
				break
			}
			srv := h.running()
			if srv != nil {
				ctx, cancel := within(time.Second)
				err := srv.Node.Ready(ctx)
				cancel()
				if err == nil {
					break
				}
				lastErr = err
			}
			if c.w.Elapsed() > deadline {
				c.w.Fail("nothing has been wrong for %v, and member %s does not serve: running %v, %v", limit, h.name, srv != nil, lastErr)
				return false
			}
			c.pause(500 * time.Millisecond)
		}
	}
	for len(c.jobs) > 0 || c.busy.Load() > 0 {
		if c.w.Elapsed() > deadline {
			c.w.Fail("nothing has been wrong for %v, and a change of the members is not through", limit)
			return false
		}
		c.pause(500 * time.Millisecond)
	}
	return true
}

// dismissed judges that members that were removed have ended, and do not start again.
func (c *cluster) dismissed() {
	for _, h := range c.hosts {
		h.mu.Lock()
		removed, err := h.removed, h.lastErr
		h.mu.Unlock()
		if !removed {
			continue
		}
		c.w.Count("members dismissed", 1)
		if h.running() != nil || !refused(err) {
			c.w.Fail("%s was removed from the cluster and goes on: running %v, %v", h.name, h.running() != nil, err)
		}
	}
}

// acknowledged judges that acknowledged writes are in the log.
func (c *cluster) acknowledged(log []event) {
	at := map[int64]event{}
	for _, e := range log {
		at[e.rev] = e // each request changes one register; a lease's end changes others
	}
	c.history.mu.Lock()
	defer c.history.mu.Unlock()
	for _, o := range c.history.ops {
		if o.known && o.rev > 0 {
			e, there := at[o.rev]
			if !there || e.key != o.key || e.value != o.new || e.deleted != (o.kind == "delete") {
				c.w.Fail("an acknowledged write is lost: %v; the log has %+v there", o, e)
			}
			c.w.Count("acknowledged writes found", 1)
		}
		if o.known && o.gotRev > 0 {
			if e := at[o.gotRev]; e.key != o.key || e.value != o.got {
				c.w.Fail("a value was read that is not in the log: %v; the log has %+v there", o, e)
			}
		}
	}
}

// audited judges the accounts.
func (c *cluster) audited(log []event) {
	if err := c.ledger.audit(log); err != nil {
		c.w.Fail("accounts: %v", err)
	}
	c.w.Count("statements audited", len(c.ledger.statements))
}

// watched judges that watchers were told of each event once, in order, and of all.
func (c *cluster) watched(log []event) {
	registers := slices.DeleteFunc(slices.Clone(log), func(e event) bool { return !strings.HasPrefix(e.key, "k/") })
	for _, wt := range c.watches {
		due := slices.DeleteFunc(slices.Clone(registers), func(e event) bool { return !wt.due(e) })
		for i, e := range wt.events {
			if i >= len(due) || due[i] != e {
				c.w.Fail("watcher %s was told of %+v where the log has %+v", wt.name, e, at(due, i))
				break
			}
		}
		c.w.Count("watches judged", 1)
	}
}

func at(events []event, i int) any {
	if i < len(events) {
		return events[i]
	}
	return "nothing"
}

// bounded judges what all members together use.
func (c *cluster) bounded() {
	n := runtime.NumGoroutine()
	c.w.Count("goroutines at rest", n)
	if n > goroutinesMax*len(c.hosts) {
		c.w.Fail("%d goroutines are there when nothing is going on, more than %d for each of %d members", n, goroutinesMax, len(c.hosts))
	}
	used := heap()
	if used > heapMax {
		runtime.GC()
		used = heap()
	}
	if used > heapMax {
		c.w.Fail("%d MiB are in use when nothing is going on, more than %d", used>>20, heapMax>>20)
	}
	for _, h := range c.hosts {
		if srv := h.running(); srv != nil {
			if n := len(srv.Node.Members()); n > c.spec.Members+c.spec.Spares {
				c.w.Fail("%s knows %d members", h.name, n)
			}
		}
	}
	open := c.net.Open()
	c.w.Count("connections at rest", open)
	if open > connsMax*len(c.hosts) {
		c.w.Fail("%d connections are open, more than %d for each of %d members", open, connsMax, len(c.hosts))
	}
}
