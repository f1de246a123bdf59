package broadcast

import (
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// The protocol gets each figure of a Config, or its default, and the figures that follow from
// it.
func TestConfigOfTheProtocol(t *testing.T) {
	members := map[machine.NodeID]string{3: "c:1", 1: "a:1", 2: "b:1"}
	usual := func() abcast.Config {
		return abcast.Config{
			Consensus: fastct.Config{
				ID: 2, Members: []machine.NodeID{1, 2, 3}, Spread: true, Lambda: 1000, Prefetch: true,
				Retry: 250 * time.Millisecond, Heartbeat: 200 * time.Millisecond, Timeout: time.Second,
			},
			Addresses: members, Life: 9, BatchCount: 1000, BatchBytes: 1 << 20, PendingCount: 1 << 16, PendingBytes: 16 << 20,
			Pipeline: 4, Relay: time.Second, Direct: true, Clients: 100_000,
		}
	}
	for what, tt := range map[string]struct {
		change func(*Config)
		want   func(*abcast.Config)
	}{
		"defaults": {func(*Config) {}, func(*abcast.Config) {}},
		"Join":     {func(c *Config) { c.Join = true }, func(c *abcast.Config) { c.Join = true }},
		"Algorithm": {func(c *Config) {
			c.Algorithm = func(a *abcast.Config) { a.Consensus.Lambda, a.Pipeline, a.Direct = 5, 7, false }
		}, func(c *abcast.Config) { c.Consensus.Lambda, c.Pipeline, c.Direct = 5, 7, false }},
		"Timeout": {func(c *Config) { c.Timeout = 20 * time.Second }, func(c *abcast.Config) {
			c.Consensus.Retry, c.Consensus.Heartbeat, c.Consensus.Timeout, c.Relay = 5*time.Second, 4*time.Second, 20*time.Second, 20*time.Second
		}},
		"PendingBytes":                        {func(c *Config) { c.PendingBytes = 3 << 20 }, func(c *abcast.Config) { c.PendingBytes = 3 << 20 }},
		"PendingBytes of less than one batch": {func(c *Config) { c.PendingBytes = 1 }, func(c *abcast.Config) { c.PendingBytes = 1 << 20 }},
		"Clients":                             {func(c *Config) { c.Clients = 12 }, func(c *abcast.Config) { c.Clients = 12 }},
	} {
		cfg, want := Config{ID: 2, Group: 7, Members: members}, usual()
		tt.change(&cfg)
		tt.want(&want)
		if got := cfg.machine(9); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the protocol gets\n%+v, want\n%+v", what, got, want)
		}
	}
}

// How much is kept in memory has a default, and how many others have to note a new directory
// follows from the members.
func TestFiguresOfAConfig(t *testing.T) {
	if got := (Config{}).memoryBytes(); got != 32<<20 {
		t.Errorf("without MemoryBytes %d are kept in memory, want 32 MiB", got)
	}
	if got := (Config{MemoryBytes: 5}).memoryBytes(); got != 5 {
		t.Errorf("with MemoryBytes 5 %d are kept in memory", got)
	}
	group := func(n int) map[machine.NodeID]string {
		m := map[machine.NodeID]string{}
		for id := range n {
			m[machine.NodeID(id+1)] = "a:1"
		}
		return m
	}
	for _, tt := range []struct {
		id   machine.NodeID
		of   int
		join bool
		want int
	}{
		{1, 1, false, 0}, {1, 2, false, 1}, {1, 3, false, 2}, {1, 4, false, 2}, {1, 5, false, 3}, {1, 0, false, 0},
		{9, 0, true, 0}, {9, 1, true, 1}, {9, 4, true, 1}, {1, 4, true, 1}, {9, 3, false, 2},
	} {
		if got := (Config{ID: tt.id, Members: group(tt.of), Join: tt.join}).needed(); got != tt.want {
			t.Errorf("member %d, with %d in Members and Join %v: %d have to note its directory, want %d", tt.id, tt.of, tt.join, got, tt.want)
		}
	}
}

// 0 is nobody's ID and no group's number.
func TestNobodyIsNoMember(t *testing.T) {
	for name, c := range map[string]Config{"ID": {Group: 7, Dir: "/data"}, "Group": {ID: 1, Dir: "/data"}} {
		if err := c.validate(); err == nil {
			t.Errorf("%s 0 is taken for a number", name)
		}
	}
}

// Each figure of a Config has bounds, which it may reach.
func TestBoundsOfAConfig(t *testing.T) {
	for _, tt := range []struct {
		what  string
		cfg   Config
		valid bool
	}{
		{"the longest Timeout", Config{Timeout: 24 * time.Hour}, true},
		{"a longer Timeout", Config{Timeout: 24*time.Hour + 1}, false},
		{"as many Clients as can be", Config{Clients: 1_000_000}, true},
		{"more Clients", Config{Clients: 1_000_001}, false},
		{"the least of all", Config{Timeout: 1, PendingBytes: 1, MemoryBytes: 1, Clients: 1}, true},
	} {
		tt.cfg.ID, tt.cfg.Group, tt.cfg.Dir = 1, 7, "/data"
		if err := tt.cfg.validate(); (err == nil) != tt.valid {
			t.Errorf("%s: got %v, want it to be taken: %v", tt.what, err, tt.valid)
		}
	}
}

// Members of releases that speak the same protocol are of one group: its number changes with wireVersion only.
func TestNumberOfAGroup(t *testing.T) {
	const want = uint64(0xa5d04b77e8bae337)
	if got := (Config{ID: 1, Group: 7, Clients: 9}).cluster(); got != want {
		t.Errorf("group 7 of 9 clients has number %#x, want %#x: members of an earlier release would be refused", got, want)
	}
}
