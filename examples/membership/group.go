package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Group is a set of processes that know of each other.
type Group struct {
	Client *clientv3.Client
	Prefix string        // of the members' keys
	TTL    time.Duration // whole seconds
}

// Join makes us a member until the function is called, the process fails or ctx ends.
func (g Group) Join(ctx context.Context, id, value string) (leave func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	alive, lease, err := g.register(ctx, id, value)
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			for range alive { // until the lease is lost, or ctx ends
			}
			if ctx.Err() == nil {
				// The others believe that we failed. Tell them that we are back.
				alive, lease, err = g.register(ctx, id, value)
				if err != nil {
					pause(ctx)
				}
			}
		}
		// A leaving member need not be waited for.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.TTL)
		defer cancel()
		_, _ = g.Client.Revoke(end, lease)
	}()
	return func() { cancel(); <-ended }, nil
}

// register puts the key that identifies us, attached to a lease that is kept alive.
func (g Group) register(ctx context.Context, id, value string) (<-chan *clientv3.LeaseKeepAliveResponse, clientv3.LeaseID, error) {
	lease, err := g.Client.Grant(ctx, int64(g.TTL/time.Second))
	if err != nil {
		return nil, 0, fmt.Errorf("register a lease: %w", err)
	}
	key := g.Prefix + id
	put, err := g.Client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, value, clientv3.WithLease(lease.ID))).
		Commit()
	if err != nil {
		return nil, 0, fmt.Errorf("put %s: %w", key, err)
	}
	if !put.Succeeded {
		return nil, 0, fmt.Errorf("another process is member %q, or was until a moment ago: wait %v, or choose another id", id, g.TTL)
	}
	alive, err := g.Client.KeepAlive(ctx, lease.ID)
	return alive, lease.ID, err
}

// Change is a member that came (or changed its value) or went.
type Change struct {
	ID, Value string
	Up        bool
}

func (c Change) String() string {
	if c.Up {
		return fmt.Sprintf("up   %s %s", c.ID, c.Value)
	}
	return "down " + c.ID
}

// Watch yields the present members first, and then each change, in the order in which
// the server made them.
func (g Group) Watch(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		defer cancel()
		now, err := g.Client.Get(ctx, g.Prefix, clientv3.WithPrefix())
		if err != nil {
			yield(Change{}, err)
			return
		}
		for _, kv := range now.Kvs {
			if !yield(g.change(mvccpb.Event_PUT, kv), nil) {
				return
			}
		}
		// From the revision after what we have read: nothing is missed or seen twice.
		from := clientv3.WithRev(now.Header.Revision + 1)
		for changes := range g.Client.Watch(ctx, g.Prefix, clientv3.WithPrefix(), from) {
			if err := changes.Err(); err != nil {
				yield(Change{}, err)
				return
			}
			for _, ev := range changes.Events {
				if !yield(g.change(ev.Type, ev.Kv), nil) {
					return
				}
			}
		}
	}
}

func (g Group) change(what mvccpb.Event_EventType, kv *mvccpb.KeyValue) Change {
	return Change{ID: strings.TrimPrefix(string(kv.Key), g.Prefix), Value: string(kv.Value), Up: what == mvccpb.Event_PUT}
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}
