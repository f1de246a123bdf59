package etcdapi

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

type headed interface{ GetHeader() *pb.ResponseHeader }

// Every answer tells whose it is: the cluster, the member, the term and the revision. Clients
// compare revisions, and go to another member when one goes back.
func TestEveryAnswerHasAHeader(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	ctx := t.Context()
	kvs, leases, members, maintenance := s.kv(), pb.NewLeaseClient(s.conn), pb.NewClusterClient(s.conn), pb.NewMaintenanceClient(s.conn)
	locks, elections := v3lockpb.NewLockClient(s.conn), v3electionpb.NewElectionClient(s.conn)
	a, name := []byte("a"), []byte("e")
	var leader *v3electionpb.LeaderKey
	campaign := func(value string) (headed, error) {
		r, err := elections.Campaign(ctx, &v3electionpb.CampaignRequest{Name: name, Lease: 5, Value: []byte(value)})
		leader = r.GetLeader()
		return r, err
	}
	for _, c := range []struct {
		name string
		call func() (headed, error)
	}{
		{"put", func() (headed, error) { return kvs.Put(ctx, &pb.PutRequest{Key: a}) }},
		{"get", func() (headed, error) { return kvs.Range(ctx, &pb.RangeRequest{Key: a}) }},
		{"serializable get", func() (headed, error) { return kvs.Range(ctx, &pb.RangeRequest{Key: a, Serializable: true}) }},
		{"range stream", func() (headed, error) {
			stream, err := kvs.RangeStream(ctx, &pb.RangeRequest{Key: a})
			if err != nil {
				return nil, err
			}
			r, err := stream.Recv()
			return r.GetRangeResponse(), err
		}},
		{"writing transaction", func() (headed, error) {
			return kvs.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{putOp(a, nil, 0)}})
		}},
		{"reading transaction", func() (headed, error) {
			return kvs.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(&pb.RangeRequest{Key: a})}})
		}},
		{"delete", func() (headed, error) { return kvs.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: a}) }},
		{"compact", func() (headed, error) { return kvs.Compact(ctx, &pb.CompactionRequest{Revision: 2}) }},
		{"grant", func() (headed, error) { return leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: 5, TTL: 60}) }},
		{"time to live", func() (headed, error) { return leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: 5}) }},
		{"leases", func() (headed, error) { return leases.LeaseLeases(ctx, &pb.LeaseLeasesRequest{}) }},
		{"keep-alive", func() (headed, error) {
			stream, err := leases.LeaseKeepAlive(ctx)
			if err != nil {
				return nil, err
			}
			if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: 5}); err != nil {
				return nil, err
			}
			return stream.Recv()
		}},
		{"lock", func() (headed, error) { return locks.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l"), Lease: 5}) }},
		{"unlock", func() (headed, error) { return locks.Unlock(ctx, &v3lockpb.UnlockRequest{Key: []byte("l/5")}) }},
		{"campaign", func() (headed, error) { return campaign("one") }},
		{"campaign of the leader", func() (headed, error) { return campaign("two") }},
		{"proclaim", func() (headed, error) {
			return elections.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: leader, Value: []byte("three")})
		}},
		{"leader", func() (headed, error) { return elections.Leader(ctx, &v3electionpb.LeaderRequest{Name: name}) }},
		{"observe", func() (headed, error) {
			stream, err := elections.Observe(ctx, &v3electionpb.LeaderRequest{Name: name})
			if err != nil {
				return nil, err
			}
			return stream.Recv()
		}},
		{"resign", func() (headed, error) { return elections.Resign(ctx, &v3electionpb.ResignRequest{Leader: leader}) }},
		{"revoke", func() (headed, error) { return leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: 5}) }},
		{"members", func() (headed, error) { return members.MemberList(ctx, &pb.MemberListRequest{}) }},
		{"add a member", func() (headed, error) { return members.MemberAdd(ctx, &pb.MemberAddRequest{}) }},
		{"update a member", func() (headed, error) { return members.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: 12}) }},
		{"promote a member", func() (headed, error) { return members.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: 12}) }},
		{"remove a member", func() (headed, error) { return members.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: 12}) }},
		{"status", func() (headed, error) { return maintenance.Status(ctx, &pb.StatusRequest{}) }},
		{"defragment", func() (headed, error) { return maintenance.Defragment(ctx, &pb.DefragmentRequest{}) }},
		{"alarms", func() (headed, error) { return maintenance.Alarm(ctx, &pb.AlarmRequest{}) }},
	} {
		resp, err := c.call()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if want := header(s.View().Revision()); !proto.Equal(resp.GetHeader(), want) {
			t.Errorf("%s: the answer's header is %v, want %v", c.name, resp.GetHeader(), want)
		}
	}
}
