package etcd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
)

// lease is a claim's place in the queue and, once admitted, its tenure.
type lease struct {
	leaser *Leaser
	claim  tenure.Claim
	id     clientv3.LeaseID
	key    string
	rev    int64 // create revision of key
	*keeper

	granted   time.Duration // lock delay included
	confirmed atomic.Bool   // the server has no such lease any more
	leaving   sync.Once     // in the background
}

var _ tenure.Lease = (*lease)(nil)

// Token implements tenure.Lease.
func (x *lease) Token() uint64 { return uint64(x.rev) }

// Release implements tenure.Lease. It tries until ctx is done, or the lease has run out on the
// server as well. A revoke that was not confirmed by then goes on in the background.
func (x *lease) Release(ctx context.Context) error { return holder.Release(ctx, x) }

// GiveBack implements holder.Claim. The revoke is AwaitFreed's.
func (x *lease) GiveBack() {}

// AwaitFreed implements holder.Claim.
func (x *lease) AwaitFreed(ctx context.Context, left time.Duration) error {
	left += x.claim.LockDelay
	if err := x.leave(ctx, max(left, time.Second)); err != nil {
		return holder.Unconfirmed(max(left, time.Millisecond), err)
	}
	return nil
}

// Abandon implements holder.Claim. With a lock delay nothing is revoked: the holder's last messages
// may still be on their way, and the delay is there for them.
func (x *lease) Abandon(ctx context.Context) {
	if x.claim.LockDelay > 0 {
		x.leaser.drop(x)
		return
	}
	_ = x.leave(ctx, time.Second)
}

// leave revokes the server's lease and with it our key. Without an answer within the limit it goes
// on in the background, so that our key is in others' way no longer than the trouble lasts. That
// ends when a lease that was renewed just now would have run out on the server, or with Close,
// which tries once more.
func (x *lease) leave(ctx context.Context, limit time.Duration) error {
	l := x.leaser
	err := x.revoke(ctx, limit)
	if x.confirmed.Load() {
		l.drop(x)
		return nil
	}
	l.add(x)
	x.leaving.Do(func() {
		background, end, closed := l.calls.Begin(context.Background())
		if closed != nil {
			return
		}
		go func() {
			defer end()
			_ = x.revoke(background, x.granted)
			if x.confirmed.Load() || l.calls.Err() == nil {
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

// errKeyGone is why a holder is lost.
var errKeyGone = errors.New("its key was deleted on the server: it expired there or somebody removed it")

// guard watches the key of a holder. The holder is lost when the key is deleted.
func (x *lease) guard() {
	from := x.rev + 1
	for ctx := x.keeper.ctx; ctx.Err() == nil; {
		gone, seen, err := x.gone(ctx, from)
		if gone {
			x.keeper.Lose(errKeyGone)
		}
		from = max(from, seen+1) // compacted revisions cannot be watched again
		// The renewals, not this watch, decide how long we may be cut off, or read nothing.
		pause(ctx)
		if err != nil && !passing(err) {
			pauseFor(ctx, callTimeout) // with a password, each try is a login
		}
	}
	if errors.Is(x.keeper.Check(), tenure.ErrLost) {
		x.leaser.drop(x) // Close has nothing to release
	}
}

// gone returns true once the key is not there. Else it returns the revision at which the key was
// seen last, or 0 and the reason if that is unknown.
func (x *lease) gone(ctx context.Context, from int64) (gone bool, seen int64, err error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for change := range x.leaser.client.Watch(ctx, x.key, clientv3.WithRev(from), clientv3.WithFilterPut()) {
		if len(change.Events) > 0 {
			return true, 0, nil
		}
	}
	// Canceled: there is no leader, or the revision was compacted. Ask.
	got, err := x.leaser.client.Get(ctx, x.key)
	if err != nil {
		return false, 0, err
	}
	return len(got.Kvs) == 0 || got.Kvs[0].CreateRevision != x.rev, got.Header.Revision, nil
}
