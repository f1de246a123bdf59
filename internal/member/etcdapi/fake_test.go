package etcdapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/member/backup"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a cluster of one without a log: a store behind a mutex.
type fake struct {
	mu    sync.Mutex
	store *kv.Store
	alarm atomic.Pointer[alarm.State]
	view  atomic.Pointer[kv.View]
	shown chan struct{} // closed when view is a state
	hub   *watch.Hub

	leader    atomic.Uint64
	lostAt    atomic.Int64                        // unix nanoseconds
	fail      atomic.Pointer[error]               // what Propose, Barrier and KeepAlive return
	barriers  atomic.Int64                        // calls of Barrier
	held      atomic.Int64                        // states that are held
	reclaimed atomic.Int64                        // calls of Reclaimed
	keepAlive func() (wait func(context.Context)) // called by KeepAlive, if set
	proposed  func(proto.Message)                 // is told each request, if set
	hidden    atomic.Bool                         // as in key order: what is written can be read, and is not published

	users    atomic.Pointer[auth.State] // none are in force while it is not set
	logins   uint64
	assigned func(replica.Token) // is told the tokens, if set

	members    atomic.Pointer[[]*pb.Member] // those of Members, if set
	readLeases atomic.Pointer[ReadLeaseStatus]
}

func newFake(t testing.TB, c watch.Config) *fake {
	f := &fake{store: kv.New()}
	return f.begin(t, c, f.store.View())
}

// begin has it show a view.
func (f *fake) begin(t testing.TB, c watch.Config, v kv.View) *fake {
	f.shown = make(chan struct{})
	f.show(v)
	f.hub = watch.NewHub(v, c)
	f.leader.Store(11)
	f.readLeases.Store(&ReadLeaseStatus{Policy: "off", Order: "strict"})
	t.Cleanup(f.hub.Close)
	return f
}

func (f *fake) publish() {
	v := f.store.View()
	f.show(v)
	f.hub.Publish(v)
}

// show stores a view; one caller at a time.
func (f *fake) show(v kv.View) {
	if before := f.view.Swap(&v); v.Revision() > 0 && (before == nil || before.Revision() == 0) {
		close(f.shown)
	}
}

func (f *fake) failure() error {
	if err := f.fail.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *fake) Propose(ctx context.Context, r proto.Message) (resp proto.Message, err error) {
	if err := cmp.Or(f.failure(), ctx.Err()); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.proposed != nil {
		f.proposed(r)
	}
	if err := f.judge(ctx, r); err != nil {
		return nil, err
	}
	if err := f.Alarms().Refuses(r); err != nil {
		return nil, err
	}
	if auth.Changes(r) {
		return f.changeUsers(ctx, r)
	}
	switch r := r.(type) {
	case *pb.PutRequest:
		resp, err = f.store.Put(r)
	case *pb.DeleteRangeRequest:
		resp, err = f.store.DeleteRange(r)
	case *pb.TxnRequest:
		resp, err = f.store.Txn(r)
	case *pb.CompactionRequest:
		err = f.store.Compact(r.Revision)
		for f.store.Reclaim(1000) {
		}
		resp = &pb.CompactionResponse{Header: &pb.ResponseHeader{Revision: f.store.Revision()}}
	case *pb.LeaseGrantRequest:
		ttl := max(r.TTL, 2)
		err = f.store.Grant(r.ID, ttl)
		resp = &pb.LeaseGrantResponse{Header: &pb.ResponseHeader{Revision: f.store.Revision()}, ID: r.ID, TTL: ttl}
	case *pb.LeaseRevokeRequest:
		err = f.store.Revoke(r.ID)
		resp = &pb.LeaseRevokeResponse{Header: &pb.ResponseHeader{Revision: f.store.Revision()}}
	case *pb.AlarmRequest:
		alarms, told, failed := cmp.Or(f.Alarms(), alarm.New()).Apply(r)
		if failed == nil {
			told.Header = &pb.ResponseHeader{Revision: f.store.Revision()}
			f.alarm.Store(alarms)
		}
		resp, err = told, failed
	default:
		err = fmt.Errorf("fake: request %T", r)
	}
	if err != nil {
		return nil, err
	}
	if !f.hidden.Load() {
		f.publish()
	}
	return resp, nil
}

func (f *fake) Barrier(ctx context.Context) error {
	f.barriers.Add(1)
	return cmp.Or(f.failure(), ctx.Err())
}

func (f *fake) ReadView(ctx context.Context, r proto.Message) (kv.View, error) {
	if f.hidden.Load() {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.store.View(), f.failure()
	}
	if err := f.Barrier(ctx); err != nil {
		return f.View(), err
	}
	return f.View(), f.judge(ctx, r)
}

func (f *fake) View() kv.View          { return *f.view.Load() }
func (f *fake) Alarms() *alarm.State   { return f.alarm.Load() }
func (f *fake) Shown() <-chan struct{} { return f.shown }

