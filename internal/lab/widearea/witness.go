package widearea

// witness judges operations on registers, one a key, in true time: no operation may miss a
// value that was seen by an operation that ended before it began. With revisions, which put the
// writes of a key in order, that is linearizability.
type witness struct {
	newest []int64 // of each key: the latest revision that an operation which ended has seen
	stale  int     // operations that missed one
}

// begin returns what an operation on keys that begins now must see of each.
func (w *witness) begin(keys ...int) (seen []int64) {
	seen = make([]int64, len(keys))
	for i, key := range keys {
		seen[i] = w.newest[key]
	}
	return seen
}

// read takes note that a read ended, and of which revision's values it saw.
func (w *witness) read(keys []int, seen, written []int64) {
	missed := false
	for i, key := range keys {
		missed = missed || written[i] < seen[i]
		w.newest[key] = max(w.newest[key], written[i])
	}
	if missed {
		w.stale++
	}
}

// wrote takes note that a write ended that made a revision.
func (w *witness) wrote(keys []int, seen []int64, rev int64) {
	missed := false
	for i, key := range keys {
		missed = missed || rev <= seen[i]
		w.newest[key] = max(w.newest[key], rev)
	}
	if missed {
		w.stale++
	}
}
