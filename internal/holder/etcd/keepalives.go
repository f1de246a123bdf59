package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keepAlives sends the keep-alives of one lease. Each goes on a stream of its own, so that a stream which is
// stuck holds up nothing. With a password clientv3 logs in for each stream, which costs the servers
// an entry of their log and the hash of a password. So there one stream that has answered stays for the next
// keep-alive.
type keepAlives struct {
	client *clientv3.Client
	id     clientv3.LeaseID

	mu     sync.Mutex
	idle   *renewalStream
	closed bool
}

// renewalStream is a stream of one keep-alive at a time.
type renewalStream struct {
	pb.Lease_LeaseKeepAliveClient
	end context.CancelFunc
}

// renew sends one keep-alive, and returns the TTL that it was granted.
func (r *keepAlives) renew(ctx context.Context) (time.Duration, error) {
	if s := r.take(); s != nil {
		ttl, err := r.ask(ctx, s)
		if err == nil || errors.Is(err, errUnknownLease) || ctx.Err() != nil {
			return ttl, err
		}
		// Its server may have stopped since, or its token have ended: a new stream shows.
	}
	s, err := r.open(ctx)
	if err != nil {
		return 0, r.explain(err)
	}
	ttl, err := r.ask(ctx, s)
	return ttl, r.explain(err)
}

// open opens a stream, which may outlive ctx.
func (r *keepAlives) open(ctx context.Context) (*renewalStream, error) {
	life, end := context.WithCancel(clientv3.WithRequireLeader(context.WithoutCancel(ctx)))
	defer context.AfterFunc(ctx, end)()
	stream, err := pb.NewLeaseClient(r.client.ActiveConnection()).LeaseKeepAlive(life)
	if err != nil {
		end()
		return nil, err
	}
	return &renewalStream{stream, end}, nil
}

// ask sends a keep-alive on a stream. It ends the stream, unless the next one may use it.
func (r *keepAlives) ask(ctx context.Context, s *renewalStream) (time.Duration, error) {
	stop := context.AfterFunc(ctx, s.end)
	var resp *pb.LeaseKeepAliveResponse
	err := s.Send(&pb.LeaseKeepAliveRequest{ID: int64(r.id)})
	if err == nil || errors.Is(err, io.EOF) { // the reason comes by Recv
		resp, err = s.Recv()
	}
	switch {
	case err != nil:
		s.end()
		return 0, err
	case resp.TTL <= 0:
		s.end()
		return 0, errUnknownLease
	case !stop() || !r.keep(s):
		s.end()
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// take returns the stream that waits for the next keep-alive, if there is one. While a keep-alive is stuck
// on it, the next one finds none.
func (r *keepAlives) take() *renewalStream {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.idle
	r.idle = nil
	return s
}

// keep reports whether the stream stays for the next keep-alive.
func (r *keepAlives) keep(s *renewalStream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client.Username == "" || r.closed || r.idle != nil {
		return false
	}
	r.idle = s
	return true
}

// close ends the stream that waits. The lease is over.
func (r *keepAlives) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.idle != nil {
		r.idle.end()
		r.idle = nil
	}
}

// explain says of a refusal what the server wants of the user: it is why the lease will be lost.
func (r *keepAlives) explain(err error) error {
	refusal := rpctypes.Error(err)
	switch {
	case errors.Is(refusal, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%s may not renew the lease any more, which needs the right to write its keys: %w", r.user(), refusal)
	case errors.Is(refusal, rpctypes.ErrAuthFailed), errors.Is(refusal, rpctypes.ErrUserEmpty),
		errors.Is(refusal, rpctypes.ErrInvalidAuthToken), errors.Is(refusal, rpctypes.ErrAuthOldRevision):
		return fmt.Errorf("the server does not know %s any more, or by another password: %w", r.user(), refusal)
	}
	return err
}

func (r *keepAlives) user() string {
	if r.client.Username == "" {
		return "the user"
	}
	return fmt.Sprintf("user %q", r.client.Username)
}
