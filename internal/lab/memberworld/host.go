package memberworld

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/disk"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/server"
)

// Ports of a host.
const (
	peerPort   = 2380
	clientPort = 2379
)

// dataDir is where a member has its data.
const dataDir = "/var/lib/tenure"

// host is a machine with a disk, clocks and a member, which something like systemd starts
// again whenever it ends.
type host struct {
	c    *cluster
	name string
	disk *disk.Disk
	rand *rand.Rand   // the remainder after a power cut
	port atomic.Int64 // for members

	mono, wall *clock.Simulated
	raw        time.Time // the part that no correction of the clock changes

	mu       sync.Mutex
	flags    flags
	existing bool
	held     int  // the faults that want the host to stay down
	lost     bool // its data, for good: it may refuse to start, and is replaced
	life     *life
	befell   ending      // what became of the disk while no life went on
	advised  atomic.Bool // that it be replaced
	admitted atomic.Bool // its first directory was confirmed
	removed  bool        // for good: it must not serve again
	starts   int
	lastErr  error // of the last start, or why the last life ended by itself
}

// flags may differ from one life of a member to the next.
type flags struct {
	readTTL   time.Duration
	tailBytes int
	segment   int64
	order     string // the policy of a new cluster
	anew      bool   // --force-new-cluster
	older     bool   // the version is one from before levels (package replica)
}

// life is the time from a member's start to its end.
type life struct {
	p     *world.Process
	srv   *server.Server // nil until it has started
	ended chan struct{}
	how   ending
}

// ending is what becomes of a disk when a life ends.
type ending int

const (
	exits   ending = iota // the process ends, and the machine goes on
	crashes               // the machine loses its power
	ages                  // it comes back with an older disk
	empties               // it comes back with an empty disk
)

func newHost(c *cluster, name string) *host {
	h := &host{
		c: c, name: name,
		disk: disk.New(), rand: c.w.Rand("crashes of " + name),
		// Hosts have been up for different times, and their times of day are not exact.
		mono: clock.NewSimulated(machine.Mono(time.Hour) * machine.Mono(1+len(c.hosts))),
		wall: clock.NewSimulated(machine.Mono(time.Now().UnixNano())),
		raw:  time.Now(),
	}
	h.port.Store(peerPort)
	h.flags = c.spec.flags(c.w.Rand("flags of " + name))
	// Newcomers have the newest version.
	h.flags.older = c.spec.Upgraded && len(c.hosts) < c.spec.Members && c.w.Rand("version of "+name).IntN(4) > 0
	return h
}

// addr is where members reach the host.
func (h *host) addr() string { return fmt.Sprintf("%s:%d", h.name, h.port.Load()) }

// url is the member's for others.
func (h *host) url() string { return "http://" + h.addr() }

// run starts the member again and again, until the world is over.
func (h *host) run() {
	for !h.c.over() {
		h.mu.Lock()
		held, how := h.held > 0, h.befell
		if !held {
			h.befell = exits
		}
		h.mu.Unlock()
		if held {
			h.c.pause(100 * time.Millisecond)
			continue
		}
		if how != exits {
			h.becomes(how)
		}
		l := h.begin()
		if h.c.over() {
			h.end(l, exits)
		}
		<-l.ended
		if l.srv != nil {
			l.srv.Stop()
		}
		h.becomes(l.how)
		h.c.pause(h.c.spec.downtime(h.rand))
		h.c.net.PowerOn(h.name)
	}
}

// becomes makes of the disk what an ending leaves of it.
func (h *host) becomes(how ending) {
	switch how {
	case exits:
		h.disk.Exit()
	case crashes:
		h.disk.Crash(h.rand)
	case ages:
		h.disk.Older()
	case empties:
		h.disk.Empty()
	}
}

