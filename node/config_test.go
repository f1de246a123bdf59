package node

import (
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/quorumlease"
)

// A configuration that cannot be is refused before anything is opened, and the refusal names what
// is wrong with it.
func TestConfigsThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		says string
		edit func(*Config)
	}{
		{"DataDir is empty", func(c *Config) { c.DataDir = "" }},
		{"not among the initial cluster's", func(c *Config) { c.Name = "another" }},
		{"ReadLease", func(c *Config) { c.ReadLease = "nonsense" }},
		{"a read lease of", func(c *Config) { c.ReadLeaseTTL = quorumlease.MinTTL - 1 }},
		{"a read lease of", func(c *Config) { c.ReadLeaseTTL = quorumlease.MaxTTL + 1 }},
		{"too short for heartbeats", func(c *Config) { c.HeartbeatInterval, c.ElectionTimeout = time.Second, 5*time.Second-1 }},
		{"50 s at most", func(c *Config) { c.ElectionTimeout = 50*time.Second + 1 }},
		{"PeerListener is nil", func(c *Config) { c.Peers["another"] = "http://127.0.0.1:1"; c.PeerListener = nil }},
	} {
		cfg := single(t, t.TempDir())
		tt.edit(&cfg)
		n, err := Start(cfg)
		if err == nil {
			n.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Start: %v, want it refused with %q", err, tt.says)
		}
	}
	for _, edit := range []func(*Config){
		func(c *Config) { c.ReadLeaseTTL = quorumlease.MinTTL },
		func(c *Config) { c.ReadLeaseTTL = quorumlease.MaxTTL },
		func(c *Config) { c.HeartbeatInterval, c.ElectionTimeout = 10*time.Second, 50*time.Second },
	} {
		cfg := single(t, t.TempDir())
		edit(&cfg)
		if err := cfg.setDefaults(); err != nil {
			t.Errorf("%v, want it taken", err)
		}
	}
}
