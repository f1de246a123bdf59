package engine

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
)

// TestOpenEndsWithItsContext: an Open whose caller has gone is told so by each engine, and not that
// a server is silent.
func TestOpenEndsWithItsContext(t *testing.T) {
	silent := func(network, at string) string {
		l, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l.Addr().String()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, url := range []string{
		"etcd://" + silent("tcp", "127.0.0.1:0"), "redis://" + silent("tcp", "127.0.0.1:0"),
		"flease://" + silent("unix", filepath.Join(t.TempDir(), "s")),
	} {
		l, err := Open(ctx, url)
		if err == nil {
			l.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the caller of Open has gone, and %s answers %v, want %v", url, err, context.Canceled)
		}
	}
}
