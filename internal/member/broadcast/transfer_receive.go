package broadcast

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// want asks a member for a state transfer: the messages from a position on or, if they are trimmed,
// its newest snapshot and the messages after that. The answer is a stream. Its header has the life
// of the sender (8 bytes), the position that was asked for, the position of the snapshot, and the
// size of the snapshot's file (uvarints; 0 if there is none). Then come the file, and the messages,
// each behind its length (a uvarint).
type want struct{ From Position }

// receiveTransfer takes in the stream of another member. Messages that came before an error are kept.
func (n *Node) receiveTransfer(from machine.NodeID, header []byte, body io.Reader) error {
	h := wire.Reader{Rest: header}
	life, first, at, size := h.Uint64(), Position(h.Uvarint()), Position(h.Uvarint()), int64(h.Uvarint())
	if !h.Done() || size < 0 || size > 0 && at < first {
		return errors.New("the header is damaged")
	}
	_, has := n.history.bounds()
	n.mu.Lock()
	known := n.known[from]
	wanted := !n.taking && known != 0 && known == life && first <= has+1 && has < Position(n.lacks.Position) && n.err == nil
	n.taking = n.taking || wanted
	n.mu.Unlock()
	if !wanted {
		return fmt.Errorf("this member does not need messages from %d on", first)
	}
	defer n.wakeKeeper()
	defer func() {
		n.mu.Lock()
		n.taking = false
		n.mu.Unlock()
	}()
	n.cfg.Logger.Info("broadcast: a state transfer from another member begins", "member", from, "from", first, "snapshot", at)
	if size > 0 {
		if err := n.importSnapshot(at, body, size); err != nil {
			return err
		}
		n.noteSource(from)
		first = at + 1
	}
	return n.pullMessages(from, bufio.NewReaderSize(body, 256<<10), first)
}

// importSnapshot takes in a snapshot's file, which replaces the messages up to its position.
func (n *Node) importSnapshot(at Position, body io.Reader, size int64) error {
	snapshots, file := n.journal.log.Snapshots(), &io.LimitedReader{R: body, N: size}
	if _, err := snapshots.Import(uint64(at), file); err != nil {
		return err
	}
	if file.N > 0 {
		return fmt.Errorf("a snapshot of %d bytes came as one of %d", size-file.N, size)
	}
	n.keeping.Lock()
	defer n.keeping.Unlock()
	if _, last := n.history.bounds(); last < at {
		if err := n.history.restart(at); err != nil {
			n.failDisk(err)
			return err
		}
	}
	return snapshots.Prune(1)
}

// pullMessages takes in the messages of a stream, from a position on, and makes them durable.
func (n *Node) pullMessages(from machine.NodeID, in *bufio.Reader, next Position) error {
	var messages []Message
	size := 0
	for {
		m, err := readMessage(in)
		if err == nil {
			m.Position = next
			next++
			messages = append(messages, m)
			size += m.size()
		}
		if len(messages) > 0 && (err != nil || size > syncBytes) {
			if err := n.appendToHistory(messages); err != nil {
				n.failDisk(err)
				return err
			}
			n.noteSource(from)
			messages, size = nil, 0
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// appendToHistory adds messages to the history.
func (n *Node) appendToHistory(messages []Message) error {
	n.keeping.Lock()
	defer n.keeping.Unlock()
	return n.history.append(messages)
}

// noteSource notes the member that has sent something that was missing here: it is asked next.
func (n *Node) noteSource(from machine.NodeID) {
	n.mu.Lock()
	n.source, n.tries = from, 0
	n.mu.Unlock()
	n.wakeKeeper()
}

// readMessage reads a message of a stream. At the end of the stream the error is io.EOF.
func readMessage(in *bufio.Reader) (m Message, err error) {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return m, err
	}
	if size > 2*MessageBytesMax {
		return m, fmt.Errorf("a message of %d bytes", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(in, b); err != nil {
		return m, fmt.Errorf("a message is cut off: %w", err)
	}
	return decodeMessage(b)
}
