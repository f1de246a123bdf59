package flease

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestShrink: when most leases are gone, the tables are only as large as the rest needs.
// The rest goes on as before: it is renewed, given back, and taken by waiters.
func TestShrink(t *testing.T) {
	const leases, each = 3 * minTable, 100
	c := newCluster(t, 3, nil)
	take := func(id uint64) {
		c.peers[1].Step(c.now, Acquire{ID: id, Name: fmt.Sprint(id)})
		if id%256 == 0 {
			c.do(1, labstage.Wake{})
		}
	}
	for id := range uint64(leases) {
		take(id)
	}
	c.do(1, labstage.Wake{})
	for id := range uint64(leases) {
		if id%each == 0 && id%(2*each) == 0 {
			c.do(2, Acquire{ID: id, Name: fmt.Sprint(id)}) // and waits
		}
	}
	if s := c.peers[1].Stats(); s.Held != leases {
		t.Fatalf("%+v", s)
	}
	for id := range uint64(leases) {
		if id%each != 0 {
			c.peers[1].Step(c.now, Release{ID: id})
		}
	}
	c.do(1, labstage.Wake{})
	c.out = map[machine.NodeID][]Report{}
	c.pass(3 * c.peers[1].cfg.TMax)
	left := (leases + each - 1) / each
	for id, p := range c.peers {
		if len(p.cells) > minTable || len(p.claims) > 2*left || len(p.wheel.links) > 2*left || len(p.freeCells) > minTable {
			t.Errorf("peer %d has room for %d resources, %d claims and %d alarms", id, len(p.cells), len(p.claims), len(p.wheel.links))
		}
	}
	renewed := map[uint64]bool{}
	for _, out := range c.out[1] {
		switch out := out.(type) {
		case Renewed:
			renewed[out.ID] = true
		case Lost:
			t.Errorf("%+v", out)
		}
	}
	if s := c.peers[1].Stats(); s.Held != left || s.Claims != left || len(renewed) != left {
		t.Errorf("%+v, %d renewed; want %d", s, len(renewed), left)
	}
	for id := uint64(0); id < leases; id += each {
		c.do(1, Release{ID: id})
		if id%(2*each) != 0 {
			continue
		}
		c.pass(10 * time.Millisecond)
		if got := last[Acquired](c, 2); got.ID != id {
			t.Fatalf("%d has been given back, and %d was taken", id, got.ID)
		}
	}
	take(leases + 1) // places of old are free again
	c.do(1, labstage.Wake{})
	if last[Acquired](c, 1).ID != leases+1 {
		t.Error("nothing new can be taken")
	}
}

// TestShrinkUnderWay: an attempt finds its claim when that has moved.
func TestShrinkUnderWay(t *testing.T) {
	c := newCluster(t, 3, nil)
	for id := range uint64(4) {
		c.do(1, Acquire{ID: id, Name: fmt.Sprint(id)})
	}
	c.do(1, Release{ID: 0})
	c.step(1, Release{ID: 1}) // its WRITE is on its way
	p := c.peers[1]
	p.moveClaims()
	for _, a := range p.attempts {
		if a.stage == writing && a.claim != p.byID[1] {
			t.Fatalf("the claim of the attempt has moved to place %d, and it looks for it at %d", p.byID[1], a.claim)
		}
	}
	c.settle()
	if got := last[Released](c, 1); got != (Released{ID: 1, Confirmed: true}) {
		t.Errorf("lease 1 was given back, and the peer reports %+v", got)
	}
	if s := p.Stats(); s.Held != 2 {
		t.Errorf("%d leases are held, want 2", s.Held)
	}
}

// BenchmarkMemory is what a peer keeps: for a lease that is held through one of three
// peers, all of them together, and for each of as many that are long gone.
func BenchmarkMemory(b *testing.B) {
	const leases = 90_000
	for b.Loop() {
		c := newCluster(b, 3, func(cfg *Config) { cfg.TMax = 30 * time.Second })
		before := heap()
		for i := range uint64(leases) {
			c.peers[1].Step(c.now, Acquire{ID: i, Name: fmt.Sprintf("resource/%d", i), Holder: "host:1234"})
			if i%256 == 255 {
				c.do(1, labstage.Wake{})
				c.out = map[machine.NodeID][]Report{}
				c.pass(5 * time.Millisecond)
			}
		}
		c.do(1, labstage.Wake{})
		c.out = map[machine.NodeID][]Report{}
		c.pass(20 * time.Second)
		c.out = map[machine.NodeID][]Report{}
		b.ReportMetric(float64(int64(heap()-before))/leases, "B/held")
		for i := range uint64(leases) {
			c.peers[1].Step(c.now, Release{ID: i})
			if i%256 == 255 {
				c.do(1, labstage.Wake{})
			}
		}
		c.do(1, labstage.Wake{})
		c.out = map[machine.NodeID][]Report{}
		c.pass(80 * time.Second)
		c.out = map[machine.NodeID][]Report{}
		b.ReportMetric(float64(int64(heap()-before))/leases, "B/gone")
		if s := c.peers[1].Stats(); s != (Stats{}) {
			b.Fatalf("%+v", s)
		}
	}
}

