package broadcast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// fault fails one operation of a member's disk from when it is switched on.
type fault struct {
	op  string
	in  string // part of a path
	err error
	on  atomic.Pointer[machine.NodeID]
}

// onDisks is a group of three whose disks are in memory.
func (f *fault) onDisks(t *testing.T, change func(*broadcast.Config)) (*group, map[machine.NodeID]*waltest.Disk) {
	disks := map[machine.NodeID]*waltest.Disk{}
	for id := machine.NodeID(1); id <= 3; id++ {
		disks[id] = waltest.NewDisk()
	}
	g := newGroupOf(t, 3, func(c *broadcast.Config) {
		fs, id := disks[c.ID].FS(), c.ID
		fs.Fault = func(op, path string) error {
			if on := f.on.Load(); op == f.op && strings.Contains(path, f.in) && on != nil && *on == id {
				return f.err
			}
			return nil
		}
		c.Dir, c.WAL = "/data", wal.Options{FS: fs, SegmentBytes: 8 << 10}
		if change != nil {
			change(c)
		}
	})
	for _, node := range g.nodes {
		g.until("a member takes no part", node, takesPart)
	}
	return g, disks
}

// A member whose log cannot be written ends, and says so. Two of three are up, so nothing is
// ordered unless that member says that it has it on disk.
func TestDiskFails(t *testing.T) {
	for _, tt := range []struct {
		name    string
		op      string
		err     error
		payload int
		leader  bool // it is the leader's disk
	}{
		{"an fsync of the leader", "sync", syscall.EIO, 10, true},
		{"an fsync of a follower", "sync", syscall.EIO, 10, false},
		{"the leader's disk is full", "write", syscall.ENOSPC, 10, true},
		{"a follower's disk is full", "write", syscall.ENOSPC, 10, false},
		{"no room for a segment", "preallocate", syscall.ENOSPC, 10 << 10, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fault{op: tt.op, err: tt.err}
			g, disks := f.onDisks(t, nil)
			g.broadcast(1, "before")
			leader := g.nodes[1].Leader()
			others := slices.DeleteFunc([]machine.NodeID{1, 2, 3}, func(id machine.NodeID) bool { return id == leader })
			broken, well, away := others[0], leader, others[1]
			if tt.leader {
				broken, well = well, broken
			}
			for id := range g.nodes {
				g.delivered(id, 1, 1)
			}
			g.stop(away)
			f.on.Store(&broken)

			// Calls that wait there get ErrUnknown, and later ones get the reason.
			node := g.nodes[broken]
			_, err := node.Broadcast(soon(t), make([]byte, tt.payload))
			early := tt.op == "sync" // it may be the fsync of "before" that fails, and the broadcast comes later
			if !errors.Is(err, broadcast.ErrUnknown) && !early || !errors.Is(err, tt.err) || !errors.Is(err, wal.ErrFailed) {
				t.Fatalf("a broadcast while the disk fails: %v; want ErrUnknown because of %v", err, tt.err)
			}
			if _, err := node.Broadcast(soon(t), nil); !errors.Is(err, wal.ErrFailed) || errors.Is(err, broadcast.ErrUnknown) {
				t.Errorf("a broadcast later: %v; want that the log failed", err)
			}
			var last error
			for _, err := range node.Deliver(soon(t), 2) {
				last = err
			}
			if !errors.Is(last, wal.ErrFailed) {
				t.Errorf("delivery ends with %v, want that the log failed", last)
			}

			// It has acknowledged nothing of that: with its word there would be a majority.
			short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			for m, err := range g.nodes[well].Deliver(short, 2) {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("member %d delivers %d with %d bytes, %v; want nothing", well, m.Position, len(m.Payload), err)
				}
				break
			}

			// With a disk that has lost all that was not synced, it goes on.
			after, survivor := make(chan error, 1), g.nodes[well]
			go func() {
				_, err := survivor.Broadcast(soon(t), []byte("after"))
				after <- err
			}()
			g.stop(broken)
			disks[broken].Crash(rand.New(rand.NewPCG(1, 1)))
			f.on.Store(nil)
			g.start(broken, nil)
			if err := patience.Within(t, after, "the call behind the fault returns"); err != nil {
				t.Fatalf("a broadcast at member %d, when the other is back: %v", well, err)
			}
			g.start(away, nil)
			n := int(g.broadcast(away, "all"))
			want := g.delivered(away, 1, n)
			if want[0] != "before" || !slices.Contains(want, "after") {
				t.Errorf("%d messages are ordered, without what was acknowledged", n)
			}
			for _, id := range []machine.NodeID{broken, well} {
				if got := g.delivered(id, 1, n); !slices.Equal(got, want) {
					t.Errorf("members %d and %d have different orders of %d messages", id, away, n)
				}
			}
		})
	}
}

// The connections of a member whose log failed end with it. The others go on at once, here
// sooner than by a timeout.
func TestDiskOfTheLeaderFails(t *testing.T) {
	f := &fault{op: "sync", err: syscall.EIO}
	g, _ := f.onDisks(t, func(c *broadcast.Config) { c.Timeout = time.Minute })
	g.broadcast(1, "before")
	leader := g.nodes[1].Leader()
	f.on.Store(&leader)
	g.broadcast(leader%3+1, "after")
}

// A member that cannot keep its delivered messages ends, too, before it forgets them elsewhere.
func TestHistoryFails(t *testing.T) {
	f := &fault{op: "sync", in: "history", err: syscall.EIO}
	g, disks := f.onDisks(t, func(c *broadcast.Config) { c.MemoryBytes = 1000 })
	g.broadcast(1, "1")
	broken := machine.NodeID(2)
	f.on.Store(&broken)
	for i := range 30 {
		g.broadcast(1, fmt.Sprint(i+2))
	}
	var last error
	for _, err := range g.nodes[broken].Deliver(soon(t), 1) {
		last = err
	}
	if !errors.Is(last, wal.ErrFailed) {
		t.Errorf("delivery ends with %v, want that the log failed", last)
	}
	g.stop(broken)
	disks[broken].Crash(rand.New(rand.NewPCG(1, 1)))
	f.on.Store(nil)
	g.start(broken, nil)
	g.order(broken, 1, 31)
}
