package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

// costTerm is the Δ of the leases whose cost is measured.
const costTerm = serverTTL * time.Second

// measureCosts measures what it takes to hold 0, 1, 8 and 64 leases, at each variant in turn.
func (b *bench) measureCosts(ctx context.Context) error {
	counts := []int{0, 1, 8, 64}
	wanted := false
	for _, n := range counts {
		wanted = wanted || b.wants(costPart(n))
	}
	if !wanted {
		return nil
	}
	jobs := map[string]job{}
	for _, n := range []int{1, 3} {
		dirs, err := b.store(n, costTerm, b.delay)
		if err != nil {
			return err
		}
		jobs[plural(n, "directory", "3 directories")] = job{Dirs: dirs}

		dir := filepath.Join(b.dir, fmt.Sprint("servers", n))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		c, err := server.Start(ctx, server.Config{Kind: server.Tenure, Members: n, Dir: dir})
		if err != nil {
			return err
		}
		defer c.Stop()
		leader, err := c.Leader(ctx)
		if err != nil {
			return err
		}
		j := job{Endpoint: c.Members[leader].Endpoint}
		for _, m := range c.Members {
			j.Servers = append(j.Servers, m.PID())
		}
		jobs[plural(n, "server", "3 servers")] = j

		r, err := startRedis(ctx, b.dir, n, costTerm, b.delay)
		if errors.Is(err, errNoRedis) {
			fmt.Fprintln(b.progress, err)
			continue
		}
		if err != nil {
			return err
		}
		defer r.stop()
		jobs[plural(n, "redis", "3 redis")] = job{Redis: r.addrs, Servers: r.pids()}
	}
	for range b.costRuns {
		for _, n := range counts {
			for _, variant := range variants {
				j, ok := jobs[variant]
				if !ok || !b.wants(costPart(n)) || n == 0 && len(j.Servers) == 0 {
					continue
				}
				if err := b.cost(ctx, variant, j, n); err != nil {
					return fmt.Errorf("%s, %d leases: %w", variant, n, err)
				}
			}
		}
	}
	return nil
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

func costPart(n int) string { return fmt.Sprint("cost ", n) }

func (b *bench) cost(ctx context.Context, variant string, j job, n int) error {
	b.names++
	j.Do, j.Name, j.Leases, j.For = "hold", fmt.Sprint("cost", b.names), n, b.window
	r, _, err := j.run(ctx)
	if err != nil {
		return err
	}
	h := r.Holding
	per := float64(h.Renewals)
	if n == 0 {
		per = h.For.Seconds()
	}
	if per == 0 {
		return errors.New("nothing was renewed")
	}
	b.add(result{
		Part: costPart(n), Variant: variant, Took: h.P50,
		CPU:       time.Duration(float64(h.Used.CPU) / per),
		ReadBytes: float64(h.Used.ReadBytes) / per, WrittenBytes: float64(h.Used.WrittenBytes) / per,
		Batches: float64(h.Batches) / per,
	})
	return nil
}
