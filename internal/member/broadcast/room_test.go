package broadcast

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Messages of other members wait while memory is full: a member with a slow disk takes in no more than
// its bound.
func TestMessagesWaitForRoom(t *testing.T) {
	n := quiet(t)
	n.mu.Lock()
	n.bytes += memoryFactor*n.cfg.memoryBytes() + 1 // as if a slow disk had not taken it yet
	n.mu.Unlock()
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		n.deliver(2, [][]byte{madeUp(2, abcast.Status{})})
	}()
	select {
	case <-taken:
		t.Error("a message is taken in while memory is full")
	case <-time.After(50 * time.Millisecond):
	}
	n.mu.Lock()
	n.bytes = 0
	n.room.Broadcast()
	n.mu.Unlock()
	patience.Within(t, taken, "the message is taken in")
}

// The keeper looks as soon as memory has too much, and again as long as it has: it does not wait for its next round.
func TestTheKeeperIsToldOfTooMuch(t *testing.T) {
	m := Message{Payload: make([]byte, 1000)}
	few := func(c *Config) { c.MemoryBytes = 4 * m.size() }
	moved := func(n *Node, more Position) func() bool {
		return func() bool { _, last := n.history.bounds(); return last > more }
	}
	n := quiet(t, few)
	for p := range uint64(6) {
		n.handle([]abcast.Outcome{abcast.Delivered{Message: abcast.Message{Client: machine.ID{1}, Seq: p + 1, Payload: m.Payload}, Position: p + 1}})
	}
	patience.Until(t, "what is too much when it is delivered goes to disk", moved(n, 0))

	n = quiet(t, few)
	n.mu.Lock()
	for p := range Position(9) {
		n.remember(Message{Position: p + 1, Payload: m.Payload})
	}
	first := n.log[:1]
	n.mu.Unlock()
	if err := n.appendToHistory(first); err != nil {
		t.Fatal(err)
	}
	n.forget(1)
	patience.Until(t, "what is still too much when some was forgotten goes to disk", moved(n, 1))
}

// A message that could not be queued was not sent.
func TestWhatIsNotQueuedIsNotCounted(t *testing.T) {
	n := quiet(t)
	before := n.Stats().CatchUp
	n.sendNow(machine.Envelope{From: 1, To: 99, Body: want{1}}) // to nobody
	if after := n.Stats().CatchUp; after != before {
		t.Errorf("a message to nobody makes %+v of the %+v that were sent", after, before)
	}
}

// The state of another member takes the place of all messages in memory: whatever waited for room goes
// on.
func TestAnInstalledStateMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{cfg: Config{Logger: slog.New(slog.DiscardHandler)}, delivered: delivered{more: make(chan struct{})}}
		n.room.L = &n.mu
		n.bytes = memoryFactor*n.cfg.memoryBytes() + 1
		went := false
		go func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.awaitRoom()
			went = true
		}()
		synctest.Wait()
		if went {
			t.Fatal("memory is full, and nothing waits")
		}
		n.handle([]abcast.Outcome{abcast.Installed{Position: 9}})
		if synctest.Wait(); !went {
			t.Error("another member's state is installed, and what waited for room waits on")
			n.room.Broadcast()
		}
	})
}

// A member that ends lets go of what waits for room in memory: nothing makes room any more.
func TestTheEndLetsGoOfWhatWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{cfg: Config{Logger: slog.New(slog.DiscardHandler)}, delivered: delivered{more: make(chan struct{})}}
		n.room.L = &n.mu
		n.ctx, n.cancel = context.WithCancel(t.Context())
		n.bytes = memoryFactor*n.cfg.memoryBytes() + 1
		went := false
		go func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.awaitRoom()
			went = true
		}()
		synctest.Wait()
		n.fail(ErrClosed)
		if synctest.Wait(); !went {
			t.Error("the member has ended, and what waited for room waits on")
			n.room.Broadcast()
		}
	})
}

// What memory forgets makes room: whatever waited for it goes on.
func TestWhatIsForgottenMakesRoom(t *testing.T) {
	n := quiet(t, func(c *Config) { c.MemoryBytes = 1000 })
	n.mu.Lock()
	first := n.ram + Position(len(n.log)) + 1
	n.remember(Message{Position: first, Payload: make([]byte, memoryFactor*n.cfg.memoryBytes()+1)})
	waits, went := make(chan struct{}), make(chan struct{})
	go func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		close(waits) // nobody else has the lock before it waits
		n.awaitRoom()
		close(went)
	}()
	n.mu.Unlock()
	patience.Within(t, waits, "it waits")
	n.forget(first)
	select {
	case <-went:
	case <-patience.Soon(t).Done():
		t.Error("all is forgotten, and what waited for room waits on")
		n.room.Broadcast()
	}
}

// A call that has ended waits for nothing, and others that wait for the same message wait on.
func TestACallThatHasEndedIsForgotten(t *testing.T) {
	k := key{machine.ID{1}, 2}
	one, two := &waiter{key: k}, &waiter{key: k}
	n := &Node{waiting: map[key][]*waiter{k: {one, two}}}
	n.removeWaiter(one)
	if got := n.waiting[k]; len(got) != 1 || got[0] != two {
		t.Errorf("of two calls that wait one has ended, and %d wait: %v; want the other", len(got), got)
	}
	n.removeWaiter(two)
	if len(n.waiting) > 0 {
		t.Errorf("both calls have ended, and something is kept of them: %v", n.waiting)
	}
}

// Memory has nothing of before another member's state, and a bound that is counted from there.
func TestMemoryBehindAState(t *testing.T) {
	n := &Node{cfg: Config{Logger: slog.New(slog.DiscardHandler)}, delivered: delivered{more: make(chan struct{})}}
	n.room.L = &n.mu
	n.remember(Message{Position: 1, Payload: make([]byte, 1000)})
	n.handle([]abcast.Outcome{abcast.Installed{Position: 9}})
	if n.bytes != 0 || len(n.log) != 0 || n.Position() != 9 {
		t.Errorf("behind a state of 9 memory has %d messages of %d bytes, and the position is %d; want 0, 0 and 9", len(n.log), n.bytes, n.Position())
	}
}

// A member listens to another in the life that it heard of last, whatever its number, and to none when it is told so.
func TestTheLifeThatIsListenedTo(t *testing.T) {
	n := &Node{company: company{known: map[machine.NodeID]uint64{}}}
	n.room.L = &n.mu
	for _, life := range []uint64{7, 3, 9, 0} {
		n.handle([]abcast.Outcome{listens{to: 2, life: life}})
		if got := n.known[2]; got != life {
			t.Errorf("told to listen to life %d of member 2, it listens to %d", life, got)
		}
	}
}
