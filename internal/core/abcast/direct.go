package abcast

import "github.com/tenure-lease/tenure/internal/machine"

// direct is the only member that gets the messages broadcast here, with Config.Direct. This
// member trusts it, as long as its proposals are decided, in FAST mode. Otherwise, 0, all
// get it. In NORMAL mode a majority has to take part with a proposal, and one of these is
// decided, perhaps that of a member that lacks the message. After a leader's death, for as
// long as its lease reaches, each instance would wait until a member was called, or be
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

// route finds the member that is direct now. If another member was direct until now, the
// messages that only the former may have had are sent again, to all. The former member, too,
// sends again the messages that others had sent it.
func (m *Machine) route() {
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
