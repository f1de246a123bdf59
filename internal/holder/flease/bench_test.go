package flease_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

// BenchmarkAcquireRelease has callers of one of three peers take and release leases.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, callers := range []int{1, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := newCluster(b, 3, engine.Config{TMax: 30 * time.Second, Epsilon: 100 * time.Millisecond})
			c.ready()
			l := c.peers[0].Leaser()
			defer l.Close()
			var n atomic.Int64
			b.SetParallelism(callers)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					lease, err := l.Acquire(b.Context(), tenure.Claim{Name: fmt.Sprint(n.Add(1))})
					if err != nil {
						b.Error(err)
						return
					}
					if err := lease.Release(b.Context()); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
