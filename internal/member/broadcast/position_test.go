package broadcast

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A call that waits for a message, at a member that gets a state with the message, returns a
// position that covers both. Otherwise a read behind a Barrier would show the application's
// older state.
func TestPositionOfWhatCameInAState(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n, err := Start(Config{ // a majority is not there: a Broadcast waits
		ID: 1, Group: 7, Members: map[machine.NodeID]string{1: ln.Addr().String(), 2: "127.0.0.1:1", 3: "127.0.0.1:1"},
		Listener: ln, Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	n.acquaint(t, 2, 3)
	ctx, cancel := context.WithCancel(patience.Soon(t))
	defer cancel()
	type result struct {
		position Position
		err      error
	}
	for i, tt := range []struct {
		what    string
		call    func() (Position, error)
		unknown bool // where it is, or what became of it
	}{
		{"Barrier", func() (Position, error) { return n.Barrier(ctx) }, false},
		{"Broadcast", func() (Position, error) { return n.Broadcast(ctx, []byte("x")) }, false},
		{"AddMember", func() (Position, error) { return n.AddMember(ctx, 4, "127.0.0.1:4") }, true},
	} {
		done := make(chan result)
		go func() {
			position, err := tt.call()
			done <- result{position, err}
		}()
		var k key
		for k.seq == 0 && ctx.Err() == nil {
			n.mu.Lock()
			for k = range n.waiting {
			}
			n.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
		state := uint64(50 * (i + 1))
		n.handle([]abcast.Outcome{abcast.Installed{Position: state}, abcast.Repeated{Client: k.client, Seq: k.seq}})
		got := patience.Within(t, done, "the call returns")
		switch {
		case tt.unknown && !errors.Is(got.err, ErrUnknown):
			t.Errorf("%s: got %v, want ErrUnknown: the change may have been impossible", tt.what, got.err)
		case !tt.unknown && (got.err != nil || got.position != Position(state)):
			t.Errorf("%s: got position %d, %v; want that of the state, %d", tt.what, got.position, got.err, state)
		}
	}
}
