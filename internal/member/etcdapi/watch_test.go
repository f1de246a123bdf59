package etcdapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// A rawWatch is a watch stream without etcd's client.
type rawWatch struct {
	t      *testing.T
	stream pb.Watch_WatchClient
}

func (s *served) watch(t *testing.T) rawWatch {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // what never comes fails the test
	t.Cleanup(cancel)
	stream, err := pb.NewWatchClient(s.conn).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return rawWatch{t, stream}
}

func (w rawWatch) send(r *pb.WatchRequest) {
	w.t.Helper()
	if err := w.stream.Send(r); err != nil {
		w.t.Fatal(err)
	}
}

func (w rawWatch) create(r *pb.WatchCreateRequest) {
	w.t.Helper()
	w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}})
}

func (w rawWatch) recv() *pb.WatchResponse {
	w.t.Helper()
	r, err := w.stream.Recv()
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w rawWatch) want(wants ...*pb.WatchResponse) {
	w.t.Helper()
	for _, want := range wants {
		if got := w.recv(); !proto.Equal(got, want) {
			w.t.Fatalf("got %v\nwant %v", got, want)
		}
	}
}

func header(revision int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 22, MemberId: 11, RaftTerm: 33, Revision: revision}
}

func TestWatchResponses(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.put("a", "1") // 2
	w := s.watch(t)
	a := []byte("a")
	w.create(&pb.WatchCreateRequest{Key: a, WatchId: 7, StartRevision: 2, PrevKv: true})
	one := &mvccpb.KeyValue{Key: a, Value: []byte("1"), CreateRevision: 2, ModRevision: 2, Version: 1}
	w.want(
		&pb.WatchResponse{Header: header(2), WatchId: 7, Created: true},
		&pb.WatchResponse{Header: header(2), WatchId: 7, Events: []*mvccpb.Event{{Kv: one}}},
	)
	w.create(&pb.WatchCreateRequest{Key: a, WatchId: 7})
	w.create(&pb.WatchCreateRequest{Key: []byte("b"), RangeEnd: a})
	w.create(&pb.WatchCreateRequest{Key: a, StartRevision: -1})
	w.want(
		&pb.WatchResponse{Header: header(2), WatchId: -1, Created: true, Canceled: true, CancelReason: "mvcc: duplicate watch ID provided on the WatchStream"},
		&pb.WatchResponse{Header: header(2), WatchId: -1, Created: true, Canceled: true, CancelReason: "mvcc: watcher range is empty"},
		&pb.WatchResponse{Header: header(2), WatchId: -1, Created: true, Canceled: true, CancelReason: rpctypes.ErrCompacted.Error()},
	)
	if _, err := s.Propose(t.Context(), &pb.DeleteRangeRequest{Key: a}); err != nil {
		t.Fatal(err)
	}
	w.want(&pb.WatchResponse{Header: header(3), WatchId: 7, Events: []*mvccpb.Event{
		{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: a, ModRevision: 3}, PrevKv: one},
	}})
	// Nobody's: it is not answered, and no other watch ends.
	w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: -7}}})
	w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	w.want(&pb.WatchResponse{Header: header(3), WatchId: -1})
	w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: 7}}})
	w.want(&pb.WatchResponse{Header: header(3), WatchId: 7, Canceled: true})
	if _, err := s.Propose(t.Context(), &pb.CompactionRequest{Revision: 3}); err != nil {
		t.Fatal(err)
	}
	w.send(&pb.WatchRequest{}) // nothing: ignored
	w.create(&pb.WatchCreateRequest{Key: a, StartRevision: 2})
	w.want(
		&pb.WatchResponse{Header: header(3), Created: true},
		&pb.WatchResponse{Header: header(3), Canceled: true, CompactRevision: 3},
	)
}

func TestWatchHalfClosed(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	w := s.watch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte("a")})
	w.recv()
	if err := w.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for range 100 { // the server hears of it before these are answered
		if _, err := s.kv().Put(t.Context(), &pb.PutRequest{Key: []byte("b")}); err != nil {
			t.Fatal(err)
		}
	}
	s.put("a", "1")
	if got, err := w.stream.Recv(); err != nil || len(got.Events) != 1 {
		t.Errorf("a stream whose client has closed its side: %v, %v, want the event", got, err)
	}
}

