package flease

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// slots is how many parts the names are spread over. Each has its cell; so cells are
// worked out once for each view and not for each name.
const slots = 4096

// View is a generation of the membership.
type View struct {
	// Epoch grows with each view.
	Epoch uint64
	// Members are the peers' indices, ascending.
	Members []machine.NodeID
	// Replicas is how many members coordinate a resource, its cell: a majority of them has
	// to answer. 0: three, or all if there are fewer. Which ones follows from the
	// resource's name, by rendezvous hashing, so that capacity grows with the members
	// and nobody draws partitions.
	Replicas int
	// Places is a hash of where the members are, or 0. Peers with different places under
	// one epoch have different views: with one index at two places, two majorities of a
	// cell may share no member.
	Places uint64
}

// maxReplicas is how many members a cell may have.
const maxReplicas = 31

// Check says what is wrong with a view.
func (v View) Check() error {
	switch {
	case v.Epoch == 0:
		return fmt.Errorf("%w: view epoch 0; begin with 1", ErrConfig)
	case len(v.Members) == 0:
		return fmt.Errorf("%w: a view without members; name them", ErrConfig)
	case v.Replicas < 0 || v.Replicas > maxReplicas:
		return fmt.Errorf("%w: cells of %d members; want 1 to %d, or 0 for three", ErrConfig, v.Replicas, maxReplicas)
	}
	for i, m := range v.Members {
		if m < 1 || m > MaxMember || i > 0 && m <= v.Members[i-1] {
			return fmt.Errorf("%w: members %v; want indices from 1 to %d, ascending, each once", ErrConfig, v.Members, MaxMember)
		}
	}
	return nil
}

// replicas is the size of the view's cells.
func (v View) replicas() int {
	n := v.Replicas
	if n == 0 {
		n = 3
	}
	return min(n, len(v.Members))
}

// digest tells views of one epoch apart.
func (v View) digest() uint32 {
	h := fnv.New32a()
	var w wire.Writer
	v.encode(&w)
	_, _ = h.Write(w)
	return h.Sum32()
}

func (v View) encode(w *wire.Writer) {
	w.Uvarint(v.Epoch)
	w.Uvarint(uint64(v.replicas()))
	w.Count(len(v.Members))
	for _, m := range v.Members {
		w.Uvarint(uint64(m))
	}
	w.Uint64(v.Places)
}

// Cell names the members that coordinate a resource under a view, ascending. It works
// the view out anew; peers do so once.
func (v View) Cell(name string) []machine.NodeID { return v.cell(slotOf(name)) }

// slotOf is the part that a name belongs to.
func slotOf(name string) int {
	h := uint64(14695981039346656037) // FNV-1a, and a mix since its high bits are weak
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return int(mix(h) >> 52)
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// cell is rendezvous hashing: the members with the greatest weights for the slot.
func (v View) cell(slot int) []machine.NodeID {
	n := v.replicas()
	if n == len(v.Members) {
		return v.Members
	}
	type weighed struct {
		weight uint64
		member machine.NodeID
	}
	best := make([]weighed, 0, n+1)
	for _, m := range v.Members {
		w := weighed{mix(uint64(slot)<<32 ^ uint64(m)*0x9e3779b97f4a7c15), m}
		if len(best) == n && w.weight <= best[n-1].weight {
			continue
		}
		i := len(best)
		for i > 0 && best[i-1].weight < w.weight {
			i--
		}
		best = slices.Insert(best, i, w)
		best = best[:min(len(best), n)]
	}
	cell := make([]machine.NodeID, 0, n)
	for _, w := range best {
		cell = append(cell, w.member)
	}
	slices.Sort(cell)
	return cell
}

// layout is a view worked out.
type layout struct {
	view   View
	digest uint32
	cells  [slots]*cellGroup
	groups []*cellGroup // distinct, in the order of their first slot
}

// cellGroup is a cell: the members that all names of some slots share.
type cellGroup struct {
	members  []machine.NodeID
	majority int
	self     int // our index among members, -1 if we are none of them
}

func newLayout(v View, self machine.NodeID) *layout {
	v.Members = slices.Clone(v.Members)
	l := &layout{view: v, digest: v.digest()}
	known := map[string]*cellGroup{}
	for s := range slots {
		if s > 0 && v.replicas() == len(v.Members) {
			l.cells[s] = l.cells[0]
			continue
		}
		members := v.cell(s)
		key := make([]byte, 0, 2*len(members))
		for _, m := range members {
			key = append(key, byte(m>>8), byte(m))
		}
		g := known[string(key)]
		if g == nil {
			g = &cellGroup{members: members, majority: len(members)/2 + 1, self: slices.Index(members, self)}
			known[string(key)] = g
			l.groups = append(l.groups, g)
		}
		l.cells[s] = g
	}
	return l
}

// index is a member's place in the cell, -1 if it has none.
func (g *cellGroup) index(m machine.NodeID) int {
	for i, x := range g.members {
		if x == m {
			return i
		}
	}
	return -1
}
