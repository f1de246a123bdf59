package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	listPage  = 1000 // keys in one read
	listBatch = 100  // reads in one transaction; a server takes 128 at default settings
)

// List implements tenure.Lister. It reads the names of all keys under the prefix,
// those that have nothing to do with leases too, page by page. Names come and go
// between the pages.
func (l *Leaser) List(ctx context.Context, prefix string) ([]string, error) {
	if err := l.calls.Err(); err != nil {
		return nil, err
	}
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	if prefix == "" {
		from, end = "\x00", "\x00"
	}
	var names []string
	for {
		page, err := l.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(listPage))
		if err == nil {
			var found []string
			found, err = l.namesOf(ctx, page.Kvs, prefix)
			names = append(names, found...)
		}
		if err != nil {
			return nil, fmt.Errorf("list names under %q: %w", prefix, err)
		}
		if !page.More {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// namesOf returns the names in whose queues the keys stand. etcd 3.7 leaves the lease
// out when only keys are asked for, so those that look right are read again.
func (l *Leaser) namesOf(ctx context.Context, keys []*mvccpb.KeyValue, prefix string) (names []string, err error) {
	var likely []*mvccpb.KeyValue
	for _, kv := range keys {
		if looksQueued(kv) {
			likely = append(likely, kv)
		}
	}
	for batch := range slices.Chunk(likely, listBatch) {
		var gets []clientv3.Op
		for _, kv := range batch {
			gets = append(gets, clientv3.OpGet(string(kv.Key)))
		}
		got, err := l.client.Txn(ctx).Then(gets...).Commit()
		if err != nil {
			return nil, err
		}
		for _, r := range got.Responses {
			for _, kv := range r.GetResponseRange().Kvs {
				if name, ok := queueName(kv); ok && strings.HasPrefix(name, prefix) {
					names = append(names, name)
				}
			}
		}
	}
	return names, nil
}
