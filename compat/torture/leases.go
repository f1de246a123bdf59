package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const leaseRoot = "leased/"

// observed is a lease with a key of its own, as its owner knows it.
type observed struct {
	key string

	mu        sync.Mutex
	sent      time.Duration // of the last renewal that succeeded, or of the grant
	maybe     time.Duration // of the last that was tried
	abandoned bool
}

// leases are granted all along a run: some renewed to the end, most abandoned
// after a while.
type leases struct {
	cluster *server.Cluster
	mu      sync.Mutex
	all     []*observed
}

// run grants a lease every 200 ms until ctx ends. Every fourth is renewed until
// keep ends, the others for some time.
func (l *leases) run(ctx, keep context.Context) error {
	cli, err := l.cluster.Client()
	if err != nil {
		return err
	}
	defer cli.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	for n := 0; ctx.Err() == nil; n++ {
		wg.Go(func() {
			life, abandon := keep, n%4 != 0
			if abandon {
				var cancel context.CancelFunc
				life, cancel = context.WithTimeout(ctx, time.Duration(n%5)*1500*time.Millisecond)
				defer cancel()
			}
			l.one(life, keep, cli, fmt.Sprintf("%s%d", leaseRoot, n), abandon)
		})
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// one grants a lease with a key and renews it until life ends.
func (l *leases) one(life, keep context.Context, cli *clientv3.Client, key string, abandon bool) {
	o := &observed{key: key, sent: now()}
	id, err := grant(keep, cli)
	if err != nil {
		return
	}
	try, cancel := context.WithTimeout(keep, 2*time.Second)
	_, err = cli.Put(try, key, "", clientv3.WithLease(id))
	cancel()
	if err != nil {
		return // nothing can be said about a key that may not exist
	}
	o.maybe = now()
	l.mu.Lock()
	l.all = append(l.all, o)
	l.mu.Unlock()
	renew(life, cli, id, o.sent, func(sent time.Duration) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.sent = sent
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	// One to keep is lost when renewals failed until it was too late.
	o.maybe, o.abandoned = now(), abandon || keep.Err() == nil
}

// deletion is the end of a leased key, as the watch saw it: the lease ended
// then or before.
type deletion struct {
	key string
	at  time.Duration
}

// judge wants no key to have ended early and, at the time given, all gone that
// are abandoned and none that is kept. A renewal whose answer was lost may have
// counted, and a new leader gives every lease its time again: slack is granted
// for that.
func (l *leases) judge(deletions []deletion, at, slack time.Duration) (ended, kept int, err error) {
	ends := map[string]time.Duration{}
	for _, d := range deletions {
		ends[d.key] = d.at
	}
	const ttl = holderTTL * time.Second
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.all {
		o.mu.Lock()
		defer o.mu.Unlock()
		end, over := ends[o.key]
		switch {
		case over && end < o.sent+ttl:
			err = errors.Join(err, fmt.Errorf("%s ended early: at %v, renewed at %v", o.key, end, o.sent))
		case over && !o.abandoned:
			err = errors.Join(err, fmt.Errorf("%s ended at %v although it was renewed until %v", o.key, end, o.sent))
		case !over && o.abandoned && at > o.maybe+ttl+slack:
			err = errors.Join(err, fmt.Errorf("%s never ended, abandoned at %v, it is %v", o.key, o.maybe, at))
		case over:
			ended++
		case !o.abandoned:
			kept++
		}
	}
	return ended, kept, err
}
