package flease_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/flease"
)

// Three peers that share nothing, in one process here. The lease of one is not another's.
func ExampleOpen() {
	var listeners []net.Listener
	var members []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		listeners, members = append(listeners, l), append(members, l.Addr().String())
	}
	ctx := context.Background()
	var peers []tenure.Leaser
	for i, l := range listeners {
		peer, err := flease.Open(ctx, flease.Config{
			Self: members[i], Members: members, Listener: l,
			TMax: time.Second, Epsilon: 20 * time.Millisecond, // so that the silence after the start is short
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			log.Fatal(err)
		}
		defer peer.Close()
		peers = append(peers, peer)
	}
	var inside, most int
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, peer := range peers {
		all.Go(func() {
			err := tenure.Do(ctx, peer, tenure.Claim{Name: "shard-7"}, func(context.Context, tenure.Lease) error {
				mu.Lock()
				inside++
				most = max(most, inside)
				mu.Unlock()
				mu.Lock()
				defer mu.Unlock()
				inside--
				return nil
			})
			if err != nil {
				log.Fatal(err)
			}
		})
	}
	all.Wait()
	fmt.Println("at most", most, "held it")
	// Output:
	// at most 1 held it
}
