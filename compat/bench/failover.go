package main

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/load"
)

// kills is how often a run of a gap case kills a member. P50 is the median
// gap and P99 the longest.
const kills = 3

func gapOpen(ctx context.Context, b *bench) (load.Result, error) {
	return b.measureGaps(ctx, b.cluster.Leader, openLoop)
}

func gapClosed(ctx context.Context, b *bench) (load.Result, error) {
	return b.measureGaps(ctx, b.cluster.Leader, closedLoop)
}

// measureGaps measures the longest time in which no put was acknowledged, around each kill of
// a member.
func (b *bench) measureGaps(ctx context.Context, who func(context.Context) (int, error), write func(context.Context, *clientv3.Client, func())) (load.Result, error) {
	var gaps []time.Duration
	for range kills {
		member, err := who(ctx)
		if err != nil {
			return load.Result{}, err
		}
		longest, err := b.gapOfOne(ctx, member, write)
		if err != nil {
			return load.Result{}, err
		}
		gaps = append(gaps, longest)
		if err := b.cluster.Members[member].Start(ctx); err != nil {
			return load.Result{}, err
		}
	}
	slices.Sort(gaps)
	return load.Result{P50: gaps[len(gaps)/2], P99: gaps[len(gaps)-1]}, nil
}

func (b *bench) gapOfOne(ctx context.Context, member int, write func(context.Context, *clientv3.Client, func())) (time.Duration, error) {
	cli, err := b.cluster.Client()
	if err != nil {
		return 0, err
	}
	defer cli.Close()
	// The connections exist before the kill, as they do in a running program.
	if _, err := cli.Get(ctx, "gap"); err != nil {
		return 0, err
	}
	writing, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var acknowledged []time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		write(writing, cli, func() {
			mu.Lock()
			defer mu.Unlock()
			acknowledged = append(acknowledged, time.Now())
		})
	}()
	time.Sleep(time.Second)
	b.cluster.Members[member].Kill()
	killed := time.Now()
	// Go on until answers came again for a while. A closed loop without time
	// limits can stand still until the members give up its requests.
	resumed := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged) > 0 && acknowledged[len(acknowledged)-1].After(time.Now().Add(-300*time.Millisecond))
	}
	for since := time.Duration(0); since < 3*time.Second || !resumed() && since < 20*time.Second; since = time.Since(killed) {
		time.Sleep(100 * time.Millisecond)
	}
	end := time.Now()
	stop()
	<-done
	// The gap that matters begins with the last answer before the kill at the
	// earliest. An answer that never came counts until the end.
	longest, last := time.Duration(0), killed.Add(-50*time.Millisecond)
	slices.SortFunc(acknowledged, time.Time.Compare)
	for _, at := range append(acknowledged, end) {
		if at.Before(last) || at.After(end) {
			continue
		}
		longest, last = max(longest, at.Sub(last)), at
	}
	return longest, nil
}

// openLoop starts a put every 5 ms, however many are still under way.
func openLoop(ctx context.Context, cli *clientv3.Client, acknowledged func()) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		<-ticker.C
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 7*time.Second)
			defer cancel()
			if _, err := cli.Put(ctx, "gap", "v"); err == nil {
				acknowledged()
			}
		})
	}
}

// closedLoop has eight writers that put as soon as their last put ended.
func closedLoop(ctx context.Context, cli *clientv3.Client, acknowledged func()) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := cli.Put(ctx, "gap", "v"); err == nil {
					acknowledged()
				}
			}
		})
	}
}
