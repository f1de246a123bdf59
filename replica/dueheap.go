package replica

// dueHeap orders leases by due, then id so that the order is the same in every
// run.
type dueHeap []*lease

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].id < h[j].id
}
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = int32(i), int32(j)
}
func (h *dueHeap) Push(x any) {
	l := x.(*lease)
	l.slot = int32(len(*h))
	*h = append(*h, l)
}
func (h *dueHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	l.slot = -1
	*h = old[:len(old)-1]
	return l
}
