package broadcast

import (
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
)

// refusedPause is the time from one line of the log about a member's messages to the next: one
// that sends nonsense may send much of it.
const refusedPause = time.Minute

// refused counts the messages of each other member that were not taken in: those that are
// damaged, of an unknown kind, or impossible.
type refused struct {
	mu sync.Mutex
	of map[machine.NodeID]*refusals
}

type refusals struct {
	count uint64
	said  machine.Mono // when the log had them last
}

// add counts some, and reports whether the log should have it, and how many there were.
func (r *refused) add(from machine.NodeID, count uint64, now machine.Mono) (total uint64, say bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of[from]
	if of == nil {
		of = &refusals{}
		if r.of == nil {
			r.of = map[machine.NodeID]*refusals{}
		}
		r.of[from] = of
	}
	say = of.count == 0 || now.Sub(of.said) >= refusedPause
	if say {
		of.said = now
	}
	of.count += count
	return of.count, say
}

func (r *refused) counts() map[machine.NodeID]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[machine.NodeID]uint64{}
	for id, of := range r.of {
		counts[id] = of.count
	}
	return counts
}

// logDropped tells the log of messages that were not taken in. It is no matter of the network:
// the other one runs another version, or has another Config.
func (n *Node) logDropped(from machine.NodeID, count uint64, err error) {
	if total, say := n.refused.add(from, count, clock.Now()); say {
		n.cfg.Logger.Warn("broadcast: a message was dropped; do all members run the same version with the same Config?",
			"from", from, "error", err, "dropped", total)
	}
}

// impossible returns the reason for which a message about leases makes no sense, or one about
// the order's state in a group that remembers so many clients. The part that decides instances
// reports the others (see compacting).
func impossible(e machine.Envelope, clients int) error {
	if in, ok := e.Body.(abcast.In); ok {
		e.Body = in.Body
	}
	switch b := e.Body.(type) {
	case asynclease.Lease, asynclease.Ack, asynclease.Nack, asynclease.Give:
		return asynclease.Check(e)
	case abcast.Transfer:
		return b.Base.Check(clients)
	}
	return nil
}
