package diff

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// mutants are the smallest lies a server could tell. Each changes a reply on
// its way to the comparison, or puts an error in another's place.
var mutants = []struct {
	name string
	lie  func(reply any, err error) error
}{
	{"range count", func(reply any, err error) error {
		if r, ok := reply.(*pb.RangeResponse); ok && r.Count > 3 {
			r.Count--
		}
		return err
	}},
	{"range more", func(reply any, err error) error {
		if r, ok := reply.(*pb.RangeResponse); ok && r.More {
			r.More = false
		}
		return err
	}},
	{"version of a key", func(reply any, err error) error {
		if r, ok := reply.(*pb.RangeResponse); ok && len(r.Kvs) > 1 {
			r.Kvs[1].Version++
		}
		return err
	}},
	{"previous value of a put", func(reply any, err error) error {
		if r, ok := reply.(*pb.PutResponse); ok {
			r.PrevKv = nil
		}
		return err
	}},
	{"branch of a txn", func(reply any, err error) error {
		if r, ok := reply.(*pb.TxnResponse); ok {
			r.Succeeded = !r.Succeeded
		}
		return err
	}},
	{"keys deleted", func(reply any, err error) error {
		if r, ok := reply.(*pb.DeleteRangeResponse); ok && r.Deleted > 1 {
			r.Deleted = 1
		}
		return err
	}},
	{"header revision", func(reply any, err error) error {
		if r, ok := reply.(*pb.PutResponse); ok {
			r.Header.Revision++
		}
		return err
	}},
	{"header without a term", func(reply any, err error) error {
		if r, ok := reply.(*pb.LeaseGrantResponse); ok {
			r.Header.RaftTerm = 0
		}
		return err
	}},
	{"granted TTL", func(reply any, err error) error {
		if r, ok := reply.(*pb.LeaseGrantResponse); ok && r.TTL == 2 {
			r.TTL = 1
		}
		return err
	}},
	{"error code", func(_ any, err error) error {
		if status.Code(err) == codes.NotFound {
			return status.Error(codes.FailedPrecondition, status.Convert(err).Message())
		}
		return err
	}},
	{"error text", func(_ any, err error) error {
		if status.Code(err) == codes.OutOfRange {
			return status.Error(codes.OutOfRange, "out of range")
		}
		return err
	}},
	{"watch: an event lost", func(reply any, err error) error {
		if r, ok := reply.(*pb.WatchResponse); ok && len(r.Events) > 1 {
			r.Events = r.Events[1:]
		}
		return err
	}},
	{"watch: previous value", func(reply any, err error) error {
		if r, ok := reply.(*pb.WatchResponse); ok {
			for _, e := range r.Events {
				e.PrevKv = nil
			}
		}
		return err
	}},
	{"watch: header behind the events", func(reply any, err error) error {
		if r, ok := reply.(*pb.WatchResponse); ok && len(r.Events) > 0 {
			r.Header.Revision = r.Events[0].Kv.ModRevision - 1
		}
		return err
	}},
	{"watch: progress too far", func(reply any, err error) error {
		if r, ok := reply.(*pb.WatchResponse); ok && len(r.Events) == 0 && !r.Created && !r.Canceled {
			r.Header.Revision += 3
		}
		return err
	}},
	{"watch: compact revision", func(reply any, err error) error {
		if r, ok := reply.(*pb.WatchResponse); ok && r.CompactRevision > 0 {
			r.CompactRevision++
		}
		return err
	}},
	{"remaining time to live", func(reply any, err error) error {
		if r, ok := reply.(*pb.LeaseTimeToLiveResponse); ok && r.TTL > 0 {
			r.TTL -= 60
		}
		return err
	}},
}

// TestTeeth puts each mutant between the comparison and an etcd, and wants it
// found. Mutants change replies only, so one pair of servers serves them all.
func TestTeeth(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var mutant atomic.Pointer[func(any, error) error]
	lie := func(reply any, err error) error {
		f := mutant.Load()
		switch {
		case f == nil:
			return err
		case err != nil:
			return (*f)(nil, err)
		default:
			return (*f)(reply, nil)
		}
	}
	a := target(t, ctx, "etcd", server.Config{Kind: server.Etcd})
	defer a.stop()
	b := target(t, ctx, "etcd that lies", server.Config{Kind: server.Etcd},
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any,
			cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return lie(reply, invoke(ctx, method, req, reply, cc, opts...))
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
			method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := stream(ctx, desc, cc, method, opts...)
			return liar{s, lie}, err
		}))
	defer b.stop()

	for i, m := range mutants {
		if testing.Short() && i%4 != 0 {
			continue
		}
		mutant.Store(&m.lie)
		err := Compare(ctx, a.Target, b.Target, Generate(uint64(i), 2000))
		mutant.Store(nil)
		var mismatch *Mismatch
		if !errors.As(err, &mismatch) {
			t.Errorf("%s: not found, %v", m.name, err)
			continue
		}
		t.Logf("%s: found at step %d: %s", m.name, mismatch.Index, mismatch.Detail)
	}
}

type liar struct {
	grpc.ClientStream
	lie func(any, error) error
}

func (l liar) RecvMsg(m any) error { return l.lie(m, l.ClientStream.RecvMsg(m)) }

func mustMarshal(t *testing.T, s Step) []byte {
	t.Helper()
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.Req)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
