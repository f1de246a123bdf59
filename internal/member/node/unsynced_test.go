package node

import (
	"io/fs"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/host/wal"
)

// syncs counts the syncs of a file system.
type syncs struct {
	wal.FS
	n *atomic.Int64
}

func (s syncs) OpenFile(path string, flag int, perm fs.FileMode) (wal.File, error) {
	f, err := s.FS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return syncedFile{f, s.n}, nil
}

func (s syncs) SyncDir(dir string) error {
	s.n.Add(1)
	return s.FS.SyncDir(dir)
}

type syncedFile struct {
	wal.File
	n *atomic.Int64
}

func (f syncedFile) Sync() error {
	f.n.Add(1)
	return f.File.Sync()
}

// A member syncs its disk before it acknowledges a write, unless it is told not to.
func TestMembersSyncUnlessToldNotTo(t *testing.T) {
	for _, unsafe := range []bool{false, true} {
		var n atomic.Int64
		cfg := single(t, t.TempDir())
		cfg.UnsafeNoSync, cfg.WAL.FS = unsafe, syncs{wal.OS{}, &n}
		m, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Propose(t.Context(), &pb.PutRequest{Key: []byte("k")}); err != nil {
			t.Fatal(err)
		}
		if got := n.Load(); got == 0 != unsafe {
			t.Errorf("%d syncs for a write, and the member is told not to sync: %v", got, unsafe)
		}
		if m.Unsynced() != unsafe {
			t.Errorf("it says of itself that it does not sync: %v, want %v", m.Unsynced(), unsafe)
		}
		m.Stop()
	}
}
