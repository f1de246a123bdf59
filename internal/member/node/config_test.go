package node

import (
	"github.com/tenure-lease/tenure/internal/host/wal"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// An invalid configuration is refused before anything is opened, and the error names the fault.
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

// Unset fields of a configuration have the defaults of their comments.
func TestConfigDefaults(t *testing.T) {
	type defaults struct {
		heartbeat, election, request time.Duration
		pending, leases              int64
		policy                       string
		ttl                          time.Duration
	}
	for _, tt := range []struct {
		name string
		set  func(*Config)
		want defaults
	}{
		{"nothing is set", func(*Config) {}, defaults{100 * time.Millisecond, time.Second, 7 * time.Second, 64 << 20, 5_000_000, "leader", 200 * time.Millisecond}},
		{"the election timeout is set", func(c *Config) { c.ElectionTimeout = 3 * time.Second },
			defaults{100 * time.Millisecond, 3 * time.Second, 11 * time.Second, 64 << 20, 5_000_000, "leader", 200 * time.Millisecond}},
		{"all is set", func(c *Config) {
			c.HeartbeatInterval, c.ElectionTimeout, c.RequestTimeout = 1*time.Second, 9*time.Second, 2*time.Second
			c.MaxPendingBytes, c.MaxLeases, c.ReadLease, c.ReadLeaseTTL = 3, 4, "off", 5*time.Second
		}, defaults{time.Second, 9 * time.Second, 2 * time.Second, 3, 4, "off", 5 * time.Second}},
	} {
		c := Config{Name: "a", DataDir: "/data", Peers: map[string]string{"a": "http://127.0.0.1:1"}}
		tt.set(&c)
		if err := c.setDefaults(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		got := defaults{c.HeartbeatInterval, c.ElectionTimeout, c.RequestTimeout, c.MaxPendingBytes, c.MaxLeases, c.ReadLease, c.ReadLeaseTTL}
		if got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
		if c.Logger != slog.Default() || c.WAL.FS != (wal.OS{}) || c.Now == nil || c.Look == nil || c.mono == nil {
			t.Errorf("%s: the logger, the file system or the clocks are not the host's", tt.name)
		}
		func() {
			defer func() {
				if r := recover(); r != errDisk {
					t.Errorf("%s: a member that cannot go on, and whose owner has not said what to do, panics with %v, want %v", tt.name, r, errDisk)
				}
			}()
			c.Fail(errDisk)
		}()
	}
	// One that reads clocks of its own is not judged by the host's, and goes by them everywhere.
	c := Config{Name: "a", DataDir: "/data", Peers: map[string]string{"a": "http://127.0.0.1:1"}, Now: stoppedClock()}
	if err := c.setDefaults(); err != nil || c.Look != nil || c.mono() != 1 {
		t.Errorf("with a clock of its own: %v, judged by another: %v, reads show %v", err, c.Look != nil, c.mono())
	}
	for timeout, want := range map[time.Duration]int64{time.Second: 2, 600 * time.Millisecond: 1, 700 * time.Millisecond: 2, 50 * time.Second: 75} {
		if got := (&Config{ElectionTimeout: timeout}).minTTL(); got != want {
			t.Errorf("with an election timeout of %v the shortest lease is %d s, want %d s: one and a half, rounded up", timeout, got, want)
		}
	}
}
