package castworld

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/disk"
	"github.com/tenure-lease/tenure/internal/lab/world/network"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// founders is how many members a world begins with.
func founders(seed uint64) int { return []int{3, 3, 3, 5}[world.Rand(seed, "founders").IntN(4)] }

const port = 7000

// cast is a group of members in a world.
type cast struct {
	w     *world.World
	net   *network.Network
	judge *judge
	hosts map[machine.NodeID]*host
	addrs map[machine.NodeID]string // of the founders
	work  sync.WaitGroup

	changing sync.Mutex // held while members change

	mu      sync.Mutex
	heard   [][]byte         // the first that members have said on their connections
	members []machine.NodeID // now, ascending, as far as the world knows
	over    context.Context  // ends with the body
}

// host is where a member runs.
type host struct {
	c    *cast
	id   machine.NodeID
	disk *disk.Disk
	join bool
	slow time.Duration // between two messages that its application applies

	mu      sync.Mutex
	proc    *world.Process
	node    *broadcast.Node // nil while it is down
	apps    sync.WaitGroup
	busy    bool          // a fault is being carried out
	turn    chan struct{} // holds a token while a process starts
	emptied bool          // its directory was
	absent  bool          // it was not added yet
	removed bool          // it was told so
	gone    bool          // it ended for good: it was removed, or has forgotten something
	at      broadcast.Position
}

func name(id machine.NodeID) string { return fmt.Sprintf("m%d", id) }
func addr(id machine.NodeID) string { return fmt.Sprintf("%s:%d", name(id), port) }

func (c *cast) addHost(id machine.NodeID, r *rand.Rand) *host {
	h := &host{c: c, id: id, disk: disk.New(), turn: make(chan struct{}, 1)}
	if r.IntN(4) == 0 {
		h.slow = time.Duration(r.IntN(20)) * time.Millisecond
	}
	c.hosts[id] = h
	return h
}

