package node

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/wire"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// replay adds one record of the log to what is known.
func (s *storage) replay(l *replica.Log, r wal.Record) error {
	switch r.Kind {
	case recordEntries:
		last := uint64(0)
		for in := (wire.Reader{Rest: r.Payload}); len(in.Rest) > 0; {
			p := in.Bytes()
			if in.Bad {
				return errors.New("a record of entries has a bad length")
			}
			e := new(raftpb.Entry)
			if err := proto.Unmarshal(p, e); err != nil {
				return err
			}
			if len(l.Entries) > 0 {
				// A later record replaces what an earlier one wrote there.
				first := l.Entries[0].GetIndex()
				switch {
				case e.GetIndex() < first:
					l.Entries = nil
				case e.GetIndex() > first+uint64(len(l.Entries)):
					return fmt.Errorf("record %d: entry %d follows entry %d, so that some are missing: this is a bug; keep a copy of the directory and replace the member; do not empty it, for the member would have forgotten its votes",
						r.Seq, e.GetIndex(), first+uint64(len(l.Entries))-1)
				default:
					l.Entries = l.Entries[:e.GetIndex()-first]
				}
			}
			l.Entries = append(l.Entries, e)
			last = e.GetIndex()
		}
		s.reach = append(s.reach, reach{seq: r.Seq, index: last})
	case recordHardState:
		l.HardState = new(raftpb.HardState)
		return proto.Unmarshal(r.Payload, l.HardState)
	case recordSnapshot:
		l.Snapshot = new(raftpb.SnapshotMetadata)
		if err := proto.Unmarshal(r.Payload, l.Snapshot); err != nil {
			return err
		}
		l.Entries = after(l.Entries, l.Snapshot)
	case recordLife:
		return json.Unmarshal(r.Payload, &s.life)
	case recordReleased:
		in := wire.Reader{Rest: r.Payload}
		released := in.Uvarint()
		if in.Bad {
			return errors.New("the record of the released index is not a number")
		}
		s.released, l.Released = released, released
	default:
		return fmt.Errorf("record of unknown kind %d: a newer version wrote it; start that version", r.Kind)
	}
	return nil
}

// after returns the entries that go on from a snapshot: those behind it, if the
// log agrees with it at its index, and none otherwise.
func after(entries []*raftpb.Entry, snap *raftpb.SnapshotMetadata) []*raftpb.Entry {
	if len(entries) == 0 {
		return nil
	}
	first := entries[0].GetIndex()
	switch at := snap.GetIndex(); {
	case at+1 == first:
		return entries
	case at < first || at >= first+uint64(len(entries)):
		return nil
	case entries[at-first].GetTerm() != snap.GetTerm():
		return nil
	default:
		return entries[at-first+1:]
	}
}

