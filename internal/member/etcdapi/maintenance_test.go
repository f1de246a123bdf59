package etcdapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// moves is a cluster whose leadership moves as the test says.
type moves struct {
	*fake
	move func(ctx context.Context, to uint64) error
}

func (m moves) MoveLeader(ctx context.Context, to uint64) error { return m.move(ctx, to) }

// Leadership goes to the member that is asked for. One that does not take it is given up after three election
// timeouts, for writes wait meanwhile; a client that waits for less time has its own error.
func TestLeadershipIsMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, watch.Config{})
		never := func(ctx context.Context, _ uint64) error { <-ctx.Done(); return ctx.Err() }
		for _, tt := range []struct {
			name     string
			move     func(context.Context, uint64) error
			patience time.Duration // of the client
			want     error
			took     time.Duration
			leader   uint64
		}{
			{"it moves", f.MoveLeader, time.Hour, nil, 0, 12},
			{"it is refused", func(context.Context, uint64) error { return rpctypes.ErrGRPCNotLeader }, time.Hour, rpctypes.ErrGRPCNotLeader, 0, 11},
			{"it is not taken", never, time.Hour, rpctypes.ErrGRPCTimeout, 6 * time.Second, 11},
			{"the client leaves", never, time.Second, context.DeadlineExceeded, time.Second, 11},
		} {
			f.leader.Store(11)
			s := &maintenanceServer{Server: New(moves{f, tt.move}, Config{ElectionTimeout: 2 * time.Second})}
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
			got, err := s.MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: 12})
			cancel()
			if !errors.Is(err, tt.want) || (got == nil) != (err != nil) || time.Since(begun) != tt.took || f.leader.Load() != tt.leader {
				t.Errorf("%s: %v after %v, and %d leads; want %v after %v, and %d", tt.name, err, time.Since(begun), f.leader.Load(), tt.want, tt.took, tt.leader)
			}
		}
	})
}
