package abcast

import (
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// In is a message or a record of the consensus of an epoch behind the first; those of
// the first go without. Instances and leases with the same numbers in two epochs have
// nothing to do with each other.
type In struct {
	Epoch uint64 // Group.First
	Body  any
}

// moved is to the member itself: that it has begun an epoch is durable.
type moved struct{ Epoch uint64 }

// earlyMax is how many messages of an epoch are kept that has not begun here.
const earlyMax = 64

// epoch is what a member knows of the present one.
type epoch struct {
	first       uint64                    // of cons
	moved       uint64                    // the last epoch that has begun here, durably
	begun       map[machine.NodeID]uint64 // the others' reports of themselves
	established bool                      // a majority of its members has begun it
	early       []machine.Envelope        // of epochs behind this one
}

// Group is the members. It has none before a joining member knows.
func (m *Machine) Group() Group { return m.order.group }

// isJoining reports whether this member does not know of any group yet.
func (m *Machine) isJoining() bool { return len(m.order.group.Members) == 0 }

// removed reports whether this member was one and is no more.
func (m *Machine) removed() bool { return m.order.group.Gone(m.cfg.Consensus.ID) }

// knows reports whether a sender is believed about decisions: it is a member of any epoch,
// or was asked. A member that is far behind may know none of the present members, and asks
// any member that claims to be further.
func (m *Machine) knows(id machine.NodeID) bool {
	g := m.order.group
	return g.Has(id) || g.Gone(id) || id == m.asked
}

// consensus makes this member's part in the consensus of the present epoch, if it has
// one.
func (m *Machine) consensus(records []any) (err error) {
	g := m.order.group
	m.cons, m.epoch.first = nil, g.First
	if !g.Has(m.cfg.Consensus.ID) {
		if len(records) > 0 {
			return fmt.Errorf("%w: its owner took part in decisions of members %v, and %d is not one of them", ErrLog, g.IDs(), m.cfg.Consensus.ID)
		}
		return nil
	}
	cfg := m.cfg.Consensus
	cfg.Members = g.IDs()
	m.cons, err = NewConsensus(cfg, m.cfg.Life, records)
	return err
}

// begin ends an epoch and begins the next. Decisions of the old one behind its end are
// void, at all members alike, so no member needs to wait for them, whatever the pipeline. A
// member that has begun takes no part in the old one any more: those that are behind are
// told the decisions.
func (m *Machine) begin(now machine.Now) {
	var suspects []machine.NodeID
	if m.cons != nil {
		suspects = m.cons.Suspects()
		m.gather() // it may have decided more than one instance, or all of an epoch, in this step
	}
	if err := m.consensus(nil); err != nil {
		panic(fmt.Sprintf("abcast: %v", err)) // the group was checked when it was ordered
	}
	g := m.order.group
	m.pending.free(m.opened)
	m.opened, m.wanted, m.fast = m.order.instance, m.order.instance, 0
	if m.cons != nil {
		m.cons.Step(now, fastct.Trim{Below: g.First})
		for _, id := range suspects {
			m.cons.Step(now, fastct.Suspect{Node: id, Suspected: true})
		}
	} else {
		m.pending.clear()
	}
	early := m.epoch.early
	m.epoch = epoch{first: g.First, moved: m.epoch.moved, begun: map[machine.NodeID]uint64{}}
	m.out(Began{g})
	m.startEpoch()
	m.tellAll()
	for _, e := range early {
		m.envelope(now, e)
	}
}

// startEpoch makes durable that an epoch has begun, with all that led there: only then may
// others rest on this member's knowing it.
func (m *Machine) startEpoch() {
	first := m.order.group.First
	if m.cfg.Consensus.Volatile {
		m.hasMoved(first)
		return
	}
	m.ready.Persists = append(m.ready.Persists, machine.Persist{
		Record: Started{first}, Then: []machine.Envelope{{From: m.cfg.Consensus.ID, To: m.cfg.Consensus.ID, Body: moved{first}}},
	})
}

func (m *Machine) hasMoved(first uint64) {
	m.epoch.moved = max(m.epoch.moved, first)
	m.tellAll()
	m.establish()
}

// notePosition takes in how far another member is.
func (m *Machine) notePosition(from machine.NodeID, s Status) {
	if m.compare(from, s); m.agreed.denied[from] {
		return
	}
	if s.Delivered > m.order.instance {
		m.fetch(from)
	}
	m.epoch.begun[from] = max(m.epoch.begun[from], s.Began)
	m.establish()
	if m.cons != nil && !m.order.group.Has(from) && s.Delivered <= m.order.instance {
		// Nobody else tells it. One that is further may know this member for removed, and
		// the two would answer each other for ever.
		m.send(from, m.present())
	}
}

// establish finds that a majority of the members has begun the epoch. Until then removed
// members are needed: the new epoch may begin with state of the old one that they alone
// know.
func (m *Machine) establish() {
	g := m.order.group
	n := 0
	for _, member := range g.Members {
		if m.epoch.begun[member.ID] >= g.First || member.ID == m.cfg.Consensus.ID && m.epoch.moved >= g.First {
			n++
		}
	}
	if !m.epoch.established && n >= g.majority() && len(g.Members) > 0 {
		m.epoch.established = true
		m.out(Established{g})
	}
}

// of steps the consensus of an epoch with a message. One of an earlier epoch is of a
// member that is behind, and will be told; of one of a later epoch this member is.
func (m *Machine) of(now machine.Now, first uint64, e machine.Envelope) {
	switch at := m.epoch.first; {
	case first == at && m.cons != nil:
		m.cons.Receive(now, e)
	case first > at && e.From != m.cfg.Consensus.ID:
		if len(m.epoch.early) < earlyMax {
			m.epoch.early = append(m.epoch.early, machine.Envelope{From: e.From, To: e.To, Body: In{first, e.Body}})
		}
		m.fetch(e.From)
	}
}

// gather takes what consensus wants to send and to write, and says of which epoch it is.
func (m *Machine) gather() (outcomes []fastct.Outcome) {
	rd, first := m.cons.Ready(), m.epoch.first
	m.alarm = rd.Alarm
	if first > 1 {
		for i := range rd.Sends {
			rd.Sends[i].Body = In{first, rd.Sends[i].Body}
		}
		for i := range rd.Persists {
			if p := &rd.Persists[i]; p.Record != nil {
				p.Record = In{first, p.Record}
			}
			for k := range rd.Persists[i].Then {
				rd.Persists[i].Then[k].Body = In{first, rd.Persists[i].Then[k].Body}
			}
		}
	}
	m.ready.Sends = joined(m.ready.Sends, rd.Sends)
	m.ready.Persists = joined(m.ready.Persists, rd.Persists)
	return rd.Outcomes
}
