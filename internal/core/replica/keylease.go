package replica

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
)

// KeyLease lets this member's readers answer by themselves in key order, as [ReadLease]
// does in strict order. A reader loads it, then reads the clock. If Until is not reached,
// the reader asks [KeyLease.Ready] about its keys, and loads the states last. It must be
// visible to readers before anything of the same turn leaves (R8). Nobody changes it, and
// many may ask it at once. Nil is none.
//
// It says what the log has that such a reader must not go by: each key that an entry
// changes which is not released, or not in every state that is loaded from now on. A reader
// of one of those asks the machine ([ReadKeys]).
type KeyLease struct {
	Until machine.Mono
	// Counted tells that the keys that are read have to be told of: see [Served].
	Counted bool

	self      machine.NodeID
	floor     uint64 // every state that is loaded from now on has applied it
	commit    uint64
	confs     []conf
	invisible invisible
}

// Ready says from which state some keys may be read, or reports false if the machine has
// to be asked.
func (l *KeyLease) Ready(keys keyspan.Set) (KeysReady, bool) {
	out := KeysReady{Index: l.floor, UpTo: l.commit, Local: true, Exact: together(keys)}
	ok := len(keys) > 0 && !l.invisible.meets(keys, out.Exact) && holdAll(l.confs, l.self, keys)
	return out, ok
}

// invisible are the keys that entries of the log change, but for entries that are released
// and in every state that is captured from now on. Readers have what it was at some
// moment, so that no element is written twice.
type invisible struct {
	entries []uint64 // ascending; one for each of keys
	keys    []uint64 // their hashes
	ranges  []uint64 // entries that change more than single keys, ascending
	tidied  int      // how many keys were left when it was last tidied
}

// maxInvisible is how many of these keys readers look through.
const maxInvisible = 1024

// add takes what an entry changes.
func (u *invisible) add(i uint64, writes keyspan.Set) {
	for _, s := range writes {
		switch {
		case len(s.End) == 0:
			u.entries, u.keys = append(u.entries, i), append(u.keys, hashOf(s.Key))
		case len(u.ranges) == 0 || u.ranges[len(u.ranges)-1] != i:
			u.ranges = append(u.ranges, i)
		}
	}
}

// truncate forgets the entries from an index on.
func (u *invisible) truncate(from uint64) {
	n, _ := slices.BinarySearch(u.entries, from)
	m, _ := slices.BinarySearch(u.ranges, from)
	u.entries, u.keys, u.ranges = u.entries[:n:n], u.keys[:n:n], u.ranges[:m:m]
}

// tidy forgets the entries that the table has given up, those in front at once.
func (u *invisible) tidy(t *keyspan.Table) {
	for len(u.entries) > 0 && !t.Has(u.entries[0]) {
		u.entries, u.keys = u.entries[1:], u.keys[1:]
	}
	for len(u.ranges) > 0 && !t.Has(u.ranges[0]) {
		u.ranges = u.ranges[1:]
	}
	if len(u.keys) <= max(maxInvisible, 2*u.tidied) {
		return
	}
	var entries, keys []uint64
	for n, i := range u.entries {
		if t.Has(i) {
			entries, keys = append(entries, i), append(keys, u.keys[n])
		}
	}
	u.entries, u.keys, u.tidied = entries, keys, len(keys)
}

// fits reports whether it is small enough for readers. Behind a range they ask the machine.
func (u *invisible) fits() bool { return len(u.keys) <= maxInvisible && len(u.ranges) == 0 }

// meets reports whether a key may be among them, or, if keys are read together, any is there.
func (u *invisible) meets(keys keyspan.Set, together bool) bool {
	return together && len(u.keys) > 0 || slices.Contains(u.keys, hashOf(keys[0].Key))
}

// hashOf is FNV-1a.
func hashOf(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

// keyLease returns what readers here may go by, or false if each has to ask.
func (rl *readLeases) keyLease(at moment) (l KeyLease, ok bool) {
	k := &rl.keys
	if k.invisible.tidy(k.log.Keys()); k.blind || !rl.setting.policy.ByKey() || !k.invisible.fits() {
		return l, false
	}
	until := rl.until(at)
	if until == 0 {
		return l, false
	}
	return KeyLease{
		Until: until, Counted: rl.plans.counter != nil,
		self: at.cfg.ID, floor: k.log.Keys().Floor(), commit: rl.committed, confs: inForce(k.confs, rl.committed), invisible: k.invisible,
	}, true
}

// same reports whether two say the same.
func (l *KeyLease) same(o *KeyLease) bool {
	return l.Until == o.Until && l.Counted == o.Counted && l.floor == o.floor && l.commit == o.commit &&
		sameSlice(l.confs, o.confs) && sameSlice(l.invisible.keys, o.invisible.keys)
}

// sameSlice reports whether two slices are the same part of one array.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
