package flease

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Which of a lane's two queues an operation takes. Renewals, releases and answers go
// ahead of what is asked anew: rather let a hundred claims wait than one lease end.
const (
	urgent = iota
	patient
)

// lane is the queue of operations to send to a peer.
type lane struct {
	ops  [2][]Op
	news *ViewNews
	room [2]int // how many operations there were the last times
}

func (l *lane) drop() { *l = lane{} }

// mail is what waits to be sent to the other peers.
type mail struct {
	lanes []*lane          // by member
	peers []machine.NodeID // the peers that have a lane, ascending
	spare [][]Op           // used before, see Reuse
}

func (m *mail) add(l *lane, how int, o *Op) {
	if l.ops[how] == nil {
		l.ops[how] = m.opsFor(l.room[how] + l.room[how]/8 + 1)
	}
	l.ops[how] = append(l.ops[how], *o)
}

// opsFor returns room for n operations, used before or new.
func (m *mail) opsFor(n int) []Op {
	if last := len(m.spare) - 1; last >= 0 {
		ops := m.spare[last]
		m.spare[last] = nil
		if m.spare = m.spare[:last]; cap(ops) >= n {
			return ops
		}
	}
	return make([]Op, 0, n)
}

// maxSpare is how many lists of operations are kept for later.
const maxSpare = 16

// Reuse takes a batch of Ready's back, once its envelope has been encoded and nobody else
// holds it: the memory serves for batches to come. A driver need not do so.
func (m *mail) Reuse(b *Batch) {
	if len(m.spare) < maxSpare && cap(b.Ops) > 0 {
		clear(b.Ops)
		m.spare = append(m.spare, b.Ops[:0])
	}
	*b = Batch{}
}

// lane of a peer.
func (m *mail) lane(to machine.NodeID) *lane {
	if m.lanes[to] == nil {
		m.lanes[to] = &lane{}
		at, _ := slices.BinarySearch(m.peers, to)
		m.peers = slices.Insert(m.peers, at, to)
	}
	return m.lanes[to]
}

func (p *Peer) send(to machine.NodeID, how int, o Op) {
	if to == p.cfg.Self {
		p.take(to, p.lay.view.Epoch, &o)
		return
	}
	p.add(p.lane(to), how, &o)
}

// reply answers a request. Our own come back at once, unless they have to be durable first.
func (p *Peer) reply(to machine.NodeID, o Op) {
	if to == p.cfg.Self && !p.cfg.Durable {
		p.answered(to, &o)
		return
	}
	p.add(p.lane(to), urgent, &o)
}

// flush makes batches of what waits, one for each peer, and reports whether something is left.
func (p *Peer) flush(rd *machine.Ready[Report]) (more bool) {
	var out []machine.Envelope
	for _, to := range p.peers {
		l := p.lanes[to]
		if len(l.ops[urgent])+len(l.ops[patient]) == 0 && l.news == nil {
			continue
		}
		b := &Batch{Incarnation: p.cfg.Incarnation, Epoch: p.lay.view.Epoch, Digest: p.lay.digest, View: l.news}
		l.news = nil
		size := 0
		for how := range l.ops {
			q := l.ops[how]
			l.room[how] = (l.room[how] + len(q)) / 2
			n := 0
			for n < len(q) && len(b.Ops)+n < maxOps && size < MaxBatch/2 {
				size += q[n].size()
				n++
			}
			switch {
			case len(b.Ops) == 0 && n == len(q):
				b.Ops, l.ops[how] = q, nil // whole: it is given away
			default:
				b.Ops = append(b.Ops, q[:n]...)
				l.ops[how] = append([]Op(nil), q[n:]...)
			}
			more = more || n < len(q)
		}
		out = append(out, envelope(p.cfg.Self, to, b))
	}
	if !p.cfg.Durable || len(p.changed) == 0 {
		if !p.cfg.Durable {
			rd.Sends = out
			return more
		}
		// Answers that promise nothing new wait for what is being written all the same.
		if len(out) > 0 {
			p.persists = append(p.persists, machine.Persist{Then: out})
		}
		return more
	}
	r := &Record{Floor: p.floor, Highest: p.hlc.last, Cells: p.changed}
	for j := range r.Cells {
		c := &p.cells[p.names[r.Cells[j].Name]]
		c.dirty = false
		r.Cells[j].Promised, r.Cells[j].Written, r.Cells[j].Value = c.promised, c.written, c.value
	}
	p.changed = nil
	p.persists = append(p.persists, machine.Persist{Record: r, Then: out})
	return more
}
