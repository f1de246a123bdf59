package redis

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"

	"github.com/tenure-lease/tenure/internal/host/register/registertest"
)

// Missing is where each store is, and why it is missing.
func (l *Leaser) Missing() (addrs []string, absent []error) {
	for _, p := range l.places {
		addrs, absent = append(addrs, p.Name), append(absent, p.Err)
	}
	return addrs, absent
}

// Host is a stand-in for Redis. It answers INFO itself, where miniredis would read a field that its
// Close writes.
func Host(t testing.TB) *miniredis.Miniredis {
	h := miniredis.RunT(t)
	h.Server().SetPreHook(func(c *miniserver.Peer, cmd string, _ ...string) bool {
		if !strings.EqualFold(cmd, "INFO") {
			return false
		}
		c.WriteBulk("# Clients\r\nconnected_clients:1\r\n")
		return true
	})
	t.Cleanup(func() { // after all that connect
		if h.Server() != nil {
			registertest.LetsGo(t, h.CurrentConnectionCount)
		}
	})
	return h
}
