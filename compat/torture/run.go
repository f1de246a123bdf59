package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Config says what to torture.
type Config struct {
	Cluster *server.Cluster // of three empty members
	Seed    uint64
	Time    time.Duration // of attacks
	Holder  string        // program that calls Holder when HolderVariable is set
	Holders int
	Naive   bool // holders that do not watch their deadline, to see them found
	// Newer, if set, is the program to which each member is upgraded, one after the other.
	Newer string
}

// Outcome counts what a run saw, so that a run in which nothing happened does
// not pass for a good one.
type Outcome struct {
	Operations, Unknown, Events, Tenures, Ended, Kept int
	Attacks                                           []attack
}

func (o Outcome) String() string {
	return fmt.Sprintf("%d operations (%d without an answer), %d events, %d tenures of locks, %d leases ended, %d kept, %d attacks",
		o.Operations, o.Unknown, o.Events, o.Tenures, o.Ended, o.Kept, len(o.Attacks))
}

// settling is how long a healed cluster may take to expire what is due: an
// election, the time that the new leader gives, and room for a loaded machine.
const settling = 10 * time.Second

// Run tortures a cluster and returns what its judges found.
func Run(ctx context.Context, cfg Config) (Outcome, error) {
	out := Outcome{Attacks: schedule(cfg.Seed, cfg.Time)}
	if cfg.Newer != "" {
		out.Attacks = upgrades(cfg.Seed, out.Attacks, len(cfg.Cluster.Members))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching, err := record(ctx, cfg.Cluster)
	if err != nil {
		return out, err
	}
	h := newHolders(cfg.Holder, holderConfig{Endpoints: cfg.Cluster.Endpoints(), Seed: cfg.Seed, Naive: cfg.Naive})
	defer h.stop()
	for range cfg.Holders {
		if err := h.start(); err != nil {
			return out, err
		}
	}
	l := &leases{cluster: cfg.Cluster}
	loading, stopLoad := context.WithCancel(ctx)
	defer stopLoad()
	var (
		load     sync.WaitGroup
		history  []operation
		workErr  error
		leaseErr = make(chan error, 1)
	)
	load.Go(func() { history, workErr = work(loading, cfg.Cluster, cfg.Seed) })
	go func() { leaseErr <- l.run(loading, ctx) }()

	attackErr := (&nemesis{cfg.Cluster, h, cfg.Newer}).run(ctx, out.Attacks)
	stopLoad()
	load.Wait()
	claims := h.stop()
	if err := errors.Join(attackErr, workErr); err != nil {
		return out, err
	}
	time.Sleep(holderTTL*time.Second + settling)
	events, deletions, at, err := watching.finish(ctx)
	if err != nil {
		return out, err
	}
	var faults []error
	out.Ended, out.Kept, err = l.judge(deletions, at, settling-time.Second)
	faults = append(faults, err)
	cancel() // the kept leases may go
	faults = append(faults, <-leaseErr)

	out.Tenures, err = exclusive(claims)
	faults = append(faults, err)
	faults = append(faults, audit(history, events)...)
	faults = append(faults, linearizable(history, 2*time.Minute))
	out.Operations, out.Events = len(history), len(events)
	for _, o := range history {
		if !o.known {
			out.Unknown++
		}
	}
	return out, errors.Join(faults...)
}

// recording is a watch of everything from the first revision.
type recording struct {
	cli    *clientv3.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu        sync.Mutex
	events    []event    // of registers
	deletions []deletion // of leased keys
	revision  int64      // of the last event of all
	err       error
}

func record(ctx context.Context, c *server.Cluster) (*recording, error) {
	cli, err := c.Client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &recording{cli: cli, cancel: cancel, done: make(chan struct{})}
	changes := cli.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(1))
	go func() {
		defer close(r.done)
		for batch := range changes {
			at := now()
			r.mu.Lock()
			for _, e := range batch.Events {
				r.take(e, at)
			}
			r.err = batch.Err()
			r.mu.Unlock()
		}
	}()
	return r, nil
}

func (r *recording) take(e *clientv3.Event, at time.Duration) {
	r.revision = e.Kv.ModRevision
	switch key := string(e.Kv.Key); {
	case strings.HasPrefix(key, registerRoot):
		r.events = append(r.events, event{key, string(e.Kv.Value), e.Kv.ModRevision})
	case strings.HasPrefix(key, leaseRoot) && e.Type == mvccpb.Event_DELETE:
		r.deletions = append(r.deletions, deletion{key, at})
	}
}

// finish waits until the watch has seen all there is, ends it, and returns what
// it saw and when that was.
func (r *recording) finish(ctx context.Context) ([]event, []deletion, time.Duration, error) {
	defer func() {
		r.cancel()
		<-r.done
		r.cli.Close()
	}()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	at := now()
	mark, err := r.cli.Put(ctx, "the end", "")
	if err != nil {
		return nil, nil, 0, fmt.Errorf("a put after all faults were undone: %w", err)
	}
	for {
		r.mu.Lock()
		seen, err := r.revision, r.err
		r.mu.Unlock()
		switch {
		case err != nil:
			return nil, nil, 0, fmt.Errorf("the watch ended: %w", err)
		case seen >= mark.Header.Revision:
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.events, r.deletions, at, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, 0, fmt.Errorf("the watch stands at revision %d of %d", seen, mark.Header.Revision)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
