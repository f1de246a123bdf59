package replica

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// heldUp knows since when entries that are not released have been committed, for people.
type heldUp struct{ marks []commitMark }

// commitMark is when the log was committed up to an index.
type commitMark struct {
	upTo uint64
	at   machine.Mono
}

// maxCommitMarks bounds the marks of what waits for long: then each stands for more.
const maxCommitMarks = 1024

func (h *heldUp) committed(upTo uint64, now machine.Mono) {
	if n := len(h.marks); n >= maxCommitMarks {
		// The first is the one that is told; a later one is older than it should be.
		for i := range n / 2 {
			h.marks[i] = commitMark{h.marks[2*i+1].upTo, h.marks[2*i].at}
		}
		h.marks = h.marks[:n/2]
	}
	h.marks = append(h.marks, commitMark{upTo, now})
}

func (h *heldUp) released(through uint64) {
	n := 0
	for n < len(h.marks) && h.marks[n].upTo <= through {
		n++
	}
	h.marks = slices.Delete(h.marks, 0, n)
}

// since returns for how long the first that is not released has waited.
func (h *heldUp) since(now machine.Mono) time.Duration {
	if len(h.marks) == 0 {
		return 0 // it was committed before this member started
	}
	return now.Sub(h.marks[0].at)
}

// lacking returns the members that lack an entry of which they hold keys, and to which some
// member is bound.
func (k *keyOrder) lacking(at positions, l *quorumlease.Ledger) []machine.NodeID {
	everyone := func(machine.NodeID) bool { return true }
	var list []machine.NodeID
	lack := func(entries []uint64, waits func(uint64) bool, holds func(machine.NodeID) bool) {
		for _, i := range slices.Backward(entries) {
			if i <= at.committed && waits(i) {
				list = append(list, l.Lacking(i, holds)...)
				return
			}
		}
	}
	for n := range k.missed {
		lack(k.missed[n].entries, k.log.held, k.missed[n].mayLack)
	}
	lack(k.fences, func(uint64) bool { return true }, everyone)
	slices.Sort(list)
	return slices.Compact(list)
}
