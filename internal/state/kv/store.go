package kv

import (
	"sync/atomic"

	"github.com/tidwall/btree"
)

// treeDegree makes nodes of at most 31 entries. Twice as many would save a few
// percent of memory, but then publishing after a created key copies half as much
// again.
const treeDegree = 16

// pauseEvery is the number of changed keys between two calls of [Store.Pause].
const pauseEvery = 1000

// Store is the state. One goroutine at a time may call its methods; see the
// package comment.
type Store struct {
	// Pause, if set, is called after about every 1,000 changes within one
	// request, so that a driver can let others run during a mass deletion. It must
	// not call the Store's methods: the request is half done.
	Pause func()
	// Counts, if set, counts what this Store does and what its Views are asked.
	Counts *Counts

	keys     keyTree
	leases   leaseTree
	log      eventLog
	revision int64
	compact  int64 // -1 before the first compaction
	raised   int64 // the revision that a restore from a backup began with, which has no event; 0: none
	stats    Stats
	tally    tally // of the request that is running

	changes    int64  // made by the request that is running, in revision+1
	epoch      uint64 // counts publications of the lease tree, see Store.own
	keysMoved  bool   // keys were created or removed since the last View
	leaseMoved bool   // leases were changed since the last View
	last       View

	reclaim reclaim
	// floor is the revision below which versions may be missing. Readers check
	// it after they walked.
	floor *atomic.Int64
}

// New gives an empty store at revision 1.
func New() *Store {
	s := &Store{
		keys:       *btree.NewMap[string, *item](treeDegree),
		leases:     *btree.NewMap[int64, *lease](treeDegree),
		revision:   1,
		compact:    -1,
		floor:      new(atomic.Int64),
		keysMoved:  true,
		leaseMoved: true,
	}
	s.floor.Store(-1)
	return s
}

// Revision is the revision of the last request that changed a key.
func (s *Store) Revision() int64 { return s.revision }

// CompactRevision is the oldest revision that can be read; -1 before the first
// compaction.
func (s *Store) CompactRevision() int64 { return s.compact }

// View publishes the state as it is now. It costs a few machine words, and the
// copying of tree paths by later changes if keys were created or removed, or
// leases changed, since the last View.
func (s *Store) View() View {
	if s.keysMoved {
		s.last.keys = s.keys.Copy()
		s.keysMoved = false
	}
	if s.leaseMoved {
		s.last.leases = s.leases.Copy()
		s.leaseMoved = false
		s.epoch++
	}
	s.last.log = s.log
	s.last.revision = s.revision
	s.last.compact = s.compact
	s.last.raised = s.raised
	s.last.stats = s.stats
	s.last.floor = s.floor
	s.last.counts = s.Counts
	return s.last
}

// next is the revision of the changes of the running request.
func (s *Store) next() int64 { return s.revision + 1 }

// reader reads the newest state, the changes of the running request included.
func (s *Store) reader() reader {
	r := reader{keys: &s.keys, revision: s.revision, compact: s.compact}
	if s.changes > 0 {
		r.revision++
	}
	return r
}

// commit ends a request: its changes become the next revision.
func (s *Store) commit() {
	s.tally.end(s.Counts)
	if s.changes > 0 {
		s.revision++
		s.changes = 0
	}
}

// link makes v the newest version of its item and appends it to the log.
func (s *Store) link(it *item, v *version) {
	old := it.head.Load()
	if old != nil {
		v.prev.Store(old)
	}
	it.head.Store(v)
	s.log.add(v)
	s.stats.add(v, old)
	s.changes++
	if s.changes%pauseEvery == 0 && s.Pause != nil {
		s.Pause()
	}
}
