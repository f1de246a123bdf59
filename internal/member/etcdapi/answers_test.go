package etcdapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/member/watch"
)

// unread asks for a range, over a connection of its own with a small window, and reads nothing.
func (s *served) unread(method string, r *pb.RangeRequest) (grpc.ClientStream, *grpc.ClientConn) {
	s.t.Helper()
	conn, err := grpc.NewClient("passthrough:fake", s.dialer(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	stream, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, "/etcdserverpb.KV/"+method)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(stream.SendMsg(r), stream.CloseSend()); err != nil {
		s.t.Fatal(err)
	}
	return stream, conn
}

// room waits until there is room for some bytes of answers, or none.
func (s *served) room(bytes int64, want bool) {
	s.t.Helper()
	for range 1000 {
		got := s.server.answers.room.TryAcquire(bytes)
		if got {
			s.server.answers.room.Release(bytes)
		}
		if got == want {
			return
		}
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
	}
	s.t.Fatalf("room for %d bytes of answers: still %v", bytes, !want)
}

// Unread answers of clients have a bound; small answers, and those for which there is room,
// go on.
func TestUnreadAnswersAreBounded(t *testing.T) {
	const value, bound = 600 << 10, 1 << 20
	for name, over := range map[string]func(*served, grpc.ClientStream, *grpc.ClientConn){
		"read": func(s *served, stream grpc.ClientStream, _ *grpc.ClientConn) {
			if err := stream.RecvMsg(new(pb.RangeResponse)); err != nil {
				s.t.Fatal(err)
			}
		},
		"given up": func(s *served, _ grpc.ClientStream, conn *grpc.ClientConn) { conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, Config{AnswerBytes: bound, AnswerPatience: 20 * time.Millisecond}, watch.Config{})
			s.put("big", string(make([]byte, value)))
			s.put("small", "v")
			big := &pb.RangeRequest{Key: []byte("big")}
			stream, conn := s.unread("Range", big)
			s.room(value, false)
			for what, call := range map[string]func() error{
				"get": func() error { _, err := s.kv().Range(t.Context(), big); return err },
				"transaction": func() error {
					_, err := s.kv().Txn(t.Context(), &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(big)}})
					return err
				},
				"stream": func() error {
					rs, err := s.kv().RangeStream(t.Context(), big)
					if err == nil {
						_, err = rs.Recv()
					}
					return err
				},
			} {
				if err := call(); !same(err, rpctypes.ErrGRPCRequestTooManyRequests) {
					t.Errorf("%s, with another's answer unread: %v, want too many requests", what, err)
				}
			}
			if _, err := s.kv().Range(t.Context(), &pb.RangeRequest{Key: []byte("small")}); err != nil {
				t.Errorf("a small answer waits for large ones: %v", err)
			}
			over(s, stream, conn)
			s.room(bound, true)
			if resp, err := s.kv().Range(t.Context(), big); err != nil || len(resp.Kvs[0].Value) != value {
				t.Errorf("there is room again: %v", err)
			}
			s.room(bound, true)
		})
	}
}

// An answer waits for its turn, if there is room soon, and one that is larger than all the
// room is sent alone.
func TestAnswersWaitForRoom(t *testing.T) {
	s := serve(t, Config{AnswerBytes: 1 << 20, AnswerPatience: 10 * time.Second}, watch.Config{})
	s.put("big", string(make([]byte, 600<<10)))
	s.put("huge", string(make([]byte, 3<<20)))
	stream, _ := s.unread("Range", &pb.RangeRequest{Key: []byte("big")})
	s.room(600<<10, false)
	done := make(chan error)
	go func() {
		resp, err := s.kv().Range(t.Context(), &pb.RangeRequest{Key: []byte("huge")})
		if err == nil && len(resp.Kvs[0].Value) != 3<<20 {
			err = fmt.Errorf("%d bytes", len(resp.Kvs[0].Value))
		}
		done <- err
	}()
	gone, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.kv().Range(gone, &pb.RangeRequest{Key: []byte("big")}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a caller that leaves while it waits: %v, want its own deadline", err)
	}
	select {
	case err := <-done:
		t.Errorf("an answer larger than the room was sent beside another: %v", err)
	default:
	}
	if err := stream.RecvMsg(new(pb.RangeResponse)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("an answer larger than the room: %v", err)
	}
	s.room(1<<20, true)
}

