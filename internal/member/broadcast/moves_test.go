package broadcast

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// quiet is a member whose keeper looks only when the test wakes it.
func quiet(t *testing.T, change ...func(*Config)) *Node {
	t.Helper()
	change = append(change, func(c *Config) { c.Timeout = time.Hour })
	return minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:1"}, slog.New(slog.DiscardHandler), change...)
}

// Messages beyond the memory's bound go to the history, the oldest first, until a quarter of the bound
// is left. Messages up to a position whose state another member has go there at once, as far as they
// are here.
func TestMemoryMovesToTheHistory(t *testing.T) {
	size := Message{Payload: make([]byte, 1000)}.size()
	for _, tt := range []struct {
		what        string
		memory      int // in messages
		ram         Position
		has         int
		lacks       uint64
		moved, left int
	}{
		{"little", 8, 0, 8, 0, 0, 8},
		{"one message too much", 8, 0, 9, 0, 7, 2},
		{"far too much", 8, 0, 30, 0, 28, 2},
		{"too much behind what was moved before", 8, 20, 9, 0, 7, 2},
		{"what leads to a state", 100, 0, 9, 4, 4, 5},
		{"what leads to a state, behind what was moved before", 100, 20, 9, 24, 4, 5},
		{"all that is here of it", 100, 20, 9, 50, 9, 0},
		{"nothing of it", 100, 20, 9, 20, 0, 9},
		{"nothing of it, and too much", 8, 20, 9, 7, 7, 2},
	} {
		n := quiet(t, func(c *Config) { c.MemoryBytes = tt.memory * size })
		if tt.ram > 0 {
			n.deliverMadeUp(t, 1, tt.ram)
		}
		n.mu.Lock()
		for p := range tt.has {
			n.remember(Message{Position: tt.ram + Position(p+1), Payload: make([]byte, 1000)})
		}
		n.lacks = abcast.Lacks{From: 2, Position: tt.lacks}
		n.mu.Unlock()
		if err := n.moveToHistory(); err != nil {
			t.Fatal(err)
		}
		_, last := n.history.bounds()
		n.mu.Lock()
		if want := tt.ram + Position(tt.moved); last != want || n.ram != want || len(n.log) != tt.left || n.bytes != tt.left*size {
			t.Errorf("%s: the history ends at %d, and memory has %d messages of %d bytes from %d on; want %d, and %d of %d bytes", tt.what, last, len(n.log), n.bytes, n.ram+1, want, tt.left, tt.left*size)
		}
		if len(n.log) > 0 && n.log[0].Position != n.ram+1 {
			t.Errorf("%s: memory begins with position %d, want %d", tt.what, n.log[0].Position, n.ram+1)
		}
		n.mu.Unlock()
		n.Close()
	}
}

// Memory is accounted for by the size of each message, and not by an average.
func TestMemoryIsCountedByMessage(t *testing.T) {
	n := quiet(t)
	n.mu.Lock()
	sizes := []int{0, 5000, 10, 700, 0, 90}
	for i, size := range sizes {
		n.remember(Message{Position: Position(i + 1), Payload: make([]byte, size)})
	}
	n.remember(Message{Position: 7, Members: map[machine.NodeID]string{1: "a:1", 2: "b:1"}})
	n.mu.Unlock()
	for upto := Position(0); upto <= 9; upto += 2 {
		n.forget(upto)
		n.mu.Lock()
		want := 0
		for _, m := range n.log {
			want += m.size()
		}
		if left := int(max(0, 7-min(upto, 7))); len(n.log) != left || n.bytes != want || n.ram != min(upto, 7) {
			t.Errorf("when what leads to %d is forgotten, memory has %d messages from %d on, and %d bytes; want %d and %d", upto, len(n.log), n.ram+1, n.bytes, left, want)
		}
		n.mu.Unlock()
	}
}

