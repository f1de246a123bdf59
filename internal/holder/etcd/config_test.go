package etcd

import (
	"crypto/tls"
	"slices"
	"testing"
	"time"
)

// TestClientOfAConfig: the client has all that the Config says. It finds out that a connection
// goes nowhere within the eight seconds that are promised, and asks no more often than a stock
// etcd allows.
func TestClientOfAConfig(t *testing.T) {
	cfg := Config{Endpoints: []string{"a:1", "b:2"}, TLS: &tls.Config{ServerName: "a"}}
	c := cfg.client()
	if !slices.Equal(c.Endpoints, cfg.Endpoints) || c.TLS != cfg.TLS {
		t.Errorf("the client has endpoints %q and TLS %v, want %q and %v", c.Endpoints, c.TLS, cfg.Endpoints, cfg.TLS)
	}
	if c.DialKeepAliveTime < 5*time.Second || c.DialKeepAliveTimeout <= 0 || c.DialKeepAliveTime+c.DialKeepAliveTimeout > 8*time.Second {
		t.Errorf("the client asks after %v of silence, and waits %v for an answer; want five seconds at least, and eight for both",
			c.DialKeepAliveTime, c.DialKeepAliveTimeout)
	}
}
