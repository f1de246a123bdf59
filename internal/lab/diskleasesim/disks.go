package diskleasesim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// disks are the bases of a register, a minority of which may fail.
type disks struct {
	w     *sim.World
	disks []*disk
	stall float64
}

// disk is one base. It keeps the greater version, as every store does.
type disk struct {
	state quorumregister.State
	dead  bool // answers nothing
	hung  []func(done bool)
}

func newDisks(w *sim.World, n int) *disks {
	d := &disks{w: w}
	for range n {
		d.disks = append(d.disks, &disk{})
	}
	return d
}

// An access of the whole register is up to two of one disk: δ is for both.
func (d *disks) time() time.Duration {
	if d.w.Chance(d.stall) {
		return d.w.Between(0, 20*delta)
	}
	return d.w.Between(delta/100, delta*2/5)
}

func (d *disks) access(h *sim.Host, _ machine.ID, a machine.Access) {
	k := d.disks[a.At]
	takes := d.time()
	at := d.w.Between(0, takes)
	life := h.Life()
	serve := func(done bool) {
		answer := machine.Accessed{ID: a.ID, Err: errStore}
		if done {
			answer.Reply, answer.Err = k.do(a.Op), nil
			d.note(h, a)
		}
		if h.Life() == life {
			h.After(takes-at, func() { h.Accessed(answer) })
		}
	}
	d.w.After(at, func() {
		if k.dead {
			k.hung = append(k.hung, serve)
			return
		}
		serve(true)
	})
}

// note tells of a write in the trace.
func (d *disks) note(h *sim.Host, a machine.Access) {
	switch op := a.Op.(type) {
	case quorumregister.Put:
		d.w.Note("%s: version %d at disk %d", h.Lane, op.Version.Seq, a.At)
		d.w.Mark(sim.Writes, h.Lane, "version %d at disk %d", op.Version.Seq, a.At)
	case quorumregister.PutNote:
		d.w.Note("%s: note %d at disk %d", h.Lane, op.Seq, a.At)
	}
}

func (k *disk) do(op any) any {
	switch op := op.(type) {
	case quorumregister.Put:
		if op.Version.Compare(k.state.Version) > 0 {
			k.state.Version, k.state.Data = op.Version, op.Data
		}
		return nil
	case quorumregister.PutNote:
		kept := make([]quorumregister.Note, 0, len(k.state.Notes)+1)
		known := false
		for _, n := range k.state.Notes {
			if n.Writer == op.Writer {
				known = true
				if op.Seq > n.Seq {
					n.Seq, n.Data = op.Seq, op.Data
				}
			}
			kept = append(kept, n)
		}
		if !known {
			kept = append(kept, quorumregister.Note(op))
		}
		k.state.Notes = kept
		return nil
	}
	return k.state
}

// forget drops the notes of a claim that is over, and its data, where they are no longer
// needed.
func (d *disks) forget(writer machine.ID) {
	for _, k := range d.disks {
		v := machine.Value{Version: k.state.Version, Data: k.state.Data}
		for _, n := range k.state.Notes {
			v.Notes = append(v.Notes, machine.Noted{Writer: n.Writer, Data: n.Data})
		}
		if disklease.Obsolete(v, writer) {
			if v.Version.Writer == writer {
				k.state.Floor = max(k.state.Floor, v.Version.Seq)
				k.state.Version, k.state.Data = machine.Version{}, nil
			}
			k.state.Notes = slices.DeleteFunc(slices.Clone(k.state.Notes), func(n quorumregister.Note) bool { return n.Writer == writer })
		}
	}
}

func (d *disks) trouble() { d.stall = d.w.Swarm(0.3) }

// strike has one disk hang, as long as it is a minority.
func (d *disks) strike() {
	down := 0
	for _, k := range d.disks {
		if k.dead {
			down++
		}
	}
	k := d.disks[d.w.Rand.IntN(len(d.disks))]
	switch {
	case k.dead:
		k.dead = false
		for _, serve := range k.hung { // stuck all that time
			serve(d.w.Chance(0.5))
		}
		k.hung = nil
		d.w.Mark(sim.Fault, "", "the disk works again")
	case 2*(down+1) < len(d.disks):
		k.dead = true
		d.w.Mark(sim.Fault, "", "a disk hangs")
	}
}

func (d *disks) mend() { d.stall = 0 }

func (d *disks) worstCase() time.Duration { return 60 * delta }

// disksTold is an event of the disks among the outcomes of a machine over them.
type disksTold struct {
	disklease.Beside
	quorumregister.Event
}

// ofDisks is for quorumregister.Over.
func ofDisks(e quorumregister.Event) disklease.Outcome { return disksTold{Event: e} }
