package node

import (
	"context"
	"errors"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/kv"
	"github.com/tenure-lease/tenure/internal/wire"
)

// Members ask each other for hashes of their keys, by messages beside those of package replica. A member of
// a version that does not know them logs that they make no sense.
const (
	wireHashAsk    = 65
	wireHashAnswer = 66
)

// A hash sums up a member's keys and history at a revision. Two of them can be compared if they have one
// revision and one compact revision.
type hash struct {
	revision, compact int64
	sum               uint32
}

func (h hash) comparable(to hash) bool { return h.revision == to.revision && h.compact == to.compact }

// hashAt returns the hash of what this member shows, at a revision, 0 for the newest. It waits a while for a
// revision that is not here yet.
func (n *Node) hashAt(ctx context.Context, revision int64) (hash, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.ElectionTimeout)
	defer cancel()
	for {
		view := n.View()
		sum, at, err := view.Hash(revision)
		switch {
		case err == nil:
			return hash{at, view.CompactRevision(), sum}, nil
		case errors.Is(err, kv.ErrCompacted):
			return hash{}, err
		}
		select {
		case <-time.After(n.cfg.HeartbeatInterval):
		case <-ctx.Done():
			return hash{}, err
		}
	}
}

// hashOf asks another member for its hash at a revision.
func (n *Node) hashOf(ctx context.Context, member machine.NodeID, revision int64) (hash, error) {
	id := n.ids.Add(1)
	answer := n.hashes.add(id, 0)
	defer n.hashes.forget(id)
	w := wire.Writer{wireHashAsk}
	w.Uvarint(id)
	w.Varint(revision)
	n.peers.Send(member, w)
	select {
	case h := <-answer:
		return h, nil
	case <-ctx.Done():
		return hash{}, ctx.Err()
	}
}

// hashMessage takes a message of another member about hashes, and reports whether it was one. Of those
// that ask, one at a time is answered: to sum up takes as long as the state is large.
func (n *Node) hashMessage(from machine.NodeID, p []byte) bool {
	if len(p) == 0 || p[0] != wireHashAsk && p[0] != wireHashAnswer {
		return false
	}
	r := wire.Reader{Rest: p[1:]}
	id, revision := r.Uvarint(), r.Varint()
	if p[0] == wireHashAnswer {
		if h := (hash{revision, r.Varint(), r.Uint32()}); r.Done() {
			n.hashes.answer(id, h)
		}
		return true
	}
	if !r.Done() || !n.hashing.CompareAndSwap(false, true) {
		return true
	}
	n.done.Go(func() {
		defer n.hashing.Store(false)
		h, err := n.hashAt(n.ctx, revision)
		if err != nil {
			return // it is not compared then
		}
		w := wire.Writer{wireHashAnswer}
		w.Uvarint(id)
		w.Varint(h.revision)
		w.Varint(h.compact)
		w.Uint32(h.sum)
		n.peers.Send(from, w)
	})
	return true
}
