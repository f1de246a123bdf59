package flease

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// phase is the state of a claim.
type phase uint8

const (
	free      phase = iota // the place is not taken
	queued                 // it waits for its turn
	trying                 // an attempt to acquire is under way
	waiting                // for others; it looks from time to time
	held                   //
	releasing              // it is over, and the register shall know
	observing              // it only looks
)

// claim is a caller's wish, held or not, or an observation.
type claim struct {
	id     uint64
	holder string
	value  Value  // the value of its last WRITE
	wrote  Ballot // the ballot of that WRITE: the highest ever
	// token is set from the first WRITE of a tenure on, until that is over or given up.
	token  Ballot
	ticket Ballot // its place in the line
	until  Time   // λ.t, as far as it is decided

	deadline machine.Mono // of a held one, by the monotonic clock
	renewAt  machine.Mono
	yielded  machine.Mono // since when only others' earlier arrival keeps it from trying

	shown      Ballot // the first holder's token that was last reported by Waits
	cell       int32
	next       int32 // of the same cell
	att        int32 // the attempt under way, -1
	life       uint32
	ttl, delay uint32 // milliseconds
	slots      int32
	tries      uint8
	phase      phase
	try        bool
	decide     bool
	lined      bool // acceptors may know its ticket
	alone      bool // Waits has said that no majority answers
	watches    bool // it is an observation
	insists    bool // its next READ is to be promised whatever is there
	heir       uint16
}

// claimTable has the claims of this peer's owner.
type claimTable struct {
	claims     []claim
	freeClaims []int32
	byID       map[uint64]int32
	wheel      wheel  // alarms of claims
	turns      []turn // claims that wait for their turn, from turn on
	turn       int
	lateUntil  machine.Mono
}

type turn struct {
	claim int32
	life  uint32
}

// acquire begins a claim.
func (p *Peer) acquire(in Acquire) {
	if in.Slots == 0 {
		in.Slots = 1
	}
	if in.TTL == 0 {
		in.TTL = p.cfg.TMax - in.LockDelay
	}
	refuse := func(err error) { p.report(Refused{ID: in.ID, State: State{Name: in.Name}, Err: err}) }
	bad := func(format string, args ...any) {
		refuse(fmt.Errorf("%w: %s", ErrClaim, fmt.Sprintf(format, args...)))
	}
	_, used := p.byID[in.ID]
	switch {
	case used:
		bad("ID %d is in use", in.ID)
	case in.Name == "" || len(in.Name) > maxName:
		bad("a name of %d bytes; want 1 to %d", len(in.Name), maxName)
	case len(in.Holder) > maxHolder:
		bad("a holder of %d bytes; at most %d", len(in.Holder), maxHolder)
	case in.Slots < 1 || in.Slots > Shared:
		bad("%d slots; want 1 for an exclusive lease, or more", in.Slots)
	case in.LockDelay < 0 || in.TTL < p.cfg.MinTTL():
		bad("a TTL of %v; want at least %v, four times the round timeout", in.TTL, p.cfg.MinTTL())
	case in.LockDelay > p.cfg.TMax || millis(in.TTL)+millis(in.LockDelay) > p.tmax:
		bad("TTL %v and lock delay %v are together longer than t_max = %v; make them shorter, or t_max longer on all peers", in.TTL, in.LockDelay, p.cfg.TMax)
	case len(p.byID) >= p.cfg.MaxClaims || len(p.turns)-p.turn >= p.cfg.MaxQueued || p.late():
		refuse(ErrBusy)
	case in.Try && p.silent():
		refuse(ErrQuarantine)
	default:
		i := p.newClaim(in.ID, in.Name)
		c := &p.claims[i]
		c.holder, c.slots, c.try, c.decide = in.Holder, int32(in.Slots), in.Try, in.Try && in.Decide
		c.ttl, c.delay = uint32(millis(in.TTL)), uint32(millis(in.LockDelay))
		p.requeue(i)
	}
}

// observe begins a look.
func (p *Peer) observe(in Observe) {
	_, used := p.byID[in.ID]
	refuse := func(err error) { p.report(Observed{ID: in.ID, State: State{Name: in.Name}, Err: err}) }
	switch {
	case used:
		refuse(fmt.Errorf("%w: ID %d is in use", ErrClaim, in.ID))
	case in.Name == "" || len(in.Name) > maxName:
		refuse(fmt.Errorf("%w: a name of %d bytes; want 1 to %d", ErrClaim, len(in.Name), maxName))
	case len(p.byID) >= p.cfg.MaxClaims || len(p.turns)-p.turn >= p.cfg.MaxQueued:
		refuse(ErrBusy)
	case p.silent():
		refuse(ErrQuarantine)
	default:
		i := p.newClaim(in.ID, in.Name)
		p.claims[i].watches = true
		p.requeue(i)
	}
}

