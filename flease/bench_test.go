package flease

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/machine"
)

// BenchmarkRenew is a renewal among three peers of one process, all that they do for it
// included but sockets: two rounds, encoded and decoded.
func BenchmarkRenew(b *testing.B) {
	c := newCluster(b, 3, func(cfg *Config) { cfg.TMax = 30 * time.Second })
	for i := range 100000 {
		c.do(machine.NodeID(i%3+1), Acquire{ID: uint64(i), Name: fmt.Sprintf("resource/%d", i), Holder: "host:1234"})
		if i%1000 == 0 {
			c.pass(10 * time.Millisecond)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for n < b.N {
		c.out = map[machine.NodeID][]any{}
		c.pass(10 * time.Millisecond)
		for _, out := range c.out {
			n += len(out)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/renewal")
}
