package flease

import (
	"github.com/tenure-lease/tenure/internal/machine"
)

// cell is a peer's state of one resource: as an acceptor the two words and the value of
// Algorithm 1, and the peer's own claims.
type cell struct {
	name     string
	promised Ballot // max(readi, writei) of Algorithm 1 (E11)
	written  Ballot // writei
	value    Value  // vi
	claims   int32  // the first, -1 if there is none
	slot     uint16
	lined    bool // it has waiters
	dirty    bool // it is in p.changed
}

// cellTable has the cells of the resources that somebody asks about, and their waiters.
type cellTable struct {
	names     map[string]int32
	cells     []cell
	freeCells []int32
	lines     map[int32][]waiter // waiters of the cells that have some
	changed   []CellRecord       // of a Durable peer, to be persisted
	sweepNext int
	// sweepLeast is how many cells are looked at in each sweep of this round at least.
	sweepLeast int
	sweepAt    machine.Mono
}

// serve answers a request.
func (p *Peer) serve(from machine.NodeID, epoch uint64, o *Op) {
	i, known := p.names[o.Name]
	if !known {
		i = -1
	}
	p.serveAt(i, from, epoch, o)
}

// serveAt does for the cell at i, or for one that is not known if that is -1.
func (p *Peer) serveAt(i int32, from machine.NodeID, epoch uint64, o *Op) {
	if p.silent() {
		return // also to ourselves: own proposals wait, too
	}
	slot := 0
	if i >= 0 {
		slot = int(p.cells[i].slot)
	} else {
		slot = slotOf(o.Name)
	}
	if !p.votes(slot, epoch) {
		p.reply(from, Op{Kind: WrongView, Ref: o.Ref, Ballot: o.Ballot})
		return
	}
	switch o.Kind {
	case Peek:
		p.peek(from, o)
	case Quit:
		p.quit(o)
	case Read, Write:
		switch {
		case o.Ballot.Time() > p.c+p.eps:
			// It must never move our own ballots (F-3), nor be remembered: a clock that is
			// hours ahead would stop the resource for hours.
			p.alert(Alarm{Kind: Skew, Peer: from, By: (o.Ballot.Time() - p.c - p.eps).duration()})
			p.reply(from, Op{Kind: Skewed, Ref: o.Ref, Ballot: o.Ballot, Written: ballotAt(p.c)})
			return
		case o.Ballot.Time() <= p.floor:
			return // too old to give a valid lease, and we may have forgotten better (F-6: ≤)
		}
		p.hlc.observe(o.Ballot)
		if o.Kind == Write && !p.lawful(o) {
			return
		}
		if i < 0 {
			i = p.cellOf(o.Name)
		}
		if o.Kind == Read {
			p.read(i, from, o)
		} else {
			p.write(i, from, o)
		}
	}
}

// read is `upon receive (READ,k)` of Algorithm 1.
func (p *Peer) read(i int32, from machine.NodeID, o *Op) {
	c := &p.cells[i]
	again := o.Ballot == c.promised && c.written != o.Ballot // an exact duplicate: the same answer
	if o.Ballot <= c.promised && !again {
		p.reply(from, Op{Kind: NackRead, Ref: o.Ref, Ballot: o.Ballot, Written: c.promised})
		return
	}
	answer := AckRead
	if adm := p.admission(c.value); o.Slots > 0 && !adm.admits(o.Slots) {
		// The reader could do nothing with a promise, which would only cause the owner's
		// renewal to be refused. Many readers would keep the lease from ever being renewed.
		answer = Peeked
	} else {
		c.promised = o.Ballot
		p.touch(i)
	}
	queue, waiting := p.queue(i)
	p.reply(from, Op{Kind: answer, Ref: o.Ref, Ballot: o.Ballot, Written: c.written, Value: c.value, Queue: queue, Waiting: waiting})
}

// lawful: no lease lasts longer than λ.t ≤ k.t + t_max (E9).
func (p *Peer) lawful(o *Op) bool {
	for j := range o.Value {
		if o.Value[j].Until > o.Ballot.Time()+p.tmax {
			return false
		}
	}
	return true
}

