package flease

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/machine"
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
