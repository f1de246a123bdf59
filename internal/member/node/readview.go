package node

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/core/visibility"
	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/member/span"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// keysResult answers a read of keys.
type keysResult struct {
	ready replica.KeysReady
	err   error
}

// ReadView returns a state from which a *pb.RangeRequest, or a *pb.TxnRequest that
// only reads, may be answered linearizably. In key order other keys of it may be
// older, or not there yet (R27). The caller of ctx is judged by the users of that very state
// (AU-12); the error is package auth's.
func (n *Node) ReadView(ctx context.Context, request proto.Message) (kv.View, error) {
	st, err := n.readState(ctx, request)
	if err != nil {
		return kv.View{}, err
	}
	return st.permitted(ctx, request)
}

// ViewFor returns the published state for a request that may be answered from it, as ReadView
// does.
func (n *Node) ViewFor(ctx context.Context, request proto.Message) (kv.View, error) {
	return n.State().permitted(ctx, request)
}

// permitted returns the state of the keys if the caller may ask for something of it.
func (st *state) permitted(ctx context.Context, request proto.Message) (kv.View, error) {
	if st.users == nil {
		return kv.View{}, kv.ErrNoState
	}
	if st.users.Enabled() {
		if err := st.users.Permit(caller.Of(ctx), request, st.view.LeaseKeys); err != nil {
			return kv.View{}, err
		}
	}
	return st.view, nil
}

func (n *Node) readState(ctx context.Context, request proto.Message) (*state, error) {
	if span.On(ctx) {
		return n.readTraced(ctx, request)
	}
	return n.readFresh(ctx, request)
}

func (n *Node) readFresh(ctx context.Context, request proto.Message) (*state, error) {
	if order := n.order.Load(); !byKey(order) {
		local, err := n.barrier(ctx)
		if err != nil {
			return nil, err
		}
		// A state that is published in key order is for readers of single keys.
		if view := n.State(); n.order.Load() == order {
			n.countRead(local)
			return view, nil
		}
	}
	keys := replica.AppendReads(nil, request)
	if view, ok := n.readHere(keys); ok {
		return view, nil
	}
	for {
		id := n.ids.Add(1)
		answer := n.keyReads.add(id, 0)
		n.driver.Step(replica.ReadKeys{ID: id, Keys: keys})
		var r keysResult
		select {
		case r = <-answer:
		case <-ctx.Done():
			n.keyReads.forget(id)
			return nil, ctx.Err()
		case <-n.stop:
			return nil, errStopped
		}
		if r.err != nil {
			return nil, r.err
		}
		if r.ready.ByLog {
			return n.readByLog(ctx, replica.EncodeRead(keys))
		}
		err := n.applications.awaitIndex(n.appliedIndex, r.ready.Index).wait(ctx, n)
		if err != nil && !errors.Is(err, errOverdue) {
			return nil, err
		}
		if st, ok := visibility.For(*n.ahead.Load(), r.ready); err == nil && ok {
			n.countRead(r.ready.Local)
			return st, nil
		}
		// A snapshot took the place of that state, or the log was cut.
	}
}

// readHere returns a state from which some keys may be read, under this member's lease and
// without a turn of its replica, if there is one. The order matters, as in strict order: it
// reads the published lease first, then the clock, and the states last.
func (n *Node) readHere(keys keyspan.Set) (*state, bool) {
	l := n.keyLease()
	if l == nil {
		return nil, false
	}
	ready, ok := l.Ready(keys)
	if !ok {
		return nil, false
	}
	st, ok := visibility.For(*n.ahead.Load(), ready)
	if !ok {
		return nil, false
	}
	n.countRead(true)
	if l.Counted {
		n.reads.seen.add(n, keys)
	}
	return st, true
}

// keyLease returns the published lease, or nil if there is none or it has run out.
func (n *Node) keyLease() *replica.KeyLease {
	if l := n.reads.keys.Load(); l != nil && l.KeyLease != nil && lasts(l.since, n.reads.clock(), l.Until) {
		return l.KeyLease
	}
	return nil
}

// keysSeen are keys that were read and that the replica has yet to count.
type keysSeen struct {
	mu   sync.Mutex
	keys keyspan.Set
}

// maxKeysSeen is the number of keys from which on the replica is told at once.
const maxKeysSeen = 512

// add takes some keys, and tells the replica when there are many.
func (s *keysSeen) add(n *Node, keys keyspan.Set) {
	s.mu.Lock()
	s.keys = append(s.keys, keys...)
	many := len(s.keys) >= maxKeysSeen
	s.mu.Unlock()
	if many {
		n.driver.Step(replica.Served{Keys: s.take()})
	}
}

// take returns the keys, and forgets them.
func (s *keysSeen) take() keyspan.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.keys
	s.keys = nil
	return keys
}

// byKey reports whether reads go by keys, given how often that has changed.
func byKey(order uint64) bool { return order%2 == 1 }

// readByLog proposes a place in the log for a read of some keys, and gives the log's
// state there.
func (n *Node) readByLog(ctx context.Context, place []byte) (*state, error) {
	r, err := n.propose(ctx, place)
	if err != nil {
		return nil, err
	}
	n.countRead(false)
	return r.state, nil
}
