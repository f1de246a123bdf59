package flease_test

import (
	"fmt"
	"testing"
	"time"

	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

// TestLastStateBesideOneThatMissedALife: the state of a peer is its last though another has not heard of the life that has left it.
func TestLastStateBesideOneThatMissedALife(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 3, cfg, func(l *lab) {
		h, away := l.peers[0], l.peers[2]
		time.Sleep(time.Second)
		if err := away.close(); err != nil { // it has heard of the first life of h
			t.Fatal(err)
		}
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
		h.start(false) // the second life
		if !h.complete(10 * time.Second) {
			t.Fatal("it misses records after a planned restart")
		}
		h.setRecord("x", "kept")
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
		l.peers[1].kill()
		away.start(false)
		h.start(false)
		for i, p := range []*labPeer{h, away} {
			if !p.complete(20 * time.Second) {
				t.Errorf("two of three have started with their last states, and %d misses records", i)
			}
		}
		if got, err := away.record("x", 5*time.Second); got != "kept" {
			t.Errorf("it reads %q, %v", got, err)
		}
	})
}

// TestTwoPeersOneState: of two peers that are up, one with its last state and one that has forgotten, neither waits for ever.
func TestTwoPeersOneState(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 2, cfg, func(l *lab) {
		l.peers[0].setRecord("x", "kept")
		if err := l.peers[0].close(); err != nil {
			t.Fatal(err)
		}
		l.peers[1].kill()
		for _, h := range l.peers {
			h.start(false)
		}
		for i, h := range l.peers {
			if !h.complete(30 * time.Second) {
				t.Errorf("both peers are up, and peer %d waits for ever", i+1)
			}
			if got, err := h.record("x", 5*time.Second); got != "kept" {
				t.Errorf("peer %d reads %q, %v", i+1, got, err)
			}
		}
	})
}

// TestFullShelvesDiffer: peers whose last places have different names keep records still when one has crashed.
func TestFullShelvesDiffer(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		for i := range engine.RecordsMax - 1 {
			for _, h := range l.peers {
				h.Keep(fmt.Sprint("job/", i), 1, nil)
			}
		}
		l.peers[1].Keep("y", 1, nil)
		l.peers[2].Keep("z", 1, nil)
		l.peers[0].kill()
		l.peers[0].start(false)
		if !l.peers[0].complete(60 * time.Second) {
			t.Errorf("it misses records for ever")
		}
	})
}

// TestBegunByOneThatRestarts: one of two that begin anew restarts as planned before the other has heard of it, and neither waits
// for the third.
func TestBegunByOneThatRestarts(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 3, cfg, func(l *lab) {
		for _, h := range l.peers {
			h.kill()
		}
		l.off(3, time.Hour, 2) // which waits for an answer of the third
		for _, h := range l.peers[:2] {
			h.start(false)
		}
		if !l.peers[0].complete(30 * time.Second) {
			t.Fatal("two have forgotten, and the first has not begun")
		}
		if !l.peers[1].Status().Incomplete {
			t.Fatal("the other has begun, too: nothing is tested")
		}
		if err := l.peers[0].close(); err != nil {
			t.Fatal(err)
		}
		l.peers[0].start(false)
		for i, h := range l.peers[:2] {
			if !h.complete(30 * time.Second) {
				t.Errorf("two had begun anew, one has restarted as planned, and peer %d waits for the third", i+1)
			}
		}
	})
}

// TestReadAtAFullPeer: a record that others keep is read at a peer without room for it.
func TestReadAtAFullPeer(t *testing.T) {
	inLab(t, 3, brief, func(l *lab) {
		for i := range engine.RecordsMax {
			l.peers[0].Keep(fmt.Sprint("job/", i), 1, nil)
		}
		for _, h := range l.peers[1:] {
			h.Keep("y", 1, []byte("kept"))
		}
		if got, err := l.peers[0].record("y", 5*time.Second); got != "kept" || err != nil {
			t.Errorf("two of three keep a record, the third has no room, and reads %q, %v", got, err)
		}
	})
}
