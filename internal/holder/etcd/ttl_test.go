package etcd

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
)

// A server that grants another TTL than was asked for, such as its own minimum, is not believed: the claim
// is refused, and leaves nothing behind.
func TestAnotherTTLIsRefused(t *testing.T) {
	c := &scripted{grant: func() error { return nil }, longer: 2}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		_, err := l.Acquire(t.Context(), tenure.Claim{Name: "n", TTL: 3 * time.Second, LockDelay: time.Second})
		if !errors.Is(err, tenure.ErrClaim) || !strings.Contains(err.Error(), "does not grant a TTL of 3s, but one of 5s") {
			t.Errorf("granted two seconds more than asked for: %v, want %v that says so", err, tenure.ErrClaim)
		}
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.revoked) != 1 {
			t.Errorf("the lease that is not wanted is revoked %d times, want once", len(c.revoked))
		}
	})
}
