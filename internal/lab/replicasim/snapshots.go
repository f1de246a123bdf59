package replicasim

import (
	"bytes"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/raft/v3/raftpb"
)

type savedSnapshot struct {
	index, term uint64
	conf        *raftpb.ConfState
	body        []byte
}

func keepAfter(entries []*raftpb.Entry, snap *raftpb.SnapshotMetadata) []*raftpb.Entry {
	for i, e := range entries {
		if e.GetIndex() == snap.GetIndex() && e.GetTerm() == snap.GetTerm() {
			return entries[i+1:]
		}
	}
	if len(entries) > 0 && entries[0].GetIndex() == snap.GetIndex()+1 {
		return entries
	}
	return nil
}

func (m *Member) metadata(s savedSnapshot) *raftpb.SnapshotMetadata {
	return &raftpb.SnapshotMetadata{Index: &s.index, Term: &s.term, ConfState: s.conf}
}

func (m *Member) restore(index uint64) {
	for _, s := range m.snapshots {
		if s.index == index {
			if err := m.state.Restore(bytes.NewReader(s.body), s.index, s.term); err != nil {
				panic(err)
			}
			return
		}
	}
	panic(fmt.Sprintf("member %d has no snapshot %d", m.ID, index))
}

func (m *Member) takeSnapshot() {
	if m.taking {
		return
	}
	m.taking = true
	snap := m.state.Snapshot()
	life := m.Life()
	m.c.w.After(m.c.w.Between(0, 300*time.Millisecond), func() {
		defer snap.Release()
		if m.Life() != life {
			return
		}
		m.taking = false
		var b bytes.Buffer
		if _, err := snap.WriteTo(&b); err != nil {
			panic(err)
		}
		s := savedSnapshot{snap.Index, snap.Term, snap.ConfState(), b.Bytes()}
		m.keep(s)
		m.Step(replica.Snapshotted{Index: s.index, Term: s.term, ConfState: s.conf})
	})
}

func (m *Member) keep(s savedSnapshot) {
	m.c.w.Note("member %d: snapshot %d", m.ID, s.index)
	at := len(m.snapshots)
	for at > 0 && m.snapshots[at-1].index >= s.index {
		at--
	}
	m.snapshots = append(m.snapshots[:at], append([]savedSnapshot{s}, m.snapshots[at:]...)...)
	if len(m.snapshots) > 3 {
		m.snapshots = m.snapshots[len(m.snapshots)-3:]
	}
}

func (m *Member) sendSnapshot(out replica.SendSnapshot) {
	index := out.Message.GetSnapshot().GetMetadata().GetIndex()
	var found *savedSnapshot
	for i := range m.snapshots {
		if m.snapshots[i].index == index {
			found = &m.snapshots[i]
		}
	}
	life := m.Life()
	to := m.c.members[out.To-1]
	msg := overTheWire(out.Message)
	ok := found != nil && !m.c.w.Chance(0.1)
	m.c.w.After(m.c.w.Between(time.Millisecond, 500*time.Millisecond), func() {
		cut := m.c.net.IsCut(m.ID, to.ID) || !to.Up() || to.Paused()
		if ok && !cut {
			to.keep(*found)
			to.Receive(machine.Envelope{From: m.ID, To: to.ID, Body: msg})
		}
		if m.Life() == life {
			m.Step(replica.SnapshotSent{To: out.To, OK: ok && !cut})
		}
	})
}
