package broadcast

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
)

// transfer is the state transfer to one member that is behind: one stream at a time, and the
// messages that Trim must keep because of it. While the receiver takes in a snapshot, the
// application here may take its next one and trim. Without the messages after the older snapshot
// the receiver would begin again each time, and never catch up.
type transfer struct {
	busy    bool      // a stream is under way
	next    want      // the receiver's request that came meanwhile; From 0: none
	from    Position  // the receiver may need the messages from here on
	writing bool      // the stream is being written; the transport limits how long
	until   time.Time // how long messages are held otherwise: the receiver may have stopped
}

// holdFactor times Config.Timeout is how long messages are held for a member that was sent the
// ones before them.
const holdFactor = 10

// answerWant starts a transfer to a member that asked for one, or notes the request for the end
// of the transfer that is under way. n.mu is held.
func (n *Node) answerWant(to machine.NodeID, w want) {
	t := n.transfers[to]
	switch {
	case n.err != nil || w.From == 0:
		return
	case t != nil && t.busy:
		t.next = w
		return
	}
	t = &transfer{busy: true, writing: true, from: w.From}
	n.transfers[to] = t
	n.work.Go(func() {
		for w.From > 0 {
			sent, err := n.sendTransfer(to, t, w.From)
			if err != nil && n.ctx.Err() == nil {
				n.cfg.Logger.Warn("broadcast: the state transfer to a member that is behind has failed; the member asks again", "member", to, "error", err)
			}
			n.mu.Lock()
			if err == nil {
				t.from = max(t.from, sent+1)
			}
			if w, t.next = t.next, (want{}); n.err != nil || err == nil && w.From <= sent {
				w.From = 0
			}
			t.busy = w.From > 0
			t.writing, t.until = t.busy, time.Now().Add(holdFactor*n.cfg.timeout())
			n.mu.Unlock()
		}
	})
}

// heldFrom returns the first position whose message is held for another member, or, if there is
// none, the greatest number.
func (n *Node) heldFrom() Position {
	n.mu.Lock()
	defer n.mu.Unlock()
	from := ^Position(0)
	for to, t := range n.transfers {
		if !t.writing && time.Now().After(t.until) {
			if !t.busy {
				delete(n.transfers, to)
			}
			continue
		}
		from = min(from, t.from)
	}
	return from
}

// sendTransfer sends a member the messages from a position on, up to the last one that is delivered
// here; if some of them are trimmed, it sends the newest snapshot in their place. It returns the
// last position that was sent.
func (n *Node) sendTransfer(to machine.NodeID, t *transfer, from Position) (sent Position, err error) {
	n.hold(t, from)
	var file io.ReadCloser
	at, size := Position(0), int64(0)
	if !n.has(from) {
		if at, file, size, err = n.openSnapshotFile(); err != nil {
			return 0, err
		}
		defer file.Close()
		n.hold(t, at+1)
	}
	if n.Position() < from {
		return 0, nil // the receiver is further
	}
	var header writer
	header.Uint64(n.self)
	header.uvarints(uint64(from), uint64(at), uint64(size))
	r, w := io.Pipe()
	written := make(chan struct{})
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	go func() {
		defer close(written)
		out := bufio.NewWriterSize(w, 256<<10)
		var err error
		sent, err = n.writeTransfer(n.ctx, out, file, max(from, at+1))
		n.mu.Lock()
		t.writing, t.until = false, time.Now().Add(holdFactor*n.cfg.timeout())
		n.mu.Unlock()
		w.CloseWithError(err)
		// A receiver that has everything may still never answer.
		time.AfterFunc(holdFactor*n.cfg.timeout(), cancel)
	}()
	err = n.peers.SendStream(ctx, to, header.Writer, r)
	r.Close()
	<-written
	return sent, err
}

// hold keeps the messages from a position on for the receiver.
func (n *Node) hold(t *transfer, from Position) {
	n.mu.Lock()
	t.from = from
	n.mu.Unlock()
}

// openSnapshotFile opens the file of the newest snapshot, to be sent as it is.
func (n *Node) openSnapshotFile() (at Position, file io.ReadCloser, size int64, err error) {
	for {
		if at, err = n.newest(); err != nil {
			return 0, nil, 0, err
		}
		file, size, err = n.journal.log.Snapshots().Export(uint64(at))
		if at == 0 || !errors.Is(err, wal.ErrNoSnapshot) {
			return at, file, size, err
		}
	}
}

// has reports whether this member still has the messages from a position on.
func (n *Node) has(from Position) bool {
	n.mu.Lock()
	ram := n.ram
	n.mu.Unlock()
	trimmed, _ := n.history.bounds()
	return from > trimmed || from > ram
}

// writeTransfer writes a snapshot's file, if there is one, and the messages from a position on. It
// returns the position of the last message, or the one before from.
func (n *Node) writeTransfer(ctx context.Context, out *bufio.Writer, file io.Reader, from Position) (sent Position, err error) {
	if file != nil {
		if _, err := io.Copy(out, file); err != nil {
			return 0, err
		}
	}
	sent = from - 1
	if from <= n.Position() {
		for m, err := range n.Deliver(ctx, from) {
			if err != nil {
				return sent, err
			}
			var w writer
			w.Bytes(encodeMessage(m))
			if _, err := out.Write(w.Writer); err != nil {
				return sent, err
			}
			if sent = m.Position; sent >= n.Position() {
				break
			}
		}
	}
	return sent, out.Flush()
}
