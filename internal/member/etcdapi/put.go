package etcdapi

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// Put writes a key.
func (s *kvServer) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := kv.CheckPut(r); err != nil {
		return nil, toStatus(err)
	}
	return propose[*pb.PutResponse](ctx, s.Server, r)
}

// A written is the response to a request that was replicated.
type written interface {
	proto.Message
	GetHeader() *pb.ResponseHeader
}

// propose replicates a request and completes its response. Its errors have a
// status.
func propose[Response written](ctx context.Context, s *Server, r proto.Message) (Response, error) {
	var none Response
	size := proto.Size(r)
	if size > s.config.MaxRequestBytes {
		return none, rpctypes.ErrGRPCRequestTooLarge
	}
	if grows(r) && s.full(size) {
		return none, rpctypes.ErrGRPCNoSpace
	}
	m, err := s.backend.Propose(ctx, r)
	if err != nil {
		return none, toStatus(err)
	}
	resp := m.(Response)
	s.fill(resp.GetHeader())
	return resp, nil
}

// full reports whether there is no room for a request of some bytes.
func (s *Server) full(size int) bool {
	quota := s.config.QuotaBytes
	return quota > 0 && s.backend.View().Stats().Bytes+int64(size) > quota || s.config.Short()
}

// grows reports whether a request may make the state larger. One that only deletes,
// revokes or compacts is what frees room.
func grows(r proto.Message) bool {
	switch r := r.(type) {
	case *pb.PutRequest, *pb.LeaseGrantRequest:
		return true
	case *pb.TxnRequest:
		return slices.ContainsFunc(r.Success, puts) || slices.ContainsFunc(r.Failure, puts)
	}
	return false
}

func puts(op *pb.RequestOp) bool {
	if t := op.GetRequestTxn(); t != nil {
		return grows(t)
	}
	return op.GetRequestPut() != nil
}
