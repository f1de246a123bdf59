package etcdapi

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// The limits and intervals that nobody sets are etcd's.
func TestDefaults(t *testing.T) {
	c := Config{}.withDefaults()
	for name, tt := range map[string]struct{ got, want any }{
		"MaxRequestBytes":       {c.MaxRequestBytes, 1572864},
		"MaxTxnOps":             {c.MaxTxnOps, 128},
		"MaxConcurrentStreams":  {c.MaxConcurrentStreams, uint32(0)},
		"WatchProgressInterval": {c.WatchProgressInterval, 10 * time.Minute},
		"ElectionTimeout":       {c.ElectionTimeout, time.Second},
		"KeepAliveMinTime":      {c.KeepAliveMinTime, 5 * time.Second},
		"KeepAliveInterval":     {c.KeepAliveInterval, 2 * time.Hour},
		"KeepAliveTimeout":      {c.KeepAliveTimeout, 20 * time.Second},
		"QuotaBytes":            {c.QuotaBytes, int64(0)},
		"AnswerBytes":           {c.AnswerBytes, int64(256 << 20)},
		"AnswerPatience":        {c.AnswerPatience, 5 * time.Second},
		"ReadLeaseChanges":      {c.ReadLeaseChanges, ChangePolicy},
		"Short":                 {c.Short(), false},
		"Logger":                {c.Logger, slog.Default()},
		"the least interval":    {Config{WatchProgressInterval: 1}.withDefaults().WatchProgressInterval, 100 * time.Millisecond},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v by default, want %v", name, tt.got, tt.want)
		}
	}
	for range 100 {
		if d := c.progressInterval(); d < c.WatchProgressInterval || d > c.WatchProgressInterval*11/10 {
			t.Fatalf("an interval of %v, want up to a tenth more than %v", d, c.WatchProgressInterval)
		}
	}
}

func TestQuotaCountsTheRequest(t *testing.T) {
	s := serve(t, Config{QuotaBytes: 100_000}, watch.Config{})
	_, err := s.kv().Put(t.Context(), &pb.PutRequest{Key: []byte("k"), Value: make([]byte, 100_000)})
	if !same(err, rpctypes.ErrGRPCNoSpace) {
		t.Errorf("a request that alone is beyond the quota: %v, want no space", err)
	}
}

func TestLargeReadsWhileMemoryIsShort(t *testing.T) {
	var short atomic.Bool
	s := serve(t, Config{Short: short.Load}, watch.Config{})
	s.put("big", string(make([]byte, 100<<10)))
	s.put("small", "v")
	get := func(key string) error {
		_, err := s.kv().Range(t.Context(), &pb.RangeRequest{Key: []byte(key)})
		return err
	}
	if err := get("big"); err != nil {
		t.Fatal(err)
	}
	short.Store(true)
	if err := get("big"); !same(err, rpctypes.ErrGRPCRequestTooManyRequests) {
		t.Errorf("a large read: %v, want too many requests", err)
	}
	if err := get("small"); err != nil {
		t.Errorf("a small read: %v", err)
	}
	if !s.server.answers.room.TryAcquire(DefaultAnswerBytes) {
		t.Errorf("what was refused has kept room")
	}
}

// asks counts the barriers of a call.
func (s *served) asks(call func() error) int64 {
	s.t.Helper()
	before := s.barriers.Load()
	if err := call(); err != nil {
		s.t.Error(err)
	}
	return s.barriers.Load() - before
}

