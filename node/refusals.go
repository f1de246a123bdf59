package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/peer"
)

// refusals watches over the other members that do not let this one in. A
// refusal may be a matter of a moment: a connection of our life before that is
// not known to be dead yet, or members that are being set right. One that stays
// is an operator's mistake, which nobody but an operator can mend.
type refusals struct {
	since map[machine.NodeID]time.Time // since when each refuses us
	told  map[machine.NodeID]time.Time // when each that does not know us was told last
	met   bool                         // a member has let us in
}

// refused tells the operator at once.
func (n *Node) refused(id machine.NodeID, reason error) {
	if errors.Is(reason, peer.ErrRemoved) {
		go n.removed() // not in a turn of the transport's
		return
	}
	n.logger.Error("another member refuses this one", "member", fmt.Sprintf("%x", uint64(id)), "err", reason, "advice", refusalAdvice(reason))
}

func refusalAdvice(reason error) string {
	switch {
	case errors.Is(reason, peer.ErrDuplicateID):
		return "stop the other process; each member runs once, with its own name, URL and --data-dir"
	case errors.Is(reason, peer.ErrWrongCluster), errors.Is(reason, peer.ErrUnknownMember):
		return "give all members the same --initial-cluster and --initial-cluster-token"
	case errors.Is(reason, peer.ErrWrongAddress):
		return "another member listens at that URL: --initial-cluster and the members' --listen-peer-urls must agree"
	case errors.Is(reason, peer.ErrVersion):
		return "run the same version on all members"
	}
	return "see the other member's log"
}

// look ends the member if it is refused for good: because another process runs
// under its ID, whose votes would count twice, or by all others from the start,
// so that it can never take part.
func (rs *refusals) look(n *Node, now time.Time) {
	if rs.since == nil {
		rs.since, rs.told = map[machine.NodeID]time.Time{}, map[machine.NodeID]time.Time{}
	}
	lasting := 0
	members := n.applied().roster.Members
	for _, m := range members {
		id := machine.NodeID(m.ID)
		if id == n.id {
			continue
		}
		st := n.peers.Stats(id)
		rs.met = rs.met || st.Connected
		var refusal *peer.Refusal
		if st.Connected || !errors.As(st.LastError, &refusal) {
			delete(rs.since, id)
			continue
		}
		if errors.Is(refusal, peer.ErrUnknownMember) && now.Sub(rs.told[id]) > n.cfg.ElectionTimeout/2 {
			rs.told[id] = now
			n.introduce(id)
		}
		if rs.since[id].IsZero() {
			rs.since[id] = now
		}
		if now.Sub(rs.since[id]) < 10*n.cfg.ElectionTimeout {
			continue
		}
		lasting++
		if errors.Is(refusal, peer.ErrDuplicateID) || !rs.met && lasting == len(members)-1 {
			n.fail(fmt.Errorf("node: %w: %s", refusal, refusalAdvice(refusal)))
			return
		}
	}
}
