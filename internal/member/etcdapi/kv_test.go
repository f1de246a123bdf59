package etcdapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

func checkHeader(t *testing.T, what string, h *pb.ResponseHeader, revision int64) {
	t.Helper()
	want := &pb.ResponseHeader{ClusterId: 22, MemberId: 11, RaftTerm: 33, Revision: revision}
	if !proto.Equal(h, want) {
		t.Errorf("%s: header %v, want %v", what, h, want)
	}
}

func TestVerbs(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	c, ctx := s.client(), t.Context()
	put, err := c.Put(ctx, "a", "1")
	if err != nil {
		t.Fatal(err)
	}
	checkHeader(t, "put", put.Header, 2)
	get, err := c.Get(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	checkHeader(t, "get", get.Header, 2)
	if len(get.Kvs) != 1 || string(get.Kvs[0].Value) != "1" || get.Count != 1 {
		t.Errorf("get: %v, want a=1", get)
	}
	if got := s.barriers.Load(); got != 1 {
		t.Errorf("%d barriers for a linearizable get, want 1", got)
	}
	if _, err = c.Get(ctx, "a", clientv3.WithSerializable()); err != nil || s.barriers.Load() != 1 {
		t.Errorf("serializable get: %v with %d barriers, want none more", err, s.barriers.Load())
	}
	txn, err := c.Txn(ctx).If(clientv3.Compare(clientv3.Value("a"), "=", "1")).
		Then(clientv3.OpPut("b", "2"), clientv3.OpGet("b")).Else(clientv3.OpGet("a")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	checkHeader(t, "txn", txn.Header, 3)
	if !txn.Succeeded || string(txn.Responses[1].GetResponseRange().Kvs[0].Value) != "2" {
		t.Errorf("txn: %v, want b=2", txn)
	}
	read, err := c.Txn(ctx).Then(clientv3.OpGet("a"), clientv3.OpGet("b")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	checkHeader(t, "reading txn", read.Header, 3)
	if got := s.barriers.Load(); got != 2 || len(read.Responses) != 2 {
		t.Errorf("reading txn: %v with %d barriers in all, want 2", read, got)
	}
	if _, err = c.Txn(ctx).Then(clientv3.OpGet("a", clientv3.WithSerializable())).Commit(); err != nil || s.barriers.Load() != 2 {
		t.Errorf("serializable txn: %v with %d barriers, want none more", err, s.barriers.Load())
	}
	del, err := c.Delete(ctx, "a", clientv3.WithPrevKV())
	if err != nil {
		t.Fatal(err)
	}
	checkHeader(t, "delete", del.Header, 4)
	if del.Deleted != 1 || string(del.PrevKvs[0].Value) != "1" {
		t.Errorf("delete: %v, want one key", del)
	}
	compact, err := c.Compact(ctx, 3, clientv3.WithCompactPhysical())
	if err != nil {
		t.Fatal(err)
	}
	checkHeader(t, "compact", compact.Header, 4)
}

func TestErrors(t *testing.T) {
	s := serve(t, Config{MaxRequestBytes: 1000}, watch.Config{})
	s.put("a", "1")
	s.put("a", "2")
	if _, err := s.Propose(t.Context(), &pb.CompactionRequest{Revision: 3}); err != nil {
		t.Fatal(err)
	}
	c, lease := s.kv(), pb.NewLeaseClient(s.conn)
	a := []byte("a")
	get := func(r *pb.RangeRequest) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.Range(ctx, r); return err }
	}
	put := func(r *pb.PutRequest) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.Put(ctx, r); return err }
	}
	txn := func(ops ...*pb.RequestOp) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.Txn(ctx, &pb.TxnRequest{Success: ops}); return err }
	}
	compact := func(rev int64) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.Compact(ctx, &pb.CompactionRequest{Revision: rev})
			return err
		}
	}
	grant := func(id, ttl int64) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: ttl})
			return err
		}
	}
	if err := grant(5, 10)(t.Context()); err != nil {
		t.Fatal(err)
	}
	many := make([]*pb.RequestOp, 129)
	for i := range many {
		many[i] = rangeOp(&pb.RangeRequest{Key: a})
	}
	for _, c := range []struct {
		name string
		call func(context.Context) error
		want error
	}{
		{"get without key", get(&pb.RangeRequest{}), rpctypes.ErrGRPCEmptyKey},
		{"get with bad order", get(&pb.RangeRequest{Key: a, SortOrder: 9}), rpctypes.ErrGRPCInvalidSortOption},
		{"get with bad target", get(&pb.RangeRequest{Key: a, SortTarget: 9}), rpctypes.ErrGRPCInvalidSortOption},
		{"get compacted", get(&pb.RangeRequest{Key: a, Revision: 2}), rpctypes.ErrGRPCCompacted},
		{"get future", get(&pb.RangeRequest{Key: a, Revision: 9}), rpctypes.ErrGRPCFutureRev},
		{"put without key", put(&pb.PutRequest{}), rpctypes.ErrGRPCEmptyKey},
		{"put with value", put(&pb.PutRequest{Key: a, Value: a, IgnoreValue: true}), rpctypes.ErrGRPCValueProvided},
		{"put with lease", put(&pb.PutRequest{Key: a, Lease: 1, IgnoreLease: true}), rpctypes.ErrGRPCLeaseProvided},
		{"put without old value", put(&pb.PutRequest{Key: []byte("b"), IgnoreValue: true}), rpctypes.ErrGRPCKeyNotFound},
		{"put with unknown lease", put(&pb.PutRequest{Key: a, Lease: 1}), rpctypes.ErrGRPCLeaseNotFound},
		{"put too large", put(&pb.PutRequest{Key: a, Value: make([]byte, 1000)}), rpctypes.ErrGRPCRequestTooLarge},
		{"delete without key", func(ctx context.Context) error {
			_, err := c.DeleteRange(ctx, &pb.DeleteRangeRequest{})
			return err
		}, rpctypes.ErrGRPCEmptyKey},
		{"txn with too many", txn(many...), rpctypes.ErrGRPCTooManyOps},
		{"txn with empty op", txn(&pb.RequestOp{}), rpctypes.ErrGRPCKeyNotFound},
		{"txn with twice", txn(putOp(a, nil, 0), putOp(a, nil, 0)), rpctypes.ErrGRPCDuplicateKey},
		{"txn with put and delete", txn(putOp(a, nil, 0), deleteOp(a)), rpctypes.ErrGRPCDuplicateKey},
		{"txn too large", txn(putOp(a, make([]byte, 1000), 0)), rpctypes.ErrGRPCRequestTooLarge},
		{"reading txn compacted", txn(rangeOp(&pb.RangeRequest{Key: a, Revision: 1})), rpctypes.ErrGRPCCompacted},
		{"writing txn in the future", txn(rangeOp(&pb.RangeRequest{Key: a, Revision: 9}), putOp(a, nil, 0)), rpctypes.ErrGRPCFutureRev},
		{"compact compacted", compact(3), rpctypes.ErrGRPCCompacted},
		{"compact future", compact(9), rpctypes.ErrGRPCFutureRev},
		{"grant for too long", grant(0, 9_000_000_001), rpctypes.ErrGRPCLeaseTTLTooLarge},
		{"grant twice", grant(5, 10), rpctypes.ErrGRPCLeaseExist},
		{"revoke unknown", func(ctx context.Context) error {
			_, err := lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: 77})
			return err
		}, rpctypes.ErrGRPCLeaseNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // what never comes fails the test
			defer cancel()
			if err := c.call(ctx); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if err := put(&pb.PutRequest{Key: a, Value: make([]byte, 2<<20)})(t.Context()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("message beyond all bounds: %v, want ResourceExhausted", err)
	}
}

