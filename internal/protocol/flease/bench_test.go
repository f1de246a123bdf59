package flease

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// BenchmarkRenew is a renewal among three peers of one process, all that they do for it
// included but sockets: two rounds, encoded and decoded. 300,000 leases are held.
func BenchmarkRenew(b *testing.B) {
	const leases = 90_000
	c := newCluster(b, 3, func(cfg *Config) { cfg.TMax = 30 * time.Second })
	before := heap()
	for i := 0; i < leases; {
		for range 100 {
			for id := range machine.NodeID(3) {
				c.peers[id+1].Step(c.now, Acquire{ID: uint64(i), Name: fmt.Sprintf("resource/%d", i), Holder: "host:1234"})
				i++
			}
		}
		for id := range machine.NodeID(3) {
			c.ready(id+1, c.peers[id+1].Ready())
		}
		c.settle()
		c.pass(10 * time.Millisecond)
	}
	c.out = map[machine.NodeID][]Report{}
	c.pass(40 * time.Second)
	held := 0
	for _, p := range c.peers {
		held += p.Stats().Held
	}
	c.out = map[machine.NodeID][]Report{}
	b.ReportMetric(float64(heap()-before)/leases, "B/lease")
	if held != leases {
		b.Fatalf("%d leases are held", held)
	}
	c.ops = map[Kind]int{}
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for n < b.N {
		c.out = map[machine.NodeID][]Report{}
		c.pass(100 * time.Millisecond)
		for _, out := range c.out {
			n += len(out)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/renewal")
}

// heap is what is in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
