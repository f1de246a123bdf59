package readtorture

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/compat/server"
)

// watches are one of everything, from the first revision, at each member.
type watches struct {
	load   *load
	cancel context.CancelFunc
	done   sync.WaitGroup
	all    []*watching
}

type watching struct {
	member int
	cli    *clientv3.Client

	mu     sync.Mutex
	events []event
	err    error
}

func watch(ctx context.Context, l *load, c *server.Cluster) (*watches, error) {
	ctx, cancel := context.WithCancel(ctx)
	ws := &watches{load: l, cancel: cancel}
	for i := range c.Members {
		cli, err := c.Client(i)
		if err != nil {
			ws.stop()
			return nil, err
		}
		w := &watching{member: i, cli: cli}
		ws.all = append(ws.all, w)
		changes := cli.Watch(ctx, root, clientv3.WithPrefix(), clientv3.WithRev(1))
		ws.done.Go(func() {
			for batch := range changes {
				w.take(batch, l.now())
			}
		})
	}
	return ws, nil
}

func (w *watching) take(batch clientv3.WatchResponse, at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range batch.Events {
		w.events = append(w.events, event{string(e.Kv.Key), string(e.Kv.Value), e.Kv.ModRevision, at})
	}
	if err := batch.Err(); err != nil {
		w.err = fmt.Errorf("the watch at member %d ended: %w", w.member, err)
	}
}

// reached reports whether a watch has shown a revision, or ended.
func (w *watching) reached(revision int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil || len(w.events) > 0 && w.events[len(w.events)-1].Revision >= revision
}

// finish waits until all have shown a revision and returns what they showed, each.
func (ws *watches) finish(ctx context.Context, revision int64) (shown [][]event, err error) {
	defer ws.stop()
	for _, w := range ws.all {
		for !w.reached(revision) && ctx.Err() == nil {
			pause(ctx, 10*time.Millisecond)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the watch at member %d has not reached revision %d: %w", w.member, revision, ctx.Err())
		}
		if w.err != nil {
			return nil, w.err
		}
		w.mu.Lock()
		shown = append(shown, w.events)
		w.mu.Unlock()
	}
	return shown, nil
}

func (ws *watches) stop() {
	ws.cancel()
	ws.done.Wait()
	for _, w := range ws.all {
		w.cli.Close()
	}
}

// agree judges what watches showed, and returns it with the time at which each change
// was shown first.
func agree(shown [][]event) (events []event, faults []error) {
	events = append(events, shown[0]...)
	for i, list := range shown {
		for j, e := range list {
			if j > 0 && (e.Revision < list[j-1].Revision || e.Revision == list[j-1].Revision && e.Key <= list[j-1].Key) {
				faults = append(faults, fmt.Errorf("the watch at member %d showed %+v after %+v", i, e, list[j-1]))
			}
			if j >= len(events) || events[j].Key != e.Key || events[j].Value != e.Value || events[j].Revision != e.Revision {
				return events, append(faults, fmt.Errorf("the watch at member %d showed %+v as number %d of %d, that at member 0 did not", i, e, j, len(list)))
			}
			events[j].At = min(events[j].At, e.At)
		}
		if len(list) != len(events) {
			faults = append(faults, fmt.Errorf("the watch at member %d showed %d changes, that at member 0 %d", i, len(list), len(events)))
		}
	}
	return events, faults
}

// adds wants a member to have what the changes add up to.
func adds(member int, got *clientv3.GetResponse, v *versions) (faults []error) {
	found := map[string]event{}
	for _, kv := range got.Kvs {
		found[string(kv.Key)] = event{Value: string(kv.Value), Revision: kv.ModRevision}
	}
	for k, list := range v.keys {
		want := list[len(list)-1]
		have := found[k]
		if want.Value == "" {
			want.Revision = 0
		}
		if have.Value != want.Value || have.Revision != want.Revision {
			faults = append(faults, fmt.Errorf("in the end member %d has %s=%q of revision %d, the last change was %+v", member, k, have.Value, have.Revision, want))
		}
		delete(found, k)
	}
	if len(found) > 0 {
		faults = append(faults, fmt.Errorf("in the end member %d has %v, of which no watch has told", member, found))
	}
	return faults
}
