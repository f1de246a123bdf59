package broadcast_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

var (
	crashes   = flag.Int("crashes", 10, "how many crashes TestCrashes has")
	crashSeed = flag.Uint64("crash-seed", 0, "of TestCrashes; 0 is one that is drawn")
)

// torture is a group whose members crash at random points of their work on disk. They come back
// with the files that a loss of power, or the death of the process alone, leaves. Their
// applications keep their state in snapshots, and trim.
type torture struct {
	*group
	r     *rand.Rand
	hosts map[machine.NodeID]*host // those of members that were removed, too
	judge orderJudge

	mu sync.Mutex // guards up
	up []*broadcast.Node
}

// host is where a member runs.
type host struct {
	disk  *waltest.Disk
	plan  atomic.Pointer[plan]
	app   sync.WaitGroup
	at    atomic.Uint64 // where the application is
	gone  atomic.Bool   // it was told that it was removed
	began bool
}

// plan is after how many operations of a kind a member's disk goes off.
type plan struct {
	op, in string
	left   atomic.Int64
	kill   func()
}

func (p *plan) count(op, path string) {
	if strings.Contains(op, p.op) && strings.Contains(path, p.in) && p.left.Add(-1) == 0 {
		p.kill()
	}
}

// orderJudge knows the one order that there is.
type orderJudge struct {
	mu    sync.Mutex
	order []string
	sums  []uint64 // of the state after each
	at    map[string]broadcast.Position
	errs  []error
}

func (j *orderJudge) violated(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.errs = append(j.errs, fmt.Errorf(format, args...))
}

func (j *orderJudge) err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.errs) == 0 {
		return nil
	}
	return j.errs[0]
}

// state is that of an application: how far it is, and a sum of all that it was delivered.
type state struct {
	position broadcast.Position
	sum      uint64
}

func (s state) after(payload string) state {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, s.sum))
	io.WriteString(h, payload)
	return state{s.position + 1, h.Sum64()}
}

// has judges a state that an application has come to.
func (j *orderJudge) has(id machine.NodeID, s state, payload string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch n := broadcast.Position(len(j.order)); {
	case s.position == n+1:
		if at := j.at[payload]; at > 0 && payload != "" {
			j.errs = append(j.errs, fmt.Errorf("member %d delivers %q at %d, and it was at %d", id, payload, s.position, at))
		}
		j.at[payload] = s.position
		j.order, j.sums = append(j.order, payload), append(j.sums, s.sum)
	case s.position > n:
		j.errs = append(j.errs, fmt.Errorf("member %d is at %d, and nobody was at %d", id, s.position, n+1))
	case s.position > 0 && j.sums[s.position-1] != s.sum:
		j.errs = append(j.errs, fmt.Errorf("member %d has another state after %d, which is %q", id, s.position, j.order[s.position-1]))
	}
}

// app applies the messages that a member delivers until that ends, and keeps and trims now and
// then.
func (x *torture) app(id machine.NodeID, h *host, n *broadcast.Node, r *rand.Rand) {
	var s state
	install := r.IntN(2) == 0
	defer func() { h.at.Store(0) }()
	for every := 1 + r.IntN(30); ; install = true {
		if install {
			at, in, err := n.Install()
			if err != nil {
				return // the disk is off
			}
			b, err := io.ReadAll(in)
			in.Close()
			switch {
			case err != nil:
				return
			case at > s.position:
				s = state{at, binary.LittleEndian.Uint64(b)}
				h.at.Store(uint64(at))
				x.judge.has(id, s, "")
			}
		}
		before := s.position
		for m, err := range n.Deliver(context.Background(), s.position+1) {
			if errors.Is(err, broadcast.ErrTrimmed) {
				break
			}
			if err != nil {
				h.gone.Store(errors.Is(err, broadcast.ErrRemoved))
				return
			}
			if m.Position != s.position+1 {
				x.judge.violated("member %d delivers %d behind %d", id, m.Position, s.position)
				return
			}
			s = s.after(string(m.Payload))
			x.judge.has(id, s, string(m.Payload))
			h.at.Store(uint64(s.position))
			if r.IntN(every) > 0 {
				continue
			}
			err := n.Snapshot(s.position, func(w io.Writer) error {
				_, err := w.Write(binary.LittleEndian.AppendUint64(nil, s.sum))
				return err
			})
			if err == nil && r.IntN(2) == 0 {
				n.Trim(s.position - min(s.position, broadcast.Position(r.IntN(20))))
			}
		}
		if at, in, err := n.Install(); err != nil {
			return
		} else if in.Close(); at <= before && s.position == before {
			x.judge.violated("member %d has trimmed %d, and its snapshot is of %d", id, before+1, at)
			return
		}
	}
}

