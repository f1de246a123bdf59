package fleasesim

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// Parts of the scripts. The guard is as thin as it can be, so that it saves no tenure.
const (
	tmax  = 10 * time.Second
	eps   = 200 * time.Millisecond
	round = 2 * time.Second
	wait  = tmax + 3*eps // W
)

// acquisition is what one asks for to acquire. READ comes twice: a caller that is told of a
// lease, and knows that it is over, insists.
var acquisition = []flease.Kind{flease.Read, flease.Read, flease.Write}

// theater is a stage on which a script says which message arrives when.
type theater struct {
	*stage
	t    *testing.T
	wire []letter
}

// letter is one operation on its way.
type letter struct {
	from, to machine.NodeID
	head     flease.Batch // without operations
	op       flease.Op
}

// newTheater brings peers 1 to n on, of which members coordinate everything, and lets their
// quarantines pass. Clocks are right.
func newTheater(t *testing.T, n int, members ...machine.NodeID) *theater {
	th := &theater{t: t, stage: newStage(sim.NewWorld(1), tmax, eps)}
	th.view = flease.View{Epoch: 1, Members: members, Replicas: len(members)}
	th.net.Take = th.take
	for id := range n {
		th.enter(machine.NodeID(id+1), nil)
	}
	th.pass(wait + 10*time.Millisecond)
	return th
}

func (th *theater) enter(id machine.NodeID, edit func(*flease.Config)) *peer {
	p := &peer{s: th.stage, host: sim.NewProcess[flease.Input, flease.Report](th.w, th.net, id, 0)}
	p.host.Lag = 0
	p.right = time.Duration(p.host.Now().Wall) - th.w.Now()
	p.config = flease.Config{Self: id, TMax: tmax, Epsilon: eps, RoundTimeout: round, Guard: time.Millisecond, View: th.view}
	if edit != nil {
		edit(&p.config)
	}
	th.peers = append(th.peers, p)
	p.start()
	th.w.Run(0)
	return p
}

func (th *theater) take(env machine.Envelope) bool {
	b := overTheWire(env.Body).(*flease.Batch)
	head := *b
	head.Ops = nil
	if b.View != nil {
		th.wire = append(th.wire, letter{env.From, env.To, head, flease.Op{}})
		head.View = nil
	}
	for _, o := range b.Ops {
		th.wire = append(th.wire, letter{env.From, env.To, head, o})
	}
	return true
}

// p is a peer by its number.
func (th *theater) p(id machine.NodeID) *peer {
	for _, p := range th.peers {
		if p.host.ID == id {
			return p
		}
	}
	th.t.Fatalf("there is no peer %d", id)
	return nil
}

// pass lets time pass, in which messages do not move.
func (th *theater) pass(d time.Duration) { th.w.Run(d) }

// idle lets time pass, with every peer woken each second as a driver does.
func (th *theater) idle(d time.Duration) {
	for end := th.w.Now() + d; th.w.Now() < end; th.pass(min(time.Second, end-th.w.Now())) {
		for _, p := range th.peers {
			p.host.Wake()
		}
	}
}

// acquire has a peer begin a claim.
func (th *theater) acquire(id machine.NodeID, in flease.Acquire) *client {
	p := th.p(id)
	c := &client{p: p, quiet: true, slots: max(in.Slots, 1), delay: in.LockDelay}
	c.ask("r")
	in.ID, in.Name = c.id, c.name
	th.calm(p)
	p.host.Step(in)
	th.pass(0)
	return c
}

// calm: in scripts holders hold until they are told.
func (th *theater) calm(p *peer) {
	p.host.Outcome = func(out flease.Report) {
		if a, ok := out.(flease.Acquired); ok {
			if c := p.claims[a.ID]; c != nil && !c.left {
				c.hold = &hold{p: p, life: p.host.Life(), id: a.ID, name: c.name, slots: c.slots, delay: c.delay, remote: c.remote, token: a.Token, deadline: a}
				th.j.onStart(c.hold)
			}
			return
		}
		p.outcome(out)
	}
}

// deliver delivers the messages that are on their way from one peer to another, of a kind (0:
// all), and returns their number.
func (th *theater) deliver(from, to machine.NodeID, kind flease.Kind) int {
	return th.pick(from, to, kind, true)
}

// lost loses it.
func (th *theater) lost(from, to machine.NodeID, kind flease.Kind) { th.pick(from, to, kind, false) }

func (th *theater) pick(from, to machine.NodeID, kind flease.Kind, deliver bool) (n int) {
	var kept, picked []letter
	for _, l := range th.wire {
		if l.from == from && l.to == to && (kind == 0 || l.op.Kind == kind) {
			picked = append(picked, l)
		} else {
			kept = append(kept, l)
		}
	}
	th.wire = kept
	if deliver {
		for _, l := range picked {
			th.bring(l)
		}
	}
	return len(picked)
}

// bring delivers a letter, perhaps again.
func (th *theater) bring(l letter) {
	b := l.head
	if l.op.Kind != 0 {
		b.Ops = []flease.Op{l.op}
	}
	th.p(l.to).host.Receive(machine.Envelope{From: l.from, To: l.to, Body: &b})
	th.pass(0)
}

// letters are those on their way, of a kind.
func (th *theater) letters(from, to machine.NodeID, kind flease.Kind) (list []letter) {
	for _, l := range th.wire {
		if l.from == from && l.to == to && l.op.Kind == kind {
			list = append(list, l)
		}
	}
	return list
}

// ask lets a request reach a peer and its answer come back.
func (th *theater) ask(from, to machine.NodeID, kind flease.Kind) {
	th.deliver(from, to, kind)
	th.back(to, from)
}

// back lets all answers come back.
func (th *theater) back(from, to machine.NodeID) {
	for kind := flease.AckRead; kind <= flease.WrongView; kind++ {
		if kind != flease.Peek && kind != flease.Learn && kind != flease.Quit {
			th.deliver(from, to, kind)
		}
	}
}

// win has a peer acquire by the votes of two others.
func (th *theater) win(id machine.NodeID, voters ...machine.NodeID) *client {
	th.t.Helper()
	c := th.acquire(id, flease.Acquire{})
	for _, kind := range acquisition {
		for _, v := range voters {
			th.ask(id, v, kind)
		}
	}
	if c.hold == nil {
		th.t.Fatalf("peer %d does not hold", id)
	}
	return c
}

// settle lets everything arrive that is on its way, for a few rounds.
func (th *theater) settle() {
	for range 12 {
		wire := th.wire
		th.wire = nil
		for _, l := range wire {
			if th.p(l.to).host.Up() {
				th.bring(l)
			}
		}
	}
}

// wantHeld fails unless a client believes, or does not, as said.
func (th *theater) wantHeld(what string, c *client, want bool) {
	th.t.Helper()
	if got := c.hold != nil && c.hold.believes(); got != want {
		th.t.Errorf("%s: peer %d holds: %v, want %v", what, c.p.host.ID, got, want)
	}
}

// head is the beginning of a peer's batches.
func (th *theater) head(id machine.NodeID) flease.Batch {
	p := th.p(id)
	c := &client{p: p, quiet: true}
	c.ask("none")
	p.host.Step(flease.Observe{ID: c.id, Name: c.name})
	th.pass(0)
	l := th.letters(id, 5, flease.Peek)[0]
	for _, m := range th.view.Members {
		th.lost(id, m, flease.Peek)
	}
	return l.head
}
