package broadcast_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/golden"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/network"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// companyOf is a group in simulated time, and what it shows.
type companyOf struct {
	t     *testing.T
	w     *world.World
	net   *network.Network
	hosts map[machine.NodeID]*companyHost

	mu   sync.Mutex
	said map[machine.NodeID][]string // lines of the logs
	all  []string
}

type companyHost struct {
	disk *waltest.Disk
	p    *world.Process
	node *broadcast.Node
}

func companyAddr(id machine.NodeID) string { return fmt.Sprintf("h%d:7000", id) }

// drawn are numbers that are drawn or depend on such, and the two ways in which a connection ends.
var drawn = regexp.MustCompile(`\b[0-9a-f]{12,}\b|\bdirectory [0-9a-f]{2,}\b|\d+ records|reason=.*|member=\d "say so"|member=\d from=|state" position=.*`)

func (c *companyOf) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, drawn.ReplaceAllString(fmt.Sprintf(format, args...), "#"))
}

type companyLog struct {
	c  *companyOf
	id machine.NodeID
}

func (l companyLog) Write(b []byte) (int, error) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if line := string(b); !strings.Contains(line, "msg=\"peer: ") { // when a member dials again is drawn
		l.c.said[l.id] = append(l.c.said[l.id], strings.TrimSpace(drawn.ReplaceAllString(line, "#")))
	}
	return len(b), nil
}

// config is that of a member in a process of its own.
func (c *companyOf) config(id machine.NodeID, founders ...machine.NodeID) broadcast.Config {
	c.t.Helper()
	h := c.hosts[id]
	if h == nil {
		h = &companyHost{disk: waltest.NewDisk()}
		c.hosts[id] = h
	}
	h.p = c.w.Start(fmt.Sprintf("h%d", id))
	ln, err := c.net.Listen(h.p, 7000)
	if err != nil {
		c.t.Fatal(err)
	}
	members := map[machine.NodeID]string{}
	for _, f := range founders {
		members[f] = companyAddr(f)
	}
	level := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Duration("at", c.w.Elapsed().Round(time.Second))
		}
		return a
	}}
	return broadcast.Config{
		ID: id, Group: 7, Members: members, Listener: ln, Dial: c.net.Dialer(h.p), Dir: "/d", MemoryBytes: 2000,
		WAL: wal.Options{FS: h.disk.FS(), SegmentBytes: 4 << 10}, Logger: slog.New(slog.NewTextHandler(companyLog{c, id}, level)),
	}
}

func (c *companyOf) start(cfg broadcast.Config) *broadcast.Node {
	c.t.Helper()
	n, err := broadcast.Start(cfg)
	if err != nil {
		c.say("member %d does not start: %v", cfg.ID, err)
		return nil
	}
	c.hosts[cfg.ID].node = n
	return n
}

// stop ends a member as one that is closed, or whose process is killed.
func (c *companyOf) stop(id machine.NodeID) {
	h := c.hosts[id]
	if err := patience.Returns(c.t, "Close", h.node.Close); err != nil {
		c.say("member %d closes with %v", id, err)
	}
	h.node = nil
	h.p.End()
	c.net.Exit(h.p)
}

// show has what all members show at the end of a step.
func (c *companyOf) show(step string, rest time.Duration) {
	time.Sleep(rest)
	c.say("== %s", step)
	forgets := strings.Contains(step, "lost its directory") // the first of two members ends the third
	refused := map[machine.NodeID]bool{}                    // by any: one of them may be the first
	for id := machine.NodeID(1); id <= 5; id++ {
		h := c.hosts[id]
		if h == nil {
			continue
		}
		if h.node != nil {
			s := h.node.Stats()
			c.say("%d: at %d, trusts %d, members %v, waits because of %v", id, h.node.Position(), h.node.Leader(), h.node.Members(), h.node.Waiting())
			var peers []string
			for other := machine.NodeID(1); other <= 5; other++ {
				if p, is := s.Peers[other]; is {
					peers = append(peers, fmt.Sprintf("%d %v", other, p.Connected))
				}
			}
			c.say("%d: instances %d, submits %v, leases %d, connected %v",
				id, s.Instances, s.Submits.Messages, s.Leases.Messages, peers)
			for other := range s.Refused {
				refused[other] = true
			}
		}
		c.mu.Lock()
		slices.Sort(c.said[id])
		for _, line := range c.said[id] {
			if line = fmt.Sprintf("%d: %s", id, line); forgets {
				line = line[3:]
			}
			if !forgets || !slices.Contains(c.all, line) {
				c.all = append(c.all, line)
			}
		}
		c.said[id] = nil
		c.mu.Unlock()
	}
	c.say("messages are refused of %v", refused)
}

// broadcast has a member order messages, and shows their positions.
func (c *companyOf) broadcast(id machine.NodeID, messages int) {
	var got []string
	for i := range messages {
		p, err := c.hosts[id].node.Broadcast(soon(c.t), fmt.Appendf(nil, "%d of %d %0500d", i, id, 0))
		if err != nil {
			got = append(got, err.Error())
			break
		}
		got = append(got, fmt.Sprint(p))
	}
	c.say("%d broadcasts: positions %v", id, got)
}

