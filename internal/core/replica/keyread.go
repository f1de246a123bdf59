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
	// together are keys of which one must not be seen as it was before another was
	// released. Entries of different keys may be released in another order than that of
	// the log, and what this member does not know to be released may be, by others. So
	// either nothing in its log that touches them is held, or the log puts the read in
	// its place.
	together bool
	// need is up to where what touches the keys has to be released, once known;
	// asked, that a round is finding out.
	need         uint64
	known, asked bool
	committed    bool   // need is of the leader's log, and must be committed here first
	behind       uint64 // an entry that has to be released before; 0: none that is known
}

// read takes a read of some keys.
func (k *keyOrder) read(r *Replica, in ReadKeys) {
	k.reads = append(k.reads, &keyRead{ReadKeys: in, since: r.now, together: together(in.Keys)})
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

// settle answers the reads that may be served. One whose keys this member holds, and
// which it finds under its lease, waits for nothing but its own log (R7), and at the
// leader not for what only the leader releases; others learn from it how far they have to
// look (R29).
func (k *keyOrder) settle(r *Replica, until machine.Mono) {
	commit := r.reads.commit
	_, leads := r.reads.assured(r)
	k.reads = slices.DeleteFunc(k.reads, func(q *keyRead) bool {
		// What its state holds it may not know, or only of what is behind a snapshot.
		if k.blind || k.log.Keys().Held(q.behind) {
			return r.now.Sub(q.since) > r.cfg.patience()
		}
		last, first := k.log.Keys().Look(q.Keys)
		if q.together {
			local := first == 0 && r.now < until && k.holds(r.cfg.ID, q.Keys, commit)
			r.outcomes = append(r.outcomes, KeysReady{ID: q.ID, Index: last, UpTo: commit, Local: local, Exact: true, ByLog: !local})
			return true
		}
		if leads && k.isOwn(first) && k.holds(r.cfg.ID, q.Keys, commit) {
			// Nobody has seen it yet, nor will before this leader says so.
			before := min(commit, first-1)
			r.outcomes = append(r.outcomes, KeysReady{ID: q.ID, Index: before, UpTo: before, Local: true})
			return true
		}
		if !q.known && r.now < until && k.holds(r.cfg.ID, q.Keys, commit) {
			q.need, q.known = last, true
		}
		if q.known && first <= q.need {
			q.behind = first
		}
		if !q.known || q.committed && commit < q.need || first != 0 && first <= q.need {
			return r.now.Sub(q.since) > r.cfg.patience()
		}
		out := KeysReady{ID: q.ID, Index: min(q.need, last), UpTo: commit, Local: !q.committed}
		if first != 0 {
			out.UpTo = min(commit, first-1)
		}
		r.outcomes = append(r.outcomes, out)
		return true
	})
}

// settleInOrder does so when entries are released in the order of the log, and so
// everything may be seen that was applied.
func (k *keyOrder) settleInOrder(r *Replica, until machine.Mono) {
	k.reads = slices.DeleteFunc(k.reads, func(q *keyRead) bool {
		if !q.known && r.now < until && !r.reads.unsettled() {
			q.need, q.known = r.last, true
		}
		if !q.known || q.need > r.reads.given {
			return r.now.Sub(q.since) > r.cfg.patience()
		}
		r.outcomes = append(r.outcomes, KeysReady{ID: q.ID, Index: q.need, UpTo: r.reads.given, Local: !q.committed, Exact: q.together})
		return true
	})
}

// questions are the reads for which a round has to be made.
func (k *keyOrder) questions() (list []*keyRead) {
	for _, q := range k.reads {
		if !q.known && !q.asked {
			list = append(list, q)
		}
	}
	return list
}

// confirmed takes a round's answer.
func (q *keyRead) confirmed(index uint64) {
	if !q.known {
		q.need, q.known, q.committed = index, true, true
	}
}

// again has the reads asked anew that no round has answered, or that were told to wait
// for what another leader may have cut off.
func (k *keyOrder) again(commit uint64) {
	for _, q := range k.reads {
		q.asked = false
		if q.committed && q.need > commit {
			q.known, q.behind = false, 0
		}
	}
}