func (p *Peer) newClaim(id uint64, name string) int32 {
	at := p.cellOf(name)
	var i int32
	if n := len(p.freeClaims); n > 0 {
		i = p.freeClaims[n-1]
		p.freeClaims = p.freeClaims[:n-1]
	} else {
		i = int32(len(p.claims))
		p.claims = append(p.claims, claim{})
	}
	p.claims[i] = claim{id: id, cell: at, next: p.cells[at].claims, att: -1, life: p.claims[i].life + 1, phase: queued}
	p.cells[at].claims = i
	p.byID[id] = i
	return i
}

// drop forgets a claim, whose last outcome has been reported.
func (p *Peer) drop(i int32) {
	c := &p.claims[i]
	if c.att >= 0 {
		p.abandon(c.att)
	}
	if c.lined {
		p.quitLine(i)
	}
	at := &p.cells[c.cell].claims
	for *at != i {
		at = &p.claims[*at].next
	}
	*at = c.next
	p.wheel.clear(i)
	delete(p.byID, c.id)
	*c = claim{life: c.life, att: -1}
	p.freeClaims = append(p.freeClaims, i)
}

// end ends a claim that its caller has not ended.
func (p *Peer) end(i int32, why string) {
	c := &p.claims[i]
	switch {
	case c.watches:
		p.endWith(i, fmt.Errorf("%w: %s", ErrNoMajority, why))
		return
	case c.phase == held:
		p.report(Lost{ID: c.id, Why: why})
		if c.delay > 0 {
			p.delays[c.token] = c.until
		}
	case c.phase == releasing:
		p.report(Released{ID: c.id})
	default:
		p.endWith(i, fmt.Errorf("%w: %s", ErrNoMajority, why))
		return
	}
	p.drop(i)
}

// endWith ends an observation, or a claim that is not held.
func (p *Peer) endWith(i int32, err error) {
	if c := &p.claims[i]; c.watches {
		p.report(Observed{ID: c.id, State: p.state(c, nil, 0), Err: err})
	} else {
		p.report(Refused{ID: c.id, State: p.state(c, nil, 0), Err: err})
	}
	p.drop(i)
}

// requeue has a claim wait for its turn to try.
func (t *claimTable) requeue(i int32) {
	c := &t.claims[i]
	c.phase = queued
	t.wheel.clear(i)
	if t.turn > 1024 && t.turn*2 > len(t.turns) {
		t.turns = append(t.turns[:0], t.turns[t.turn:]...)
		t.turn = 0
	}
	t.turns = append(t.turns, turn{i, c.life})
}

// takeTurns begins the attempts that there is room for.
func (p *Peer) takeTurns() {
	for p.turn < len(p.turns) && p.busy < p.cfg.MaxAttempts && !p.silent() && !p.late() {
		t := p.turns[p.turn]
		p.turn++
		if c := &p.claims[t.claim]; c.life != t.life || c.phase != queued {
			continue
		}
		c := &p.claims[t.claim]
		switch {
		case c.watches:
			c.phase = observing
			p.begin(t.claim, looking)
		default:
			c.phase = trying
			p.begin(t.claim, acquiring)
		}
	}
	if p.turn == len(p.turns) {
		p.turns, p.turn = p.turns[:0], 0
	}
}

// late reports whether renewals are behind, so that nothing new is begun.
func (p *Peer) late() bool { return p.now.Mono < p.lateUntil }

// ring sees to all claims whose alarm has come.
func (p *Peer) ring() {
	for {
		i, ok := p.wheel.ring(p.now.Mono)
		if !ok {
			return
		}
		p.rang(i)
	}
}

