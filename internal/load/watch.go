package load

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// Puts that are watched come every so often, and late events are waited for so long.
const (
	putEvery   = 2 * time.Millisecond
	eventsWait = 10 * time.Second
)

// watch puts now and then, and has every client see it.
func watch(ctx context.Context, l *Load) (Result, error) {
	clients, closeAll, err := l.connect(l.Clients, l.members())
	if err != nil {
		return Result{}, err
	}
	defer closeAll()
	writer, err := l.Connect(l.Leader())
	if err != nil {
		return Result{}, err
	}
	defer writer.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	begin, key, puts := time.Now(), l.Prefix+"watch", max(int(l.Time/putEvery), 10)
	seen := make([][]time.Duration, l.Clients)
	var watchers errgroup.Group
	for i, c := range clients {
		events := c.Watch(clientv3.WithRequireLeader(ctx), key, clientv3.WithCreatedNotify())
		if r, ok := <-events; !ok || r.Err() != nil {
			return Result{}, fmt.Errorf("a watch is not made: %w", r.Err())
		}
		watchers.Go(func() (err error) {
			seen[i], err = latenesses(begin, events, puts)
			return err
		})
	}
	cpu, start := l.CPU(ctx), time.Now()
	if err := putTimes(ctx, writer, key, begin, puts); err != nil {
		return Result{}, err
	}
	defer time.AfterFunc(eventsWait, end).Stop()
	if err := watchers.Wait(); err != nil {
		return Result{}, err
	}
	elapsed := time.Since(start)
	cpu = l.CPU(ctx) - cpu
	var all []time.Duration
	for _, one := range seen {
		all = append(all, one...)
	}
	return Summary(all, elapsed, max(cpu, 0)), nil
}

// putTimes puts how much time has passed, so many times.
func putTimes(ctx context.Context, c *clientv3.Client, key string, begin time.Time, puts int) error {
	ticker := time.NewTicker(putEvery)
	defer ticker.Stop()
	for range puts {
		<-ticker.C
		if _, err := c.Put(ctx, key, strconv.FormatInt(int64(time.Since(begin)), 10)); err != nil {
			return err
		}
	}
	return nil
}

// latenesses returns how long after their puts so many events came.
func latenesses(begin time.Time, events clientv3.WatchChan, puts int) (late []time.Duration, err error) {
	for r := range events {
		now := time.Since(begin)
		if err := r.Err(); err != nil {
			return nil, err
		}
		for _, e := range r.Events {
			put, err := strconv.ParseInt(string(e.Kv.Value), 10, 64)
			if err != nil {
				return nil, err
			}
			late = append(late, now-time.Duration(put))
		}
		if len(late) >= puts {
			return late, nil
		}
	}
	return nil, fmt.Errorf("%d events of %d arrived", len(late), puts)
}
