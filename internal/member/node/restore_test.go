package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/member/backup"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// saved is the state of a backup.
func saved(t testing.TB, keys int) *kv.Store {
	t.Helper()
	s := kv.New()
	if err := s.Grant(7, 60); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if _, err := s.Put(&pb.PutRequest{Key: fmt.Appendf(nil, "key-%03d", i), Value: []byte("v"), Lease: 7}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func stateBytes(t testing.TB, v kv.View) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := v.WriteTo(&b); err != nil {
		t.Errorf("the state cannot be written: %v", err)
	}
	return b.Bytes()
}

// restored has a cluster's members begin with a state.
func restored(t testing.TB, size int, state *kv.Store) *cluster {
	c := newCluster(t, size, func(cfg *Config) { nimble(cfg); cfg.DataDir = "" })
	parent := t.TempDir()
	for i := range c.cfgs {
		cfg := &c.cfgs[i]
		cfg.DataDir = filepath.Join(parent, cfg.Name)
		r := Restoration{DataDir: cfg.DataDir, Name: cfg.Name, Peers: cfg.Peers, ClusterToken: cfg.ClusterToken, State: state, Digest: "d", Logger: cfg.Logger}
		if _, err := Restore(r); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(parent, "*.restoring-*")); len(left) > 0 {
		t.Errorf("restores have left %v", left)
	}
	return c
}

// TestAClusterBeginsWithAState: members that were restored have the state, its leases included, go on from it,
// and have it still when they start again.
func TestAClusterBeginsWithAState(t *testing.T) {
	state := saved(t, 300)
	want := stateBytes(t, state.View())
	c := restored(t, 3, state)
	start := func() {
		t.Helper()
		for i := range c.cfgs {
			c.start(i)
		}
	}
	start()
	ready := func() {
		t.Helper()
		for i, n := range c.nodes {
			if err := n.Ready(t.Context()); err != nil {
				t.Fatalf("member %d: %v", i, err)
			}
		}
	}
	ready()
	for i, n := range c.nodes {
		if got := stateBytes(t, n.View()); !bytes.Equal(got, want) {
			t.Errorf("member %d begins with another state than the backup's", i)
		}
		if left, granted, err := n.TimeToLive(t.Context(), 7); err != nil || granted != 60 || left < 1 {
			t.Errorf("member %d: the lease has %d of %d s left, %v; want some of 60", i, left, granted, err)
		}
	}
	resp, err := c.nodes[0].Propose(t.Context(), &pb.PutRequest{Key: []byte("new"), Value: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	if rev := resp.(*pb.PutResponse).Header.Revision; rev != state.Revision()+1 {
		t.Errorf("the first write after the restore is revision %d, want %d", rev, state.Revision()+1)
	}
	for i := range c.nodes {
		c.kill(i)
	}
	start()
	ready()
	for i, n := range c.nodes {
		if got := n.View().Revision(); got != state.Revision()+1 {
			t.Errorf("member %d, started again, is at revision %d, want %d", i, got, state.Revision()+1)
		}
	}
}

// TestMembersOfOtherBackups: a member that began with another state, or with none, is of another cluster, and
// takes no part in this one.
func TestMembersOfOtherBackups(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { nimble(cfg); cfg.DataDir = "" })
	ids := map[uint64]string{}
	for i, digest := range []string{"one", "another"} {
		cfg := &c.cfgs[i]
		cfg.DataDir = filepath.Join(t.TempDir(), "data")
		id, err := Restore(Restoration{DataDir: cfg.DataDir, Name: cfg.Name, Peers: cfg.Peers, State: saved(t, 2), Digest: digest, Logger: cfg.Logger})
		if err != nil {
			t.Fatal(err)
		}
		ids[id] = digest
	}
	c.cfgs[2].DataDir = t.TempDir()
	for i := range c.cfgs {
		c.start(i)
		ids[c.nodes[i].ClusterID()] = fmt.Sprint("member ", i)
	}
	if len(ids) != 3 {
		t.Fatalf("the clusters %v, want three", ids)
	}
	time.Sleep(3 * c.cfgs[0].ElectionTimeout)
	for i, n := range c.nodes {
		if leader, _, _ := n.Leader(); leader != 0 {
			t.Errorf("member %d has leader %x, of members of other clusters", i, leader)
		}
	}
}

// TestRestoreMakesAllOrNothing: a directory with anything in it is left alone, and a restore that fails leaves
// none.
func TestRestoreMakesAllOrNothing(t *testing.T) {
	parent := t.TempDir()
	r := Restoration{
		DataDir: filepath.Join(parent, "data"), Name: "a", Peers: map[string]string{"a": "http://127.0.0.1:1"},
		State: saved(t, 2), Digest: "d", Logger: slog.New(slog.DiscardHandler),
	}
	unknown := r
	unknown.Name = "b"
	if _, err := Restore(unknown); err == nil {
		t.Error("a member that is not among those of the cluster is restored")
	}
	twice := r
	twice.Peers = map[string]string{"a": "http://127.0.0.1:1", "b": "http://127.0.0.1:1"}
	if _, err := Restore(twice); err == nil {
		t.Error("two members at one URL are restored")
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("restores that failed have left %v, %v", left, err)
	}
	if err := os.Mkdir(r.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(r); err != nil {
		t.Errorf("into an empty directory: %v", err)
	}
	before, err := os.ReadDir(r.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(r); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("over a member's directory: error %v, want one that says that it is not empty", err)
	}
	if after, err := os.ReadDir(r.DataDir); err != nil || len(after) != len(before) {
		t.Errorf("the directory has %v, had %v", after, before)
	}
}

// TestHeldStateStays: what is held is not reclaimed while compactions go on, and is the published state of the
// member, with its members.
func TestHeldStateStays(t *testing.T) {
	c := newCluster(t, 1)
	n := c.nodes[0]
	if err := n.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	put := func(value string) int64 {
		t.Helper()
		resp, err := n.Propose(t.Context(), &pb.PutRequest{Key: []byte("k"), Value: []byte(value)})
		if err != nil {
			t.Fatal(err)
		}
		return resp.(*pb.PutResponse).Header.Revision
	}
	compact := func(rev int64) {
		t.Helper()
		if _, err := n.Propose(t.Context(), &pb.CompactionRequest{Revision: rev}); err != nil {
			t.Fatal(err)
		}
	}
	put("1")
	compact(put("2"))
	s, release, err := n.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.View.Revision() != 3 || s.Index == 0 || s.Term == 0 || len(s.Members) != 1 || s.Members[0].ID != n.ID() {
		t.Errorf("held is revision %d, index %d, term %d, members %v", s.View.Revision(), s.Index, s.Term, s.Members)
	}
	want := stateBytes(t, s.View)
	put("3")
	compact(put("4"))
	// Reclaiming goes on behind the compaction; a second one comes after it.
	compact(put("5"))
	put("6")
	if got := stateBytes(t, s.View); !bytes.Equal(got, want) {
		t.Error("a held state is another one after a compaction")
	}
	path := filepath.Join(t.TempDir(), "b.db")
	if err := backup.Write(path, s); err != nil {
		t.Errorf("a held state is not written: %v", err)
	}
	release()
	n.Stop()
	if _, _, err := n.Hold(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("held at a member that has stopped: %v", err)
	}
}

// The directory is there once its log is durable, and stays there once Restore returns.
func TestARestoredDirectoryIsDurable(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "a")
	disk := &waltest.Witness{}
	r := Restoration{DataDir: dir, Name: "a", Peers: map[string]string{"a": "http://a:2380"}, ClusterToken: "t", State: saved(t, 3), Digest: "d", Logger: slog.New(slog.DiscardHandler), FS: disk}
	if _, err := Restore(r); err != nil {
		t.Fatal(err)
	}
	calls := disk.Calls()
	at := slices.IndexFunc(calls, func(c string) bool { return strings.HasPrefix(c, "rename ") && strings.HasSuffix(c, " a") })
	if at < 0 {
		t.Fatalf("the directory is not renamed to its name: %q", calls)
	}
	if before := calls[:at]; !slices.ContainsFunc(before, func(c string) bool { return strings.HasPrefix(c, "sync ") && strings.Contains(c, "wal") }) {
		t.Errorf("the log is not durable before the directory has its name: %q", before)
	}
	if after, want := calls[at+1:], []string{"syncdir " + filepath.Base(parent)}; !slices.Equal(after, want) {
		t.Errorf("behind the renaming: %q, want %q", after, want)
	}
}

// A log elsewhere is made with its directory, or not at all; and it is not made over another one.
func TestARestoreWithItsLogElsewhere(t *testing.T) {
	parent := t.TempDir()
	dir, logs := filepath.Join(parent, "data"), filepath.Join(parent, "logs")
	r := Restoration{
		DataDir: dir, LogDir: logs, Name: "a", Peers: map[string]string{"a": "http://127.0.0.1:1"},
		State: saved(t, 2), Digest: "d", Logger: slog.New(slog.DiscardHandler),
	}
	changes := 3
	failing := r
	failing.FS = dying{FS: wal.OS{}, left: &changes}
	if _, err := Restore(failing); !errors.Is(err, errDead) {
		t.Fatalf("a disk dies with %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(logs, "*.wal")); len(left) > 0 && changes > 0 {
		t.Errorf("a restore that failed has left %v", left)
	}
	r.LogDir = filepath.Join(parent, "others")
	id, err := Restore(r)
	if err != nil {
		t.Fatal(err)
	}
	s, log, err := openStorage(dir, identity{}, wal.Options{LogDir: r.LogDir}, r.Logger)
	if err != nil {
		t.Fatal(err)
	}
	if s.identity.Cluster != id || log.Snapshot.GetIndex() != 2 {
		t.Errorf("the directory is of cluster %x at %d, want %x at the state's", s.identity.Cluster, log.Snapshot.GetIndex(), id)
	}
	if err := s.log.Close(); err != nil {
		t.Error(err)
	}
	if _, err := (wal.Options{}).Exists(dir); err == nil {
		t.Error("the directory starts without its log")
	}
	r.DataDir = filepath.Join(parent, "second")
	if _, err := Restore(r); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("over another log: %v, want that it is not empty", err)
	}
}
