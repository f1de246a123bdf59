package kv

import (
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Base gives the key-values that are visible at the compact revision and older than it, in order
// of keys. With the events from the compact revision on ([View.Events]) and the leases they are all
// that the view shows. Before the first compaction there are none. Hold the view (see
// [Store.Hold]), or look at [View.Stale] afterwards.
func (v View) Base() iter.Seq[*mvccpb.KeyValue] {
	return func(yield func(*mvccpb.KeyValue) bool) {
		if v.none() {
			return
		}
		v.keys.Scan(func(_ string, it *item) bool {
			base := it.at(v.compact)
			return base == nil || base.kv.ModRevision >= v.compact || yield(&base.kv)
		})
	}
}

// Stale reports whether history that the view shows was reclaimed, so that what was read of it may
// lack keys.
func (v View) Stale() bool {
	return !v.none() && v.compact > 0 && v.floor.Load() > v.compact
}

// Raised reports whether nothing happened at the compact revision, see [Content].
func (v View) Raised() bool { return v.raised > 0 && v.raised == v.compact }
