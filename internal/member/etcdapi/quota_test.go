package etcdapi

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// Beyond the quota, and while memory is short, whatever makes the state larger is refused
// with etcd's error, and whatever makes it smaller is not. Beyond the quota there is an alarm, which stays.
func TestNoSpace(t *testing.T) {
	var short atomic.Bool
	for name, c := range map[string]Config{"quota": {QuotaBytes: 2000}, "memory": {Short: short.Load}} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c, watch.Config{})
			ctx := t.Context()
			granted, err := pb.NewLeaseClient(s.conn).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: 7, TTL: 60})
			if err != nil {
				t.Fatal(err)
			}
			s.put("k", "v")
			small := &pb.PutRequest{Key: []byte("a"), Value: make([]byte, 100)}
			if _, err := s.kv().Put(ctx, small); err != nil {
				t.Fatalf("there is room: %v", err)
			}
			s.put("big", string(make([]byte, 2000))) // as by way of another member
			short.Store(true)
			defer short.Store(false)
			put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: small}}
			nested := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Failure: []*pb.RequestOp{deleteOp([]byte("x")), put}}}}
			for what, call := range map[string]func(context.Context) error{
				"put": func(ctx context.Context) error { _, err := s.kv().Put(ctx, small); return err },
				"transaction": func(ctx context.Context) error {
					_, err := s.kv().Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{put}})
					return err
				},
				"failure": func(ctx context.Context) error {
					_, err := s.kv().Txn(ctx, &pb.TxnRequest{Failure: []*pb.RequestOp{put}})
					return err
				},
				"nested": func(ctx context.Context) error {
					_, err := s.kv().Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{nested}})
					return err
				},
				"lease": func(ctx context.Context) error {
					_, err := pb.NewLeaseClient(s.conn).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 60})
					return err
				},
				"lock": func(ctx context.Context) error {
					_, err := v3lockpb.NewLockClient(s.conn).Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l"), Lease: 7})
					return err
				},
				"campaign": func(ctx context.Context) error {
					_, err := v3electionpb.NewElectionClient(s.conn).Campaign(ctx, &v3electionpb.CampaignRequest{Name: []byte("e"), Lease: 7})
					return err
				},
			} {
				if err := call(ctx); !same(err, rpctypes.ErrGRPCNoSpace) {
					t.Errorf("%s: %v, want etcd's words for no space", what, err)
				}
			}
			m := pb.NewMaintenanceClient(s.conn)
			st, err := m.Status(ctx, &pb.StatusRequest{})
			says := map[string]string{"quota": "memberID:11 alarm:NOSPACE", "memory": "tenure: memory is short: this member refuses writes and large reads for now"}[name]
			if err != nil || !slices.Equal(st.Errors, []string{says, "odd"}) || st.DbSizeQuota != c.QuotaBytes {
				t.Errorf("status: errors %q, quota %d, %v; want %q", st.GetErrors(), st.GetDbSizeQuota(), err, says)
			}
			list, err := m.Alarm(ctx, &pb.AlarmRequest{})
			if err != nil || (len(list.Alarms) == 1) != (name == "quota") || list.Header.Revision == 0 {
				t.Errorf("alarms: %v, %v; want one if the quota is exceeded, and none while memory is short", list, err)
			}
			// Requests that free room go on.
			if _, err := s.kv().Range(ctx, &pb.RangeRequest{Key: []byte("k")}); err != nil {
				t.Errorf("get: %v", err)
			}
			if _, err := s.kv().Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{deleteOp([]byte("a"))}}); err != nil {
				t.Errorf("a transaction that deletes: %v", err)
			}
			d, err := s.kv().DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("big")})
			if err != nil {
				t.Fatalf("delete: %v", err)
			}
			if _, err := pb.NewLeaseClient(s.conn).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: granted.ID}); err != nil {
				t.Errorf("revoke: %v", err)
			}
			if _, err := s.kv().Compact(ctx, &pb.CompactionRequest{Revision: d.Header.Revision, Physical: true}); err != nil {
				t.Errorf("compact: %v", err)
			}
			short.Store(false)
			if name == "quota" {
				if _, err := s.kv().Put(ctx, small); !same(err, rpctypes.ErrGRPCNoSpace) {
					t.Errorf("there is room, and the alarm stands: %v, want no space", err)
				}
				disarmed, err := m.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: 11, Alarm: pb.AlarmType_NOSPACE})
				if err != nil || len(disarmed.Alarms) != 1 || disarmed.Header.ClusterId != 22 {
					t.Errorf("disarm: %v, %v", disarmed, err)
				}
			}
			if _, err := s.kv().Put(ctx, small); err != nil {
				t.Errorf("there is room again: %v", err)
			}
		})
	}
}

// same reports whether an error has the code and the text of another.
func same(got, want error) bool {
	g, w := status.Convert(got), status.Convert(want)
	return got != nil && g.Code() == w.Code() && g.Message() == w.Message()
}
