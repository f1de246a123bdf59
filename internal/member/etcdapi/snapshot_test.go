package etcdapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/backup"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// TestSnapshotIsTheState: etcd's client gets a file with its checksum, of which the whole state comes back, and
// the member keeps nothing.
func TestSnapshotIsTheState(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, Config{BackupDir: dir}, watch.Config{})
	for i := range 50 {
		s.put(string(rune('a'+i%7)), string(bytes.Repeat([]byte{'x'}, 3000)))
	}
	resp, err := s.client().SnapshotWithVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if resp.Version != "3.7.0" || resp.Header.GetRevision() != s.View().Revision() || resp.Header.GetClusterId() == 0 {
		t.Errorf("it is of version %q, with header %v; want 3.7.0 at revision %d", resp.Version, resp.Header, s.View().Revision())
	}
	data, err := io.ReadAll(resp.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "saved.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := backup.CheckSum(path); err != nil {
		t.Error(err)
	}
	c, err := backup.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	state, err := c.Store()
	if err != nil {
		t.Fatal(err)
	}
	var got, want bytes.Buffer
	if _, err := state.View().WriteTo(&got); err != nil {
		t.Fatal(err)
	}
	if _, err := s.View().WriteTo(&want); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Error("another state comes back")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a snapshot has left %v, %v", left, err)
	}
	if n := s.held.Load(); n != 0 {
		t.Errorf("%d states are held after a snapshot", n)
	}
}

// TestSnapshotCountsDown: each part says how much is to come, and the last one is the checksum.
func TestSnapshotCountsDown(t *testing.T) {
	s := serve(t, Config{BackupDir: t.TempDir()}, watch.Config{})
	s.put("large", string(bytes.Repeat([]byte{'x'}, 100_000)))
	stream, err := pb.NewMaintenanceClient(s.conn).Snapshot(t.Context(), &pb.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var parts []*pb.SnapshotResponse
	var whole []byte
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
		whole = append(whole, part.Blob...)
	}
	if len(parts) < 3 {
		t.Fatalf("it came in %d parts", len(parts))
	}
	rest := uint64(len(whole) - sha256.Size)
	for i, part := range parts[:len(parts)-1] {
		rest -= uint64(len(part.Blob))
		if part.RemainingBytes != rest || len(part.Blob) > 32<<10 {
			t.Errorf("part %d, of %d bytes, says that %d are to come, want %d", i, len(part.Blob), part.RemainingBytes, rest)
		}
	}
	sum := sha256.Sum256(whole[:len(whole)-sha256.Size])
	if last := parts[len(parts)-1]; last.RemainingBytes != 0 || !bytes.Equal(last.Blob, sum[:]) {
		t.Errorf("the last part is %x, with %d to come; want the checksum %x", last.Blob, last.RemainingBytes, sum)
	}
}

// TestSnapshotThatFails: its client gets the error, and nothing is left or held.
func TestSnapshotThatFails(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, Config{BackupDir: filepath.Join(dir, "missing")}, watch.Config{})
	fails := func(when string, want codes.Code) {
		t.Helper()
		stream, err := pb.NewMaintenanceClient(s.conn).Snapshot(t.Context(), &pb.SnapshotRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != want {
			t.Errorf("%s: error %v, want %v", when, err, want)
		}
		if n := s.held.Load(); n != 0 {
			t.Errorf("%s: %d states are held", when, n)
		}
	}
	fails("without a directory", codes.Unknown)
	s = newFake(t, watch.Config{}).serve(t, Config{BackupDir: dir})
	s.fake.fail.Store(new(rpctypes.ErrGRPCStopped))
	fails("at a member that stops", status.Code(rpctypes.ErrGRPCStopped))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it has left %v, %v", left, err)
	}
}

// reclaims is a backend whose first views lose their history while they are read.
type reclaims struct {
	*fake
	stale kv.View
	times int
	last  func() // is called with the last of them, if set
}

func (r *reclaims) View() kv.View {
	if r.times > 0 {
		if r.times--; r.times == 0 && r.last != nil {
			r.last()
		}
		return r.stale
	}
	return r.fake.View()
}

func (r *reclaims) ViewFor(context.Context, proto.Message) (kv.View, error) { return r.View(), nil }

