package broadcast

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/wire"
)

// history is the log of delivered messages, by position and without a gap. A record marks a new
// beginning, after messages that are kept elsewhere: it takes the place of the message before.
// One goroutine at a time writes; any number read.
type history struct {
	dir string
	log *wal.Log

	mu   sync.Mutex // guards the fields below
	base Position   // the messages up to here are elsewhere
	at   uint64     // the number in the log of the record that stands for base: the messages follow
	last Position   // the last that is on disk
}

// Kinds of a history's records.
const (
	historyMessage byte = iota + 1
	historyBase
)

// historySegmentBytes is how much of a trimmed history stays at most.
const historySegmentBytes = 16 << 20

// historyDir returns the directory of the history, inside a member's directory.
func historyDir(dir string) string { return filepath.Join(dir, "history") }

// openHistory opens the history in a directory, or makes one, of an owner. It reads the first
// segment and the last one, and of each between only the header and the end. The mark of a new
// beginning is in the first one that is kept, or, if a crash came before the older ones were
// released, in the last.
func openHistory(dir string, owner []byte, opts wal.Options) (*history, error) {
	if opts.SegmentBytes == 0 {
		opts.SegmentBytes = historySegmentBytes
	}
	h := &history{dir: dir}
	exists, err := wal.Exists(dir, opts.FS)
	switch {
	case err != nil:
	case exists:
		if h.log, err = wal.OpenEnds(dir, opts, h.replay); err != nil {
			break
		}
		if !bytes.Equal(h.log.Meta(), owner) {
			return nil, errors.Join(fmt.Errorf("%w: %s", ErrGroup, dir), h.log.Close())
		}
		h.last = h.base + Position(h.log.LastSeq()-h.at) // the last segment may be empty
		if err = h.log.ReleaseTo(h.at); err != nil {
			err = errors.Join(err, h.log.Close())
		}
	default:
		h.log, err = wal.Create(dir, owner, opts)
	}
	if err != nil {
		return nil, fmt.Errorf("broadcast: %w", err)
	}
	return h, nil
}

// replay finds where the history begins and ends.
func (h *history) replay(r wal.Record) error {
	p, _, err := decodeHistory(r)
	switch {
	case err != nil:
		return err
	case p == 0:
		return fmt.Errorf("broadcast: %s has position 0, which there is not", h.dir)
	case r.Kind == historyBase:
		h.begin(p, r.Seq)
	case h.last == 0: // the messages before were released
		h.begin(p-1, r.Seq-1)
	case h.seq(p) != r.Seq: // counted from base, for those between the ends are not here
		return fmt.Errorf("broadcast: %s has position %d in the place of another, behind %d: messages are missing", h.dir, p, h.last)
	}
	h.last = p
	return nil
}

// begin notes that the record of a number stands for the messages up to a position.
func (h *history) begin(base Position, seq uint64) { h.base, h.at, h.last = base, seq, base }

// seq is the number in the log of the message at a position behind base. h.mu is held.
func (h *history) seq(position Position) uint64 { return h.at + uint64(position-h.base) }

// restart begins anew after a position: the messages up to it are kept elsewhere, durably.
func (h *history) restart(base Position) error {
	seq, err := h.log.Append(wal.Record{Kind: historyBase, Payload: encodeHistory(Message{Position: base})})
	if err == nil {
		err = h.log.Sync()
	}
	if err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	h.mu.Lock()
	h.begin(base, seq)
	h.mu.Unlock()
	if err := h.log.ReleaseTo(seq); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return nil
}

// bounds are the position before the first message, and that of the last.
func (h *history) bounds() (trimmed, last Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if first := h.log.FirstSeq(); first > h.at+1 {
		return h.base + Position(first-h.at-1), h.last
	}
	return h.base, h.last
}

// append appends the messages that are not there yet, durably.
func (h *history) append(messages []Message) error {
	_, last := h.bounds()
	for _, m := range messages {
		if m.Position <= last {
			continue
		}
		if m.Position != last+1 {
			return fmt.Errorf("broadcast: %s ends at position %d, and %d is to follow", h.dir, last, m.Position)
		}
		if _, err := h.log.Append(wal.Record{Kind: historyMessage, Payload: encodeHistory(m)}); err != nil {
			return fmt.Errorf("broadcast: %w", err)
		}
		last++
	}
	if err := h.log.Sync(); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	h.mu.Lock()
	h.last = last
	h.mu.Unlock()
	return nil
}

// trim forgets the messages up to a position, as far as whole files go.
func (h *history) trim(position Position) error {
	switch _, last := h.bounds(); {
	case position <= h.base:
		return nil
	case position >= last:
		return h.restart(position)
	}
	if err := h.log.ReleaseTo(h.seq(position) + 1); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return nil
}

func (h *history) close() error { return h.log.Close() }

// cursor reads a history.
type cursor struct {
	from *wal.Reader
	seq  uint64 // of its next record
}

func (c *cursor) close() {
	if c.from != nil {
		c.from.Close()
	}
}

// read returns the message at a position that is not beyond the last.
func (h *history) read(c *cursor, position Position) (m Message, err error) {
	h.mu.Lock()
	seq, trimmed := h.seq(position), position <= h.base
	h.mu.Unlock()
	if trimmed {
		return m, ErrTrimmed
	}
	if c.from == nil || c.seq != seq {
		c.close()
		*c = cursor{h.log.Reader(seq), seq}
	}
	r, err := c.from.Next()
	switch {
	case errors.Is(err, wal.ErrReleased):
		return m, ErrTrimmed
	case err == io.EOF:
		return m, fmt.Errorf("broadcast: %s ends before position %d", h.dir, position)
	case err != nil:
		return m, fmt.Errorf("broadcast: %w", err)
	}
	c.seq++
	p, m, err := decodeHistory(r)
	if err == nil && p != position {
		err = ErrTrimmed // it has begun anew this moment
	}
	return m, err
}

func encodeHistory(m Message) []byte {
	var w writer
	w.Uvarint(uint64(m.Position))
	w.Put(encodeMessage(m))
	return w.Writer
}

func decodeHistory(r wal.Record) (p Position, m Message, err error) {
	in := wire.Reader{Rest: r.Payload}
	p = Position(in.Uvarint())
	m, err = decodeMessage(in.Rest) // of nothing, if the position is damaged
	m.Position = p
	return p, m, err
}

// encodeMessage returns a message, but for its position.
func encodeMessage(m Message) []byte {
	var w writer
	w.Put(m.Client[:])
	w.Uvarint(m.Seq)
	w.flag(m.Members != nil)
	if m.Members == nil {
		w.Put(m.Payload)
	} else {
		w.group(membersOf(m.Members))
	}
	return w.Writer
}

func decodeMessage(b []byte) (m Message, err error) {
	r := &reader{wire.Reader{Rest: b}}
	m.Client, m.Seq = r.client(), r.Uvarint()
	if r.flag() {
		m.Members = addresses(r.group())
	} else if !r.Bad {
		m.Payload, r.Rest = r.Rest, nil
	}
	if !r.Done() {
		return m, errors.New("broadcast: a message is damaged")
	}
	return m, nil
}

// size is about how many bytes a message takes in memory.
func (m Message) size() int { return len(m.Payload) + 96 + 64*len(m.Members) }
