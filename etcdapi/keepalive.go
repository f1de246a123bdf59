package etcdapi

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// keepAliveWindow is how many renewals of one stream may be under way. A client
// has one stream for all its leases, and a renewal takes a round among the
// members, so that one after the other they would be slow.
const keepAliveWindow = 64

// A renewal is one request of a keep-alive stream. Either the goroutine that
// answers takes it when it comes to it, or before that a goroutine of its own.
type renewal struct {
	response *pb.LeaseKeepAliveResponse
	err      error
	taken    atomic.Bool
	done     chan struct{}
}

// LeaseKeepAlive renews leases, answering in the order of the requests; a time to
// live of 0 means that there is no such lease.
func (s *leaseServer) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	queue := make(chan *renewal, keepAliveWindow)
	var unanswered atomic.Int32
	go func() {
		defer close(queue)
		for {
			req, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				cancel(err)
				return
			}
			// The header is of before the renewal: had the lease ended at a
			// later revision, the client must not see that revision with it.
			r := &renewal{
				response: &pb.LeaseKeepAliveResponse{ID: req.ID, Header: s.header()},
				done:     make(chan struct{}),
			}
			select {
			case queue <- r:
			case <-ctx.Done():
				return
			}
			if unanswered.Add(1) > 1 {
				go s.renew(ctx, r)
			}
		}
	}()
	for {
		var r *renewal
		var ok bool
		select {
		case r, ok = <-queue:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return toStatus(context.Cause(ctx))
		}
		if !ok {
			return nil
		}
		s.renew(ctx, r)
		<-r.done
		if r.err != nil {
			return toStatus(r.err)
		}
		if err := stream.Send(r.response); err != nil {
			return err
		}
		unanswered.Add(-1)
	}
}

// renew does a renewal unless another goroutine has taken it.
func (s *leaseServer) renew(ctx context.Context, r *renewal) {
	if !r.taken.CompareAndSwap(false, true) {
		return
	}
	r.response.TTL, r.err = s.backend.KeepAlive(ctx, r.response.ID)
	if r.err != nil && ctx.Err() != nil {
		r.err = context.Cause(ctx)
	}
	close(r.done)
}
