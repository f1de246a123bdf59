package peer

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// BenchmarkMessages sends messages of 256 bytes over the loopback, n in flight at
// a time, and reports how many a frame held.
func BenchmarkMessages(b *testing.B) {
	for _, n := range []int{1, 16, 256, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tokens := make(chan struct{}, n)
			var received atomic.Int64
			c := newCluster(b, 2, defaultTiming, func(id machine.NodeID, c *Config) {
				c.Deliver = func(_ machine.NodeID, msgs [][]byte) {
					received.Add(int64(len(msgs)))
					for range msgs {
						<-tokens
					}
				}
			})
			msg := make([]byte, 256)
			before := c[0].Stats(2)
			sent := int64(0)
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			for b.Loop() {
				tokens <- struct{}{}
				c[0].Send(2, msg)
				sent++
			}
			for received.Load() < sent {
				time.Sleep(time.Microsecond)
			}
			s := c[0].Stats(2)
			b.ReportMetric(float64(s.MessagesSent-before.MessagesSent)/float64(s.FramesSent-before.FramesSent), "msgs/frame")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}