func TestBackendErrors(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	for _, c := range []struct{ err, want error }{
		{rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCTimeout},
		{rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCNoLeader},
		{context.DeadlineExceeded, status.Error(codes.DeadlineExceeded, "context deadline exceeded")},
		{errors.New("odd"), status.Error(codes.Unknown, "odd")},
	} {
		s.fail.Store(&c.err)
		_, put := s.kv().Put(t.Context(), &pb.PutRequest{Key: []byte("a")})
		_, get := s.kv().Range(t.Context(), &pb.RangeRequest{Key: []byte("a")})
		_, txn := s.kv().Txn(t.Context(), &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(&pb.RangeRequest{Key: []byte("a")})}})
		for _, got := range []error{put, get, txn} {
			if !errors.Is(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		}
	}
}

func TestClientVersion(t *testing.T) {
	for version, want := range map[string]error{"3.7.3": nil, "\xff": rpctypes.ErrGRPCInvalidClientAPIVersion} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("client-api-version", version))
		if _, err := new(Server).admit(ctx, false); err != want {
			t.Errorf("version %q: %v, want %v", version, err, want)
		}
	}
}

func TestRequireLeader(t *testing.T) {
	s := serve(t, Config{ElectionTimeout: time.Hour}, watch.Config{}) // it is not cut later: it is refused
	s.loseLeader(0)
	ctx := clientv3.WithRequireLeader(t.Context())
	if _, err := s.kv().Range(ctx, &pb.RangeRequest{Key: []byte("a")}); !errors.Is(err, rpctypes.ErrGRPCNoLeader) {
		t.Errorf("got %v, want no leader", err)
	}
	if _, err := s.kv().Range(t.Context(), &pb.RangeRequest{Key: []byte("a"), Serializable: true}); err != nil {
		t.Errorf("a read that requires none: %v", err)
	}
	stream, err := pb.NewWatchClient(s.conn).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := wantReturn(t, "a stream that requires a leader", func() error { _, err := stream.Recv(); return err }); !errors.Is(err, rpctypes.ErrGRPCNoLeader) {
		t.Errorf("a stream that requires a leader: %v, want no leader", err)
	}
}

