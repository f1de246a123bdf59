package etcdapi

import (
	"context"

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
	if err := s.room(ctx, r, size); err != nil {
		return none, err
	}
	m, err := s.backend.Propose(ctx, r)
	if err != nil {
		return none, toStatus(err)
	}
	resp := m.(Response)
	s.fill(resp.GetHeader())
	return resp, nil
}
