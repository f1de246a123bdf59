// Command pool leases one free name of N, as DHCP leases addresses. A client gets a name
// that nobody holds, if possible its last one, and keeps it for as long as it lives. The
// names of crashed clients come back by themselves.
//
//	go run ./cmd/tenure serve &
//	go run ./examples/pool -size 3 &
//	go run ./examples/pool -size 3 -prefer 2
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure/engine"
)

func main() {
	at := flag.String("at", "etcd://127.0.0.1:2379", "engine URL")
	name := flag.String("pool", "pool", "name of the pool")
	size := flag.Int("size", 10, "how many names it has")
	prefer := flag.Int("prefer", 0, "the one to try first, for instance the one that we had last")
	ttl := flag.Duration("ttl", 10*time.Second, "how long a name stays ours after a crash")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *at, Pool{Name: *name, Size: *size, TTL: *ttl}, *prefer); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "pool:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, at string, pool Pool, prefer int) error {
	leaser, err := engine.Open(ctx, at)
	if err != nil {
		return err
	}
	defer leaser.Close()
	n, lease, err := pool.Take(ctx, leaser, prefer)
	if err != nil {
		return err
	}
	fmt.Printf("number %d is ours, token %d\n", n, lease.Token())
	select {
	case <-ctx.Done():
		return lease.Release(context.WithoutCancel(ctx))
	case <-lease.Done():
		return lease.Err()
	}
}
