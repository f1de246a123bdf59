package flease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// TestLongAnswers: an answer may be much longer than a request, because many claims may share a name
// and there may be many peers. The client gets all of it and keeps its leases.
func TestLongAnswers(t *testing.T) {
	const members = 300
	cfg := brief
	m := engine.Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: "h1:7000"}}
	for i := 2; i <= members; i++ {
		m.Addrs[machine.NodeID(i)] = fmt.Sprintf("%s%d.example:7000", strings.Repeat("far.", 20), i)
	}
	inLab(t, 1, brief, func(l *lab) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c := l.peers[0].client("c")
		defer c.Close()
		held := l.acquire(c, time.Second, tenure.Claim{Name: "mine", TTL: 3 * time.Second})
		from := l.peers[0].Leaser()
		defer from.Close()
		for i := range flease.MaxHoldings {
			l.acquire(from, time.Second, tenure.Claim{
				Name: "x", Slots: tenure.Shared, TTL: 3 * time.Second, Holder: fmt.Sprintf("%s%02d", strings.Repeat("<", 510), i),
			})
		}
		s, err := c.Observe(ctx, "x")
		if err != nil || len(s.Holders) != flease.MaxHoldings {
			t.Errorf("an observer sees %d of %d that share: %v", len(s.Holders), flease.MaxHoldings, err)
		}
		time.Sleep(4 * time.Second)
		if err := held.Check(); err != nil {
			t.Errorf("it looks at what many share, and loses what it holds: %v", err)
		}
	})
	cfg.Membership = engine.Fixed(m)
	inLab(t, 1, cfg, func(l *lab) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c := l.peers[0].client("c")
		defer c.Close()
		if s, err := c.Status(ctx); err != nil || len(s.Peers) != members {
			t.Errorf("the status tells of %d peers of %d: %v", len(s.Peers), members, err)
		}
	})
}

// connectionRoom is the number of claims, and of looks, that a connection has room for.
const connectionRoom = 4096

// TestOneTooMany: a request beyond the room of a connection is refused, and the client keeps its
// leases.
func TestOneTooMany(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		from := l.peers[0].Leaser()
		defer from.Close()
		x := l.acquire(from, time.Second, tenure.Claim{Name: "x", TTL: 3 * time.Second})
		k := l.peers[0].talk("client")
		now := func() int64 { return int64(l.peers[0].mono.Now()) }
		k.say(`{"op":"hello","version":2}`)
		k.say(`{"op":"acquire","id":1,"at":%d,"name":"mine","ttl_ms":3000}`, now())
		if _, ok := k.hear("acquired", time.Second); !ok {
			t.Fatal("not acquired")
		}
		for id := range connectionRoom {
			k.say(`{"op":"acquire","id":%d,"at":%d,"name":"x","ttl_ms":3000}`, 2+id, now())
		}
		if e, ok := k.hear("refused", time.Second); !ok || e.Reason != "busy" {
			t.Errorf("a client that asks for one claim too many is answered %+v", e)
		}
		for id := range connectionRoom + 1 {
			k.say(`{"op":"await","id":%d,"name":"x","tokens":["%d"]}`, 2+connectionRoom+id, x.Token())
		}
		if e, ok := k.hear("observed", time.Second); !ok || e.Reason != "busy" {
			t.Errorf("a client that looks once too often is answered %+v", e)
		}
		k.say(`{"op":"alive","at":%d,"ids":[1]}`, now())
		if e, ok := k.hear("renewed", time.Second); !ok {
			t.Errorf("it asks for one claim too many, and loses what it held before: %+v", e)
		}
	})
}

// TestManyAwait: callers beyond the room of a connection wait like the others.
func TestManyAwait(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		c := l.peers[0].client("c")
		defer c.Close()
		l.acquire(c, time.Second, tenure.Claim{Name: "x", TTL: 3 * time.Second})
		seen, err := c.Observe(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		errs := make(chan error, 2*connectionRoom)
		for range connectionRoom + 20 {
			all.Go(func() {
				_, err := c.Await(ctx, seen)
				errs <- err
			})
		}
		time.Sleep(time.Second)
		cancel()
		all.Wait()
		close(errs)
		for err := range errs {
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("a waiter among many hears %v", err)
			}
		}
	})
}
