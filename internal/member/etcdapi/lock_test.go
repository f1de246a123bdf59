package etcdapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

func (s *served) grant(id int64) {
	s.t.Helper()
	if _, err := s.Propose(context.Background(), &pb.LeaseGrantRequest{ID: id, TTL: 30}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) revoke(id int64) {
	s.t.Helper()
	if _, err := s.Propose(context.Background(), &pb.LeaseRevokeRequest{ID: id}); err != nil {
		s.t.Fatal(err)
	}
}

// keys counts what is under name.
func (s *served) keys(name string) int64 {
	s.t.Helper()
	key, end := contenders([]byte(name))
	r, err := s.View().Range(&pb.RangeRequest{Key: key, RangeEnd: end})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Count
}

// await waits until n contenders are under name.
func (s *served) await(name string, n int64) {
	s.t.Helper()
	key, end := contenders([]byte(name))
	w := s.watch(s.t.(*testing.T))
	w.create(&pb.WatchCreateRequest{Key: key, RangeEnd: end})
	for s.keys(name) != n {
		w.recv()
	}
}

func TestLockService(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	c, ctx := v3lockpb.NewLockClient(s.conn), t.Context()
	s.grant(0xa)
	s.grant(0xb)
	s.grant(0xc)
	first, err := c.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l"), Lease: 0xa})
	if err != nil {
		t.Fatal(err)
	}
	if string(first.Key) != "l/a" {
		t.Errorf("key %q, want l/a", first.Key)
	}
	checkHeader(t, "lock", first.Header, 2)
	again, err := c.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l"), Lease: 0xa})
	if err != nil || string(again.Key) != "l/a" {
		t.Errorf("lock again: %v, %v, want the same", again, err)
	}
	type outcome struct {
		resp *v3lockpb.LockResponse
		err  error
	}
	lock := func(ctx context.Context, lease int64) chan outcome {
		done := make(chan outcome, 1)
		go func() {
			resp, err := c.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l"), Lease: lease})
			done <- outcome{resp, err}
		}()
		return done
	}
	// Three wait: one gives up, one loses its lease, one gets it.
	impatient, stop := context.WithCancel(ctx)
	expired := lock(ctx, 0xc)
	s.await("l", 2)
	b := lock(impatient, 0xb)
	s.await("l", 3)
	last := lock(ctx, 0) // with a lease of the server's
	s.await("l", 4)
	stop()
	if o := <-b; status.Code(o.err) != codes.Canceled {
		t.Errorf("canceled lock: %v", o.err)
	}
	s.await("l", 3)
	s.revoke(0xc)
	if o := <-expired; status.Convert(o.err).Message() != concurrency.ErrSessionExpired.Error() {
		t.Errorf("lock whose lease ended: %v, want %v", o.err, concurrency.ErrSessionExpired)
	}
	if got, err := c.Unlock(ctx, &v3lockpb.UnlockRequest{Key: first.Key}); err != nil || got.Header.Revision == 0 {
		t.Errorf("unlock: %v, %v", got, err)
	}
	o := <-last
	if o.err != nil || !strings.HasPrefix(string(o.resp.Key), "l/") || s.keys("l") != 1 {
		t.Errorf("last lock: %v with %d keys, want it to hold alone", o, s.keys("l"))
	}
	for name, call := range map[string]struct {
		want error
		got  func() error
	}{
		"unknown lease": {rpctypes.ErrGRPCLeaseNotFound, func() error {
			_, err := c.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l"), Lease: 99})
			return err
		}},
		"unlock nothing": {rpctypes.ErrGRPCEmptyKey, func() error {
			_, err := c.Unlock(ctx, &v3lockpb.UnlockRequest{})
			return err
		}},
	} {
		if err := call.got(); !errors.Is(err, call.want) {
			t.Errorf("%s: %v, want %v", name, err, call.want)
		}
	}
}

func TestLockServiceExcludes(t *testing.T) {
	s := serve(t, Config{}, watch.Config{MaxStreamEvents: 2, ChunkEvents: 1})
	const contenders, rounds = 8, 20
	held := 0 // guarded by the lock alone
	var wg sync.WaitGroup
	for i := range contenders {
		s.grant(int64(i + 1))
		c := v3lockpb.NewLockClient(s.conn)
		wg.Go(func() {
			for range rounds {
				l, err := c.Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("l"), Lease: int64(i + 1)})
				if err != nil {
					t.Error(err)
					return
				}
				held++
				if _, err := c.Unlock(t.Context(), &v3lockpb.UnlockRequest{Key: l.Key}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if held != contenders*rounds {
		t.Errorf("held %d times, want %d", held, contenders*rounds)
	}
}

func TestElectionService(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	c := v3electionpb.NewElectionClient(s.conn)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // what never comes fails the test
	defer cancel()
	name := []byte("e")
	if _, err := c.Leader(ctx, &v3electionpb.LeaderRequest{Name: name}); status.Convert(err).Message() != concurrency.ErrElectionNoLeader.Error() {
		t.Errorf("leader of nobody: %v", err)
	}
	observe, err := c.Observe(ctx, &v3electionpb.LeaderRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	want := func(value string) {
		t.Helper()
		r, err := observe.Recv()
		if err != nil || string(r.Kv.Value) != value || r.Header.RaftTerm != 33 {
			t.Fatalf("observed %v, %v, want %s", r, err, value)
		}
	}
	s.grant(0xa)
	s.grant(0xb)
	one, err := c.Campaign(ctx, &v3electionpb.CampaignRequest{Name: name, Lease: 0xa, Value: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	if l := one.Leader; string(l.Key) != "e/a" || l.Lease != 0xa || l.Rev != 2 || string(l.Name) != "e" {
		t.Errorf("leader %v, want e/a of revision 2", l)
	}
	want("one")
	if _, err := c.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: one.Leader, Value: []byte("uno")}); err != nil {
		t.Fatal(err)
	}
	want("uno")
	again, err := c.Campaign(ctx, &v3electionpb.CampaignRequest{Name: name, Lease: 0xa, Value: []byte("ein")})
	if err != nil || again.Leader.Rev != 2 {
		t.Errorf("campaign again: %v, %v, want revision 2", again, err)
	}
	want("ein")
	elected := make(chan *v3electionpb.CampaignResponse)
	go func() {
		two, err := c.Campaign(ctx, &v3electionpb.CampaignRequest{Name: name, Lease: 0xb, Value: []byte("two")})
		if err != nil {
			t.Error(err)
		}
		elected <- two
	}()
	s.await("e", 2)
	if _, err := c.Resign(ctx, &v3electionpb.ResignRequest{Leader: one.Leader}); err != nil {
		t.Fatal(err)
	}
	two := <-elected
	want("two")
	leader, err := c.Leader(ctx, &v3electionpb.LeaderRequest{Name: name})
	if err != nil || string(leader.Kv.Key) != "e/b" {
		t.Errorf("leader %v, %v, want e/b", leader, err)
	}
	_, err = c.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: one.Leader, Value: []byte("x")})
	if status.Convert(err).Message() != concurrency.ErrElectionNotLeader.Error() {
		t.Errorf("proclaim of a former leader: %v", err)
	}
	kept := two.Leader
	kept.Lease = 0 // not told: the key keeps its lease
	if _, err := c.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: kept, Value: []byte("duo")}); err != nil {
		t.Fatal(err)
	}
	want("duo")
	s.revoke(0xb)
	if n := s.keys("e"); n != 0 {
		t.Errorf("%d keys after the leader's lease ended, want none", n)
	}
	for _, err := range []error{
		func() error { _, err := c.Proclaim(ctx, &v3electionpb.ProclaimRequest{}); return err }(),
		func() error { _, err := c.Resign(ctx, &v3electionpb.ResignRequest{}); return err }(),
	} {
		if status.Code(err) != codes.Unknown || status.Convert(err).Message() != errMissingLeader.Error() {
			t.Errorf("no leader given: %v", err)
		}
	}
}

// A caller that is gone leaves its place: its key, or with it the lease that the server granted.
func TestAContenderIsWithdrawnThoughItsCallerIsGone(t *testing.T) {
	for _, lease := range []int64{0, 0xa} {
		f := newFake(t, watch.Config{})
		s := &served{fake: f, t: t, server: New(f, Config{})}
		if lease != 0 {
			s.grant(lease)
		}
		ctx, leave := context.WithCancel(t.Context())
		c, _, err := s.server.contend(ctx, []byte("l"), lease, nil)
		if err != nil {
			t.Fatal(err)
		}
		leave()
		s.server.withdraw(ctx, c)
		if n := s.keys("l"); n != 0 {
			t.Errorf("lease %x: %d contenders are left, whose callers are gone", lease, n)
		}
	}
}

// A campaign that cannot put its value leaves the election, although its lease contended before:
// its key would keep others out, and nobody would know that it leads.
func TestACampaignThatFailsLeaves(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := &served{fake: f, t: t, server: New(f, Config{})}
	s.grant(0xa)
	e := &electionServer{Server: s.server}
	campaign := func(ctx context.Context, value string) error {
		_, err := e.Campaign(ctx, &v3electionpb.CampaignRequest{Name: []byte("e"), Lease: 0xa, Value: []byte(value)})
		return err
	}
	if err := campaign(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	f.proposed = func(proto.Message) { leave() } // before its value is put
	if err := campaign(ctx, "two"); !errors.Is(err, context.Canceled) {
		t.Errorf("a campaign whose caller has gone: %v, want it canceled", err)
	}
	if n := s.keys("e"); n != 0 {
		t.Errorf("%d contenders are left of a campaign that failed: nobody else can lead", n)
	}
}

// A lease that the server granted for a contender whose key could not be put goes at once: the
// caller does not know of it.
func TestALeaseForNobodyIsRevoked(t *testing.T) {
	f := newFake(t, watch.Config{})
	ctx, leave := context.WithCancel(t.Context())
	granted := false
	f.proposed = func(r proto.Message) {
		if _, ok := r.(*pb.LeaseGrantRequest); ok {
			granted = true
			leave()
		}
	}
	if _, _, err := New(f, Config{}).contend(ctx, []byte("l"), 0, nil); !errors.Is(err, context.Canceled) || !granted {
		t.Errorf("a caller leaves before its key is put: %v, and a lease was granted: %v", err, granted)
	}
	for l := range f.View().Leases() {
		t.Errorf("lease %x is left, which nobody knows of", l.ID)
	}
}

// An observer that came before the first leader hears of each proclamation once, from the first on.
func TestObserveBeforeTheFirstLeader(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // what never comes fails the test
	defer cancel()
	stream, err := v3electionpb.NewElectionClient(s.conn).Observe(ctx, &v3electionpb.LeaderRequest{Name: []byte("e")})
	if err != nil {
		t.Fatal(err)
	}
	for s.hub.Stats().Watchers == 0 { // it waits for the first
		if ctx.Err() != nil {
			t.Fatal("an observer of nobody watches nothing")
		}
		time.Sleep(time.Millisecond)
	}
	s.put("d", "of no election")
	s.put("e/a", "one")
	s.put("e/b", "waits")
	s.put("e/a", "uno")
	for _, want := range []struct {
		value    string
		revision int64
	}{{"one", 3}, {"uno", 5}} {
		r, err := stream.Recv()
		if err != nil || string(r.Kv.Key) != "e/a" || string(r.Kv.Value) != want.value || r.Header.Revision != want.revision {
			t.Fatalf("observed %v, %v, want %s at revision %d", r, err, want.value, want.revision)
		}
	}
}

// stuck proposes nothing until the caller gives up.
type stuck struct{ *fake }

func (stuck) Propose(ctx context.Context, _ proto.Message) (proto.Message, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// While nothing can be written a call that has failed is not kept for longer than five seconds to
// withdraw its contender, and says in the log that the lease will have to end it.
func TestAWithdrawalIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, watch.Config{})
		defer f.hub.Close()
		var log strings.Builder
		s := New(stuck{f}, Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		begun := time.Now()
		s.withdraw(t.Context(), &contender{key: []byte("l/a"), created: 2, lease: 0xa})
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("a contender that cannot be withdrawn keeps its call for %v, want 5s", took)
		}
		if said := log.String(); !strings.Contains(said, "was not withdrawn") || !strings.Contains(said, "l/a") {
			t.Errorf("the log says %q, want which contender was not withdrawn", said)
		}
		begun = time.Now()
		s.withdraw(t.Context(), &contender{key: []byte("l/a"), lease: 0xa})
		if took := time.Since(begun); took != 0 {
			t.Errorf("a contender whose key was not put keeps its call for %v, want no time at all", took)
		}
	})
}

