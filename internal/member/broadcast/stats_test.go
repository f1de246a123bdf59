package broadcast_test

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// until waits for a condition of a member's figures.
func (g *group) until(what string, node *broadcast.Node, ok func(broadcast.Stats) bool) {
	g.t.Helper()
	ctx := soon(g.t)
	for !ok(node.Stats()) {
		select {
		case <-ctx.Done():
			g.t.Fatalf("%s: %+v", what, node.Stats())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func connected(s broadcast.Stats) bool {
	for _, p := range s.Peers {
		if !p.Connected {
			return false
		}
	}
	return len(s.Peers) == 2
}

// takesPart reports whether a member has met as many as it has to, and speaks to all. If one of
// the first three ends before that, another waits for it.
func takesPart(s broadcast.Stats) bool { return connected(s) && s.Heartbeats.Messages > 0 }

func TestStats(t *testing.T) {
	g := newGroup(t, 3)
	for _, node := range g.nodes {
		g.until("a member has no connections", node, connected)
	}
	const n, size = 20, 1000
	for range n {
		g.broadcast(3, string(make([]byte, size)))
	}
	node := g.nodes[3]
	s := node.Stats()
	if s.Submits.Messages < n || s.Submits.Bytes < n*size || s.Submits.Bytes > s.Submits.Messages*(size+50) {
		t.Errorf("%d messages of %d bytes went to the leader in %+v", n, size, s.Submits)
	}
	// The leader proposes each to two others, and one of them acknowledges it at least. A member
	// that hears of a decision before it has acknowledged does not acknowledge any more.
	var consensus, leases uint64
	for _, node := range g.nodes {
		consensus += node.Stats().Consensus.Messages
		leases += node.Stats().Leases.Messages
	}
	if consensus < 3*n || s.Consensus.Messages == 0 || s.Instances < n {
		t.Errorf("%d messages took %d instances, %d messages about them, and %d of a follower", n, s.Instances, consensus, s.Consensus.Messages)
	}
	if leases < 2 { // asked of a majority, which answers
		t.Errorf("%d instances of the FAST mode took %d messages about leases", n, leases)
	}
	// An idle member sends heartbeats, and nothing else.
	g.until("an idle member sends no heartbeats", node, func(now broadcast.Stats) bool {
		return now.Heartbeats.Messages > s.Heartbeats.Messages+8
	})
	if now := node.Stats(); now.Submits != s.Submits {
		t.Errorf("an idle member submits: %+v, and before %+v", now.Submits, s.Submits)
	}
	// The streams carry all of it, and no more.
	g.until("messages and frames differ", node, func(s broadcast.Stats) bool {
		var all, bytes, sent, dropped, framed uint64
		for _, of := range []broadcast.Traffic{s.Submits, s.Consensus, s.Leases, s.Heartbeats, s.CatchUp} {
			all, bytes = all+of.Messages, bytes+of.Bytes
		}
		for _, p := range s.Peers {
			sent, dropped, framed = sent+p.MessagesSent, dropped+p.MessagesDropped, framed+p.BytesSent
		}
		return sent <= all && all <= sent+dropped && (dropped > 0 || bytes < framed)
	})
}
