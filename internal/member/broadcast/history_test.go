package broadcast_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// little has members keep little in memory, so that they deliver from disk.
func little(g *group) { g.change = func(c *broadcast.Config) { c.MemoryBytes = 1000 } }

func (g *group) restartAll() {
	g.t.Helper()
	for id := range g.members {
		g.stop(id)
		g.start(id, nil)
	}
}

// order wants a member to deliver messages with their own number, but for position, from
// one on.
func (g *group) order(id machine.NodeID, from, to int) {
	g.t.Helper()
	for i, payload := range g.delivered(id, broadcast.Position(from), to-from+1) {
		if payload != fmt.Sprint(from+i) {
			g.t.Fatalf("member %d: position %d is %q", id, from+i, payload)
		}
	}
}

// A slow consumer reads old messages from disk, and holds up nobody.
func TestDeliveredFromDisk(t *testing.T) {
	g := newGroup(t, 3)
	little(g)
	g.restartAll()
	slow, stop := iter.Pull2(g.nodes[2].Deliver(soon(t), 1))
	defer stop()
	for i := range 300 {
		g.broadcast(1, fmt.Sprint(i+1))
		if i%10 > 0 {
			continue
		}
		if m, err, _ := slow(); err != nil || string(m.Payload) != fmt.Sprint(i/10+1) {
			t.Fatalf("a slow consumer at %d: got %q, %v", i/10+1, m.Payload, err)
		}
	}
	for id := range g.nodes {
		g.order(id, 1, 300)
		g.order(id, 150, 300)
	}
	g.restartAll()
	g.broadcast(3, "301")
	for id := range g.nodes {
		g.order(id, 1, 301)
	}
	g.trim(1, 301)
	if _, err, _ := firstOf(g.nodes[1].Deliver(soon(t), 301)); !errors.Is(err, broadcast.ErrTrimmed) {
		t.Errorf("what was trimmed: got %v, want ErrTrimmed", err)
	}
	g.broadcast(1, "302")
	g.order(1, 302, 302)
	g.stop(1)
	g.start(1, nil)
	g.wantSnapshot(1, 301)
	g.order(1, 302, 302)
}

// firstOf returns the first message.
func firstOf(seq iter.Seq2[broadcast.Message, error]) (m broadcast.Message, err error, ok bool) {
	for m, err := range seq {
		return m, err, true
	}
	return m, nil, false
}

// A member that was away while the others trimmed all but their history, or trimmed that, too,
// and kept a snapshot, gets it from them.
func TestFarBehind(t *testing.T) {
	for name, trim := range map[string]broadcast.Position{"history": 0, "snapshot and history": 200} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, 3)
			little(g)
			g.restartAll()
			g.broadcast(1, "1")
			g.delivered(3, 1, 1)
			g.stop(3)
			for i := range 199 {
				g.broadcast(1, fmt.Sprint(i+2))
			}
			g.delivered(2, 1, 200)
			for id := range g.nodes {
				if trim > 0 {
					g.trim(id, trim)
				}
			}
			for i := range 20 {
				g.broadcast(2, fmt.Sprint(i+201))
			}
			g.start(3, nil)
			g.order(3, 220, 220)
			if trim == 0 {
				g.order(3, 1, 220)
			} else {
				if _, err, _ := firstOf(g.nodes[3].Deliver(soon(t), 2)); !errors.Is(err, broadcast.ErrTrimmed) {
					t.Errorf("what nobody has any more: got %v, want ErrTrimmed", err)
				}
				g.wantSnapshot(3, trim)
				g.order(3, int(trim)+1, 220)
			}
			// It has all that the others have: they may go.
			addr := g.join(4)
			// On a busy machine it may be behind again, and its call ends with ErrUnknown.
			if _, err := g.nodes[3].ReplaceMember(soon(t), 1, 4, addr); err != nil && !errors.Is(err, broadcast.ErrUnknown) {
				t.Fatal(err)
			}
			if err := g.nodes[4].Joined(soon(t)); err != nil {
				t.Fatal(err)
			}
			g.stop(1)
			g.stop(2)
			for _, id := range []machine.NodeID{3, 4} {
				g.stop(id)
				g.start(id, nil)
			}
			if p := g.broadcast(4, "222"); p != 222 {
				t.Errorf("the next position is %d, want 222", p)
			}
			g.order(4, int(trim)+1, 220)
		})
	}
}

// A state may be larger than a message.
func TestALargeState(t *testing.T) {
	g := newGroup(t, 3)
	g.broadcast(1, "1")
	g.delivered(3, 1, 1)
	g.stop(3)
	g.broadcast(1, "2")
	g.delivered(2, 2, 1)
	const size = 65 << 20
	part := bytes.Repeat([]byte("Tenure"), 1<<20/6+1)[:1<<20]
	for id := range g.nodes {
		err := g.nodes[id].Snapshot(2, func(w io.Writer) (err error) {
			for n := 0; n < size && err == nil; n += len(part) {
				_, err = w.Write(part)
			}
			return err
		})
		if err == nil {
			err = g.nodes[id].Trim(2)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	g.start(3, nil)
	g.broadcast(2, "3")
	g.order(3, 3, 3)
	at, r, err := g.nodes[3].Install()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	for b := make([]byte, len(part)); ; n += len(b) {
		if _, err := io.ReadFull(r, b); err == io.EOF {
			break
		} else if err != nil || !bytes.Equal(b, part) {
			t.Fatalf("at %d: another state, %v", n, err)
		}
	}
	if at != 2 || n != size {
		t.Errorf("installs %d bytes of position %d, want %d of 2", n, at, size)
	}
}

func TestPositionsThatCannotBe(t *testing.T) {
	g := newGroup(t, 1)
	nothing := func(io.Writer) error { return nil }
	if at, r, err := g.nodes[1].Install(); at != 0 || err != nil {
		t.Errorf("installs %d, %v; and there is no snapshot", at, err)
	} else if b, err := io.ReadAll(r); len(b) > 0 || err != nil {
		t.Errorf("no snapshot has %q, %v", b, err)
	}
	for i := range 3 {
		g.broadcast(1, fmt.Sprint(i+1))
	}
	broken := errors.New("broken")
	for _, tc := range []struct {
		what      string
		got, want error
	}{
		{"a snapshot of what is not ordered", g.nodes[1].Snapshot(4, nothing), broadcast.ErrPosition},
		{"a trim without a snapshot", g.nodes[1].Trim(1), broadcast.ErrPosition},
		{"a snapshot that fails", g.nodes[1].Snapshot(2, func(io.Writer) error { return broken }), broken},
		{"a snapshot", g.nodes[1].Snapshot(2, nothing), nil},
		{"an older snapshot", g.nodes[1].Snapshot(2, nothing), broadcast.ErrPosition},
		{"a trim beyond the snapshot", g.nodes[1].Trim(3), broadcast.ErrPosition},
		{"a trim", g.nodes[1].Trim(1), nil},
		{"the same", g.nodes[1].Trim(1), nil},
	} {
		if !errors.Is(tc.got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.what, tc.got, tc.want)
		}
	}
	g.order(1, 2, 3)
	if err := g.nodes[1].Snapshot(3, nothing); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadDir(filepath.Join(g.dirs[1], "snap")); len(kept) != 1 || err != nil {
		t.Errorf("behind two snapshots there are the files %v, %v; want that of the second", kept, err)
	}
	node := g.nodes[1]
	g.stop(1)
	if err := node.Snapshot(3, nothing); !errors.Is(err, broadcast.ErrClosed) {
		t.Errorf("closed: got %v, want ErrClosed", err)
	}
}
