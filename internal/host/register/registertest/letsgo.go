package registertest

import (
	"testing"
	"time"
)

// LetsGo fails a test if connections to a server are left when all its clients have ended. A server
// hears of that a little later.
func LetsGo(t testing.TB, connections func() int) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for began := time.Now(); connections() > 0; <-again.C {
		if time.Since(began) > 30*time.Second {
			t.Errorf("%d connections are left open", connections())
			return
		}
	}
}
