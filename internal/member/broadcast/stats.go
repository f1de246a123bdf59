package broadcast

import (
	"sync/atomic"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// Stats counts the messages that this member has sent to the others since it started, by
// purpose, and describes the streams between them.
type Stats struct {
	// Instances is how many instances of consensus were decided, from the group's first on; 0
	// if the node has ended. Some order nothing: a member with a message begins one, and the
	// proposer may not have the message yet.
	Instances uint64
	// Submits carry messages to be ordered.
	Submits Traffic
	// Consensus counts the messages of the instances, Leases those about leases.
	Consensus, Leases Traffic
	// Heartbeats tell that this member lives and how far it is. They are sent whether or not
	// anything is broadcast.
	Heartbeats Traffic
	// CatchUp is for members that were behind.
	CatchUp Traffic
	// Refused is how many messages of each other member were dropped because they make no
	// sense: they were damaged, of another version, or of a member with another Config. It
	// should be empty; the log describes the messages.
	Refused map[machine.NodeID]uint64
	// Peers are the streams with each other member, in the units of peer.Stats. Their bytes
	// are those of frames, which messages share; pings are in no figure.
	Peers map[machine.NodeID]peer.Stats
}

// Traffic is messages that were handed to a stream, and their bytes without frames. A
// stream that ends may have lost some: Stats.Peers has how many.
type Traffic struct{ Messages, Bytes uint64 }

// Stats returns what this member has sent, and how its streams are. It waits for the turn
// of the goroutine that steps the member.
func (n *Node) Stats() Stats {
	s := Stats{
		Submits: n.sent[submits].load(), Consensus: n.sent[consensus].load(), Leases: n.sent[leases].load(),
		Heartbeats: n.sent[heartbeats].load(), CatchUp: n.sent[catchUp].load(), Refused: n.refused.counts(), Peers: map[machine.NodeID]peer.Stats{},
	}
	var instances atomic.Uint64
	if n.driver.Do(func() { instances.Store(n.machine.Instance()) }) {
		s.Instances = instances.Load()
	}
	if n.peers != nil {
		for id := range n.Members() {
			if id != n.cfg.ID {
				s.Peers[id] = n.peers.Stats(id)
			}
		}
	}
	return s
}

// purpose is what a message is for.
type purpose int

const (
	submits purpose = iota
	consensus
	leases
	heartbeats
	catchUp
	purposes
)

// counters are of each purpose: two goroutines send.
type counters [purposes]counter

type counter struct{ messages, bytes atomic.Uint64 }

func (c *counter) load() Traffic { return Traffic{c.messages.Load(), c.bytes.Load()} }

func (c *counters) add(body any, bytes int) {
	if in, ok := body.(abcast.In); ok {
		body = in.Body
	}
	at := consensus
	switch body.(type) {
	case abcast.Submit:
		at = submits
	case asynclease.Lease, asynclease.Ack, asynclease.Nack, asynclease.Give:
		at = leases
	case fastct.Counts, abcast.Status, introduction, met, forgot:
		at = heartbeats
	case fastct.Trimmed, abcast.Fetch, abcast.Decisions, abcast.Transfer, want:
		at = catchUp
	}
	c[at].messages.Add(1)
	c[at].bytes.Add(uint64(bytes))
}
