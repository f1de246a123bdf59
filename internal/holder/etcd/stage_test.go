package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/host/clock"
)

// stage is a server of etcd's protocol in a bubble, with a client and a Leaser. It writes down all that it is asked: with
// arguments, time limits, and whether the server needs a leader. Each answer takes a millisecond.
type stage struct {
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer
	t       *testing.T
	client  *clientv3.Client
	l       *Leaser
	closing sync.WaitGroup
	// pointless: the method that was to fail was never asked.
	pointless bool
	calm      context.Context // of calls that end by themselves

	mu      sync.Mutex
	log     []line
	rev     int64
	keys    map[string]*mvccpb.KeyValue
	leases  map[int64]*grantedLease
	granted int64
	watches map[*watch]bool
	history []*mvccpb.Event
	faults  map[string][]any // by method, for its next calls: an error, silence, lost, or nil
}

type line struct {
	at   time.Time
	text string
}

type grantedLease struct {
	ttl   int64
	until time.Time
	end   *time.Timer
}

type watch struct {
	key, end []byte
	noPut    bool
	over     bool
	changes  chan clientv3.WatchResponse
}

// Faults of a call beside its error.
type (
	silence struct{} // there is no answer
	lost    struct{} // it is done, and the answer says that the server has too much to do
	cut     struct{} // the stream ends
	later   time.Duration
)

// newStage begins a scenario, and end ends it.
func newStage(t *testing.T, user string) (s *stage, end func()) {
	s = &stage{
		t: t, rev: 1, keys: map[string]*mvccpb.KeyValue{}, leases: map[int64]*grantedLease{}, watches: map[*watch]bool{}, faults: map[string][]any{},
	}
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream))
	pb.RegisterKVServer(server, s)
	pb.RegisterLeaseServer(server, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"passthrough:stage"}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	client.Watcher.Close()
	client.Watcher = s
	client.Username = user // it does not log in any more
	s.client = client
	s.l = New(client, clock.NewSimulated(1))
	var over context.CancelFunc
	s.calm, over = context.WithTimeoutCause(context.Background(), 10*time.Minute, errors.New("ten minutes were not enough"))
	return s, func() {
		over()
		client.Close()
		server.Stop()
		<-served
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, l := range s.leases {
			l.end.Stop()
		}
	}
}

func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ") // protobuf's texts have blanks at random
	s.log = append(s.log, line{time.Now(), text})
}

// fail has the next calls of a method end with these faults; nil is for one that succeeds.
func (s *stage) fail(method string, faults ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[method] = faults
}

func (s *stage) fault(method string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.faults[method]
	if len(all) == 0 {
		return nil
	}
	s.faults[method] = all[1:]
	return all[0]
}

// with is what comes with a call beside its request.
func with(ctx context.Context) (text string) {
	md, _ := metadata.FromIncomingContext(ctx)
	if len(md[rpctypes.MetadataRequireLeaderKey]) > 0 {
		text += ", where there is a leader"
	}
	if end, has := ctx.Deadline(); has {
		text += ", within " + time.Until(end).Round(time.Second).String() // which may have pauses at random in it
	}
	return text
}

// rough tells a time that is no whole number of milliseconds, for the pauses at random in it, in whole seconds.
func rough(d time.Duration) string {
	switch {
	case (d - d.Round(time.Millisecond)).Abs() < 5: // a clock's alarm may be a nanosecond late
		return d.Round(time.Millisecond).String()
	case d <= 160*time.Millisecond:
		return "a moment"
	}
	return "about " + d.Round(time.Second).String()
}

func (s *stage) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	s.note("%s {%v}%s", method, req, with(ctx))
	time.Sleep(time.Millisecond)
	switch fault := s.fault(method).(type) {
	case error:
		return nil, fault
	case silence:
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case later:
		time.Sleep(time.Duration(fault))
	case lost:
		if _, err := handle(ctx, req); err != nil {
			return nil, err
		}
		return nil, busy
	}
	return handle(ctx, req)
}

var (
	busy   = status.Error(codes.ResourceExhausted, "busy")
	denied = rpctypes.ErrGRPCPermissionDenied
)

func (s *stage) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	s.note("stream %s begins%s", method, with(ss.Context()))
	err := handle(srv, ss)
	s.note("stream %s ends", method)
	return err
}

func (s *stage) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: s.rev} }

func (s *stage) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ranged(r), nil
}

// in reports whether a key is in a range of etcd's.
func in(key, from, end []byte) bool {
	switch {
	case len(end) == 0:
		return bytes.Equal(key, from)
	case bytes.Equal(end, []byte{0}):
		return bytes.Compare(key, from) >= 0
	}
	return bytes.Compare(key, from) >= 0 && bytes.Compare(key, end) < 0
}