// A stream of a long range has no more of it encoded than the client reads.
func TestUnreadRangeStreamHasABound(t *testing.T) {
	const part = 100 << 10
	s := serve(t, Config{MaxRequestBytes: part, AnswerBytes: 1 << 20, AnswerPatience: 10 * time.Second}, watch.Config{})
	for i := range 30 {
		s.put(fmt.Sprintf("k%02d", i), strings.Repeat("x", part))
	}
	stream, _ := s.unread("RangeStream", &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")})
	s.room(1<<20, false)
	s.room((1<<20)-4*part, true)
	got := 0
	for {
		var r pb.RangeStreamResponse
		err := stream.RecvMsg(&r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got += len(r.RangeResponse.Kvs)
	}
	if got != 30 {
		t.Errorf("%d keys, want 30", got)
	}
	s.room(1<<20, true)
}

// Ranges that take long take turns; what is short does not wait for them.
func TestLongReadsTakeTurns(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	for i := range longRange + 1 {
		s.put(fmt.Sprintf("k%05d", i), "v")
	}
	all, short := &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), CountOnly: true}, &pb.RangeRequest{Key: []byte("k0"), RangeEnd: []byte("k00010")}
	txn := func(r *pb.RangeRequest) *pb.TxnRequest {
		nested := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(r)}}}}
		return &pb.TxnRequest{Success: []*pb.RequestOp{nested}}
	}
	calls := map[string]func(context.Context, *pb.RangeRequest) error{
		"range":       func(ctx context.Context, r *pb.RangeRequest) error { _, err := s.kv().Range(ctx, r); return err },
		"transaction": func(ctx context.Context, r *pb.RangeRequest) error { _, err := s.kv().Txn(ctx, txn(r)); return err },
	}
	turns := int64(max(1, runtime.GOMAXPROCS(0)/2))
	if !s.server.scans.TryAcquire(turns) {
		t.Fatalf("there are no %d turns", turns)
	}
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := call(ctx, all); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a long %s while others have all turns: %v, want it to wait", name, err)
		}
		cancel()
		if err := call(t.Context(), short); err != nil {
			t.Errorf("a short %s: %v", name, err)
		}
	}
	s.server.scans.Release(turns)
	for range turns + 1 { // each gives its turn back
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if err := call(ctx, all); err != nil {
				t.Errorf("a long %s: %v, want each to give its turn back", name, err)
			}
			cancel()
		}
	}
	if !s.server.scans.TryAcquire(turns) {
		t.Errorf("a turn was not given back")
	}
}

// Each answer that grows with what clients have stored takes room while it is not read.
func TestWhatMayBeLarge(t *testing.T) {
	for _, resp := range []proto.Message{
		&pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{}}},
		&pb.TxnResponse{Responses: []*pb.ResponseOp{{}}},
		&pb.LeaseLeasesResponse{},
		&pb.LeaseTimeToLiveResponse{Keys: [][]byte{nil}},
		&pb.MemberListResponse{},
		&readleasepb.GetResponse{},
	} {
		if m, ok := large(resp); !ok || m != resp {
			t.Errorf("%T is no large answer, want one", resp)
		}
	}
	for _, resp := range []proto.Message{&pb.PutResponse{}, &pb.RangeResponse{}, &pb.TxnResponse{}, &pb.LeaseTimeToLiveResponse{}} {
		if _, ok := large(resp); ok {
			t.Errorf("%T without what grows is a large answer, want none", resp)
		}
	}
}

// bytesOf is an answer with a value of some bytes.
func bytesOf(n int) *pb.RangeResponse {
	return &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Value: make([]byte, n)}}}
}

// An answer that is put together in one buffer takes no room, and one that is larger by a byte does.
func TestTheSizeFromWhichAnswersTakeRoom(t *testing.T) {
	a := New(newFake(t, watch.Config{}), Config{}).answers
	n := copyBelow
	for proto.Size(bytesOf(n)) > copyBelow {
		n--
	}
	for more := range 2 {
		m := bytesOf(n + more)
		admitted, err := a.admit(t.Context(), m)
		if _, takes := admitted.(*answer); err != nil || takes != (more == 1) {
			t.Errorf("an answer of %d bytes takes room %v, %v; want it from %d on", proto.Size(m), takes, err, copyBelow+1)
		}
	}
}

