package broadcast

import (
	"errors"
	"reflect"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
)

// awaited are calls that wait for a message, as many as there are channels.
func (n *Node) awaited(k key, calls int) (waiters []*waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for range calls {
		w := &waiter{key: k, outcome: make(chan outcome, 1)}
		n.waiting[k] = append(n.waiting[k], w)
		waiters = append(waiters, w)
	}
	return waiters
}

// answered wants each of some calls to have one outcome, and no call to wait any more.
func (n *Node) answered(t *testing.T, what string, waiters []*waiter, position Position, is error) {
	t.Helper()
	for i, w := range waiters {
		select {
		case o := <-w.outcome:
			if o.position != position || !errors.Is(o.err, is) || is == nil && o.err != nil {
				t.Errorf("%s: call %d of %d gets position %d, %v; want %d, %v", what, i+1, len(waiters), o.position, o.err, position, is)
			}
		default:
			t.Errorf("%s: call %d of %d is not answered", what, i+1, len(waiters))
		}
	}
	if k := n.waiters(); k != 0 {
		t.Errorf("%s: %d calls are taken to wait", what, k)
	}
}

// Each call that waits for a message hears what became of it.
func TestAllWhoWaitForAMessageAreAnswered(t *testing.T) {
	n := minority(t)
	k := key{n.NewClient(), 1}
	for _, tt := range []struct {
		out      abcast.Outcome
		position Position
		err      error
	}{
		{abcast.Delivered{Message: abcast.Message{Client: k.client, Seq: 1}, Position: 1}, 1, nil},
		{abcast.Delivered{Message: abcast.Message{Client: k.client, Seq: 1}, Position: 2, Err: ErrChange}, 2, ErrChange},
		{abcast.Repeated{Client: k.client, Seq: 1}, 0, nil},
		{abcast.Forgotten{Client: k.client, Seq: 1}, 0, ErrUnknown},
		{abcast.Refused{Client: k.client, Seq: 1, Err: abcast.ErrBusy}, 0, ErrBusy},
	} {
		waiters := n.awaited(k, 3)
		n.handle([]abcast.Outcome{tt.out})
		n.answered(t, reflect.TypeOf(tt.out).String(), waiters, tt.position, tt.err)
	}
	waiters := n.awaited(k, 3)
	n.fail(ErrClosed)
	n.answered(t, "the node ends", waiters, 0, ErrClosed)
}

// A state that a member gets replaces the messages in its memory: none of those is counted, or
// delivered, any more. A reader that waits for the next message looks again.
func TestAStateReplacesWhatIsInMemory(t *testing.T) {
	n := minority(t)
	for p := range uint64(3) {
		n.handle([]abcast.Outcome{abcast.Delivered{Message: abcast.Message{Client: n.NewClient(), Seq: 1, Payload: make([]byte, 1000)}, Position: p + 1}})
	}
	n.mu.Lock()
	before, more := n.bytes, n.more
	n.mu.Unlock()
	n.handle([]abcast.Outcome{abcast.Installed{Position: 50}})
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ram != 50 || len(n.log) != 0 || n.bytes != 0 {
		t.Errorf("behind a state of 50 there are %d messages of %d bytes in memory from %d on, want none from 51 on; before they had %d bytes", len(n.log), n.bytes, n.ram+1, before)
	}
	select {
	case <-more:
	default:
		t.Error("a state came, and a call for the next message waits on")
	}
}

// A message counts for the memory that it takes, and for the same when it is forgotten.
func TestMemoryIsCounted(t *testing.T) {
	n := minority(t)
	members := map[machine.NodeID]string{1: "a:1", 2: "b:1"}
	for p, m := range []Message{{Payload: make([]byte, 1000)}, {}, {Members: members}} {
		m.Position = Position(p + 1)
		n.mu.Lock()
		n.remember(m)
		if least := len(m.Payload) + 48 + 16*len(m.Members); n.bytes < least || n.bytes > 4*least+100 {
			t.Errorf("a message of %d bytes and %d members counts for %d, want at least %d", len(m.Payload), len(m.Members), n.bytes, least)
		}
		n.mu.Unlock()
		n.forget(m.Position)
		n.mu.Lock()
		if n.bytes != 0 || len(n.log) != 0 || n.ram != m.Position {
			t.Errorf("message %d is forgotten, and memory has %d bytes in %d messages from %d on", m.Position, n.bytes, len(n.log), n.ram+1)
		}
		n.mu.Unlock()
	}
}

// The member that is trusted to lead is the one of the last change.
func TestLeaderIsTheLast(t *testing.T) {
	n := minority(t)
	for _, id := range []machine.NodeID{2, 1, 2} {
		n.handle([]abcast.Outcome{abcast.Leader{Node: id}})
		if got := n.Leader(); got != id {
			t.Errorf("member %d is trusted to lead now, and Leader says %d", id, got)
		}
	}
}
