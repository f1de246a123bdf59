package flease

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// sweepAll looks at all cells at once.
func (p *Peer) sweepAll() {
	for range 2*len(p.cells) + 2 {
		p.sweepAt = 0
		p.sweep()
	}
}

// Each name has a place of its own, a free one if there is any. Names that are still to be remembered keep
// theirs.
func TestPlacesOfNames(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	kept := map[string]Ballot{}
	for i := range 9 {
		name := fmt.Sprint(i)
		at := p.cellOf(name)
		if i%4 == 0 {
			kept[name] = BallotOf(p.c, uint16(i), 2)
			p.cells[at].promised = kept[name]
		}
	}
	p.sweepAll()
	if len(p.names) != len(kept) {
		t.Errorf("of nine names %d are remembered, want the %d with a promise", len(p.names), len(kept))
	}
	for i := range 6 {
		p.cellOf(fmt.Sprint("new-", i))
	}
	places := map[int32]string{}
	for name, at := range p.names {
		if other, taken := places[at]; taken {
			t.Errorf("%q and %q have one place", name, other)
		}
		places[at] = name
		if cell := p.cells[at]; cell.name != name || cell.promised != kept[name] || cell.claims != -1 || int(cell.slot) != slotOf(name) {
			t.Errorf("at the place of %q, which was promised to %v, there is %+v", name, kept[name], cell)
		}
	}
	if len(places) != len(kept)+6 || len(p.cells) != 9 {
		t.Errorf("%d names have %d places of %d; want %d of 9, for those that were given up are used again", len(p.names), len(places), len(p.cells), len(kept)+6)
	}
	for name := range kept {
		if at := p.cellOf(name); p.cells[at].promised != kept[name] {
			t.Errorf("%q is found at a place that is promised to %v", name, p.cells[at].promised)
		}
	}
}

// New names do not put off the next look for idle ones.
func TestSweepsAreNotPutOff(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	p.cellOf("first")
	due := p.sweepAt
	if want := c.now.Mono.Add(p.sweepEvery()); due != want {
		t.Errorf("the first name is looked at %v from now, want %v", due.Sub(c.now.Mono), p.sweepEvery())
	}
	c.later(p.sweepEvery() / 2)
	p.Wake(c.now)
	if p.cellOf("second"); p.sweepAt != due {
		t.Errorf("the second name puts off the look by %v", p.sweepAt.Sub(due))
	}
}

// A name is remembered while somebody waits for it, and forgotten when nobody has been heard of for three polls.
func TestNamesOfThoseThatWait(t *testing.T) {
	for _, tt := range []struct {
		polls time.Duration
		more  time.Duration
		kept  bool
	}{{3, 0, true}, {3, 1, false}} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		k := BallotOf(p.c, 1, 2)
		c.hear(1, 2, 1, Op{Kind: Peek, Name: "a", Ballot: k, Ticket: k, Slots: 1})
		c.later(tt.polls*p.cfg.poll() + tt.more)
		p.Wake(c.now)
		p.sweepAll()
		if _, kept := p.names["a"]; kept != tt.kept || len(p.lines) > 0 != tt.kept {
			t.Errorf("%v after it was heard of last a waiter is remembered: %v, %v; want %v", tt.polls*p.cfg.poll()+tt.more, kept, p.lines, tt.kept)
		}
	}
}

// A durable peer forgets nothing that it has not recorded yet, however old it is.
func TestNothingIsForgottenUnrecorded(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.Durable = true })
	p := c.peers[1]
	other := p.cellOf("other")
	k := BallotOf(p.c, 1, 2)
	p.Receive(c.now, machine.Envelope{From: 2, To: 1, Body: &Batch{Incarnation: 1, Epoch: 1, Digest: p.lay.digest, Ops: []Op{{Kind: Read, Name: "a", Ballot: k}}}})
	p.cells[other].promised = k + 5 // another has that place
	for range 11 {                  // nobody takes what there is to be done, for long
		c.later(2 * time.Second)
		p.Wake(c.now)
	}
	p.sweepAll()
	rd := p.Ready()
	if len(rd.Persists) != 1 || !reflect.DeepEqual(rd.Persists[0].Record.(*Record).Cells, []CellRecord{{Name: "a", Promised: k}}) {
		t.Errorf("behind a promise to %v the peer records %+v", k, rd.Persists)
	}
	if p.sweepAll(); len(p.names) != 0 {
		t.Errorf("what is recorded, and old, is still remembered: %v", p.names)
	}
}

// Messages are ignored unless the sender has an index that a member may have.
func TestWhoseBatchesAreTaken(t *testing.T) {
	for from, taken := range map[machine.NodeID]bool{0: false, 1023: true, 1024: false, 1 << 40: false} {
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("a batch of peer %d ends the peer: %v", from, r)
				}
			}()
			c := newCluster(t, 3, nil)
			p := c.peers[1]
			p.Receive(c.now, machine.Envelope{From: from, To: 1, Body: &Batch{Incarnation: 1, Epoch: 0, Ops: []Op{{Kind: Quit, Name: "a", Ticket: 5}}}})
			sends := p.Ready().Sends
			if answered := len(sends) == 1 && sends[0].To == from && sends[0].Body.(*Batch).View != nil; answered != taken || !taken && len(sends) > 0 {
				t.Errorf("peer %d, of an old view, is told of the present one: %+v, want %v", from, sends, taken)
			}
		}()
	}
	// Nor is what was meant for another.
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	k := BallotOf(p.c, 1, 2)
	if said, _ := c.ask(1, machine.Envelope{From: 2, To: 3, Body: &Batch{Incarnation: 1, Epoch: 1, Digest: p.lay.digest, Ops: []Op{{Kind: Read, Name: "a", Ballot: k}}}}); said != nil {
		t.Errorf("what was sent to peer 3 is answered: %+v", said)
	}
}
