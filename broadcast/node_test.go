package broadcast_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/broadcast"
)

// A lone member plays a round through all that a Node can do.
func TestNode(t *testing.T) {
	ctx, alone := t.Context(), map[broadcast.MemberID]string{1: "localhost:7000"}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := broadcast.Config{ID: 1, Group: 42, Members: alone, Listener: listener, DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}
	n, err := broadcast.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			n.Close()
		}
	}()
	if err := n.Joined(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := n.Broadcast(ctx, []byte("first")); got != 1 || err != nil {
		t.Fatalf("the first message is at %d, %v; want 1", got, err)
	}
	client := n.NewClient()
	if got, err := n.BroadcastAs(ctx, client, 1, []byte("second")); got != 2 || err != nil {
		t.Fatalf("the second message is at %d, %v; want 2", got, err)
	}
	if got, err := n.BroadcastAs(ctx, client, 1, []byte("second")); got != 0 || err != nil {
		t.Errorf("the same number again is at %d, %v; want 0, for it was ordered", got, err)
	}
	if _, err := n.BroadcastAs(ctx, client, 7, nil); !errors.Is(err, broadcast.ErrSequence) {
		t.Errorf("a number out of turn: got %v, want ErrSequence", err)
	}
	if _, err := n.Broadcast(ctx, make([]byte, broadcast.MaxMessageBytes+1)); !errors.Is(err, broadcast.ErrTooLarge) {
		t.Errorf("a payload that is too large: got %v, want ErrTooLarge", err)
	}
	if got, err := n.Barrier(ctx); got < 3 || err != nil {
		t.Errorf("a barrier is at %d, %v; want it behind the messages", got, err)
	}
	if err := n.Waiting(); err != nil {
		t.Errorf("a lone member waits: %v", err)
	}
	if got := n.Members(); !maps.Equal(got, alone) {
		t.Errorf("the members are %v, want %v", got, alone)
	}
	var second broadcast.Message
	for m, err := range n.Deliver(ctx, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if second = m; m.Position == 2 {
			break
		}
	}
	if second.Client != client || second.Seq != 1 || string(second.Payload) != "second" || second.Members != nil {
		t.Errorf("delivered %+v as the second, want client %v's first message", second, client)
	}
	if got := second.Client.String(); len(got) != 32 || strings.Trim(got, "0123456789abcdef") != "" {
		t.Errorf("the client is shown as %q, want its hexadecimal digits", got)
	}

	write := func(w io.Writer) error { _, err := io.WriteString(w, "state"); return err }
	if err := n.Trim(2); !errors.Is(err, broadcast.ErrPosition) {
		t.Errorf("trimming without a snapshot: got %v, want ErrPosition", err)
	}
	if err := errors.Join(n.Snapshot(2, write), n.Trim(2)); err != nil {
		t.Fatal(err)
	}
	for _, err := range n.Deliver(ctx, 1) {
		if !errors.Is(err, broadcast.ErrTrimmed) {
			t.Errorf("a position that is trimmed: got %v, want ErrTrimmed", err)
		}
	}
	at, r, err := n.OpenSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	state, err := io.ReadAll(r)
	r.Close()
	if at != 2 || string(state) != "state" || err != nil {
		t.Errorf("the snapshot of %d is %q, %v; want that of 2", at, state, err)
	}

	// Changes that make no sense reach the member as they are.
	if _, err := n.AddMember(ctx, 2, "localhost:7000"); !errors.Is(err, broadcast.ErrChange) {
		t.Errorf("another's address: got %v, want ErrChange", err)
	}
	if _, err := n.ReplaceMember(ctx, 1, 1, "localhost:7001"); !errors.Is(err, broadcast.ErrChange) {
		t.Errorf("a member in its own place: got %v, want ErrChange", err)
	}
	moved, err := n.AddMember(ctx, 1, "localhost:7001")
	if err != nil {
		t.Fatal(err)
	}
	for m, err := range n.Deliver(ctx, moved) {
		if want := map[broadcast.MemberID]string{1: "localhost:7001"}; err != nil || !maps.Equal(m.Members, want) {
			t.Errorf("the change is delivered with members %v, %v; want %v", m.Members, err, want)
		}
		break
	}
	soon, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if moved, err = n.ReplaceMember(soon, 9, 1, "localhost:7002"); err != nil || n.Members()[1] != "localhost:7002" {
		t.Errorf("the lone member moves, in the place of nobody: at %d, %v, and the members are %v; want it at localhost:7002", moved, err, n.Members())
	}
	none, err := n.RemoveMember(ctx, 9)
	if err != nil || none <= moved {
		t.Errorf("removing no member: at %d, %v; want a position behind %d", none, err, moved)
	}
	if n.Position() < none {
		t.Errorf("the last position is %d, want at least %d", n.Position(), none)
	}

	closed = true
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := n.Broadcast(ctx, nil); !errors.Is(err, broadcast.ErrClosed) {
		t.Errorf("after Close: got %v, want ErrClosed", err)
	}
	if err := n.Waiting(); !errors.Is(err, broadcast.ErrClosed) {
		t.Errorf("after Close nothing is ordered because of %v, want ErrClosed", err)
	}
	cfg.Group, cfg.Listener = 43, nil
	if _, err := broadcast.Start(cfg); err == nil || !strings.Contains(err.Error(), "another group") {
		t.Errorf("another group's directory: got %v, want it refused", err)
	}
}

// A caller that has given up gets no other answer than the reason, from each call that waits.
func TestCallsEndWithTheirContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n, err := broadcast.Start(broadcast.Config{ // it waits to be made a member
		ID: 2, Group: 42, Members: map[broadcast.MemberID]string{1: "127.0.0.1:1"}, Join: true,
		Listener: listener, DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("it takes too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	position := func(_ broadcast.Position, err error) error { return err }
	for call, waits := range map[string]func() error{
		"Broadcast":     func() error { return position(n.Broadcast(ctx, nil)) },
		"BroadcastAs":   func() error { return position(n.BroadcastAs(ctx, n.NewClient(), 1, nil)) },
		"Barrier":       func() error { return position(n.Barrier(ctx)) },
		"AddMember":     func() error { return position(n.AddMember(ctx, 3, "localhost:7003")) },
		"RemoveMember":  func() error { return position(n.RemoveMember(ctx, 3)) },
		"ReplaceMember": func() error { return position(n.ReplaceMember(ctx, 3, 4, "localhost:7003")) },
		"Joined":        func() error { return n.Joined(ctx) },
		"Deliver": func() (last error) {
			for _, err := range n.Deliver(ctx, 1) {
				last = err
			}
			return last
		},
	} {
		ended := make(chan error, 1)
		go func() { ended <- waits() }()
		select {
		case err := <-ended:
			if !errors.Is(err, why) {
				t.Errorf("%s: got %v, want %v", call, err, why)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s goes on waiting for a caller that has given up", call)
		}
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