// recover puts together log and newest snapshot file.
func (s *storage) recover(dir string, id identity, l *replica.Log) error {
	if note := s.log.Repair(); note != nil {
		s.logger.Warn("cut off a write at the end of the log that was not finished; nothing in it was acknowledged, unless the disk lost confirmed writes", "repair", note.String())
	}
	var found identity
	if err := json.Unmarshal(s.log.Meta(), &found); err != nil {
		return fmt.Errorf("%s: the log's metadata is not a member's identity: %w", dir, err)
	}
	s.identity = found
	if s.log.FirstSeq() > 1 && l.HardState == nil {
		// Before a segment is released it is written anew.
		return fmt.Errorf("%s: the log begins with record %d and does not say how the member voted: segments were deleted by hand? Put them back, or replace the member; do not empty the directory, for the member would have forgotten its votes", dir, s.log.FirstSeq())
	}
	genesis := replica.Genesis(nodeIDs(found.Voters))
	marked := l.Snapshot // what the log says it goes on from
	if marked == nil {
		marked = genesis.Snapshot
	}
	snap, err := s.newestSnapshot(l.Entries, genesis.Snapshot)
	if err != nil {
		return err
	}
	if first := firstIndex(l.Entries, max(marked.GetIndex(), snap.GetIndex())+1); first > snap.GetIndex()+1 {
		return fmt.Errorf("%s: the log goes on from a snapshot at %d that is not there: its file was deleted by hand? Put the file back, or replace the member; do not empty the directory, for the member would have forgotten its votes", dir, first-1)
	}
	joined := joins(l.Entries, marked, snap)
	l.Entries = after(l.Entries, snap)
	l.Snapshot = snap
	if l.HardState == nil {
		l.HardState = genesis.HardState
	}
	// A crash may leave this and not the hard state that goes with it.
	l.Released = min(l.Released, max(l.HardState.GetCommit(), snap.GetIndex()))
	// A snapshot may have become durable just before the state that follows from it: its
	// content was committed.
	if l.HardState.GetCommit() < snap.GetIndex() {
		commit := snap.GetIndex()
		l.HardState.Commit = &commit
	}
	if l.HardState.GetTerm() < snap.GetTerm() {
		l.HardState = &raftpb.HardState{Term: snap.Term, Commit: l.HardState.Commit}
	}
	if last := snap.GetIndex() + uint64(len(l.Entries)); l.HardState.GetCommit() > last {
		return fmt.Errorf("%s: entries up to %d were committed but the log ends at %d: it was damaged, or an older copy put in its place. Replace the member; do not empty the directory, for the member would have forgotten its votes", dir, l.HardState.GetCommit(), last)
	}
	s.hard, s.newest = l.HardState, snap.GetIndex()
	if joined {
		return nil
	}
	// The snapshot is one of the leader's, and this member died before it had written that
	// its log goes on from there. Later records would not fit the present log.
	return s.persist([]any{replica.Record{Snapshot: &raftpb.Snapshot{Metadata: snap}, HardState: l.HardState}}, true)
}

// newestSnapshot finds the newest snapshot that is whole. If it is not the very
// newest, the log has to reach back to it.
func (s *storage) newestSnapshot(entries []*raftpb.Entry, genesis *raftpb.SnapshotMetadata) (*raftpb.SnapshotMetadata, error) {
	info, skipped, err := s.log.Snapshots().Newest(func(info wal.SnapshotInfo) bool {
		return info.Index+1 >= firstIndex(entries, info.Index+1)
	})
	if errors.Is(err, wal.ErrCorrupt) && firstIndex(entries, 0) == genesis.GetIndex()+1 {
		skipped, err = []error{err}, wal.ErrNoSnapshot // all is in the log
	}
	for _, err := range skipped {
		s.logger.Error("a snapshot is damaged and set aside, as *.damaged; going on from the one before it", "err", err)
	}
	switch {
	case errors.Is(err, wal.ErrNoSnapshot):
		return genesis, nil
	case err != nil:
		return nil, err
	}
	return metadataOf(info)
}

// joins reports whether a log, as it was read, goes on from or through a snapshot.
func joins(entries []*raftpb.Entry, marked, snap *raftpb.SnapshotMetadata) bool {
	if len(entries) == 0 {
		return marked.GetIndex() == snap.GetIndex()
	}
	first, at := entries[0].GetIndex(), snap.GetIndex()
	return at+1 == first || at >= first && at < first+uint64(len(entries)) && entries[at-first].GetTerm() == snap.GetTerm()
}

func firstIndex(entries []*raftpb.Entry, otherwise uint64) uint64 {
	if len(entries) == 0 {
		return otherwise
	}
	return entries[0].GetIndex()
}

func metadataOf(info wal.SnapshotInfo) (*raftpb.SnapshotMetadata, error) {
	var meta snapshotMeta
	if err := json.Unmarshal(info.Meta, &meta); err != nil {
		return nil, fmt.Errorf("snapshot %d: its metadata does not list the members: %w", info.Index, err)
	}
	return &raftpb.SnapshotMetadata{
		Index: &info.Index, Term: &info.Term,
		ConfState: &raftpb.ConfState{Voters: meta.Voters, Learners: meta.Learners},
	}, nil
}
