package broadcast

import (
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Waiting returns the reason for which nothing can be ordered at present, as far as this member
// knows it. Either the member takes no part yet, or it lacks connections with enough of the
// others for a majority. Nil if it knows of no reason. A Broadcast that waits is not told: it
// may be ordered as soon as the others are there.
func (n *Node) Waiting() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return n.err
	}
	members := n.group.IDs()
	if len(members) == 0 {
		return ErrNotMember
	}
	var away []machine.NodeID
	for _, id := range members {
		if id != n.cfg.ID && (n.peers == nil || n.known[id] == 0 || !n.peers.Stats(id).Connected) {
			away = append(away, id)
		}
	}
	select {
	case <-n.counts:
		if len(members)-len(away) < len(members)/2+1 {
			return fmt.Errorf("broadcast: this member waits for a majority of the members %v, and is not connected with %v: start them", members, away)
		}
		return nil
	default:
		return fmt.Errorf("broadcast: this member's directory is new, and takes part when %d others have noted it; of %v it is not connected with %v: start them", n.cfg.needed(), n.cfg.machine(1).Consensus.Members, away)
	}
}

// waiting is the line of the log while this member's directory is new, and does not count.
func (c Config) waiting() string {
	if c.Join {
		return "broadcast: this member takes no part before another one has noted its directory; is it named by AddMember, and can it reach the others?"
	}
	return "broadcast: this founder takes no part before more than half of the others have noted its directory, which is new: start them, and see that they can reach it"
}