func TestWatchFragments(t *testing.T) {
	const limit = 1000 // with WireOverhead below
	s := serve(t, Config{MaxRequestBytes: limit}, watch.Config{})
	value := []byte(strings.Repeat("v", 100_000))
	ops := make([]*pb.RequestOp, 20)
	for i := range ops {
		ops[i] = putOp(fmt.Appendf(nil, "k%02d", i), value, 0)
	}
	if _, err := s.Propose(t.Context(), &pb.TxnRequest{Success: ops}); err != nil {
		t.Fatal(err)
	}
	w := s.watch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte("k"), RangeEnd: []byte("l"), StartRevision: 2})
	w.recv()
	whole := w.recv()
	if len(whole.Events) != 20 || whole.Fragment {
		t.Fatalf("%d events, fragment %v: want all 20 in one", len(whole.Events), whole.Fragment)
	}
	w.create(&pb.WatchCreateRequest{Key: []byte("k"), RangeEnd: []byte("l"), StartRevision: 2, Fragment: true})
	w.recv()
	var got []*mvccpb.Event
	for i := 0; ; i++ {
		r := w.recv()
		if size := proto.Size(r); size >= limit+WireOverhead {
			t.Errorf("fragment of %d bytes, want less than %d", size, limit+WireOverhead)
		}
		got = append(got, r.Events...)
		if !r.Fragment {
			if i != 3 {
				t.Errorf("%d fragments, want 4 of 5 events", i+1)
			}
			break
		}
	}
	if !proto.Equal(&pb.WatchResponse{Events: got}, &pb.WatchResponse{Events: whole.Events}) {
		t.Error("the fragments do not make up the whole")
	}
}

// TestWatchClient uses etcd's client, with keys enough that the responses take
// both ways through the codec.
func TestWatchClient(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	c := s.client()
	ctx := clientv3.WithRequireLeader(t.Context())
	wch := c.Watch(ctx, "a", clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
	if r := <-wch; !r.Created {
		t.Fatalf("got %v, want created", r)
	}
	large := strings.Repeat("v", copyBelow)
	for i, value := range []string{"1", large, "2"} {
		if _, err := c.Put(ctx, "a", value); err != nil {
			t.Fatal(err)
		}
		r := <-wch
		if err := r.Err(); err != nil || len(r.Events) != 1 {
			t.Fatalf("got %v, %v, want an event", r, err)
		}
		e := r.Events[0]
		if string(e.Kv.Value) != value || e.IsCreate() != (i == 0) || (e.PrevKv == nil) != (i == 0) {
			t.Errorf("put %d: got %d bytes, create %v", i, len(e.Kv.Value), e.IsCreate())
		}
	}
	if err := c.RequestProgress(ctx); err != nil {
		t.Fatal(err)
	}
	if r := <-wch; !r.IsProgressNotify() || r.Header.Revision != 4 {
		t.Errorf("got %v, want progress at 4", r)
	}
	if _, err := c.Compact(ctx, 4); err != nil {
		t.Fatal(err)
	}
	r := <-c.Watch(t.Context(), "a", clientv3.WithRev(2))
	if !errors.Is(r.Err(), rpctypes.ErrCompacted) || r.CompactRevision != 4 {
		t.Errorf("got %v, want compacted at 4", r.Err())
	}
}

func TestWatchProgressNotify(t *testing.T) {
	s := serve(t, Config{WatchProgressInterval: 1}, watch.Config{}) // raised to 100 ms
	w := s.watch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte("a"), ProgressNotify: true})
	w.want(
		&pb.WatchResponse{Header: header(1), Created: true},
		&pb.WatchResponse{Header: header(1)},
		&pb.WatchResponse{Header: header(1)},
	)
}

