package node

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tenure-lease/tenure/replica"
)

// visible keeps the states that were applied apart from what anybody may see: in key
// order an entry is applied before it is released. The applier's goroutine owns it.
type visible struct {
	n       *Node
	through uint64          // everything up to here may be seen
	apart   map[uint64]bool // results and keys of these entries, too
	swept   uint64          // up to where apart has nothing any more
	// ahead are the published state and those behind it, by index.
	ahead []*state
	kept  []replica.Result  // of entries that are not released, by index
	fresh []uint64          // released apart, and not answered
	reads map[uint64]*state // for reads by the log, by their ID, until they are answered
}

// begin starts from the state that a snapshot holds, as far as it may be seen.
func (v *visible) begin(now *state, released uint64) {
	v.through = max(v.through, released)
	v.ahead = []*state{now}
	if now.index > v.through {
		before := v.n.State()
		if before == nil { // nor is anybody shown anything yet
			before = &state{roster: now.roster}
		}
		v.ahead = []*state{before, now}
	}
	v.show()
}

// add takes a state; one that is not held may be seen, with all before.
func (v *visible) add(now *state, held bool) {
	v.ahead = append(v.ahead, now)
	if !held {
		v.through = max(v.through, now.index)
	}
}

// release learns what else may be seen.
func (v *visible) release(out replica.Released) {
	v.through = max(v.through, out.Through)
	for _, i := range out.Apart {
		if v.apart == nil {
			v.apart = map[uint64]bool{}
		}
		v.apart[i] = true
	}
	v.fresh = append(v.fresh, out.Apart...)
}

// show publishes the newest state that may be seen, and those ahead of it.
func (v *visible) show() {
	n := 0
	for n+1 < len(v.ahead) && v.ahead[n+1].index <= v.through {
		n++
	}
	// Readers may have the slice: what they see of it is never written again.
	if v.ahead = v.ahead[n:]; n > len(v.ahead) { // lest it keep all that was ahead
		v.ahead = slices.Clone(v.ahead)
	}
	ahead := v.ahead
	v.n.ahead.Store(&ahead)
	if v.n.state.Swap(ahead[0]) != ahead[0] && v.n.hub != nil {
		v.n.hub.Publish(ahead[0].view)
	}
	if v.through > v.swept {
		v.swept = v.through
		maps.DeleteFunc(v.apart, func(i uint64, _ bool) bool { return i <= v.through })
	}
}

// answer gives results to who waits for them, those that were kept first. It looks at
// what became visible only: much may be held for long.
func (v *visible) answer(results []replica.Result) {
	n := 0
	for n < len(v.kept) && v.kept[n].Index <= v.through {
		n++
	}
	v.tell(v.kept[:n])
	v.kept = v.kept[n:]
	for _, i := range v.fresh {
		from, _ := slices.BinarySearchFunc(v.kept, i, func(r replica.Result, i uint64) int { return cmp.Compare(r.Index, i) })
		to := from
		for to < len(v.kept) && v.kept[to].Index == i {
			to++
		}
		v.tell(v.kept[from:to])
		v.kept = slices.Delete(v.kept, from, to)
	}
	v.fresh = v.fresh[:0]
	for i, r := range results {
		if r.Index <= v.through || v.apart[r.Index] {
			v.tell(results[i : i+1])
		} else {
			v.kept = append(v.kept, r)
		}
	}
}

func (v *visible) tell(results []replica.Result) {
	for _, r := range results {
		v.n.results.answer(r.ID, result{r.Response, r.Err, v.reads[r.ID]})
		delete(v.reads, r.ID)
	}
}

// capture keeps the state of the log's place for each read that has one. In strict
// order, where there is not a state for each entry, a later one is as good.
func (v *visible) capture(results []replica.Result) {
	for _, r := range results {
		if r.Response != nil || r.Err != nil {
			continue
		}
		at, _ := slices.BinarySearchFunc(v.ahead, r.Index, func(st *state, i uint64) int { return cmp.Compare(st.index, i) })
		if v.reads == nil {
			v.reads = map[uint64]*state{}
		}
		v.reads[r.ID] = v.ahead[at]
	}
}

// applied is the newest state: what the member itself goes by, and shows to nobody. Who
// the members are, and where, has to be known before others can tell what may be seen.
func (n *Node) applied() *state {
	ahead := *n.ahead.Load()
	return ahead[len(ahead)-1]
}

func (n *Node) appliedIndex() uint64 { return n.applied().index }

// stateUpTo is the newest state up to an index, if there is one.
func (n *Node) stateUpTo(index uint64) (st *state, ok bool) {
	ahead := *n.ahead.Load()
	at, found := slices.BinarySearchFunc(ahead, index, func(st *state, i uint64) int { return cmp.Compare(st.index, i) })
	if !found {
		at--
	}
	if at < 0 {
		return nil, false
	}
	return ahead[at], true
}
