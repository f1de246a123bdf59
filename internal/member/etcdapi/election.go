package etcdapi

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

type electionServer struct {
	*Server
	v3electionpb.UnsafeElectionServer
}

// As in etcd these have no code of their own.
var (
	errNotLeader     = errors.New("election: not leader")
	errNoElected     = errors.New("election: no leader")
	errMissingLeader = errors.New(`"leader" field must be provided`)
)

// Campaign waits until the caller leads.
func (s *electionServer) Campaign(ctx context.Context, r *v3electionpb.CampaignRequest) (*v3electionpb.CampaignResponse, error) {
	c, resp, err := s.contend(ctx, r.Name, r.Lease, r.Value)
	if err != nil {
		return nil, err
	}
	header := resp.Header
	if c.earlier != nil && string(c.earlier.Value) != string(r.Value) {
		if header, err = s.proclaim(ctx, c.key, c.created, c.lease, r.Value); err != nil {
			s.withdraw(ctx, c)
			return nil, toStatus(err)
		}
	}
	if _, err := s.awaitTurn(ctx, r.Name, c.key, c.created, errNotLeader); err != nil {
		s.withdraw(ctx, c)
		return nil, toStatus(err)
	}
	return &v3electionpb.CampaignResponse{
		Header: header,
		Leader: &v3electionpb.LeaderKey{Name: r.Name, Key: c.key, Rev: c.created, Lease: c.lease},
	}, nil
}

// Proclaim gives the leader a new value.
func (s *electionServer) Proclaim(ctx context.Context, r *v3electionpb.ProclaimRequest) (*v3electionpb.ProclaimResponse, error) {
	if r.Leader == nil {
		return nil, toStatus(errMissingLeader)
	}
	header, err := s.proclaim(ctx, r.Leader.Key, r.Leader.Rev, r.Leader.Lease, r.Value)
	if err != nil {
		return nil, toStatus(err)
	}
	return &v3electionpb.ProclaimResponse{Header: header}, nil
}

func (s *Server) proclaim(ctx context.Context, key []byte, created, lease int64, value []byte) (*pb.ResponseHeader, error) {
	put := putOp(key, value, lease)
	put.GetRequestPut().IgnoreLease = lease == 0 // a caller that does not tell keeps the one it has
	resp, err := s.ifCreated(ctx, key, created, put)
	if err != nil {
		return nil, err
	}
	if !resp.Succeeded {
		return nil, errNotLeader
	}
	return resp.Header, nil
}

// Resign gives the leadership up; one that is lost already is no error.
func (s *electionServer) Resign(ctx context.Context, r *v3electionpb.ResignRequest) (*v3electionpb.ResignResponse, error) {
	if r.Leader == nil {
		return nil, toStatus(errMissingLeader)
	}
	resp, err := s.ifCreated(ctx, r.Leader.Key, r.Leader.Rev, deleteOp(r.Leader.Key))
	if err != nil {
		return nil, toStatus(err)
	}
	return &v3electionpb.ResignResponse{Header: resp.Header}, nil
}

// ifCreated does op if the key is still the one created at a revision.
func (s *Server) ifCreated(ctx context.Context, key []byte, created int64, op *pb.RequestOp) (*pb.TxnResponse, error) {
	r := &pb.TxnRequest{Compare: []*pb.Compare{createdAt(key, created)}, Success: []*pb.RequestOp{op}}
	return (&kvServer{Server: s}).Txn(ctx, r)
}

// Leader returns the leader's key and value.
func (s *electionServer) Leader(ctx context.Context, r *v3electionpb.LeaderRequest) (*v3electionpb.LeaderResponse, error) {
	resp, err := s.read(ctx, holderOf(r.Name))
	if err != nil {
		return nil, toStatus(err)
	}
	if len(resp.Kvs) == 0 {
		return nil, toStatus(errNoElected)
	}
	s.fill(resp.Header)
	return &v3electionpb.LeaderResponse{Header: resp.Header, Kv: resp.Kvs[0]}, nil
}

// Observe sends each leader that it sees, and each of its values in order.
func (s *electionServer) Observe(r *v3electionpb.LeaderRequest, stream v3electionpb.Election_ObserveServer) error {
	ctx := stream.Context()
	if err := s.backend.Barrier(ctx); err != nil {
		return toStatus(err)
	}
	if err := s.permit(ctx, holderOf(r.Name)); err != nil { // a token that is old is refused at the begin
		return toStatus(err)
	}
	key, end := contenders(r.Name)
	send := func(leader *mvccpb.KeyValue, revision int64) error {
		if err := s.permit(s.asNow(ctx), holderOf(r.Name)); err != nil { // it may have changed since
			return toStatus(err)
		}
		return stream.Send(&v3electionpb.LeaderResponse{Header: s.headerAt(revision), Kv: leader})
	}
	for {
		kvs, revision, err := s.lookup(ctx, holderOf(r.Name))
		if err != nil {
			return toStatus(err)
		}
		var leader *mvccpb.KeyValue
		if len(kvs) > 0 {
			leader = kvs[0]
		} else {
			// Nobody yet: the first that comes.
			err := s.follow(ctx, key, end, revision+1, func(e *watch.Event) (bool, error) {
				if e.Type == mvccpb.Event_PUT {
					leader, revision = e.KV, e.KV.ModRevision
				}
				return leader != nil, nil
			})
			if err != nil {
				return toStatus(err)
			}
			if leader == nil {
				continue
			}
		}
		if err := send(leader, revision); err != nil {
			return err
		}
		err = s.follow(ctx, leader.Key, nil, revision+1, func(e *watch.Event) (bool, error) {
			if e.Type == mvccpb.Event_DELETE {
				return true, nil
			}
			return false, send(e.KV, e.KV.ModRevision)
		})
		if err != nil {
			return toStatus(err)
		}
	}
}

// follow calls visit for the events of a range from a revision on, until it is
// done or fails; it also ends if those events are compacted away.
func (s *Server) follow(ctx context.Context, key, end []byte, from int64, visit func(*watch.Event) (done bool, err error)) error {
	ws := s.backend.Watches().NewStream(0)
	defer ws.Close()
	if err := ws.Create(ctx, &pb.WatchCreateRequest{Key: key, RangeEnd: end, StartRevision: from}); err != nil {
		return err
	}
	for {
		r, err := ws.Next(ctx)
		if err != nil {
			return err
		}
		if r.Canceled {
			return nil
		}
		if r.Judge {
			if err := s.permit(s.asNow(ctx), &pb.RangeRequest{Key: key, RangeEnd: end}); err != nil {
				return err
			}
		}
		for _, e := range r.Events {
			if done, err := visit(e); done || err != nil {
				return err
			}
		}
	}
}