// A report of progress has the revision up to which events were handed out, whatever reads
// at this member see already.
func TestWatchProgressIsOfWhatWasHandedOut(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.put("b", "1") // 2
	w := s.watch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte("a")})
	w.want(&pb.WatchResponse{Header: header(2), Created: true})
	s.mu.Lock()
	if _, err := s.store.Put(&pb.PutRequest{Key: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	s.show(s.store.View()) // and the hub is not told yet
	s.mu.Unlock()
	w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	if r := w.recv(); r.Header.Revision != 2 || len(r.Events) > 0 {
		t.Errorf("got %v, want progress at 2, for the event of revision 3 was not sent", r)
	}
	s.hub.Publish(s.View())
	if r := w.recv(); r.Header.Revision != 3 || len(r.Events) != 1 {
		t.Errorf("got %v, want the event of revision 3", r)
	}
}

func TestWatchSlowClient(t *testing.T) {
	s := serve(t, Config{}, watch.Config{MaxStreamEvents: 10})
	slow := s.watch(t)
	slow.create(&pb.WatchCreateRequest{Key: []byte("a")})
	slow.recv()
	fast := s.watch(t)
	fast.create(&pb.WatchCreateRequest{Key: []byte("a")})
	fast.recv()
	value := strings.Repeat("v", 10_000)
	const puts = 500 // far more than the windows of the connection take
	read := func(w rawWatch) {
		for next := int64(2); next < puts+2; {
			for _, e := range w.recv().Events {
				if e.Kv.ModRevision != next {
					t.Fatalf("event of revision %d, want %d", e.Kv.ModRevision, next)
				}
				next++
			}
		}
	}
	for range puts {
		s.put("a", value)
	}
	read(fast)
	read(slow)
}

func TestManyWatchers(t *testing.T) {
	const n = 10_000
	s := serve(t, Config{}, watch.Config{})
	w := s.watch(t)
	go func() {
		for i := range n {
			r := &pb.WatchCreateRequest{Key: fmt.Append(nil, "k", i), StartRevision: int64(i % 2)}
			if err := w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range n {
		if r := w.recv(); !r.Created || r.Canceled {
			t.Fatalf("got %v, want created", r)
		}
	}
	for _, i := range []int{0, 1, n - 1} {
		s.put(fmt.Sprint("k", i), "v")
		if r := w.recv(); r.WatchId != int64(i) || len(r.Events) != 1 {
			t.Errorf("got %v, want an event for watch %d", r, i)
		}
	}
}

func TestStreamsWithoutLeader(t *testing.T) {
	s := serve(t, Config{ElectionTimeout: 20 * time.Millisecond}, watch.Config{})
	ctx := clientv3.WithRequireLeader(t.Context())
	w, err := pb.NewWatchClient(s.conn).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	k, err := pb.NewLeaseClient(s.conn).LeaseKeepAlive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// One exchange each, so that the server knows them.
	create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("a")}}}
	if err := w.Send(create); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := k.Send(&pb.LeaseKeepAliveRequest{ID: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Recv(); err != nil {
		t.Fatal(err)
	}
	other := s.watch(t)
	other.create(&pb.WatchCreateRequest{Key: []byte("a")})
	other.recv()
	s.loseLeader(time.Second)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := w.Recv(); !errors.Is(err, rpctypes.ErrGRPCNoLeader) {
			t.Errorf("watch: %v, want no leader", err)
		}
	})
	wg.Go(func() {
		if _, err := k.Recv(); !errors.Is(err, rpctypes.ErrGRPCNoLeader) {
			t.Errorf("keep-alive: %v, want no leader", err)
		}
	})
	wg.Wait()
	s.put("a", "1")
	if got := other.recv(); len(got.Events) != 1 {
		t.Errorf("a stream that requires no leader: got %v, want the event", got)
	}
}

// watching is a stream whose client sends what a channel has.
type watching struct {
	contextOnly
	sent chan *pb.WatchRequest
}

func (s watching) Send(*pb.WatchResponse) error { return errors.New("lost") }
func (s watching) SendMsg(any) error            { return errors.New("lost") }

