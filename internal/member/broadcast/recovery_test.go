package broadcast

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

func numbered(from, to Position) (list []Message) {
	for p := from; p <= to; p++ {
		m := Message{Position: p, Client: machine.ID{1}, Seq: uint64(p), Payload: fmt.Append(nil, p)}
		if p%5 == 0 {
			m.Payload, m.Members = nil, map[machine.NodeID]string{1: "a:1", 2: ""}
		}
		list = append(list, m)
	}
	return list
}

func reopened(t *testing.T, h *history) *history {
	t.Helper()
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openHistory(h.dir, nil, wal.Options{SegmentBytes: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.close() })
	return again
}

// wantHistory wants a history to have the messages between two positions, and none before.
func wantHistory(t *testing.T, h *history, from, to Position) {
	t.Helper()
	if trimmed, last := h.bounds(); trimmed != from-1 || last != to {
		t.Fatalf("the history has %d to %d, want %d to %d", trimmed+1, last, from, to)
	}
	var c cursor
	defer c.close()
	for _, want := range numbered(from, to) {
		if m, err := h.read(&c, want.Position); err != nil || fmt.Sprint(m) != fmt.Sprint(want) {
			t.Fatalf("got %+v, %v; want %+v", m, err, want)
		}
	}
	if _, err := h.read(&c, from-1); !errors.Is(err, ErrTrimmed) {
		t.Errorf("position %d: got %v, want ErrTrimmed", from-1, err)
	}
}

