package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
)

var _ holder.Breaker = (*Leaser)(nil)

// Break implements holder.Breaker. It revokes the server's leases of those tenures, with all keys that
// hang on them: a session of a plain etcd client may hold other locks by the same lease.
func (l *Leaser) Break(outer context.Context, name string, tenures []tenure.Holding) error {
	if err := l.open(name); err != nil {
		return err
	}
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return err
	}
	defer end()
	err = retry(ctx, func(ctx context.Context) error {
		got, err := l.client.Get(ctx, prefix(name), clientv3.WithPrefix())
		if err != nil {
			return err
		}
		for _, kv := range queued(name, got.Kvs) {
			if !slices.Contains(holder.Tokens(tenures), uint64(kv.CreateRevision)) {
				continue
			}
			if _, err := l.client.Revoke(ctx, clientv3.LeaseID(kv.Lease)); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("break %q: %w", name, err)
	}
	return nil
}
