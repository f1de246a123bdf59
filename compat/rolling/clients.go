package rolling

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/engine/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// Of the keys, writes have one prefix, which watches watch; nothing there is written twice or deleted.
const (
	prefix = "app/w/"
	user   = "app"
	secret = "app's"
)

// callTimeout is for one call, which a client repeats.
const callTimeout = 10 * time.Second

// clients are all that work at a cluster, and what they have seen.
type clients struct {
	endpoints []string
	tls       *tls.Config
	work      sync.WaitGroup
	unwatched chan struct{} // gets one for each watch that has ended before it was to

	mu           sync.Mutex
	acknowledged []write
	failed       int // writes without an answer
	reads, locks int
	watches      [][]seen // that saw the end
	faults       []error
}

func (c *clients) dial(user, password string, endpoints ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: c.tls, Username: user, Password: password, Logger: zap.NewNop(),
		DialTimeout: callTimeout, DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	})
}

func (c *clients) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

// start starts a client's work with a connection of its own.
func (c *clients) start(work func(*clientv3.Client)) error {
	client, err := c.dial(user, secret, c.endpoints...)
	if err != nil {
		return err
	}
	c.work.Go(func() {
		defer client.Close()
		work(client)
	})
	return nil
}

// write writes one key after the other until ctx ends, and reads each back.
func (c *clients) write(ctx context.Context, client *clientv3.Client, w int) {
	for n := 0; ctx.Err() == nil; n++ {
		key, value := fmt.Sprintf("%s%d/%06d", prefix, w, n), fmt.Sprint(n)
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		put, err := client.Put(call, key, value)
		cancel()
		c.mu.Lock()
		if err == nil {
			c.acknowledged = append(c.acknowledged, write{key, value, put.Header.Revision})
		} else {
			c.failed++
		}
		c.mu.Unlock()
		if err != nil {
			if ofUsers(err) {
				c.fault("a write is refused: %w", err)
			}
			continue
		}
		c.read(ctx, client, key, put.Header.Revision)
	}
}

// read wants a write that was acknowledged.
func (c *clients) read(ctx context.Context, client *clientv3.Client, key string, revision int64) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	got, err := client.Get(call, key)
	switch {
	case ofUsers(err):
		c.fault("a read is refused: %w", err)
	case err == nil && (len(got.Kvs) != 1 || got.Kvs[0].ModRevision != revision):
		c.fault("%s was acknowledged at revision %d, and is read as %v", key, revision, got.Kvs)
	case err == nil:
		c.mu.Lock()
		c.reads++
		c.mu.Unlock()
	}
}

// watch keeps what it sees until it has seen the revision that comes by last. It watches once: clientv3 goes on
// by itself where a member has gone.
func (c *clients) watch(ctx context.Context, client *clientv3.Client, last <-chan int64) {
	var events []seen
	var end, at int64
	watch := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(1))
	for end == 0 || at < end {
		select {
		case end = <-last:
		case r, more := <-watch:
			for _, e := range r.Events {
				events = append(events, seen{string(e.Kv.Key), string(e.Kv.Value), e.Kv.ModRevision})
				at = e.Kv.ModRevision
			}
			if err := r.Err(); err != nil || !more {
				c.fault("a watch has ended after revision %d: %w", at, err)
				c.unwatched <- struct{}{}
				return
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches = append(c.watches, events)
}

// keep holds a lease with a key until ctx ends.
func (c *clients) keep(ctx context.Context, client *clientv3.Client, n int) {
	grant, err := client.Grant(ctx, 10)
	if err != nil {
		c.fault("no lease is granted: %w", err)
		return
	}
	key := fmt.Sprintf("app/lease/%d", n)
	if _, err := client.Put(ctx, key, "", clientv3.WithLease(grant.ID)); err != nil {
		c.fault("nothing is attached to a lease: %w", err)
		return
	}
	alive, err := client.KeepAlive(ctx, grant.ID)
	if err != nil {
		c.fault("a lease is not kept: %w", err)
		return
	}
	for range alive {
	}
	if ctx.Err() == nil {
		c.fault("lease %x is not renewed any more", grant.ID)
		return
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if got, err := client.Get(call, key); err != nil || len(got.Kvs) != 1 {
		c.fault("the key of a lease that was kept alive: %v, %w", got, err)
	}
}

// lock takes turns on one lock until ctx ends: etcd's own way, with a session for each turn.
func (c *clients) lock(ctx context.Context, client *clientv3.Client, w int) {
	for ctx.Err() == nil {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
		if err == nil {
			mutex := concurrency.NewMutex(session, "app/lock")
			if err = mutex.Lock(ctx); err == nil {
				c.mu.Lock()
				c.locks++
				c.mu.Unlock()
				err = mutex.Unlock(context.WithoutCancel(ctx))
			}
			session.Close()
		}
		if ofUsers(err) {
			c.fault("a lock of client %d is refused: %w", w, err)
		}
	}
}

// hold holds a lease of the engine until ctx ends.
func (c *clients) hold(ctx context.Context) error {
	leaser, err := engine.Open(ctx, engine.Config{Endpoints: c.endpoints, TLS: c.tls, Username: user, Password: secret})
	if err != nil {
		return err
	}
	lease, err := leaser.Acquire(ctx, tenure.Claim{Name: "app/held", TTL: 10 * time.Second})
	if err != nil {
		return errors.Join(err, leaser.Close())
	}
	c.work.Go(func() {
		defer leaser.Close()
		select {
		case <-lease.Done():
			c.fault("a lease of the engine is lost: %w", lease.Err())
		case <-ctx.Done():
		}
	})
	return nil
}

// change makes and deletes a user, until ctx ends: tokens that were signed before do not count for keys any more.
func (c *clients) change(ctx context.Context, root *clientv3.Client) {
	for ctx.Err() == nil {
		for _, do := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := root.UserAdd(ctx, "other", "o"); return err },
			func(ctx context.Context) error { _, err := root.UserDelete(ctx, "other"); return err },
		} {
			call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
			err := do(call)
			cancel()
			if ofUsers(err) { // not that it is there already, or not: an answer may have been lost
				c.fault("root is refused: %w", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
}