func TestRangeStream(t *testing.T) {
	s := serve(t, Config{MaxRequestBytes: 150}, watch.Config{})
	for i := range 20 {
		s.put(fmt.Sprintf("k%02d", i), strings.Repeat("v", 20))
	}
	collect := func(r *pb.RangeRequest) (parts int, all *pb.RangeResponse, err error) {
		stream, err := s.kv().RangeStream(t.Context(), r)
		if err != nil {
			return 0, nil, err
		}
		all = &pb.RangeResponse{}
		for {
			m, err := stream.Recv()
			if err != nil {
				return parts, all, err
			}
			if all.Header != nil {
				t.Error("a part after the one with the header")
			}
			parts++
			proto.Merge(all, m.RangeResponse)
			if all.Header != nil {
				if _, err := stream.Recv(); err == nil {
					t.Error("the stream goes on after its last part")
				}
				return parts, all, nil
			}
		}
	}
	for _, c := range []struct {
		name  string
		r     *pb.RangeRequest
		parts int
	}{
		{"all", &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}, 4},
		{"limited", &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Limit: 3}, 1},
		{"counted", &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), CountOnly: true}, 1},
		{"empty", &pb.RangeRequest{Key: []byte("x"), RangeEnd: []byte("y")}, 1},
		{"old", &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Revision: 5, SortOrder: pb.RangeRequest_ASCEND}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := s.kv().Range(t.Context(), c.r)
			if err != nil {
				t.Fatal(err)
			}
			parts, got, err := collect(c.r)
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(got, want) || parts != c.parts {
				t.Errorf("got %d parts %v, want %d parts %v", parts, got, c.parts, want)
			}
		})
	}
	for want, r := range map[error]*pb.RangeRequest{
		rpctypes.ErrGRPCEmptyKey:  {},
		rpctypes.ErrGRPCFutureRev: {Key: []byte("k"), Revision: 99},
	} {
		if _, _, err := collect(r); !errors.Is(err, want) {
			t.Errorf("%v: got %v, want %v", r, err, want)
		}
	}
	for _, r := range []*pb.RangeRequest{
		{SortOrder: pb.RangeRequest_DESCEND},
		{SortOrder: pb.RangeRequest_ASCEND, SortTarget: pb.RangeRequest_MOD},
		{MinModRevision: 2}, {MaxModRevision: 2}, {MinCreateRevision: 2}, {MaxCreateRevision: 2},
	} {
		want := errStreamFilters
		if r.SortOrder != pb.RangeRequest_NONE {
			want = errStreamOrder
		}
		r.Key = []byte("k")
		if _, _, err := collect(r); !errors.Is(err, want) {
			t.Errorf("%v: got %v, want %v", r, err, want)
		}
	}
}

func TestRangeDoesNotCopy(t *testing.T) {
	f := newFake(t, watch.Config{})
	if _, err := f.Propose(t.Context(), &pb.PutRequest{Key: []byte("a"), Value: bytes.Repeat([]byte("v"), 1<<20)}); err != nil {
		t.Fatal(err)
	}
	k := &kvServer{Server: New(f, Config{})}
	r := &pb.RangeRequest{Key: []byte("a")}
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := k.Range(context.Background(), r); err != nil {
				b.Fatal(err)
			}
		}
	})
	if got.AllocedBytesPerOp() > 2000 {
		t.Errorf("a get of 1 MiB allocates %d bytes, want less than 2000", got.AllocedBytesPerOp())
	}
}
