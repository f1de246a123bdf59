package replica

import (
	"bytes"
	"iter"
	"slices"

	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"go.etcd.io/raft/v3/raftpb"
)

// maxLeaseKeys is how many keys of a lease that ends are named one by one. Of a
// lease with more, all keys from the first to the last are touched.
const maxLeaseKeys = 1000

// touchLog keeps, for the end of the log that matters to somebody, which keys and
// leases its entries touch. The zero touchLog is empty and ready. Entries are
// added before the acknowledgment of them leaves (R8). They are released when
// no member with a read lease on their keys can miss them, and forgotten once the
// published state includes them. Package keyspan has the rules, and how a reader
// asks.
type touchLog struct {
	keys, leases keyspan.Table
	// guards has what entries read for what they change: a later entry that changes that may
	// not be visible before them.
	guards  keyspan.Table
	scratch Touch
	// attached is what entries may attach to leases that the published state need
	// not know of, in order of index. Keys are those of the entries, which the log
	// holds anyway.
	attached []attachment
}

// Add tells that e was appended, and gives what it touches, which is valid until
// the next call. The keys of a lease that it ends are those that keysOf gives,
// and those that entries before it may still attach. KeysOf may read any state
// that includes all that was forgotten, and does not include e: the View that
// was published last, mostly ([github.com/tenure-lease/tenure/internal/state/kv.View.LeaseKeys]). With a nil keysOf the end of
// a lease is a barrier.
func (l *touchLog) Add(e *raftpb.Entry, keysOf func(lease int64) [][]byte) *Touch {
	t := &l.scratch
	t.scan(e)
	t.resolved = len(t.ended) > 0
	if t.resolved {
		if keysOf == nil {
			t.barrier()
		} else {
			l.resolve(t, keysOf)
		}
	}
	for _, a := range t.attached {
		a.index = e.GetIndex()
		l.attached = append(l.attached, a)
	}
	l.keys.Add(e.GetIndex(), t.Keys.Writes, t.Keys.Reads)
	if len(t.Keys.Reads) > 0 || l.guards.Len() > 0 {
		l.guards.Add(e.GetIndex(), t.Keys.Reads, t.Keys.Writes)
	}
	l.leases.Add(e.GetIndex(), t.Leases.Writes, t.Leases.Reads)
	return t
}

// resolve adds the keys of the leases that t ends.
func (l *touchLog) resolve(t *Touch, keysOf func(lease int64) [][]byte) {
	slices.Sort(t.ended)
	for _, a := range l.attached {
		if a.lease == 0 {
			t.barrier()
			return
		}
		if _, ends := slices.BinarySearch(t.ended, a.lease); ends {
			t.Keys.Writes = append(t.Keys.Writes, keyspan.Span{Key: a.key})
		}
	}
	for _, id := range t.ended {
		keys := keysOf(id)
		if len(keys) > maxLeaseKeys {
			first, last := slices.MinFunc(keys, bytes.Compare), slices.MaxFunc(keys, bytes.Compare)
			t.Keys.Writes = append(t.Keys.Writes, keyspan.Span{Key: first, End: last})
			keys = append(keys[:0:0], last)
		}
		for _, key := range keys {
			t.Keys.Writes = append(t.Keys.Writes, keyspan.Span{Key: key})
		}
	}
}

// Truncate tells that entries from the index on were replaced.
func (l *touchLog) Truncate(from uint64) {
	l.guards.Truncate(from)
	l.keys.Truncate(from)
	l.leases.Truncate(from)
	for n := len(l.attached); n > 0 && l.attached[n-1].index >= from; n-- {
		l.attached[n-1] = attachment{}
		l.attached = l.attached[:n-1]
	}
}

// restored tells that the log starts anew behind a snapshot at index. It may hold
// what is not released, of keys that nobody knows, so that it is a barrier until
// index is released (R16).
func (l *touchLog) restored(index uint64) {
	*l = touchLog{}
	l.keys.Add(index, keyspan.Set{keyspan.All()}, nil)
	l.leases.Add(index, keyspan.Set{keyspan.All()}, nil)
	l.forget(index)
}

// release notes that one entry is released, whatever is before it.
func (l *touchLog) release(index uint64) {
	l.guards.Release(index)
	l.keys.Release(index)
	l.leases.Release(index)
}

// releaseThrough tells that all entries up to index are released.
func (l *touchLog) releaseThrough(index uint64) {
	l.guards.ReleaseThrough(index)
	l.keys.ReleaseThrough(index)
	l.leases.ReleaseThrough(index)
}

// forget tells that every state that is captured from now on, and every one that
// a keysOf reads, includes index.
func (l *touchLog) forget(index uint64) {
	l.guards.Forget(index)
	l.keys.Forget(index)
	l.leases.Forget(index)
	n := 0
	for n < len(l.attached) && l.attached[n].index <= index {
		l.attached[n] = attachment{}
		n++
	}
	l.attached = l.attached[n:]
}

// blocked returns the lowest entry that has to be released before index is. Either
// index depends on the changes of that entry (R25), or index changes something that the
// entry depends on. A guard that a transaction has compared must not be seen to be gone
// before the transaction is seen. It is 0 if there is none.
func (l *touchLog) blocked(index uint64) uint64 {
	first := uint64(0)
	for _, i := range [...]uint64{l.keys.Blocked(index), l.leases.Blocked(index), l.guards.Overtaken(index)} {
		if i != 0 && (first == 0 || i < first) {
			first = i
		}
	}
	return first
}

// entangled reports whether a request would wait for entries that are not released, by way
// of a lease, or of what they read: whatever those wait for, it would wait for, too.
func (l *touchLog) entangled(t *Touch) bool {
	return l.guards.FirstUnreleased(t.Keys.Writes) != 0 ||
		l.leases.FirstUnreleased(t.Leases.Reads) != 0 || l.leases.FirstUnreleased(t.Leases.Writes) != 0
}

// held reports whether an entry touches keys or leases and is not released.
func (l *touchLog) held(index uint64) bool { return l.keys.Held(index) || l.leases.Held(index) }

// Keys returns the table for questions about keys; nobody else may change it.
func (l *touchLog) Keys() *keyspan.Table { return &l.keys }

// unreleased gives the entries that touch keys or leases and are not released,
// ascending. The one that was given last may be released meanwhile.
func (l *touchLog) unreleased() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		leases := slices.Collect(l.leases.Unreleased())
		for key := range l.keys.Unreleased() {
			for ; len(leases) > 0 && leases[0] <= key; leases = leases[1:] {
				if leases[0] < key && !yield(leases[0]) {
					return
				}
			}
			if !yield(key) {
				return
			}
		}
		for _, lease := range leases {
			if !yield(lease) {
				return
			}
		}
	}
}
