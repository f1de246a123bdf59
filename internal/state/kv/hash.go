package kv

import "math"

// Hash sums up the keys and their history from the compact revision up to revision rev; 0 stands for
// the newest. Two views with one compact revision have the same hash at a revision if they show the same
// keys, values and leases of keys there, whatever happened since and whatever was reclaimed. It is a
// checksum against damage, not against a forger.
//
// It returns the revision that rev stands for. Errors are [ErrCompacted], [ErrFutureRevision],
// [ErrStaleView] and [ErrNoState].
func (v View) Hash(rev int64) (sum uint32, at int64, err error) {
	switch {
	case v.none():
		return 0, 0, ErrNoState
	case rev < 0 || rev > 0 && rev < v.compact:
		return 0, 0, ErrCompacted
	case rev > v.revision:
		return 0, 0, ErrFutureRevision
	case rev == 0:
		rev = v.revision
	}
	e := newEncoder(discard{})
	e.history(v, rev)
	if sum = e.summed(); v.Stale() {
		return 0, 0, ErrStaleView
	}
	return sum, rev, nil
}

// HashAll sums up the whole state: keys, history, and leases with what remains of them. Errors are
// [ErrStaleView] and [ErrNoState].
func (v View) HashAll() (sum uint32, err error) {
	if v.none() {
		return 0, ErrNoState
	}
	e := newEncoder(discard{})
	e.history(v, math.MaxInt64)
	e.leases(v)
	if sum = e.summed(); v.Stale() {
		return 0, ErrStaleView
	}
	return sum, nil
}

// discard is where bytes go that are only summed up.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// history writes what was visible at the compact revision, and the events from there up to revision rev.
func (e *encoder) history(v View, rev int64) {
	for base := range v.Base() {
		if e.version(recordBase, base); e.err != nil {
			return
		}
	}
	for i := v.log.search(v.compact); i < v.log.n && e.err == nil; i++ {
		kv := &v.log.at(i).kv
		if kv.ModRevision > rev {
			return
		}
		e.version(recordPut, kv)
	}
}

func (e *encoder) leases(v View) {
	v.leases.Scan(func(_ int64, l *lease) bool {
		e.record(recordLease, l.info.ID, l.info.TTL, l.info.Remaining)
		return e.err == nil
	})
}
