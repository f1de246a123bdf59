package redis_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/redis"
)

// Three servers that do not replicate each other, of which any one may fail.
func Example() {
	var addrs []string
	for range 3 {
		addrs = append(addrs, server())
	}
	state, err := os.MkdirTemp("", "state")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state)
	ctx := context.Background()
	cfg := redis.Config{Addrs: addrs, State: state}
	if err := redis.Init(ctx, cfg, redis.Spec{TTL: 15 * time.Second}); err != nil { // once
		log.Fatal(err)
	}
	leaser, err := redis.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer leaser.Close()
	err = tenure.Do(ctx, leaser, tenure.Claim{Name: "nightly"}, func(ctx context.Context, l tenure.Lease) error {
		fmt.Println("backing up, with a token:", l.Token() > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// backing up, with a token: true
	// <nil>
}

// server starts a Redis in this process, for the example.
func server() string {
	s := miniredis.NewMiniRedis()
	if err := s.Start(); err != nil {
		log.Fatal(err)
	}
	s.Server().SetPreHook(func(c *miniserver.Peer, cmd string, _ ...string) bool {
		if cmd != "INFO" {
			return false
		}
		c.WriteBulk("# Clients\r\nconnected_clients:1\r\n") // miniredis has no such command
		return true
	})
	return s.Addr()
}