// A member that has got more than it lacked, as others went on meanwhile, goes on behind all of it.
func TestMoreThanWasLacked(t *testing.T) {
	n := quiet(t)
	n.mu.Lock()
	group := n.group
	n.mu.Unlock()
	if err := n.appendToHistory(numbered(1, 12)); err != nil {
		t.Fatal(err)
	}
	state := abcast.State{Instance: 5, Position: 10, Horizon: 3, Group: group, Clients: clientsDefault}
	n.driver.Offer(machine.Envelope{From: 2, To: 1, Body: abcast.Transfer{Base: abcast.Base{Order: state, Position: 10}}})
	patience.Until(t, "the member goes on", func() bool { return n.Position() > 0 })
	if p := n.Position(); p != 12 {
		t.Errorf("a member that lacked what led to 10 and has got what led to 12 is at %d, want 12", p)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lacks != (abcast.Lacks{}) {
		t.Errorf("a member that has got all lacks %+v", n.lacks)
	}
}

// A member asks for the messages after its history, and for no more.
func TestAsksForWhatFollowsItsHistory(t *testing.T) {
	var log written
	n := minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:1"}, slog.New(slog.NewTextHandler(&log, nil)), func(c *Config) { c.Timeout = time.Hour })
	n.deliverMadeUp(t, 1, 7)
	n.mu.Lock()
	n.lacks = abcast.Lacks{From: 2, Position: 20}
	n.mu.Unlock()
	n.wakeKeeper()
	asks := func() []string { return lines(log.String(), "asks for the messages that it lacks") }
	patience.Until(t, "it asks", func() bool { return len(asks()) > 0 })
	for _, part := range []string{"member=2", "from=8", "to=20"} {
		if line := asks()[0]; !slices.Contains(strings.Fields(line), part) {
			t.Errorf("a member whose history ends at 7, and that lacks what led to 20, says %q; want %s", line, part)
		}
	}
}

// lines are those of a log that have some words.
func lines(log, words string) (with []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, words) {
			with = append(with, line)
		}
	}
	return with
}

// A stream that brought nothing is no reason to wait: another member is asked at once.
func TestAsksAgainBehindAStreamThatFailed(t *testing.T) {
	var log written
	n := minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:1"}, slog.New(slog.NewTextHandler(&log, nil)), func(c *Config) { c.Timeout = time.Hour })
	n.setLacks(20)
	if err := n.receiveTransfer(2, stream(1, 0, 0), strings.NewReader("\x05junk")); err == nil {
		t.Fatal("junk was taken in")
	}
	patience.Until(t, "it asks", func() bool { return len(lines(log.String(), "asks for the messages that it lacks")) > 0 })
}

// Trimmed messages go file by file; no later message, and none that is held for another member, goes
// with them.
func TestTrimLeavesWhatFollows(t *testing.T) {
	const last = Position(6)
	for p := Position(1); p < last; p++ {
		n, _ := aloneOn(t, 0) // of files that have one message each
		for at := Position(1); at <= last; at++ {
			if err := n.appendToHistory([]Message{{Position: at, Payload: make([]byte, 3<<10)}}); err != nil {
				t.Fatal(err)
			}
		}
		n.mu.Lock()
		n.ram = last
		n.mu.Unlock()
		if err := n.saveState(last); err != nil {
			t.Fatal(err)
		}
		n.mu.Lock()
		n.transfers[2] = &transfer{busy: true, writing: true, from: p + 1}
		n.mu.Unlock()
		if err := n.Trim(last); err != nil {
			t.Fatal(err)
		}
		if trimmed, has := n.history.bounds(); trimmed != p || has != last {
			t.Errorf("messages are held from %d on, and after a Trim of all the history has %d to %d", p+1, trimmed+1, has)
		}
		n.mu.Lock()
		delete(n.transfers, 2)
		n.mu.Unlock()
		if err := n.Trim(p); err != nil {
			t.Fatal(err)
		}
		trimmed, has := n.history.bounds()
		if trimmed != p || has != last {
			t.Errorf("and after a Trim of %d it has %d to %d, want %d to %d", p, trimmed+1, has, p+1, last)
		}
	}
}

// Of several snapshots the last one counts, as when the disk would not remove the one before.
func TestTheLastSnapshotCounts(t *testing.T) {
	n, disk := aloneOn(t, 9)
	if err := n.saveState(3); err != nil {
		t.Fatal(err)
	}
	disk.set(func(op, path string) error {
		if op == "remove" {
			return errBroken
		}
		return nil
	})
	if err := n.saveState(7); err == nil {
		t.Fatal("a snapshot was removed by a disk that removes nothing")
	}
	disk.end()
	at, err := n.newest()
	if at != 7 || err != nil {
		t.Errorf("of the snapshots of 3 and 7 that of %d counts, %v", at, err)
	}
	if err := n.Trim(7); err != nil {
		t.Errorf("a Trim of what the last snapshot has: %v", err)
	}
}

// A state that another member has sent may be further than this one: a message can be trimmed only
// after it was delivered here.
func TestNothingIsTrimmedThatIsNotDelivered(t *testing.T) {
	n, _ := aloneOn(t, 3)
	n.setLacks(99)
	b := snapshotOf(t, 9)
	if err := n.receiveTransfer(2, stream(1, 9, len(b)), strings.NewReader(string(b))); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		position Position
		want     error
	}{{9, ErrPosition}, {4, ErrPosition}, {3, nil}} {
		if err := n.Trim(tt.position); !errors.Is(err, tt.want) {
			t.Fatalf("3 messages are delivered, and there is a snapshot of 9: a Trim of %d gives %v, want %v", tt.position, err, tt.want)
		}
	}
}
