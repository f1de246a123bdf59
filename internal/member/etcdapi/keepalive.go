package etcdapi

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/member/caller"
)

// keepAliveWindow is how many renewals of one stream may be under way. A client
// has one stream for all its leases, and a renewal takes a round among the
// members, so renewals one after the other would be slow.
const keepAliveWindow = 64

// A renewal is one request of a keep-alive stream, under way.
type renewal struct {
	response *pb.LeaseKeepAliveResponse
	wait     func(context.Context) (ttl int64, err error)
}

// failed is the end of a renewal that is refused, nil if it is not.
func failed(err error) (wait func(context.Context) (ttl int64, err error)) {
	if err == nil {
		return nil
	}
	return func(context.Context) (int64, error) { return 0, err }
}

// mayRenew judges a renewal, by the token of its stream as it is now.
func (s *Server) mayRenew(ctx context.Context, r *pb.LeaseKeepAliveRequest) error {
	if !s.backend.Users().Enabled() {
		return nil
	}
	c, err := s.identify(ctx)
	if err == nil {
		_, err = s.backend.ViewFor(caller.With(ctx, c), r)
	}
	return err
}

// LeaseKeepAlive renews leases, answering in the order of the requests; a time to
// live of 0 means that there is no such lease.
func (s *leaseServer) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	queue := make(chan renewal, keepAliveWindow-2) // one is being answered, one waits to be queued
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
			resp := &pb.LeaseKeepAliveResponse{ID: req.ID, Header: s.header()}
			wait := failed(s.mayRenew(ctx, req))
			if wait == nil {
				wait = s.backend.KeepAlive(req.ID)
			}
			select {
			case queue <- renewal{resp, wait}:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		var r renewal
		var more bool
		select {
		case r, more = <-queue:
		case <-ctx.Done(): // which does not end Recv
		}
		if !more {
			return toStatus(context.Cause(ctx))
		}
		var err error
		if r.response.TTL, err = r.wait(ctx); ctx.Err() != nil {
			return toStatus(context.Cause(ctx))
		}
		if err != nil {
			return toStatus(err)
		}
		if err := stream.Send(r.response); err != nil {
			return err
		}
	}
}
