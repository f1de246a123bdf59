package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
)

// lease is a claim's place in the queue and, once admitted, its tenure.
type lease struct {
	leaser *Leaser
	claim  tenure.Claim
	id     clientv3.LeaseID
	key    string
	rev    int64 // create revision of key
	keeper *keeper

	releasing sync.Mutex
	confirmed bool // the server has no such lease any more
}

var _ tenure.Lease = (*lease)(nil)

func (x *lease) Name() string          { return x.claim.Name }
func (x *lease) Holder() string        { return x.claim.Holder }
func (x *lease) Token() uint64         { return uint64(x.rev) }
func (x *lease) Done() <-chan struct{} { return x.keeper.done }
func (x *lease) Check() error          { return x.keeper.check() }

func (x *lease) Deadline() time.Time {
	return time.Now().Add(x.keeper.until().Sub(x.leaser.clock.Now()))
}

func (x *lease) Err() error {
	select {
	case <-x.keeper.done:
		return x.keeper.check()
	default:
		return nil
	}
}

// Release implements tenure.Lease. It tries until ctx is done, or the lease has
// run out on the server as well.
func (x *lease) Release(ctx context.Context) error {
	left := x.keeper.until().Sub(x.leaser.clock.Now()) + x.claim.LockDelay
	end := x.keeper.end(fmt.Errorf("%w by its holder", tenure.ErrReleased))
	lost := errors.Is(end, tenure.ErrLost)

	x.releasing.Lock()
	defer x.releasing.Unlock()
	if x.confirmed && !lost {
		return nil
	}
	err := x.revoke(ctx, max(left, time.Second))
	x.leaser.drop(x)
	switch {
	case lost:
		return end
	case err != nil:
		return fmt.Errorf("the release was not confirmed, the lease ends by itself within %v: %w", max(left, 0).Round(time.Millisecond), err)
	}
	return nil
}

func (x *lease) revoke(ctx context.Context, limit time.Duration) error {
	if x.confirmed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return retry(ctx, func(ctx context.Context) error {
		_, err := x.leaser.client.Revoke(ctx, x.id)
		x.confirmed = err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound)
		if x.confirmed {
			return nil
		}
		return err
	})
}

// guard watches the key of a holder, who is lost when somebody deletes it.
func (x *lease) guard() {
	from := x.rev + 1
	for ctx := x.keeper.ctx; ctx.Err() == nil; {
		gone, seen := x.gone(ctx, from)
		if gone {
			x.keeper.lose(errors.New("its key was deleted on the server: it expired there or somebody removed it"))
		}
		from = max(from, seen+1) // what was compacted cannot be watched again
		pause(ctx)               // the renewals, not this watch, decide how long we may be cut off
	}
	if errors.Is(x.keeper.check(), tenure.ErrLost) {
		x.leaser.drop(x) // Close has nothing to release
	}
}

// gone returns true once the key is not there, or else the revision at which it was
// seen last, 0 if it cannot tell.
func (x *lease) gone(ctx context.Context, from int64) (gone bool, seen int64) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for change := range x.leaser.client.Watch(ctx, x.key, clientv3.WithRev(from), clientv3.WithFilterPut()) {
		if len(change.Events) > 0 {
			return true, 0
		}
	}
	// Canceled: there is no leader, or the revision was compacted. Ask.
	got, err := x.leaser.client.Get(ctx, x.key)
	if err != nil {
		return false, 0
	}
	return len(got.Kvs) == 0 || got.Kvs[0].CreateRevision != x.rev, got.Header.Revision
}
