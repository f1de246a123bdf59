package etcd_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/leasetest"
)

// endpoint returns the address of a server: the one that the environment
// gives, for instance a stock etcd's, or else a Tenure server in this process.
func endpoint(t testing.TB) string {
	if given := os.Getenv("TENURE_TEST_ENDPOINT"); given != "" {
		return strings.TrimPrefix(given, "etcd://")
	}
	return startServer(t).addr
}

func open(t testing.TB, endpoint string) *etcd.Leaser {
	l, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// ttl is more than the least that a stock etcd and Tenure grant, which is 2 s: test
// machines may stand still for longer.
const ttl = 3 * time.Second

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute; leasetest runs the same suite over memory")
	}
	leasetest.Run(t, func(t testing.TB) leasetest.Fixture {
		if os.Getenv("TENURE_TEST_ENDPOINT") != "" {
			return fixture(t, endpoint(t))
		}
		s := startServer(t)
		f := fixture(t, s.addr)
		f.Restart = s.restart
		return f
	})
}

// fixture puts a proxy in front of each Leaser.
func fixture(t testing.TB, server string) leasetest.Fixture {
	var mu sync.Mutex
	proxies, clocks := map[tenure.Leaser]*proxy{}, map[tenure.Leaser]*clock.Simulated{}
	of := func(l tenure.Leaser) *proxy {
		mu.Lock()
		defer mu.Unlock()
		return proxies[l]
	}
	return leasetest.Fixture{
		TTL: ttl,
		Open: func() (tenure.Leaser, error) {
			p := newProxy(t, server)
			c := clock.NewSimulated(1)
			l, err := etcd.Open(context.Background(), etcd.Config{Endpoints: []string{p.addr()}, Clock: c})
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			proxies[l], clocks[l] = p, c
			return l, nil
		},
		Cut:  func(l tenure.Leaser) { of(l).set(true, 0) },
		Heal: func(l tenure.Leaser) { of(l).set(false, 0) },
		Lag:  func(l tenure.Leaser, d time.Duration) { of(l).set(false, d) },
		Suspend: func(l tenure.Leaser, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			clocks[l].Jump(d)
		},
	}
}
