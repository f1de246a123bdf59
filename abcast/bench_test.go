package abcast_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/abcast"
)

// BenchmarkTrim orders 100 messages and trims, as package broadcast does, with so many
// clients that are remembered. longest-ms is the longest that a Trim has taken, with all that
// a new log begins with: once in so many messages as that has bytes.
func BenchmarkTrim(b *testing.B) {
	for _, clients := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			cfg := config()
			cfg.Clients, cfg.BatchCount, cfg.BatchBytes, cfg.PendingCount, cfg.PendingBytes = clients, 1000, 1<<20, 1<<16, 1<<24
			m, err := abcast.New(cfg, nil)
			if err != nil {
				b.Fatal(err)
			}
			a := &alone{m: m}
			seqs := make([]uint64, clients)
			next := 0
			broadcasts := func(n int) {
				for range n {
					k := next * 7919 % clients
					next++
					seqs[k]++
					a.step(abcast.Broadcast{Message: abcast.Message{Client: abcast.NewClient(0, uint64(k)), Seq: seqs[k], Payload: make([]byte, 100)}})
					a.log, a.delivered = nil, nil
				}
			}
			broadcasts(clients)
			a.step(abcast.Trim{Position: m.Position()})
			var longest time.Duration
			for b.Loop() {
				broadcasts(100)
				before := time.Now()
				if t := (abcast.Trim{Position: m.Position()}); m.Worthwhile(t) {
					a.step(t)
					m.Records()
				}
				longest = max(longest, time.Since(before))
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
		})
	}
}
