package etcdapi

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

func TestLease(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	c, ctx := s.client(), t.Context()
	drawn, err := c.Grant(ctx, 10)
	if err != nil {
		t.Fatal(err)
	}
	if drawn.ID <= 0 || drawn.TTL != 10 {
		t.Errorf("grant: %v, want a positive id and 10 s", drawn)
	}
	checkHeader(t, "grant", drawn.ResponseHeader, 1)
	raw := pb.NewLeaseClient(s.conn)
	given, err := raw.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: 5, TTL: -1})
	if err != nil {
		t.Fatal(err)
	}
	if given.ID != 5 || given.TTL != 2 {
		t.Errorf("grant: %v, want id 5 and the backend's least time", given)
	}
	for _, key := range []string{"b", "a"} {
		if _, err := c.Put(ctx, key, "", clientv3.WithLease(5)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ r, want proto.Message }{
		{&pb.LeaseTimeToLiveRequest{ID: 5}, &pb.LeaseTimeToLiveResponse{Header: header(3), ID: 5, TTL: 1, GrantedTTL: 2}},
		{&pb.LeaseTimeToLiveRequest{ID: 5, Keys: true}, &pb.LeaseTimeToLiveResponse{Header: header(3), ID: 5, TTL: 1, GrantedTTL: 2, Keys: [][]byte{[]byte("a"), []byte("b")}}},
		{&pb.LeaseTimeToLiveRequest{ID: 6, Keys: true}, &pb.LeaseTimeToLiveResponse{Header: header(3), ID: 6, TTL: -1}},
	} {
		got, err := raw.LeaseTimeToLive(ctx, c.r.(*pb.LeaseTimeToLiveRequest))
		if err != nil || !proto.Equal(got, c.want) {
			t.Errorf("%v: got %v, %v, want %v", c.r, got, err, c.want)
		}
	}
	before := s.barriers.Load()
	list, err := raw.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
	if s.barriers.Load() != before+1 {
		t.Error("leases were listed without a barrier")
	}
	if err != nil || len(list.Leases) != 2 || list.Leases[0].ID != 5 || list.Leases[1].ID != int64(drawn.ID) {
		t.Errorf("leases: %v, %v, want 5 and %d", list, err, drawn.ID)
	}
	revoked, err := c.Revoke(ctx, 5)
	if err != nil {
		t.Fatal(err)
	}
	checkHeader(t, "revoke", revoked.Header, 4)
}

func TestKeepAlive(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	c, ctx := s.client(), t.Context()
	granted, err := c.Grant(ctx, 10)
	if err != nil {
		t.Fatal(err)
	}
	once, err := c.KeepAliveOnce(ctx, granted.ID)
	if err != nil || once.TTL != 10 {
		t.Errorf("keep-alive: %v, %v, want 10 s", once, err)
	}
	if _, err := c.KeepAliveOnce(ctx, 77); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("keep-alive of an unknown lease: %v, want the client to find none", err)
	}
	stream, err := pb.NewLeaseClient(s.conn).LeaseKeepAlive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: 77}); err != nil {
		t.Fatal(err)
	}
	want := &pb.LeaseKeepAliveResponse{Header: header(1), ID: 77}
	if got, err := stream.Recv(); err != nil || !proto.Equal(got, want) {
		t.Errorf("keep-alive of an unknown lease: %v, %v, want %v", got, err, want)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("after the last: %v, want the end", err)
	}
}

// TestKeepAlivesOverlap lets no renewal end before a whole window of them is under
// way, and wants the answers in order.
func TestKeepAlivesOverlap(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	var mu sync.Mutex
	under, all := 0, make(chan struct{})
	s.keepAlive = func() func(context.Context) {
		mu.Lock()
		defer mu.Unlock()
		if under++; under == keepAliveWindow {
			close(all)
		}
		return func(ctx context.Context) {
			select {
			case <-all:
			case <-ctx.Done():
			}
		}
	}
	stream, err := pb.NewLeaseClient(s.conn).LeaseKeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const n = 5 * keepAliveWindow
	go func() {
		for i := range n {
			if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(i)}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range n {
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != int64(i) {
			t.Fatalf("answer for lease %d, want %d", got.ID, i)
		}
	}
}

func TestKeepAliveError(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	failure := rpctypes.ErrGRPCTimeout
	s.fail.Store(&failure)
	stream, err := pb.NewLeaseClient(s.conn).LeaseKeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, rpctypes.ErrGRPCTimeout) {
		t.Errorf("got %v, want a timeout", err)
	}
}

