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

// serve answers a Fetch: with decisions, or, if they are forgotten, with the
// state under them.
func (m *Machine) serve(to machine.NodeID, from uint64) {
	if from == 0 {
		return
	}
	if from <= m.base.Order.Instance {
		m.send(to, Transfer{m.base})
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

// install goes on from another member's state.
func (m *Machine) install(now machine.Now, t Transfer) {
	if t.Base.Order.Instance <= m.order.instance {
		return
	}
	before := m.Position()
	m.base, m.order, m.marks = t.Base, newOrder(t.Base.Order, m.cfg.Clients), nil
	m.durable(m.base)
	m.cons.Step(now, fastct.Trim{Below: m.base.Order.Instance + 1})
	if m.base.Position > before {
		m.out(Installed{m.base.Position, m.base.App})
	}
	m.pending.drop(m.order)
	m.pending.free(m.order.instance)
	m.deliver()
}

// trim forgets the instances that have nothing behind the owner's position.
func (m *Machine) trim(now machine.Now, t Trim) {
	if t.Position <= m.base.Position || t.Position > m.Position() {
		return
	}
	// What clients are remembered after an instance follows from its decisions.
	o := newOrder(m.base.Order, m.cfg.Clients)
	for len(m.marks) > 0 && m.marks[0].Position <= t.Position {
		batch, _ := m.cons.Decision(o.instance + 1)
		o.next(batch)
		m.marks = m.marks[1:]
	}
	m.base = Base{Order: o.state(), Position: t.Position, App: t.App}
	m.durable(m.base)
	m.cons.Step(now, fastct.Trim{Below: m.base.Order.Instance + 1})
}
