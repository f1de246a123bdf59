package kv

// Stats tells sizes. Bytes is an estimate of the heap that the state occupies,
// history included; it is good enough for a quota, not for accounting.
type Stats struct {
	Keys     int64 // that exist
	Versions int64 // kept, tombstones included
	Leases   int64
	Bytes    int64
	// History is the part of Bytes that a compaction at the newest revision would give back: versions that are
	// not the newest of a key that exists, and deleted keys.
	History int64
}

// Costs beside keys and values: a version fills its size class, a key has an item and its
// share of tree nodes, and slices are rounded up.
const (
	versionBytes = 128 + 8 + 8 // with its slots in the log and rounding
	keyBytes     = 8 + 40 + 8
	leaseBytes   = 96
	tiedBytes    = 56 // of a key of a lease that has several
)

func (v *version) bytes() int64 { return versionBytes + int64(len(v.kv.Value)) }

func bytesOfKey(key []byte) int64 { return keyBytes + int64(len(key)) }

// add counts a version that takes the place of the newest one of its key, nil if there is none.
func (s *Stats) add(v, newest *version) {
	s.Versions++
	s.Bytes += v.bytes()
	switch {
	case newest == nil:
		s.Bytes += bytesOfKey(v.kv.Key)
	case newest.dead():
		s.History -= bytesOfKey(v.kv.Key)
	default:
		s.History += newest.bytes()
		s.Keys--
	}
	if v.dead() {
		s.History += v.bytes() + bytesOfKey(v.kv.Key)
	} else {
		s.Keys++
	}
}

// remove counts a version of the history that was given back.
func (s *Stats) remove(v *version) {
	s.Versions--
	s.Bytes -= v.bytes()
	s.History -= v.bytes()
}

// removeKey counts a deleted key that was given back.
func (s *Stats) removeKey(key []byte) {
	s.Bytes -= bytesOfKey(key)
	s.History -= bytesOfKey(key)
}

func (s *Stats) addLease() {
	s.Leases++
	s.Bytes += leaseBytes
}

func (s *Stats) removeLease() {
	s.Leases--
	s.Bytes -= leaseBytes
}
