package etcdapi

import (
	"context"
	"errors"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

type leaseServer struct {
	*Server
	pb.UnsafeLeaseServer
}

// LeaseGrant makes a lease, whose time to live may be longer than asked for.
func (s *leaseServer) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if r.TTL > kv.MaxLeaseTTL {
		return nil, toStatus(kv.ErrLeaseTTLTooLarge)
	}
	return s.grant(ctx, r.ID, r.TTL)
}

// grant makes a lease with an id or, if that is 0, a random one.
func (s *Server) grant(ctx context.Context, id, ttl int64) (*pb.LeaseGrantResponse, error) {
	for {
		try := id
		for try == 0 {
			try = rand.Int64()
		}
		resp, err := propose[*pb.LeaseGrantResponse](ctx, s, &pb.LeaseGrantRequest{ID: try, TTL: ttl})
		if id == 0 && errors.Is(err, toStatus(kv.ErrLeaseExists)) {
			continue // somebody has drawn the same
		}
		return resp, err
	}
}

// LeaseRevoke ends a lease and deletes its keys.
func (s *leaseServer) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	return propose[*pb.LeaseRevokeResponse](ctx, s.Server, r)
}

// LeaseTimeToLive tells how long a lease has left; -1 that there is none such.
func (s *leaseServer) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	remaining, granted, err := s.backend.TimeToLive(ctx, r.ID)
	if err != nil {
		return nil, toStatus(err)
	}
	resp := &pb.LeaseTimeToLiveResponse{ID: r.ID, TTL: remaining}
	if remaining >= 0 {
		resp.GrantedTTL = granted
		if r.Keys {
			// The answer came from the leader, which may be ahead of us.
			if err := s.backend.Barrier(ctx); err != nil {
				return nil, toStatus(err)
			}
			view, err := s.backend.ViewFor(ctx, r)
			if err != nil {
				return nil, toStatus(err)
			}
			resp.Keys = view.LeaseKeys(r.ID)
		}
	}
	resp.Header = s.header()
	return resp, nil
}

// LeaseLeases lists the leases, in order of id, to those who may read all keys that are attached to
// any. In key order the published state may lack one that this member has just granted. Etcd's leader
// lists them in the order in which they run out, and its followers in none, so no client can go by an order.
func (s *leaseServer) LeaseLeases(ctx context.Context, r *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	if err := s.backend.Barrier(ctx); err != nil {
		return nil, toStatus(err)
	}
	view, err := s.backend.ViewFor(ctx, r)
	if err != nil {
		return nil, toStatus(err)
	}
	users, c := s.backend.Users(), caller.Of(ctx)
	all := users.MayManage(c) == nil
	resp := &pb.LeaseLeasesResponse{Header: s.headerAt(view.Revision())}
	for l := range view.Leases() {
		if !all {
			if err := users.Permit(c, &pb.LeaseTimeToLiveRequest{ID: l.ID, Keys: true}, view.LeaseKeys); err != nil {
				return nil, toStatus(err)
			}
		}
		resp.Leases = append(resp.Leases, &pb.LeaseStatus{ID: l.ID})
	}
	return resp, nil
}