// logical is what a peer has in its tables, by names and by claims' IDs.
func (p *Peer) logical() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(p.names)) {
		at := p.names[name]
		c := p.cells[at]
		var ids []uint64
		for i := c.claims; i >= 0; i = p.claims[i].next {
			ids = append(ids, p.claims[i].id)
		}
		c.claims = 0
		lines = append(lines, fmt.Sprintf("%s: %+v, claims %d, line %+v", name, c, ids, p.lines[at]))
	}
	for _, id := range slices.Sorted(maps.Keys(p.byID)) {
		i := p.byID[id]
		c := p.claims[i]
		under := "nothing"
		if c.att >= 0 {
			under = fmt.Sprint("attempt ", c.att, " of claim ", p.claims[p.attempts[c.att].claim].id)
		}
		name := p.cells[c.cell].name
		c.cell, c.next = 0, 0
		lines = append(lines, fmt.Sprintf("claim %d of %s: %+v, alarm at %d, under way %s", id, name, c, p.rings(i), under))
	}
	for _, t := range p.turns[p.turn:] {
		if int(t.claim) >= len(p.claims) {
			lines = append(lines, "a turn of nobody")
		} else if c := p.claims[t.claim]; c.life == t.life && c.phase == queued {
			lines = append(lines, fmt.Sprintf("a turn of claim %d", c.id))
		}
	}
	return lines
}

// TestWhatMovesStaysTheSame: tables that shrink have all that they had, but for claims that
// were given up. They keep claims, those to one name, their alarms and turns, the attempts
// under way, and the lines of waiters.
func TestWhatMovesStaysTheSame(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	for id := range uint64(6) {
		c.do(1, Acquire{ID: id, Name: fmt.Sprint(id)})
	}
	for id := uint64(10); id < 14; id++ {
		c.do(1, Acquire{ID: id, Name: "shared", Slots: Shared})
	}
	for id := uint64(3); id < 6; id++ { // whose places are not the first
		c.do(2, Acquire{ID: id, Name: fmt.Sprint(id)})
		c.do(3, Acquire{ID: id, Name: fmt.Sprint(id)})
	}
	c.cut = func(machine.Envelope) bool { return true }
	c.do(1, Acquire{ID: 20, Name: "under way"})
	c.cut = nil
	for _, id := range []uint64{0, 2, 11} {
		c.do(1, Release{ID: id})
	}
	for id := uint64(30); id < 34; id++ {
		p.Step(c.now, Acquire{ID: id, Name: fmt.Sprint("queued ", id)})
	}
	p.Step(c.now, Release{ID: 31})
	for _, name := range []string{"0", "2"} { // forgotten
		at := p.names[name]
		p.cells[at] = cell{}
		p.freeCells = append(p.freeCells, at)
		delete(p.names, name)
	}
	before := p.logical()
	same := func(what string) {
		t.Helper()
		after := p.logical()
		for i := range min(len(before), len(after)) {
			if before[i] != after[i] {
				t.Fatalf("when its %s have moved a peer has\n%s\nand before\n%s", what, after[i], before[i])
			}
		}
		if len(after) != len(before) {
			t.Fatalf("when its %s have moved a peer has %d things, and before %d", what, len(after), len(before))
		}
	}
	p.moveCells()
	same("cells")
	p.moveClaims()
	same("claims")
	if len(p.cells) != len(p.names) || len(p.freeCells) != 0 || len(p.claims) != len(p.byID) || len(p.freeClaims) != 0 {
		t.Errorf("%d names have %d places, and %d claims %d; want each as many", len(p.names), len(p.cells), len(p.byID), len(p.claims))
	}
	// It goes on: new names and claims get places of their own.
	for id := uint64(40); id < 44; id++ {
		c.do(1, Acquire{ID: id, Name: fmt.Sprint(id)})
		if got := last[Acquired](c, 1); got.ID != id {
			t.Errorf("behind a move claim %d has acquired last, want %d", got.ID, id)
		}
	}
	if c.pass(time.Second); p.Stats().Held != 4+3+1+3+4 {
		t.Errorf("behind a move %d leases are held, want 15: 4, 3 that share, what was under way, 3 that waited for turns and 4 new ones", p.Stats().Held)
	}
}
