package broadcast

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
)

// historyOf is one of messages up to a position, on a disk in memory.
func historyOf(t *testing.T, last Position) *history {
	t.Helper()
	h, err := openHistory("/data/history", nil, wal.Options{FS: waltest.NewDisk().FS()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.close() })
	if err := h.append(numbered(1, last)); err != nil {
		t.Fatal(err)
	}
	return h
}

// To trim messages that are trimmed already writes nothing.
func TestTrimmedAlready(t *testing.T) {
	h := historyOf(t, 9)
	if err := h.trim(9); err != nil {
		t.Fatal(err)
	}
	before := h.log.LastSeq()
	for _, position := range []Position{9, 5, 1} {
		if err := h.trim(position); err != nil {
			t.Errorf("trims up to %d again: %v", position, err)
		}
		if trimmed, last := h.bounds(); h.log.LastSeq() != before || trimmed != 9 || last != 9 {
			t.Errorf("all is trimmed up to 9, and then up to %d: it goes from %d to %d, and has %d records, want %d", position, trimmed+1, last, h.log.LastSeq(), before)
		}
	}
}

// A reader of a position that is not on disk is told which. One whose position has begun to stand for another
// message since it looked is told that its messages are trimmed.
func TestReadsWhatIsNotThere(t *testing.T) {
	h := historyOf(t, 9)
	var c cursor
	defer c.close()
	if m, err := h.read(&c, 10); err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "/data/history ends before position 10") {
		t.Errorf("behind the end: got %v, %v; want that it ends before position 10", m, err)
	}
	h.mu.Lock()
	h.base++ // as if it began anew
	h.mu.Unlock()
	if m, err := h.read(&c, 5); !errors.Is(err, ErrTrimmed) {
		t.Errorf("position 5 is another message now: got %d, %v; want ErrTrimmed", m.Position, err)
	}
}

// A history has all that a message is, at its position, and whether it is a change of the members.
func TestMessagesOfAHistory(t *testing.T) {
	for what, m := range map[string]Message{
		"a message":            {Position: 300, Client: machine.ID{1, 2}, Seq: 400, Payload: []byte("x")},
		"one without payload":  {Position: 1, Client: machine.ID{3}, Seq: 1},
		"a change":             {Position: 2, Client: machine.ID{3}, Seq: 2, Members: map[machine.NodeID]string{1: "a:1", 7: "b:2"}},
		"a change to no group": {Position: 3, Client: machine.ID{3}, Seq: 3, Members: map[machine.NodeID]string{}},
	} {
		b := encodeHistory(m)
		p, got, err := decodeHistory(wal.Record{Payload: b})
		if err != nil || p != m.Position || got.Position != m.Position || got.Client != m.Client || got.Seq != m.Seq || !bytes.Equal(got.Payload, m.Payload) ||
			(got.Members == nil) != (m.Members == nil) || !maps.Equal(got.Members, m.Members) {
			t.Errorf("%s: %+v is read as %+v at %d, %v", what, m, got, p, err)
		}
		if _, _, err := decodeHistory(wal.Record{Payload: b[:len(b)-len(m.Payload)-2]}); err == nil {
			t.Errorf("%s: cut short, it is taken for a message", what)
		}
	}
	if _, _, err := decodeHistory(wal.Record{Payload: []byte{0x80}}); err == nil {
		t.Error("half a position is taken for a message")
	}
}
