package quorumregister

import (
	"fmt"
	"math"

	"github.com/tenure-lease/tenure/internal/machine"
)

// operation is one Read, Write or Note, a round or two of accesses to all bases.
type operation struct {
	goal any           // what every base is asked in this round: a Query, Put or PutNote
	seen State         // what the answers to the Query show together
	read machine.Value // what a read returns, once it is known
}

// begin starts to serve a request.
func (o *over[In, Out]) begin(r request) {
	if r.At != 0 {
		panic(fmt.Sprintf("quorumregister: there is one register, at 0, and none at %d", r.At))
	}
	o.op = &operation{}
	switch op := r.Op.(type) {
	case machine.Read:
		o.start(Query{})
	case machine.Write:
		if op.Seq == 0 {
			o.start(Query{})
		} else {
			o.put(op.Seq, op.Data)
		}
	case machine.Note:
		o.note = PutNote{o.cfg.Writer, o.note.Seq + 1, op.Data}
		o.start(o.note)
	default:
		panic(fmt.Sprintf("quorumregister: an access to a register is a Read, Write or Note, not %T", op))
	}
}

// start begins a round: every base is asked anew.
func (o *over[In, Out]) start(goal any) {
	o.round++
	o.op.goal = goal
}

// next follows a round that a majority has done.
func (o *over[In, Out]) next() {
	op := o.op
	switch goal := op.goal.(type) {
	case PutNote:
		o.finish(nil, nil)
	case Put:
		if _, ok := o.queue[0].Op.(machine.Write); ok {
			o.finish(goal.Version, nil)
		} else {
			o.finish(op.read, nil)
		}
	case Query:
		if w, ok := o.queue[0].Op.(machine.Write); ok {
			o.put(0, w.Data)
			return
		}
		op.read = o.value(op.seen)
		if o.cfg.Atomic && op.read.Version.Seq > 0 {
			// Later readers must find it: write it back. Bases that hold it have done their
			// part, so this ends at once if a majority does.
			o.start(Put{op.seen.Version, op.seen.Data})
			return
		}
		o.finish(op.read, nil)
	}
}

// put begins the last round of a write, under seq, or after all that was seen. A
// Seq is used once, for a write that failed may take effect at any later time.
func (o *over[In, Out]) put(seq uint64, data []byte) {
	switch {
	case seq == 0 && o.highest == math.MaxUint64:
		o.finish(nil, ErrExhausted)
		return
	case seq == 0:
		seq = o.highest + 1
	case seq <= o.tried:
		o.finish(nil, errVersion)
		return
	}
	o.tried, o.highest = seq, max(o.highest, seq)
	o.start(Put{machine.Version{Seq: seq, Writer: o.cfg.Writer}, data})
}

// value is what the inner machine sees of a state.
func (o *over[In, Out]) value(s State) machine.Value {
	v := machine.Value{Version: s.Version, Data: s.Data, Next: o.highest + 1}
	for _, n := range s.Notes {
		v.Notes = append(v.Notes, machine.Noted{Writer: n.Writer, Data: n.Data})
	}
	return v
}

// finish answers the request that is being served.
func (o *over[In, Out]) finish(reply any, err error) {
	r := o.queue[0]
	o.queue = o.queue[1:]
	o.op = nil
	if err == nil {
		o.tell(Took{o.now.Mono.Sub(r.since)})
	}
	o.inner.Accessed(o.now, machine.Accessed{ID: r.ID, Reply: reply, Err: err})
}
