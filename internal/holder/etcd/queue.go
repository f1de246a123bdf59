package etcd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
)

// join grants a lease and puts its key at the end of the queue. It returns the keys ahead, or for
// an exclusive claim at least the first of them.
func (l *Leaser) join(ctx context.Context, c tenure.Claim) (*lease, []*mvccpb.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	value, err := encodeRecord(c)
	if err != nil {
		return nil, nil, err
	}
	sent := l.clock.Now()
	grant, err := l.client.Grant(ctx, wholeSeconds(c.TTL+c.LockDelay))
	if errors.Is(err, rpctypes.ErrLeaseTTLTooLarge) {
		err = fmt.Errorf("%w: %w", tenure.ErrClaim, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("grant a lease of %v: %w", c.TTL+c.LockDelay, err)
	}
	ttl := time.Duration(grant.TTL) * time.Second
	streams := &keepAlives{client: l.client, id: grant.ID}
	renew := streams.renew
	x := &lease{leaser: l, claim: c, id: grant.ID, key: queueKey(c.Name, int64(grant.ID)), granted: ttl}
	x.keeper = newKeeper(&l.clocks, c, sent, ttl, renew)
	context.AfterFunc(x.keeper.ctx, streams.close)
	if ttl != c.TTL+c.LockDelay {
		x.abandon()
		return nil, nil, fmt.Errorf("%w: the server does not grant a TTL of %v, but one of %v: ask for that, or for 0 to have %v", tenure.ErrClaim, c.TTL, ttl-c.LockDelay, tenure.DefaultTTL)
	}
	ahead, err := x.put(ctx, value)
	if err == nil || errors.Is(err, errGone) {
		err = cmp.Or(l.weigh(ctx, ttl-c.LockDelay, l.clock.Now().Sub(sent), renew), err)
	}
	if err != nil {
		x.abandon()
		return nil, nil, err
	}
	return x, ahead, nil
}

// put writes our key and looks at the queue, at one revision.
func (x *lease) put(ctx context.Context, value string) ([]*mvccpb.KeyValue, error) {
	look := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)}
	if x.claim.Slots == 1 {
		look = append(look, clientv3.WithLimit(1)) // the first key shows whether we are alone
	}
	resp, err := x.leaser.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(x.key), "=", 0)).
		Then(clientv3.OpPut(x.key, value, clientv3.WithLease(x.id)), clientv3.OpGet(prefix(x.claim.Name), look...)).
		Commit()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // a partition, for instance, lasted longer than the lease
		return nil, fmt.Errorf("queue up: %w: %w", errGone, err)
	case err != nil:
		return nil, fmt.Errorf("queue up: %w", err)
	}
	if !resp.Succeeded {
		return nil, fmt.Errorf("key %q exists already, although its lease is new: %w", x.key, errGone)
	}
	x.rev = resp.Header.Revision
	kvs := resp.Responses[1].GetResponseRange().Kvs
	return slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool { return kv.CreateRevision >= x.rev }), nil
}

// weigh refuses a TTL that leaves no time for renewals. A grant waits for disks
// and a keep-alive does not, so that a slow first trip gets a second chance. If the lease
// has ended meanwhile and the second trip was quick, the error is errGone: trouble that has
// passed, for instance a partition, after which another attempt makes sense.
func (l *Leaser) weigh(ctx context.Context, ttl, trip time.Duration, renew func(context.Context) (time.Duration, error)) error {
	var err error
	if trip > ttl/3 {
		sent := l.clock.Now()
		_, err = renew(ctx)
		trip = l.clock.Now().Sub(sent)
	}
	switch {
	case errors.Is(err, errUnknownLease) && trip <= ttl/3:
		return fmt.Errorf("%w: %w", errGone, err)
	case err != nil && !errors.Is(err, errUnknownLease):
		return err
	case trip > ttl/3:
		return fmt.Errorf("%w: %v for a TTL of %v; ask for at least %v, or use a server that is nearer or less busy",
			tenure.ErrTTLTooShort, trip.Round(time.Millisecond), ttl, time.Duration(wholeSeconds(6*trip))*time.Second)
	}
	return nil
}

