package flease

import (
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestCellsThatStayNeedNotClose: a view waits for those cells only that it changes. Peer 2 is
// gone, and with it a cell that stays as it is; 3 leaves.
func TestCellsThatStayNeedNotClose(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.View.Replicas = 1 })
	delete(c.peers, 2)
	v := View{Epoch: 2, Members: []machine.NodeID{1, 2}, Replicas: 1}
	c.cut = func(env machine.Envelope) bool { return env.From == 3 || env.To == 3 }
	c.do(1, ChangeView{View: v})
	c.pass(2 * c.peers[1].quarantine)
	if has[Active](c, 1) {
		t.Fatal("the view is active, and 3 has not closed")
	}
	c.cut = nil
	c.do(3, ChangeView{View: v})
	c.pass(c.peers[1].quarantine + time.Second)
	if !has[Active](c, 1) {
		t.Error("all that change have closed, and the view is not active")
	}
}

// TestWhoComesLateToAViewIsTold: a peer that missed the change closes when the others have done so
// long ago. It is told that the view is active, though it asks for nothing, and waits as they did.
func TestWhoComesLateToAViewIsTold(t *testing.T) {
	c := newCluster(t, 3, nil)
	v := View{Epoch: 2, Members: []machine.NodeID{1, 2}}
	c.cut = func(env machine.Envelope) bool { return env.From == 3 || env.To == 3 }
	c.do(1, ChangeView{View: v})
	c.do(2, ChangeView{View: v})
	c.pass(c.peers[1].quarantine + time.Second)
	if !has[Active](c, 1) || !has[Active](c, 2) {
		t.Fatal("the view is not active")
	}
	c.cut = nil
	c.do(3, ChangeView{View: v})
	c.pass(c.peers[3].quarantine - time.Second)
	if has[Active](c, 3) {
		t.Error("it has not waited")
	}
	c.pass(2 * time.Second)
	if !has[Active](c, 3) {
		t.Error("a peer has closed for a view that is active, and nobody says so")
	}
}

// A view is active when both clocks have come far enough behind the end of the cells before.
func TestAViewIsActiveByBothClocks(t *testing.T) {
	for _, slow := range []string{"neither", "mono", "wall"} {
		c := newCluster(t, 1, nil)
		p := c.peers[1]
		c.ask(1, ChangeView{View: View{Epoch: 2, Members: []machine.NodeID{1, 2}}})
		step := p.quarantine / 10
		active := false
		steps := func(n int, slow string) {
			for range n {
				c.later(step)
				switch slow { // by less than what is taken for a jump
				case "mono":
					c.now.Mono = c.now.Mono.Add(-step / 1000)
				case "wall":
					c.now.Wall -= machine.Wall(step / 1000)
				}
				_, out := c.ask(1, labstage.Wake{})
				active = active || slices.ContainsFunc(out, func(o Report) bool { _, is := o.(Active); return is })
			}
		}
		if steps(10, slow); active != (slow == "neither") || (p.lay.view.Epoch == 2) != active {
			t.Errorf("when it is time by all clocks but %s, which was slow, the view is active: %v (epoch %d)", slow, active, p.lay.view.Epoch)
		}
		if steps(1, ""); !active || p.lay.view.Epoch != 2 || p.next != nil {
			t.Errorf("when it is time by all clocks, %s of which was slow, the view is not active: epoch %d", slow, p.lay.view.Epoch)
		}
	}
}

// A silent peer says nothing about views either, and says it when its quarantine is over.
func TestViewsInAQuarantine(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	next := View{Epoch: 2, Members: []machine.NodeID{1, 2, 3, 4}}
	c.ask(1, ClockFault{Why: "a test"})
	for what, input := range map[string]any{
		"is given the next view": ChangeView{View: next},
		"hears an old one":       machine.Envelope{From: 2, To: 1, Body: &Batch{Incarnation: 1, Epoch: 0, Ops: []Op{{Kind: Quit, Name: "a", Ticket: 5}}}},
		"is woken":               labstage.Wake{},
	} {
		c.later(p.cfg.poll())
		labstage.Feed(p, c.now, input)
		if sends := p.Ready().Sends; len(sends) > 0 {
			t.Errorf("a silent peer that %s says %+v", what, sends[0].Body)
		}
	}
	if p.next == nil || p.next.lay.view.Epoch != 2 || !p.closed(0) {
		t.Errorf("a silent peer that was given the next view votes on in the cells of the last: %v", p.next)
	}
	for p.silent() {
		c.later(time.Second)
		p.Wake(c.now)
	}
	told := map[machine.NodeID]bool{}
	for _, e := range p.Ready().Sends {
		news := e.Body.(*Batch).View
		told[e.To] = news != nil && news.View.Epoch == 2 && news.Closed && !news.Active
	}
	if !told[2] || !told[3] || !told[4] || len(told) != 3 {
		t.Errorf("when its quarantine is over, it tells of the next view: %v, want 2, 3 and 4", told)
	}
}

// News of a view whose sender has neither closed nor is active begin nothing.
func TestNewsThatSayNothing(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	b := &Batch{Incarnation: 1, Epoch: 1, Digest: p.lay.digest, View: &ViewNews{View: View{Epoch: 2, Members: []machine.NodeID{1, 2, 3, 4}}}}
	if c.ask(1, machine.Envelope{From: 2, To: 1, Body: b}); p.next != nil {
		t.Error("a peer that says of a view neither that it has closed nor that it is active has it begun")
	}
}