// A contender that brings no lease gets one of etcd's length.
func TestTheLeaseOfAContender(t *testing.T) {
	f := newFake(t, watch.Config{})
	if _, _, err := New(f, Config{}).contend(t.Context(), []byte("l"), 0, nil); err != nil {
		t.Fatal(err)
	}
	for l := range f.View().Leases() {
		if l.TTL != 60 {
			t.Errorf("a contender that brought no lease has one of %d s, want 60", l.TTL)
		}
	}
	if n := f.View().Stats().Leases; n != 1 {
		t.Errorf("%d leases, want one", n)
	}
}

// A campaign that is given up while another leads takes its key back.
func TestACampaignThatIsGivenUpLeaves(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.grant(0xa)
	s.put("e/0", "the leader")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := v3electionpb.NewElectionClient(s.conn).Campaign(ctx, &v3electionpb.CampaignRequest{Name: []byte("e"), Lease: 0xa})
		done <- err
	}()
	s.waiters(1)
	cancel()
	if err := <-done; status.Code(err) != codes.Canceled {
		t.Errorf("a campaign that was given up: %v", err)
	}
	for end := time.Now().Add(10 * time.Second); s.keys("e") != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a campaign that was given up keeps its key")
		}
	}
}

// A campaign whose lease ends while another leads is told that it does not lead, in etcd's words.
func TestACampaignWhoseLeaseEnds(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.grant(0xa)
	s.put("e/0", "the leader")
	done := make(chan error)
	go func() {
		_, err := v3electionpb.NewElectionClient(s.conn).Campaign(t.Context(), &v3electionpb.CampaignRequest{Name: []byte("e"), Lease: 0xa})
		done <- err
	}()
	s.waiters(1)
	s.revoke(0xa)
	if err := wantReturn(t, "a campaign without a lease", func() error { return <-done }); status.Convert(err).Message() != concurrency.ErrElectionNotLeader.Error() {
		t.Errorf("a campaign whose lease has ended: %v, want %v", err, concurrency.ErrElectionNotLeader)
	}
}

