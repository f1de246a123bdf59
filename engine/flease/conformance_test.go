package flease_test

import (
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/engine/flease"
	"github.com/tenure-lease/tenure/leasetest"
)

// ttl is short, and long enough for a very busy machine to renew in time.
const ttl = 1500 * time.Millisecond

// patient are terms that have room for the suite's longest lock delays.
var patient = engine.Config{TMax: 102 * ttl, Epsilon: 20 * time.Millisecond, RoundTimeout: ttl / 8}

// TestConformance has every Leaser with a peer of its own, and one cell of them all, so
// that it goes on while some are cut off.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	leasetest.Run(t, func(t testing.TB) leasetest.Fixture {
		cfg := patient
		cfg.Replicas = 7
		c := newCluster(t, 7, cfg)
		c.ready()
		var mu sync.Mutex
		next, taps := 0, map[tenure.Leaser]*tap{}
		of := func(l tenure.Leaser) *tap {
			mu.Lock()
			defer mu.Unlock()
			return taps[l]
		}
		return leasetest.Fixture{
			TTL: ttl,
			Open: func() (tenure.Leaser, error) {
				mu.Lock()
				defer mu.Unlock()
				i := next % len(c.peers)
				next++
				l := c.peers[i].Leaser()
				taps[l] = c.taps[i]
				return l, nil
			},
			Cut:  func(l tenure.Leaser) { of(l).set(true, 0) },
			Heal: func(l tenure.Leaser) { of(l).set(false, 0) },
			// An answer takes two rounds: READ and WRITE.
			Lag: func(l tenure.Leaser, d time.Duration) { of(l).set(false, d/2) },
		}
	})
}

// TestConformanceOfClients has every Leaser behind a socket of one of three peers, which
// are restarted with what they leave behind.
func TestConformanceOfClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	leasetest.Run(t, func(t testing.TB) leasetest.Fixture {
		cfg := patient
		cfg.State = t.TempDir()
		c := newCluster(t, 3, cfg)
		c.ready()
		sockets := make([]*socket, len(c.peers))
		for i := range sockets {
			sockets[i] = c.socket(i)
		}
		var mu sync.Mutex
		next, proxies := 0, map[tenure.Leaser]*proxy{}
		of := func(l tenure.Leaser) *proxy {
			mu.Lock()
			defer mu.Unlock()
			return proxies[l]
		}
		return leasetest.Fixture{
			TTL: ttl,
			Open: func() (tenure.Leaser, error) {
				mu.Lock()
				defer mu.Unlock()
				p := newProxy(t, sockets[next%len(sockets)].path)
				next++
				l, err := engine.Dial(t.Context(), p.path)
				if err != nil {
					return nil, err
				}
				proxies[l] = p
				return l, nil
			},
			Cut:  func(l tenure.Leaser) { of(l).set(true, 0) },
			Heal: func(l tenure.Leaser) { of(l).set(false, 0) },
			Lag:  func(l tenure.Leaser, d time.Duration) { of(l).set(false, d) },
			Restart: func() error {
				for _, s := range sockets {
					s.close()
				}
				c.restart()
				c.ready()
				for i := range sockets {
					sockets[i] = c.socket(i)
				}
				return nil
			},
		}
	})
}
