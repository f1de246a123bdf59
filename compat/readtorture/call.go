package readtorture

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// do makes the call. The workload's end does not cut it off.
func (w *worker) do(ctx context.Context, o *operation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTime)
	defer cancel()
	i := slices.Index(o.Writes[:], true)
	if i < 0 {
		i = slices.Index(o.Looks[:], true)
	}
	one := key(o.Object, i)
	o.Start = w.now()
	var err error
	switch o.Kind {
	case kindGet:
		err = o.get(w.cli.Get(ctx, one))
	case kindSerial:
		err = o.get(w.cli.Get(ctx, one, clientv3.WithSerializable()))
	case kindRange:
		err = o.get(w.cli.Get(ctx, o.Object+"/", clientv3.WithPrefix()))
	case kindReadTxn:
		var gets []clientv3.Op
		for i, looks := range o.Looks {
			if looks {
				gets = append(gets, clientv3.OpGet(key(o.Object, i)))
			}
		}
		// The condition is always met, and read.
		err = o.txn(w.cli.Txn(ctx).If(clientv3.Compare(clientv3.Version(one), ">", -1)).Then(gets...).Commit())
	case kindPut:
		var options []clientv3.OpOption
		if o.Looks[i] {
			options = append(options, clientv3.WithPrevKV())
		}
		var r *clientv3.PutResponse
		if r, err = w.cli.Put(ctx, one, o.Value, options...); err == nil {
			o.Revision = r.Header.Revision
			if r.PrevKv != nil {
				o.found([]*mvccpb.KeyValue{r.PrevKv})
			}
		}
	case kindDelete, kindClear:
		at, options := one, []clientv3.OpOption{clientv3.WithPrevKV()}
		if o.Kind == kindClear {
			at, options = o.Object+"/", append(options, clientv3.WithPrefix())
		}
		var r *clientv3.DeleteResponse
		if r, err = w.cli.Delete(ctx, at, options...); err == nil {
			o.Revision = r.Header.Revision
			o.found(r.PrevKvs)
		}
	case kindCAS:
		condition := clientv3.Compare(clientv3.Value(one), "=", o.Old)
		if o.Old == "" {
			condition = clientv3.Compare(clientv3.Version(one), "=", 0)
		}
		err = o.txn(w.cli.Txn(ctx).If(condition).Then(clientv3.OpPut(one, o.Value)).Else(clientv3.OpGet(one)).Commit())
	case kindTxn:
		ops := []clientv3.Op{clientv3.OpGet(o.Object+"/", clientv3.WithPrefix())}
		for i, writes := range o.Writes {
			if writes {
				ops = append(ops, clientv3.OpPut(key(o.Object, i), o.Value))
			}
		}
		err = o.txn(w.cli.Txn(ctx).Then(ops...).Commit())
	}
	o.End, o.Known = w.now(), err == nil
}

func (o *operation) get(r *clientv3.GetResponse, err error) error {
	if err == nil {
		o.Revision = r.Header.Revision
		o.found(r.Kvs)
	}
	return err
}

func (o *operation) txn(r *clientv3.TxnResponse, err error) error {
	if err != nil {
		return err
	}
	o.Revision, o.Swapped = r.Header.Revision, r.Succeeded
	for _, part := range r.Responses {
		if got := part.GetResponseRange(); got != nil {
			o.found(got.Kvs)
		}
	}
	return nil
}

// found takes what the answer tells of keys.
func (o *operation) found(kvs []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		i := int(kv.Key[len(kv.Key)-1] - '0')
		o.Saw[i], o.Mods[i] = string(kv.Value), kv.ModRevision
	}
}
