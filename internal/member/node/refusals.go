package node

import (
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

// refusals watches over the other members that do not let this one in. A
// refusal may be a matter of a moment: a connection of our life before that is
// not known to be dead yet, or members that are being set right. One that stays
// is an operator's mistake, which nobody but an operator can mend.
type refusals struct {
	since map[machine.NodeID]time.Time // since when each refuses us
	deaf  map[machine.NodeID]deafness  // of those that do not believe our identity
	met   bool                         // a member has let us in
	out   bool                         // most have said that this member was removed
}

// refused tells the operator at once.
func (n *Node) refused(id machine.NodeID, reason error) {
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
	case errors.Is(reason, peer.ErrUnconfirmed):
		return "the other member cannot reach this one at the URL that it knows: see --initial-advertise-peer-urls, names and firewalls, or tell the cluster by `tenure member update`"
	case errors.Is(reason, peer.ErrRemoved):
		return "nothing is done on the word of one: this member ends when its own log says so, or most of the others"
	}
	return "see the other member's log"
}

// look ends the member if it is refused for good. Most others may refuse it because another
// process runs under its ID or because it was removed, or all others from the start, so
// that it can never take part. It goes by what members of its own log say, each at the
// address that the log has of it. One of them may be wrong, or another may be at its
// address.
func (rs *refusals) look(n *Node, now time.Time) {
	if rs.since == nil {
		rs.since = map[machine.NodeID]time.Time{}
	}
	if rs.deaf == nil {
		rs.deaf = map[machine.NodeID]deafness{}
	}
	for _, id := range n.acquaintances() { // one that joins may know none of its log
		rs.met = rs.met || n.peers.Stats(machine.NodeID(id)).Connected
	}
	members := n.applied().roster.Members
	t := rs.tally(n, now, members)
	if t.heir != 0 && n.leadership.Load().leader == n.id {
		rs.yield(n, now, t.heir, t.deaf)
	}
	others := len(members) - 1
	if t.removed > n.otherVoters()/2 && !rs.out {
		rs.out = true
		n.removed()
	}
	if t.twice > others/2 || !rs.met && t.lasting > 0 && t.lasting == others {
		n.fail(fmt.Errorf("node: %w: %s", t.last, refusalAdvice(t.last)))
	}
}

// refusalTally is how the other members treat this one, at one look.
type refusalTally struct {
	removed int              // voters that say that this member was removed
	lasting int              // members that have refused for long, cut ways apart
	twice   int              // of those, the members that know another process with this ID
	last    *peer.Refusal    // of those, one
	heir    machine.NodeID   // a voter that hears us, 0 if none does
	deaf    []machine.NodeID // members that cannot confirm our address
}

// tally asks the transport for the refusals of each member, and notes since when each lasts.
func (rs *refusals) tally(n *Node, now time.Time, members []*pb.Member) (t refusalTally) {
	for _, m := range members {
		id := machine.NodeID(m.ID)
		if id == n.id {
			continue
		}
		st := n.peers.Stats(id)
		var refusal *peer.Refusal
		if st.Connected {
			delete(rs.deaf, id)
			if !m.IsLearner {
				t.heir = id
			}
		}
		if st.Connected || !errors.As(st.LastError, &refusal) {
			delete(rs.since, id)
			continue
		}
		if errors.Is(refusal, peer.ErrRemoved) && !m.IsLearner {
			t.removed++
		}
		if rs.since[id].IsZero() {
			rs.since[id] = now
		}
		if errors.Is(refusal, peer.ErrUnconfirmed) {
			t.deaf = append(t.deaf, id)
		}
		if now.Sub(rs.since[id]) < 10*n.cfg.ElectionTimeout || errors.Is(refusal, peer.ErrUnconfirmed) {
			continue // of the last, a way between the two may be cut
		}
		t.last = refusal
		t.lasting++
		if errors.Is(refusal, peer.ErrDuplicateID) {
			t.twice++
		}
	}
	return t
}

// yield hands leadership over because some members do not believe this member's identity. They
// may have been away while it moved to another address, and hear of that only from a leader.
func (rs *refusals) yield(n *Node, now time.Time, heir machine.NodeID, deaf []machine.NodeID) {
	for _, id := range deaf {
		d := rs.deaf[id]
		if d.due(rs.since[id], now, n.cfg.ElectionTimeout) {
			n.logger.Warn("a member cannot reach this leader at the address in its log: leadership moves to another member, which can tell it", "member", hexOf(uint64(id)), "heir", hexOf(uint64(heir)))
			n.driver.Step(replica.HandOver{To: heir})
		}
		rs.deaf[id] = d
	}
}

// deafness is when leadership is handed over for a member's sake: seldom, and ever more so, for
// writes wait meanwhile, and a member that nobody can talk to would have all lead in turn.
type deafness struct {
	tries int
	next  time.Time
}

// due reports whether it is to be done now, given since when the member refuses.
func (d *deafness) due(since, now time.Time, timeout time.Duration) bool {
	if d.tries == 0 {
		d.next = since.Add(2 * timeout)
	}
	if now.Before(d.next) {
		return false
	}
	d.tries++
	d.next = now.Add(2 * timeout << (2 * min(d.tries, 8)))
	return true
}

// otherVoters is how many others vote, as far as this member knows.
func (n *Node) otherVoters() (count int) {
	for _, m := range n.applied().roster.Members {
		if m.ID != uint64(n.id) && !m.IsLearner {
			count++
		}
	}
	return count
}
