package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// single is the configuration of a cluster of one.
func single(t *testing.T, dir string) Config {
	return Config{
		Name: "a", DataDir: dir, Peers: map[string]string{"a": "http://127.0.0.1:1"},
		Logger: slog.New(slog.DiscardHandler), Fail: func(err error) { t.Errorf("failed: %v", err) },
	}
}

// filled is a data directory with a hundred writes, whose node was stopped.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	n, err := Start(single(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := n.Propose(t.Context(), &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", i), Value: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	n.Stop()
	return dir
}

func TestWrongDataDirectoriesAreRefused(t *testing.T) {
	segment := func(t *testing.T, dir string) string {
		files, err := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
		if err != nil || len(files) != 1 {
			t.Fatalf("segments %v, %v", files, err)
		}
		return files[0]
	}
	flip := func(t *testing.T, file string, at int64) {
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := []byte{0}
		f.ReadAt(b, at)
		f.WriteAt([]byte{b[0] ^ 0x10}, at)
	}
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, dir string, cfg *Config)
		want   []string
	}{
		{"another member", func(_ *testing.T, _ string, cfg *Config) {
			cfg.Name = "b"
			cfg.Peers = map[string]string{"b": "http://127.0.0.1:2"}
		}, []string{"belongs to cluster", "--data-dir"}},
		{"another cluster", func(_ *testing.T, _ string, cfg *Config) {
			cfg.Name, cfg.Peers = "b", map[string]string{"b": "http://127.0.0.1:2"}
			cfg.ClusterToken = "other"
		}, []string{"belongs to cluster", "--initial-cluster"}},
		{"damage in the middle", func(t *testing.T, dir string, _ *Config) {
			flip(t, segment(t, dir), 4000)
		}, []string{".wal", "offset", "do not start it with an empty directory"}},
		{"a newer format", func(t *testing.T, dir string, _ *Config) {
			f, err := os.OpenFile(segment(t, dir), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			f.WriteAt([]byte{99, 0, 0, 0, 0xff - 99, 0xff, 0xff, 0xff}, 8)
		}, []string{".wal", "newer"}},
		{"in use", func(t *testing.T, dir string, cfg *Config) {
			n, err := Start(single(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(n.Stop)
		}, []string{"another process"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filled(t)
			cfg := single(t, dir)
			tt.damage(t, dir, &cfg)
			n, err := Start(cfg)
			if err == nil {
				n.Stop()
				t.Fatal("it started")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// failingFS fails every fsync once broken is set.
type failingFS struct {
	wal.OS
	broken atomic.Bool
}

type failingFile struct {
	wal.File
	fs *failingFS
}

var errDisk = errors.New("input/output error")

func (f *failingFS) OpenFile(path string, flag int, perm fs.FileMode) (wal.File, error) {
	file, err := f.OS.OpenFile(path, flag, perm)
	return &failingFile{file, f}, err
}

func (f *failingFile) Sync() error {
	if f.fs.broken.Load() {
		return errDisk
	}
	return f.File.Sync()
}

func TestFailedSyncEndsTheMemberAndAcknowledgesNothing(t *testing.T) {
	disk := &failingFS{}
	failed := make(chan error, 1)
	cfg := single(t, t.TempDir())
	cfg.WAL.FS = disk
	cfg.Fail = func(err error) { failed <- err }
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	put := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, err := n.Propose(ctx, &pb.PutRequest{Key: []byte("k")})
		return err
	}
	if err := put(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	disk.broken.Store(true)
	if err := put(10 * time.Second); !errors.Is(err, errStopped) {
		t.Errorf("a put that cannot be made durable: %v, want that the member stopped", err)
	}
	select {
	case err := <-failed:
		if !errors.Is(err, errDisk) {
			t.Errorf("the failure is %v, want the disk's", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the member went on")
	}
	// The disk is well again, but what the kernel dropped is gone: no retry.
	disk.broken.Store(false)
	if err := put(10 * time.Second); !errors.Is(err, errStopped) {
		t.Errorf("a put after the failure: %v, want that the member stopped", err)
	}
	if err := n.Ready(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("ready after the failure: %v, want that the member stopped", err)
	}
}

// TestFailures covers failures after which a member must not go on. The owner is informed once, and
// may stop the member in that call.
func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		name   string
		broken func(op, path string) bool
		do     func(n *Node)
		want   string
	}{
		{"no room for a snapshot", func(op, path string) bool {
			return op == "write" && strings.Contains(path, "/snap/")
		}, func(n *Node) { n.applier.put(replica.WantSnapshot{}) }, "save a snapshot"},
		{"no room for the log", func(op, path string) bool {
			return op == "write" && strings.Contains(path, "/wal/")
		}, func(n *Node) {}, "the log cannot be written"},
		{"a snapshot that is not there", func(string, string) bool { return false }, func(n *Node) {
			n.applier.put(replica.Restore{Index: 77, Term: 1})
		}, "snapshot 77"},
		{"a request of a newer version", func(string, string) bool { return false }, func(n *Node) {
			n.driver.Step(replica.Propose{ID: 1 << 60, Body: []byte{99}})
		}, "newer version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var broken atomic.Bool
			disk := waltest.NewDisk().FS()
			disk.Fault = func(op, path string) error {
				if broken.Load() && tt.broken(op, path) {
					return errDisk
				}
				return nil
			}
			failed, started := make(chan error, 10), make(chan *Node, 1)
			cfg := single(t, "/data")
			cfg.WAL = wal.Options{FS: disk, SegmentBytes: 8 << 10}
			cfg.Fail = func(err error) {
				(<-started).Stop()
				failed <- err
			}
			n, err := Start(cfg)
			if err != nil {
				t.Fatal(err)
			}
			started <- n
			if err := n.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			broken.Store(true)
			tt.do(n)
			for err == nil { // until it ends
				_, err = n.Propose(t.Context(), &pb.PutRequest{Key: []byte("k")})
			}
			if !errors.Is(err, errStopped) {
				t.Errorf("a put at the end: %v", err)
			}
			select {
			case err := <-failed:
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("failed with %v, want %q", err, tt.want)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("the owner was not told, or could not stop it")
			}
			n.fail(errDisk) // on top of that; a second call of Fail would never end
			n.Stop()
			if len(failed) > 0 {
				t.Errorf("the owner was told again: %v", <-failed)
			}
		})
	}
}