func (x *torture) start(id machine.NodeID) {
	x.group.start(id, nil)
	n, h, r := x.nodes[id], x.hosts[id], rand.New(rand.NewPCG(x.r.Uint64(), 0))
	h.app.Go(func() { x.app(id, h, n, r) })
	x.mu.Lock()
	x.up = append(x.up, n)
	x.mu.Unlock()
}

// takeDown takes a member down that has crashed.
func (x *torture) takeDown(id machine.NodeID) {
	n := x.nodes[id]
	x.mu.Lock()
	for i := range x.up {
		if x.up[i] == n {
			x.up = append(x.up[:i:i], x.up[i+1:]...)
			break
		}
	}
	x.mu.Unlock()
	n.Close()
	delete(x.nodes, id)
	h := x.hosts[id]
	h.app.Wait()
	h.plan.Store(nil)
	if x.r.IntN(3) == 0 {
		h.disk.Exit()
	} else {
		h.disk.Crash(x.r)
	}
}

// client broadcasts one message after the other, each until it is ordered.
func (x *torture) client(ctx context.Context, number byte, r *rand.Rand) {
	var id machine.ID
	for seq, payload := uint64(1), ""; ctx.Err() == nil; {
		if payload == "" {
			payload = fmt.Sprintf("%d.%d.%s", number, seq, strings.Repeat("x", r.IntN(100)))
		}
		x.mu.Lock()
		var n *broadcast.Node
		if len(x.up) > 0 {
			n = x.up[r.IntN(len(x.up))]
		}
		x.mu.Unlock()
		if n == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		if id == (machine.ID{}) {
			id = n.NewClient()
		}
		soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		at, err := n.BroadcastAs(soon, id, seq, []byte(payload))
		cancel()
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		if at > 0 {
			x.judge.ordered(payload, at)
		}
		seq, payload = seq+1, ""
	}
}

// ordered judges the result of a Broadcast.
func (j *orderJudge) ordered(payload string, at broadcast.Position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if at <= broadcast.Position(len(j.order)) && j.order[at-1] != payload {
		j.errs = append(j.errs, fmt.Errorf("%q was ordered at %d, where %q is delivered", payload, at, j.order[at-1]))
	}
}

