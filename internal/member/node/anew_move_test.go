package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// dying is a file system that dies after some changes of names.
type dying struct {
	wal.FS
	left *int
}

var errDead = errors.New("the machine has died")

func (d dying) change(f func() error) error {
	if *d.left == 0 {
		return errDead
	}
	*d.left--
	return f()
}

func (d dying) Rename(from, to string) error {
	return d.change(func() error { return d.FS.Rename(from, to) })
}
func (d dying) Remove(path string) error { return d.change(func() error { return d.FS.Remove(path) }) }
func (d dying) MkdirAll(dir string) error {
	return d.change(func() error { return d.FS.MkdirAll(dir) })
}

// formerMember makes a member's directory with a snapshot and a memory of others, and its log there or elsewhere.
func formerMember(t *testing.T, elsewhere bool) (string, wal.Options, identity) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	opts := wal.Options{FS: wal.Unsynced{FS: wal.OS{}}, SegmentBytes: 1 << 16}
	if elsewhere {
		opts.LogDir = t.TempDir()
	}
	id := identity{Cluster: 1, Member: 2, Voters: []uint64{2, 3}}
	members := []*pb.Member{{ID: 2, PeerURLs: []string{"http://a:1"}}, {ID: 3, PeerURLs: []string{"http://b:1"}}}
	if err := begin(dir, id, replica.FoundingSnapshot(replica.FoundedBy(members), saved(t, 2), nil), opts, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, directoriesFile), []byte("former"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, opts, id
}

// The exchange of a directory's data for that of another cluster may be cut off anywhere: the directory is the former
// member's until the new data is whole, and the new one's from then on. The former data stays, aside.
func TestTheExchangeIsCutOff(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		ended := false
		for changes := 0; !ended; changes++ {
			dir, opts, _ := formerMember(t, elsewhere)
			err := exchange(dir, opts, changes)
			if ended = err == nil; !ended && !errors.Is(err, errDead) {
				t.Fatal(err)
			}
			name := fmt.Sprintf("elsewhere %t, dead after %d changes", elsewhere, changes)
			_, err = os.Stat(filepath.Join(dir, anewMade))
			_, err2 := os.Stat(filepath.Join(dir, anewMoving))
			begun := ended || err == nil || err2 == nil
			if err := finishAnew(dir, opts); err != nil {
				t.Errorf("%s: the exchange does not go on: %v", name, err)
			}
			s, log, err := openStorage(dir, identity{}, opts, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			_, former := os.Stat(filepath.Join(dir, "former-1", "snap"))
			_, memory := os.Stat(filepath.Join(dir, directoriesFile))
			away := s.identity.Cluster == 1
			switch {
			case log.Snapshot.GetIndex() != map[bool]uint64{true: 2, false: 5}[away]:
				t.Errorf("%s: cluster %d goes on from index %d", name, s.identity.Cluster, log.Snapshot.GetIndex())
			case away && (ended || begun || memory != nil):
				t.Errorf("%s: the directory is the former member's, begun %t, memory of others %v", name, begun, memory)
			case !away && (former != nil || !errors.Is(memory, fs.ErrNotExist)):
				t.Errorf("%s: of the former member its data is kept: %v, and its memory of others stays: %v", name, former, memory)
			}
			if err := s.log.Close(); err != nil {
				t.Error(err)
			}
			if elsewhere && !away {
				if _, err := os.Stat(filepath.Join(opts.LogDir, "former-1")); err != nil {
					t.Errorf("%s: the former log is not kept: %v", name, err)
				}
			}
		}
	}
}

// exchange makes the data of another cluster, and exchanges it, on a disk that dies after some changes of names.
func exchange(dir string, opts wal.Options, changes int) error {
	opts.FS = dying{FS: opts.FS, left: &changes}
	members := []*pb.Member{{ID: 4, PeerURLs: []string{"http://a:1"}}}
	former := replica.NewApplier(2, 0)
	snap := former.Anew(replica.FoundedBy(members), former.Store())
	snap.Index = 5
	id := identity{Cluster: 6, Member: 4, Voters: []uint64{4}, Anew: 1}
	if err := makeAnew(dir, id, snap, opts, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if err := commitAnew(dir, opts); err != nil {
		return err
	}
	return finishAnew(dir, opts)
}

// An exchange that was begun with a log elsewhere does not go on without it.
func TestTheExchangeFindsItsLog(t *testing.T) {
	dir, opts, _ := formerMember(t, true)
	members := []*pb.Member{{ID: 4, PeerURLs: []string{"http://a:1"}}}
	snap := replica.FoundingSnapshot(replica.FoundedBy(members), saved(t, 1), nil)
	if err := makeAnew(dir, identity{Cluster: 6, Member: 4, Voters: []uint64{4}, Anew: 1}, snap, opts, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if err := commitAnew(dir, opts); err != nil {
		t.Fatal(err)
	}
	if err := finishAnew(dir, wal.Options{FS: wal.OS{}}); err == nil || !strings.Contains(err.Error(), "give the same --wal-dir as before") {
		t.Errorf("without the directory of the log: %v, want it asked for", err)
	}
	if err := finishAnew(dir, opts); err != nil {
		t.Error(err)
	}
}

// syncing is a file system that knows which directories have changes of names that are not durable.
type syncing struct {
	wal.FS
	t       *testing.T
	changed map[string]bool
}

func (s syncing) Rename(from, to string) error {
	switch name := filepath.Base(to); name {
	case anewMade, anewMoving, anewWork:
		for dir := range s.changed {
			s.t.Errorf("the exchange becomes %s, and changes of names in %s may be lost", name, dir)
		}
	}
	s.changed[filepath.Dir(from)], s.changed[filepath.Dir(to)] = true, true
	return s.FS.Rename(from, to)
}

func (s syncing) SyncDir(dir string) error {
	delete(s.changed, dir)
	return s.FS.SyncDir(dir)
}

// Each step of an exchange is durable before the name of the next one is given, which is durable at once.
func TestTheExchangeIsDurable(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		dir, opts, _ := formerMember(t, elsewhere)
		fsys := syncing{opts.FS, t, map[string]bool{}}
		opts.FS = fsys
		if err := exchange(dir, opts, 1000); err != nil {
			t.Fatal(err)
		}
		for dir := range fsys.changed {
			t.Errorf("an exchange is over, and changes of names in %s may be lost", dir)
		}
	}
}