// start gives a host a process. Its directory may be one that cannot be started with.
func (h *host) start() {
	c := h.c
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	h.mu.Lock()
	if h.gone || h.absent || h.proc != nil || c.over.Err() != nil {
		h.mu.Unlock()
		return
	}
	c.net.PowerOn(name(h.id))
	h.proc = c.w.Start(name(h.id))
	proc, sys := h.proc, h.disk.FS(h.proc)
	ln, err := c.net.Listen(proc, port)
	h.mu.Unlock() // a disk may hang while the process starts, and the process may end
	if err != nil {
		c.w.Fail("member %d cannot listen: %v", h.id, err)
		return
	}
	members := c.addrs
	if h.join { // all founders may have left
		members = map[machine.NodeID]string{}
		for _, id := range c.present() {
			members[id] = addr(id)
		}
	}
	n, err := broadcast.Start(broadcast.Config{
		ID: h.id, Group: 7, Members: members, Join: h.join, Listener: ln, Dial: c.overhear(c.net.Dialer(proc)),
		Dir: "/data", WAL: wal.Options{FS: sys, SegmentBytes: 16 << 10},
		Timeout: 400 * time.Millisecond, MemoryBytes: 4 << 10, Clients: 100,
		Logger: slog.New(slog.NewTextHandler(tracer{c.w, name(h.id)}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		c.w.Trace.Add("%s does not start: %v", name(h.id), err)
		c.work.Go(func() { h.again(proc, err) })
		return
	}
	c.w.Count("starts", 1)
	c.w.Trace.Add("%s starts", name(h.id))
	h.mu.Lock()
	h.node = n
	h.mu.Unlock()
	h.apps.Go(func() {
		err := h.apply(n)
		c.w.Trace.Add("%s ends: %v", name(h.id), err)
		c.work.Go(func() { h.ended(proc, n, err) })
	})
}

// again starts a process once more that could not start: its disk may be well by then.
func (h *host) again(proc *world.Process, err error) {
	select {
	case <-time.After(time.Second):
	case <-h.c.over.Done():
	}
	if h.stop(proc, nil, func() { h.disk.Exit() }) {
		h.start()
	}
}

// ended is told when a node has ended by itself, or was stopped.
func (h *host) ended(proc *world.Process, n *broadcast.Node, err error) {
	switch {
	case errors.Is(err, broadcast.ErrForgotten):
		h.c.w.Count("forgotten", 1)
		h.retire(proc)
	case errors.Is(err, broadcast.ErrRemoved):
		h.c.w.Count("removed", 1)
		h.mu.Lock()
		h.removed = true
		h.mu.Unlock()
		h.retire(proc)
	case errors.Is(err, broadcast.ErrOrder):
		h.c.w.Fail("one order: member %d: %v", h.id, err)
		h.retire(proc)
	case errors.Is(err, broadcast.ErrClosed):
	default: // its disk: the process ends, and is started again
		h.c.w.Count("ended", 1)
		if h.stop(proc, nil, func() { h.disk.Exit() }) {
			time.Sleep(time.Second)
			h.start()
		}
	}
}

func (h *host) retire(proc *world.Process) {
	h.mu.Lock()
	h.gone = true
	h.mu.Unlock()
	h.stop(proc, nil, func() { h.disk.Exit() })
}

// stop ends a process, if it is the present one, and has the disk keep the files that are left.
// The goroutine that has ended one starts the next.
func (h *host) stop(proc *world.Process, how func(*world.Process), left func()) bool {
	h.mu.Lock()
	if proc == nil {
		proc = h.proc
	}
	present := h.proc == proc && !h.busy && proc != nil
	h.busy = h.busy || present
	h.mu.Unlock()
	if !present {
		return false
	}
	if len(h.turn) > 0 {
		h.c.w.Count("ended while they started", 1)
	}
	h.disk.Kill()
	if how == nil {
		how = h.c.net.Exit
	}
	how(proc)
	proc.End()
	h.turn <- struct{}{} // it does not start any more
	h.mu.Lock()
	n := h.node
	h.mu.Unlock()
	<-h.turn
	if n != nil {
		n.Close() // no other hears of it
	}
	h.apps.Wait()
	left()
	h.mu.Lock()
	h.node, h.proc, h.busy = nil, nil, false
	h.mu.Unlock()
	return true
}

// state is that of an application.
type state struct {
	position broadcast.Position
	sum      uint64
}

func (s state) after(payload []byte) state {
	f := fnv.New64a()
	f.Write(binary.LittleEndian.AppendUint64(nil, s.sum))
	f.Write(payload)
	return state{s.position + 1, f.Sum64()}
}

// apply is a member's application. It returns why it has ended.
func (h *host) apply(n *broadcast.Node) error {
	ctx := h.c.over
	var s state
	for install := true; ; {
		if install {
			at, in, err := n.Install()
			if err != nil {
				return err
			}
			b, err := io.ReadAll(in)
			in.Close()
			if err != nil {
				return err
			}
			if at > 0 {
				if len(b) != 8 {
					h.c.w.Fail("snapshot: member %d installs %d bytes for position %d", h.id, len(b), at)
					return broadcast.ErrClosed
				}
				s = state{at, binary.LittleEndian.Uint64(b)}
				h.c.judge.onInstall(h.id, s)
				h.onReach(at)
				h.c.w.Count("installs", 1)
			}
		}
		for m, err := range n.Deliver(ctx, s.position+1) {
			if errors.Is(err, broadcast.ErrTrimmed) {
				break
			}
			if err != nil {
				if ctx.Err() != nil {
					return broadcast.ErrClosed
				}
				return err
			}
			s = s.after(what(m))
			h.c.judge.onDelivery(h.id, s, m)
			h.onReach(m.Position)
			if h.slow > 0 {
				time.Sleep(h.slow)
			}
			if m.Position%20 == 0 {
				keep := s
				err := n.Snapshot(keep.position, func(w io.Writer) error {
					_, err := w.Write(binary.LittleEndian.AppendUint64(nil, keep.sum))
					return err
				})
				if err == nil {
					h.c.w.Count("snapshots", 1)
					err = n.Trim(keep.position)
				}
				if err != nil && !errors.Is(err, broadcast.ErrPosition) {
					return err
				}
			}
		}
		install = true
	}
}

func (h *host) onReach(at broadcast.Position) {
	h.mu.Lock()
	h.at = at
	h.mu.Unlock()
}

// carryOut carries out a fault that is none of a process's seams, if it can.
func (c *cast) carryOut(f world.Fault) bool {
	r := c.w.Rand(fmt.Sprint("fault", f))
	var h *host
	for _, o := range c.hosts {
		if name(o.id) == f.Who {
			h = o
		}
	}
	down := func(how func(*world.Process), left func()) bool {
		if !h.stop(nil, how, left) {
			return false
		}
		c.work.Go(func() {
			select {
			case <-time.After(f.For):
			case <-c.over.Done():
				return
			}
			if r.IntN(2) == 0 { // and it does not get far
				c.w.Plan(world.Fault{Who: f.Who, Seam: world.Disk, Nth: 1 + r.IntN(60), Kind: []world.Kind{world.Kill, world.Crash}[r.IntN(2)], For: f.For})
			}
			h.start()
		})
		return true
	}
	switch f.Kind {
	case world.Kill:
		return down(c.net.Exit, h.disk.Exit)
	case world.Crash:
		return down(c.net.PowerOff, func() { h.disk.Crash(r) })
	case world.Older:
		return c.began() && down(c.net.Exit, h.disk.Older)
	case world.Empty:
		return c.began() && down(c.net.PowerOff, func() { // unless it ends by itself at this moment
			h.mu.Lock()
			h.emptied = true
			h.mu.Unlock()
			h.disk.Empty()
		})
	case world.Cut:
		c.net.Cut(f.Who, f.With, f.For)
	case world.Isolate:
		c.net.Isolate(f.Who, f.For)
	case world.Reset:
		c.net.Reset(f.Who, "")
	case world.HalfOpen:
		c.net.HalfOpen(f.Who)
	case world.Member:
		c.work.Go(func() { c.changeMembers(r) })
	case world.Stranger:
		c.intrude(h, r)
	}
	return true
}

// began reports whether each founder has delivered a message. Before that, a founder whose directory
// is lost leaves a group of three without the two others that each founder waits for once. Nothing
// is ever ordered then, which is safe and leaves a world nothing to judge.
func (c *cast) began() bool {
	for id := range c.addrs {
		h := c.hosts[id]
		h.mu.Lock()
		at := h.at
		h.mu.Unlock()
		if at == 0 {
			return false
		}
	}
	return true
}

// client broadcasts one message after the other, at one member and then another, each until it
// knows that it is ordered.
func (c *cast) client(number int, until time.Duration) {
	r := c.w.Rand(fmt.Sprint("client", number))
	var id machine.ID
	seq := uint64(0)
	open := "" // messages that were broadcast and not acknowledged
	for count := 0; ; {
		ids := c.present()
		h := c.hosts[ids[r.IntN(len(ids))]]
		h.mu.Lock()
		n := h.node
		h.mu.Unlock()
		if c.over.Err() != nil || open == "" && c.w.Elapsed() > until {
			return
		}
		time.Sleep(time.Duration(r.IntN(60)+1) * time.Millisecond)
		if n == nil {
			continue
		}
		if id == (machine.ID{}) {
			id, seq = n.NewClient(), 0
		}
		if open == "" {
			count++
			seq++
			open = fmt.Sprintf("%d.%d ", number, count) + string(make([]byte, r.IntN(600)))
			c.judge.onBroadcast(open)
		}
		ctx, cancel := context.WithTimeout(c.over, 2*time.Second)
		position, err := n.BroadcastAs(ctx, id, seq, []byte(open))
		cancel()
		switch {
		case err == nil:
			c.judge.onAcknowledgment(open, position)
			c.w.Count("acknowledged", 1)
			open = ""
		case errors.Is(err, broadcast.ErrSequence): // it was forgotten: this one may be ordered
			id, open = machine.ID{}, ""
			c.w.Count("clients forgotten", 1)
		}
	}
}