// Members that crash anywhere, and come back, deliver the same.
func TestCrashes(t *testing.T) {
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-crash-seed %d (which does not repeat the course of goroutines)", seed)
	x := &torture{
		r: rand.New(rand.NewPCG(seed, 0)), hosts: map[machine.NodeID]*host{}, judge: orderJudge{at: map[string]broadcast.Position{}},
	}
	var founders map[machine.NodeID]string
	x.group = newGroupOf(t, 0, func(c *broadcast.Config) {
		h := x.hosts[c.ID]
		fs := h.disk.FS()
		fs.Fault = func(op, path string) error {
			if p := h.plan.Load(); p != nil {
				p.count(op, path)
			}
			return nil
		}
		if c.Join = c.ID > 3; !c.Join && !h.began {
			c.Members = founders
		}
		h.began = true
		c.Dir, c.WAL, c.MemoryBytes, c.Timeout = "/data", wal.Options{FS: fs, SegmentBytes: 4 << 10}, 2000, 100*time.Millisecond
	})
	for range 3 {
		x.newHost()
	}
	founders = x.members
	for id := range founders {
		x.start(id)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var clients sync.WaitGroup
	for i := range byte(3) {
		r := rand.New(rand.NewPCG(seed, uint64(i)+1))
		clients.Go(func() { x.client(ctx, i+1, r) })
	}
	for k := 0; k < *crashes && x.judge.err() == nil; k++ {
		for id := range x.nodes {
			if x.hosts[id].gone.Load() {
				x.takeDown(id)
			}
		}
		members := ids(x.members)
		if id := members[x.r.IntN(len(members))]; x.r.IntN(5) == 0 {
			x.replace(id)
		} else {
			x.crash(id)
		}
	}
	cancel()
	clients.Wait()
	for id := range x.members {
		if x.nodes[id] == nil {
			x.start(id)
		}
	}
	last := x.broadcast(ids(x.members)[0], "")
	for id := range x.members {
		x.until(fmt.Sprintf("member %d has not delivered %d", id, last), x.nodes[id], func(broadcast.Stats) bool { return x.hosts[id].at.Load() >= uint64(last) || x.judge.err() != nil })
	}
	for id, n := range x.nodes {
		n.Close()
		x.hosts[id].app.Wait()
	}
	x.nodes = nil
	if err := x.judge.err(); err != nil {
		t.Error(err)
	}
	t.Logf("%d messages, %d members", last, len(x.hosts))
}

// newHost makes a host for a member, and says where it listens.
func (x *torture) newHost() machine.NodeID {
	x.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.t.Fatal(err)
	}
	ln.Close()
	id := machine.NodeID(len(x.hosts) + 1)
	x.members = maps.Clone(x.members) // nodes have the one before
	x.members[id], x.hosts[id] = ln.Addr().String(), &host{disk: waltest.NewDisk()}
	return id
}

// replace has a new member come for one that is there, or down. That one may go on for a
// while.
func (x *torture) replace(old machine.NodeID) {
	id := x.newHost()
	x.start(id)
	patience := time.Now().Add(2 * time.Second)
	for limit := time.Now().Add(20 * time.Second); ; {
		for _, at := range ids(x.members) {
			if at == id || at == old {
				continue
			}
			if x.nodes[at] == nil {
				x.start(at)
			}
			short, cancel := context.WithTimeout(context.Background(), time.Second)
			_, err := x.nodes[at].ReplaceMember(short, old, id, x.members[id])
			cancel()
			if err == nil {
				x.members = maps.Clone(x.members)
				delete(x.members, old)
				return
			}
			if n := x.nodes[at]; time.Now().After(patience) && x.knowsNobodyUp(n) {
				x.takeDown(at) // the operator tells it of those that joined while it was away
				x.start(at)
			}
			if time.Now().After(limit) {
				x.t.Fatalf("member %d does not come in place of %d: %v", id, old, err)
			}
		}
	}
}

// knowsNobodyUp reports whether none of the others that a member knows is up.
func (x *torture) knowsNobodyUp(n *broadcast.Node) bool {
	for id := range n.Members() {
		if up := x.nodes[id]; up != nil && up != n {
			return false
		}
	}
	return true
}

// crash has a member crash at some point, and come back after a while.
func (x *torture) crash(id machine.NodeID) {
	if x.nodes[id] == nil {
		x.start(id)
		return
	}
	off := make(chan struct{})
	h := x.hosts[id]
	p := &plan{kill: func() { h.disk.Kill(); close(off) }}
	p.op = []string{"", "sync", "write", "rename", "remove", "syncdir", "open"}[x.r.IntN(7)]
	p.in = []string{"", "history", "history", "snap"}[x.r.IntN(4)]
	p.left.Store(1 + x.r.Int64N(20))
	h.plan.Store(p)
	select {
	case <-off:
	case <-time.After(200 * time.Millisecond):
	}
	time.Sleep(time.Duration(x.r.IntN(5)) * time.Millisecond)
	x.takeDown(id)
	time.Sleep(time.Duration(x.r.IntN(200)) * time.Millisecond)
	if x.r.IntN(4) > 0 {
		x.start(id)
	}
}
