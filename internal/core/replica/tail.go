package replica

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// tail is the durable end of the log, in memory: what raft reads to bring
// followers up to date. It reaches back to the newest durable snapshot at
// least, and further as long as it stays within keepBytes, so that a follower
// that was away shortly need not take a whole snapshot.
type tail struct {
	hard *raftpb.HardState
	conf *raftpb.ConfState
	snap *raftpb.SnapshotMetadata // newest durable snapshot

	// entries[0] is a sentinel with the index and term before the first entry.
	entries []*raftpb.Entry
	bytes   int // of all entries
	covered int // of those that the snapshot covers, kept for slow followers

	joined uint64 // index of the last entry that made somebody a member
	missed bool   // a snapshot was asked for that has that entry, and there was none

	keepBytes int
}

func newTail(hard *raftpb.HardState, snap *raftpb.SnapshotMetadata, entries []*raftpb.Entry, keepBytes int) *tail {
	t := &tail{hard: hard, conf: snap.GetConfState(), snap: snap, keepBytes: keepBytes}
	t.reset(snap.GetIndex(), snap.GetTerm())
	t.append(entries)
	return t
}

func (t *tail) reset(index, term uint64) {
	t.entries = []*raftpb.Entry{{Index: &index, Term: &term}}
	t.bytes, t.covered = 0, 0
}

func (t *tail) first() uint64 { return t.entries[0].GetIndex() + 1 }
func (t *tail) last() uint64  { return t.entries[0].GetIndex() + uint64(len(t.entries)) - 1 }

// append adds entries that became durable, over those that they replace.
func (t *tail) append(entries []*raftpb.Entry) {
	for len(entries) > 0 && entries[0].GetIndex() < t.first() {
		entries = entries[1:]
	}
	if len(entries) == 0 {
		return
	}
	keep := entries[0].GetIndex() - t.entries[0].GetIndex()
	for _, e := range t.entries[keep:] {
		t.bytes -= entryBytes(e)
	}
	// Raft may still hold slices of the array, so what is replaced moves to a
	// new one.
	if keep < uint64(len(t.entries)) {
		t.entries = append([]*raftpb.Entry(nil), t.entries[:keep]...)
	}
	t.entries = append(t.entries, entries...)
	for _, e := range entries {
		t.bytes += entryBytes(e)
	}
}

// entryBytes approximates what an entry occupies.
func entryBytes(e *raftpb.Entry) int { return len(e.GetData()) + 96 }

// restored tells that a snapshot of the leader's is durable. The log goes on
// from it: raft has given up all entries, those beyond it as well, which were
// never committed.
func (t *tail) restored(snap *raftpb.SnapshotMetadata) {
	t.snap, t.conf, t.missed = snap, snap.GetConfState(), false
	t.reset(snap.GetIndex(), snap.GetTerm())
}

// snapshotted tells that a snapshot of this member's own state is durable, and
// gives memory back.
func (t *tail) snapshotted(snap *raftpb.SnapshotMetadata) {
	if snap.GetIndex() <= t.snap.GetIndex() || snap.GetIndex() > t.last() {
		return
	}
	t.snap = snap
	t.missed = t.missed && snap.GetIndex() < t.joined
	t.covered = 0
	for _, e := range t.entries[1 : snap.GetIndex()-t.entries[0].GetIndex()+1] {
		t.covered += entryBytes(e)
	}
	cut := 0
	for t.covered > 0 && t.bytes > t.keepBytes {
		cut++
		n := entryBytes(t.entries[cut])
		t.bytes, t.covered = t.bytes-n, t.covered-n
	}
	if cut > 0 {
		rest := append([]*raftpb.Entry(nil), t.entries[cut:]...)
		index, term := rest[0].GetIndex(), rest[0].GetTerm()
		rest[0] = &raftpb.Entry{Index: &index, Term: &term}
		t.entries = rest
	}
}

// sinceSnapshot is the number of bytes after the newest durable snapshot.
func (t *tail) sinceSnapshot() int { return t.bytes - t.covered }

// The rest makes a tail a raft.Storage.

func (t *tail) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return t.hard, t.conf, nil
}

func (t *tail) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	if lo < t.first() {
		return nil, raft.ErrCompacted
	}
	if hi > t.last()+1 {
		return nil, raft.ErrUnavailable
	}
	base := t.entries[0].GetIndex()
	entries := t.entries[lo-base : hi-base]
	size := uint64(0)
	for i, e := range entries {
		size += uint64(len(e.GetData())) + 24
		if size > maxSize && i > 0 {
			entries = entries[:i]
			break
		}
	}
	return entries[:len(entries):len(entries)], nil
}

func (t *tail) Term(i uint64) (uint64, error) {
	base := t.entries[0].GetIndex()
	if i < base {
		return 0, raft.ErrCompacted
	}
	if i > t.last() {
		return 0, raft.ErrUnavailable
	}
	return t.entries[i-base].GetTerm(), nil
}

func (t *tail) LastIndex() (uint64, error)  { return t.last(), nil }
func (t *tail) FirstIndex() (uint64, error) { return t.first(), nil }

func (t *tail) Snapshot() (*raftpb.Snapshot, error) {
	if t.snap.GetIndex() < t.joined { // raft takes none that does not name its receiver
		t.missed = true
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return &raftpb.Snapshot{Metadata: t.snap}, nil
}
