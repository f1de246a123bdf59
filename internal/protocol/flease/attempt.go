package flease

import (
	"math/bits"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// aim is the purpose of an attempt.
type aim uint8

const (
	acquiring aim = iota
	renewing
	returning // telling the register that a tenure is over
	looking
)

// stage names the answers that an attempt waits for.
type stage uint8

const (
	idle    stage = iota // the place is not taken
	reading              // read(k)
	writing              // write(k,v)
	peeking
)

// attempt is one GetLease(k), or one look.
type attempt struct {
	k     Ballot
	cell  *cellGroup
	claim int32
	gen   uint32 // tells attempts apart that have the same place
	aim   aim
	stage stage

	// t0 is read before READ is sent, and all follows from it: the end of the lease is the
	// same however long the answers take (E2; the paper computes λ.t after the read).
	t0  Time
	m0  machine.Mono
	exp Time // λ.t, should it come to a WRITE

	acks, nacks uint32 // of distinct acceptors, by their place in the cell (E10)
	shown       uint32 // acceptors that showed their value without a promise
	best        Ballot // the highest k' of the answers, and its v
	value       Value
	queue       []Waiter // the waiters that all answers name
	waiting     uint32
	agree       bool  // all showed the same
	wrote       Value // the value that it writes
	other       bool  // a refusal had another reason than a greater ballot
	back        bool  // it writes another's lease back, to decide it
}

// attemptTable has the attempts under way, and how many there are of each aim.
type attemptTable struct {
	attempts     []attempt
	freeAttempts []int32
	busy         int // to acquire and to observe
	renewals     int
	looks        int // of claims that wait
	returns      int // without limit
}

const attemptBits = 22 // of a Ref; the rest is gen

func (t *attemptTable) ref(a int32) uint32 { return uint32(a) | t.attempts[a].gen<<attemptBits }

// newAttempt takes a place.
func (p *Peer) newAttempt(i int32, why aim) int32 {
	var a int32
	if n := len(p.freeAttempts); n > 0 {
		a = p.freeAttempts[n-1]
		p.freeAttempts = p.freeAttempts[:n-1]
	} else {
		a = int32(len(p.attempts))
		p.attempts = append(p.attempts, attempt{})
	}
	c := &p.claims[i]
	p.attempts[a] = attempt{
		claim: i, gen: p.attempts[a].gen + 1, aim: why, agree: true, cell: p.lay.cells[p.cells[c.cell].slot],
		t0: p.c, m0: p.now.Mono, exp: p.c + Time(c.ttl) + Time(c.delay),
	}
	*p.under(why, c)++
	c.att = a
	p.wheel.set(i, p.alarmOf(c, p.now.Mono.Add(p.cfg.attemptTimeout())))
	return a
}

// under is the counter that attempts of a kind go by. Each kind has its own limit: claims
// that wait, for peers that are gone perhaps, take no turns from those that could acquire.
func (t *attemptTable) under(why aim, c *claim) *int {
	switch {
	case why == renewing:
		return &t.renewals
	case why == returning:
		return &t.returns
	case why == looking && !c.watches:
		return &t.looks
	}
	return &t.busy
}

func (p *Peer) alarmOf(c *claim, at machine.Mono) machine.Mono {
	if c.phase == held {
		return min(at, c.deadline)
	}
	return at
}

// abandon ends an attempt. A later answer to it meets another gen.
func (p *Peer) abandon(a int32) {
	at := &p.attempts[a]
	*p.under(at.aim, &p.claims[at.claim])--
	p.claims[at.claim].att = -1
	*at = attempt{gen: at.gen}
	p.freeAttempts = append(p.freeAttempts, a)
}

// begin starts an attempt of two rounds, or a look.
func (p *Peer) begin(i int32, why aim) {
	c := &p.claims[i]
	if shut := p.closed(int(p.cells[c.cell].slot)); shut && (c.watches || c.try && why == acquiring) {
		p.end(i, "it changes with the view")
		return
	} else if shut || p.silent() {
		p.wheel.set(i, p.alarmOf(c, p.now.Mono.Add(p.cfg.poll())))
		return
	}
	a := p.newAttempt(i, why)
	at := &p.attempts[a]
	at.k = p.ballot()
	op := Op{Kind: Read, Ref: p.ref(a), Ballot: at.k, Name: p.cells[c.cell].name}
	at.stage = reading
	if why == looking {
		at.stage = peeking
		op.Kind = Peek
		if !c.watches {
			op.Ticket, op.Slots = c.ticket, c.slots
			c.lined = true
		}
	} else if c.ticket == 0 {
		c.ticket = at.k
	}
	if why == acquiring && !c.decide && !c.insists {
		op.Slots = c.slots
	}
	c.insists = false
	if why != looking {
		p.trace(ReadInvoke, a)
	}
	p.ask(a, op)
}

// ask sends a request to the whole cell. Our own acceptor comes last: its answer may be
// the last that the attempt needs.
func (p *Peer) ask(a int32, op Op) {
	at := &p.attempts[a]
	how := patient
	if at.aim == renewing || at.aim == returning {
		how = urgent
	}
	g := at.cell
	for _, m := range g.members {
		if m != p.cfg.Self {
			p.send(m, how, op)
		}
	}
	if g.self >= 0 {
		p.serveAt(p.claims[at.claim].cell, p.cfg.Self, p.lay.view.Epoch, &op)
	}
}

// answered takes an acceptor's answer.
func (p *Peer) answered(from machine.NodeID, o *Op) {
	a := int32(o.Ref & (1<<attemptBits - 1))
	if int(a) >= len(p.attempts) || p.ref(a) != o.Ref {
		return
	}
	at := &p.attempts[a]
	j := 0
	if at.stage == idle || at.k != o.Ballot {
		return
	} else if j = at.cell.index(from); j < 0 {
		return
	}
	i, bit := at.claim, uint32(1)<<j
	// A stored moment and not an alarm: alarms may ring after the message that they should
	// have been before.
	if at.aim <= renewing && p.c >= at.exp-Time(p.claims[i].delay) || p.now.Mono.Sub(at.m0) > p.cfg.attemptTimeout() {
		p.abandon(a)
		p.failed(i, true)
		return
	}
	switch {
	case o.Kind == AckRead && at.stage == reading, o.Kind == Peeked && at.stage == peeking:
		if at.acks&bit != 0 {
			return
		}
		at.gather(o)
		at.acks |= bit
		if bits.OnesCount32(at.acks) == at.cell.majority {
			p.chosen(a)
		} else if bits.OnesCount32(at.acks|at.shown) == at.cell.majority {
			p.keptOut(a)
		}
	case o.Kind == Peeked && at.stage == reading:
		if (at.acks|at.shown)&bit != 0 {
			return
		}
		at.gather(o)
		at.shown |= bit
		if bits.OnesCount32(at.acks|at.shown) == at.cell.majority {
			p.keptOut(a)
		}
	case o.Kind == AckWrite && at.stage == writing:
		at.acks |= bit
		if bits.OnesCount32(at.acks) >= at.cell.majority {
			p.committed(a)
		}
	case o.Kind == NackRead && at.stage == reading, o.Kind == NackWrite && at.stage == writing, o.Kind == Skewed, o.Kind == WrongView:
		p.nacked(a, bit, from, o)
	}
}

// nacked counts the refusals. The attempt ends only when no majority can agree any more
// (E12).
func (p *Peer) nacked(a int32, bit uint32, from machine.NodeID, o *Op) {
	at := &p.attempts[a]
	switch {
	case at.acks&bit != 0:
		return // a copy of our request met the original
	case o.Kind == Skewed:
		p.alert(Alarm{Kind: Skew, Peer: from, By: (at.k.Time() - o.Written.Time() - p.eps).duration()})
	case o.Kind == NackRead || o.Kind == NackWrite:
		if o.Written == at.k {
			return // our own READ came after our WRITE
		}
		if o.Written.Time() > p.c+p.eps { // F-3
			p.alert(Alarm{Kind: Skew, Peer: o.Written.Member(), By: (o.Written.Time() - p.c - p.eps).duration()})
		} else {
			p.hlc.observe(o.Written)
		}
	}
	at.other = at.other || o.Kind == Skewed || o.Kind == WrongView
	at.nacks |= bit
	if len(at.cell.members)-bits.OnesCount32(at.nacks) >= at.cell.majority {
		return
	}
	i := at.claim
	returns := at.aim == returning && at.stage == writing
	switch {
	case at.other:
	case at.stage == reading:
		p.trace(ReadAbort, a)
	case at.stage == writing:
		p.trace(WriteAbort, a)
	}
	p.abandon(a)
	if c := &p.claims[i]; returns && c.wrote != 0 {
		// Others have written since: the release needs a ballot of its own.
		c.wrote = 0
		p.begin(i, returning)
		return
	}
	p.failed(i, false)
}

// gather keeps the value of the highest ballot; of a lease and the same released, the
// released one.
func (a *attempt) gather(o *Op) {
	first := a.acks|a.shown == 0
	if first {
		a.queue, a.waiting = o.Queue, o.Waiting
	} else {
		a.agree = a.agree && o.Written == a.best && released(o.Value) == released(a.value)
		a.queue, a.waiting = common(a.queue, o.Queue), min(a.waiting, o.Waiting)
	}
	if first || o.Written > a.best || o.Written == a.best && released(o.Value) > released(a.value) {
		a.best, a.value = o.Written, o.Value
	}
}

// common returns the waiters of both lists. A waiter that only a minority knows might wait
// for ever, and must not block others.
func common(a, b []Waiter) (both []Waiter) {
	for _, w := range a {
		for _, x := range b {
			if w == x {
				both = append(both, w)
			}
		}
	}
	return both
}

// propose writes a value.
func (p *Peer) propose(a int32, v Value) {
	at := &p.attempts[a]
	c := &p.claims[at.claim]
	at.stage, at.acks, at.nacks, at.wrote = writing, 0, 0, v
	p.trace(WriteInvoke, a)
	op := Op{Kind: Write, Ref: p.ref(a), Ballot: at.k, Name: p.cells[c.cell].name, Value: v}
	if !at.back {
		c.wrote, c.value = at.k, v
		if at.aim == acquiring && c.lined {
			op.Ticket = c.ticket
		}
	}
	p.ask(a, op)
}

// committed: a majority has written the value.
func (p *Peer) committed(a int32) {
	p.trace(WriteCommit, a)
	at := p.attempts[a]
	i := at.claim
	c := &p.claims[i]
	switch {
	case at.back:
		p.report(Refused{ID: c.id, State: p.state(c, &at, at.waiting)})
		p.drop(i)
	case at.aim == returning:
		p.report(Released{ID: c.id, Confirmed: true})
		p.drop(i)
	default:
		p.abandon(a)
		ttl := time.Duration(c.ttl) * time.Millisecond
		c.until, c.deadline = at.exp, at.m0.Add(ttl-p.cfg.guard(ttl))
		// Half of the lease is for trying again. Peers that took all their leases at the
		// same time shall not renew them at the same time for ever; but those that are due at
		// about the same time share a batch.
		share := machine.Mono(p.cfg.TMax / 1024)
		c.renewAt = at.m0.Add(ttl/2-p.rand(ttl/16)) / share * share
		c.tries = 0
		was := c.phase
		if p.over(c) { // E8: it was decided, but too late
			if was == held {
				p.end(i, "its renewal took too long")
			} else {
				p.failed(i, true)
			}
			return
		}
		c.phase, c.lined = held, false
		p.wheel.set(i, min(c.renewAt, c.deadline))
		until := (c.until - Time(c.delay)).Wall()
		if was == held {
			p.report(Renewed{ID: c.id, Deadline: c.deadline, Until: until})
		} else {
			p.report(Acquired{ID: c.id, Token: uint64(c.token), Deadline: c.deadline, Until: until})
		}
	}
}