func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

// fits reports whether a claim for slots is admitted at the end of the queue.
func fits(ahead []record, n int) bool {
	return tenure.Admitted(append(slots(ahead), n)) == len(ahead)+1
}

func (x *lease) fits(ahead []*mvccpb.KeyValue) bool {
	if x.claim.Slots == 1 {
		return len(ahead) == 0
	}
	return fits(records(queued(x.claim.Name, ahead)), x.claim.Slots)
}

func records(queue []*mvccpb.KeyValue) []record {
	rs := make([]record, len(queue))
	for i, kv := range queue {
		rs[i] = decodeRecord(kv)
	}
	return rs
}

// ahead returns the queue ahead of us, or for an exclusive claim at least its last
// key, at a revision at which our own key is there: so our lease is, too.
func (x *lease) ahead(ctx context.Context) ([]*mvccpb.KeyValue, error) {
	if x.claim.Slots == 1 {
		last, err := x.look(ctx, clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(1))
		if err != nil || len(last) == 0 || len(queued(x.claim.Name, last)) == 1 {
			return last, err
		}
		// A key that is none of this queue's is in the way: look past it.
	}
	all, err := x.look(ctx, clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	return queued(x.claim.Name, all), err
}

func (x *lease) look(ctx context.Context, opts ...clientv3.OpOption) (kvs []*mvccpb.KeyValue, err error) {
	opts = append(opts, clientv3.WithPrefix(), clientv3.WithMaxCreateRev(x.rev-1))
	err = retry(ctx, func(ctx context.Context) error {
		resp, err := x.leaser.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(x.key), "=", x.rev)).
			Then(clientv3.OpGet(prefix(x.claim.Name), opts...)).
			Commit()
		switch {
		case err != nil:
			return err
		case !resp.Succeeded:
			return errGone
		}
		kvs = resp.Responses[0].GetResponseRange().Kvs
		return nil
	})
	return kvs, err
}

// await returns when we are admitted.
func (x *lease) await(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(x.keeper.ctx, func() { cancel(errGone) })()
	for {
		ahead, err := x.ahead(ctx)
		if err == nil && x.fits(ahead) {
			return nil
		}
		if err == nil {
			err = x.change(ctx, ahead)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
	}
}

// change returns when the keys ahead may have changed.
func (x *lease) change(ctx context.Context, ahead []*mvccpb.KeyValue) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	key := string(ahead[len(ahead)-1].Key)
	opts := []clientv3.OpOption{clientv3.WithFilterPut(), clientv3.WithCreatedNotify()}
	if x.claim.Slots > 1 { // anyone's leaving may let us in
		key, opts = prefix(x.claim.Name), append(opts, clientv3.WithPrefix())
	}
	// The watch begins at the present, and once it is there we look again, for it may have missed a
	// change. A watch from the revision of the look would miss nothing, but a stock etcd serves
	// watches from the past with a delay of 100 ms.
	for resp := range x.leaser.client.Watch(ctx, key, opts...) {
		switch {
		case resp.Canceled:
			pause(ctx) // no leader, or compacted: look again, not at once
			return nil
		case resp.Created:
			again, err := x.ahead(ctx)
			if err != nil || !slices.EqualFunc(ahead, again, sameKey) {
				return err
			}
		case len(resp.Events) > 0:
			return nil
		}
	}
	if ctx.Err() == nil {
		pause(ctx)
	}
	return nil
}

// sameKey compares keys that were ahead of us at two looks. One that is made anew stands behind us.
func sameKey(a, b *mvccpb.KeyValue) bool { return bytes.Equal(a.Key, b.Key) }

// hold makes an admitted claim a tenure. The look that admitted it shows the past; the
// clock says whether it still counts.
func (x *lease) hold() error {
	if x.keeper.Check() != nil {
		return errGone
	}
	x.leaser.add(x)
	go x.guard()
	return nil
}

// abandon leaves the queue.
func (x *lease) abandon() {
	x.keeper.End(errors.New("not admitted"))
	x.claim.LockDelay = 0 // a claim that never held has sent nothing
	_ = x.leave(context.Background(), time.Second)
}
