package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

	granted   time.Duration // lock delay included
	confirmed atomic.Bool   // the server has no such lease any more
	leaving   sync.Once     // in the background
}

var _ tenure.Lease = (*lease)(nil)

func (x *lease) Name() string          { return x.claim.Name }
func (x *lease) Holder() string        { return x.claim.Holder }
func (x *lease) Token() uint64         { return uint64(x.rev) }
func (x *lease) Done() <-chan struct{} { return x.keeper.Done() }
func (x *lease) Check() error          { return x.keeper.Check() }
func (x *lease) Err() error            { return x.keeper.Err() }

func (x *lease) Deadline() time.Time {
	return time.Now().Add(x.keeper.Left())
}

// Release implements tenure.Lease. It tries until ctx is done, or the lease has
// run out on the server as well; what was not confirmed by then is tried on in the
// background.
func (x *lease) Release(ctx context.Context) error {
	left := x.keeper.Left() + x.claim.LockDelay
	end := x.keeper.End(fmt.Errorf("%w by its holder", tenure.ErrReleased))
	lost := errors.Is(end, tenure.ErrLost)

	if lost && x.claim.LockDelay > 0 {
		// What we sent may still be on its way: that is what the delay is for.
		x.leaser.drop(x)
		return end
	}
	err := x.leave(ctx, max(left, time.Second))
	switch {
	case lost:
		return end
	case err != nil:
		return fmt.Errorf("the release was not confirmed, the lease ends by itself within %v: %w", max(left, 0).Round(time.Millisecond), err)
	}
	return nil
}

// leave revokes the server's lease and with it our key. Without an answer within the
// limit it goes on in the background, so that our key does not stand in others' way
// for longer than the trouble lasts: until the lease, had it been renewed just now,
// has run out on the server as well, or Close, which tries once more.
func (x *lease) leave(ctx context.Context, limit time.Duration) error {
	l := x.leaser
	err := x.revoke(ctx, limit)
	if x.confirmed.Load() {
		l.drop(x)
		return nil
	}
	l.add(x)
	x.leaving.Do(func() {
		background, end, closed := l.begin(context.Background())
		if closed != nil {
			return
		}
		go func() {
			defer end()
			_ = x.revoke(background, x.granted)
			if x.confirmed.Load() || l.ctx.Err() == nil {
				l.drop(x)
			}
		}()
	})
	return err
}

func (x *lease) revoke(ctx context.Context, limit time.Duration) error {
	if x.confirmed.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return retry(ctx, func(ctx context.Context) error {
		_, err := x.leaser.client.Revoke(ctx, x.id)
		if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
			x.confirmed.Store(true)
			return nil
		}
		return err
	})
}

// guard watches the key of a holder, who is lost when somebody deletes it.
func (x *lease) guard() {
	from := x.rev + 1
	for ctx := x.keeper.Context(); ctx.Err() == nil; {
		gone, seen := x.gone(ctx, from)
		if gone {
			x.keeper.Lose(errors.New("its key was deleted on the server: it expired there or somebody removed it"))
		}
		from = max(from, seen+1) // what was compacted cannot be watched again
		pause(ctx)               // the renewals, not this watch, decide how long we may be cut off
	}
	if errors.Is(x.keeper.Check(), tenure.ErrLost) {
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
