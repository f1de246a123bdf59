package diff

import (
	"cmp"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// normalize removes, in place, the fields in which two correct servers' answers may differ.
func normalize(reply proto.Message, granted []int64) {
	rename(reply, granted)
	normalizeHeaders(reply.ProtoReflect())
	switch r := reply.(type) {
	case *pb.LeaseTimeToLiveResponse:
		slices.SortFunc(r.Keys, slices.Compare)
	case *pb.LeaseLeasesResponse:
		slices.SortFunc(r.Leases, func(a, b *pb.LeaseStatus) int { return cmp.Compare(a.ID, b.ID) })
	}
}

// sameTime reports whether two replies are remaining times to live that are about the same,
// and differ in nothing else. The replies are normalized.
func sameTime(a, b proto.Message) bool {
	x, xok := a.(*pb.LeaseTimeToLiveResponse)
	y, yok := b.(*pb.LeaseTimeToLiveResponse)
	if !xok || !yok || max(x.TTL, y.TTL)-min(x.TTL, y.TTL) > 3 || max(x.TTL, y.TTL) > x.GrantedTTL {
		return false
	}
	y = proto.Clone(y).(*pb.LeaseTimeToLiveResponse)
	y.TTL = x.TTL
	return proto.Equal(x, y)
}

// normalizeHeaders keeps of the ids and the term only whether they are there.
func normalizeHeaders(m protoreflect.Message) {
	if h, ok := m.Interface().(*pb.ResponseHeader); ok {
		h.ClusterId, h.MemberId, h.RaftTerm = min(h.ClusterId, 1), min(h.MemberId, 1), min(h.RaftTerm, 1)
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Kind() != protoreflect.MessageKind:
		case fd.IsList():
			for i := range v.List().Len() {
				normalizeHeaders(v.List().Get(i).Message())
			}
		default:
			normalizeHeaders(v.Message())
		}
		return true
	})
}
