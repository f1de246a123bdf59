package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
)

// heartbeats counts those that this member, while it leads, sends late.
type heartbeats struct {
	late atomic.Uint64

	mu   sync.Mutex
	term uint64
	sent map[machine.NodeID]time.Time // in that term
}

// observe notes an envelope that is sent now. It reports whether that is a heartbeat which comes later after the one before it than
// a bound, and by how much.
func (h *heartbeats) observe(env machine.Envelope, now time.Time, bound time.Duration) (late bool, by time.Duration) {
	term := replica.HeartbeatTerm(env.Body)
	if term == 0 {
		return false, 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if term != h.term {
		h.term, h.sent = term, map[machine.NodeID]time.Time{}
	}
	last, again := h.sent[env.To]
	h.sent[env.To] = now
	if took := now.Sub(last); again && took > bound {
		h.late.Add(1)
		return true, took - bound
	}
	return false, 0
}

// watchHeartbeats warns of heartbeats that leave late, as etcd does: two intervals after the one before.
func (n *Node) watchHeartbeats(env machine.Envelope) {
	if late, by := n.heartbeats.observe(env, time.Now(), 2*n.cfg.HeartbeatInterval); late {
		n.logger.Warn("a heartbeat left late: this member is overloaded, or its disk is slow", "to", fmt.Sprintf("%x", uint64(env.To)), "late by", by)
	}
}
