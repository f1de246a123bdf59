package flease_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/disk"
	"github.com/tenure-lease/tenure/internal/lab/world/network"
	"github.com/tenure-lease/tenure/internal/machine"
)

// lab is a set of peers and clients in simulated time. Nothing in it depends on the load of the
// machine.
type lab struct {
	t     *testing.T
	w     *world.World
	net   *network.Network
	cfg   engine.Config
	addrs map[machine.NodeID]string
	peers []*labPeer
}

// labPeer is a host with a peer.
type labPeer struct {
	lab  *lab
	id   machine.NodeID
	disk *disk.Disk
	mono *clock.Simulated
	off  atomic.Int64 // by how many nanoseconds the synchronized clock is wrong
	p    *world.Process
	fs   *waltest.FS
	*engine.Peer
}

// inLab runs a test with n peers of a new cluster, which serve.
func inLab(t *testing.T, n int, cfg engine.Config, f func(*lab)) {
	t.Helper()
	world.Play(t, world.Options{Seed: 1, Drain: 5 * time.Minute}, func(w *world.World) {
		time.Sleep(30 * 365 * 24 * time.Hour) // bubbles begin in 2000, readings of wall clocks in 2020
		l := &lab{t: w.T(), w: w, net: network.New(w, time.Millisecond, time.Millisecond), cfg: cfg, addrs: map[machine.NodeID]string{}}
		for i := range n {
			l.addrs[machine.NodeID(i+1)] = fmt.Sprintf("h%d:7000", i+1)
		}
		if cfg.Membership == nil {
			l.cfg.Membership = engine.Fixed(engine.Members{Epoch: 1, Addrs: l.addrs})
		}
		if cfg.Logger == nil {
			l.cfg.Logger = slog.New(slog.DiscardHandler)
		}
		for i := range n {
			h := &labPeer{lab: l, id: machine.NodeID(i + 1), disk: disk.New(), mono: clock.NewSimulated(machine.Mono(time.Hour))}
			l.peers = append(l.peers, h)
			h.start(true)
		}
		time.Sleep(2 * time.Second)
		defer func() {
			for _, h := range l.peers {
				h.Close()
				h.left()
				h.p.End()
				l.net.Exit(h.p)
			}
		}()
		f(l)
	})
}

// config returns the peer's configuration, in a new process.
func (h *labPeer) config() engine.Config {
	l := h.lab
	h.p = l.w.Start(fmt.Sprintf("h%d", h.id))
	listener, err := l.net.Listen(h.p, 7000)
	if err != nil {
		l.t.Fatal(err)
	}
	h.fs = h.disk.FS(h.p)
	cfg := l.cfg
	cfg.Self, cfg.Listener, cfg.Dial, cfg.FS = l.addrs[h.id], listener, l.net.Dialer(h.p), h.fs
	cfg.Clock = h.mono
	cfg.Wall = func() time.Time { return time.Now().Add(time.Duration(h.off.Load())) }
	return cfg
}

// start starts the peer. A fresh one is of a cluster that has never run.
func (h *labPeer) start(fresh bool) {
	h.lab.t.Helper()
	cfg := h.config()
	if fresh {
		cfg = engine.Fresh(cfg, nil)
	}
	h.run(cfg)
}

func (h *labPeer) run(cfg engine.Config) {
	h.lab.t.Helper()
	if err := h.try(cfg); err != nil {
		h.lab.t.Fatal(err)
	}
}

func (h *labPeer) try(cfg engine.Config) error {
	p, err := engine.Start(context.Background(), cfg)
	if err != nil {
		return err
	}
	h.Peer = p
	socket, err := h.lab.net.Listen(h.p, 1)
	if err != nil {
		return err
	}
	go p.Serve(socket)
	return nil
}

// kill ends the peer as kill -9 does.
func (h *labPeer) kill() {
	h.p.End()
	h.lab.net.Exit(h.p)
	h.Peer.Close()
}

// close ends the peer as planned.
func (h *labPeer) close() error {
	err := h.Peer.Close()
	h.left()
	h.p.End()
	h.lab.net.Exit(h.p)
	return err
}

// left checks which files and connections a closed peer has left open.
func (h *labPeer) left() {
	h.lab.t.Helper()
	synctest.Wait() // until its sessions have heard that the peer has ended
	if files := h.fs.Open(); len(files) > 0 {
		h.lab.t.Errorf("peer %d is closed, and has left open the files %q", h.id, files)
	}
	if n := h.lab.net.Has(h.p); n > 0 {
		h.lab.t.Errorf("peer %d is closed, and has left open %d listeners and connections", h.id, n)
	}
}

// labClient is a client's process.
type labClient struct {
	*engine.Client
	p *world.Process
}

// client is a process of its own on the peer's host.
func (h *labPeer) client(name string) *labClient {
	l := h.lab
	l.t.Helper()
	p := l.w.Start(name)
	c, err := engine.Connect(context.Background(), engine.ClientConfig{
		Socket: fmt.Sprintf("h%d:1", h.id), Dial: l.net.Dialer(p), Clock: h.mono,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return &labClient{c, p}
}

// kill ends the client as kill -9 does.
func (c *labClient) kill(l *lab) {
	c.p.End()
	l.net.Exit(c.p)
	c.Close()
}

// acquire acquires a lease, and wants it within a time.
func (l *lab) acquire(from tenure.Leaser, within time.Duration, c tenure.Claim) tenure.Lease {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	lease, err := from.Acquire(ctx, c)
	if err != nil {
		l.t.Fatalf("acquire %q: %v", c.Name, err)
	}
	return lease
}

// free returns the time until another peer's Leaser gets the name, and releases it then. It wants
// that none of the former leases is believed in at that time.
func (l *lab) free(name string, within time.Duration, former ...tenure.Lease) time.Duration {
	l.t.Helper()
	began := time.Now()
	from := l.peers[len(l.peers)-1].Leaser()
	defer from.Close()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	lease, err := from.Acquire(ctx, tenure.Claim{Name: name, TTL: time.Second})
	if err != nil {
		l.t.Errorf("an orphan: nobody gets %q within %v: %v", name, within, err)
		return within
	}
	took := time.Since(began)
	for _, f := range former {
		if f.Check() == nil {
			l.t.Errorf("two holders: the next has %q with token %d, and the former believes on token %d", name, lease.Token(), f.Token())
		}
	}
	lease.Release(ctx)
	return took
}

// labTalk speaks to a peer's socket by hand.
type labTalk struct {
	lab  *lab
	conn net.Conn
	in   *bufio.Scanner
}

func (h *labPeer) talk(name string) *labTalk {
	l := h.lab
	c, err := l.net.Dialer(l.w.Start(name))(context.Background(), fmt.Sprintf("h%d:1", h.id))
	if err != nil {
		l.t.Fatal(err)
	}
	return &labTalk{l, c, bufio.NewScanner(c)}
}

func (k *labTalk) say(format string, args ...any) {
	fmt.Fprintf(k.conn, strings.TrimSpace(format)+"\n", args...)
}

// hear waits some time for an event of the kind.
func (k *labTalk) hear(kind string, within time.Duration) (e heard, ok bool) {
	_ = k.conn.SetReadDeadline(time.Now().Add(within))
	for k.in.Scan() {
		e = heard{}
		if json.Unmarshal(k.in.Bytes(), &e) == nil && e.Event == kind {
			return e, true
		}
	}
	return e, false
}