func (s *stage) ranged(r *pb.RangeRequest) *pb.RangeResponse {
	got := &pb.RangeResponse{Header: s.header()}
	for _, name := range slices.Sorted(maps.Keys(s.keys)) {
		kv := s.keys[name]
		if in(kv.Key, r.Key, r.RangeEnd) && (r.MaxCreateRevision == 0 || kv.CreateRevision <= r.MaxCreateRevision) {
			got.Kvs = append(got.Kvs, proto.Clone(kv).(*mvccpb.KeyValue))
		}
	}
	if r.SortTarget == pb.RangeRequest_CREATE {
		slices.SortFunc(got.Kvs, func(a, b *mvccpb.KeyValue) int { return int(a.CreateRevision - b.CreateRevision) })
	}
	if r.SortOrder == pb.RangeRequest_DESCEND {
		slices.Reverse(got.Kvs)
	}
	if got.Count = int64(len(got.Kvs)); r.Limit > 0 && got.Count > r.Limit {
		got.Kvs, got.More = got.Kvs[:r.Limit], true
	}
	for _, kv := range got.Kvs {
		if r.KeysOnly {
			kv.Value, kv.Lease = nil, 0
		}
	}
	return got
}

func (s *stage) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &pb.TxnResponse{Succeeded: true}
	for _, c := range r.Compare {
		if s.keys[string(c.Key)].GetCreateRevision() != c.GetCreateRevision() {
			return &pb.TxnResponse{Header: s.header()}, nil
		}
	}
	for _, op := range r.Success {
		switch {
		case op.GetRequestPut() != nil:
			p := op.GetRequestPut()
			if p.Lease != 0 && s.leases[p.Lease] == nil {
				return nil, rpctypes.ErrGRPCLeaseNotFound
			}
			s.put(string(p.Key), string(p.Value), p.Lease)
			resp.Responses = append(resp.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}})
		default:
			resp.Responses = append(resp.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: s.ranged(op.GetRequestRange())}})
		}
	}
	resp.Header = s.header()
	return resp, nil
}

// put writes a key. s.mu is held.
func (s *stage) put(key, value string, lease int64) {
	s.rev++
	kv := &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), Lease: lease, CreateRevision: s.rev, ModRevision: s.rev, Version: 1}
	if old := s.keys[key]; old != nil {
		kv.CreateRevision, kv.Version = old.CreateRevision, old.Version+1
	}
	s.keys[key] = kv
	s.happened(&mvccpb.Event{Type: mvccpb.Event_PUT, Kv: proto.Clone(kv).(*mvccpb.KeyValue)})
}

// remove deletes a key. s.mu is held.
func (s *stage) remove(key string) {
	if s.keys[key] != nil {
		s.rev++
		delete(s.keys, key)
		s.happened(&mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: s.rev}})
	}
}

func (s *stage) happened(e *mvccpb.Event) {
	s.history = append(s.history, e)
	for w := range s.watches {
		w.tell(e)
	}
}

func (w *watch) tell(e *mvccpb.Event) {
	if in(e.Kv.Key, w.key, w.end) && (e.Type == mvccpb.Event_DELETE || !w.noPut) {
		w.changes <- clientv3.WatchResponse{Events: []*clientv3.Event{(*clientv3.Event)(e)}}
	}
}

func (s *stage) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.grant(r.TTL)
	return &pb.LeaseGrantResponse{Header: s.header(), ID: id, TTL: r.TTL}, nil
}

// grant grants a lease. s.mu is held.
func (s *stage) grant(ttl int64) int64 {
	s.granted++
	id := 100 + s.granted
	d := time.Duration(ttl) * time.Second
	s.leases[id] = &grantedLease{ttl, time.Now().Add(d), time.AfterFunc(d, func() {
		s.note("the server ends lease %d", id)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.revoke(id)
	})}
	return id
}

// revoke ends a lease. s.mu is held.
func (s *stage) revoke(id int64) {
	l := s.leases[id]
	if l == nil {
		return
	}
	l.end.Stop()
	delete(s.leases, id)
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		if s.keys[key].Lease == id {
			s.remove(key)
		}
	}
}

