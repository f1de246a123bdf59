package broadcast

import (
	"context"
	"iter"
	"slices"

	"github.com/tenure-lease/tenure/abcast"
	"github.com/tenure-lease/tenure/machine"
)

// Broadcast has a message ordered, and returns its position when it was delivered here.
// Errors are ErrBusy, ErrUnknown, ErrClosed and ErrTooLarge. The payload is copied.
func (n *Node) Broadcast(ctx context.Context, payload []byte) (Position, error) {
	return n.broadcast(ctx, n.client, 0, payload)
}

// BroadcastAs is Broadcast for a client that numbers its messages from 1 and wants each
// ordered once, and in turn, even if it tries again after ErrUnknown, here or elsewhere.
// The position is 0 if it was ordered before this call: it is not remembered where. An
// ID is random and never used by another client. ErrSequence means that the number is
// not the next.
func (n *Node) BroadcastAs(ctx context.Context, client machine.ID, seq uint64, payload []byte) (Position, error) {
	if seq == 0 {
		return 0, ErrSequence
	}
	return n.broadcast(ctx, client, seq, payload)
}

func (n *Node) broadcast(ctx context.Context, client machine.ID, seq uint64, payload []byte) (Position, error) {
	if len(payload) > MessageBytesMax {
		return 0, ErrTooLarge
	}
	payload = slices.Clone(payload)
	c := make(chan outcome, 1)
	if err := n.reason(); err != nil {
		return 0, err
	}
	n.driver.Step(func() any {
		if seq == 0 && !n.machine.Room(len(payload)) {
			c <- outcome{err: ErrBusy}
			return nil // so that no number of the node's is left out
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.err != nil {
			c <- outcome{err: n.err}
			return nil
		}
		m := abcast.Message{Client: client, Seq: seq, Payload: payload}
		if seq == 0 {
			n.seq++
			m.Seq = n.seq
		}
		k := key{client, m.Seq}
		n.waiting[k] = append(n.waiting[k], c)
		return abcast.Broadcast{Message: m}
	})
	return n.wait(ctx, c)
}

// Barrier returns when all that was ordered before it was called is delivered here. It
// takes a position itself: a message without payload.
func (n *Node) Barrier(ctx context.Context) (Position, error) { return n.Broadcast(ctx, nil) }

// Position is that of the last message that was delivered here.
func (n *Node) Position() Position {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.base + Position(len(n.log))
}

// Base is the state that what is kept follows on, and after which position: what Trim
// was given last, here or at a member that this one got it from. An application begins
// with it.
func (n *Node) Base() (Position, []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.base, n.state
}

// Deliver returns the messages from a position on, and waits for those that are not
// ordered yet, until the context ends. An error is the last that it gives: the
// context's, ErrTrimmed, or ErrClosed.
func (n *Node) Deliver(ctx context.Context, from Position) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for next := max(from, 1); ; {
			n.mu.Lock()
			base, log, more, ended := n.base, n.log, n.more, n.err
			n.mu.Unlock()
			if next <= base {
				yield(Message{}, ErrTrimmed)
				return
			}
			if i := int(next - base - 1); i < len(log) {
				for _, m := range log[i:] {
					if !yield(m, nil) {
						return
					}
					next++
				}
				continue
			}
			if ended != nil {
				yield(Message{}, ended)
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(Message{}, context.Cause(ctx))
				return
			}
		}
	}
}

// Trim says that the application's state after a position is state: what led to it is
// forgotten, here, and members that lack it are given the state. It is kept in memory
// and in the log. A position that was not delivered here is passed over.
func (n *Node) Trim(position Position, state []byte) {
	state = slices.Clone(state)
	n.driver.Step(func() any {
		n.mu.Lock()
		defer n.mu.Unlock()
		if position > n.base && position <= n.base+Position(len(n.log)) {
			n.log = slices.Clone(n.log[position-n.base:])
			n.base, n.state = position, state
		}
		return abcast.Trim{Position: uint64(position), App: state}
	})
}
