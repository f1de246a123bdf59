package node

import (
	crand "crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/replica"
	"github.com/tenure-lease/tenure/wal"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Kinds of records in the write-ahead log. The numbers are on disk.
const (
	recordEntries   = 1 // a sequence of length-prefixed raftpb.Entry
	recordHardState = 2 // raftpb.HardState
	recordSnapshot  = 3 // raftpb.SnapshotMetadata: the log goes on from there
	recordLife      = 4 // life, in JSON
	recordReleased  = 5 // a uvarint: up to where the log is released
)

// identity says whose data directory it is. It is the log's metadata, in JSON,
// so that a person can read it.
type identity struct {
	Cluster uint64   `json:"cluster_id"`
	Member  uint64   `json:"member_id"`
	Voters  []uint64 `json:"initial_voters"`
	// Founders are those voters, with their URLs; Joined says that this member is none
	// of them, so that its flags do not tell whose it is.
	Founders []founder `json:"founders,omitempty"`
	Joined   bool      `json:"joined,omitempty"`
}

// founder is one of a cluster's first members.
type founder struct {
	ID  uint64 `json:"id"`
	URL string `json:"peer_url"`
}

// snapshotMeta is a snapshot file's metadata.
type snapshotMeta struct {
	Voters   []uint64 `json:"voters"`
	Learners []uint64 `json:"learners,omitempty"`
}

// life is written each time a member starts, before it says anything.
type life struct {
	Starts uint64 `json:"starts"`
	// PromiseTTL is the longest promise to a reader, in nanoseconds, that any life
	// until now may have made.
	PromiseTTL time.Duration `json:"promise_ttl_ns"`
}

// storage keeps a member's raft state in a wal.Log and its snapshot files.
type storage struct {
	log      *wal.Log
	identity identity
	logger   *slog.Logger

	// As they were last written:
	hard     *raftpb.HardState
	life     life
	released uint64

	mu sync.Mutex
	// reach remembers, for each record of entries, the highest index in it.
	reach    []reach
	newest   uint64 // index of the newest snapshot in use
	keepFrom uint64 // index of the one before it: entries up to there can be released
}

type reach struct{ seq, index uint64 }

// openStorage opens or creates the data directory, and returns the log that it
// holds from the newest snapshot on.
func openStorage(dir string, id identity, opts wal.Options, logger *slog.Logger) (*storage, replica.Log, error) {
	s := &storage{logger: logger, identity: id}
	found, err := wal.Exists(dir, opts.FS)
	if err != nil {
		return nil, replica.Log{}, err
	}
	if !found {
		meta, err := json.Marshal(id)
		if err != nil {
			return nil, replica.Log{}, err
		}
		if s.log, err = wal.Create(dir, meta, opts); err != nil {
			return nil, replica.Log{}, err
		}
		genesis := replica.Genesis(nodeIDs(id.Voters))
		err = s.persist([]any{replica.Record{HardState: genesis.HardState}}, true)
		if err != nil {
			s.log.Close()
		}
		return s, genesis, err
	}
	var l replica.Log
	if s.log, err = wal.Open(dir, opts, func(r wal.Record) error { return s.replay(&l, r) }); err != nil {
		return nil, l, err
	}
	if err := s.recover(dir, id, &l); err != nil {
		s.log.Close()
		return nil, l, err
	}
	return s, l, nil
}

// begin makes durable that the member starts once more and may promise for up to ttl.
// It returns what tells this life from all others, greater than in any before, and
// how long a promise of those may last.
func (s *storage) begin(ttl time.Duration) (boot uint64, earlier time.Duration, err error) {
	earlier = s.life.PromiseTTL
	s.life = life{Starts: s.life.Starts + 1, PromiseTTL: max(earlier, ttl)}
	if err := s.appendLife(); err != nil {
		return 0, 0, err
	}
	if err := s.log.Sync(); err != nil {
		return 0, 0, err
	}
	var p [4]byte
	crand.Read(p[:]) // never fails; a directory may have been copied
	return s.life.Starts<<32 | uint64(binary.BigEndian.Uint32(p[:])), earlier, nil
}

func (s *storage) appendLife() error {
	p, err := json.Marshal(s.life)
	if err != nil {
		return err
	}
	_, err = s.log.Append(wal.Record{Kind: recordLife, Payload: p})
	return err
}

func nodeIDs(ids []uint64) []machine.NodeID {
	out := make([]machine.NodeID, len(ids))
	for i, id := range ids {
		out[i] = machine.NodeID(id)
	}
	return out
}

// replay adds one record of the log to what is known.
func (s *storage) replay(l *replica.Log, r wal.Record) error {
	switch r.Kind {
	case recordEntries:
		last := uint64(0)
		for p := r.Payload; len(p) > 0; {
			n, w := binary.Uvarint(p)
			if w <= 0 || n > uint64(len(p)-w) {
				return errors.New("a record of entries has a bad length")
			}
			e := new(raftpb.Entry)
			if err := proto.Unmarshal(p[w:w+int(n)], e); err != nil {
				return err
			}
			p = p[w+int(n):]
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
		released, n := binary.Uvarint(r.Payload)
		if n <= 0 {
			return errors.New("a record of what is released is no number")
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
		s.logger.Warn("cut off an unfinished write at the end of the log; nothing in it was acknowledged", "repair", note.String())
	}
	var found identity
	if err := json.Unmarshal(s.log.Meta(), &found); err != nil {
		return fmt.Errorf("%s: the log's metadata is not a member's identity: %w", dir, err)
	}
	s.identity = found
	if found.Joined || id.Cluster == 0 { // the flags do not describe it
		id.Cluster, id.Member = found.Cluster, found.Member
	}
	if found.Cluster != id.Cluster {
		return fmt.Errorf("%s belongs to cluster %x, but the flags describe cluster %x: use that cluster's --initial-cluster and --initial-cluster-token, or another --data-dir", dir, found.Cluster, id.Cluster)
	}
	if found.Member != id.Member {
		return fmt.Errorf("%s belongs to member %x, but the flags describe member %x: give every member a --data-dir of its own", dir, found.Member, id.Member)
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
	// A snapshot may have become durable just before the state that follows
	// from it: what it holds was committed.
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
	// The snapshot is one of the leader's, and this member died before it had
	// written that its log goes on from there. What follows would not fit to
	// what the log holds now.
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
		s.logger.Error("a snapshot is damaged and set aside, as *.damaged; going on from what was before it", "err", err)
	}
	switch {
	case errors.Is(err, wal.ErrNoSnapshot):
		return genesis, nil
	case err != nil:
		return nil, err
	}
	return metadataOf(info)
}

// joins tells whether a log, as it was read, goes on from or through a snapshot.
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

// persist is the driver's Persist: it is called by one goroutine.
func (s *storage) persist(records []any, force bool) error {
	for _, rec := range records {
		if err := s.write(rec.(replica.Record)); err != nil {
			return err
		}
	}
	if !force {
		return s.log.Flush()
	}
	return s.sync()
}

func (s *storage) write(rec replica.Record) error {
	if rec.Snapshot != nil {
		if err := s.append(recordSnapshot, rec.Snapshot.GetMetadata()); err != nil {
			return err
		}
	}
	if len(rec.Entries) > 0 {
		var p []byte
		for _, e := range rec.Entries {
			p = binary.AppendUvarint(p, uint64(proto.Size(e)))
			var err error
			if p, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(p, e); err != nil {
				return err
			}
		}
		seq, err := s.log.Append(wal.Record{Kind: recordEntries, Payload: p})
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.reach = append(s.reach, reach{seq: seq, index: rec.Entries[len(rec.Entries)-1].GetIndex()})
		s.mu.Unlock()
	}
	if rec.HardState != nil {
		s.hard = rec.HardState
		if err := s.append(recordHardState, rec.HardState); err != nil {
			return err
		}
	}
	if rec.Released > 0 {
		s.released = rec.Released
		return s.appendReleased()
	}
	return nil
}

func (s *storage) appendReleased() error {
	_, err := s.log.Append(wal.Record{Kind: recordReleased, Payload: binary.AppendUvarint(nil, s.released)})
	return err
}

func (s *storage) append(kind byte, m proto.Message) error {
	p, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	_, err = s.log.Append(wal.Record{Kind: kind, Payload: p})
	return err
}

// saveSnapshot makes a snapshot file; body writes the state.
func (s *storage) saveSnapshot(index, term uint64, conf *raftpb.ConfState, body func(io.Writer) error) error {
	meta, err := json.Marshal(snapshotMeta{Voters: conf.GetVoters(), Learners: conf.GetLearners()})
	if err != nil {
		return err
	}
	return s.log.Snapshots().Save(wal.SnapshotInfo{Index: index, Term: term, Meta: meta}, body)
}

// advance notes that a snapshot is durable and its state in use. Log and
// snapshots are kept back to the one before it, a reserve should it be damaged.
// Snapshots that came later and wait for the applier stay too.
//
// The log is released with the next forced write, which states the hard state and
// the life anew: the records that held them may be among the released.
func (s *storage) advance(index uint64) error {
	s.mu.Lock()
	if index > s.newest { // else one of the leader's was faster
		s.keepFrom, s.newest = s.newest, index
	}
	newest := s.newest
	s.mu.Unlock()
	there, err := s.log.Snapshots().List()
	if err != nil {
		return err
	}
	keep := 2
	for _, index := range there {
		if index > newest {
			keep++
		}
	}
	return s.log.Snapshots().Prune(keep)
}

// sync makes everything written durable, and releases what is allowed.
func (s *storage) sync() error {
	s.mu.Lock()
	n := slices.IndexFunc(s.reach, func(r reach) bool { return r.index > s.keepFrom })
	var upTo uint64
	if n > 0 {
		upTo = s.reach[n].seq
		s.reach = slices.Clone(s.reach[n:])
	}
	s.mu.Unlock()
	if upTo > 0 {
		if err := s.append(recordHardState, s.hard); err != nil {
			return err
		}
		if err := s.appendLife(); err != nil {
			return err
		}
		if err := s.appendReleased(); err != nil {
			return err
		}
	}
	if err := s.log.Sync(); err != nil || upTo == 0 {
		return err
	}
	return s.log.ReleaseTo(upTo)
}
