package backup

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// State is what a backup has.
type State struct {
	View        kv.View // held until Write returns, see kv.Store.Hold
	Index, Term uint64  // of the last entry that it includes
	Members     []*pb.Member
	Removed     []uint64 // IDs of former members
	Users       *auth.State
}

// batchBytes and batchKeys bound one transaction of the file.
const (
	batchBytes = 8 << 20
	batchKeys  = 10_000
)

// Write makes a file of a state, which must not exist. The file is not synced: it is sent on, or synced by the
// caller. It returns kv.ErrStaleView if history of the view was reclaimed meanwhile.
func Write(path string, s State) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("backup: %s: %w", path, os.ErrExist)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	w := writer{db: db}
	w.err = w.begin()
	for _, b := range buckets {
		w.create(b)
	}
	w.keys(s.View)
	for l := range s.View.Leases() {
		w.put(leaseBucket, leaseKey(l.ID), encodeLease(l))
	}
	w.members(s)
	w.users(s.Users)
	if w.err == nil {
		w.err = w.tx.Commit()
	} else if w.tx != nil {
		_ = w.tx.Rollback()
	}
	if err := db.Close(); w.err == nil {
		w.err = err
	}
	if w.err == nil && s.View.Stale() {
		w.err = kv.ErrStaleView
	}
	if w.err != nil {
		return fmt.Errorf("backup: %w", w.err)
	}
	return nil
}

// writer fills a file, in transactions that are not too large. It keeps the first error and does nothing
// after it.
type writer struct {
	db    *bbolt.DB
	tx    *bbolt.Tx
	bytes int
	puts  int
	err   error
}

func (w *writer) begin() (err error) {
	w.tx, err = w.db.Begin(true)
	return err
}

func (w *writer) create(bucket []byte) {
	if w.err == nil {
		_, w.err = w.tx.CreateBucketIfNotExists(bucket)
	}
}

func (w *writer) put(bucket, key, value []byte) {
	if w.err != nil {
		return
	}
	b := w.tx.Bucket(bucket)
	b.FillPercent = 0.9 // keys come in order
	if w.err = b.Put(key, value); w.err != nil {
		return
	}
	w.bytes, w.puts = w.bytes+len(key)+len(value), w.puts+1
	if w.bytes < batchBytes && w.puts < batchKeys {
		return
	}
	w.bytes, w.puts = 0, 0
	if w.err = w.tx.Commit(); w.err == nil {
		w.err = w.begin()
	}
}

// keys writes each version under its revision.
func (w *writer) keys(v kv.View) {
	base := slices.SortedStableFunc(v.Base(), func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) })
	var at revision
	version := func(kv *mvccpb.KeyValue) {
		if kv.ModRevision != at.main {
			at = revision{main: kv.ModRevision}
		} else {
			at.sub++
		}
		at.deletion = kv.Version == 0
		if at.deletion {
			kv = &mvccpb.KeyValue{Key: kv.Key}
		}
		value, err := proto.Marshal(kv)
		if w.err == nil {
			w.err = err
		}
		w.put(keyBucket, at.encode(), value)
	}
	for _, kv := range base {
		version(kv)
	}
	compact := v.CompactRevision()
	events, err := v.Events(compact)
	if err != nil {
		w.err = err
		return
	}
	if v.Raised() {
		w.put(keyBucket, revision{main: compact}.encode(), nil)
	}
	for e := range events {
		if version(e.KV); w.err != nil {
			return
		}
	}
	if compact > 0 {
		b := revision{main: compact}.encode()
		w.put(metaBucket, scheduledCompact, b)
		w.put(metaBucket, finishedCompact, b)
	}
}

// members writes what etcd keeps of the cluster.
func (w *writer) members(s State) {
	conf := &raftpb.ConfState{}
	for _, m := range s.Members {
		if m.IsLearner {
			conf.Learners = append(conf.Learners, m.ID)
		} else {
			conf.Voters = append(conf.Voters, m.ID)
		}
		w.putJSON(memberBucket, memberName(m.ID), struct {
			ID         uint64   `json:"id"`
			PeerURLs   []string `json:"peerURLs"`
			IsLearner  bool     `json:"isLearner,omitempty"`
			Name       string   `json:"name,omitempty"`
			ClientURLs []string `json:"clientURLs,omitempty"`
		}{m.ID, m.PeerURLs, m.IsLearner, m.Name, m.ClientURLs})
	}
	for _, id := range s.Removed {
		w.put(removedBucket, memberName(id), []byte("removed"))
	}
	w.putJSON(metaBucket, confStateName, conf)
	w.put(metaBucket, consistentIndex, binary.BigEndian.AppendUint64(nil, s.Index))
	w.put(metaBucket, termName, binary.BigEndian.AppendUint64(nil, s.Term))
	w.put(metaBucket, storageVersion, []byte(etcdVersion))
	w.put(clusterBucket, clusterVersion, []byte(etcdVersion))
}

func memberName(id uint64) []byte { return fmt.Appendf(nil, "%x", id) }

func (w *writer) putJSON(bucket, key []byte, value any) {
	b, err := json.Marshal(value)
	if w.err == nil {
		w.err = err
	}
	w.put(bucket, key, b)
}
