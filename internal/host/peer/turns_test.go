package peer

import (
	"sync"
	"testing"
	"time"
)

// A test waits for turns of a machine, and not for seconds: a busy machine stretches each turn, and so
// the patience. On an idle one it ends after eight seconds, which is before a test is stopped from
// outside. So a rule that is broken is named by the test.
const (
	turns   = 800
	oneTurn = 10 * time.Millisecond
)

// inVain is closed when a test has waited in vain, or has stopped to wait.
func inVain(t testing.TB) (late <-chan struct{}, stop func()) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	stop = sync.OnceFunc(func() { close(stopped) })
	t.Cleanup(stop)
	go func() {
		defer close(ended)
		for range turns {
			select {
			case <-time.After(oneTurn):
			case <-stopped:
				return
			}
		}
	}()
	return ended, stop
}