// begin starts the member. If that fails, the life has ended already.
func (h *host) begin() *life {
	l := &life{p: h.c.w.Start(h.name), ended: make(chan struct{})}
	h.mu.Lock()
	h.life = l
	h.starts++
	if h.flags.older {
		h.c.w.Count("starts of an older version", 1)
	}
	cfg := h.config(l)
	h.mu.Unlock()
	fail := func(err error) {
		h.c.w.Trace.Add("%s does not start: %v", h.name, err)
		h.c.w.Count("starts that failed", 1)
		h.mu.Lock()
		h.lastErr = err
		h.mu.Unlock()
		h.end(l, exits)
	}
	peers, err := h.c.net.Listen(l.p, int(h.port.Load()))
	if err != nil {
		fail(err)
		return l
	}
	clients, err := h.c.net.Listen(l.p, clientPort)
	if err != nil {
		fail(err)
		return l
	}
	cfg.Node.PeerListener, cfg.Clients = peers, []net.Listener{clients}
	srv, err := server.Start(cfg)
	if err != nil {
		fail(err)
		return l
	}
	h.mu.Lock()
	l.srv, h.lastErr = srv, nil
	h.mu.Unlock()
	h.c.w.Count("starts", 1)
	h.c.w.Trace.Add("%s runs as member %x", h.name, srv.Node.ID())
	return l
}

func (h *host) config(l *life) server.Config {
	peers := map[string]string{}
	for _, o := range h.c.hosts[:h.c.spec.Members] {
		peers[o.name] = o.url()
	}
	peers[h.name] = h.url()
	logger := slog.New(&traceLog{w: h.c.w, who: h.name, told: h.told})
	return server.Config{
		Logins: login.Config{Cost: bcrypt.MinCost},
		API:    etcdapi.Config{WatchProgressInterval: 2 * time.Second, ReadLeaseChanges: etcdapi.ChangeOrder},
		Node: node.Config{
			Name: h.name, DataDir: dataDir, Peers: peers, ClusterToken: "world", Existing: h.existing,
			ClientURLs: []string{fmt.Sprintf("http://%s:%d", h.name, clientPort)},
			Dial:       h.c.net.Dialer(l.p),
			ReadLease:  h.flags.order, ReadLeaseTTL: h.flags.readTTL, Older: h.flags.older, ForceNewCluster: h.flags.anew,
			MaxTailBytes: h.flags.tailBytes, WAL: wal.Options{FS: h.disk.FS(l.p), SegmentBytes: h.flags.segment},
			Now: func() machine.Now { return h.now(l.p) }, Look: h.look,
			CorruptCheck: time.Second, // an alarm would end all writes, and so fail the world
			Logger:       logger,
			Fail: func(err error) {
				h.c.w.Trace.Add("%s ends: %v", h.name, err)
				h.c.w.Count("ended by itself", 1)
				if !excused(err) {
					h.c.w.Fail("%s ended, and neither its disk nor a removal is to blame: %v", h.name, err)
				}
				h.mu.Lock()
				h.lastErr = err
				h.mu.Unlock()
				h.end(l, exits)
			},
		},
	}
}

// told is what an operator reads in the log of a member that goes on.
func (h *host) told(text string) {
	if strings.Contains(text, "its disk has lost acknowledged entries") {
		h.advised.Store(true)
	}
	if strings.HasPrefix(text, "the data directory is confirmed") {
		h.admitted.Store(true)
	}
}

// excused reports whether a member may end for a reason: a fault of its disk, or that it is
// no member with this data. Nothing that a stranger says may end one.
func excused(err error) bool {
	return refused(err) || errors.Is(err, world.ErrDead) || errors.Is(err, waltest.ErrCrashed) ||
		errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC)
}

// now reads the clocks. The process may be stopped between a reading and its use.
func (h *host) now(p *world.Process) machine.Now {
	now := machine.Now{Mono: h.mono.Now(), Wall: machine.Wall(h.wall.Now())}
	_ = p.Do(world.Clock, "now", "")
	return now
}

func (h *host) look() clock.Evidence {
	mono := h.mono.Now()
	return clock.Evidence{Now: mono, Running: time.Duration(mono), Raw: time.Since(h.raw), Wall: machine.Wall(h.wall.Now())}
}

// end ends a life, nil for the one that there is.
func (h *host) end(l *life, how ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l == nil {
		l = h.life
	}
	if l == nil {
		return
	}
	select {
	case <-l.ended:
		h.befell = max(h.befell, how) // a disk may be lost while nothing runs
		return
	default:
	}
	l.how = how
	h.disk.Kill()
	l.p.End()
	if how == exits {
		h.c.net.Exit(l.p)
	} else {
		h.c.net.PowerOff(l.p)
	}
	close(l.ended)
}

// running is the member, nil if it does not run.
func (h *host) running() *server.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return nil
	}
	select {
	case <-h.life.ended:
		return nil
	default:
		return h.life.srv
	}
}

func (h *host) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// hold keeps the host down, or lets it go.
func (h *host) hold(by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held += by
}