// write is `upon receive (WRITE,k,v)` of Algorithm 1.
func (p *Peer) write(i int32, from machine.NodeID, o *Op) {
	c := &p.cells[i]
	switch {
	case o.Ballot == c.written:
		// Two values can come under one ballot: a lease, and the same released. Released
		// wins, in whatever order they arrive. It may do so behind a promise: the proposer
		// that has the promise has seen the lease, and at worst waits for it. So one round
		// is enough for a release even if others have read.
		if released(o.Value) > released(c.value) {
			c.value = o.Value
			p.touch(i)
		}
	case o.Ballot < c.promised:
		p.reply(from, Op{Kind: NackWrite, Ref: o.Ref, Ballot: o.Ballot, Written: c.promised})
		return
	default:
		c.promised, c.written, c.value = o.Ballot, o.Ballot, o.Value
		p.touch(i)
	}
	p.reply(from, Op{Kind: AckWrite, Ref: o.Ref, Ballot: o.Ballot})
	if c.lined {
		p.unline(i, o.Ticket)
		p.call(i)
	}
}

// released counts the holdings that are given back.
func released(v Value) (n int) {
	for j := range v {
		if v[j].Released {
			n++
		}
	}
	return n
}

// peek answers without a promise. It creates no state for a resource that nobody wants.
func (p *Peer) peek(from machine.NodeID, o *Op) {
	i, known := p.names[o.Name]
	if o.Ticket != 0 && o.Slots > 0 && o.Ticket.Member() == from {
		i, known = p.cellOf(o.Name), true
		p.enline(i, from, o)
	}
	out := Op{Kind: Peeked, Ref: o.Ref, Ballot: o.Ballot}
	if known {
		c := &p.cells[i]
		out.Written, out.Value = c.written, c.value
		out.Queue, out.Waiting = p.queue(i)
	}
	p.reply(from, out)
}

// touch makes a Durable peer persist a cell before anything else leaves.
func (p *Peer) touch(i int32) {
	if !p.cfg.Durable || p.cells[i].dirty {
		return
	}
	p.cells[i].dirty = true
	p.changed = append(p.changed, CellRecord{Name: p.cells[i].name})
}

// A waiter is remembered for three polls after it was last heard of.
type waiter struct {
	ticket Ballot
	slots  int32
	from   machine.NodeID
	seen   machine.Mono
	told   Ballot // the WRITE under which it was last told that its turn has come
}

// maxLine is how many waiters of a resource an acceptor remembers.
const maxLine = 1024

// line returns the waiters that are alive, by ticket.
func (p *Peer) line(i int32) []waiter {
	if !p.cells[i].lined {
		return nil
	}
	line := p.lines[i]
	kept := line[:0]
	for _, w := range line {
		if p.now.Mono.Sub(w.seen) <= 3*p.cfg.poll() {
			kept = append(kept, w)
		}
	}
	p.setLine(i, kept)
	return kept
}

func (t *cellTable) setLine(i int32, line []waiter) {
	t.cells[i].lined = len(line) > 0
	if len(line) > 0 {
		t.lines[i] = line
	} else {
		delete(t.lines, i)
	}
}

func (p *Peer) enline(i int32, from machine.NodeID, o *Op) {
	line := p.line(i)
	at := len(line)
	for at > 0 && line[at-1].ticket >= o.Ticket {
		at--
	}
	if at < len(line) && line[at].ticket == o.Ticket {
		line[at].seen = p.now.Mono
		return
	}
	if len(line) >= maxLine {
		return
	}
	line = append(line, waiter{})
	copy(line[at+1:], line[at:])
	line[at] = waiter{ticket: o.Ticket, slots: o.Slots, from: from, seen: p.now.Mono}
	p.setLine(i, line)
}

// unline forgets a waiter.
func (p *Peer) unline(i int32, ticket Ballot) {
	line := p.line(i)
	kept := line[:0]
	for _, w := range line {
		if w.ticket != ticket {
			kept = append(kept, w)
		}
	}
	p.setLine(i, kept)
}

