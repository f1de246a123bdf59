package etcdapi

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

var (
	errStreamOrder   = status.Error(codes.Unimplemented, "RangeStream does not support custom sort orders")
	errStreamFilters = status.Error(codes.Unimplemented, "RangeStream does not support revision filters")
)

// RangeStream reads keys in parts of about MaxRequestBytes. The header, more and
// count are in the last one. All parts are of one state: the range is read once,
// as references into the store, and only their encoding is done in parts.
func (s *kvServer) RangeStream(r *pb.RangeRequest, stream pb.KV_RangeStreamServer) error {
	if err := kv.CheckRange(r); err != nil {
		return toStatus(err)
	}
	if r.SortOrder != pb.RangeRequest_NONE && (r.SortOrder != pb.RangeRequest_ASCEND || r.SortTarget != pb.RangeRequest_KEY) {
		return errStreamOrder
	}
	if r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0 {
		return errStreamFilters
	}
	resp, err := s.read(stream.Context(), r)
	if err != nil {
		return toStatus(err)
	}
	s.fill(resp.Header)
	kvs := resp.Kvs
	for {
		n := 0
		for size := 0; n < len(kvs) && size < s.config.MaxRequestBytes; n++ {
			size += protowire.SizeBytes(proto.Size(kvs[n])) + 1
		}
		part := &pb.RangeResponse{Kvs: kvs[:n]}
		kvs = kvs[n:]
		last := len(kvs) == 0
		if last {
			part.Header, part.More, part.Count = resp.Header, resp.More, resp.Count
		}
		// A client that reads nothing has at most one part on its connection besides the one
		// that gRPC's window has room for.
		send, err := s.answers.admit(stream.Context(), &pb.RangeStreamResponse{RangeResponse: part})
		if err != nil {
			return toStatus(err)
		}
		if err := stream.SendMsg(send); err != nil || last {
			return err
		}
	}
}
