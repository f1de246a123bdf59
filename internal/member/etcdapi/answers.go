package etcdapi

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/api/readleasepb"
)

// answers bounds the memory of answers that clients have asked for and do not read. gRPC takes
// an answer of any size at once, and keeps it until the client's window lets it out.
type answers struct {
	room     *semaphore.Weighted
	size     int64
	patience time.Duration
	short    func() bool
}

func newAnswers(c *Config) *answers {
	return &answers{room: semaphore.NewWeighted(c.AnswerBytes), size: c.AnswerBytes, patience: c.AnswerPatience, short: c.Short}
}

// An answer is a large message with room for its encoded form. It is encoded by the codec.
type answer struct {
	message proto.Message
	size    int
	ticket  *ticket
}

// A ticket is room for an answer. It is given back when gRPC has sent the answer, or nobody
// refers to its bytes any more: gRPC does not free what waits on a connection that ends.
type ticket struct{ *stub }

// A stub is what gives back the room of a ticket, once.
type stub struct {
	room  *semaphore.Weighted
	bytes int64
	given atomic.Bool
}

func (s *stub) release() {
	if !s.given.Swap(true) {
		s.room.Release(s.bytes)
	}
}

// admit waits for room for an answer, if it is large. When there is none for long it tries
// whether the garbage collector finds some, and then gives up with etcd's error for that.
func (a *answers) admit(ctx context.Context, m proto.Message) (any, error) {
	size := proto.Size(m)
	if size <= copyBelow {
		return m, nil
	}
	if a.short() {
		return nil, rpctypes.ErrGRPCRequestTooManyRequests
	}
	s := &stub{room: a.room, bytes: min(int64(size), a.size)}
	if !a.room.TryAcquire(s.bytes) {
		waiting, cancel := context.WithTimeout(ctx, a.patience)
		err := a.room.Acquire(waiting, s.bytes)
		cancel()
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			go runtime.GC()
			return nil, rpctypes.ErrGRPCRequestTooManyRequests
		}
	}
	t := &ticket{s}
	runtime.AddCleanup(t, (*stub).release, s)
	return &answer{m, size, t}, nil
}

// large reports whether an answer may be: those of other types are not.
func large(resp any) (proto.Message, bool) {
	switch r := resp.(type) {
	case *pb.RangeResponse:
		return r, len(r.Kvs) > 0
	case *pb.TxnResponse:
		return r, len(r.Responses) > 0
	case *pb.LeaseLeasesResponse:
		return r, true
	case *pb.LeaseTimeToLiveResponse:
		return r, len(r.Keys) > 0
	case *pb.MemberListResponse:
		return r, true
	case *readleasepb.GetResponse:
		return r, true
	}
	return nil, false
}

// buffers encodes the answer. Its room is given back with the last reference to the bytes.
func (a *answer) buffers() (mem.BufferSlice, error) {
	// The size was just computed, and each message below remembers its own.
	raw, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(make([]byte, 0, a.size), a.message)
	if err != nil {
		a.ticket.release()
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(&raw, a.ticket)}, nil
}

// Get makes a ticket a pool, which it is for one buffer.
func (t *ticket) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put is called when gRPC has sent the answer.
func (t *ticket) Put(*[]byte) { t.release() }