func (s watching) Recv() (*pb.WatchRequest, error) {
	select {
	case r := <-s.sent:
		return r, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func createWatch(key string) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte(key)}}}
}

// A watch that ends tells etcd's words if its client has gone, and why it was cut if it was; one
// whose client hears nothing any more ends with what gRPC says.
func TestHowAWatchEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(cancel context.CancelCauseFunc, w watching)
		want error
	}{
		"its client has gone": {func(cancel context.CancelCauseFunc, _ watching) { cancel(nil) }, rpctypes.ErrGRPCWatchCanceled},
		"it was cut":          {func(cancel context.CancelCauseFunc, _ watching) { cancel(rpctypes.ErrGRPCNoLeader) }, rpctypes.ErrGRPCNoLeader},
		"nobody hears":        {func(_ context.CancelCauseFunc, w watching) { w.sent <- createWatch("a") }, errors.New("lost")},
	} {
		s := &watchServer{Server: New(newFake(t, watch.Config{}), Config{})}
		ctx, cancel := context.WithCancelCause(t.Context())
		w := watching{contextOnly{ctx: ctx}, make(chan *pb.WatchRequest, 1)}
		tt.end(cancel, w)
		if err := wantReturn(t, "a watch when "+name, func() error { return s.Watch(w) }); !same(err, tt.want) {
			t.Errorf("a watch when %s: %v, want %v", name, err, tt.want)
		}
		cancel(nil)
	}
}

// A client that asks for a watch while there is no state to show is refused after a pause, since it
// tries again at once.
func TestAWatchOfNothingIsRefusedAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := (&fake{store: kv.New()}).begin(t, watch.Config{}, kv.View{})
		defer f.hub.Close()
		s := &watchServer{Server: New(f, Config{})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := watching{contextOnly{ctx: ctx}, make(chan *pb.WatchRequest, 1)}
		w.sent <- createWatch("a")
		begun := time.Now()
		err := s.Watch(w)
		if took := time.Since(begun); took != 100*time.Millisecond || status.Code(err) != codes.Unavailable {
			t.Errorf("a watch of nothing is refused after %v, want 100ms: %v", took, err)
		}
	})
}

// Previous values are sent to those who ask for them.
func TestPreviousValuesAreAskedFor(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	w := s.watch(t)
	for id, asked := range map[int64]bool{1: true, 2: false} {
		w.create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: id, PrevKv: asked})
		w.recv()
	}
	s.put("a", "1")
	s.put("a", "2")
	for told := 0; told < 4; {
		r := w.recv()
		for _, e := range r.Events {
			told++
			if got, want := e.PrevKv != nil, r.WatchId == 1 && e.Kv.Version == 2; got != want {
				t.Errorf("watch %d, value %s: a previous value was sent: %v, want %v", r.WatchId, e.Kv.Value, got, want)
			}
		}
	}
}

// reporting is a stream that tells when it was sent a report of progress.
type reporting struct {
	watching
	sentAt chan time.Duration
	begun  time.Time
}

func (s reporting) SendMsg(any) error {
	s.sentAt <- time.Since(s.begun)
	return nil
}

// Streams that want reports of progress do not get them all at once.
func TestReportsOfProgressAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, watch.Config{})
		defer f.hub.Close()
		s := &watchServer{Server: New(f, Config{WatchProgressInterval: time.Minute})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var first, last time.Duration
		for i := range 10 {
			w := reporting{watching{contextOnly{ctx: ctx}, make(chan *pb.WatchRequest, 1)}, make(chan time.Duration, 100), time.Now()}
			w.sent <- &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("a"), ProgressNotify: true}}}
			go s.Watch(w)
			<-w.sentAt // that it was created
			at := <-w.sentAt
			if at < time.Minute || at > 70*time.Second {
				t.Errorf("a report of progress after %v, want one after a minute and a tenth more at most", at)
			}
			if first == 0 || at < first {
				first = at
			}
			if last = max(last, at); i == 9 && first == last {
				t.Errorf("ten streams have a report after %v each, want them spread", at)
			}
		}
	})
}
