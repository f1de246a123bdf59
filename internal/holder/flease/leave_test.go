package flease

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// TestLeavesWhileAdmitted: a caller leaves at the very moment in which its claim is admitted. Either
// the tenure begins, and the caller has to release it, or the claim is given back.
func TestLeavesWhileAdmitted(t *testing.T) {
	const tries = 100
	ours, theirs := net.Pipe()
	given := map[uint64]bool{} // the claims that were given back
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := newLines(theirs, lineBytesMax); ; {
			var r request
			if in.receive(&r) != nil {
				return
			}
			if r.Op == "release" {
				given[r.ID] = true
			}
		}
	}()
	c := &Client{cfg: ClientConfig{Clock: clock.System}}
	c.clocks.Mono, c.calls = clock.System, holder.NewCalls(context.Background(), nil)
	n := &clientConn{client: c, lines: newLines(ours, answerBytesMax), asked: map[uint64]*question{}, leases: map[uint64]*clientLease{}, more: make(chan struct{}, 1)}
	n.ctx, n.end = context.WithCancelCause(t.Context())
	for range tries {
		id, _, err := n.ask(request{Op: "acquire"}, &clientLease{Lease: holder.Make(&c.clocks, "x", "h", nil), ttl: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		// All wait for the lock for so long that it is handed from one to the next.
		var both sync.WaitGroup
		n.mu.Lock()
		both.Go(func() {
			n.take(event{Event: "acquired", ID: id, Token: 1, Until: clock.System.Now().Add(time.Hour)})
		})
		time.Sleep(time.Millisecond)
		both.Go(func() { // so that taking the event would go on in between, if it could
			n.mu.Lock()
			time.Sleep(time.Millisecond)
			n.mu.Unlock()
		})
		time.Sleep(time.Millisecond)
		both.Go(func() { n.leave(id) })
		time.Sleep(2 * time.Millisecond)
		n.mu.Unlock()
		n.mu.Lock()
		time.Sleep(time.Millisecond)
		n.mu.Unlock()
		both.Wait()
	}
	for _, l := range n.leases {
		_ = l.End(errReleased)
	}
	c.running.Wait()
	ours.Close()
	<-read
	for id := range uint64(tries) {
		begun := n.leases[id+1] != nil
		if back := given[id+1]; begun == back {
			t.Fatalf("claim %d was begun: %v, and given back: %v", id+1, begun, back)
		}
	}
}

// closing is a listener that looks at a path when it is closed.
type closing struct {
	net.Listener
	path  string
	there bool
}

func (c *closing) Close() error {
	_, err := os.Lstat(c.path)
	c.there = err == nil
	return nil
}

// TestRemovesItsOwnSocketOnly: when a listener is closed, the next peer may already have its socket
// at the path.
func TestRemovesItsOwnSocketOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peer.sock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &closing{path: path}
	l := &socketListener{Listener: c, path: path}
	if err := l.Close(); err != nil || c.there {
		t.Errorf("nobody listens, and the socket is still to be removed, which may be the next peer's by then: %v, %v", c.there, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("closed once more, it removes the next peer's socket: %v", err)
	}
}
