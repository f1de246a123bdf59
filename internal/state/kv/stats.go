package kv

// Stats tells sizes. Bytes is an estimate of the heap that the state occupies,
// history included; it is good enough for a quota, not for accounting.
type Stats struct {
	Keys     int64 // that exist
	Versions int64 // kept, tombstones included
	Leases   int64
	Bytes    int64
}

// Costs beside keys and values: a version fills its size class, a key has an item and its
// share of tree nodes, and slices are rounded up.
const (
	versionBytes = 128 + 8 + 8 // with its slots in the log and rounding
	keyBytes     = 8 + 40 + 8
	leaseBytes   = 96
	tiedBytes    = 56 // of a key of a lease that has several
)

func (s *Stats) add(v *version) {
	s.Versions++
	s.Bytes += versionBytes + int64(len(v.kv.Value))
}

func (s *Stats) remove(v *version) {
	s.Versions--
	s.Bytes -= versionBytes + int64(len(v.kv.Value))
}

func (s *Stats) addKey(key []byte)    { s.Bytes += keyBytes + int64(len(key)) }
func (s *Stats) removeKey(key []byte) { s.Bytes -= keyBytes + int64(len(key)) }

func (s *Stats) addLease() {
	s.Leases++
	s.Bytes += leaseBytes
}

func (s *Stats) removeLease() {
	s.Leases--
	s.Bytes -= leaseBytes
}
