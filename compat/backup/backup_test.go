package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/tenure-lease/tenure/compat/server"
)

// fill makes a history with something of all that there can be, compacted in the middle.
func fill(ctx context.Context, c *clientv3.Client) error {
	lease, err := c.Grant(ctx, 300)
	if err != nil {
		return err
	}
	for i := range 40 {
		key := fmt.Sprintf("key-%02d", i%9)
		ops := []clientv3.Op{clientv3.OpPut(key, fmt.Sprint(i), clientv3.WithLease(lease.ID)), clientv3.OpPut("b-"+key, fmt.Sprint(i))}
		switch i % 5 {
		case 2:
			ops = []clientv3.Op{clientv3.OpDelete("b-", clientv3.WithPrefix()), clientv3.OpPut("z", fmt.Sprint(i))}
		case 4:
			ops = []clientv3.Op{clientv3.OpDelete(key)}
		}
		if _, err := c.Txn(ctx).Then(ops...).Commit(); err != nil {
			return err
		}
	}
	_, err = c.Compact(ctx, 20, clientv3.WithCompactPhysical())
	return err
}

// shown is all that clients see of a state.
type shown struct {
	Revision int64
	At       map[int64][]string // keys by revision
	Events   []string
	Leases   []string
}

func look(ctx context.Context, c *clientv3.Client, from int64) (s shown, err error) {
	now, err := c.Get(ctx, "\x00", clientv3.WithFromKey())
	if err != nil {
		return s, err
	}
	s.Revision, s.At = now.Header.Revision, map[int64][]string{}
	for rev := from; rev <= s.Revision; rev++ {
		resp, err := c.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(rev))
		if err != nil {
			return s, fmt.Errorf("read at revision %d: %w", rev, err)
		}
		for _, kv := range resp.Kvs {
			s.At[rev] = append(s.At[rev], kv.String())
		}
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	last := int64(0)
	for resp := range c.Watch(watching, "\x00", clientv3.WithFromKey(), clientv3.WithRev(from)) {
		if resp.Err() != nil {
			return s, resp.Err()
		}
		for _, e := range resp.Events {
			s.Events = append(s.Events, fmt.Sprint(e.Type, e.Kv))
			last = e.Kv.ModRevision
		}
		if last == s.Revision {
			break
		}
	}
	leases, err := c.Leases(ctx)
	if err != nil {
		return s, err
	}
	for _, l := range leases.Leases {
		ttl, err := c.TimeToLive(ctx, l.ID, clientv3.WithAttachedKeys())
		if err != nil {
			return s, err
		}
		slices.SortFunc(ttl.Keys, bytes.Compare) // etcd has them in no order
		s.Leases = append(s.Leases, fmt.Sprintf("%x of %d s with %q", l.ID, ttl.GrantedTTL, ttl.Keys))
	}
	return s, nil
}

func save(ctx context.Context, c *clientv3.Client, path string) error {
	resp, err := c.SnapshotWithVersion(ctx)
	if err != nil {
		return err
	}
	defer resp.Snapshot.Close()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Snapshot)
	return errors.Join(err, f.Close())
}

// restore puts a saved state in place of a member's data, by the tool of its kind.
func restore(ctx context.Context, t *testing.T, kind server.Kind, m *server.Member, path string, bump uint64) {
	t.Helper()
	if err := os.RemoveAll(m.DataDir); err != nil {
		t.Fatal(err)
	}
	cluster := m.Name + "=" + m.PeerURL
	if kind == server.Etcd {
		err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
			SnapshotPath: path, Name: m.Name, OutputDataDir: m.DataDir, PeerURLs: []string{m.PeerURL}, InitialCluster: cluster,
			InitialClusterToken: "restored", RevisionBump: bump, MarkCompacted: bump > 0,
		})
		if err != nil {
			t.Fatalf("etcd's tool does not restore it: %v", err)
		}
		return
	}
	args := []string{"snapshot", "restore", path, "--name", m.Name, "--data-dir", m.DataDir,
		"--initial-advertise-peer-urls", m.PeerURL, "--initial-cluster", cluster, "--initial-cluster-token", "restored", "--bump-revision", fmt.Sprint(bump)}
	tenure(ctx, t, args...)
}

func tenure(ctx context.Context, t *testing.T, args ...string) []byte {
	t.Helper()
	binary, err := server.Binary(server.Tenure)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("tenure %v: %v\n%s", args, err, out)
	}
	return out
}

// TestStatesMove carries a state from each kind to each, as it is, and raised.
func TestStatesMove(t *testing.T) {
	if !server.Has(server.Etcd) || !server.Has(server.Tenure) {
		t.Skip("it needs both kinds")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, from := range server.Kinds() {
		a, err := server.Start(ctx, server.Config{Kind: from, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Stop()
		client, err := a.Client()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := fill(ctx, client); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "saved.db")
		if err := save(ctx, client, path); err != nil {
			t.Fatal(err)
		}
		want, err := look(ctx, client, 20)
		if err != nil {
			t.Fatal(err)
		}
		sameStatus(ctx, t, path, want)
		for _, to := range server.Kinds() {
			t.Run(fmt.Sprintf("from %s to %s", from, to), func(t *testing.T) { moves(ctx, t, to, path, want) })
		}
	}
}

// sameStatus has both tools tell the same of a file.
func sameStatus(ctx context.Context, t *testing.T, path string, want shown) {
	t.Helper()
	etcds, err := snapshot.NewV3(zap.NewNop()).Status(path)
	if err != nil {
		t.Fatalf("etcd's tool does not read it: %v", err)
	}
	var ours snapshot.Status
	if err := json.Unmarshal(tenure(ctx, t, "snapshot", "status", path, "-o", "json"), &ours); err != nil {
		t.Fatal(err)
	}
	if ours != etcds || ours.Revision != want.Revision || ours.TotalKey != len(want.At[want.Revision]) {
		t.Errorf("our tool tells %+v, etcd's %+v; want revision %d and %d keys", ours, etcds, want.Revision, len(want.At[want.Revision]))
	}
}

func moves(ctx context.Context, t *testing.T, to server.Kind, path string, want shown) {
	b, err := server.Start(ctx, server.Config{Kind: to, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Stop()
	client, err := b.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	m := b.Members[0]
	again := func(bump uint64) {
		t.Helper()
		m.Terminate()
		restore(ctx, t, to, m, path, bump)
		if err := m.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	again(0)
	got, err := look(ctx, client, 20)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("another state is restored (-saved +restored):\n%s", diff)
	}
	if _, err := client.Get(ctx, "z", clientv3.WithRev(19)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("a read before the compaction: %v", err)
	}
	again(1000)
	raised, err := client.Get(ctx, "\x00", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	if raised.Header.Revision < want.Revision+1000 || len(raised.Kvs) != len(want.At[want.Revision]) {
		t.Errorf("raised by 1000, it is at revision %d with %d keys; want %d with %d", raised.Header.Revision, len(raised.Kvs), want.Revision+1000, len(want.At[want.Revision]))
	}
	for resp := range client.Watch(ctx, "z", clientv3.WithRev(want.Revision)) {
		if !errors.Is(resp.Err(), rpctypes.ErrCompacted) {
			t.Errorf("a watch from the revision of before: %v, want %v", resp.Err(), rpctypes.ErrCompacted)
		}
		break
	}
	if resp, err := client.Put(ctx, "z", "after"); err != nil || resp.Header.Revision <= want.Revision+1000 {
		t.Errorf("the first write after it: %v, %v", resp, err)
	}
}
