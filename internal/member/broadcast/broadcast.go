package broadcast

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Broadcast has a message ordered, and returns its position when it was delivered here. If this
// member falls so far behind meanwhile that it gets another's state in place of the message,
// the message's place is not known. Then the position is a later one, and all up to it, the
// message included, is delivered here or in that state. Errors are ErrBusy, ErrUnknown,
// ErrClosed and ErrTooLarge. The payload is copied.
func (n *Node) Broadcast(ctx context.Context, payload []byte) (Position, error) {
	return n.own(ctx, abcast.Message{Payload: payload})
}

// own broadcasts a message of the node itself, which has no Client and Seq yet.
func (n *Node) own(ctx context.Context, m abcast.Message) (Position, error) {
	for {
		position, err := n.broadcast(ctx, m)
		switch {
		case errors.Is(err, ErrSequence):
			// So many others have broadcast meanwhile that the node was forgotten as a client:
			// this message was not ordered, and cannot be any more. It goes on as another one.
			// Where the message may have been ordered, the error is ErrUnknown.
		case err == nil && position == 0 && m.Change:
			return 0, fmt.Errorf("%w: this member was given the state behind the change", ErrUnknown)
		case err == nil && position == 0:
			return n.Position(), nil // that of the state that has it, or behind it
		default:
			return position, err
		}
	}
}

// NewClient returns an ID for BroadcastAs at any member; it is unique. It is good as long as
// fewer than Config.Clients others have broadcast since it was made, or since the last message
// under it.
func (n *Node) NewClient() machine.ID { return newClient(uint64(n.Position())) }

func newClient(position uint64) machine.ID {
	var random [8]byte
	rand.Read(random[:]) // never fails
	return abcast.NewClient(position, binary.LittleEndian.Uint64(random[:]))
}

// BroadcastAs is Broadcast for a client that numbers its messages from 1 and wants each
// ordered once, and in turn, even if it tries again after ErrUnknown, here or elsewhere.
// The position is 0 if it was ordered before this call, or is in a state that this member was
// given meanwhile: it is not remembered where, but not behind [Node.Position] of now. The ID
// is of NewClient, here or at another member; else the error is ErrClient. ErrSequence means
// that the number is not the next, or that the client is forgotten: this call has not ordered
// the message, and will not. One that got ErrUnknown before may have.
func (n *Node) BroadcastAs(ctx context.Context, client machine.ID, seq uint64, payload []byte) (Position, error) {
	if seq == 0 {
		return 0, ErrSequence
	}
	return n.broadcast(ctx, abcast.Message{Client: client, Seq: seq, Payload: payload})
}

// broadcast has a message ordered. One without a number is this node's own.
func (n *Node) broadcast(ctx context.Context, m abcast.Message) (Position, error) {
	if len(m.Payload) > MessageBytesMax {
		return 0, ErrTooLarge
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx) // before anything is sent
	}
	m.Payload = slices.Clone(m.Payload)
	n.mu.Lock()
	stranger := n.err == nil && len(n.group.Members) == 0
	n.mu.Unlock()
	if stranger {
		return 0, ErrNotMember
	}
	select {
	case <-n.counts:
	case <-ctx.Done():
		return 0, context.Cause(ctx) // nothing was sent
	case <-n.ctx.Done():
		return 0, n.reason()
	}
	w := &waiter{outcome: make(chan outcome, 1)}
	n.mu.Lock()
	full, err := n.full(), n.err
	n.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case full:
		return 0, ErrBusy
	}
	n.driver.Look(func() (abcast.Input, bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if ctx.Err() != nil {
			return nil, false // the caller has gone
		}
		if err := n.checkMessage(m); err != nil {
			w.outcome <- outcome{err: err}
			return nil, false // so that no number of the node's is left out
		}
		if m.Seq == 0 {
			if n.seq == 0 || !n.machine.InTurn(n.client, n.seq+1) {
				n.client, n.seq = newClient(n.machine.Position()), 0
			}
			n.seq++
			m.Client, m.Seq = n.client, n.seq
		}
		w.key = key{m.Client, m.Seq}
		n.waiting[w.key] = append(n.waiting[w.key], w)
		return abcast.Broadcast{Message: m}, true
	})
	return n.wait(ctx, w)
}

// checkMessage returns the reason for which a message is not taken, or nil.
func (n *Node) checkMessage(m abcast.Message) error {
	switch {
	case n.err != nil:
		return n.err
	case n.group.Gone(n.cfg.ID):
		return ErrRemoved
	case !n.group.Has(n.cfg.ID):
		return ErrNotMember
	case m.Seq == 0 && !n.machine.Room(len(m.Payload)):
		return ErrBusy
	}
	return nil
}

// Barrier returns when all messages that were ordered before the call are delivered here, or
// are in a state that this member got. An application that has applied all up to the returned
// position has applied those messages. It takes a place in the order itself: a message without
// payload.
func (n *Node) Barrier(ctx context.Context) (Position, error) { return n.Broadcast(ctx, nil) }

// Position is that of the last message that was delivered here.
func (n *Node) Position() Position {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ram + Position(len(n.log))
}

// Deliver returns the messages from a position on, and waits for those that are not ordered
// yet, until the context ends. An error is the last that it gives: the context's, ErrTrimmed,
// or ErrClosed. Messages that are no longer in memory are read from disk.
func (n *Node) Deliver(ctx context.Context, from Position) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		var disk cursor
		defer disk.close()
		for next := max(from, 1); ; {
			n.mu.Lock()
			ram, log, more, ended := n.ram, n.log, n.more, n.err
			n.mu.Unlock()
			switch {
			case next <= ram:
				m, err := n.history.read(&disk, next)
				if !yield(m, err) || err != nil {
					return
				}
				next++
			case next-ram <= Position(len(log)):
				for _, m := range log[next-ram-1:] {
					if !yield(m, nil) {
						return
					}
					next++
				}
			case ended != nil:
				yield(Message{}, ended)
				return
			default:
				select {
				case <-more:
				case <-ctx.Done():
					yield(Message{}, context.Cause(ctx))
					return
				}
			}
		}
	}
}