// Linearizable reads are behind a barrier, and serializable ones ask nobody.
func TestReadsAreFresh(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.put("k", "v")
	key, txn := []byte("k"), func(serializable bool) *pb.TxnRequest {
		return &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(&pb.RangeRequest{Key: []byte("k"), Serializable: serializable})}}
	}
	for name, tt := range map[string]struct {
		want int64
		call func() error
	}{
		"get": {1, func() error { _, err := s.kv().Range(t.Context(), &pb.RangeRequest{Key: key}); return err }},
		"serializable get": {0, func() error {
			_, err := s.kv().Range(t.Context(), &pb.RangeRequest{Key: key, Serializable: true})
			return err
		}},
		"transaction":              {1, func() error { _, err := s.kv().Txn(t.Context(), txn(false)); return err }},
		"serializable transaction": {0, func() error { _, err := s.kv().Txn(t.Context(), txn(true)); return err }},
		"stream": {1, func() error {
			rs, err := s.kv().RangeStream(t.Context(), &pb.RangeRequest{Key: key})
			if err == nil {
				_, err = rs.Recv()
			}
			return err
		}},
		"status of users": {1, func() error {
			_, err := pb.NewAuthClient(s.conn).AuthStatus(t.Context(), &pb.AuthStatusRequest{})
			return err
		}},
		"leader": {1, func() error {
			_, err := v3electionpb.NewElectionClient(s.conn).Leader(t.Context(), &v3electionpb.LeaderRequest{Name: []byte("nobody")})
			if status.Convert(err).Message() == errNoElected.Error() {
				err = nil
			}
			return err
		}},
	} {
		if got := s.asks(tt.call); got != tt.want {
			t.Errorf("%s: behind %d barriers, want %d", name, got, tt.want)
		}
	}
}

func TestLeaseReadsAreFresh(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.grant(7)
	c := pb.NewLeaseClient(s.conn)
	for keys, want := range map[bool]int64{false: 0, true: 1} {
		call := func() error {
			_, err := c.LeaseTimeToLive(t.Context(), &pb.LeaseTimeToLiveRequest{ID: 7, Keys: keys})
			return err
		}
		if got := s.asks(call); got != want {
			t.Errorf("time to live, with keys %v: behind %d barriers, want %d", keys, got, want)
		}
	}
	if got := s.asks(func() error { _, err := c.LeaseLeases(t.Context(), &pb.LeaseLeasesRequest{}); return err }); got != 1 {
		t.Errorf("leases: behind %d barriers, want 1", got)
	}
}

// A caller that has lost the leadership, and resigns, does not end its successor's. Its
// key may even be there again.
func TestResignOfAFormerLeader(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	c := v3electionpb.NewElectionClient(s.conn)
	s.grant(0xa)
	campaign := func() *v3electionpb.LeaderKey {
		t.Helper()
		r, err := c.Campaign(t.Context(), &v3electionpb.CampaignRequest{Name: []byte("e"), Lease: 0xa})
		if err != nil {
			t.Fatal(err)
		}
		return r.Leader
	}
	former := campaign()
	s.remove(string(former.Key))
	now := campaign()
	if _, err := c.Resign(t.Context(), &v3electionpb.ResignRequest{Leader: former}); err != nil {
		t.Errorf("to resign from what is lost: %v", err)
	}
	r, err := s.View().Range(&pb.RangeRequest{Key: now.Key})
	if err != nil || len(r.Kvs) != 1 || r.Kvs[0].CreateRevision != now.Rev {
		t.Errorf("the leadership of revision %d is not there any more, want that it is still there: %v, %v", now.Rev, r, err)
	}
	if _, err := c.Resign(t.Context(), &v3electionpb.ResignRequest{Leader: now}); err != nil || s.keys("e") != 0 {
		t.Errorf("to resign: %v, %d keys, want none", err, s.keys("e"))
	}
}

// A contender that gives up takes its key back and keeps the lease that it brought; one
// that the server granted ends.
func TestLockKeepsALeaseThatWasBrought(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	c := v3lockpb.NewLockClient(s.conn)
	s.grant(0xa)
	s.grant(0xb)
	if _, err := c.Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("l"), Lease: 0xa}); err != nil {
		t.Fatal(err)
	}
	for _, lease := range []int64{0xb, 0} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := c.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l"), Lease: lease})
			done <- err
		}()
		s.await("l", 2)
		s.waiters(1)
		cancel()
		if err := <-done; status.Code(err) != codes.Canceled {
			t.Errorf("a call that was given up: %v", err)
		}
		s.await("l", 1)
	}
	if _, there := s.View().Lease(0xb); !there {
		t.Errorf("a contender gave up, and its lease was revoked, which it had brought")
	}
	if n := s.View().Stats().Leases; n != 2 {
		t.Errorf("%d leases, want the two that were brought: one of the server's was left", n)
	}
}

