package replica

import "container/heap"

// dueHeap holds leases. The first of them, as many as are ordered, are a heap by
// due, then id so that the order is the same in every run. The rest wait to be
// ordered one by one: ordering millions at once takes seconds.
type dueHeap struct {
	all     []*lease
	ordered int
}

// add puts a lease behind all others.
func (h *dueHeap) add(l *lease) {
	l.slot = int32(len(h.all))
	h.all = append(h.all, l)
}

// next returns the lease that order takes into the heap; nil if all are in.
func (h *dueHeap) next() *lease {
	if h.ordered == len(h.all) {
		return nil
	}
	return h.all[h.ordered]
}

func (h *dueHeap) order() { heap.Push(h, nil) }

func (h *dueHeap) remove(l *lease) {
	i, last := int(l.slot), len(h.all)-1
	if i < h.ordered {
		heap.Remove(h, i)
		i = h.ordered // just behind the heap
	}
	h.Swap(i, last)
	h.all[last] = nil
	h.all = h.all[:last]
	l.slot = -1
}

func (h *dueHeap) Len() int { return h.ordered }

func (h *dueHeap) Less(i, j int) bool {
	a, b := h.all[i], h.all[j]
	return a.due < b.due || a.due == b.due && a.id < b.id
}

func (h *dueHeap) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.all[i].slot, h.all[j].slot = int32(i), int32(j)
}

// Push and Pop are for package heap. The lease that comes or goes is the one
// behind the heap.
func (h *dueHeap) Push(any) { h.ordered++ }

func (h *dueHeap) Pop() any { h.ordered--; return nil }