// An observer of nobody that falls behind a compaction begins anew, and finds who leads by then.
func TestObserveBehindACompaction(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // what never comes fails the test
	defer cancel()
	stream, err := v3electionpb.NewElectionClient(s.conn).Observe(ctx, &v3electionpb.LeaderRequest{Name: []byte("e")})
	if err != nil {
		t.Fatal(err)
	}
	for s.hub.Stats().Watchers == 0 { // it waits for the first
		if ctx.Err() != nil {
			t.Fatal("an observer of nobody watches nothing")
		}
		time.Sleep(time.Millisecond)
	}
	// The next change is compacted before it is published.
	s.mu.Lock()
	for _, key := range []string{"e/a", "x", "y"} {
		if _, err := s.store.Put(&pb.PutRequest{Key: []byte(key)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.store.Compact(4); err != nil {
		t.Fatal(err)
	}
	s.publish()
	s.mu.Unlock()
	r, err := stream.Recv()
	if err != nil || string(r.Kv.Key) != "e/a" || r.Header.Revision != 4 {
		t.Errorf("observed %v, %v, want the leader that came meanwhile, at revision 4", r, err)
	}
}

// The key of a contender has its lease as etcd's client prints it, whatever the lease is: only so do
// both exclude each other.
func TestTheKeyOfAContender(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := &served{fake: f, t: t, server: New(f, Config{})}
	for lease, want := range map[int64]string{0x694d8f2a3c5b7e01: "l/694d8f2a3c5b7e01", 0xa: "l/a", -0xa: "l/-a"} {
		s.grant(lease)
		if c, _, err := s.server.contend(t.Context(), []byte("l"), lease, nil); err != nil || string(c.key) != want {
			t.Errorf("a contender with the lease %x: %+v, %v; want the key %s", lease, c, err, want)
		}
	}
}

// A call that has failed takes back the key that it has put, and not one that another call of the
// same lease has put since.
func TestAWithdrawalOfAnothersKey(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := &served{fake: f, t: t, server: New(f, Config{})}
	s.grant(0xa)
	c, _, err := s.server.contend(t.Context(), []byte("l"), 0xa, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.remove("l/a")
	s.put("l/a", "of another call")
	s.server.withdraw(t.Context(), c)
	if n := s.keys("l"); n != 1 {
		t.Errorf("%d contenders are left, want the one of another call", n)
	}
}

// A second contention with the same value writes nothing: observers hear of no value twice.
func TestACampaignForTheSameValue(t *testing.T) {
	f := newFake(t, watch.Config{})
	(&served{fake: f, t: t}).grant(0xa)
	e := &electionServer{Server: New(f, Config{})}
	for range 2 {
		r, err := e.Campaign(t.Context(), &v3electionpb.CampaignRequest{Name: []byte("e"), Lease: 0xa, Value: []byte("one")})
		if err != nil || r.Leader.Rev != 2 || r.Header.Revision != 2 || f.View().Revision() != 2 {
			t.Errorf("campaign: %v, %v, and the revision is %d; want all at 2", r, err, f.View().Revision())
		}
	}
}

// deaf is an observer that hears nothing any more, though its call goes on.
type deaf struct{ contextOnly }

func (deaf) Send(*v3electionpb.LeaderResponse) error { return errors.New("lost") }

// An observer that hears nothing any more ends, as soon as it is told who leads.
func TestAnObserverThatHearsNothingEnds(t *testing.T) {
	f := newFake(t, watch.Config{})
	(&served{fake: f, t: t}).put("e/a", "one")
	e := &electionServer{Server: New(f, Config{})}
	err := wantReturn(t, "an observer that hears nothing", func() error {
		return e.Observe(&v3electionpb.LeaderRequest{Name: []byte("e")}, deaf{contextOnly{ctx: t.Context()}})
	})
	if err == nil || err.Error() != "lost" {
		t.Errorf("an observer that hears nothing: %v, want what gRPC says", err)
	}
}

// telling is an observer that hears whatever it is sent.
type telling struct {
	contextOnly
	hear func(*v3electionpb.LeaderResponse) error
}

func (o telling) Send(r *v3electionpb.LeaderResponse) error { return o.hear(r) }

// An observer ends with its watches, whether anybody leads or not, on the error on which clients go
// on at another member.
func TestAnObserverEndsWithItsWatches(t *testing.T) {
	for _, leads := range []bool{false, true} {
		f := newFake(t, watch.Config{})
		if leads {
			(&served{fake: f, t: t}).put("e/a", "one")
		}
		f.hub.Close()
		e, told := &electionServer{Server: New(f, Config{})}, 0
		err := wantReturn(t, "an observer whose watches are closed", func() error {
			return e.Observe(&v3electionpb.LeaderRequest{Name: []byte("e")}, telling{contextOnly{ctx: t.Context()}, func(*v3electionpb.LeaderResponse) error {
				if told++; told > 1 {
					return errors.New("a leader is told twice")
				}
				return nil
			}})
		})
		if !same(err, rpctypes.ErrGRPCStopped) {
			t.Errorf("an observer whose watches are closed, and somebody leads %v: %v, want %v", leads, err, rpctypes.ErrGRPCStopped)
		}
	}
}

// An observer that hears no more while the same leader goes on ends as well.
func TestAnObserverThatHearsNoMoreEnds(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := &served{fake: f, t: t}
	s.put("e/a", "one")
	e, told := &electionServer{Server: New(f, Config{})}, 0
	err := wantReturn(t, "an observer that hears no more", func() error {
		return e.Observe(&v3electionpb.LeaderRequest{Name: []byte("e")}, telling{contextOnly{ctx: t.Context()}, func(*v3electionpb.LeaderResponse) error {
			if told++; told > 1 {
				return errors.New("lost")
			}
			go s.put("e/a", "uno")
			return nil
		}})
	})
	if status.Convert(err).Message() != "lost" {
		t.Errorf("an observer that hears no more: %v, want what gRPC says", err)
	}
}

// A lease that contends again keeps the place of its first contention.
func TestALeaseContendsInItsFirstPlace(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.grant(0xa)
	first, _, err := s.server.contend(t.Context(), []byte("l"), 0xa, []byte("v"))
	if err != nil {
		t.Fatal(err)
	}
	created := s.put("x", "y") - 1
	again, _, err := s.server.contend(t.Context(), []byte("l"), 0xa, []byte("w"))
	if err != nil {
		t.Fatal(err)
	}
	if first.created != created || first.earlier != nil || again.created != created || string(again.earlier.GetValue()) != "v" || string(again.key) != "l/a" {
		t.Errorf("a lease contends from revision %d, and then as %s with the value %q from revision %d; want l/a, v and %d both times", first.created, again.key, again.earlier.GetValue(), again.created, created)
	}
}