// Streams end with the error on which etcd's clients go on at another member.
func TestStreamsEnd(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	w := s.watch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte("a")})
	w.recv()
	keep, err := pb.NewLeaseClient(s.conn).LeaseKeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.grant(7)
	if err := keep.Send(&pb.LeaseKeepAliveRequest{ID: 7}); err != nil {
		t.Fatal(err)
	}
	if _, err := keep.Recv(); err != nil {
		t.Fatal(err)
	}
	s.server.EndStreams()
	if _, err := keep.Recv(); !same(err, rpctypes.ErrGRPCStopped) {
		t.Errorf("renewals: %v, want that the server stops", err)
	}
	if _, err := w.stream.Recv(); !same(err, rpctypes.ErrGRPCStopped) {
		t.Errorf("a watch: %v, want that the server stops", err)
	}
	// A stream that comes later does not stay.
	late, err := pb.NewLeaseClient(s.conn).LeaseKeepAlive(t.Context())
	if err == nil {
		_, err = late.Recv()
	}
	if !same(err, rpctypes.ErrGRPCStopped) {
		t.Errorf("a stream that comes later: %v, want that the server stops", err)
	}
}

// In key order a member may be asked for a revision that was answered and is not published yet:
// it looks again behind a barrier before it says that there is none such.
func TestFutureRevisionBehindABarrier(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.hidden.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // what never comes fails the test
	defer cancel()
	for serializable, want := range map[bool]int64{false: 1, true: 0} {
		before := s.barriers.Load()
		_, err := s.kv().Range(ctx, &pb.RangeRequest{Key: []byte("a"), Revision: 9, Serializable: serializable})
		if got := s.barriers.Load() - before; !same(err, rpctypes.ErrGRPCFutureRev) || got != want {
			t.Errorf("a revision that there is not, serializable %v: %v behind %d barriers, want %v behind %d", serializable, err, got, rpctypes.ErrGRPCFutureRev, want)
		}
	}
}

// turning shows some views first, and then those of its fake.
type turning struct {
	*fake
	first chan kv.View
}

func (b turning) View() kv.View {
	select {
	case v := <-b.first:
		return v
	default:
		return b.fake.View()
	}
}

func (b turning) ReadView(context.Context, proto.Message) (kv.View, error) { return b.View(), nil }

func (b turning) ViewFor(context.Context, proto.Message) (kv.View, error) { return b.View(), nil }

// A read whose state was compacted meanwhile begins anew with a later one.
func TestReadsOfAStaleViewBeginAnew(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := &kvServer{Server: New(turning{f, make(chan kv.View, 1)}, Config{})}
	put := func() {
		if _, err := f.Propose(t.Context(), &pb.PutRequest{Key: []byte("k")}); err != nil {
			t.Fatal(err)
		}
	}
	put()
	stale := f.View()
	put()
	if _, err := f.Propose(t.Context(), &pb.CompactionRequest{Revision: 3}); err != nil {
		t.Fatal(err)
	}
	get := &pb.RangeRequest{Key: []byte("k")}
	for name, call := range map[string]func() (*pb.ResponseHeader, error){
		"get": func() (*pb.ResponseHeader, error) { r, err := s.Range(t.Context(), get); return r.GetHeader(), err },
		"serializable get": func() (*pb.ResponseHeader, error) {
			r, err := s.Range(t.Context(), &pb.RangeRequest{Key: get.Key, Serializable: true})
			return r.GetHeader(), err
		},
		"transaction": func() (*pb.ResponseHeader, error) {
			r, err := s.Txn(t.Context(), &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(get)}})
			return r.GetHeader(), err
		},
		"look-up of a holder": func() (*pb.ResponseHeader, error) {
			_, revision, err := s.lookup(t.Context(), get)
			return &pb.ResponseHeader{Revision: revision}, err
		},
	} {
		s.backend.(turning).first <- stale
		if h, err := call(); err != nil || h.Revision != 3 {
			t.Errorf("%s of a state that was compacted: revision %d, %v; want 3 from the next state", name, h.GetRevision(), err)
		}
	}
}

// A connection has as many calls in flight as it may have, and no more.
func TestCallsOfAConnectionAreBounded(t *testing.T) {
	s := serve(t, Config{MaxConcurrentStreams: 1}, watch.Config{})
	w := s.watch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte("a")})
	w.recv() // so that the client knows the bound
	get := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := s.kv().Range(ctx, &pb.RangeRequest{Key: []byte("a")})
		return err
	}
	if err := get(200 * time.Millisecond); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a second call beside a watch: %v, want that it waits", err)
	}
	s.server.EndStreams()
	if err := get(30 * time.Second); err != nil {
		t.Errorf("a call when the watch has ended: %v", err)
	}
}

