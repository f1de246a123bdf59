package registertest

import "fmt"

// Regular returns an error unless the history is regular in the sense of Definition 1 of Chockler and
// Malkhi (MWR2). That asks for one permutation π of all operations, with a property that every read r
// has. The projection of π onto r and the writes that began before r ended is legal and respects real
// time.
//
// Draw a graph: its vertices are the writes, the initial one among them. It has an edge from w to every
// write that began after w ended. For each read r of a write v, it has an edge to v from every other
// write that ended before r began. Let no read return a value that was not yet being written, for which
// split cares. Then:
//
// The history is regular if and only if the graph has no cycle.
//
// If: let π be a topological order of the writes, with each read put straight after the write that it
// returns. For a read r of v, the last write before r in π is v, and v is in r's projection: it is
// legal. It also respects real time. Two writes are in order by the first kind of edge. A write that
// ended before r began is before r by the second kind, since it is v or comes before v. A write that
// began after r ended is not in the projection.
//
// Only if: let π be as the definition wants, and V the writes that began before some read ended. Each
// edge into V comes from V, because its source ended before its target, or a read, began. π goes along
// it. For the first kind that is so because both ends are in some read's projection, which respects real
// time. For the second kind, the source is before r in r's projection, and v is the last write before
// r. So there is no cycle in V. The other writes began after all reads had ended: among them, and into
// them, there are only edges of the first kind, which go forward in time.
//
// So of a write w only two moments count: its end, and the latest of the moments when it, or a read of
// it, began; call that w's last. There is an edge from w to v if and only if w.End < v.last. In such a
// graph there is a cycle if and only if two writes have edges both ways: take a cycle, and of its writes
// the one with the least End, m. Its predecessor p has p.End < m.last; and since p has a predecessor
// too, whose End is not less than m's, m.End < p.last. It remains to look at pairs.
func Regular(history []Operation) error {
	writes, index, reads, err := split(history)
	if err != nil {
		return err
	}
	last := make([]Operation, len(writes)) // of each write, the later to begin: it or a read of it
	copy(last, writes)
	for _, r := range reads {
		if w := index[r.Data]; r.Begin > last[w].Begin {
			last[w] = r
		}
	}
	for i, w := range writes {
		for j, v := range writes[:i] {
			if w.End < last[j].Begin && v.End < last[i].Begin {
				return fmt.Errorf("not regular: no order of these two writes explains both reads, or a read that is stale: %v; %v; %v; %v",
					w, v, last[i], last[j])
			}
		}
	}
	return nil
}
