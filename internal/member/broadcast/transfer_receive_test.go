package broadcast

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
)

// setLacks has a member lack the messages up to a position, which member 2 has.
func (n *Node) setLacks(to Position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[2], n.lacks = lifeOf(2), abcast.Lacks{From: 2, Position: uint64(to)}
}

// stream is the header of a stream from member 2.
func stream(from, at Position, size int) []byte {
	var w writer
	w.Uint64(lifeOf(2))
	w.uvarints(uint64(from), uint64(at), uint64(size))
	return w.Writer
}

// snapshotOf is the file of a snapshot of a position.
func snapshotOf(t *testing.T, at Position) []byte {
	t.Helper()
	log, err := wal.Create("/data", nil, wal.Options{FS: waltest.NewDisk().FS()})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := log.Snapshots().Save(wal.SnapshotInfo{Index: uint64(at)}, func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	r, _, err := log.Snapshots().Export(uint64(at))
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

// A transfer is taken in from its beginning, and the member that sent it is asked next: messages
// alone, a snapshot alone, and both. One snapshot stays.
func TestWhatIsSentIsTakenIn(t *testing.T) {
	for _, tt := range []struct {
		what     string
		snapshot Position
		from, to Position
		has      Position // before
		newest   Position // then
		trimmed  Position
	}{
		{"messages", 0, 1, 5, 0, 0, 0},
		{"messages behind those that are there", 0, 4, 9, 3, 0, 0},
		{"messages some of which are there", 0, 2, 9, 3, 0, 0},
		{"messages that are there", 0, 1, 3, 3, 0, 0},
		{"a snapshot", 9, 0, 0, 0, 9, 9},
		{"a snapshot and what follows it", 9, 10, 15, 3, 9, 9},
		{"a snapshot of less than is there", 9, 10, 15, 12, 9, 0},
		{"a snapshot of all that is there", 9, 10, 15, 9, 9, 0},
	} {
		n, _ := aloneOn(t, 0)
		if tt.has > 0 {
			if err := n.appendToHistory(numbered(1, tt.has)); err != nil {
				t.Fatal(err)
			}
		}
		n.setLacks(99)
		n.mu.Lock()
		n.tries = 4
		n.mu.Unlock()
		var body []byte
		from := max(tt.from, 1)
		if tt.snapshot > 0 {
			body, from = snapshotOf(t, tt.snapshot), 1
		}
		size := len(body)
		last := tt.has
		if tt.to > 0 {
			body = append(body, sent(tt.from, tt.to)...)
		}
		last = max(last, tt.to, tt.snapshot)
		if err := n.receiveTransfer(2, stream(from, tt.snapshot, size), bytes.NewReader(body)); err != nil {
			t.Errorf("%s: got %v", tt.what, err)
		}
		at, err := n.newest()
		trimmed, has := n.history.bounds()
		if at != tt.newest || trimmed != tt.trimmed || has != last || err != nil {
			t.Errorf("%s: there is a snapshot of %d and a history from %d to %d, %v; want %d, %d and %d", tt.what, at, trimmed+1, has, err, tt.newest, tt.trimmed+1, last)
		}
		wantHistory(t, n.history, tt.trimmed+1, last)
		n.mu.Lock()
		if n.taking || n.source != 2 || n.tries >= 4 { // the keeper may have asked again by now
			t.Errorf("%s: something is being taken in %v, the member that gave last is %d, and others were asked %d times since; want false, 2 and fewer than 4", tt.what, n.taking, n.source, n.tries)
		}
		n.mu.Unlock()
		n.Close()
	}
}

// A member keeps one snapshot: the one before goes when another member has sent a newer one.
func TestASentSnapshotReplacesTheOneBefore(t *testing.T) {
	n, _ := aloneOn(t, 3)
	if err := n.saveState(2); err != nil {
		t.Fatal(err)
	}
	n.setLacks(99)
	b := snapshotOf(t, 9)
	if err := n.receiveTransfer(2, stream(1, 9, len(b)), bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if list, err := n.journal.log.Snapshots().List(); err != nil || len(list) != 1 || list[0] != 9 {
		t.Errorf("another member has sent a snapshot of 9, and there are those of %v, %v; want it alone", list, err)
	}
}

// Much is taken in by portions, each of which is the history's before the next is read, and all of it
// is there in the end.
func TestMuchIsTakenInByPortions(t *testing.T) {
	fs, disk := waltest.NewDisk().FS(), &faults{}
	fs.Fault = disk.fail
	cfg := aloneConfig(fs)
	cfg.WAL.SegmentBytes = 0 // or each message would have a file of its own
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	n.setLacks(99)
	var syncs atomic.Int64
	disk.set(func(op, path string) error {
		if op == "sync" && strings.HasPrefix(path, "/data/history") {
			syncs.Add(1)
		}
		return nil
	})
	const messages, size = 12, MessageBytesMax // three portions
	payload := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, size) }
	r, w := io.Pipe()
	go func() {
		for i := range messages {
			b := encodeMessage(Message{Client: machine.ID{1}, Seq: uint64(i + 1), Payload: payload(i)})
			w.Write(binary.AppendUvarint(nil, uint64(len(b))))
			w.Write(b)
			if i == messages/2 {
				if _, has := n.history.bounds(); has == 0 {
					t.Errorf("behind %d messages of %d bytes none is in the history", i, size)
				}
			}
		}
		w.Close()
	}()
	if err := n.receiveTransfer(2, stream(1, 0, 0), r); err != nil {
		t.Fatal(err)
	}
	if k := syncs.Load(); k == 0 || k > 6 {
		t.Errorf("three portions are written with %d syncs, want one or two each", k)
	}
	var c cursor
	defer c.close()
	for i := range messages {
		m, err := n.history.read(&c, Position(i+1))
		if err != nil || m.Seq != uint64(i+1) || !bytes.Equal(m.Payload, payload(i)) {
			t.Errorf("position %d is number %d of its client, of %d bytes, %v; want number %d with the payload that was sent", i+1, m.Seq, len(m.Payload), err, i+1)
		}
	}
}

// If the disk fails under a transfer from another member, the member ends: its messages may be
// lost.
func TestWhatIsSentMeetsABrokenDisk(t *testing.T) {
	snapshot := snapshotOf(t, 9)
	for what, tt := range map[string]struct {
		header, body []byte
		in           string
		ends         bool
	}{
		"messages":                       {stream(1, 0, 0), sent(1, 5), "/data/history", true},
		"the history's beginning":        {stream(1, 9, len(snapshot)), snapshot, "/data/history", true},
		"a snapshot that cannot be kept": {stream(1, 9, len(snapshot)), snapshot, "/data/snap", false},
	} {
		n, disk := aloneOn(t, 0)
		n.setLacks(99)
		disk.set(func(op, path string) error {
			if op == "sync" && strings.HasPrefix(path, tt.in) {
				return errBroken
			}
			return nil
		})
		if err := n.receiveTransfer(2, tt.header, bytes.NewReader(tt.body)); !errors.Is(err, errBroken) {
			t.Errorf("%s: got %v, want %v", what, err, errBroken)
		}
		disk.end()
		if err := n.reason(); errors.Is(err, errBroken) != tt.ends {
			t.Errorf("%s: the member ends because of %v, want that it does: %v", what, err, tt.ends)
		}
		n.mu.Lock()
		if n.taking {
			t.Errorf("%s: it failed, and is being taken in", what)
		}
		n.mu.Unlock()
	}
}

// Messages that came before a stream broke off are kept and made durable, and their sender is asked next. Otherwise
// a bad network would have everything sent again each time.
func TestWhatCameBeforeABreakIsKept(t *testing.T) {
	for _, tt := range []struct {
		what string
		body io.Reader
		has  Position
		says string
	}{
		{"a connection that is lost between messages", io.MultiReader(bytes.NewReader(sent(1, 5)), iotest.ErrReader(errBroken)), 5, errBroken.Error()},
		{"a connection that is lost in a message", io.MultiReader(bytes.NewReader(sent(1, 5)), strings.NewReader("\x09abc"), iotest.ErrReader(errBroken)), 5, errBroken.Error()},
		{"a message that is cut off", io.MultiReader(bytes.NewReader(sent(1, 5)), strings.NewReader("\x09abc")), 5, "a message is cut off"},
		{"a message that is damaged", io.MultiReader(bytes.NewReader(sent(1, 5)), strings.NewReader("\x01a")), 5, "a message is damaged"},
		{"a message that is too large", io.MultiReader(bytes.NewReader(sent(1, 5)), bytes.NewReader(binary.AppendUvarint(nil, 2*MessageBytesMax+1))), 5, "a message of 2097025 bytes"},
		{"nothing", iotest.ErrReader(errBroken), 0, errBroken.Error()},
	} {
		n, _ := aloneOn(t, 0)
		n.setLacks(99)
		err := n.receiveTransfer(2, stream(1, 0, 0), tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %q", tt.what, err, tt.says)
		}
		if _, has := n.history.bounds(); has != tt.has {
			t.Errorf("%s behind 5 messages: the history ends at %d, want %d", tt.what, has, tt.has)
		}
		wantHistory(t, n.history, 1, tt.has)
		n.mu.Lock()
		if gave := n.source == 2; gave != (tt.has > 0) || n.taking {
			t.Errorf("%s: member 2 has brought something %v, want %v; something is being taken in %v", tt.what, gave, tt.has > 0, n.taking)
		}
		n.mu.Unlock()
		if err := n.reason(); err != nil {
			t.Errorf("%s: the member ends because of %v", tt.what, err)
		}
	}
}

// The largest message can be sent, too.
func TestTheLargestMessageIsPulled(t *testing.T) {
	m := Message{Client: machine.ID{1}, Seq: 1, Payload: make([]byte, MessageBytesMax)}
	b := encodeMessage(m)
	got, err := readMessage(bufio.NewReader(bytes.NewReader(append(binary.AppendUvarint(nil, uint64(len(b))), b...))))
	if err != nil || len(got.Payload) != len(m.Payload) || got.Client != m.Client || got.Seq != m.Seq {
		t.Errorf("a message with a payload of %d bytes: got number %d with %d bytes, %v", len(m.Payload), got.Seq, len(got.Payload), err)
	}
}

// A transfer is taken only whole, from a member that is listened to, and while it brings something that
// is lacking. Of another one nothing is read.
func TestTransfersThatAreNotTaken(t *testing.T) {
	const damaged, unneeded = "the header is damaged", "this member does not need messages from"
	for _, tt := range []struct {
		what   string
		header []byte
		now    func(n *Node) // what is so when it comes; n.mu is held
		says   string
	}{
		{"a header that is cut off", stream(4, 0, 0)[:9], nil, damaged},
		{"a header with more behind it", append(stream(4, 0, 0), 0), nil, damaged},
		{"a file of less than nothing", stream(4, 9, -1), nil, damaged},
		{"a snapshot of less than was asked for", stream(4, 3, 10), nil, damaged},
		{"messages behind a gap", stream(5, 0, 0), nil, unneeded},
		{"a life that is not listened to", stream(4, 0, 0), func(n *Node) { n.known[2]++ }, unneeded},
		{"a member that is not listened to", make([]byte, lifeBytes+3), func(n *Node) { delete(n.known, 2) }, unneeded},
		{"nothing is lacking any more", stream(4, 0, 0), func(n *Node) { n.lacks.Position = 3 }, unneeded},
		{"another is being taken in", stream(4, 0, 0), func(n *Node) { n.taking = true }, unneeded},
		{"the member has ended", stream(4, 0, 0), func(n *Node) { n.end(errBroken) }, unneeded},
	} {
		n, _ := aloneOn(t, 0)
		if err := n.appendToHistory(numbered(1, 3)); err != nil {
			t.Fatal(err)
		}
		n.setLacks(99)
		n.mu.Lock()
		if tt.now != nil {
			tt.now(n)
		}
		before := n.taking
		n.mu.Unlock()
		body := bytes.NewReader(sent(4, 9))
		size := body.Len()
		if err := n.receiveTransfer(2, tt.header, body); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: the transfer ends with %v, want %q", tt.what, err, tt.says)
		}
		if body.Len() != size {
			t.Errorf("%s: %d bytes of it are read", tt.what, size-body.Len())
		}
		if _, has := n.history.bounds(); has != 3 {
			t.Errorf("%s: the history ends at %d, want 3", tt.what, has)
		}
		n.mu.Lock()
		if n.taking != before {
			t.Errorf("%s: another may be taken in now: %v, want %v", tt.what, !n.taking, !before)
		}
		n.mu.Unlock()
	}
}

// What is lacking is reported as soon as it is there, though the stream that brought it goes on.
func TestRestoredBeforeTheStreamEnds(t *testing.T) {
	cfg := aloneConfig(waltest.NewDisk().FS())
	cfg.Timeout = time.Hour // the keeper does not look by itself
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	n.setLacks(4)
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- n.receiveTransfer(2, stream(1, 0, 0), r) }()
	for i := range syncBytes/MessageBytesMax + 2 {
		b := encodeMessage(Message{Client: machine.ID{1}, Seq: uint64(i + 1), Payload: make([]byte, MessageBytesMax)})
		w.Write(binary.AppendUvarint(nil, uint64(len(b))))
		w.Write(b)
	}
	patience.Until(t, "what was lacking is reported, and the stream goes on", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.lacks == abcast.Lacks{}
	})
	w.Close()
	if err := patience.Within(t, ended, "what was begun ends"); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
}