// What the members of a group show, step by step: their logs, positions, connections, and the errors of calls. Founders wait
// for each other, one comes and one goes, the leader ends, one is behind and gets the state of another, one has other rules, and
// one has lost its directory.
func TestCompany(t *testing.T) {
	c := &companyOf{said: map[machine.NodeID][]string{}, hosts: map[machine.NodeID]*companyHost{}}
	world.Play(t, world.Options{Seed: 1, Drain: 5 * time.Minute}, func(w *world.World) {
		c.t, c.w = w.T(), w
		c.net = network.New(w, time.Millisecond, time.Millisecond)
		c.net.Far(func(from, to string) time.Duration { // no two messages of different members arrive at once
			return time.Duration(from[1]-'0')*137*time.Microsecond + time.Duration(to[1]-'0')*311*time.Microsecond
		})
		c.play()
		for id := range machine.NodeID(6) {
			if h := c.hosts[id]; h != nil && h.node != nil {
				c.stop(id)
			}
		}
	})
	golden.Lines(t, "testdata/company.txt", strings.Join(c.all, "\n")+"\n")
}

func (c *companyOf) play() {
	founders := []machine.NodeID{1, 2, 3}
	c.start(c.config(1, founders...))
	time.Sleep(37 * time.Millisecond)
	c.start(c.config(2, founders...))
	c.show("two of three founders", 3*time.Second)
	c.start(c.config(3, founders...))
	c.show("the third founder", time.Second)
	c.broadcast(1, 2)
	c.broadcast(2, 2)
	c.broadcast(3, 2)
	c.show("each broadcasts", time.Second)

	c.start(func() broadcast.Config { cfg := c.config(4, founders...); cfg.Join = true; return cfg }())
	c.show("one that nobody has named", 5*time.Second)
	one := c.hosts[1].node
	for _, change := range []func(ctx context.Context) (broadcast.Position, error){
		func(ctx context.Context) (broadcast.Position, error) { return one.AddMember(ctx, 4, "nowhere") },
		func(ctx context.Context) (broadcast.Position, error) { return one.AddMember(ctx, 4, companyAddr(2)) },
		func(ctx context.Context) (broadcast.Position, error) { return one.AddMember(ctx, 4, companyAddr(4)) },
		func(ctx context.Context) (broadcast.Position, error) { return one.RemoveMember(ctx, 5) },
	} {
		p, err := change(soon(c.t))
		c.say("a change of the members: %d, %v", p, err)
	}
	c.say("it has joined: %v", c.hosts[4].node.Joined(soon(c.t)))
	c.broadcast(4, 1)
	c.show("it is named", time.Second)

	leader := c.hosts[2].node.Leader()
	c.say("%d leads and ends", leader)
	c.stop(leader)
	others := []machine.NodeID{}
	for _, id := range founders {
		if id != leader {
			others = append(others, id)
		}
	}
	c.show("without the leader", 200*time.Millisecond)
	c.broadcast(others[0], 12)
	time.Sleep(12 * time.Second) // nothing is held for 4 any more
	for _, id := range []machine.NodeID{others[0], others[1], 4} {
		n := c.hosts[id].node
		at := n.Position()
		err := n.Snapshot(at, func(w io.Writer) error { _, err := fmt.Fprint(w, "state of ", at); return err })
		if err == nil {
			err = n.Trim(at)
		}
		c.say("%d makes a snapshot of %d and trims: %v", id, at, err)
	}
	c.broadcast(others[1], 2)
	c.show("it is behind", time.Second)
	c.start(c.config(leader, founders...))
	c.show("it starts again", 3*time.Second)
	at, r, err := c.hosts[leader].node.Install()
	if err == nil {
		state, readErr := io.ReadAll(r)
		r.Close()
		c.say("it installs %q of %d, %v", state, at, readErr)
	}
	for m, err := range c.hosts[leader].node.Deliver(soon(c.t), 1) {
		c.say("it delivers position 1: %d, %v", m.Position, err)
		break
	}
	c.broadcast(leader, 1)
	c.show("it has caught up", time.Second)

	p, err := c.hosts[others[0]].node.RemoveMember(soon(c.t), 4)
	c.say("%d removes 4: %d, %v", others[0], p, err)
	c.show("4 is removed", 3*time.Second)
	c.broadcast(4, 1)
	c.stop(4)
	c.start(func() broadcast.Config { cfg := c.config(4, founders...); return cfg }())
	c.show("4 starts again", 3*time.Second)
	c.stop(4)

	c.start(func() broadcast.Config { cfg := c.config(5, 1, 2, 3, 5); cfg.Clients = 99; return cfg }())
	c.show("5 has other rules", 3*time.Second)
	c.stop(5)

	c.stop(3)
	c.hosts[3].disk = waltest.NewDisk()
	c.start(c.config(3, founders...))
	c.show("3 has lost its directory", 3*time.Second)
	c.broadcast(3, 1)
	c.stop(3)
	c.broadcast(1, 1)
	c.show("two are left", time.Second)
	c.stop(2)
	c.show("one is left", time.Second)
	c.stop(1)
	alone := c.config(1)
	alone.Listener.Close()
	alone.Listener = nil
	c.start(alone)
	alone = c.config(1)
	alone.Members[9] = companyAddr(9)
	c.start(alone)
	c.show("one starts again, and another is named", time.Second)
}
