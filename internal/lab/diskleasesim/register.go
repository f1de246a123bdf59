package diskleasesim

import (
	"errors"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// register is the shared register of a world, with the time that its accesses take.
type register struct {
	w     *sim.World
	delta time.Duration // δ
	// regular says that reads choose among all that Definition 1 allows; else the
	// register is atomic, and greater versions win.
	regular bool
	wrote   func() // is told of each write that is invoked, if set

	// While the system is unstable: how likely an access stalls, and fails.
	stall, fail float64
	worst       time.Duration

	writes []*write // in the order π
	notes  []machine.Noted
	clock  uint64 // of invocations and responses
	value  machine.Value
	floor  uint64 // the forgotten one was not greater
}

// write is a write of a regular register.
type write struct {
	value machine.Value
	ended uint64 // 0 while it is under way
}

var errStore = errors.New("the store failed")

// time draws how long an access takes. In a stable system all end within δ, many of
// them as early or as late as they may: that is where the constants are tight.
func (r *register) time() time.Duration {
	if r.w.Chance(r.stall) {
		return r.w.Between(0, r.worst)
	}
	switch r.w.Rand.IntN(4) {
	case 0:
		return r.w.Between(0, r.delta/20)
	case 1:
		return r.w.Between(0, r.delta-1)
	}
	return r.w.Between(r.delta-r.delta/50, r.delta-1)
}

// access serves a host. Its effect on the register comes even if the host has crashed by then;
// a failed write may take effect much later.
func (r *register) access(h *sim.Host, writer machine.ID, a machine.Access) {
	r.clock++
	begun, takes := r.clock, r.time()
	reply := func(in time.Duration, v any, err error) {
		h.After(in, func() { h.Accessed(machine.Accessed{ID: a.ID, Reply: v, Err: err}) })
	}
	failed := r.w.Chance(r.fail)
	switch op := a.Op.(type) {
	case machine.Read:
		if failed {
			reply(takes, nil, errStore)
			return
		}
		if r.regular {
			h.After(takes, func() {
				r.clock++
				h.Accessed(machine.Accessed{ID: a.ID, Reply: r.choose(begun)})
			})
			return
		}
		at := r.w.Between(0, takes)
		h.After(at, func() {
			r.w.Note("%s reads version %d", h.Lane, r.value.Version.Seq)
			reply(takes-at, r.show(r.value), nil)
		})
	case machine.Write:
		if r.wrote != nil {
			r.wrote()
		}
		seq := op.Seq
		if seq == 0 {
			seq = r.value.Version.Seq + 1
		}
		v := machine.Value{Version: machine.Version{Seq: seq, Writer: writer}, Data: op.Data}
		if r.regular {
			wr := r.insert(v)
			h.After(takes, func() {
				r.clock++
				wr.ended = r.clock
				h.Accessed(machine.Accessed{ID: a.ID, Reply: v.Version})
			})
			return
		}
		r.w.Note("%s writes version %d", h.Lane, seq)
		r.w.Mark(sim.Writes, h.Lane, "version %d", seq)
		takesEffect := r.w.Between(0, takes)
		if failed {
			reply(takes, nil, errStore)
			if r.w.Chance(0.3) {
				return // and never takes effect
			}
			takesEffect += r.w.Between(0, 2*r.worst)
		} else {
			reply(takes, v.Version, nil)
		}
		r.w.After(takesEffect, func() { r.put(v) })
	case machine.Note:
		if failed {
			reply(takes, nil, errStore)
			return
		}
		at := r.w.Between(0, takes)
		r.w.After(at, func() { r.note(writer, op.Data) })
		reply(takes, nil, nil)
	}
}

func (r *register) put(v machine.Value) {
	if v.Version.Compare(r.value.Version) > 0 {
		r.value = v
		r.w.Note("version %d takes effect", v.Version.Seq)
		return
	}
	r.w.Note("version %d comes too late", v.Version.Seq)
}

func (r *register) note(writer machine.ID, data []byte) {
	i, found := slices.BinarySearchFunc(r.notes, writer, func(n machine.Noted, id machine.ID) int { return n.Writer.Compare(id) })
	r.notes = slices.Clone(r.notes)
	if !found {
		r.notes = slices.Insert(r.notes, i, machine.Noted{Writer: writer})
	}
	r.notes[i].Data = data
}

// forget drops the note of a claim that is over, and the data if it is its, as stores do when
// they are no longer needed.
func (r *register) forget(writer machine.ID) {
	if disklease.Obsolete(r.show(r.value), writer) {
		if r.value.Version.Writer == writer {
			r.floor, r.value = r.value.Version.Seq, machine.Value{}
		}
		r.notes = slices.DeleteFunc(slices.Clone(r.notes), func(n machine.Noted) bool { return n.Writer == writer })
	}
}

func (r *register) show(v machine.Value) machine.Value {
	v.Next, v.Notes = max(v.Version.Seq, r.floor)+1, r.notes
	return v
}

// insert gives a write that begins its place in π: anywhere behind those that have
// ended. It need not be behind those that began before it.
func (r *register) insert(v machine.Value) *write {
	wr := &write{value: v}
	v.Version.Seq = r.clock // unique, and no token: π is not known to anybody
	wr.value.Version.Seq, wr.value.Next = r.clock, r.clock+1
	first := r.lastEnded(^uint64(0)) + 1
	r.writes = slices.Insert(r.writes, first+r.w.Rand.IntN(len(r.writes)-first+1), wr)
	if first > 100 { // no read reaches that far back
		r.writes = slices.Delete(r.writes, 0, 50)
	}
	return wr
}

// lastEnded is the place in π of the last write that had ended before a time, or -1.
func (r *register) lastEnded(before uint64) int {
	for i := len(r.writes) - 1; i >= 0; i-- {
		if e := r.writes[i].ended; e != 0 && e < before {
			return i
		}
	}
	return -1
}

// choose returns a possible result of a read that began then and ends now: any write from the
// last one in π that had ended before it began, on.
func (r *register) choose(begun uint64) machine.Value {
	first := r.lastEnded(begun)
	n := len(r.writes) - max(first, 0)
	if first < 0 {
		n++ // or the initial value
	}
	i := r.w.Rand.IntN(n)
	if first < 0 {
		i--
	}
	if i+max(first, 0) < 0 {
		return machine.Value{Next: 1}
	}
	return r.writes[max(first, 0)+i].value
}