// An answer whose stream ends while it waits for room tells the client why the stream ended.
func TestAnAnswerWhoseStreamEndsSaysWhy(t *testing.T) {
	a := New(newFake(t, watch.Config{}), Config{AnswerBytes: 1 << 20, AnswerPatience: time.Hour}).answers
	if !a.room.TryAcquire(1 << 20) {
		t.Fatal("there is no room to begin with")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(rpctypes.ErrGRPCStopped)
	if _, err := a.admit(ctx, bytesOf(600<<10)); err != rpctypes.ErrGRPCStopped {
		t.Errorf("an answer whose stream has ended: %v, want %v", err, rpctypes.ErrGRPCStopped)
	}
}

// An answer that cannot be encoded gives its room back at once.
func TestAnAnswerThatCannotBeEncoded(t *testing.T) {
	a := New(newFake(t, watch.Config{}), Config{AnswerBytes: 1 << 20}).answers
	admitted, err := a.admit(t.Context(), &pb.MemberListResponse{Members: []*pb.Member{{Name: strings.Repeat("\xff", 600<<10)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (codec{}).Marshal(admitted); err == nil {
		t.Error("a name that is no text was encoded")
	}
	if !a.room.TryAcquire(1 << 20) {
		t.Error("an answer that was not sent has kept its room")
	}
	runtime.KeepAlive(admitted)
}

// The room of an answer is given back once, whether gRPC has sent it or nobody refers to it.
func TestRoomIsGivenBackOnce(t *testing.T) {
	a := New(newFake(t, watch.Config{}), Config{AnswerBytes: 3 << 20}).answers
	for range 2 {
		if _, err := a.admit(t.Context(), bytesOf(1<<20-100)); err != nil { // another's stays
			t.Fatal(err)
		}
	}
	s := &stub{room: a.room, bytes: 1<<20 - 100}
	if !a.room.TryAcquire(s.bytes) {
		t.Fatal("there is no room for a third")
	}
	s.release()
	s.release()
	if a.room.TryAcquire(2 << 20) {
		t.Error("the room of one answer was given back twice: another's is taken for free")
	}
}

// When there is no room, answers that nobody refers to any more are looked for: those of
// connections that have ended.
func TestRoomOfForgottenAnswersIsFound(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector runs only when it is asked to
	a := New(newFake(t, watch.Config{}), Config{AnswerBytes: 1 << 20, AnswerPatience: time.Millisecond}).answers
	func() {
		if _, err := a.admit(t.Context(), bytesOf(600<<10)); err != nil {
			t.Fatal(err)
		}
	}()
	another := bytesOf(500 << 10)
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		_, err := a.admit(t.Context(), another)
		if err == nil {
			return
		}
		if !same(err, rpctypes.ErrGRPCRequestTooManyRequests) {
			t.Fatalf("an answer without room: %v, want too many requests", err)
		}
		if time.Now().After(end) {
			t.Fatal("an answer that nobody refers to keeps its room")
		}
	}
}

// leaving is a caller that has gone, which nobody has noticed yet.
type leaving struct{ context.Context }

func (leaving) Err() error { return context.Canceled }

// An answer that has got room as its caller left gives it back all the same.
func TestRoomThatComesAsTheCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(&Config{AnswerBytes: 1 << 20, AnswerPatience: time.Hour, Short: func() bool { return false }})
		if !a.room.TryAcquire(1 << 20) {
			t.Fatal("there is no room to begin with")
		}
		time.AfterFunc(time.Second, func() { a.room.Release(1 << 20) })
		admitted, err := a.admit(leaving{context.Background()}, bytesOf(600<<10))
		if err == nil {
			admitted.(*answer).ticket.release() // as gRPC does, whether it can send it or not
		}
		if !a.room.TryAcquire(1 << 20) {
			t.Errorf("room that came as the caller left was not given back: %v", err)
		}
		runtime.KeepAlive(admitted)
	})
}

// unheard is a stream of a range that nobody hears.
type unheard struct {
	contextOnly
	sent *int
}

func (s unheard) Send(*pb.RangeStreamResponse) error { return s.SendMsg(nil) }

func (s unheard) SendMsg(any) error {
	*s.sent++
	return errors.New("lost")
}

// The rest of a range is not encoded for a client that hears nothing any more.
func TestARangeStreamThatNobodyHearsEnds(t *testing.T) {
	f := newFake(t, watch.Config{})
	for _, key := range []string{"k1", "k2", "k3"} {
		(&served{fake: f, t: t}).put(key, "v")
	}
	sent := 0
	s := &kvServer{Server: New(f, Config{MaxRequestBytes: 1})}
	err := s.RangeStream(&pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}, unheard{contextOnly{ctx: t.Context()}, &sent})
	if err == nil || err.Error() != "lost" || sent != 1 {
		t.Errorf("a stream that nobody hears: %v after %d parts of three, want what gRPC says after the first", err, sent)
	}
}
