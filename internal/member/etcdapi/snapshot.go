package etcdapi

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/member/backup"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// snapshotPart is how much of a snapshot is sent in one message, as by etcd.
const snapshotPart = 32 << 10

// Snapshot sends the state of this member as a file of etcd's format, and then the file's SHA-256. It asks
// no other member, so it can be had when a majority is lost.
func (s *maintenanceServer) Snapshot(r *pb.SnapshotRequest, out pb.Maintenance_SnapshotServer) error {
	if err := s.backups.Acquire(out.Context(), 1); err != nil {
		return toStatus(err)
	}
	defer s.backups.Release(1)
	if err := s.permit(s.asNow(out.Context()), r); err != nil { // it may have waited
		return toStatus(err)
	}
	sends := newSends(out, s.config.SnapshotPatience)
	defer sends.end()
	file, revision, err := s.snapshotFile(out)
	if err != nil {
		s.config.Logger.Warn("a snapshot failed", "error", err)
		return toStatus(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return toStatus(err)
	}
	sum := sha256.New()
	header := s.headerAt(revision)
	for rest := info.Size(); rest > 0; {
		part := make([]byte, min(rest, snapshotPart))
		if _, err := io.ReadFull(file, part); err != nil {
			return toStatus(err)
		}
		rest -= int64(len(part))
		sum.Write(part)
		if err := sends.send(&pb.SnapshotResponse{Header: header, RemainingBytes: uint64(rest), Blob: part, Version: storageVersion}); err != nil {
			s.config.Logger.Warn("a snapshot was not sent to its end", "missing", rest, "error", err)
			return err
		}
	}
	s.config.Logger.Info("sent a snapshot to a client", "bytes", info.Size(), "revision", revision)
	return sends.send(&pb.SnapshotResponse{Header: header, Blob: sum.Sum(nil), Version: storageVersion})
}

// snapshotFile puts a snapshot together, in a file that has no name any more.
func (s *maintenanceServer) snapshotFile(out pb.Maintenance_SnapshotServer) (_ *os.File, revision int64, err error) {
	dir, err := os.MkdirTemp(s.config.BackupDir, BackupPrefix)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "snapshot.db")
	for {
		state, release, err := s.backend.Hold(out.Context())
		if err != nil {
			return nil, 0, err
		}
		err = backup.Write(path, state)
		release()
		switch {
		case err == nil:
			file, err := os.Open(path)
			return file, state.View.Revision(), err
		case !errors.Is(err, kv.ErrStaleView):
			return nil, 0, err
		}
		if err := os.Remove(path); err != nil {
			return nil, 0, err
		}
	}
}

// BackupPrefix begins the names of directories in Config.BackupDir. Those of an earlier life of the member are
// of no use.
const BackupPrefix = "backup-"
