package replica

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/auth"
)

// Operations have etcd's names, and what etcd does not have has none.
func TestNamesOfOperations(t *testing.T) {
	for _, tt := range []struct {
		kind byte
		m    proto.Message
		want string
	}{
		{0, &pb.PutRequest{}, "Put"}, {0, &pb.DeleteRangeRequest{}, "DeleteRange"}, {0, &pb.TxnRequest{}, "Txn"}, {0, &pb.CompactionRequest{}, "Compaction"},
		{0, &pb.LeaseGrantRequest{}, "LeaseGrant"}, {0, &pb.LeaseRevokeRequest{}, "LeaseRevoke"},
		{kindExpire, &pb.LeaseCheckpointRequest{}, "LeaseRevoke"}, {0, &pb.LeaseCheckpointRequest{}, "LeaseCheckpoint"},
		{0, &pb.Member{}, "ClusterMemberAttrSet"}, {0, &pb.AlarmRequest{}, "Alarm"}, {0, wrapperspb.String("all"), ""}, {0, nil, ""},
		{kindUsers, &pb.InternalRaftRequest{Header: &pb.RequestHeader{ID: 1}, AuthUserAdd: &pb.AuthUserAddRequest{}}, "AuthUserAdd"},
		{kindUsers, &pb.InternalRaftRequest{AuthEnable: &pb.AuthEnableRequest{}}, "AuthEnable"},
		{kindUsers, &pb.InternalRaftRequest{AuthRoleRevokePermission: &pb.AuthRoleRevokePermissionRequest{}}, "AuthRoleRevokePermission"},
		{kindUsers, &pb.InternalRaftRequest{}, ""},
	} {
		if got := operation(tt.kind, tt.m); got != tt.want {
			t.Errorf("the operation of %T %v is %q, want %q", tt.m, tt.m, got, tt.want)
		}
	}
}

// An applier tells of each request, with its error; one that nobody observes applies all the same.
func TestRequestsAreObserved(t *testing.T) {
	a := NewApplier(1, 1)
	revoke := []proto.Message{&pb.PutRequest{Key: []byte("k")}, &pb.LeaseRevokeRequest{ID: 9}}
	judge(t, a, auth.Caller{}, revoke...)
	var told []string
	a.Observe(func(operation string, err error) { told = append(told, fmt.Sprint(operation, " ", err == nil)) })
	judge(t, a, auth.Caller{}, revoke...)
	if want := []string{"Put true", "LeaseRevoke false"}; !slices.Equal(told, want) {
		t.Errorf("requests are told as %q, want %q", told, want)
	}
}

// Heartbeats of a leader are told from other messages, those that bring news to readers included.
func TestHeartbeatTerms(t *testing.T) {
	term := uint64(7)
	beat := &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: &term}
	entries := &raftpb.Message{Type: raftpb.MsgApp.Enum(), Term: &term}
	for _, tt := range []struct {
		body any
		want uint64
	}{{beat, 7}, {announced{beat, quorumlease.News{}}, 7}, {entries, 0}, {announced{entries, quorumlease.News{}}, 0}, {errors.New("of another kind"), 0}} {
		if got := HeartbeatTerm(tt.body); got != tt.want {
			t.Errorf("%T %v is a heartbeat of term %d, want %d", tt.body, tt.body, got, tt.want)
		}
	}
}
