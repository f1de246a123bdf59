package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
	"github.com/tenure-lease/tenure/internal/host/register/registertest"
	"github.com/tenure-lease/tenure/internal/machine"
)

func TestConformance(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			registertest.Run(t, func(t *testing.T) registertest.Fixture { return servers(t, n) })
		})
	}
}

// host is a stand-in for Redis. It answers INFO itself, where miniredis would read a field that its
// Close writes.
func host(t testing.TB) *miniredis.Miniredis {
	h := miniredis.RunT(t)
	h.Server().SetPreHook(func(c *miniserver.Peer, cmd string, _ ...string) bool {
		if !strings.EqualFold(cmd, "INFO") {
			return false
		}
		c.WriteBulk("# Clients\r\nconnected_clients:1\r\n")
		return true
	})
	return h
}

// servers is a set of n, each on a server of its own.
func servers(t *testing.T, n int) registertest.Fixture {
	var hosts []*miniredis.Miniredis
	for i := range n {
		h := host(t)
		hosts = append(hosts, h)
		err := redis.Init(t.Context(), redis.Options{Addr: h.Addr()}, register.Header{
			Set: machine.ID{7}, Of: n, Index: i, Term: 30 * time.Second, Delay: 50 * time.Millisecond, Drift: 200,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return registertest.Fixture{
		Open: func() (stores []register.Store, err error) {
			for _, h := range hosts {
				s, err := redis.Open(context.Background(), redis.Options{Addr: h.Addr()})
				if err != nil {
					return nil, err
				}
				stores = append(stores, s)
			}
			return stores, nil
		},
		Backup: func(i int) func() { return backup(hosts[i]) },
	}
}

// backup copies all keys. An operator must not put them back, and this test does.
func backup(h *miniredis.Miniredis) (restore func()) {
	type pairs map[string]string
	hashes := map[string]pairs{}
	var names map[string]float64
	for _, key := range h.Keys() {
		if strings.HasSuffix(key, ":names") {
			names, _ = h.SortedSet(key)
			continue
		}
		hash := pairs{}
		fields, _ := h.HKeys(key)
		for _, f := range fields {
			hash[f] = h.HGet(key, f)
		}
		hashes[key] = hash
	}
	return func() {
		h.FlushAll()
		for key, hash := range hashes {
			for f, v := range hash {
				h.HSet(key, f, v)
			}
		}
		for name, score := range names {
			_, _ = h.ZAdd("{tenure}:names", score, name)
		}
	}
}
