package broadcast_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// An application may take its time to write its state. Delivered messages go to disk meanwhile,
// and the state before can be trimmed. Close ends all else and waits for it.
func TestSlowSnapshot(t *testing.T) {
	g := newGroupOf(t, 1, func(c *broadcast.Config) { c.MemoryBytes = 1000 })
	for i := range 5 {
		g.broadcast(1, fmt.Sprint(i+1))
	}
	g.trim(1, 2)
	node := g.nodes[1]
	begun, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- node.Snapshot(4, func(io.Writer) error {
			close(begun)
			<-goOn
			return nil
		})
	}()
	patience.Within(t, begun, "the snapshot is being written")
	const more = 100 // many times what memory may have: it would be full
	for i := range more {
		g.broadcast(1, fmt.Sprint(i+6))
	}
	if err := node.Trim(2); err != nil {
		t.Error(err)
	}
	g.order(1, 3, 5+more)
	closed := make(chan struct{})
	go func() { defer close(closed); g.stop(1) }()
	for _, err := range node.Deliver(soon(t), 6+more) {
		if !errors.Is(err, broadcast.ErrClosed) {
			t.Error(err)
		}
	}
	select {
	case <-closed:
		t.Error("Close did not wait")
	default:
	}
	close(goOn)
	patience.Within(t, closed, "Close returns")
	if err := patience.Within(t, done, "the call returns"); err != nil && !errors.Is(err, broadcast.ErrClosed) {
		t.Error(err)
	}
}

// slow lets a member's disk take its time for some operations.
type slow struct {
	op, in string
	pause  time.Duration
	of     atomic.Pointer[machine.NodeID]
	held   atomic.Pointer[sync.Mutex] // they wait for it, too, if there is one
}

// onDisks gives the members disks in memory.
func (s *slow) onDisks() func(*broadcast.Config) {
	disks := map[machine.NodeID]*waltest.Disk{}
	return func(c *broadcast.Config) {
		if disks[c.ID] == nil {
			disks[c.ID] = waltest.NewDisk()
		}
		fs, id := disks[c.ID].FS(), c.ID
		fs.Fault = func(op, path string) error {
			if of := s.of.Load(); op == s.op && strings.Contains(path, s.in) && of != nil && *of == id {
				time.Sleep(s.pause)
				if h := s.held.Load(); h != nil {
					h.Lock()
					defer h.Unlock()
				}
			}
			return nil
		}
		c.Dir, c.WAL, c.MemoryBytes = "/data", wal.Options{FS: fs, SegmentBytes: 4 << 10}, 4000
	}
}

// A member catches up even if it takes in a snapshot for longer than the others need to keep
// the next one and trim.
func TestTrimmedWhileOneCatchesUp(t *testing.T) {
	s := &slow{op: "write", in: "snap", pause: 20 * time.Millisecond}
	g := newGroupOf(t, 3, s.onDisks())
	g.broadcast(1, "1")
	g.delivered(3, 1, 1)
	g.stop(3)
	three, n := machine.NodeID(3), 1
	s.of.Store(&three)
	broadcasts := func() {
		for range 10 {
			n++
			g.broadcast(1, fmt.Sprint(n))
		}
		at := broadcast.Position(n)
		g.delivered(2, at, 1)
		for id := machine.NodeID(1); id <= 2; id++ {
			err := g.nodes[id].Snapshot(at, func(w io.Writer) error {
				_, err := w.Write(make([]byte, 2<<20))
				return err
			})
			if err == nil {
				err = g.nodes[id].Trim(at)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		broadcasts()
	}
	g.start(3, nil)
	for ctx := soon(t); g.nodes[3].Position()+50 < broadcast.Position(n); {
		if ctx.Err() != nil {
			t.Fatalf("member 3 is at %d, and the others at %d", g.nodes[3].Position(), n)
		}
		broadcasts()
		time.Sleep(10 * time.Millisecond)
	}
}

// A disk that is too slow for the delivered messages holds its member up; memory stays bounded.
// Others lead then.
func TestSlowDisk(t *testing.T) {
	s := &slow{op: "sync", in: "history"}
	g := newGroupOf(t, 3, s.onDisks())
	g.broadcast(1, "1")
	id := g.nodes[1].Leader()
	g.delivered(id, 1, 1)
	other := id%3 + 1
	var held sync.Mutex
	held.Lock()
	goOn := sync.OnceFunc(func() { s.held.Store(nil); held.Unlock() })
	defer goOn()
	s.held.Store(&held)
	s.of.Store(&id)
	const n = 600 // each takes 100 bytes of memory
	for i := range n - 1 {
		g.broadcast(other, fmt.Sprint(i+2))
	}
	busy := func() bool {
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := g.nodes[id].Broadcast(short, nil)
		return errors.Is(err, broadcast.ErrBusy)
	}
	for ctx := soon(t); !busy(); {
		if ctx.Err() != nil {
			t.Fatal("it goes on taking messages to broadcast")
		}
	}
	// Decisions of one message of peers may come at once: 64 of them, and the pipeline.
	if at := g.nodes[id].Position(); at > 4*4000/96+200 {
		t.Errorf("it has taken %d messages in", at)
	}
	goOn()
	g.order(id, 1, n)
}
