package etcdapi

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/member/watch"
)

// watchAs begins a stream of watches of a context.
func (s *served) watchAs(t *testing.T, ctx context.Context) rawWatch {
	t.Helper()
	stream, err := pb.NewWatchClient(s.conn).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return rawWatch{t: t, stream: stream}
}

// wantCanceled wants the next response to cancel a watch for a reason.
func (w rawWatch) wantCanceled(created bool, reason error) {
	w.t.Helper()
	if r := w.recv(); !r.Canceled || r.Created != created || r.CancelReason != reason.Error() || len(r.Events) > 0 {
		w.t.Errorf("got %v, want a canceled watch, created %v: %v", r, created, reason)
	}
}

// wantEvent wants the next response to be a put of a key.
func (w rawWatch) wantEvent(key string) {
	w.t.Helper()
	if r := w.recv(); len(r.Events) != 1 || string(r.Events[0].Kv.Key) != key {
		w.t.Errorf("got %v, want a put of %q", r, key)
	}
}

// A watch needs the right to read its range, as the watch reads it (CVE-2026-73499).
func TestWatchRights(t *testing.T) {
	s := serveUsers(t, Config{})
	denied := rpctypes.ErrGRPCPermissionDenied
	w := s.watchAs(t, s.as("ann"))
	for _, tt := range []struct {
		key, end string
		refused  error
	}{
		{"a/1", "", nil}, {"a/", "a0", nil}, {"r", "", nil},
		{"b", "", denied}, {"a/", "\x00", denied}, {"a/", "b", denied}, {"", "", denied}, {"", "\x00", denied}, {"\x00", "\x00", denied}, {"r", "r\x01", denied},
	} {
		w.create(&pb.WatchCreateRequest{Key: []byte(tt.key), RangeEnd: []byte(tt.end)})
		if tt.refused != nil {
			w.wantCanceled(true, tt.refused)
		} else if r := w.recv(); !r.Created || r.Canceled {
			t.Errorf("%q to %q: %v, want the watch", tt.key, tt.end, r)
		}
	}
	w = s.watchAs(t, t.Context())
	w.create(&pb.WatchCreateRequest{Key: []byte("a/1")})
	w.wantCanceled(true, rpctypes.ErrGRPCUserEmpty)
	w = s.watchAs(t, metadata.AppendToOutgoingContext(t.Context(), "token", "x.7"))
	w.create(&pb.WatchCreateRequest{Key: []byte("a/1")})
	w.wantCanceled(true, rpctypes.ErrGRPCInvalidAuthToken)
	w = s.watchAs(t, s.as("root"))
	w.create(&pb.WatchCreateRequest{Key: []byte("\x00"), RangeEnd: []byte{0}})
	if r := w.recv(); !r.Created || r.Canceled {
		t.Errorf("all keys for root: %v, want the watch", r)
	}
}

// Once users have changed, a watch is judged before its next event. Others go on.
func TestAWatchEndsWithItsRights(t *testing.T) {
	s := serveUsers(t, Config{})
	w := s.watchAs(t, s.as("ann"))
	for i, key := range []string{"a/1", "r"} {
		w.create(&pb.WatchCreateRequest{Key: []byte(key), WatchId: int64(i + 5)})
		w.recv()
	}
	s.be(t, &pb.PutRequest{Key: []byte("r")})
	w.wantEvent("r")
	s.be(t, &pb.AuthRoleRevokePermissionRequest{Role: "anns", Key: []byte("r")}, &pb.PutRequest{Key: []byte("r")}, &pb.PutRequest{Key: []byte("a/1")})
	for range 2 { // in either order
		switch r := w.recv(); {
		case r.WatchId == 6 && r.Canceled && r.CancelReason == rpctypes.ErrGRPCPermissionDenied.Error() && len(r.Events) == 0:
		case r.WatchId == 5 && len(r.Events) == 1:
		default:
			t.Errorf("got %v, want the end of watch 6, and the event of watch 5", r)
		}
	}
	s.be(t, &pb.AuthUserChangePasswordRequest{Name: "ann", HashedPassword: hashOf(t, "new")}, &pb.PutRequest{Key: []byte("a/1")})
	w.wantCanceled(false, rpctypes.ErrGRPCInvalidAuthToken)
}

// A watch that has nothing to show ends as well when its rights do, and a right that is left keeps it. So does
// an observer of an election.
func TestAnIdleWatchEndsWithItsRights(t *testing.T) {
	s := serveUsers(t, Config{})
	ann, cancel := context.WithTimeout(s.as("ann"), 20*time.Second) // one that hears nothing fails
	defer cancel()
	w := s.watchAs(t, ann)
	for _, key := range []string{"a/1", "r"} {
		w.create(&pb.WatchCreateRequest{Key: []byte(key)})
		w.recv()
	}
	observer, err := v3electionpb.NewElectionClient(s.conn).Observe(ann, &v3electionpb.LeaderRequest{Name: []byte("a/e")})
	if err != nil {
		t.Fatal(err)
	}
	s.be(t, &pb.PutRequest{Key: []byte("a/e/1")})
	if _, err := observer.Recv(); err != nil {
		t.Fatal(err)
	}
	s.be(t, &pb.AuthRoleAddRequest{Name: "another"}, &pb.AuthRoleRevokePermissionRequest{Role: "anns", Key: []byte("r")})
	w.wantCanceled(false, rpctypes.ErrGRPCPermissionDenied)
	s.be(t, &pb.PutRequest{Key: []byte("a/1")})
	w.wantEvent("a/1")
	s.be(t, &pb.AuthUserRevokeRoleRequest{Name: "ann", Role: "anns"})
	w.wantCanceled(false, rpctypes.ErrGRPCPermissionDenied)
	if _, err := observer.Recv(); !errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) {
		t.Errorf("an observer without rights hears %v", err)
	}
}

