package placement

import "math"

// top keeps the entries that are touched most in bounded memory: Metwally, Agrawal,
// El Abbadi, Efficient Computation of Frequent and Top-k Elements in Data Streams,
// ICDT 2005 ("space saving"). Of n touches, whatever has more than n/limit is there.
//
// An entry that pushes another out inherits its rank, but its load begins at nothing:
// loads are never more than what happened.
type top struct {
	limit int
	index map[string]*entry
	heap  []*entry // the least rank first
}

type entry struct {
	id string
	load
	rank uint64 // touches, and those inherited
	at   int    // in the heap
}

// load is how often something was read, and written by origin (see Counter.origin).
type load struct {
	reads  uint32
	writes []uint32
}

func (l *load) read() { add(&l.reads) }

func (l *load) write(origin int) {
	for len(l.writes) <= origin {
		l.writes = append(l.writes, 0)
	}
	add(&l.writes[origin])
}

// add counts, and stays at the greatest number there is.
func add(n *uint32) {
	if *n < math.MaxUint32 {
		*n++
	}
}

func newTop(limit int) *top {
	return &top{limit: limit, index: make(map[string]*entry, limit)}
}

// touch finds an entry, or makes one in the place of the least.
func (t *top) touch(id []byte) *entry {
	e, ok := t.index[string(id)]
	switch {
	case ok:
	case len(t.heap) < t.limit:
		e = &entry{id: string(id), at: len(t.heap)}
		t.index[e.id] = e
		t.heap = append(t.heap, e)
		t.up(e)
	default:
		e = t.heap[0]
		delete(t.index, e.id)
		e.id, e.load = string(id), load{}
		t.index[e.id] = e
	}
	e.rank++
	t.down(e)
	return e
}

func (t *top) clear() {
	clear(t.index)
	t.heap = t.heap[:0]
}

// up moves an entry that is less than those above it; a new one has rank 0.
func (t *top) up(e *entry) {
	for e.at > 0 && t.heap[(e.at-1)/2].rank > e.rank {
		t.swap(e, t.heap[(e.at-1)/2])
	}
}

func (t *top) down(e *entry) {
	for {
		least := e
		for child := 2*e.at + 1; child <= 2*e.at+2 && child < len(t.heap); child++ {
			if t.heap[child].rank < least.rank {
				least = t.heap[child]
			}
		}
		if least == e {
			return
		}
		t.swap(e, least)
	}
}

func (t *top) swap(a, b *entry) {
	a.at, b.at = b.at, a.at
	t.heap[a.at], t.heap[b.at] = a, b
}