func (f *fake) Hold(context.Context) (backup.State, func(), error) {
	if err := f.failure(); err != nil {
		return backup.State{}, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	view, release := f.store.Pin()
	f.held.Add(1)
	return backup.State{View: view, Index: 7, Term: 3, Members: f.Members()}, func() { f.held.Add(-1); release() }, nil
}
func (f *fake) Reclaimed(ctx context.Context) error {
	f.reclaimed.Add(1)
	return cmp.Or(f.failure(), ctx.Err())
}

func (f *fake) Watches() *watch.Hub { return f.hub }

func (f *fake) KeepAlive(id int64) func(context.Context) (int64, error) {
	wait := func(context.Context) {}
	if f.keepAlive != nil {
		wait = f.keepAlive()
	}
	return func(ctx context.Context) (int64, error) {
		wait(ctx)
		l, _ := f.View().Lease(id)
		return l.TTL, f.failure()
	}
}

func (f *fake) TimeToLive(_ context.Context, id int64) (int64, int64, error) {
	l, ok := f.View().Lease(id)
	if !ok {
		return -1, 0, f.failure()
	}
	return l.TTL - 1, l.TTL, f.failure()
}

func (f *fake) ID() uint64        { return 11 }
func (f *fake) ClusterID() uint64 { return 22 }

func (f *fake) Leader() (uint64, uint64, time.Duration) {
	if id := f.leader.Load(); id != 0 {
		return id, 33, 0
	}
	return 0, 33, time.Since(time.Unix(0, f.lostAt.Load()))
}

// loseLeader forgets the leader, as if that had been some time ago.
func (f *fake) loseLeader(ago time.Duration) {
	f.lostAt.Store(time.Now().Add(-ago).UnixNano())
	f.leader.Store(0)
}

func (f *fake) Members() []*pb.Member {
	if list := f.members.Load(); list != nil {
		return *list
	}
	return []*pb.Member{{ID: 11, Name: "one", PeerURLs: []string{"http://p"}, ClientURLs: []string{"http://c"}}}
}

func (f *fake) AddMember(_ context.Context, peerURLs []string, learner bool) (*pb.Member, []*pb.Member, error) {
	m := &pb.Member{ID: 12, PeerURLs: peerURLs, IsLearner: learner}
	list := append(f.Members(), m)
	f.members.Store(&list)
	return m, list, f.failure()
}

// member has its member 12 be another; nil is none.
func (f *fake) member(id uint64, now *pb.Member) ([]*pb.Member, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	list := slices.Clone(f.Members())
	if at := len(list) - 1; list[at].ID != id || at == 0 {
		return nil, rpctypes.ErrGRPCMemberNotFound
	} else if list = list[:at]; now != nil {
		list = append(list, now)
	}
	f.members.Store(&list)
	return list, nil
}

func (f *fake) RemoveMember(_ context.Context, id uint64) ([]*pb.Member, error) {
	return f.member(id, nil)
}

func (f *fake) PromoteMember(_ context.Context, id uint64) ([]*pb.Member, error) {
	return f.member(id, &pb.Member{ID: id, PeerURLs: []string{"http://p2"}})
}

func (f *fake) UpdateMember(_ context.Context, id uint64, peerURLs []string) ([]*pb.Member, error) {
	return f.member(id, &pb.Member{ID: id, PeerURLs: peerURLs})
}

func (f *fake) MoveLeader(_ context.Context, to uint64) error {
	f.leader.Store(to)
	return f.failure()
}

func (f *fake) Status() Status {
	return Status{CommittedIndex: 44, AppliedIndex: 43, Size: 1000, SizeInUse: 900, IsLearner: true, Errors: []string{"odd"}}
}

func (f *fake) ReadLeases() (ReadLeaseStatus, error) { return *f.readLeases.Load(), f.failure() }

func (f *fake) SetReadPolicy(_ context.Context, policy, cells string) error {
	if cells == "nonsense" {
		return fmt.Errorf("%w: %s", ErrCells, cells)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	st := *f.readLeases.Load()
	st.Policy = policy
	f.readLeases.Store(&st)
	return f.failure()
}

// partly fails where an error is set, and nowhere else.
type partly struct {
	*fake
	barrier, readLeases error
}

func (b partly) Barrier(context.Context) error { return b.barrier }

func (b partly) ReadLeases() (ReadLeaseStatus, error) {
	if b.readLeases != nil {
		return ReadLeaseStatus{}, b.readLeases
	}
	return b.fake.ReadLeases()
}

// A served is a server in this process, and connections to it.
type served struct {
	*fake
	t      testing.TB
	server *Server
	listen *bufconn.Listener
	conn   *grpc.ClientConn
}

func serve(t testing.TB, c Config, w watch.Config) *served {
	t.Helper()
	return newFake(t, w).serve(t, c)
}

func (f *fake) serve(t testing.TB, c Config) *served {
	t.Helper()
	s := &served{fake: f, t: t, listen: bufconn.Listen(1 << 20)}
	s.server = New(s.fake, c)
	g := grpc.NewServer(append(s.server.Options(), grpc.WaitForHandlers(true))...)
	s.server.Register(g)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := g.Serve(s.listen); err != nil && !errors.Is(err, grpc.ErrServerStopped) { // the test may be over first
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		s.server.Shutdown()
		g.Stop()
		<-done
	})
	s.conn = s.dial()
	return s
}

func (s *served) dialer() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return s.listen.DialContext(ctx)
	})
}

func (s *served) dial() *grpc.ClientConn {
	s.t.Helper()
	conn, err := grpc.NewClient("passthrough:fake", s.dialer(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// client is etcd's own.
func (s *served) client() *clientv3.Client {
	s.t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{"passthrough:fake"},
		DialOptions: []grpc.DialOption{s.dialer()},
		DialTimeout: 10 * time.Second,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

func (s *served) kv() pb.KVClient { return pb.NewKVClient(s.conn) }

// put writes through the backend.
func (s *served) put(key, value string) (revision int64) {
	s.t.Helper()
	resp, err := s.Propose(context.Background(), &pb.PutRequest{Key: []byte(key), Value: []byte(value)})
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.(*pb.PutResponse).Header.Revision
}
