package flease_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// cluster is a set of peers in this process.
type cluster struct {
	t       testing.TB
	members engine.Members
	cfg     engine.Config
	peers   []*engine.Peer // by index, less one
	taps    []*tap
}

// newCluster starts n peers that have never run.
func newCluster(t testing.TB, n int, cfg engine.Config) *cluster {
	c := &cluster{t: t, cfg: cfg, members: engine.Members{Epoch: 1, Addrs: map[machine.NodeID]string{}}}
	if cfg.Logger == nil {
		c.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var listeners []net.Listener
	for i := range n {
		l := listen(t, "127.0.0.1:0")
		listeners = append(listeners, l)
		c.members.Addrs[machine.NodeID(i+1)] = l.Addr().String()
	}
	c.cfg.Membership = engine.Fixed(c.members)
	for i, l := range listeners {
		c.taps = append(c.taps, &tap{})
		c.peers = append(c.peers, nil)
		c.start(i, l)
	}
	t.Cleanup(func() {
		var all sync.WaitGroup
		for _, p := range c.peers {
			all.Go(func() { p.Close() })
		}
		all.Wait()
	})
	return c
}

func (c *cluster) addr(i int) string { return c.members.Addrs[machine.NodeID(i+1)] }

// config returns the configuration of peer i.
func (c *cluster) config(i int, l net.Listener) engine.Config {
	cfg := c.cfg
	cfg.Self, cfg.Listener = c.addr(i), l
	return cfg
}

// start starts peer i as one of a cluster that has never run.
func (c *cluster) start(i int, l net.Listener) {
	c.t.Helper()
	p, err := engine.Start(c.t.Context(), engine.Fresh(c.config(i, l), c.taps[i].pass))
	if err != nil {
		c.t.Fatal(err)
	}
	c.peers[i] = p
}

func listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			return l
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // the port was in use a moment ago
	}
}

// ready waits until all peers serve and are connected.
func (c *cluster) ready() {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		why := ""
		for _, p := range c.peers {
			s := p.Status()
			if !s.Serving {
				why = fmt.Sprintf("%s does not serve", s.Addr)
			}
			for _, m := range s.Peers {
				if !m.Connected || m.Error != "" {
					why = fmt.Sprintf("%s to %s: %s", s.Addr, m.Addr, m.Error)
				}
			}
		}
		if why == "" {
			return
		}
		if time.Now().After(end) {
			c.t.Fatal(why)
		}
	}
}

// socket is a path at which a peer serves clients.
type socket struct {
	path  string
	close func()
}

// socket has peer i serve clients.
func (c *cluster) socket(i int) *socket {
	c.t.Helper()
	dir, err := os.MkdirTemp("", "flease") // t.TempDir's paths are too long for sockets
	if err != nil {
		c.t.Fatal(err)
	}
	path := filepath.Join(dir, "peer.sock")
	l, err := engine.ListenSocket(path, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = c.peers[i].Serve(l)
	}()
	end := sync.OnceFunc(func() {
		l.Close()
		<-served
		os.RemoveAll(dir)
	})
	c.t.Cleanup(end)
	return &socket{path, end}
}

// tap cuts a peer off, or delays its messages.
type tap struct {
	mu  sync.Mutex
	cut bool
	lag time.Duration
}

func (p *tap) set(cut bool, lag time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.lag = cut, lag
}

func (p *tap) pass(sending bool, forward func()) {
	p.mu.Lock()
	cut, lag := p.cut, p.lag
	p.mu.Unlock()
	switch {
	case cut:
	case lag > 0 && !sending:
		time.AfterFunc(lag, forward)
	default:
		forward()
	}
}
