package quorumregistersim

import (
	"errors"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// base is a store with one register.
type base struct {
	quorumregister.State
	backup quorumregister.State

	hangs   bool
	dead    bool
	waiting []func() // requests that arrived while it hung
}

// do performs an operation, at once and whole.
func (b *base) do(op any) any {
	switch op := op.(type) {
	case quorumregister.Query:
		s := b.State
		s.Notes = slices.Clone(s.Notes)
		return s
	case quorumregister.Put:
		if b.Version.Compare(op.Version) < 0 {
			b.Version, b.Data = op.Version, op.Data
			b.Floor = max(b.Floor, op.Version.Seq)
		}
	case quorumregister.PutNote:
		i := slices.IndexFunc(b.Notes, func(n quorumregister.Note) bool { return n.Writer == op.Writer })
		note := quorumregister.Note(op)
		switch {
		case i < 0:
			b.Notes = append(b.Notes, note)
		case b.Notes[i].Seq < op.Seq:
			b.Notes[i] = note
		}
	}
	return nil
}

// save copies the content of the base, and restore puts that back.
func (b *base) save() {
	b.backup = b.State
	b.backup.Notes = slices.Clone(b.Notes)
}

func (b *base) restore() {
	b.State = b.backup
	b.State.Notes = slices.Clone(b.backup.Notes)
}

// heal ends a hang: requests that arrived meanwhile are done.
func (b *base) heal() {
	b.hangs = false
	waiting := b.waiting
	b.waiting = nil
	for _, f := range waiting {
		f()
	}
}

// bases are the stores of a register, behind wires of their own.
type bases struct {
	w    *sim.World
	list []*base

	// How likely, and how badly, an access fails.
	before, after, stuck float64
	stall                float64
}

const (
	usual    = 20 * time.Millisecond // the longest time of an access, there or back
	stalled  = time.Second           // the longest time when it is stalled
	stuckFor = 20 * time.Second      // when a stuck write lands, at the latest
)

var errInjected = errors.New("injected fault")

func newBases(w *sim.World, n int) *bases {
	bs := &bases{w: w}
	for range n {
		bs.list = append(bs.list, &base{})
	}
	return bs
}

func (bs *bases) travel() time.Duration {
	if bs.w.Chance(bs.stall) {
		return bs.w.Between(0, stalled)
	}
	return bs.w.Between(usual/20, usual)
}

// access is for sim.Host: the operation travels, takes effect, and is answered.
func (bs *bases) access(h *sim.Host, a machine.Access) {
	b, life := bs.list[a.At], h.Life()
	answer := func(reply any, err error) {
		if h.Life() == life {
			h.After(bs.travel(), func() { h.Accessed(machine.Accessed{ID: a.ID, Reply: reply, Err: err}) })
		}
	}
	_, query := a.Op.(quorumregister.Query)
	arrive := func() {
		switch {
		case bs.w.Chance(bs.before):
			answer(nil, errInjected)
		case bs.w.Chance(bs.stuck) && !query:
			bs.w.After(bs.w.Between(0, stuckFor), func() { bs.effect(h, a) })
			answer(nil, errInjected)
		case bs.w.Chance(bs.after):
			bs.effect(h, a)
			answer(nil, errInjected)
		default:
			answer(bs.effect(h, a), nil)
		}
	}
	bs.w.After(bs.travel(), func() {
		switch {
		case b.dead:
		case b.hangs:
			b.waiting = append(b.waiting, arrive)
		default:
			arrive()
		}
	})
}

func (bs *bases) effect(h *sim.Host, a machine.Access) any {
	b := bs.list[a.At]
	reply := b.do(a.Op)
	switch op := a.Op.(type) {
	case quorumregister.Put:
		bs.w.Note("base %d: %s puts %d %q; holds %d %q", a.At, h.Lane, op.Version.Seq, op.Data, b.Version.Seq, b.Data)
	case quorumregister.PutNote:
		bs.w.Note("base %d: %s notes %d", a.At, h.Lane, op.Seq)
	default:
		bs.w.Note("base %d: shows %s %d %q", a.At, h.Lane, b.Version.Seq, b.Data)
	}
	return reply
}

// amiss counts the bases that do not answer.
func (bs *bases) amiss() (n int) {
	for _, b := range bs.list {
		if b.dead || b.hangs {
			n++
		}
	}
	return n
}
