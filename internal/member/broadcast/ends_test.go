package broadcast

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A caller that leaves gets its own reason for that, wherever it waits, and hears of no doubt where nothing
// was sent.
func TestWhoLeavesHearsItsReason(t *testing.T) {
	why := errors.New("the operator has left")
	ctx, leave := context.WithCancelCause(patience.Soon(t))
	leave(why)
	n := minority(t)
	takesPart := n.counts
	_, err := n.Broadcast(ctx, []byte("x"))
	if !errors.Is(err, why) || errors.Is(err, ErrUnknown) {
		t.Errorf("it leaves before anything is sent: got %v, want %v, and no doubt", err, why)
	}
	for _, err := range n.Deliver(ctx, 1) {
		if !errors.Is(err, why) {
			t.Errorf("it leaves and waits for messages: got %v, want %v", err, why)
		}
		break
	}
	n.counts = make(chan struct{}) // as that of a directory that too few have noted
	later, leave := context.WithCancelCause(patience.Soon(t))
	awaited := awaitedContext{later, make(chan struct{}, 9)}
	failed := make(chan error, 1)
	go func() {
		_, err := n.Broadcast(awaited, []byte("x"))
		failed <- err
	}()
	patience.Within(t, awaited.done, "the call waits")
	leave(why)
	if err := patience.Within(t, failed, "the call returns"); !errors.Is(err, why) || errors.Is(err, ErrUnknown) {
		t.Errorf("it leaves before the member takes part: got %v, want %v, and no doubt", err, why)
	}
	n.counts = takesPart
}

// A node that has ended says why, also if something else keeps it from ordering a message.
func TestTheEndComesFirst(t *testing.T) {
	for what, tt := range map[string]struct {
		before func(*Node)
		ends   error
	}{
		"one that joins":                     {func(n *Node) { n.group.Members = nil }, ErrRemoved},
		"one that has no room":               {func(n *Node) { n.bytes = 1 << 40 }, ErrRemoved},
		"one that too few others have noted": {func(n *Node) { n.counts = make(chan struct{}) }, ErrForgotten},
	} {
		n := minority(t)
		n.mu.Lock()
		tt.before(n)
		n.end(tt.ends)
		n.mu.Unlock()
		for range 20 { // whether it is its end or its group that it looks at first is a matter of chance
			if _, err := n.Broadcast(patience.Soon(t), []byte("x")); !errors.Is(err, tt.ends) || errors.Is(err, ErrUnknown) {
				t.Errorf("%s has ended: got %v, want %v, and no doubt", what, err, tt.ends)
				break
			}
		}
		for _, err := range n.Deliver(patience.Soon(t), 1) {
			if !errors.Is(err, tt.ends) {
				t.Errorf("%s has ended: Deliver gives %v, want %v", what, err, tt.ends)
			}
			break
		}
		n.mu.Lock()
		n.bytes = 0
		n.mu.Unlock()
	}
}

// A message for which there is no room takes no number of the node's own, and it is its length that
// counts. One with a number of its client is for the protocol to judge: it may have been ordered before.
func TestRoomForAMessage(t *testing.T) {
	n := minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:1"}, slog.New(slog.DiscardHandler), func(c *Config) { c.PendingBytes = 1 << 20 })
	ctx, leave := context.WithCancel(patience.Soon(t))
	defer leave()
	go n.Broadcast(ctx, make([]byte, 600<<10))
	patience.Until(t, "a message waits to be ordered", func() bool { return n.waiters() == 1 })
	n.driver.Do(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		long := make([]byte, 600<<10)
		for what, tt := range map[string]struct {
			m    abcast.Message
			want error
		}{
			"a short one":              {abcast.Message{Payload: long[:1]}, nil},
			"a long one":               {abcast.Message{Payload: long}, ErrBusy},
			"a long one with a number": {abcast.Message{Payload: long, Client: machine.ID{1}, Seq: 1}, nil},
		} {
			if err := n.checkMessage(tt.m); err != tt.want {
				t.Errorf("there is room for 400 KiB, %s: got %v, want %v", what, err, tt.want)
			}
		}
	})
}
