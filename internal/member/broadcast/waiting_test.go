package broadcast

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// minority starts one of two members, without the other: it orders nothing.
func minority(t *testing.T) *Node {
	t.Helper()
	return minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:1"}, slog.New(slog.DiscardHandler))
}

// minorityOf is minority with other members, which it knows at least.
func minorityOf(t *testing.T, others map[machine.NodeID]string, logger *slog.Logger, change ...func(*Config)) *Node {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	members := maps.Clone(others)
	members[1] = ln.Addr().String()
	cfg := Config{ID: 1, Group: 7, Members: members, Listener: ln, Dir: t.TempDir(), Logger: logger}
	for _, f := range change {
		f(&cfg)
	}
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { patience.Returns(t, "Close", n.Close) })
	n.acquaint(t, slices.Sorted(maps.Keys(others))...)
	return n
}

// waiters is how many calls wait for something to be ordered.
func (n *Node) waiters() (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, list := range n.waiting {
		count += len(list)
	}
	return count
}

// A call whose message was under way when its member got a state without that client ends with
// ErrUnknown. The message is not broadcast again, because it may have been ordered.
func TestForgottenInAState(t *testing.T) {
	n := minority(t)
	ctx, cancel := context.WithCancel(patience.Soon(t))
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := n.Broadcast(ctx, []byte("x"))
		failed <- err
	}()
	patience.Until(t, "it is under way", func() bool { return n.waiters() == 1 })
	n.mu.Lock()
	group := n.group
	n.mu.Unlock()
	state := abcast.State{Instance: 5, Position: 4, Horizon: 3, Group: group, Clients: clientsDefault}
	n.driver.Offer(machine.Envelope{From: 2, To: 1, Body: abcast.Transfer{Base: abcast.Base{Order: state, Position: 4}}})
	n.driver.Step(abcast.Restored{Position: 4})
	if err := patience.Within(t, failed, "the call returns"); !errors.Is(err, ErrUnknown) || ctx.Err() != nil {
		t.Errorf("got %v, want ErrUnknown, and not because of the context", err)
	}
	if p := n.Position(); p != 4 {
		t.Errorf("the member is at position %d, want 4", p)
	}
}

// A caller that gives up leaves nothing behind, however often it tries again.
func TestWhoLeavesIsForgotten(t *testing.T) {
	n := minority(t)
	client := n.NewClient()
	why := errors.New("it takes too long")
	for range 3 {
		ctx, cancel := context.WithCancelCause(context.Background())
		failed := make(chan error, 2)
		go func() {
			_, err := n.BroadcastAs(ctx, client, 1, []byte("x"))
			failed <- err
		}()
		go func() {
			_, err := n.Broadcast(ctx, []byte("y"))
			failed <- err
		}()
		patience.Until(t, "both are under way", func() bool { return n.waiters() == 2 })
		cancel(why)
		for range 2 {
			if err := patience.Within(t, failed, "the call returns"); !errors.Is(err, ErrUnknown) || !errors.Is(err, why) {
				t.Errorf("got %v, want ErrUnknown because %q", err, why)
			}
		}
		if k := n.waiters(); k != 0 {
			t.Errorf("%d are taken to wait", k)
		}
	}
}

// Nothing is sent for a caller that has left before.
func TestContextThatHasEnded(t *testing.T) {
	n, err := Start(Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if p, err := n.Broadcast(ctx, []byte("x")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
		t.Errorf("position %d, %v; want that the context has ended, and no doubt", p, err)
	}
	if p, err := n.Barrier(context.Background()); err != nil || p != 1 {
		t.Errorf("the next position is %d, %v; want 1", p, err)
	}
}

// A call that waits to be stepped when its node ends is told why, as those are that wait for
// the others.
func TestWhoWaitsIsToldWhy(t *testing.T) {
	n := minority(t)
	n.fail(ErrRemoved)
	_, err := n.wait(patience.Soon(t), &waiter{outcome: make(chan outcome, 1)})
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, ErrRemoved) {
		t.Errorf("a call that waits when the node ends: %v, want %v and %v", err, ErrUnknown, ErrRemoved)
	}
}

// Messages of a node itself are of one client, and numbered from 1: a new client for each message would
// make the group forget others.
func TestANodeIsOneClient(t *testing.T) {
	n, _ := aloneOn(t, 5)
	var client machine.ID
	for m, err := range n.Deliver(patience.Soon(t), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Position == 1 {
			client = m.Client
		}
		if m.Client != client || m.Seq != uint64(m.Position) || client == (machine.ID{}) {
			t.Errorf("message %d of a node is number %d of client %x, want number %d of %x", m.Position, m.Seq, m.Client, m.Position, client)
		}
		if m.Position == 5 {
			break
		}
	}
}

// A caller that has left before its message was taken has nothing sent, and leaves nothing behind.
func TestNothingIsSentForWhoHasLeft(t *testing.T) {
	n := minority(t)
	goOn := make(chan struct{})
	n.driver.Look(func() (abcast.Input, bool) { <-goOn; return nil, false }) // as if much were to be done first
	ctx, cancel := context.WithCancel(patience.Soon(t))
	defer cancel()
	awaited := awaitedContext{ctx, make(chan struct{}, 9)}
	failed := make(chan error, 1)
	go func() {
		_, err := n.Broadcast(awaited, []byte("x"))
		failed <- err
	}()
	for range 2 { // until the member takes part, and then for the outcome
		patience.Within(t, awaited.done, "the call waits")
	}
	cancel()
	if err := patience.Within(t, failed, "the call returns"); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: got %v, want that the context has ended", err)
	}
	close(goOn)
	n.driver.Do(func() {})
	if k := n.waiters(); k != 0 {
		t.Errorf("a call was given up, and %d are taken to wait for what was sent later", k)
	}
}
