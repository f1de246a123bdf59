package broadcast

import (
	"context"
	"errors"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A caller that gives up takes no other along: another call may wait for the same message, as a
// second try does.
func TestWhoLeavesTakesNobodyAlong(t *testing.T) {
	n := minority(t)
	client := n.NewClient()
	type result struct {
		position Position
		err      error
	}
	call := func(ctx context.Context) chan result {
		done := make(chan result, 1)
		go func() {
			position, err := n.BroadcastAs(ctx, client, 1, []byte("x"))
			done <- result{position, err}
		}()
		return done
	}
	stays := call(patience.Soon(t))
	patience.Until(t, "one call waits", func() bool { return n.waiters() == 1 })
	ctx, cancel := context.WithCancel(patience.Soon(t))
	leaves := call(ctx)
	patience.Until(t, "two calls wait", func() bool { return n.waiters() == 2 })
	cancel()
	if got := patience.Within(t, leaves, "the caller that leaves returns"); !errors.Is(got.err, ErrUnknown) {
		t.Errorf("the call that was given up: got %v, want ErrUnknown", got.err)
	}
	n.mu.Lock()
	n.answer(key{client, 1}, outcome{position: 7})
	n.mu.Unlock()
	select {
	case got := <-stays:
		if got.position != 7 || got.err != nil {
			t.Errorf("the call that waits on: got position %d, %v; want 7", got.position, got.err)
		}
	case <-patience.Soon(t).Done():
		t.Error("another call was given up, and the one that waits on is not answered")
	}
}

// A process that is no member has nothing ordered, and is told why. It may find out only when the
// message is about to be sent.
func TestOnlyMembersBroadcast(t *testing.T) {
	n := minority(t)
	for _, tt := range []struct {
		what   string
		change func()
		want   error
	}{
		{"a member of a group that this one is not in", func() { n.group.Members = n.group.Members[1:] }, ErrNotMember},
		{"one that was removed", func() { n.group.Removed = append(n.group.Removed, membersOf(map[machine.NodeID]string{1: "a:1"})...) }, ErrRemoved},
		{"one that joins", func() { n.group.Members, n.group.Removed = nil, nil }, ErrNotMember},
	} {
		n.mu.Lock()
		tt.change()
		n.mu.Unlock()
		ctx, cancel := context.WithCancel(patience.Soon(t))
		if _, err := n.Broadcast(ctx, []byte("x")); !errors.Is(err, tt.want) || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: got %v, want %v", tt.what, err, tt.want)
		}
		cancel()
	}
	if k := n.waiters(); k != 0 {
		t.Errorf("%d calls are taken to wait", k)
	}
}

// awaitedContext reports when a caller waits for its end.
type awaitedContext struct {
	context.Context
	done chan struct{}
}

func (c awaitedContext) Done() <-chan struct{} {
	c.done <- struct{}{}
	return c.Context.Done()
}

// A caller that waits until its member takes part can give up. Nothing was sent then, so this is
// no case of ErrUnknown.
func TestNothingIsSentBeforeItCounts(t *testing.T) {
	n := minority(t)
	n.counts = make(chan struct{}) // as that of a directory that too few have noted
	ctx, cancel := context.WithCancel(patience.Soon(t))
	defer cancel()
	awaited := awaitedContext{ctx, make(chan struct{}, 9)}
	failed := make(chan error, 1)
	go func() {
		_, err := n.Broadcast(awaited, []byte("x"))
		failed <- err
	}()
	patience.Within(t, awaited.done, "the call waits")
	cancel()
	if err := patience.Within(t, failed, "the call returns"); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
		t.Errorf("given up before the member takes part: got %v, want that the context has ended, and no doubt", err)
	}
}

// Joined waits until the process is a member, or ends, or the caller gives up.
func TestJoinedEnds(t *testing.T) {
	n := minority(t)
	if err := n.Joined(patience.Soon(t)); err != nil {
		t.Errorf("a founder: got %v", err)
	}
	n.joined = make(chan struct{}) // as that of one that joins
	why := errors.New("the operator has left")
	ctx, cancel := context.WithCancelCause(patience.Soon(t))
	cancel(why)
	if err := n.Joined(ctx); !errors.Is(err, why) {
		t.Errorf("a context that has ended: got %v, want why it has", err)
	}
	n.fail(ErrRemoved)
	if err := n.Joined(patience.Soon(t)); !errors.Is(err, ErrRemoved) {
		t.Errorf("a node that has ended: got %v, want why", err)
	}
}

// Where a member listens is checked before anything is sent, by whichever call.
func TestAddressesThatCannotBe(t *testing.T) {
	calls := func(n *Node, addr string) map[string]error {
		ctx, cancel := context.WithCancel(patience.Soon(t))
		defer cancel()
		_, add := n.AddMember(ctx, 3, addr)
		_, replace := n.ReplaceMember(ctx, 2, 3, addr)
		return map[string]error{"AddMember": add, "ReplaceMember": replace}
	}
	for call, err := range calls(minority(t), "nowhere") {
		if !errors.Is(err, ErrChange) {
			t.Errorf("%s of a member that is nowhere: got %v, want ErrChange", call, err)
		}
	}
	alone, _ := aloneOn(t, 0) // and without a listener
	for call, err := range calls(alone, "127.0.0.1:9") {
		if !errors.Is(err, ErrChange) {
			t.Errorf("%s at a member that others cannot reach: got %v, want ErrChange", call, err)
		}
	}
}
