package abcast

import "github.com/tenure-lease/tenure/internal/machine"

// direct is who alone gets what is broadcast here, with Config.Direct: the member that this
// one trusts, as long as what that member proposes is decided, in FAST mode. Otherwise, 0,
// all get it. In NORMAL mode a majority has to take part with a proposal, and one of these
// is decided, perhaps that of a member that lacks the message. After a leader's death, for
// as long as its lease reaches, each instance would wait until a member was called, or be
// decided without the message.
func (m *Machine) direct() machine.NodeID {
	if m.cons == nil {
		return 0
	}
	leader, suspected := m.cons.Leader()
	if suspected || leader != m.fast || m.cons.Normal() {
		return 0
	}
	return leader
}

// routes sees who is direct now. If it was another one until now, what he may have had
// alone is sent again, to all; by himself, too, who was sent it by others.
func (m *Machine) routes() {
	p := &m.pending
	to := m.direct()
	if to == p.leader {
		return
	}
	for _, w := range p.list {
		if w.alone || p.leads {
			w.relay, m.relays = m.now, m.now
			w.again = 0
		}
	}
	p.leader, p.leads = to, to == m.cfg.Consensus.ID
}
