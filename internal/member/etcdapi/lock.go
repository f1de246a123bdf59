package etcdapi

import (
	"context"
	"errors"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

type lockServer struct {
	*Server
	v3lockpb.UnsafeLockServer
}

// errSession has the text that etcd's client gives a lock whose lease ended.
var errSession = errors.New("mutex: session is expired")

// defaultSessionTTL, in seconds, is the lease of a contender that brings none.
const defaultSessionTTL = 60

// cleanupTimeout bounds the withdrawal of a contender whose call has ended.
const cleanupTimeout = 5 * time.Second

// Lock waits until the caller's key is the oldest under NAME/.
func (s *lockServer) Lock(ctx context.Context, r *v3lockpb.LockRequest) (*v3lockpb.LockResponse, error) {
	c, _, err := s.contend(ctx, r.Name, r.Lease, nil)
	if err != nil {
		return nil, err
	}
	revision, err := s.awaitTurn(ctx, r.Name, c.key, c.created, errSession)
	if err != nil {
		s.withdraw(ctx, c)
		return nil, toStatus(err)
	}
	return &v3lockpb.LockResponse{Header: s.headerAt(revision), Key: c.key}, nil
}

// Unlock deletes the key that Lock returned.
func (s *lockServer) Unlock(ctx context.Context, r *v3lockpb.UnlockRequest) (*v3lockpb.UnlockResponse, error) {
	d := &pb.DeleteRangeRequest{Key: r.Key}
	if err := kv.CheckDeleteRange(d); err != nil {
		return nil, toStatus(err)
	}
	resp, err := propose[*pb.DeleteRangeResponse](ctx, s.Server, d)
	if err != nil {
		return nil, err
	}
	return &v3lockpb.UnlockResponse{Header: resp.Header}, nil
}

// A contender is a key under NAME/.
type contender struct {
	key     []byte
	created int64 // its create revision
	lease   int64
	granted bool             // the lease was granted by us
	earlier *mvccpb.KeyValue // the key as it was before, if the lease contended before
}

// contend puts a contender's key, with a lease of its own if it has none; if the lease
// contends already its key stays as it is. The transaction does not ask for the holder:
// each member would look through all contenders for each new one, between the writes of all
// others. Errors have a status.
func (s *Server) contend(ctx context.Context, name []byte, lease int64, value []byte) (*contender, *pb.TxnResponse, error) {
	c := &contender{lease: lease}
	// It will be told when it is its turn, which tells of the others' keys.
	if err := s.permit(ctx, holderOf(name)); err != nil {
		return nil, nil, toStatus(err)
	}
	if lease == 0 {
		resp, err := s.grant(ctx, 0, defaultSessionTTL)
		if err != nil {
			return nil, nil, err
		}
		c.lease, c.granted = resp.ID, true
	}
	prefix, _ := contenders(name)
	// As the client prints it: a negative id, which nobody should have, too.
	c.key = strconv.AppendInt(prefix, c.lease, 16)
	resp, err := propose[*pb.TxnResponse](ctx, s, &pb.TxnRequest{
		Compare: []*pb.Compare{createdAt(c.key, 0)},
		Success: []*pb.RequestOp{putOp(c.key, value, c.lease)},
		Failure: []*pb.RequestOp{rangeOp(&pb.RangeRequest{Key: c.key})},
	})
	if err != nil {
		s.withdraw(ctx, c)
		return nil, nil, err
	}
	c.created = resp.Header.Revision
	if !resp.Succeeded {
		c.earlier = resp.Responses[0].GetResponseRange().Kvs[0]
		c.created = c.earlier.CreateRevision
	}
	return c, resp, nil
}

// withdraw removes a contender whose call has failed, also if the caller is gone, or may not write
// its key any more: the member takes back what it put. If the state cannot be changed now, the contender's lease ends it.
func (s *Server) withdraw(ctx context.Context, c *contender) {
	ctx, cancel := context.WithTimeout(caller.Member(context.WithoutCancel(ctx)), cleanupTimeout)
	defer cancel()
	var r proto.Message
	switch {
	case c.granted:
		r = &pb.LeaseRevokeRequest{ID: c.lease}
	case c.created == 0:
		return // its key was not put
	default:
		r = &pb.TxnRequest{
			Compare: []*pb.Compare{createdAt(c.key, c.created)},
			Success: []*pb.RequestOp{deleteOp(c.key)},
		}
	}
	if _, err := s.backend.Propose(ctx, r); err != nil {
		s.config.Logger.Debug("a contender was not withdrawn, its lease will end it", "key", string(c.key), "err", err)
	}
}

func createdAt(key []byte, revision int64) *pb.Compare {
	return &pb.Compare{
		Key: key, Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_CreateRevision{CreateRevision: revision},
	}
}

func rangeOp(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func putOp(key, value []byte, lease int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: key, Value: value, Lease: lease},
	}}
}

func deleteOp(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: key},
	}}
}
