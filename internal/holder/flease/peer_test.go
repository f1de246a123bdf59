package flease_test

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

// brief are terms for tests: short leases, and one clock for all peers.
var brief = engine.Config{TMax: 4 * time.Second, Epsilon: 20 * time.Millisecond, RoundTimeout: 200 * time.Millisecond}

func TestThreePeers(t *testing.T) {
	c := newCluster(t, 3, brief)
	c.ready()
	l := c.peers[0].Leaser()
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(lease.Token(), time.Until(lease.Deadline()))
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
