package etcd

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
)

// recordKey is where the record of a name lies: outside of its queue, in which plain etcd clients would
// wait for it.
func recordKey(name string) string { return name + ".record" }

// RecordOf returns the name whose record lies at a key, if it is such a key.
func RecordOf(key string) (name string, ok bool) {
	name, ok = strings.CutSuffix(key, recordKey(""))
	return name, ok && tenure.CheckName(name) == nil
}

// Record implements tenure.Recorder, by a linearizable read.
func (l *Leaser) Record(outer context.Context, name string) (record []byte, err error) {
	if err := tenure.CheckName(name); err != nil {
		return nil, err
	}
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return nil, err
	}
	defer end()
	err = retry(ctx, func(ctx context.Context) error {
		got, err := l.client.Get(ctx, recordKey(name))
		if err == nil && len(got.Kvs) > 0 {
			record = got.Kvs[0].Value
		}
		return err
	})
	switch {
	case err == nil:
		return record, nil
	case l.calls.CutShort(outer):
		return nil, tenure.ErrClosed
	}
	return nil, fmt.Errorf("read the record of %q: %w", name, unavailable(err))
}

// SetRecord implements tenure.Recorder. The server itself compares: it takes the record only while it
// has the key of the tenure, so that a holder that was stopped cannot be late.
func (l *Leaser) SetRecord(ctx context.Context, held tenure.Lease, record []byte) error {
	x, ok := held.(*lease)
	if !ok || x.leaser != l {
		return holder.ErrForeign
	}
	return holder.Record(ctx, l.calls, x, record, func(ctx context.Context) error {
		return unavailable(retry(ctx, func(ctx context.Context) error {
			done, err := l.client.Txn(ctx).
				If(clientv3.Compare(clientv3.CreateRevision(x.key), "=", x.rev)).
				Then(clientv3.OpPut(recordKey(x.claim.Name), string(record))).
				Commit()
			if err == nil && !done.Succeeded {
				err = errKeyGone
				x.keeper.Lose(err)
			}
			return err
		}))
	})
}

// unavailable adds to an error that waiting may cure what it means.
func unavailable(err error) error {
	if err != nil && passing(err) {
		return fmt.Errorf("%w: %w", tenure.ErrUnavailable, err)
	}
	return err
}
