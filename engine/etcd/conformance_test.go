package etcd_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/etcd"
	"github.com/tenure-lease/tenure/leasetest"
)

// endpoint is the server that the tests use: one that is given by the
// environment, for instance an etcd, or else a Tenure server in this process.
func endpoint(t testing.TB) string {
	if given := os.Getenv("TENURE_TEST_ENDPOINT"); given != "" {
		return strings.TrimPrefix(given, "etcd://")
	}
	t.Skip("TENURE_TEST_ENDPOINT names no server")
	return ""
}

func open(t testing.TB, endpoint string) *etcd.Leaser {
	l, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestConformance(t *testing.T) {
	server := endpoint(t)
	leasetest.Run(t, func(t testing.TB) leasetest.Fixture { return fixture(t, server) })
}

// fixture puts a proxy in front of each Leaser.
func fixture(t testing.TB, server string) leasetest.Fixture {
	var mu sync.Mutex
	proxies := map[tenure.Leaser]*proxy{}
	of := func(l tenure.Leaser) *proxy {
		mu.Lock()
		defer mu.Unlock()
		return proxies[l]
	}
	return leasetest.Fixture{
		Open: func() (tenure.Leaser, error) {
			p := newProxy(t, server)
			l, err := etcd.Open(context.Background(), etcd.Config{Endpoints: []string{p.addr()}})
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			proxies[l] = p
			return l, nil
		},
		TTL:  2 * time.Second, // the least that a stock etcd at default settings grants
		Cut:  func(l tenure.Leaser) { of(l).set(true, 0) },
		Heal: func(l tenure.Leaser) { of(l).set(false, 0) },
		Lag:  func(l tenure.Leaser, d time.Duration) { of(l).set(false, d) },
	}
}
