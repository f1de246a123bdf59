package flease_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/leasetest"
)

// ttl is the suite's TTL, in simulated time.
const ttl = 1500 * time.Millisecond

// patient are terms that have room for the suite's longest lock delays.
var patient = engine.Config{TMax: 102 * ttl, Epsilon: 20 * time.Millisecond, RoundTimeout: ttl / 8}

// TestConformance gives every Leaser a peer of its own. All peers are one cell, so that it goes on
// while some are cut off.
func TestConformance(t *testing.T) {
	leasetest.Each(t, func(t *testing.T, run func(testing.TB, leasetest.Fixture)) {
		cfg := patient
		cfg.Replicas = 7
		inLab(t, 7, cfg, func(l *lab) {
			hosts := l.lines()
			var next atomic.Int64
			l.conform(run, leasetest.Fixture{
				TTL: ttl,
				Open: func() (tenure.Leaser, error) {
					h := l.peers[int(next.Add(1))%len(l.peers)]
					leaser := h.Leaser()
					hosts.add(leaser, fmt.Sprintf("h%d", h.id))
					return leaser, nil
				},
				Cut:  hosts.cut,
				Heal: hosts.heal,
				// An answer takes two rounds: READ and WRITE.
				Lag: func(x tenure.Leaser, d time.Duration) { hosts.lag(x, d/2) },
			})
		})
	})
}

// TestConformanceOfClients has every Leaser in a process beside one of three peers. The peers are
// restarted with their saved state.
func TestConformanceOfClients(t *testing.T) {
	leasetest.Each(t, func(t *testing.T, run func(testing.TB, leasetest.Fixture)) {
		cfg := patient
		cfg.State = "state"
		inLab(t, 3, cfg, func(l *lab) {
			hosts := l.lines()
			var next atomic.Int64
			l.conform(run, leasetest.Fixture{
				TTL: ttl,
				Open: func() (tenure.Leaser, error) {
					i := int(next.Add(1))
					name, h := fmt.Sprintf("c%d", i), l.peers[i%len(l.peers)]
					c, err := engine.Connect(context.Background(), engine.ClientConfig{
						Socket: fmt.Sprintf("h%d:1", h.id), Dial: l.net.Dialer(l.w.Start(name)), Clock: h.mono,
					})
					if err != nil {
						return nil, err
					}
					hosts.add(c, name)
					return c, nil
				},
				Cut:  hosts.cut,
				Heal: hosts.heal,
				Lag:  hosts.lag,
				Restart: func() error {
					for _, h := range l.peers {
						if err := h.close(); err != nil {
							return err
						}
					}
					for _, h := range l.peers {
						if err := h.try(h.config()); err != nil {
							return err
						}
					}
					return nil
				},
			})
		})
	})
}

// conform runs a case, and closes the Leasers before the peers.
func (l *lab) conform(run func(testing.TB, leasetest.Fixture), f leasetest.Fixture) {
	b := &labBench{TB: l.t}
	defer func() {
		for _, end := range slices.Backward(b.cleanups) {
			end()
		}
	}()
	run(b, f)
}

// labBench is a test that cleans up when the case is over.
type labBench struct {
	testing.TB
	mu       sync.Mutex
	cleanups []func()
}

func (b *labBench) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

// lines are the connections from Leasers to the others.
type lines struct {
	lab   *lab
	mu    sync.Mutex // is not held while the network is called, which calls us
	hosts map[tenure.Leaser]string
	cuts  map[string]func()
	delay map[string]time.Duration // of messages to the host
}

func (l *lab) lines() *lines {
	n := &lines{lab: l, hosts: map[tenure.Leaser]string{}, cuts: map[string]func(){}, delay: map[string]time.Duration{}}
	l.net.Far(func(_, to string) time.Duration {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.delay[to]
	})
	return n
}

// add adds a Leaser's host.
func (n *lines) add(l tenure.Leaser, host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[l] = host
}

// set changes a Leaser's line, and returns its host and the function that ends the cut.
func (n *lines) set(l tenure.Leaser, delay time.Duration) (host string, heal func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	host = n.hosts[l]
	n.delay[host] = delay
	heal = n.cuts[host]
	delete(n.cuts, host)
	return host, heal
}

func (n *lines) cut(l tenure.Leaser) {
	n.heal(l)
	host, _ := n.set(l, 0)
	heal := n.lab.net.Isolate(host, time.Hour)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[host] = heal
}

func (n *lines) heal(l tenure.Leaser) {
	if _, heal := n.set(l, 0); heal != nil {
		heal()
	}
}

func (n *lines) lag(l tenure.Leaser, d time.Duration) {
	if _, heal := n.set(l, d); heal != nil {
		heal()
	}
}