// To put users in force ends the watches of nobody.
func TestWatchesOfNobodyEndWhenUsersAreInForce(t *testing.T) {
	f := newFake(t, watch.Config{})
	var c Config
	f.withLogins(t, &c)
	s := f.serve(t, c)
	w := s.watchAs(t, t.Context())
	w.create(&pb.WatchCreateRequest{Key: []byte("a/"), RangeEnd: []byte("b"), PrevKv: true})
	w.recv()
	s.put("a/1", "")
	w.wantEvent("a/1")
	s.enableUsers(t)
	s.be(t, &pb.PutRequest{Key: []byte("a/1")})
	w.wantCanceled(false, rpctypes.ErrGRPCUserEmpty)
}

// A watch that was judged before a change of users and is created after it is judged again.
func TestAWatchThatIsCreatedBesideAChangeIsJudgedAgain(t *testing.T) {
	s := serveUsers(t, Config{})
	ws := s.Watches().NewStream(0)
	defer ws.Close()
	rights := newWatchRights(s.server, ws)
	c, err := s.server.config.Logins.Identify(t.Context(), tokenOf(t, s.as("ann")))
	if err != nil {
		t.Fatal(err)
	}
	rights.creating.Add(1)
	rights.who.Store(&c)
	s.be(t, &pb.AuthRoleRevokePermissionRequest{Role: "anns", Key: []byte("r")})
	if !rights.show(&watch.Response{WatchID: 77}) { // another one's event
		t.Error("the event of another watch is not shown")
	}
	if err := ws.Create(t.Context(), &pb.WatchCreateRequest{Key: []byte("r"), WatchId: 5}); err != nil {
		t.Fatal(err)
	}
	rights.creating.Add(-1)
	if rights.show(&watch.Response{WatchID: 5}) {
		t.Error("an event is shown to a user that lost the right to it while the watch was created")
	}
	if !rights.show(&watch.Response{WatchID: 5, Canceled: true}) || !rights.show(&watch.Response{WatchID: 5}) {
		t.Error("a watch that has the number of one that was canceled is not shown")
	}
}

func tokenOf(t *testing.T, ctx context.Context) string {
	md, _ := metadata.FromOutgoingContext(ctx)
	if len(md["token"]) != 1 {
		t.Fatal("no token")
	}
	return md["token"][0]
}

// A lock or an election that waits ends if its caller loses the rights to it.
func TestWaitingCallersAreJudgedAgain(t *testing.T) {
	s := serveUsers(t, Config{})
	s.be(t, &pb.LeaseGrantRequest{ID: 1, TTL: 600}, &pb.PutRequest{Key: []byte("a/lock/1"), Lease: 1})
	for _, end := range []func(){
		func() { s.be(t, permission("anns", authpb.READ, "a/", "a0")) }, // another change, and no reading right is lost
		func() {
			s.be(t, &pb.AuthRoleRevokePermissionRequest{Role: "anns", Key: []byte("a/"), RangeEnd: []byte("a0")})
		},
	} {
		s.be(t, permission("anns", authpb.READWRITE, "a/", "a0"), &pb.PutRequest{Key: []byte("a/lock/1"), Lease: 1})
		done := make(chan error, 1)
		go func() { done <- s.call(s.as("ann"), "/v3lockpb.Lock/Lock", lockRequest("a/lock")) }()
		s.awaitKeys("a/lock", 2)
		end()
		s.be(t, &pb.DeleteRangeRequest{Key: []byte("a/lock/1")})
		err := <-done
		if may := s.Users().Permit(callerNow(s, "ann"), holderOf([]byte("a/lock")), nil) == nil; may != (err == nil) {
			t.Errorf("a lock whose caller may have it %v: %v", may, err)
		}
		if left := s.keys("a/lock"); err != nil && left != 0 {
			t.Errorf("contenders are left by a call that was refused: %d", left)
		}
		s.be(t, &pb.DeleteRangeRequest{Key: []byte("a/lock/"), RangeEnd: []byte("a/lock0")})
	}
}

// observing is a stream of an observer that is not there.
type observing struct {
	grpc.ServerStream
	ctx context.Context
}

func (o observing) Context() context.Context                { return o.ctx }
func (o observing) Send(*v3electionpb.LeaderResponse) error { return errors.New("sent") }

// A token of before a change of users does not begin to observe, as it reads no key.
func TestOldTokensDoNotObserve(t *testing.T) {
	s := serveUsers(t, Config{})
	s.be(t, &pb.PutRequest{Key: []byte("a/e/1")})
	for age, want := range map[uint64]error{0: errors.New("sent"), 1: rpctypes.ErrGRPCAuthOldRevision} {
		c := callerNow(s, "ann")
		c.Revision -= age
		err := (&electionServer{Server: s.server}).Observe(&v3electionpb.LeaderRequest{Name: []byte("a/e")}, observing{ctx: caller.With(t.Context(), c)})
		if err == nil || err.Error() != want.Error() {
			t.Errorf("with a token that is %d changes old: %v, want %v", age, err, want)
		}
	}
}

// awaitKeys waits until n contenders are under name, as the member sees them.
func (s *served) awaitKeys(name string, n int64) {
	s.t.Helper()
	ws := s.Watches().NewStream(0)
	defer ws.Close()
	key, end := contenders([]byte(name))
	if err := ws.Create(s.t.Context(), &pb.WatchCreateRequest{Key: key, RangeEnd: end}); err != nil {
		s.t.Fatal(err)
	}
	for s.keys(name) != n {
		if _, err := ws.Next(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}
