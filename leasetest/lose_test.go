package leasetest

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// A lock delay counts from the loss, which is at the deadline at the latest: a holder whose Done is
// closed late, on a busy machine, has not been lost later. One that is told before its deadline is
// lost then.
func TestALossIsAtTheDeadline(t *testing.T) {
	for done, want := range map[time.Duration]time.Duration{
		brokenTTL + 80*time.Millisecond: brokenTTL,
		brokenTTL:                       brokenTTL,
		brokenTTL / 2:                   brokenTTL / 2,
	} {
		bubble.Test(t, func(t *testing.T) {
			began := time.Now()
			found := benched(t, Fixture{TTL: brokenTTL, Cut: func(tenure.Leaser) {}}, func(b *bench) {
				lease := &said{deadline: began.Add(brokenTTL), done: make(chan struct{})}
				time.AfterFunc(done, func() { close(lease.done) })
				if lost := b.lose(nil, lease); lost.Sub(began) != want {
					t.Errorf("Done is closed after %v with a deadline after %v: lost after %v, want %v", done, brokenTTL, lost.Sub(began), want)
				}
			})
			if len(found) > 0 {
				t.Errorf("the suite complains: %q", found)
			}
		})
	}
}