func TestHistory(t *testing.T) {
	h, err := openHistory(filepath.Join(t.TempDir(), "history"), nil, wal.Options{SegmentBytes: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	appends := func(from, to Position) {
		t.Helper()
		if err := h.append(numbered(from, to)); err != nil {
			t.Fatal(err)
		}
	}
	appends(1, 20)
	appends(15, 25) // some are there
	if err := h.append(numbered(27, 27)); err == nil {
		t.Error("a gap was taken")
	}
	h = reopened(t, h)
	wantHistory(t, h, 1, 25)
	if err := h.restart(40); err != nil { // the messages up to there are in a snapshot
		t.Fatal(err)
	}
	wantHistory(t, h, 41, 40)
	h = reopened(t, h)
	wantHistory(t, h, 41, 40)
	for i := range Position(100) {
		appends(41+i, 41+i)
	}
	wantHistory(t, h, 41, 140)
	h = reopened(t, h)
	wantHistory(t, h, 41, 140)
	if err := h.trim(120); err != nil {
		t.Fatal(err)
	}
	trimmed, _ := h.bounds()
	if trimmed < 100 || trimmed > 120 {
		t.Errorf("trimmed up to %d, want a little before 120", trimmed)
	}
	wantHistory(t, h, trimmed+1, 140)
	h = reopened(t, h) // without the record of where it began
	wantHistory(t, h, trimmed+1, 140)
	appends(141, 145)
	if err := h.trim(200); err != nil {
		t.Fatal(err)
	}
	appends(201, 203)
	h = reopened(t, h)
	wantHistory(t, h, 201, 203)
}

// All that there is may be trimmed, again and again: each time takes a record more than
// there are positions.
func TestHistoryIsTrimmedToItsEnd(t *testing.T) {
	h, err := openHistory(filepath.Join(t.TempDir(), "history"), nil, wal.Options{SegmentBytes: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for p := Position(1); p < 40; p += 2 {
		if err := h.append(numbered(p, p+1)); err != nil {
			t.Fatal(err)
		}
		wantHistory(t, h, p, p+1)
		h = reopened(t, h)
		wantHistory(t, h, p, p+1)
		if err := h.trim(p + 1); err != nil {
			t.Fatal(err)
		}
	}
}

// A start reads the ends of a history, and knows the positions between them.
func TestLongHistoryIsOpened(t *testing.T) {
	disk, reads, stuck := waltest.NewDisk(), 0, false
	opens := func() *history {
		fs := disk.FS()
		fs.Fault = func(op, path string) error {
			switch {
			case op == "read":
				reads++
			case op == "remove" && stuck:
				return errors.New("stuck")
			}
			return nil
		}
		h, err := openHistory("/data", nil, wal.Options{FS: fs, SegmentBytes: 1 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := opens()
	const last = 1000
	for p := Position(1); p <= last; p += 10 {
		if err := h.append(numbered(p, p+9)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	reads = 0
	h = opens()
	names, err := disk.FS().ReadDir("/data/wal")
	if err != nil || len(names) < 50 {
		t.Fatalf("segments %v, %v; want many", names, err)
	}
	if most := 2 * len(names); reads > most {
		t.Errorf("%d segments took %d reads, want %d at most", len(names), reads, most)
	}
	wantHistory(t, h, 1, last)
	if err := h.close(); err != nil {
		t.Fatal(err)
	}

	// A crash may leave a last segment that has nothing in it.
	path := "/data/wal/" + names[len(names)-1]
	first, err := strconv.ParseUint(strings.TrimSuffix(names[len(names)-1], ".wal"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	empty := disk.ReadFile(path)
	clear(empty[48:]) // behind the header
	disk.WriteFile(path, empty)
	h = opens()
	wantHistory(t, h, 1, Position(first-1))
	if err := h.append(numbered(Position(first), last)); err != nil {
		t.Fatal(err)
	}
	wantHistory(t, h, 1, last)

	// Records before a beginning need not have been released.
	stuck = true
	if err := h.restart(2000); err == nil {
		t.Fatal("what cannot be removed was released")
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	fs := disk.FS()
	fs.Fault = func(op, path string) error {
		if op == "remove" {
			return errBroken
		}
		return nil
	}
	if h, err := openHistory("/data", nil, wal.Options{FS: fs, SegmentBytes: 1 << 10}); !errors.Is(err, errBroken) {
		t.Errorf("what cannot be removed: the history is %v, %v", h, err)
	}
	if open := fs.Open(); len(open) > 0 {
		t.Errorf("what cannot be removed: it is not opened, and open are %q", open)
	}
	stuck = false
	h = opens()
	wantHistory(t, h, 2001, 2000)
	for p := Position(2001); p <= 2100; p += 10 {
		if err := h.append(numbered(p, p+9)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	wantHistory(t, opens(), 2001, 2100)
}

// A cursor goes on where it is and opens each file once. It leaves none open, though it is sent elsewhere.
func TestCursors(t *testing.T) {
	fs, opened := waltest.NewDisk().FS(), 0
	fs.Fault = func(op, path string) error {
		if op == "open" {
			opened++
		}
		return nil
	}
	h, err := openHistory("/data", nil, wal.Options{FS: fs, SegmentBytes: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	const last = 100
	if err := h.append(numbered(1, last)); err != nil {
		t.Fatal(err)
	}
	names, err := fs.ReadDir("/data/wal")
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(fs.Open())
	var c cursor
	read := func(p Position) {
		t.Helper()
		if m, err := h.read(&c, p); err != nil || m.Position != p {
			t.Fatalf("at %d got %d, %v", p, m.Position, err)
		}
	}
	opened = 0
	for p := Position(1); p <= last; p++ {
		read(p)
	}
	if opened > len(names) {
		t.Errorf("to read %d messages in %d files took %d openings", last, len(names), opened)
	}
	for _, p := range []Position{50, 1, 2, 90, last} {
		read(p)
	}
	c.close()
	if open := fmt.Sprint(fs.Open()); open != before {
		t.Errorf("a cursor that is closed leaves open %s, and before there were %s", open, before)
	}
}

// A record of a history that is cut short, or has something behind it, is damaged.
func TestDamagedHistory(t *testing.T) {
	m := Message{Position: 300, Client: machine.ID{1}, Seq: 300, Members: map[machine.NodeID]string{1: "a:1", 2: ""}}
	whole := encodeHistory(m)
	if p, got, err := decodeHistory(wal.Record{Payload: whole}); err != nil || p != 300 || fmt.Sprint(got) != fmt.Sprint(m) {
		t.Errorf("got %d, %+v, %v; want %+v", p, got, err, m)
	}
	for n := range whole {
		if _, got, err := decodeHistory(wal.Record{Payload: whole[:n]}); err == nil {
			t.Errorf("%d bytes of %d are read as %+v", n, len(whole), got)
		}
	}
	if _, got, err := decodeHistory(wal.Record{Payload: append(whole, 0)}); err == nil {
		t.Errorf("with a byte behind it: got %+v", got)
	}
}

// A log whose history is gone is refused, and so is a history whose beginning or whose log is
// gone, or that is another group's.
func TestHistoryGone(t *testing.T) {
	for _, gone := range []string{"history", "snap", "wal"} {
		for _, trim := range []Position{0, 10} {
			if gone == "snap" && trim == 0 {
				continue // there is none
			}
			t.Run(fmt.Sprintf("%s trimmed %d", gone, trim), func(t *testing.T) {
				says := "messages are missing"
				switch {
				case gone == "wal" && trim > 0:
					says = "there are snapshots but no log"
				case gone == "wal":
					says = "has a history and no log"
				}
				historyGone(t, trim, says, func(dir string) error { return os.RemoveAll(filepath.Join(dir, gone)) })
			})
		}
	}
	t.Run("another's", func(t *testing.T) {
		historyGone(t, 10, ErrGroup.Error(), func(dir string) error {
			other := Config{ID: 1, Group: 8, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir(), MemoryBytes: 200}
			if err := filled(t, other).Close(); err != nil {
				return err
			}
			if err := os.RemoveAll(historyDir(dir)); err != nil {
				return err
			}
			return os.Rename(historyDir(other.Dir), historyDir(dir))
		})
	})
}

func historyGone(t *testing.T, trim Position, says string, goes func(dir string) error) {
	t.Helper()
	cfg := Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir(), MemoryBytes: 200}
	n := filled(t, cfg)
	if trim > 0 {
		if err := n.Snapshot(trim, func(io.Writer) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := n.Trim(trim); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := goes(cfg.Dir); err != nil {
		t.Fatal(err)
	}
	if n, err := Start(cfg); err == nil {
		t.Errorf("starts at %d", n.Position())
		n.Close()
	} else if !strings.Contains(err.Error(), says) {
		t.Errorf("it does not start: %v; want %q", err, says)
	}
}

// filled starts a member, which has ten messages and some of them in its history only.
func filled(t *testing.T, cfg Config) *Node {
	t.Helper()
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for n.Position() < 10 {
		if _, err := n.Barrier(patience.Soon(t)); err != nil && !errors.Is(err, ErrBusy) { // the disk may be slow
			t.Fatal(err)
		}
	}
	for base := uint64(0); base == 0; {
		n.driver.Do(func() { base = n.machine.Base().Position })
	}
	return n
}

// A damaged stream, or one that was not asked for, changes nothing.
func TestStreamsThatCannotBe(t *testing.T) {
	cfg := Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir()}
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	from, err := wal.Create(t.TempDir(), nil, wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	state := func(at uint64) []byte {
		if err := from.Snapshots().Save(wal.SnapshotInfo{Index: at}, func(io.Writer) error { return nil }); err != nil {
			t.Fatal(err)
		}
		r, _, err := from.Snapshots().Export(at)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	snapshot := state(9)
	size := len(snapshot)
	n.mu.Lock()
	n.known[2] = lifeOf(2)
	n.mu.Unlock()
	inLife := func(life uint64, values ...uint64) []byte {
		var w writer
		w.Uint64(life)
		w.uvarints(values...)
		return w.Writer
	}
	header := func(values ...uint64) []byte { return inLife(lifeOf(2), values...) }
	good := sent(1, 1)
	message := func(size uint64) []byte { return append(binary.AppendUvarint(nil, size), 1, 2, 3) }
	n.mu.Lock()
	n.lacks = abcast.Lacks{From: 2, Position: 20}
	n.mu.Unlock()
	for _, tt := range []struct {
		what   string
		header []byte
		body   []byte
	}{
		{"no header", nil, nil},
		{"half a header", header(1, 0), nil},
		{"too long a header", header(1, 0, 0, 0), nil},
		{"messages behind a gap", header(2, 0, 0), nil},
		{"a snapshot of less than is missing", header(1, 0, uint64(size)), snapshot},
		{"a snapshot of another position", header(1, 8, uint64(size)), snapshot},
		{"half a snapshot", header(1, 9, uint64(size)), snapshot[:size/2]},
		{"too short a snapshot", header(1, 9, uint64(size)-1), snapshot},
		{"a negative size", header(1, 9, 1<<63), snapshot},
		{"a message that is too large", header(1, 0, 0), message(1 << 62)},
		{"a message that is cut off", header(1, 0, 0), message(4)},
		{"a message that is damaged", header(1, 0, 0), message(3)},
		{"a message of another life", inLife(lifeOf(3), 1, 0, 0), good},
		{"a message of no life", inLife(0, 1, 0, 0), good},
	} {
		if err := n.receiveTransfer(2, tt.header, bytes.NewReader(tt.body)); err == nil {
			t.Errorf("%s was taken", tt.what)
		}
		at, err := n.newest()
		if trimmed, last := n.history.bounds(); at+trimmed+last != 0 || err != nil {
			t.Fatalf("%s: a snapshot of %d, a history from %d to %d, %v", tt.what, at, trimmed, last, err)
		}
	}
	if err := n.receiveTransfer(2, header(1, 9, uint64(size)+3), bytes.NewReader(append(snapshot, 1, 2, 3))); err == nil {
		t.Error("a snapshot with something behind it was taken")
	}
	if _, last := n.history.bounds(); last != 0 {
		t.Errorf("the history ends at %d", last)
	}
	if err := n.receiveTransfer(2, header(1, 9, uint64(size)), bytes.NewReader(snapshot)); err != nil {
		t.Error(err)
	}
	if _, last := n.history.bounds(); last != 9 {
		t.Errorf("the history ends at %d, want 9", last)
	}

	// One stream at a time is taken in.
	body, pipe := io.Pipe()
	first := make(chan error, 1)
	go func() {
		err := n.receiveTransfer(2, header(10, 0, 0), body)
		body.Close()
		first <- err
	}()
	if _, err := pipe.Write(sent(10, 11)); err != nil { // it is being taken in
		t.Fatal(err)
	}
	if err := n.receiveTransfer(2, header(10, 0, 0), bytes.NewReader(sent(10, 15))); err == nil {
		t.Error("two streams were taken in at a time")
	}
	pipe.Close()
	if err := patience.Within(t, first, "the first call returns"); err != nil {
		t.Error(err)
	}
	if err := n.receiveTransfer(2, header(12, 0, 0), bytes.NewReader(sent(12, 15))); err != nil {
		t.Errorf("behind another stream: %v", err)
	}

	// A state that comes late does not take away the messages behind it.
	older := state(12)
	if err := n.receiveTransfer(2, header(10, 12, uint64(len(older))), bytes.NewReader(older)); err != nil {
		t.Error(err)
	}
	if trimmed, last := n.history.bounds(); trimmed != 9 || last != 15 {
		t.Errorf("behind a state of 12 the history has %d to %d, want 10 to 15", trimmed+1, last)
	}

	n.mu.Lock()
	n.lacks = abcast.Lacks{}
	n.mu.Unlock()
	if err := n.receiveTransfer(2, header(16, 0, 0), bytes.NewReader(sent(16, 16))); err == nil {
		t.Error("messages were taken that this member does not lack")
	}
	n.mu.Lock()
	n.lacks = abcast.Lacks{From: 2, Position: 20}
	n.mu.Unlock()
	if err := n.receiveTransfer(3, inLife(0, 16, 0, 0), bytes.NewReader(sent(16, 16))); err == nil {
		t.Error("messages were taken of a member that is not known")
	}
	if _, err := readMessage(bufio.NewReader(bytes.NewReader(message(2*MessageBytesMax + 1)))); err == nil || !strings.Contains(err.Error(), "a message of 2") {
		t.Errorf("a message of %d bytes: got %v, want that it is too long", 2*MessageBytesMax+1, err)
	}
}

// sent returns messages as they are sent to a member that lacks them.
func sent(from, to Position) (stream []byte) {
	for _, m := range numbered(from, to) {
		b := encodeMessage(m)
		stream = append(binary.AppendUvarint(stream, uint64(len(b))), b...)
	}
	return stream
}

// Messages that a history is given to keep, and the mark of a new beginning, are on disk before
// the member relies on them.
func TestHistoryIsOnDiskFirst(t *testing.T) {
	var synced atomic.Bool
	fs := waltest.NewDisk().FS()
	fs.Fault = func(op, path string) error {
		switch {
		case !strings.Contains(path, "history"):
		case op == "write":
			synced.Store(false)
		case op == "sync":
			synced.Store(true)
		}
		return nil
	}
	n, err := Start(Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: "/data", WAL: wal.Options{FS: fs}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	n.mu.Lock()
	n.known[2], n.lacks = lifeOf(2), abcast.Lacks{From: 2, Position: 99}
	n.mu.Unlock()
	header := stream(1, 0, 0)
	for _, tt := range []struct {
		what string
		does func() error
	}{
		{"what another member sends", func() error { return n.receiveTransfer(2, header, bytes.NewReader(sent(1, 5))) }},
		{"what memory is to forget", func() error { return n.storeInHistory(numbered(6, 9)) }},
		{"that the history begins anew", func() error { return n.history.restart(20) }},
	} {
		synced.Store(false)
		if err := tt.does(); err != nil {
			t.Fatal(err)
		}
		if !synced.Load() {
			t.Errorf("%s: it counts, and is not on disk", tt.what)
		}
	}
}

// Messages that are missing in the middle of a history, or at its end, are noticed.
func TestHistoryWithAGap(t *testing.T) {
	dir := t.TempDir()
	log, err := wal.Create(dir, nil, wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range append(numbered(1, 3), numbered(5, 6)...) {
		if _, err := log.Append(wal.Record{Kind: historyMessage, Payload: encodeHistory(m)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(log.Sync(), log.Close()); err != nil {
		t.Fatal(err)
	}
	if h, err := openHistory(dir, nil, wal.Options{}); err == nil {
		h.close()
		t.Error("a history without its fourth message is gone on with")
	} else if !strings.Contains(err.Error(), "messages are missing") {
		t.Errorf("a history without its fourth message: %v", err)
	}
	t.Run("shorter than the log", func(t *testing.T) {
		historyGone(t, 0, "messages are missing", func(dir string) error {
			if err := os.RemoveAll(historyDir(dir)); err != nil {
				return err
			}
			h, err := openHistory(historyDir(dir), Config{ID: 1, Group: 7}.owner(), wal.Options{})
			if err != nil {
				return err
			}
			return errors.Join(h.append(numbered(1, 2)), h.close())
		})
	})
}

// A history has to go on to where the log begins, and a snapshot to where the history begins: one message less is missing.
func TestOneMessageIsMissing(t *testing.T) {
	cfg := Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: t.TempDir(), MemoryBytes: 200}
	n := filled(t, cfg)
	const snapshot = 3
	if err := n.saveState(snapshot); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	base := Position(n.machine.Base().Position)
	if base < snapshot+3 {
		t.Fatalf("the log begins behind position %d, which is too early for this test", base)
	}
	for _, tt := range []struct {
		trimmed, last Position
		missing       bool
	}{{0, base - 1, true}, {snapshot + 1, base, true}, {snapshot, base - 1, true}, {snapshot, base, false}, {0, base, false}} {
		if err := os.RemoveAll(historyDir(cfg.Dir)); err != nil {
			t.Fatal(err)
		}
		h, err := openHistory(historyDir(cfg.Dir), cfg.owner(), wal.Options{})
		if err == nil && tt.trimmed > 0 {
			err = h.restart(tt.trimmed)
		}
		if err == nil {
			err = errors.Join(h.append(numbered(tt.trimmed+1, tt.last)), h.close())
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := Start(cfg)
		if missing := err != nil && strings.Contains(err.Error(), "messages are missing"); missing != tt.missing || !missing && err != nil {
			t.Errorf("with a snapshot of %d, a history from %d to %d and a log from %d on it starts with %v; want that messages are missing: %v", snapshot, tt.trimmed+1, tt.last, base+1, err, tt.missing)
		}
		if err == nil {
			n.Close()
		}
	}
}
