package flease_test

import (
	"os"
	"testing"
	"time"

	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// saved returns the state that a peer has left, and back puts one in its place.
func (h *labPeer) saved() []byte {
	h.lab.t.Helper()
	file, err := h.disk.Disk.FS().OpenFile(h.statePath(), os.O_RDONLY, 0)
	if err != nil {
		h.lab.t.Fatal(err)
	}
	defer file.Close()
	size, _ := file.Size()
	b := make([]byte, size)
	_, _ = file.ReadAt(b, 0)
	return b
}

func (h *labPeer) back(b []byte) {
	h.lab.t.Helper()
	file, err := h.disk.Disk.FS().OpenFile(h.statePath(), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		_, err = file.WriteAt(b, 0)
	}
	if err != nil {
		h.lab.t.Fatal(err)
	}
	_ = file.Sync()
	_ = file.Close()
}

func (h *labPeer) statePath() string { return "state/flease-" + string('0'+rune(h.id)) + ".snapshot" }

// TestAllRestartAsPlanned: records outlive a planned restart of all peers at one time, and of all but one that stays away.
func TestAllRestartAsPlanned(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 3, cfg, func(l *lab) {
		l.peers[0].setRecord("x", "kept")
		for _, back := range []int{3, 2} {
			for _, h := range l.peers {
				if err := h.close(); err != nil {
					t.Fatal(err)
				}
			}
			for _, h := range l.peers[:back] {
				h.start(false)
			}
			for i, h := range l.peers[:back] {
				if !h.complete(20 * time.Second) {
					t.Errorf("%d of 3 have started as planned, and peer %d misses records", back, i+1)
				}
				if got, err := h.record("x", 5*time.Second); got != "kept" {
					t.Errorf("%d of 3 have started as planned, and peer %d reads %q, %v", back, i+1, got, err)
				}
			}
			for _, h := range l.peers[back:] {
				h.start(false)
				if !h.complete(20 * time.Second) {
					t.Error("one that comes later misses records")
				}
			}
		}
	})
}

// TestAStateBesideABlankPeer: a peer with a state and one that has crashed do not begin anew: only one has forgotten.
func TestAStateBesideABlankPeer(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 3, cfg, func(l *lab) {
		planned, crashed := l.peers[0], l.peers[1]
		l.off(1, 3*time.Second, 2, 3)
		if err := crashed.spread("new", 2*time.Second); err != nil { // at 2 and 3
			t.Fatal(err)
		}
		if err := planned.close(); err != nil {
			t.Fatal(err)
		}
		crashed.kill()
		l.off(3, 30*time.Second, 1, 2)
		planned.start(false)
		crashed.start(false)
		if planned.complete(10 * time.Second) {
			t.Error("one of three has crashed and one is away, and one with its state begins anew")
		}
		if got, err := planned.record("x", 2*time.Second); err == nil {
			t.Errorf("a record that was acknowledged reads as %q", got)
		}
		if got, err := planned.record("x", 40*time.Second); got != "new" {
			t.Errorf("the third is back, and the record reads as %q, %v", got, err)
		}
	})
}

// TestStateFromABackup: a peer that starts with a state that is not its last takes itself for complete no more when another has heard
// of a life since.
func TestStateFromABackup(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 3, cfg, func(l *lab) {
		h := l.peers[2]
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
		backup := h.saved()
		h.start(false)
		if !h.complete(10 * time.Second) {
			t.Fatal("it misses records after a planned restart")
		}
		l.off(2, 30*time.Second, 1, 3)
		if err := l.peers[0].spread("new", 5*time.Second); err != nil { // at 1 and 3
			t.Fatal(err)
		}
		h.kill()
		h.back(backup)
		h.start(false)
		if h.complete(10 * time.Second) {
			t.Error("a state from a backup makes a peer complete, and another has heard of a life since")
		}
		time.Sleep(20 * time.Second) // until 2 is back
		l.off(1, 5*time.Second, 2, 3)
		if got, err := h.record("x", 4*time.Second); err == nil && got != "new" {
			t.Errorf("after a start with a state from a backup the record that was set since reads as %q", got)
		}
		if !h.complete(30 * time.Second) {
			t.Error("the others are back, and it does not hear their records")
		}
	})
}

// TestStateOfAnEarlierList: a peer that comes back with the state of an earlier list misses what was set since.
func TestStateOfAnEarlierList(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLists(t, cfg, func(l *lab, s *lists, first engine.Members) {
		h := l.peers[2]
		h.Keep("y", 1, []byte("of the earlier list"))
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
		s.give(listOf(2, nil, 1, 2, 3), machine.NodeID(3))
		l.off(3, time.Minute, 1, 2)
		h.read(s, false)
		time.Sleep(time.Second)
		if !h.Status().Incomplete {
			t.Error("a peer has the state of an earlier list, and takes itself for complete")
		}
		if got := string(h.Kept("y")); got != "of the earlier list" {
			t.Errorf("of a record in a state of an earlier list there is %q", got)
		}
	})
}

// TestOtherTermsSameRecords: records outlive a restart of all peers with other terms.
func TestOtherTermsSameRecords(t *testing.T) {
	cfg := brief
	cfg.State = "state"
	inLab(t, 3, cfg, func(l *lab) {
		l.peers[0].setRecord("x", "kept")
		for _, h := range l.peers {
			if err := h.close(); err != nil {
				t.Fatal(err)
			}
		}
		l.cfg.TMax += time.Second
		for _, h := range l.peers {
			h.start(false)
		}
		for i, h := range l.peers {
			if got, err := h.record("x", 20*time.Second); got != "kept" {
				t.Errorf("with another t_max peer %d reads %q, %v", i+1, got, err)
			}
		}
	})
}
