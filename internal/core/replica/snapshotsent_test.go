package replica

import (
	"slices"
	"testing"

	"go.etcd.io/raft/v3/tracker"
)

// A follower that was sent a snapshot is sent what is behind it, and one that did not get it is
// sent a snapshot anew.
func TestWhatFollowsASnapshot(t *testing.T) {
	for _, arrived := range []bool{true, false} {
		s := newStage(t)
		for _, command := range []string{"elect 1", "pass 200ms", "cut 3", "put 1 a b", "deliver", "put 1 a b", "deliver"} {
			s.do(command)
		}
		m := s.members[0]
		m.r.tail.keepBytes = 0
		snap := m.a.Snapshot()
		s.step(m, Snapshotted{Index: snap.Index, Term: snap.Term, ConfState: snap.ConfState()})
		snap.Release()
		s.do("mend 3")
		const sent = "1: a snapshot of entry 4 for 3"
		if said := s.do("pass 300ms"); !slices.Contains(said, sent) {
			t.Fatalf("no snapshot is sent: %q", said)
		}
		if said := s.do("pass 300ms"); slices.Contains(said, sent) {
			t.Errorf("another snapshot is sent while the first is on its way")
		}
		s.step(m, SnapshotSent{To: 3, OK: arrived})
		next := uint64(3) // it has entry 2
		if arrived {
			next = 5
		}
		if pr := m.r.raft.Status().Progress[3]; pr.State != tracker.StateProbe || pr.Next != next {
			t.Errorf("arrived: %v; then it is sent entries from %d on, in state %v, want %d and a probe", arrived, pr.Next, pr.State, next)
		}
		if said := s.do("pass 120ms"); !arrived && !slices.Contains(said, sent) {
			t.Error("a snapshot that did not arrive is not sent again")
		}
	}
}
