package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/visibility"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// view is a state as a reader finds it, and its index.
type view struct {
	kv.View
	index uint64
}

// onPublish notes that a member shows another state, and wants that no reader may read an older
// one from now on.
func (c *Cluster) onPublish(m *Member) {
	v := m.view()
	index := v.index
	m.hub.onPublish(v)
	if c.byKey() {
		// A read of one key binds no reader of another key.
		if index > 0 && len(c.surveyors) > 0 {
			c.checks.onShow(v.View)
			for _, holder := range c.members {
				c.mayReadKey(holder)
			}
		}
		return
	}
	if index <= c.checks.published {
		return
	}
	c.checks.published = index
	for _, holder := range c.members {
		c.mayRead(holder)
	}
}

// mayRead judges whether a member's publications let a reader that sets out now answer from a
// state that is older than one that was seen. This knows true time and all members' states, so
// it needs no reader to be there.
func (c *Cluster) mayRead(m *Member) {
	k := &c.checks
	if l := m.lease; m.Up() && m.Now().Mono < l.Until && l.Index < k.published {
		k.fail(c.w, "read lease: member %d may read from index %d on, but %d is published", m.ID, l.Index, k.published)
	}
}

// mayReadKey reads each key in its turn, as a reader could by a member's publications in key
// order. It wants a value that has been shown, or a later one, and the same of each later
// reader.
func (c *Cluster) mayReadKey(m *Member) {
	k, lease := &c.checks, m.keyLease
	if len(c.surveyors) == 0 || lease == nil || !m.Up() || m.Now().Mono >= lease.Until {
		return
	}
	k.turn = (k.turn + 1) % len(k.floors)
	key := []byte(clientKey(k.turn - surveyed))
	if k.turn < surveyed {
		key = surveyKey(k.turn)
	}
	ready, ok := lease.Ready(keyspan.Set{{Key: key}})
	if !ok {
		return
	}
	if v, ok := visibility.For(m.seen.Ahead(), ready); ok {
		rev := writtenAt(v.View, key)
		k.lookedAt(c.w, m, key, rev, k.floors[k.turn])
		k.floors[k.turn] = max(k.floors[k.turn], rev)
	}
}

// judgeRead wants of a linearizable read that sets out now a state that includes
// whatever any member has shown by now, to watchers and readers of all kinds.
func (c *Cluster) judgeRead(m *Member, f func(kv.View)) func(view) {
	floor := c.checks.published
	return func(v view) {
		if v.index < floor {
			c.checks.fail(c.w, "stale read: at index %d of member %d, but %d was published before it set out", v.index, m.ID, floor)
		}
		f(v.View)
	}
}

// calm is a time without faults, in which whatever is asked is done within a bound.
type calm struct{ from, to, bound time.Duration }

func (s *calm) end(now time.Duration) { s.to = min(s.to, now) }

// broken reports whether something took longer than it may.
func (s calm) broken(call, now time.Duration) bool {
	return s.bound > 0 && call >= s.from && call+s.bound <= s.to && now-call > s.bound
}

// longestPromise is for how long a member may be bound by a promise.
func (c *Cluster) longestPromise() time.Duration {
	longest := time.Duration(0)
	for _, m := range c.members {
		longest = max(longest, m.promised)
	}
	if c.Paper != nil {
		longest = max(longest, c.Paper.Push.Stall())
	}
	return longest + longest/50 + 10*time.Millisecond
}

// longestWait is how long an operation may take when nothing is amiss. A holder may be given up as
// stalled, one and a half promises later at most, a promise may have to run out, and lost messages
// may have to be sent again.
func (c *Cluster) longestWait() time.Duration { return 5*c.longestPromise()/2 + 5*tick }
