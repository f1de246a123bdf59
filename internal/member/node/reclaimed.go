package node

import (
	"context"
	"slices"
)

// reclaiming asks the applier to tell when no compacted history takes room.
type reclaiming struct {
	ctx  context.Context // of the caller
	done chan<- struct{}
}

// Reclaimed returns when nothing of the history that was compacted before the call takes room, but for
// what snapshots hold.
func (n *Node) Reclaimed(ctx context.Context) error {
	done := make(chan struct{})
	n.applier.put(reclaiming{ctx, done})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.stop:
		return errStopped
	}
}

// awaitReclaimed adds one that waits, and forgets those that have gone.
func (a *applier) awaitReclaimed(r reclaiming) {
	a.emptied = append(slices.DeleteFunc(a.emptied, func(r reclaiming) bool { return r.ctx.Err() != nil }), r)
}

// tellReclaimed answers those that wait, if all is given back.
func (a *applier) tellReclaimed() {
	if a.reclaim {
		return
	}
	for _, r := range a.emptied {
		close(r.done)
	}
	a.emptied = nil
}