// The header of a renewal's answer is of before it: had the lease ended at a later revision,
// nobody may see that revision with it.
func TestKeepAliveHeaderIsOfBefore(t *testing.T) {
	s := newFake(t, watch.Config{})
	s.keepAlive = func() func(context.Context) {
		return func(context.Context) {
			if _, err := s.Propose(context.Background(), &pb.PutRequest{Key: []byte("k")}); err != nil {
				t.Error(err)
			}
		}
	}
	served := s.serve(t, Config{})
	served.grant(7)
	before := s.View().Revision()
	stream, err := pb.NewLeaseClient(served.conn).LeaseKeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: 7}); err != nil {
		t.Fatal(err)
	}
	r, err := stream.Recv()
	if err != nil || r.Header.Revision != before {
		t.Errorf("renewed with revision %d, %v; want %d, of before the renewal", r.GetHeader().GetRevision(), err, before)
	}
}

// A lease in its last second is still there: 0 seconds are left of what it was granted.
func TestLeaseInItsLastSecond(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.mu.Lock()
	err := s.store.Grant(7, 1)
	s.publish()
	s.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	got, err := pb.NewLeaseClient(s.conn).LeaseTimeToLive(t.Context(), &pb.LeaseTimeToLiveRequest{ID: 7})
	if want := (&pb.LeaseTimeToLiveResponse{Header: header(1), ID: 7, TTL: 0, GrantedTTL: 1}); err != nil || !proto.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// drawing has its first proposals fail as if somebody had the lease already.
type drawing struct {
	*fake
	taken int
	ids   []int64
}

func (b *drawing) Propose(ctx context.Context, r proto.Message) (proto.Message, error) {
	b.ids = append(b.ids, r.(*pb.LeaseGrantRequest).ID)
	if len(b.ids) <= b.taken {
		return nil, kv.ErrLeaseExists
	}
	return b.fake.Propose(ctx, r)
}

// A lease for which the client gives no id gets a positive one, as from etcd: another, if somebody
// has that. The id that a client gives is its own.
func TestIDsOfLeases(t *testing.T) {
	b := &drawing{fake: newFake(t, watch.Config{}), taken: 3}
	leases := &leaseServer{Server: New(b, Config{})}
	got, err := leases.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{TTL: 60})
	if err != nil || len(b.ids) != 4 || got.ID != b.ids[3] || b.ids[3] == b.ids[2] {
		t.Errorf("three ids are taken: %v, %v, after %v were tried; want the fourth", got, err, b.ids)
	}
	for range 64 {
		if got, err := leases.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{TTL: 60}); err != nil || got.ID <= 0 {
			t.Fatalf("an id of the server's: %v, %v, want a positive one", got, err)
		}
	}
	b.ids = nil
	if got, err := leases.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 60}); !same(err, rpctypes.ErrGRPCLeaseExist) || len(b.ids) != 1 {
		t.Errorf("an id that the client gave, and that is taken: %v, %v, after %d tries, want that there is one", got, err, len(b.ids))
	}
}

// ahead has what other members wrote by the time of a barrier.
type ahead struct {
	*fake
	t *testing.T
}

func (b ahead) Barrier(ctx context.Context) error {
	if _, err := b.Propose(ctx, &pb.PutRequest{Key: []byte("k"), Lease: 7}); err != nil {
		b.t.Error(err)
	}
	return nil
}

// The header of an answer that has a lease's keys is of the state in which they were found.
func TestKeysOfALeaseAndTheirRevision(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := &served{fake: f, t: t}
	s.grant(7)
	leases := &leaseServer{Server: New(ahead{f, t}, Config{})}
	got, err := leases.LeaseTimeToLive(t.Context(), &pb.LeaseTimeToLiveRequest{ID: 7, Keys: true})
	if err != nil || len(got.Keys) != 1 || got.Header.Revision != f.View().Revision() {
		t.Errorf("keys %q at revision %d, %v; want one at revision %d", got.GetKeys(), got.GetHeader().GetRevision(), err, f.View().Revision())
	}
	list, err := leases.LeaseLeases(t.Context(), &pb.LeaseLeasesRequest{})
	if err != nil || len(list.Leases) != 1 || list.Header.Revision != f.View().Revision() {
		t.Errorf("leases %v at revision %d, %v; want one at revision %d", list.GetLeases(), list.GetHeader().GetRevision(), err, f.View().Revision())
	}
}

// endless is a stream of renewals whose client never stops.
type endless struct{ contextOnly }

