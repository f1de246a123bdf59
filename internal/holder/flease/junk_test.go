package flease_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// TestJunk: a message that makes no sense is dropped and reported.
func TestJunk(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, brief)
	c.ready()
	l := c.peers[0].Leaser()
	defer l.Close()
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	good, err := (&flease.Batch{Epoch: 1, Ops: []flease.Op{{Kind: flease.Read, Ref: 1, Ballot: 1, Name: "x"}}}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		junk := append([]byte(nil), good...)
		for range 1 + random.IntN(4) {
			junk[random.IntN(len(junk))] = byte(random.Uint32())
		}
		c.peers[0].Deliver(2, [][]byte{junk[:random.IntN(len(junk)+1)], good, good})
	}
	c.peers[0].Deliver(2, [][]byte{{0xff}})
	if s := c.peers[0].Status(); !strings.Contains(s.Peers[1].Error, "messages that this one does not understand") {
		t.Errorf("nobody is told: %+v", s.Peers[1])
	}
	if err := lease.Check(); err != nil {
		t.Errorf("the lease: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	again, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Check(); err != nil {
		t.Error(err)
	}
}