// A read that has to look again, and cannot, tells why: that there is no such revision is known of
// a fresh state only.
func TestAFutureRevisionWithoutABarrier(t *testing.T) {
	f := newFake(t, watch.Config{})
	f.hidden.Store(true)
	s := &kvServer{Server: New(partly{fake: f, barrier: rpctypes.ErrGRPCNoLeader}, Config{})}
	if _, err := s.Range(t.Context(), &pb.RangeRequest{Key: []byte("a"), Revision: 9}); !same(err, rpctypes.ErrGRPCNoLeader) {
		t.Errorf("a revision of which nobody can be asked: %v, want %v", err, rpctypes.ErrGRPCNoLeader)
	}
}

// stale shows one view for ever.
type stale struct {
	*fake
	view kv.View
}

func (b stale) View() kv.View { return b.view }

func (b stale) ReadView(context.Context, proto.Message) (kv.View, error) { return b.view, nil }

func (b stale) ViewFor(context.Context, proto.Message) (kv.View, error) { return b.view, nil }

// A read whose state is compacted again and again ends with its caller.
func TestAReadOfStaleViewsEndsWithItsCaller(t *testing.T) {
	f := newFake(t, watch.Config{})
	view := f.View()
	for range 2 {
		if _, err := f.Propose(t.Context(), &pb.PutRequest{Key: []byte("k")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Propose(t.Context(), &pb.CompactionRequest{Revision: 3}); err != nil {
		t.Fatal(err)
	}
	s := &kvServer{Server: New(stale{f, view}, Config{})}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if err := wantReturn(t, "a read whose caller is gone", func() error { _, err := s.Range(ctx, &pb.RangeRequest{Key: []byte("k")}); return err }); err == nil {
		t.Error("a read of nothing but stale views is answered")
	}
}

// In key order a revision that was answered, and was not published when a read began, is read once
// it is.
func TestARevisionThatIsPublishedMeanwhile(t *testing.T) {
	f := newFake(t, watch.Config{})
	before := f.View()
	if _, err := f.Propose(t.Context(), &pb.PutRequest{Key: []byte("k")}); err != nil {
		t.Fatal(err)
	}
	s := &kvServer{Server: New(turning{f, make(chan kv.View, 1)}, Config{})}
	s.backend.(turning).first <- before
	if r, err := s.Range(t.Context(), &pb.RangeRequest{Key: []byte("k"), Revision: 2}); err != nil || len(r.Kvs) != 1 {
		t.Errorf("a revision that is published while it is asked for: %v, %v, want its key", r, err)
	}
}

// keyed is a backend in key order: what ReadView shows is not published before a Barrier.
type keyed struct {
	*fake
	first chan kv.View // what ReadView shows first
}

func (b keyed) ReadView(context.Context, proto.Message) (kv.View, error) {
	select {
	case v := <-b.first:
		return v, nil
	default:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.store.View(), nil
}

func (b keyed) Barrier(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.publish()
	return nil
}

// In key order a linearizable read that begins anew reads the fresh state again, and not the
// published one. A revision that was not there is looked for in the published state behind a
// barrier, and not before.
func TestAReadThatBeginsAnewIsAsFreshAsTheFirst(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := &served{fake: f, t: t}
	s.put("k", "1")
	before := f.View()
	if _, err := f.Propose(t.Context(), &pb.CompactionRequest{Revision: s.put("k", "2")}); err != nil {
		t.Fatal(err)
	}
	f.hidden.Store(true)
	s.put("k", "3")
	for _, tt := range []struct {
		what     string
		first    kv.View
		revision int64
	}{
		{"of a state that was compacted", before, 0},
		{"of a revision that is not published yet", f.View(), 4},
	} {
		b := keyed{f, make(chan kv.View, 1)}
		b.first <- tt.first
		got, err := (&kvServer{Server: New(b, Config{})}).Range(t.Context(), &pb.RangeRequest{Key: []byte("k"), Revision: tt.revision})
		if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "3" {
			t.Errorf("a linearizable read %s: %v, %v; want what was written last", tt.what, got, err)
		}
	}
}
