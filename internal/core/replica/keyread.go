package replica

import (
	"bytes"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
)

// keyRead is a read of some keys that waits.
type keyRead struct {
	ReadKeys
	since machine.Mono
	// together says that the read is of several keys: its answer must not show one key as it
	// was before the release of another that it shows. Entries of different keys may be
	// released in another order than that of the log, and other members may know of releases
	// that this one does not know of. So either no entry in this member's log that touches the
	// keys is held, or the log puts the read in its place.
	together bool
	// need is the index up to which entries that touch the keys have to be released. It is
	// valid if known is set; asked says that a round is finding it out.
	need         uint64
	known, asked bool
	committed    bool   // need is of the leader's log, and must be committed here first
	behind       uint64 // an entry that has to be released first; 0 if none is known
}

// read adds a read of some keys to those that wait.
func (k *keyOrder) read(now machine.Mono, in ReadKeys) {
	k.reads = append(k.reads, &keyRead{ReadKeys: in, since: now, together: together(in.Keys)})
}

// together reports whether a set is of more than one key.
func together(keys keyspan.Set) bool {
	for _, s := range keys {
		if len(s.End) > 0 || !bytes.Equal(s.Key, keys[0].Key) {
			return true
		}
	}
	return false
}

// mayRead answers the reads that may be served. A read under this member's lease, of keys that
// it holds, waits only for its own log (R7). At the leader such a read does not wait for entries
// that only the leader releases. For other reads the leader says up to which index they have to
// wait (R29).
func (k *keyOrder) mayRead(at reading) []KeysReady {
	commit := at.committed
	k.ready = k.ready[:0]
	k.reads = slices.DeleteFunc(k.reads, func(q *keyRead) bool {
		// This member may not know what its state holds, or know it only behind a snapshot.
		if k.blind || k.log.Keys().Held(q.behind) {
			return at.now.Sub(q.since) > at.patience
		}
		last, first := k.log.Keys().Look(q.Keys)
		if q.together {
			local := first == 0 && at.now < at.until && k.holds(at.self, q.Keys, commit)
			k.ready = append(k.ready, KeysReady{ID: q.ID, Index: last, UpTo: commit, Local: local, Exact: true, ByLog: !local})
			return true
		}
		if at.leads && k.isOwn(first) && k.holds(at.self, q.Keys, commit) {
			// Nobody has seen it yet, nor will before this leader says so.
			before := min(commit, first-1)
			k.ready = append(k.ready, KeysReady{ID: q.ID, Index: before, UpTo: before, Local: true})
			return true
		}
		if !q.known && at.now < at.until && k.holds(at.self, q.Keys, commit) {
			q.need, q.known = last, true
		}
		if q.known && first <= q.need {
			q.behind = first
		}
		if !q.known || q.committed && commit < q.need || first != 0 && first <= q.need {
			return at.now.Sub(q.since) > at.patience
		}
		out := KeysReady{ID: q.ID, Index: min(q.need, last), UpTo: commit, Local: !q.committed}
		if first != 0 {
			out.UpTo = min(commit, first-1)
		}
		k.ready = append(k.ready, out)
		return true
	})
	return k.ready
}

// isUnasked reports whether a round has to be made for the read.
func (q *keyRead) isUnasked() bool { return !q.known && !q.asked }

// questions returns the reads for which a round has to be made.
func (k *keyOrder) questions() (list []*keyRead) {
	for _, q := range k.reads {
		if q.isUnasked() {
			list = append(list, q)
		}
	}
	return list
}

// unasked returns the number of reads for which a round has to be made.
func (k *keyOrder) unasked() (n int) {
	for _, q := range k.reads {
		if q.isUnasked() {
			n++
		}
	}
	return n
}

// confirmed notes the index that a round has found.
func (q *keyRead) confirmed(index uint64) {
	if !q.known {
		q.need, q.known, q.committed = index, true, true
	}
}

// again has a new round made for the reads that no round has answered, and for those that wait
// for entries which another leader may have cut off.
func (k *keyOrder) again(commit uint64) {
	for _, q := range k.reads {
		q.asked = false
		if q.committed && q.need > commit {
			q.known, q.behind = false, 0
		}
	}
}
