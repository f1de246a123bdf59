package fastct

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// omega is Ω from ◇S: task Transform, after Chu's Slander.
type omega struct {
	counts []uint64 // count_p, by the index of a member
	peers  []peer
	next   machine.Mono // when Transform takes its next step
	leader int          // the index that was reported last
}

func newOmega(cfg Config) omega {
	o := omega{counts: make([]uint64, len(cfg.Members)), peers: make([]peer, len(cfg.Members)), leader: -1}
	for i := range o.peers {
		o.peers[i] = newPeer(cfg.Timeout)
	}
	return o
}

// min is Min(count_p): the first index of the least count, at all members alike.
func (o *omega) min() int {
	least := 0
	for i, c := range o.counts {
		if c < o.counts[least] {
			least = i
		}
	}
	return least
}

func (m *Machine) index(id machine.NodeID) int { return slices.Index(m.cfg.Members, id) }

// Leader returns the member that this one trusts: the output of Ω. A suspected member still
// leads until the next heartbeat has counted the suspicion.
func (m *Machine) Leader() (id machine.NodeID, suspected bool) {
	i := m.omega.min()
	return m.cfg.Members[i], m.omega.peers[i].suspected
}

// FastLeader is the coordinator of a FAST round, and 0 of any other.
func (m *Machine) FastLeader(round int64) machine.NodeID {
	if round < 0 || round >= m.cfg.normal() || m.cfg.Plain {
		return 0
	}
	return m.cfg.Members[round]
}

// Normal reports whether this member takes part in an undecided instance in NORMAL mode.
func (m *Machine) Normal() bool {
	return slices.ContainsFunc(m.open, func(in *instance) bool { return in.round >= m.cfg.normal() })
}

// tell sends FD to all.
func (m *Machine) tell() {
	counts := slices.Clone(m.omega.counts)
	for _, to := range m.cfg.Members {
		if to != m.cfg.ID {
			m.send(to, Counts{counts})
		}
	}
}

// counted is lines 59 and 60.
func (m *Machine) counted(c Counts) {
	for i, n := range c.Counts {
		m.omega.counts[i] = max(m.omega.counts[i], n)
	}
}

// lead reports a change of the trusted member. A member that is no longer trusted gives
// back the leases that it will not use.
func (m *Machine) lead() {
	o := &m.omega
	leader := o.min()
	if leader == o.leader {
		return
	}
	o.leader = leader
	m.out(Leader{m.cfg.Members[leader]})
	if m.cfg.Members[leader] == m.cfg.ID {
		m.lambda.reset(m.cfg)
	} else {
		m.giveLeases()
	}
}
