package abcast

import (
	"github.com/tenure-lease/tenure/fastct"
	"github.com/tenure-lease/tenure/machine"
)

// How much one Fetch is answered with.
const (
	fetchCount = 64
	fetchBytes = 1 << 20
)

// fetch asks a member that is further for what is missing here.
func (m *Machine) fetch(from machine.NodeID) {
	if m.fetched != 0 && m.now < m.fetched.Add(m.once()) {
		return
	}
	m.fetched = m.now
	m.send(from, Fetch{m.order.instance + 1})
}

// serve answers a Fetch: with decisions, or, if they are forgotten, with the state that
// the owner has.
func (m *Machine) serve(to machine.NodeID, from uint64) {
	if from == 0 {
		return
	}
	if from <= m.base.Order.Instance {
		for _, r := range m.asked {
			if r.to == to {
				return
			}
		}
		m.asked = append(m.asked, request{to, m.order.state()})
		m.out(WantSnapshot{to, m.order.position})
		return
	}
	size := 0
	for cn := from; cn < from+fetchCount && size < fetchBytes; cn++ {
		value, ok := m.cons.Decision(cn)
		if !ok {
			return
		}
		size += len(value)
		m.send(to, fastct.Decide{CN: cn, Value: value, Whole: true})
	}
}

// provide sends the owner's state to who has asked.
func (m *Machine) provide(s Snapshot) {
	for i, r := range m.asked {
		if r.to == s.To {
			m.asked = append(m.asked[:i:i], m.asked[i+1:]...)
			m.send(s.To, Transfer{Order: r.order, App: s.App})
			return
		}
	}
}

// install goes on from another member's state.
func (m *Machine) install(now machine.Now, t Transfer) {
	if t.Order.Instance <= m.order.instance {
		return
	}
	m.base, m.order, m.marks = Base(t), newOrder(t.Order, m.cfg.Clients), nil
	m.durable(m.base)
	m.cons.Step(now, fastct.Trim{Below: t.Order.Instance + 1})
	m.out(Installed{t.Order.Position, t.App})
	m.pending.drop(m.order)
	m.pending.free(m.order.instance)
	m.deliver()
}

// trim forgets whole instances, as far as they have nothing from a position on.
func (m *Machine) trim(now machine.Now, below uint64) {
	last := -1
	for i, s := range m.marks {
		if s.Position < below {
			last = i
		}
	}
	if last < 0 {
		return
	}
	// What clients are remembered after that instance follows from its decisions.
	o := newOrder(m.base.Order, m.cfg.Clients)
	for o.instance < m.marks[last].Instance {
		batch, _ := m.cons.Decision(o.instance + 1)
		o.next(batch)
	}
	m.base, m.marks = Base{Order: o.state()}, m.marks[last+1:]
	m.durable(m.base)
	m.cons.Step(now, fastct.Trim{Below: m.base.Order.Instance + 1})
}
