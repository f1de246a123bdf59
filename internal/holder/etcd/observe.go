package etcd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/tenure-lease/tenure"
)

// Observe implements tenure.Leaser. Until is the rest of the server's lease, which etcd returns in
// whole seconds. So it may be a second early.
func (l *Leaser) Observe(ctx context.Context, name string) (tenure.State, error) {
	if err := l.open(name); err != nil {
		return tenure.State{Name: name}, err
	}
	s, _, err := l.observe(ctx, name)
	if err != nil {
		err = fmt.Errorf("observe %q: %w", name, err)
	}
	return s, err
}

func (l *Leaser) open(name string) error {
	if err := l.calls.Err(); err != nil {
		return err
	}
	return tenure.CheckName(name)
}

// observe returns the records of the whole queue, too.
func (l *Leaser) observe(ctx context.Context, name string) (tenure.State, []record, error) {
	s := tenure.State{Name: name}
	got, err := l.client.Get(ctx, prefix(name), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return s, nil, err
	}
	queue := queued(name, got.Kvs)
	rs := records(queue)
	n := tenure.Admitted(slots(rs))
	s.Waiting = len(queue) - n
	s.Holders, err = l.holdings(ctx, queue[:n], rs)
	return s, rs, err
}

// holdings adds the rest of each holder's lease on the server to its key.
func (l *Leaser) holdings(ctx context.Context, keys []*mvccpb.KeyValue, rs []record) ([]tenure.Holding, error) {
	all := make([]tenure.Holding, len(keys))
	asks, ctx := errgroup.WithContext(ctx)
	asks.SetLimit(8)
	for i, kv := range keys {
		asks.Go(func() error {
			ttl, err := l.client.TimeToLive(ctx, clientv3.LeaseID(kv.Lease))
			if err != nil || ttl.TTL < 0 {
				return err // gone since we looked at the keys: skipped below
			}
			all[i] = tenure.Holding{
				Holder: rs[i].Holder,
				Token:  uint64(kv.CreateRevision),
				Slots:  rs[i].Slots,
				Until:  time.Now().Add(time.Duration(ttl.TTL)*time.Second - rs[i].delay()),
			}
			return nil
		})
	}
	err := asks.Wait()
	return slices.DeleteFunc(all, func(h tenure.Holding) bool { return h.Token == 0 }), err
}

// Await implements tenure.Awaiter by a watch.
func (l *Leaser) Await(outer context.Context, since tenure.State) (tenure.State, error) {
	if err := l.open(since.Name); err != nil {
		return since, err
	}
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return since, err
	}
	defer end()
	watch, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	changes := l.client.Watch(watch, prefix(since.Name), clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	for {
		select {
		case _, ok := <-changes: // the first says that the watch is there
			if ctx.Err() != nil {
				return since, context.Cause(ctx)
			}
			var s tenure.State
			err := retry(ctx, func(ctx context.Context) (err error) {
				s, _, err = l.observe(ctx, since.Name) // perhaps no later change follows this one
				return err
			})
			switch {
			case ctx.Err() != nil:
				return since, context.Cause(ctx)
			case err != nil:
				return since, fmt.Errorf("observe %q: %w", since.Name, err)
			case !tenure.SameHolders(s, since):
				return s, nil
			}
			if !ok { // no leader, or compacted
				pause(ctx)
				changes = l.client.Watch(watch, prefix(since.Name), clientv3.WithPrefix(), clientv3.WithCreatedNotify())
			}
		case <-ctx.Done():
			return since, context.Cause(ctx)
		}
	}
}
