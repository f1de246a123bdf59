package diff

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

var operatorSteps = flag.Int("operator-steps", 0, "calls of operators; 0 is 400 with -short, else 3000")

// An operation is a call for an operator, with the IDs that a server has.
type operation struct {
	method string
	make   func(*site) proto.Message
	// probe is a path that is asked in the place of a call.
	probe string
}

// member is an ID by a number: the server's own is 0, and those behind the last are nobody's.
func (s *site) member(i int) uint64 {
	if i < len(s.members) {
		return s.members[i]
	}
	return 99
}

// same is a call that names no ID.
func same(method string, m proto.Message) operation {
	return operation{method: method, make: func(*site) proto.Message { return m }}
}

// wrongURLs are those under which no member can be added.
var wrongURLs = [][]string{
	{}, {""}, {"127.0.0.1:2"}, {"http://127.0.0.1"}, {"http://127.0.0.1:2/path"}, {"ftp://127.0.0.1:2"}, {"http://[::1"}, {"http://127.0.0.1:2:3"},
}

// peerURL is one that no other call has.
func peerURL(number int) []string { return []string{fmt.Sprintf("http://127.0.0.1:%d", 1+number)} }

// drawOperation draws a call. Voters are added with wrong addresses only: one of a single member with another that never starts has no majority.
// Members of the server's own, of which there are so many, stay.
func drawOperation(r *rand.Rand, revision int64, number, members int) operation {
	i, own := r.IntN(5), r.IntN(2) == 0
	if own {
		i = 0
	}
	alarm := []pb.AlarmType{pb.AlarmType_NONE, pb.AlarmType_NOSPACE, pb.AlarmType_NOSPACE, pb.AlarmType_CORRUPT}[r.IntN(4)]
	switch r.IntN(26) {
	case 0, 1:
		return same("/etcdserverpb.KV/Put", &pb.PutRequest{Key: []byte{byte('a' + r.IntN(5))}, Value: []byte("v")})
	case 2:
		return same("/etcdserverpb.KV/Range", &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte{0}, Serializable: r.IntN(2) == 0})
	case 3:
		return same("/etcdserverpb.KV/DeleteRange", &pb.DeleteRangeRequest{Key: []byte{byte('a' + r.IntN(5))}})
	case 4:
		return same("/etcdserverpb.KV/Txn", &pb.TxnRequest{Success: []*pb.RequestOp{drawn(r, []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("a")}}},
			{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("a")}}},
			{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("b")}}},
		})}})
	case 5:
		return same("/etcdserverpb.KV/Compact", &pb.CompactionRequest{Revision: revision - int64(r.IntN(6)) + 1})
	case 6:
		return same("/etcdserverpb.Lease/LeaseGrant", &pb.LeaseGrantRequest{ID: 1 + int64(r.IntN(4)), TTL: 6000})
	case 7:
		return same("/etcdserverpb.Lease/LeaseRevoke", &pb.LeaseRevokeRequest{ID: 1 + int64(r.IntN(4))})
	case 8, 9:
		return same("/etcdserverpb.Maintenance/HashKV", &pb.HashKVRequest{Revision: drawn(r, []int64{0, 1, revision, revision - 1, revision - 4, revision + 1, 1 << 40})})
	case 10:
		return same("/etcdserverpb.Maintenance/Hash", &pb.HashRequest{})
	case 11:
		return same("/etcdserverpb.Maintenance/Defragment", &pb.DefragmentRequest{})
	case 12, 13:
		return same("/etcdserverpb.Maintenance/Status", &pb.StatusRequest{})
	case 14, 15, 16, 17:
		action := []pb.AlarmRequest_AlarmAction{pb.AlarmRequest_GET, pb.AlarmRequest_ACTIVATE, pb.AlarmRequest_DEACTIVATE, pb.AlarmRequest_DEACTIVATE}[r.IntN(4)] // another kills every member of etcd 3.7.3, for good
		return operation{method: "/etcdserverpb.Maintenance/Alarm", make: func(s *site) proto.Message {
			return &pb.AlarmRequest{Action: action, MemberID: s.member(i), Alarm: alarm}
		}}
	case 18:
		// A version to which etcd can be downgraded is in the table of differences.
		return same("/etcdserverpb.Maintenance/Downgrade", &pb.DowngradeRequest{
			Action:  []pb.DowngradeRequest_DowngradeAction{pb.DowngradeRequest_VALIDATE, pb.DowngradeRequest_ENABLE, pb.DowngradeRequest_CANCEL, 9}[r.IntN(4)],
			Version: drawn(r, []string{"", "x", "3", "3.7", "3.7.0", "3.7.3", "3.5.0", "4.0.0", "v3.6.0", "3.8.1-rc.0"}),
		})
	case 19:
		return operation{method: "/etcdserverpb.Maintenance/MoveLeader", make: func(s *site) proto.Message { return &pb.MoveLeaderRequest{TargetID: s.member(i)} }}
	case 20:
		return same("/etcdserverpb.Cluster/MemberList", &pb.MemberListRequest{Linearizable: own})
	case 21:
		if r.IntN(2) == 0 {
			return same("/etcdserverpb.Cluster/MemberAdd", &pb.MemberAddRequest{PeerURLs: drawn(r, wrongURLs), IsLearner: own})
		}
		// Etcd's ID comes of the URL and the second, and one that was removed does not return.
		return same("/etcdserverpb.Cluster/MemberAdd", &pb.MemberAddRequest{PeerURLs: peerURL(number), IsLearner: true})
	case 22:
		if members > 1 {
			i += members
		}
		return operation{method: "/etcdserverpb.Cluster/MemberRemove", make: func(s *site) proto.Message { return &pb.MemberRemoveRequest{ID: s.member(i)} }}
	case 23:
		urls := peerURL(number)
		if i += members - 1; i < members {
			i = members + 3 // a member that has moved is not found any more
		}
		return operation{method: "/etcdserverpb.Cluster/MemberUpdate", make: func(s *site) proto.Message {
			return &pb.MemberUpdateRequest{ID: s.member(i), PeerURLs: urls}
		}}
	case 24:
		return operation{method: "/etcdserverpb.Cluster/MemberPromote", make: func(s *site) proto.Message { return &pb.MemberPromoteRequest{ID: s.member(i)} }}
	}
	return operation{probe: drawn(r, plainPaths[2:18])}
}

