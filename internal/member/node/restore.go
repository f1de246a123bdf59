package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
	"go.etcd.io/raft/v3/raftpb"
)

// Restoration is a data directory that begins with a state, as one of a cluster that begins with it. Each member
// gets its own, from the same state.
type Restoration struct {
	DataDir      string            // made; it must not exist, or be empty
	LogDir       string            // of the log, if it is to be elsewhere; it must not exist, or be empty
	Name         string            // of the member
	Peers        map[string]string // peer URLs by name, as in Config
	ClusterToken string
	State        *kv.Store
	Users        *auth.State // nil: there never were any
	// Digest tells the state from others. It becomes part of the identities, so that members that begin with
	// another state, or with none, are of another cluster.
	Digest string
	Logger *slog.Logger
	FS     wal.FS // nil: the host's
}

// ErrNotEmpty: there is something where a directory is to be made.
var ErrNotEmpty = errors.New("is not empty")

// Restore makes the data directory, whole or not at all, and returns the cluster's ID.
func Restore(r Restoration) (cluster uint64, err error) {
	if r.FS == nil {
		r.FS = wal.OS{}
	}
	for _, dir := range []string{r.DataDir, r.LogDir} {
		switch left, err := os.ReadDir(dir); {
		case dir == "" || errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return 0, err
		case len(left) > 0:
			return 0, fmt.Errorf("%s %w: name another directory, or move what is in it away", dir, ErrNotEmpty)
		}
	}
	if r.Peers[r.Name] == "" {
		return 0, fmt.Errorf("member %q is not among those of the cluster: name it with its peer URL", r.Name)
	}
	token := r.ClusterToken + "\x00restored " + r.Digest
	members, err := roster(r.Peers, token)
	if err != nil {
		return 0, err
	}
	id := described(members, memberID(r.Peers[r.Name], token, ""), token)
	dir := filepath.Clean(r.DataDir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return 0, err
	}
	// A directory that is half made would begin an empty cluster.
	work, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".restoring-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	// A log elsewhere is there before the data directory. A crash in between leaves one that is of no directory,
	// with which no member starts.
	if r.LogDir != "" {
		if r.LogDir, err = filepath.Abs(r.LogDir); err != nil {
			return 0, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, removeAll(r.FS, r.LogDir))
			}
		}()
	}
	if err := begin(work, id, replica.FoundingSnapshot(replica.FoundedBy(members), r.State, r.Users), wal.Options{FS: r.FS, LogDir: r.LogDir}, r.Logger); err != nil {
		return 0, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err := r.FS.Rename(work, dir); err != nil {
		return 0, err
	}
	return id.Cluster, r.FS.SyncDir(filepath.Dir(dir))
}

// begin writes a log that goes on from a snapshot, and the snapshot.
func begin(dir string, id identity, snap replica.Snapshot, opts wal.Options, logger *slog.Logger) (err error) {
	s, _, err := openStorage(dir, id, opts, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.log.Close()) }()
	conf := snap.ConfState()
	err = s.saveSnapshot(snap.Index, snap.Term, conf, func(w io.Writer) error {
		_, err := snap.WriteTo(w)
		return err
	})
	if err != nil {
		return err
	}
	meta := &raftpb.SnapshotMetadata{Index: &snap.Index, Term: &snap.Term, ConfState: conf}
	hard := &raftpb.HardState{Term: &snap.Term, Commit: &snap.Index}
	return s.persist([]any{replica.Record{Snapshot: &raftpb.Snapshot{Metadata: meta}, HardState: hard, Released: snap.Index}}, true)
}
