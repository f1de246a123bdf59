package kv

import (
	"iter"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// View is the state at one revision. It is a value that never changes and that
// any number of goroutines may read. The zero View is of no state: its revision is 0, it
// has no leases, and reads of it return [ErrNoState].
//
// A View keeps the memory it refers to alive, except history below what the Store
// has reclaimed since; reads that would need it return [ErrCompacted] or
// [ErrStaleView].
type View struct {
	keys     *keyTree
	leases   *leaseTree
	log      eventLog
	revision int64
	compact  int64
	raised   int64
	stats    Stats
	// floor is shared with the Store and rises before versions below it are
	// unlinked. A reader that walked first and finds the floor at or below its
	// revision afterwards has therefore seen all there was.
	floor  *atomic.Int64
	counts *Counts // nil: nobody wants to know
}

// none tells the zero View.
func (v View) none() bool { return v.revision == 0 }

// Revision is the newest revision in the view.
func (v View) Revision() int64 { return v.revision }

// CompactRevision is the oldest revision that can be read; -1 before the first
// compaction.
func (v View) CompactRevision() int64 { return v.compact }

// Stats tells sizes.
func (v View) Stats() Stats { return v.stats }

func (v View) reader() reader {
	return reader{keys: v.keys, revision: v.revision, compact: v.compact}
}

// Range reads keys, at the revision of the view or at an older one. Count counts
// all keys of the range, whatever the limit and the filters. The header has the
// revision of the view. Errors are those of [CheckRange], [ErrFutureRevision],
// [ErrCompacted], [ErrStaleView] and [ErrNoState].
func (v View) Range(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := CheckRange(r); err != nil {
		return nil, err
	}
	if v.none() {
		return nil, ErrNoState
	}
	out, err := v.reader().rangeKeys(r)
	if err != nil {
		return nil, err
	}
	if err := v.fresh(r.Revision); err != nil {
		return nil, err
	}
	v.counts.read()
	return &out.response, nil
}

// Longer reports whether a range has more than n keys, so that it takes time to read it. Keys
// that were deleted count until they are reclaimed. It looks at no more than n + 1 of them.
func (v View) Longer(key, end []byte, n int) bool {
	if v.none() || len(end) == 0 {
		return false
	}
	scan(v.keys, key, end, func(*item) bool {
		n--
		return n >= 0
	})
	return n < 0
}

// fresh judges what was read at a revision: it may have been reclaimed meanwhile.
func (v View) fresh(rev int64) error {
	floor := v.floor.Load()
	switch {
	case rev > 0 && rev < floor:
		return ErrCompacted
	case rev <= 0 && v.revision < floor:
		return ErrStaleView
	}
	return nil
}

// Txn answers a transaction that only reads, see [ReadOnly]. Errors are those of
// [CheckTxn] without a limit, errNotReadOnly, [ErrFutureRevision],
// [ErrCompacted], [ErrStaleView] and [ErrNoState].
func (v View) Txn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if !ReadOnly(r) {
		return nil, errNotReadOnly
	}
	if v.none() {
		return nil, ErrNoState
	}
	t := &txn{before: v.reader()}
	out, path, err := runTxn(t, r)
	if err != nil {
		return nil, err
	}
	if err := v.fresh(0); err != nil {
		return nil, err
	}
	if err := v.freshOps(r, &course{turns: path}); err != nil {
		return nil, err
	}
	out.header.Revision = v.revision
	t.tally.end(v.counts)
	return &out.response, nil
}

// freshOps judges the ranges that were read at older revisions.
func (v View) freshOps(r *pb.TxnRequest, c *course) error {
	ops, _ := c.branch(r)
	for _, op := range ops {
		var err error
		if q := op.GetRequestRange(); q != nil {
			err = v.fresh(q.Revision)
		} else {
			err = v.freshOps(op.GetRequestTxn(), c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Events gives the events from revision from up to that of the view, in the order
// in which they happened; events of one revision are in the order of their
// transaction. There are none if from lies in the future. It returns
// [ErrCompacted] if from is below the compact revision; events at the compact
// revision itself are still there. Reclaiming never disturbs an iteration.
func (v View) Events(from int64) (iter.Seq[Event], error) {
	if v.none() {
		return nil, ErrNoState
	}
	if from < v.compact {
		return nil, ErrCompacted
	}
	return func(yield func(Event) bool) {
		for i := v.log.search(from); i < v.log.n; i++ {
			if !yield(newEvent(v.log.at(i), v.compact, v.floor)) {
				return
			}
		}
	}, nil
}

// Lease looks a lease up.
func (v View) Lease(id int64) (LeaseInfo, bool) {
	if v.none() {
		return LeaseInfo{}, false
	}
	l, ok := v.leases.Get(id)
	if !ok {
		return LeaseInfo{}, false
	}
	return l.info, true
}

// Leases gives all leases in order of id.
func (v View) Leases() iter.Seq[LeaseInfo] {
	return func(yield func(LeaseInfo) bool) {
		if v.none() {
			return
		}
		v.leases.Scan(func(_ int64, l *lease) bool { return yield(l.info) })
	}
}

// LeaseKeys gives the keys attached to a lease, in order; none if the lease does
// not exist. The slices are the stored ones and must not be changed.
func (v View) LeaseKeys(id int64) [][]byte {
	if v.none() {
		return nil
	}
	l, ok := v.leases.Get(id)
	if !ok {
		return nil
	}
	keys := make([][]byte, 0, l.keys.len())
	l.keys.scan(func(it *item) bool {
		keys = append(keys, it.key())
		return true
	})
	return keys
}