func (p *Peer) rang(i int32) {
	c := &p.claims[i]
	switch {
	case c.phase == held && p.over(c):
		p.end(i, "it was not renewed in time")
	case c.att >= 0:
		a := c.att
		timeout := p.attempts[a].m0.Add(p.cfg.attemptTimeout())
		if p.now.Mono < timeout {
			p.wheel.set(i, timeout)
			return
		}
		p.abandon(a)
		p.failed(i, true)
	case c.phase == held && p.now.Mono >= c.renewAt:
		if behind := p.now.Mono.Sub(c.renewAt); behind > time.Duration(c.ttl)*time.Millisecond/16 && c.tries == 0 && !p.silent() {
			p.lateUntil = p.now.Mono.Add(p.cfg.RoundTimeout)
			p.alert(Alarm{Kind: Late, By: behind, Why: "renewals are late: this peer has too much to do, or was stopped"})
		}
		if p.renewals >= p.cfg.MaxAttempts {
			// Better here, where it costs nothing, than behind others on the way, until its
			// answers come too late to be of use.
			p.wheel.set(i, min(p.now.Mono.Add(p.cfg.RoundTimeout/32), c.deadline))
			return
		}
		p.begin(i, renewing)
	case c.phase == held:
		p.wheel.set(i, min(c.renewAt, c.deadline))
	case c.phase == releasing:
		p.giveBack(i)
	case c.phase == waiting:
		p.look(i)
	case c.phase == trying, c.phase == observing:
		p.requeue(i)
	}
}

// over reports whether the tenure has ended: the first of the two clocks to reach its limit
// ends it (E7, E8).
func (p *Peer) over(c *claim) bool {
	return p.now.Mono >= c.deadline || p.c >= c.until-Time(c.delay)
}

// mostTries is how often a claim that does not wait is refused, by clocks that are apart or a
// view that changes, before its caller is told.
const mostTries = 8

// failed is the end of an attempt that came to nothing, because nobody answered or others
// were ahead. It will be tried again, under another ballot, not at once.
func (p *Peer) failed(i int32, timedOut bool) {
	c := &p.claims[i]
	if c.tries < 255 {
		c.tries++
	}
	backoff := p.cfg.RoundTimeout
	if !timedOut {
		backoff = min(backoff, p.cfg.RoundTimeout/32<<min(c.tries, 6))
	}
	again := p.now.Mono.Add(time.Millisecond + p.rand(backoff))
	switch c.phase {
	case held:
		if p.over(c) {
			p.end(i, "it was not renewed in time")
			return
		}
		if timedOut {
			p.lateUntil = p.now.Mono.Add(p.cfg.RoundTimeout) // for whatever reason: nothing new besides
			again = p.now.Mono.Add(p.rand(time.Duration(c.ttl) * time.Millisecond / 8))
		}
		c.renewAt = again
		p.wheel.set(i, min(again, c.deadline))
		return
	case releasing:
		if p.c >= c.until+p.eps {
			p.end(i, "")
			return
		}
	case waiting, trying, observing:
		if c.token = 0; c.phase == waiting { // its earlier WRITE belongs to no tenure (F-5)
			again = p.now.Mono.Add(p.rand(p.cfg.poll()))
		}
		if timedOut && !c.alone && !c.try && !c.watches {
			c.alone = true
			p.report(Waits{ID: c.id, State: p.state(c, nil, 0), Err: ErrNoMajority})
		}
		switch {
		case !c.try && !c.watches:
		case timedOut && c.tries >= 2:
			p.end(i, "it was asked twice")
			return
		case c.tries >= mostTries:
			p.end(i, "it refused again and again, or others were quicker")
			return
		}
	}
	p.wheel.set(i, again)
}

// state returns the part of a value that callers see.
func (p *Peer) state(c *claim, a *attempt, w uint32) State {
	s := State{Name: p.cells[c.cell].name, Waiting: int(w)}
	if a == nil {
		return s
	}
	s.Stable = a.agree
	for j := range a.value {
		if h := a.value[j]; p.keepsOthersOut(c.cell, &h) {
			s.Holdings = append(s.Holdings, h)
		}
	}
	return s
}

// keepsOthersOut reports whether a holding keeps others out: somebody may believe in it, or have
// to wait for its lock delay.
func (p *Peer) keepsOthersOut(at int32, h *Holding) bool {
	if !p.mayHold(h) || machine.NodeID(h.Owner) != p.cfg.Self || h.Incarnation != p.cfg.Incarnation {
		return p.mayHold(h)
	}
	// One of ours that no claim has, or will have if its WRITE succeeds, is over: only we
	// could hold it.
	for i := p.cells[at].claims; i >= 0; i = p.claims[i].next {
		if c := &p.claims[i]; c.token == h.Token && c.phase != releasing {
			return true
		}
	}
	return p.delays[h.Token] != 0
}
