package flease

import (
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Views of one epoch that differ in anything have other digests; a size of cells that is left out is
// three.
func TestWhatTellsViewsApart(t *testing.T) {
	base := View{Epoch: 5, Members: []machine.NodeID{1, 2, 3, 4}, Replicas: 3, Places: 7}
	for name, tt := range map[string]struct {
		change func(v *View)
		same   bool
	}{
		"nothing":                  {func(*View) {}, true},
		"the default":              {func(v *View) { v.Replicas = 0 }, true},
		"the epoch":                {func(v *View) { v.Epoch++ }, false},
		"a member":                 {func(v *View) { v.Members[3] = 5 }, false},
		"a member less":            {func(v *View) { v.Members = v.Members[:3] }, false},
		"the size of cells":        {func(v *View) { v.Replicas = 4 }, false},
		"where the members are":    {func(v *View) { v.Places = 8 }, false},
		"that nobody knows where":  {func(v *View) { v.Places = 0 }, false},
		"only where, by high bits": {func(v *View) { v.Places |= 1 << 63 }, false},
	} {
		v := base
		v.Members = slices.Clone(base.Members)
		tt.change(&v)
		if same := v.digest() == base.digest(); same != tt.same {
			t.Errorf("views that differ in %s have one digest: %v, want %v", name, same, tt.same)
		}
	}
}

// Each slot has the cell that its view says, however great the members' indices are, with a majority
// of it and the peer's own place.
func TestCellsOfALayout(t *testing.T) {
	for name, v := range map[string]View{
		"small":         {Epoch: 1, Members: []machine.NodeID{1, 2, 3, 4, 5}, Replicas: 2},
		"great indices": {Epoch: 1, Members: []machine.NodeID{1, 2, 257, 258, 513, 1023}, Replicas: 2},
		"four of six":   {Epoch: 1, Members: []machine.NodeID{1, 2, 257, 258, 513, 1023}, Replicas: 4},
		"all":           {Epoch: 1, Members: []machine.NodeID{1, 257, 513}},
	} {
		const self = 257
		l := newLayout(v, self)
		for s := range slots {
			g, want := l.cells[s], v.cell(s)
			if !slices.Equal(g.members, want) || !slices.IsSorted(want) || len(want) != v.replicas() {
				t.Fatalf("%s: slot %d has the cell %v, want %v", name, s, g.members, want)
			}
			if g.majority != len(want)/2+1 || g.self != slices.Index(want, self) || g.index(want[1]) != 1 || g.index(999) != -1 {
				t.Fatalf("%s: of the cell %v the majority is %d, and the peer itself has place %d", name, want, g.majority, g.self)
			}
			if !slices.Contains(l.groups, g) {
				t.Fatalf("%s: the cell %v is not one of the layout's", name, want)
			}
		}
	}
	v := View{Epoch: 1, Members: []machine.NodeID{1, 2, 3}}
	l := newLayout(v, 1)
	if v.Members[0] = 9; l.view.Members[0] != 1 {
		t.Error("a layout changes with the list that it was made from")
	}
}

// An acceptor names the resources that somebody may hold or waits for, and nothing else.
func TestWhatAnAcceptorNames(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	put := func(name string, h ...Holding) {
		p.cells[p.cellOf(name)].value = h
	}
	put("held", Holding{Until: p.c + 5, Slots: 1, Owner: 2})
	put("held by one of two", Holding{Until: p.c + 5, Slots: 1, Owner: 2, Released: true}, Holding{Until: p.c + 5, Slots: 1, Owner: 3})
	put("over at ours", Holding{Until: p.c - p.eps + 1, Slots: 1, Owner: 2})
	put("over at all", Holding{Until: p.c - p.eps, Slots: 1, Owner: 2})
	put("released", Holding{Until: p.c + 5, Slots: 1, Owner: 2, Released: true})
	put("promised")
	c.hear(1, 2, 1, Op{Kind: Peek, Name: "awaited", Ballot: BallotOf(p.c, 1, 2), Ticket: BallotOf(p.c, 1, 2), Slots: 1})
	var names []string
	for name := range p.Names() {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"awaited", "held", "held by one of two", "over at ours"}; !slices.Equal(names, want) {
		t.Errorf("it names %q, want %q", names, want)
	}
	for range p.Names() {
		break
	}
	for i := range uint64(3) {
		p.Step(c.now, Acquire{ID: i, Name: "queued"})
	}
	p.busy = p.cfg.MaxAttempts - 1
	p.takeTurns() // of the first
	for i := range uint64(2) {
		p.Step(c.now, Acquire{ID: 5 + i, Name: "queued"})
	}
	if s := p.Stats(); s.Queued != 4 || s.Claims != 5 {
		t.Errorf("four wait for their turn, of five: %+v", s)
	}
}