func (s endless) Send(*pb.LeaseKeepAliveResponse) error { return errors.New("lost") }

func (s endless) Recv() (*pb.LeaseKeepAliveRequest, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	return &pb.LeaseKeepAliveRequest{ID: 7}, nil
}

// A stream of renewals whose client hears nothing any more ends with what gRPC says, and nothing of
// it goes on, however much the client had sent.
func TestRenewalsThatNobodyHears(t *testing.T) {
	f := newFake(t, watch.Config{})
	(&served{fake: f, t: t}).grant(7)
	full := make(chan struct{}, 1000)
	f.keepAlive = func() func(context.Context) {
		full <- struct{}{}
		return func(context.Context) {
			for len(full) < keepAliveWindow { // so that the receiver waits to queue one more
				runtime.Gosched()
			}
		}
	}
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	s := &leaseServer{Server: New(f, Config{})}
	err := wantReturn(t, "a stream of renewals that nobody hears", func() error { return s.LeaseKeepAlive(endless{contextOnly{ctx: ctx}}) })
	if err == nil || err.Error() != "lost" {
		t.Errorf("renewals that nobody hears: %v, want what gRPC says", err)
	}
	cancel()
	if err := goleak.Find(before); err != nil {
		t.Errorf("a stream of renewals has ended, and leaves something: %v", err)
	}
}

// broken is a stream of renewals whose client has sent what nobody can read.
type broken struct{ contextOnly }

func (broken) Send(*pb.LeaseKeepAliveResponse) error { return nil }

func (broken) Recv() (*pb.LeaseKeepAliveRequest, error) {
	return nil, status.Error(codes.ResourceExhausted, "larger than the limit")
}

// A stream of renewals on which something came that cannot be read ends with why, and not as if the
// client had closed it.
func TestRenewalsThatCannotBeReadEndWithWhy(t *testing.T) {
	s := &leaseServer{Server: New(newFake(t, watch.Config{}), Config{})}
	err := wantReturn(t, "a stream of renewals that cannot be read", func() error { return s.LeaseKeepAlive(broken{contextOnly{ctx: t.Context()}}) })
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("renewals that cannot be read: %v, want what gRPC says", err)
	}
}

// Renewals that are under way when the member leaves end with the error on which clients go on at
// another member: a renewal that nobody knows the end of is not answered.
func TestRenewalsUnderWayEndWithTheStreams(t *testing.T) {
	f := newFake(t, watch.Config{})
	begun := make(chan struct{}, 1)
	f.keepAlive = func() func(context.Context) {
		return func(ctx context.Context) {
			begun <- struct{}{}
			<-ctx.Done()
		}
	}
	s := f.serve(t, Config{})
	s.grant(7)
	stream, err := pb.NewLeaseClient(s.conn).LeaseKeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: 7}); err != nil {
		t.Fatal(err)
	}
	<-begun
	s.server.EndStreams()
	if r, err := stream.Recv(); !same(err, rpctypes.ErrGRPCStopped) {
		t.Errorf("a renewal under way: %v, %v, want that the server stops", r, err)
	}
}

// The longest lease that there may be is granted, and a longer one is refused.
func TestTheLongestLease(t *testing.T) {
	leases := &leaseServer{Server: New(newFake(t, watch.Config{}), Config{})}
	if _, err := leases.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: kv.MaxLeaseTTL}); err != nil {
		t.Errorf("the longest lease: %v", err)
	}
	if _, err := leases.LeaseGrant(t.Context(), &pb.LeaseGrantRequest{ID: 8, TTL: kv.MaxLeaseTTL + 1}); !same(err, rpctypes.ErrGRPCLeaseTTLTooLarge) {
		t.Errorf("a lease that is longer by a second: %v, want %v", err, rpctypes.ErrGRPCLeaseTTLTooLarge)
	}
}

// The keys of a lease that cannot be read as fresh as is asked for are not told.
func TestKeysOfALeaseThatCannotBeRead(t *testing.T) {
	f := newFake(t, watch.Config{})
	(&served{fake: f, t: t}).grant(7)
	leases := &leaseServer{Server: New(partly{fake: f, barrier: rpctypes.ErrGRPCNoLeader}, Config{})}
	if got, err := leases.LeaseTimeToLive(t.Context(), &pb.LeaseTimeToLiveRequest{ID: 7, Keys: true}); !same(err, rpctypes.ErrGRPCNoLeader) {
		t.Errorf("the keys of a lease without a leader: %v, %v, want %v", got, err, rpctypes.ErrGRPCNoLeader)
	}
}