func (p *Peer) quit(o *Op) {
	if i, ok := p.names[o.Name]; ok {
		p.unline(i, o.Ticket)
		p.call(i)
	}
}

// queue is what an acceptor tells of its waiters.
func (p *Peer) queue(i int32) ([]Waiter, uint32) {
	line := p.line(i)
	if len(line) == 0 {
		return nil, 0
	}
	q := make([]Waiter, min(len(line), maxQueue))
	for j := range q {
		q[j] = Waiter{line[j].ticket, line[j].slots}
	}
	return q, uint32(len(line))
}

// call tells the waiters whose turn has come, as far as this acceptor knows.
func (p *Peer) call(i int32) {
	c := &p.cells[i]
	line := p.line(i)
	if len(line) == 0 {
		return
	}
	adm := p.admission(c.value)
	heir := p.heir(c.value)
	for j := range line {
		w := &line[j]
		if heir != 0 && heir != w.from {
			continue
		}
		if !adm.admits(w.slots) {
			return
		}
		adm.hold(w.slots)
		if w.told != c.written || c.written == 0 {
			w.told = c.written
			p.send(w.from, urgent, Op{Kind: Learn, Name: c.name, Written: c.written, Value: c.value, Ticket: w.ticket})
		}
	}
}

// mayHold reports whether some peer may still believe in this lease.
func (p *Peer) mayHold(h *Holding) bool { return !h.Released && h.Until+p.eps > p.c }

// heir returns the member to which the resource was handed over, and which comes first for
// a moment; 0 if there is none.
func (p *Peer) heir(v Value) machine.NodeID {
	for j := range v {
		if h := &v[j]; h.Released && h.Heir != 0 && h.Until > p.c {
			return machine.NodeID(h.Heir)
		}
	}
	return 0
}

// admission counts the admitted claims, in order: a claim may hold while there are no more
// than the Slots of each.
type admission struct {
	holders int32
	least   int32 // of their Slots; 0 for none yet
}

// admission counts the claims that may hold.
func (p *Peer) admission(v Value) (a admission) {
	for j := range v {
		if h := &v[j]; p.mayHold(h) {
			a.hold(h.Slots)
		}
	}
	return a
}

func (a *admission) hold(slots int32) {
	a.holders++
	if a.least == 0 || slots < a.least {
		a.least = slots
	}
}

func (a *admission) admits(slots int32) bool {
	return a.holders < slots && (a.least == 0 || a.holders < a.least)
}

// snapshot returns all live state, for a planned restart (E5).
func (p *Peer) snapshot() *Record {
	r := &Record{Floor: p.floor, Highest: p.hlc.last, Silent: p.silent()}
	for i := range p.cells {
		c := &p.cells[i]
		if c.name != "" && c.promised.Time() > p.floor {
			r.Cells = append(r.Cells, CellRecord{Name: c.name, Promised: c.promised, Written: c.written, Value: c.value})
		}
	}
	return r
}

// restore takes what an earlier life has left.
func (p *Peer) restore(r *Record) {
	p.floor = max(p.floor, r.Floor)
	p.hlc.observe(r.Highest)
	for j := range r.Cells {
		from := &r.Cells[j]
		c := &p.cells[p.cellOf(from.Name)]
		c.promised, c.written, c.value = from.Promised, from.Written, from.Value
	}
}

func (p *Peer) shutdown() {
	for i := range p.claims {
		if p.claims[i].phase != free {
			p.end(int32(i), "the peer is shut down")
		}
	}
	p.down = true
	for _, l := range p.lanes {
		if l != nil {
			l.drop()
		}
	}
	p.report(Snapshot{Record: p.snapshot()})
}

// refuseAll answers callers after a shutdown.
func (rs *reports) refuseAll(input Input) {
	switch in := input.(type) {
	case Acquire:
		rs.report(Refused{ID: in.ID, State: State{Name: in.Name}, Err: errShutdown})
	case Observe:
		rs.report(Observed{ID: in.ID, State: State{Name: in.Name}, Err: errShutdown})
	}
}