// do makes a call, and returns the text of its answer as that of the gateway, with IDs by their order.
func (s *site) do(ctx context.Context, o operation) (text string, m proto.Message) {
	if o.probe != "" {
		// Of several alarms etcd names any.
		return regexp.MustCompile("ALARM (NOSPACE|CORRUPT)").ReplaceAllString(s.told(s.ask(ctx, "GET", o.probe, "", nil)), "ALARM"), nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply := answerOf(o.method)
	if err := s.conn(s.at).Invoke(ctx, o.method, o.make(s), reply); err != nil {
		told := status.Convert(err)
		if told.Message() == rpctypes.ErrorDesc(rpctypes.ErrGRPCMemberNotEnoughStarted) {
			return told.Message(), nil // etcd's code is Unknown
		}
		return fmt.Sprintf("%v: %v", told.Code(), s.plain(told.Message())), nil
	}
	if add, ok := reply.(*pb.MemberAddResponse); ok {
		s.members = append(s.members, add.Member.ID)
	}
	body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(reply)
	if err != nil {
		panic(err)
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		panic(err)
	}
	listed(reply, v.(map[string]any))
	told, err := json.Marshal(s.plain(v))
	if err != nil {
		panic(err)
	}
	return string(told), reply
}

// listed hides from an answer what the page of differences says of it.
func listed(reply proto.Message, v map[string]any) {
	switch reply.(type) {
	case *pb.MemberListResponse, *pb.MemberAddResponse, *pb.MemberRemoveResponse, *pb.MemberUpdateResponse, *pb.MemberPromoteResponse:
		if header, ok := v["header"].(map[string]any); ok {
			delete(header, "revision")
		}
	case *pb.DefragmentResponse, *pb.MoveLeaderResponse:
		delete(v, "header")
	}
}

// TestMaintenanceDifferential gives etcd and Tenure the same calls of operators, and probes: members, alarms, hashes, versions, and
// what alarms refuse.
func TestMaintenanceDifferential(t *testing.T) {
	ofOneAndThree(t, maintenanceDifferential)
}

func maintenanceDifferential(t *testing.T, members int) {
	n := *operatorSteps
	if n == 0 {
		n = 3000
		if testing.Short() {
			n = 400
		}
	}
	ctx, seed := t.Context(), max(*seedFlag, 1)
	etcd, tenure := sites(t, ctx, members)
	if members > 1 {
		time.Sleep(6 * time.Second) // for etcd, members are healthy when they have known each other for five
	}
	asked := rand.New(rand.NewPCG(seed, 14))
	r := rand.New(rand.NewPCG(seed, 13))
	found := findings{t: t, seen: map[string]int{}}
	revision, failed := int64(1), 0
	compacted := map[int64]bool{} // etcd has hashes from before these compactions
	for i := range n {
		o := drawOperation(r, revision, i, members)
		member := asked.IntN(members)
		for _, of := range []*site{etcd, tenure} {
			if err := of.turn(ctx, member); err != nil {
				t.Fatal(err)
			}
		}
		want, reply := etcd.do(ctx, o)
		got, _ := tenure.do(ctx, o)
		if headed, ok := reply.(interface{ GetHeader() *pb.ResponseHeader }); ok {
			revision = max(revision, headed.GetHeader().GetRevision())
		}
		if reply == nil {
			failed++
		}
		var request proto.Message
		if o.make != nil {
			request = o.make(etcd)
		}
		if compact, ok := request.(*pb.CompactionRequest); ok && reply != nil {
			compacted[compact.Revision] = true
		}
		if hash, ok := request.(*pb.HashKVRequest); ok && compacted[hash.Revision] {
			continue
		}
		if want != got {
			found.add(o.method+o.probe, "seed %d, call %d to member %d: %s %s %v\netcd   %s\ntenure %s", seed, i, member, o.method, o.probe, request, want, got)
		}
	}
	if failed < n/10 || failed > n*9/10 {
		t.Errorf("%d of %d calls failed: the draw says little", failed, n)
	}
}
