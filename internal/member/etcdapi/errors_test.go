package etcdapi

import (
	"context"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// Each error of the state and of the watches has etcd's code and text, also when something was
// said around it.
func TestErrorsHaveEtcdsCodes(t *testing.T) {
	for err, want := range map[error]error{
		kv.ErrCompacted:        rpctypes.ErrGRPCCompacted,
		kv.ErrFutureRevision:   rpctypes.ErrGRPCFutureRev,
		kv.ErrEmptyKey:         rpctypes.ErrGRPCEmptyKey,
		kv.ErrKeyNotFound:      rpctypes.ErrGRPCKeyNotFound,
		kv.ErrValueProvided:    rpctypes.ErrGRPCValueProvided,
		kv.ErrLeaseProvided:    rpctypes.ErrGRPCLeaseProvided,
		kv.ErrInvalidSort:      rpctypes.ErrGRPCInvalidSortOption,
		kv.ErrTooManyOps:       rpctypes.ErrGRPCTooManyOps,
		kv.ErrDuplicateKey:     rpctypes.ErrGRPCDuplicateKey,
		kv.ErrLeaseNotFound:    rpctypes.ErrGRPCLeaseNotFound,
		kv.ErrLeaseExists:      rpctypes.ErrGRPCLeaseExist,
		kv.ErrLeaseTTLTooLarge: rpctypes.ErrGRPCLeaseTTLTooLarge,
		watch.ErrClosed:        rpctypes.ErrGRPCStopped,
	} {
		for _, e := range []error{err, fmt.Errorf("said around it: %w", err)} {
			if got := toStatus(e); !same(got, want) {
				t.Errorf("%v: clients are told %v, want %v", e, got, want)
			}
		}
	}
	if got := toStatus(kv.ErrNoState); status.Code(got) != codes.Unavailable {
		t.Errorf("%v: clients are told %v, want one on which they try another member", kv.ErrNoState, got)
	}
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, rpctypes.ErrGRPCNoLeader, nil} {
		if got := toStatus(err); got != err {
			t.Errorf("%v: clients are told %v, want it as it is", err, got)
		}
	}
}

// A refusal by the backend reaches the client of every call unchanged.
func TestEveryCallTellsTheBackendsError(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.grant(5)
	s.put("e/5", "")
	a, name := []byte("a"), []byte("e")
	get := &pb.RangeRequest{Key: a}
	leader := &v3electionpb.LeaderKey{Name: name, Key: []byte("e/5"), Rev: 2, Lease: 5}
	kvs, leases, members := s.kv(), pb.NewLeaseClient(s.conn), pb.NewClusterClient(s.conn)
	locks, elections := v3lockpb.NewLockClient(s.conn), v3electionpb.NewElectionClient(s.conn)
	calls := map[string]func(context.Context) error{
		"put": func(ctx context.Context) error { _, err := kvs.Put(ctx, &pb.PutRequest{Key: a}); return err },
		"get": func(ctx context.Context) error { _, err := kvs.Range(ctx, get); return err },
		"delete": func(ctx context.Context) error {
			_, err := kvs.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: a})
			return err
		},
		"reading txn": func(ctx context.Context) error {
			_, err := kvs.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(get)}})
			return err
		},
		"writing txn": func(ctx context.Context) error {
			_, err := kvs.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{putOp(a, nil, 0)}})
			return err
		},
		"compact": func(ctx context.Context) error {
			_, err := kvs.Compact(ctx, &pb.CompactionRequest{Revision: 1})
			return err
		},
		"range stream": func(ctx context.Context) error {
			stream, err := kvs.RangeStream(ctx, get)
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
		"grant": func(ctx context.Context) error {
			_, err := leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 5})
			return err
		},
		"revoke": func(ctx context.Context) error {
			_, err := leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: 5})
			return err
		},
		"time to live": func(ctx context.Context) error {
			_, err := leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: 5})
			return err
		},
		"leases": func(ctx context.Context) error {
			_, err := leases.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
			return err
		},
		"keep-alive": func(ctx context.Context) error {
			stream, err := leases.LeaseKeepAlive(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: 5}); err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
		"members": func(ctx context.Context) error {
			_, err := members.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
			return err
		},
		"add a member": func(ctx context.Context) error { _, err := members.MemberAdd(ctx, &pb.MemberAddRequest{}); return err },
		"remove a member": func(ctx context.Context) error {
			_, err := members.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: 12})
			return err
		},
		"update a member": func(ctx context.Context) error {
			_, err := members.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: 12})
			return err
		},
		"promote a member": func(ctx context.Context) error {
			_, err := members.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: 12})
			return err
		},
		"lock": func(ctx context.Context) error {
			_, err := locks.Lock(ctx, &v3lockpb.LockRequest{Name: name, Lease: 5})
			return err
		},
		"lock without a lease": func(ctx context.Context) error {
			_, err := locks.Lock(ctx, &v3lockpb.LockRequest{Name: name})
			return err
		},
		"unlock": func(ctx context.Context) error {
			_, err := locks.Unlock(ctx, &v3lockpb.UnlockRequest{Key: a})
			return err
		},
		"campaign": func(ctx context.Context) error {
			_, err := elections.Campaign(ctx, &v3electionpb.CampaignRequest{Name: name, Lease: 5})
			return err
		},
		"proclaim": func(ctx context.Context) error {
			_, err := elections.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: leader})
			return err
		},
		"resign": func(ctx context.Context) error {
			_, err := elections.Resign(ctx, &v3electionpb.ResignRequest{Leader: leader})
			return err
		},
		"leader": func(ctx context.Context) error {
			_, err := elections.Leader(ctx, &v3electionpb.LeaderRequest{Name: name})
			return err
		},
		"observe": func(ctx context.Context) error {
			stream, err := elections.Observe(ctx, &v3electionpb.LeaderRequest{Name: name})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
	}
	for _, failure := range []error{rpctypes.ErrGRPCTimeoutDueToLeaderFail, rpctypes.ErrGRPCNotCapable, kv.ErrNoState} {
		s.fail.Store(&failure)
		for name, call := range calls {
			want := toStatus(failure)
			if got := wantReturn(t, name, func() error { return call(t.Context()) }); !same(got, want) {
				t.Errorf("%s of a backend that fails: %v, want %v", name, got, want)
			}
		}
	}
	s.fail.Store(nil)
	s.hub.Close()
	w := s.watch(t)
	if got := wantReturn(t, "a watch of a member that stops", func() error { _, err := w.stream.Recv(); return err }); !same(got, rpctypes.ErrGRPCStopped) {
		t.Errorf("a watch of a member that stops: %v, want %v", got, rpctypes.ErrGRPCStopped)
	}
}
