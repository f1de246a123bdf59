package abcast

import (
	"fmt"
	"slices"
	"sort"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// How much one Fetch is answered with.
const (
	fetchCount = 64
	fetchBytes = 1 << 20
)

// fetch asks a member that is further for what is missing here.
func (m *Machine) fetch(from machine.NodeID) {
	pause := m.once()
	if m.lacks != nil {
		pause = m.cfg.Relay // it is for the owner to act; but the member asked next may have the decisions
	}
	if m.fetched != 0 && m.now < m.fetched.Add(pause) || m.removed() {
		return
	}
	m.fetched, m.asked = m.now, from
	if m.isJoining() {
		m.send(from, Fetch{0})
		return
	}
	m.send(from, Fetch{m.order.instance + 1})
}

// told is which Base a member was sent last, and when.
type told struct {
	instance uint64
	at       machine.Mono
}

// serve answers a Fetch: with decisions, or, if they are forgotten, with the
// order's state under them.
func (m *Machine) serve(to machine.NodeID, from uint64) {
	if m.isJoining() {
		return
	}
	if from <= m.base.Order.Instance {
		if last, any := m.told[to]; any && last.instance == m.base.Order.Instance && m.now < last.at.Add(m.cfg.Relay) {
			return // it is large, and may be on its way for longer than its receiver waits
		}
		m.told[to] = told{m.base.Order.Instance, m.now}
		m.send(to, Transfer{m.Base()})
		if from > 0 {
			return
		}
		from = m.base.Order.Instance + 1 // it is new, and wants all
	}
	b := Decisions{From: from}
	for i := from - m.base.Order.Instance - 1; i < uint64(len(m.kept)) && !b.full(); i++ {
		b.Values = append(b.Values, m.kept[i].batch)
	}
	if len(b.Values) > 0 {
		m.send(to, b)
	}
}

// learn takes in decisions that another member told, up to the end of this member's
// epochs and beyond.
func (m *Machine) learn(now machine.Now, from machine.NodeID, b Decisions) {
	before := m.order.instance
	for i, value := range b.Values {
		cn := b.From + uint64(i)
		switch {
		case cn <= m.order.instance:
		case cn > m.order.instance+1 || m.removed() || m.isJoining():
			return
		case m.cons != nil:
			m.cons.Step(now, fastct.Learn{CN: cn, Value: value})
			m.advance(now)
		default:
			m.durable(Learned{cn, value})
			m.apply(now, value)
		}
	}
	if m.order.instance > before && b.full() {
		m.fetched = 0 // there is more: a member that asked only once in a while would not catch up under load
		m.fetch(from)
	}
}

// full reports whether there was no room for more.
func (b Decisions) full() bool {
	size := 0
	for _, v := range b.Values {
		size += len(v)
	}
	return len(b.Values) >= fetchCount || size >= fetchBytes
}

// transferred takes in how far the order is where another member's decisions begin. To go
// on from there the owner has to have what the messages up to there led to: a member that
// passes over an instance may be counted on for what that has decided.
func (m *Machine) transferred(now machine.Now, from machine.NodeID, b Base) {
	if b.Order.Instance <= m.order.instance && !m.isJoining() || m.removed() {
		return
	}
	if err := m.checkFollows(b); err != nil {
		m.out(Impossible{from, err})
		return
	}
	switch {
	case b.Position <= m.base.Position: // and decisions from there on can be had
		m.install(now, b)
	case m.lacks != nil && b.Order.Instance < m.lacks.Order.Instance:
	default:
		m.lacks = &b
		m.out(Lacks{from, b.Position})
	}
}

// checkFollows returns why another member's state, of an instance that is not delivered here, does
// not come of what is: with ErrImpossible.
func (m *Machine) checkFollows(b Base) error {
	clients := m.order.clients
	if m.isJoining() {
		clients = b.Order.Clients // it is the group's
	}
	if err := b.Check(clients); err != nil {
		return err
	}
	ours, theirs := m.order.group, b.Order.Group
	if theirs.First < ours.First || theirs.First == ours.First && !slices.Equal(theirs.IDs(), ours.IDs()) {
		return fmt.Errorf("%w: a state after instance %d with members %v from instance %d on, and here they are %v from %d on",
			ErrImpossible, b.Order.Instance, theirs.IDs(), theirs.First, ours.IDs(), ours.First)
	}
	return nil
}

// restored goes on from what another member has told, if the owner has all below it.
func (m *Machine) restored(now machine.Now, position uint64) {
	if b := m.lacks; b != nil && b.Position <= position && !m.removed() {
		m.install(now, Base{Order: b.Order, Position: position})
	}
}

// install goes on from another member's state.
func (m *Machine) install(now machine.Now, b Base) {
	before, first := m.Position(), m.order.group.First
	b.Position = max(b.Position, before)
	here := m.order.group
	if m.isJoining() {
		here = m.cfg.founders()
	}
	b.Order.Group = b.Order.Group.reached(here)
	m.base, m.order, m.kept, m.lacks = b, newOrder(b.Order), nil, nil
	m.behind, m.dropped = m.order.clone(), m.bytes
	m.agreed.note(m.order.position, m.order.digest)
	m.durable(m.Base())
	if m.base.Position > before {
		m.out(Installed{m.base.Position})
	}
	for _, w := range m.pending.list {
		if w.own && w.Seq <= m.order.upto(w.Client) {
			m.out(Repeated{w.Client, w.Seq}) // it is in the state, and at a position that is not known here
		}
	}
	for _, w := range m.pending.drop(m.order) {
		if w.own {
			m.out(Forgotten{w.Client, w.Seq}) // it may be in the state, whose last trace of its client is gone
		}
	}
	m.pending.free(m.order.instance)
	if m.order.group.First != first {
		m.begin(now)
	}
	if m.cons != nil {
		m.cons.Step(now, fastct.Trim{Below: m.base.Order.Instance + 1})
	}
	m.deliver(now)
}

// trim forgets the instances that have nothing behind the owner's position.
func (m *Machine) trim(now machine.Now, t Trim) {
	if t.Position <= m.base.Position || t.Position > m.Position() {
		return
	}
	n := m.upto(t.Position)
	for _, k := range m.kept[:n] {
		m.behind.next(k.batch) // which clients are remembered after an instance follows from its decisions
		m.dropped = k.bytes
	}
	m.kept = slices.Clone(m.kept[n:])
	m.base = Base{Order: m.behind.head(), Position: t.Position}
	m.durable(m.Base())
	if m.cons != nil {
		m.cons.Step(now, fastct.Trim{Below: m.base.Order.Instance + 1})
	}
}

// upto is how many of the decisions that are kept have nothing behind a position.
func (m *Machine) upto(position uint64) int {
	return sort.Search(len(m.kept), func(i int) bool { return m.kept[i].position > position })
}

// A Base takes about sessionBytes for each client; one of sessionsFew is small. To forget
// instancesMany takes milliseconds, in which this member does nothing else.
const (
	sessionBytes  = 32
	sessionsFew   = 1000
	instancesMany = 4096
)

// Worthwhile reports whether a Trim would drop as much as the Base takes that becomes
// durable with it, or many instances. An owner that waits for that writes about as much for
// all of its Trims as was broadcast, and keeps that much longer.
func (m *Machine) Worthwhile(t Trim) bool {
	n := m.upto(t.Position)
	sessions := len(m.behind.sessions)
	return sessions <= sessionsFew || n >= instancesMany || n > 0 && m.kept[n-1].bytes-m.dropped >= sessions*sessionBytes
}