func (r *reclaims) Hold(ctx context.Context) (backup.State, func(), error) {
	s, release, err := r.fake.Hold(ctx)
	if r.times > 0 {
		r.times--
		s.View = r.stale
	}
	return s, release, err
}

// TestHistoryReclaimedMeanwhile: hashes and snapshots are of a newer state then.
func TestHistoryReclaimedMeanwhile(t *testing.T) {
	f := newFake(t, watch.Config{})
	for range 5 {
		if _, err := f.store.Put(&pb.PutRequest{Key: []byte("k")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.store.Compact(3); err != nil {
		t.Fatal(err)
	}
	old := f.store.View()
	if err := f.store.Compact(6); err != nil {
		t.Fatal(err)
	}
	for f.store.Reclaim(100) {
	}
	f.show(f.store.View())
	b := &reclaims{fake: f, stale: old}
	m := &maintenanceServer{Server: New(b, Config{BackupDir: t.TempDir()})}
	want, _, err := f.View().Hash(0)
	if err != nil {
		t.Fatal(err)
	}
	b.times = 2
	if got, err := m.HashKV(t.Context(), &pb.HashKVRequest{}); err != nil || got.Hash != want || got.CompactRevision != 6 || got.HashRevision != 6 || got.Header.Revision != 6 {
		t.Errorf("hash of keys: %v, %v; want %d, compacted at 6", got, err, want)
	}
	b.times = 2
	if got, err := m.Hash(t.Context(), &pb.HashRequest{}); err != nil || got.Hash == 0 || got.Header.Revision != 6 {
		t.Errorf("hash: %v, %v", got, err)
	}
	b.times = 1
	stream := &sink{ctx: t.Context()}
	if err := m.Snapshot(&pb.SnapshotRequest{}, stream); err != nil || stream.bytes == 0 {
		t.Errorf("snapshot: %v, %d bytes", err, stream.bytes)
	}
	ended, cancel := context.WithCancel(t.Context())
	b.times, b.last = 3, cancel
	if _, err := m.HashKV(ended, &pb.HashKVRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("hash for a client that has left: %v", err)
	}
}

// sink counts what is sent.
type sink struct {
	pb.Maintenance_SnapshotServer
	ctx   context.Context
	bytes int
}

func (s *sink) Context() context.Context { return s.ctx }

func (s *sink) Send(r *pb.SnapshotResponse) error {
	s.bytes += len(r.Blob)
	return nil
}

// TestHashesOverTheAPI: hashes have etcd's errors, and two members with one history agree at each revision.
func TestHashesOverTheAPI(t *testing.T) {
	a, b := serve(t, Config{}, watch.Config{}), serve(t, Config{}, watch.Config{})
	for _, s := range []*served{a, b} {
		for i := range 5 {
			s.put(string(rune('a'+i)), "v")
		}
		if _, err := s.kv().Compact(t.Context(), &pb.CompactionRequest{Revision: 3}); err != nil {
			t.Fatal(err)
		}
	}
	hash := func(s *served, rev int64) (*clientv3.HashKVResponse, error) {
		return s.client().HashKV(t.Context(), "passthrough:fake", rev)
	}
	at := map[int64]uint32{}
	for rev := int64(3); rev <= 6; rev++ {
		one, err := hash(a, rev)
		if err != nil {
			t.Fatal(err)
		}
		two, err := hash(b, rev)
		if err != nil {
			t.Fatal(err)
		}
		if one.Hash != two.Hash || one.CompactRevision != 3 || one.HashRevision != rev || one.Header.Revision != 6 {
			t.Errorf("at revision %d: %v and %v", rev, one, two)
		}
		at[rev] = one.Hash
	}
	b.put("f", "v")
	if later, err := hash(b, 6); err != nil || later.Hash != at[6] || later.Header.Revision != 7 {
		t.Errorf("at revision 6, later: %v, %v; want %d", later, err, at[6])
	}
	all := func(s *served) uint32 {
		got, err := pb.NewMaintenanceClient(s.conn).Hash(t.Context(), &pb.HashRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Hash
	}
	if all(a) == all(b) {
		t.Error("different states have one hash of all")
	}
	for rev, want := range map[int64]error{2: rpctypes.ErrCompacted, 99: rpctypes.ErrFutureRev} {
		if _, err := hash(a, rev); !errors.Is(err, want) {
			t.Errorf("at revision %d: %v, want %v", rev, err, want)
		}
	}
}
