package broadcast

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/patience"
)

// One goroutine at a time writes the history, and one the snapshots: each writer waits for its turn.
func TestWritersTakeTurns(t *testing.T) {
	snapshot := snapshotOf(t, 9)
	history, snapshots := func(n *Node) turn { return n.keeping }, func(n *Node) turn { return n.saving }
	for what, tt := range map[string]struct {
		turn func(n *Node) turn
		does func(n *Node) error
	}{
		"what leaves memory":                   {history, func(n *Node) error { return n.moveToHistory() }},
		"messages that another member sends":   {history, func(n *Node) error { return n.appendToHistory(numbered(1, 5)) }},
		"a snapshot that another member sends": {history, func(n *Node) error { return n.importSnapshot(9, bytes.NewReader(snapshot), int64(len(snapshot))) }},
		"a Trim":                               {history, func(n *Node) error { return n.Trim(2) }},
		"a Snapshot":                           {snapshots, func(n *Node) error { return n.saveState(3) }},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, _ := aloneOn(t, 5)
				if err := n.saveState(2); err != nil {
					t.Fatal(err)
				}
				turn, ended := tt.turn(n), make(chan error, 1)
				turn.Lock() // another has it
				go func() { ended <- tt.does(n) }()
				synctest.Wait()
				if len(ended) > 0 {
					t.Errorf("%s does not wait for its turn", what)
				}
				turn.Unlock()
				if err := patience.Within(t, ended, "what was begun ends"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A member that lacks messages asks at once, and then once in Timeout, until it has all of them. It does not
// ask while it is taking some in.
func TestWhenAMemberAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log written
		cfg := aloneConfig(waltest.NewDisk().FS())
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		n, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		asked := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := len(lines(log.String(), "asks for the messages that it lacks")); got != want {
				t.Errorf("%s it has asked %d times, want %d", when, got, want)
			}
		}
		takes := func(taking bool) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.taking = taking
		}
		synctest.Wait() // the keeper has begun
		n.handle([]abcast.Outcome{abcast.Lacks{From: 2, Position: 20}})
		asked("as soon as it lacks something", 1)
		time.Sleep(n.cfg.timeout() - 1)
		asked("before Timeout is over", 1)
		time.Sleep(time.Nanosecond)
		asked("when Timeout is over", 2)
		takes(true)
		time.Sleep(3 * n.cfg.timeout())
		asked("while it is taking something in", 2)
		takes(false)
		time.Sleep(n.cfg.timeout())
		asked("when that has ended, and something is missing still", 3)
		if err := n.appendToHistory(numbered(1, 19)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(n.cfg.timeout())
		asked("when the last one is missing still", 4)
		if err := n.appendToHistory(numbered(20, 20)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * n.cfg.timeout())
		asked("when it has all", 4)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.lacks != (abcast.Lacks{}) {
			t.Errorf("a member that has just what it lacked lacks %+v", n.lacks)
		}
	})
}

// A history ends where it is on disk: a member goes on behind its end, and readers read up to it.
func TestAHistoryEndsWhereItIsOnDisk(t *testing.T) {
	var h *history
	var ends []Position
	fs := waltest.NewDisk().FS()
	fs.Fault = func(op, path string) error {
		if op == "sync" && h != nil {
			h.mu.Lock()
			ends = append(ends, h.last)
			h.mu.Unlock()
		}
		return nil
	}
	h, err := openHistory("/data", nil, wal.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	for _, tt := range []struct {
		what string
		does func() error
		from Position
	}{
		{"messages", func() error { return h.append(numbered(1, 3)) }, 0},
		{"more messages", func() error { return h.append(numbered(4, 9)) }, 3},
		{"a new beginning", func() error { return h.restart(20) }, 9},
	} {
		ends = nil
		if err := tt.does(); err != nil {
			t.Fatal(err)
		}
		if len(ends) == 0 {
			t.Errorf("%s: nothing is forced", tt.what)
		}
		for _, end := range ends {
			if end != tt.from {
				t.Errorf("%s: before the disk has them the history ends at %d, want %d", tt.what, end, tt.from)
			}
		}
	}
}

// Much that leaves memory is forced by portions: the log's own fsync must not wait for long behind one.
func TestMuchLeavesMemoryByPortions(t *testing.T) {
	syncs := 0
	fs := waltest.NewDisk().FS()
	h, err := openHistory("/data", nil, wal.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	fs.Fault = func(op, path string) error {
		if op == "sync" {
			syncs++
		}
		return nil
	}
	var list []Message
	for p := range Position(12) {
		list = append(list, Message{Position: p + 1, Payload: make([]byte, MessageBytesMax)})
	}
	if err := (&Node{storing: storing{history: h}}).storeInHistory(list); err != nil {
		t.Fatal(err)
	}
	if _, last := h.bounds(); syncs < 3 || last != 12 {
		t.Errorf("%d messages of %d bytes are forced %d times, up to %d; want 3 times or more", len(list), MessageBytesMax, syncs, last)
	}
}

// A message that was forgotten takes no memory any more.
func TestForgottenMessagesAreFreed(t *testing.T) {
	n := quiet(t)
	payloads := func() (of []weak.Pointer[byte]) {
		n.mu.Lock()
		defer n.mu.Unlock()
		for p := range Position(3) {
			m := Message{Position: p + 1, Payload: make([]byte, 1000)}
			n.remember(m)
			of = append(of, weak.Make(&m.Payload[0]))
		}
		return of
	}()
	n.forget(2)
	runtime.GC()
	for i, payload := range payloads {
		if kept := payload.Value() != nil; kept != (i == 2) {
			t.Errorf("of messages 1 to 3 the first two are forgotten, and message %d is in memory: %v", i+1, kept)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.log) != 1 {
		t.Errorf("%d messages are in memory, want 1", len(n.log))
	}
}

// A history whose records make no sense is not gone on with.
func TestHistoriesThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		what    string
		records []wal.Record
		says    string
	}{
		{"a message at position 0", []wal.Record{{Kind: historyMessage, Payload: encodeHistory(Message{})}}, "position 0"},
		{"a beginning behind position 0", []wal.Record{{Kind: historyBase, Payload: encodeHistory(Message{})}}, "position 0"},
		{"a message that is damaged", []wal.Record{{Kind: historyMessage, Payload: []byte{1, 2}}}, "is damaged"},
		{"a message that is behind another's place", []wal.Record{
			{Kind: historyMessage, Payload: encodeHistory(Message{Position: 7})}, {Kind: historyMessage, Payload: encodeHistory(Message{Position: 7})},
		}, "position 7 in the place of another, behind 7"},
	} {
		opts := wal.Options{FS: waltest.NewDisk().FS()}
		log, err := wal.Create("/data", nil, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range tt.records {
			if _, err := log.Append(r); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range []error{log.Sync(), log.Close()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		h, err := openHistory("/data", nil, opts)
		if err == nil {
			trimmed, last := h.bounds()
			t.Errorf("a history with %s is opened, from %d to %d", tt.what, trimmed+1, last)
			h.close()
		} else if !strings.Contains(err.Error(), tt.says) {
			t.Errorf("a history with %s: got %v, want %q", tt.what, err, tt.says)
		}
	}
}
