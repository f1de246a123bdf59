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

// gift is what another member is given, one thing at a time, and what is held for him
// because of it: while he takes in a snapshot, or waits for his turn, the application here
// may keep the next one and trim. He would begin again each time, and never catch up.
type gift struct {
	busy  bool      // a stream is under way
	next  want      // what he has asked for meanwhile; From 0: nothing
	from  Position  // he may need messages from here on
	pours bool      // it is being written, for which the transport has a limit
	until time.Time // that messages are held, unless it is: he may have stopped before he answered
}

// holdFactor times Config.Timeout is how long messages are held for who was given what
// comes before them.
const holdFactor = 10

// gives answers a want. n.mu is held.
func (n *Node) gives(to machine.NodeID, w want) {
	g := n.gifts[to]
	switch {
	case n.err != nil || w.From == 0:
		return
	case g != nil && g.busy:
		g.next = w
		return
	}
	g = &gift{busy: true, pours: true, from: w.From}
	n.gifts[to] = g
	n.work.Go(func() {
		for w.From > 0 {
			sent, err := n.give(to, g, w.From)
			if err != nil && n.ctx.Err() == nil {
				n.cfg.Logger.Warn("broadcast: a member that is behind was not sent all", "member", to, "error", err)
			}
			n.mu.Lock()
			if err == nil {
				g.from = max(g.from, sent+1)
			}
			if w, g.next = g.next, (want{}); n.err != nil || err == nil && w.From <= sent {
				w.From = 0
			}
			g.busy = w.From > 0
			g.pours, g.until = g.busy, time.Now().Add(holdFactor*n.cfg.timeout())
			n.mu.Unlock()
		}
	})
}

// held is the first position from which messages are held for others, or one that will
// never be.
func (n *Node) held() Position {
	n.mu.Lock()
	defer n.mu.Unlock()
	from := ^Position(0)
	for to, g := range n.gifts {
		if !g.pours && time.Now().After(g.until) {
			if !g.busy {
				delete(n.gifts, to)
			}
			continue
		}
		from = min(from, g.from)
	}
	return from
}

// give sends what a want asks for, until it has come to what is delivered last: the other
// one has to be so far before what follows is forgotten, too. It returns the last position
// that was sent.
func (n *Node) give(to machine.NodeID, g *gift, from Position) (sent Position, err error) {
	n.holds(g, from)
	var file io.ReadCloser
	at, size := Position(0), int64(0)
	if !n.has(from) {
		if at, file, size, err = n.exports(); err != nil {
			return 0, err
		}
		defer file.Close()
		n.holds(g, at+1)
	}
	if max(at, n.Position()) < from {
		return 0, nil // the other one is further
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
		sent, err = n.pours(n.ctx, out, file, max(from, at+1))
		n.mu.Lock()
		g.pours, g.until = false, time.Now().Add(holdFactor*n.cfg.timeout())
		n.mu.Unlock()
		w.CloseWithError(err)
		// If it has all, it need not be waited for; and it may never answer.
		patience := time.AfterFunc(holdFactor*n.cfg.timeout(), cancel)
		context.AfterFunc(ctx, func() { patience.Stop() })
	}()
	err = n.peers.SendStream(ctx, to, header.Writer, r)
	r.Close()
	<-written
	return sent, err
}

// holds has messages from a position on stay for who is given something.
func (n *Node) holds(g *gift, from Position) {
	n.mu.Lock()
	g.from = from
	n.mu.Unlock()
}

// exports opens the file of the newest snapshot.
func (n *Node) exports() (at Position, file io.ReadCloser, size int64, err error) {
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

// has reports whether the messages from a position on are kept.
func (n *Node) has(from Position) bool {
	n.mu.Lock()
	ram := n.ram
	n.mu.Unlock()
	trimmed, _ := n.history.bounds()
	return from > trimmed || from > ram
}

// pours writes a snapshot's file, if there is one, and messages. It returns the position of
// the last one, or that before from.
func (n *Node) pours(ctx context.Context, out *bufio.Writer, file io.Reader, from Position) (sent Position, err error) {
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
