package node

import (
	crand "crypto/rand"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
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
	// Witnesses are the voters of the time when this member asked for its identity: see admission.
	Witnesses []uint64 `json:"witnesses,omitempty"`
	// Anew is the cluster of which this directory was before it began anew, by force.
	Anew uint64 `json:"began_anew_from_cluster,omitempty"`
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
	// Founding says that nothing may have been done from this directory: it was new, and
	// the others had not yet confirmed that it is the member's first.
	Founding bool `json:"founding,omitempty"`
}

// storage keeps a member's raft state in a wal.Log and its snapshot files.
type storage struct {
	log      *wal.Log
	identity identity
	logger   *slog.Logger

	// As they were last written:
	hard     *raftpb.HardState
	life     life
	founding bool // the life's, but for what was confirmed since
	released uint64

	arrivals arrivals
	synced   func(took time.Duration) // if set, is told of each forced write

	encoded []byte // entries, until the log has copied them; used again

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
	found, err := opts.Exists(dir)
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
// how long a promise of those may last. admitted says that the others have confirmed the
// directory.
func (s *storage) begin(ttl time.Duration, admitted bool) (boot uint64, earlier time.Duration, err error) {
	earlier = s.life.PromiseTTL
	s.founding = (s.life.Founding || s.life.Starts == 0) && len(s.identity.witnesses()) > 0 && !admitted
	s.life = life{Starts: s.life.Starts + 1, PromiseTTL: max(earlier, ttl), Founding: s.founding}
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

// persist is the driver's Persist: two goroutines take turns at calling it, one at a time.
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
		if err := s.arrivals.keep(rec.Snapshot.GetMetadata().GetIndex(), rec.Snapshot.GetMetadata().GetTerm()); err != nil {
			return err
		}
		if err := s.append(recordSnapshot, rec.Snapshot.GetMetadata()); err != nil {
			return err
		}
	}
	if len(rec.Entries) > 0 {
		p, err := appendEntries(s.encoded[:0], rec.Entries)
		if err != nil {
			return err
		}
		s.encoded = p
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
	var w wire.Writer
	w.Uvarint(s.released)
	_, err := s.log.Append(wal.Record{Kind: recordReleased, Payload: w})
	return err
}

// appendEntries writes each entry behind its length.
func appendEntries(w wire.Writer, entries []*raftpb.Entry) (_ wire.Writer, err error) {
	for _, e := range entries {
		w.Count(proto.Size(e))
		if w, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(w, e); err != nil {
			return nil, err
		}
	}
	return w, nil
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
	begin := time.Now()
	err := s.log.Sync()
	if s.synced != nil {
		s.synced(time.Since(begin))
	}
	if err != nil || upTo == 0 {
		return err
	}
	return s.log.ReleaseTo(upTo)
}
