package replica

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// An Observer is told of each request that was applied, by etcd's name for the operation, and of its error.
type Observer func(operation string, err error)

// Observe has each request told from now on.
func (a *Applier) Observe(by Observer) { a.observer = by }

// operation returns etcd's name for what a request does, empty if etcd has no such request. Leases that end for their time end in
// etcd by requests to revoke them.
func operation(kind byte, m proto.Message) string {
	switch m := m.(type) {
	case *pb.PutRequest:
		return "Put"
	case *pb.DeleteRangeRequest:
		return "DeleteRange"
	case *pb.TxnRequest:
		return "Txn"
	case *pb.CompactionRequest:
		return "Compaction"
	case *pb.LeaseGrantRequest:
		return "LeaseGrant"
	case *pb.LeaseRevokeRequest:
		return "LeaseRevoke"
	case *pb.LeaseCheckpointRequest:
		if kind == kindExpire {
			return "LeaseRevoke"
		}
		return "LeaseCheckpoint"
	case *pb.Member:
		return "ClusterMemberAttrSet"
	case *pb.AlarmRequest:
		return "Alarm"
	case *pb.InternalRaftRequest:
		return userOperation(m)
	}
	return ""
}

// userOperation returns the name of the one request in r: that of its field, as AuthUserAdd of auth_user_add.
func userOperation(r *pb.InternalRaftRequest) (name string) {
	r.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if field.Name() == "header" {
			return true
		}
		for word := range strings.SplitSeq(string(field.Name()), "_") {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
		return false
	})
	return name
}
