package abcast

import (
	"github.com/tenure-lease/tenure/internal/machine"
)

// sendSubmits is R-broadcast. New messages go to pending.leader alone, if there is one, and
// repeated ones go to all.
func (m *Machine) sendSubmits(list []Message) {
	switch to := m.pending.leader; {
	case to == 0 || m.again:
		m.sendToOthers(Submit{list})
	case to != m.cfg.Consensus.ID:
		m.send(to, Submit{list})
	}
}

// broadcast takes a message of the owner: R-broadcast, and A-deliver will follow.
func (m *Machine) broadcast(msg Message) {
	refuse := func(err error) { m.out(Refused{msg.Client, msg.Seq, err}) }
	switch upto := m.order.upto(msg.Client); {
	case msg.Seq <= upto && msg.Seq > 0:
		m.out(Repeated{msg.Client, msg.Seq})
		return
	case m.cons == nil:
		refuse(ErrOutside)
		return
	case msg.size() > m.cfg.BatchBytes:
		refuse(ErrTooLarge)
		return
	case m.unborn(msg.Client):
		refuse(ErrClient)
		return
	case !m.InTurn(msg.Client, msg.Seq):
		refuse(ErrSequence)
		return
	}
	if w := m.pending.get(msg.Client, msg.Seq); w != nil {
		w.own = true
		return
	}
	if !m.Room(len(msg.Payload)) {
		refuse(ErrBusy)
		return
	}
	m.pending.add(&waiting{Message: msg, own: true, alone: m.pending.leader != 0, relay: m.now.Add(m.cfg.Consensus.Retry)})
	m.submit = append(m.submit, msg)
}

// InTurn reports whether a client's message would be taken as far as its number goes.
func (m *Machine) InTurn(client machine.ID, seq uint64) bool {
	return m.pending.follows(client, seq, m.order)
}

// unborn reports whether a client's ID is of a position that was not delivered here.
func (m *Machine) unborn(client machine.ID) bool {
	return m.order.upto(client) == 0 && born(client) > m.Position()
}

// Room reports whether a message with a payload of so many bytes would be taken now, as far
// as what waits goes.
func (m *Machine) Room(payload int) bool {
	size := Message{}.size() + payload
	return len(m.pending.list) < m.cfg.PendingCount && m.pending.bytes+size <= m.cfg.PendingBytes
}

// submitted is R-deliver. Messages without room here will be sent again.
func (m *Machine) submitted(msg Message) {
	if w := m.pending.get(msg.Client, msg.Seq); w != nil {
		w.alone = false // the leader passes it on
		return
	}
	if msg.Seq < m.order.due(msg.Client) || m.order.due(msg.Client) == 0 || msg.size() > m.cfg.BatchBytes ||
		len(m.pending.list) >= 2*m.cfg.PendingCount || m.pending.bytes+msg.size() > 2*m.cfg.PendingBytes {
		return
	}
	m.pending.add(&waiting{Message: msg, relay: m.now.Add(m.cfg.Relay)})
}

// relay sends again what is not ordered yet: its own messages after Retry, those of others
// after Relay, and then after longer and longer times, because the cause may be too much
// traffic.
func (m *Machine) relay() {
	if m.now < m.relays {
		return
	}
	m.relays = m.now.Add(m.once())
	m.pending.lost(m.now, m.order)
	for _, w := range m.pending.list {
		if m.now < w.relay {
			continue
		}
		after := m.cfg.Relay
		if w.own {
			after = m.cfg.Consensus.Retry
		}
		w.again = min(w.again+1, againMax)
		w.relay, w.tries, w.alone, m.again = m.now.Add(after<<w.again), 0, false, true
		m.submit = append(m.submit, w.Message)
	}
}
