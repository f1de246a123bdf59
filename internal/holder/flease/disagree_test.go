package flease_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestDisagreement: peers with different configurations do not work together, and their errors name
// the change.
func TestDisagreement(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*engine.Config)
		want string
	}{
		"t_max":   {func(c *engine.Config) { c.TMax = 5 * time.Second }, "t_max is 4s here and 5s there"},
		"epsilon": {func(c *engine.Config) { c.Epsilon = 30 * time.Millisecond }, "ε is 20ms here and 30ms there"},
		"cells":   {func(c *engine.Config) { c.Replicas = 1 }, "the size of cells is 0 here and 1 there"},
		"cluster": {func(c *engine.Config) { c.Cluster = "other" }, `is of cluster "other", this one of ""`},
		"members": {func(c *engine.Config) {
			m, _ := c.Membership(t.Context(), engine.Members{})
			m.Addrs = map[machine.NodeID]string{1: m.Addrs[1], 2: m.Addrs[2], 3: "127.0.0.1:1"}
			c.Membership = engine.Fixed(m)
		}, "the list of members is epoch 1: "},
		"index": {func(c *engine.Config) {
			m, _ := c.Membership(t.Context(), engine.Members{})
			m.Addrs = map[machine.NodeID]string{1: m.Addrs[1], 7: m.Addrs[2]}
			c.Membership = engine.Fixed(m)
		}, "has index 7, and index 2 in the list of this one"},
		"place": {func(c *engine.Config) {
			m, _ := c.Membership(t.Context(), engine.Members{})
			m.Addrs = map[machine.NodeID]string{1: m.Addrs[1], 2: m.Addrs[2], 3: "127.0.0.1:2"}
			c.Membership = engine.Fixed(m)
		}, "the list of members is epoch 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
			cfg := brief
			cfg.Logger = slog.New(slog.DiscardHandler)
			m := engine.Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: one.Addr().String(), 2: two.Addr().String()}}
			if name == "place" {
				m.Addrs[3] = "127.0.0.1:1" // no process listens there
			}
			cfg.Membership = engine.Fixed(m)
			first := begin(t, cfg, one)
			c.edit(&cfg)
			begin(t, cfg, two)
			l := first.Leaser()
			defer l.Close()
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				s := first.Status()
				if strings.Contains(s.Peers[1].Error, c.want) {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the peer says %q, want %q", s.Peers[1].Error, c.want)
				}
			}
			_, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x", TTL: time.Second})
			if !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("acquire: %v, want %q", err, c.want)
			}
		})
	}
}

// begin starts a peer of a cluster that has never run.
func begin(t *testing.T, cfg engine.Config, l net.Listener) *engine.Peer {
	t.Helper()
	cfg.Self, cfg.Listener = l.Addr().String(), l
	p, err := engine.Start(t.Context(), engine.Fresh(cfg, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestTwoPeersWithOneIndex: the second ends, and says why; the first goes on.
func TestTwoPeersWithOneIndex(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	cfg := brief
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c := newCluster(t, 3, cfg)
	c.ready()
	again := c.config(2, listen(t, "127.0.0.1:0")) // elsewhere, with the same list
	second, err := engine.Start(t.Context(), engine.Fresh(again, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	select {
	case <-second.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it runs")
	}
	if err := second.Err(); !strings.Contains(err.Error(), "another process runs as peer 3") {
		t.Errorf("it ends with %v", err)
	}
	l := second.Leaser()
	if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); !errors.Is(err, tenure.ErrUnavailable) {
		t.Errorf("acquire: %v, want %v", err, tenure.ErrUnavailable)
	}
	if err := c.peers[2].Err(); err != nil {
		t.Errorf("the first: %v", err)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestState: a peer uses the state of its last shutdown once. A damaged state costs the quarantine.
func TestState(t *testing.T) {
	t.Parallel()
	cfg := brief
	cfg.State = t.TempDir()
	c := newCluster(t, 1, cfg)
	c.ready()
	restart := func() (silent time.Duration) {
		t.Helper()
		p, err := engine.Start(t.Context(), c.config(0, listen(t, c.addr(0))))
		if err != nil {
			t.Fatal(err)
		}
		c.peers[0] = p
		began := time.Now()
		if err := p.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	file := filepath.Join(cfg.State, "flease-1.snapshot")
	if err := c.peers[0].Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := restart(); d > cfg.TMax/2 {
		t.Errorf("silent for %v after a planned restart", d)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the shutdown left is still there: %v", err)
	}
	if err := c.peers[0].Close(); err != nil {
		t.Fatal(err)
	}
	left[len(left)/2] ^= 1
	if err := os.WriteFile(file, left, 0o600); err != nil {
		t.Fatal(err)
	}
	if d := restart(); d < cfg.TMax {
		t.Errorf("silent for %v only, after a restart with damaged state", d)
	}
}