func (s *stage) LeaseRevoke(_ context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[r.ID] == nil {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	s.revoke(r.ID)
	return &pb.LeaseRevokeResponse{Header: s.header()}, nil
}

func (s *stage) LeaseTimeToLive(_ context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[r.ID]
	if l == nil {
		return &pb.LeaseTimeToLiveResponse{Header: s.header(), ID: r.ID, TTL: -1}, nil
	}
	return &pb.LeaseTimeToLiveResponse{Header: s.header(), ID: r.ID, TTL: int64(time.Until(l.until) / time.Second), GrantedTTL: l.ttl}, nil
}

func (s *stage) LeaseKeepAlive(ss pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := ss.Recv()
		if err != nil {
			return nil
		}
		s.note("LeaseKeepAlive {%v}", r)
		time.Sleep(time.Millisecond)
		switch fault := s.fault("LeaseKeepAlive").(type) {
		case error:
			return fault
		case cut:
			return nil
		case later:
			time.Sleep(time.Duration(fault))
		case silence:
			continue
		}
		s.mu.Lock()
		resp := &pb.LeaseKeepAliveResponse{Header: s.header(), ID: r.ID}
		if l := s.leases[r.ID]; l != nil {
			d := time.Duration(l.ttl) * time.Second
			resp.TTL, l.until = l.ttl, time.Now().Add(d)
			l.end.Reset(d)
		}
		s.mu.Unlock()
		if err := ss.Send(resp); err != nil {
			return err
		}
	}
}

// Watch implements clientv3.Watcher. The client's own one cannot wait in a bubble.
func (s *stage) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	of := clientv3.OpGet(key, opts...)
	has := func(option string) bool { return reflect.ValueOf(of).FieldByName(option).Bool() }
	needs := ""
	if md, _ := metadata.FromOutgoingContext(ctx); len(md[rpctypes.MetadataRequireLeaderKey]) > 0 {
		needs = ", where there is a leader"
	}
	s.note("Watch %q to %q from %d, created %v, progress %v, former %v, not put %v, not delete %v%s", key, of.RangeBytes(), of.Rev(),
		has("createdNotify"), has("progressNotify"), has("prevKV"), has("filterPut"), has("filterDelete"), needs)
	changes := make(chan clientv3.WatchResponse, 100)
	w := &watch{key: of.KeyBytes(), end: of.RangeBytes(), noPut: has("filterPut"), changes: changes}
	over := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, w)
		if !w.over {
			w.over = true
			close(changes)
		}
	}
	context.AfterFunc(ctx, func() {
		s.note("the watch of %q is canceled", key)
		over()
	})
	fault := s.fault("Watch")
	if fault == (silence{}) {
		return changes
	}
	time.AfterFunc(time.Millisecond, func() {
		s.mu.Lock()
		if w.over {
			s.mu.Unlock()
			return
		}
		if has("createdNotify") {
			changes <- clientv3.WatchResponse{Created: true}
		}
		switch fault := fault.(type) {
		case cut:
			defer over()
		case error:
			changes <- clientv3.WatchResponse{Canceled: true}
			defer over()
		case int: // the revision before which all is compacted
			changes <- clientv3.WatchResponse{Canceled: true, CompactRevision: int64(fault)}
			defer over()
		default:
			s.watches[w] = true
			for _, e := range s.history {
				if of.Rev() > 0 && e.Kv.ModRevision >= of.Rev() {
					w.tell(e)
				}
			}
		}
		s.mu.Unlock()
	})
	return changes
}

// RequestProgress implements clientv3.Watcher.
func (s *stage) RequestProgress(context.Context) error { return nil }

// Close implements clientv3.Watcher.
func (s *stage) Close() error { return nil }

// holder puts a key at the end of the queue of n for a holder with a lease of its own, and returns the function that removes it.
func (s *stage) holder(value string) (leaves func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.grant(3600)
	s.put(queueKey("n", id), value, id)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.revoke(id)
	}
}

// text is the log: each line with the time since the one before it. Lines of one moment are sorted.
func (s *stage) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.log, func(a, b line) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.text, b.text)
	})
	var out strings.Builder
	var last time.Time
	again := ""
	for i, l := range s.log {
		gap := l.at.Sub(last)
		last = l.at
		what, _, _ := strings.Cut(l.text, ", within")
		if i > 0 && gap > 0 && rough(gap) == "a moment" && what == again { // however often there is room for it
			if i == len(s.log)-1 || s.log[i+1].at.After(l.at) {
				if !strings.HasSuffix(out.String(), "and again\n") {
					fmt.Fprintf(&out, "and again\n")
				}
				continue
			}
		}
		if again = what; i > 0 && gap > 0 {
			fmt.Fprintf(&out, "-- %s\n", rough(gap))
		}
		fmt.Fprintln(&out, l.text)
	}
	return out.String()
}
