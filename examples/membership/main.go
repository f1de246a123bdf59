// Command membership is group membership and failure detection by a leased key and a watch:
// each process puts a key that names it, attached to a lease that it keeps alive. When the
// process fails the lease expires, the key vanishes, and every watcher is told.
//
//	go run ./cmd/tenure serve &
//	go run ./examples/membership -id a -value 10.0.0.1:8000 &
//	go run ./examples/membership -id b -value 10.0.0.2:8000
//
// Each prints the members that come and go. Kill one with -9 and see the others notice,
// after at most the TTL and the server's delay.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func main() {
	at := flag.String("at", "127.0.0.1:2379", "address of the server")
	id := flag.String("id", "", "our name; empty to watch only")
	value := flag.String("value", "", "text about us for the others, such as an address")
	ttl := flag.Duration("ttl", 5*time.Second, "how long after a failure we count as a member")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *at, *id, *value, *ttl); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "membership:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, at, id, value string, ttl time.Duration) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{at}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	group := Group{Client: client, Prefix: "members/", TTL: ttl}
	if id != "" {
		leave, err := group.Join(ctx, id, value)
		if err != nil {
			return err
		}
		defer leave()
	}
	for change, err := range group.Watch(ctx) {
		if err != nil {
			return err
		}
		fmt.Println(change)
	}
	return ctx.Err()
}
