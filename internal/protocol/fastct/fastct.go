package fastct

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Machine is a member's part in all instances. It is a machine.Machine.
type Machine struct {
	cfg       Config
	instances map[uint64]*instance
	open      []*instance // undecided ones with something to do, by cn
	highest   uint64      // the highest instance proposed to or decided
	begun     uint64      // the highest instance in the log
	floor     uint64      // instances below are forgotten
	leases    leases
	lambda    lambda
	omega     omega
	started   bool

	now   machine.Mono
	self  []machine.Envelope // to this member, in crash-stop mode
	ready machine.Ready[Outcome]

	refusals []Refusal // since the owner asked last
}

// New returns a member that has the given durable records, none at its first start. It
// takes part in an instance again when that is proposed to again.
func New(cfg Config, records []any) (*Machine, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("fastct: %w", err)
	}
	cfg.Members = slices.Sorted(slices.Values(cfg.Members))
	m := &Machine{cfg: cfg, instances: map[uint64]*instance{}, omega: newOmega(cfg), floor: 1}
	m.leases.status = map[uint64]bool{}
	m.lambda.reset(cfg)
	me := Identity{cfg.ID, cfg.Members, cfg.Plain, cfg.Spread}
	for i, r := range records {
		id, first := r.(Identity)
		if first != (i == 0) || first && (id.Node != me.Node || id.Plain != me.Plain || id.Spread != me.Spread || !slices.Equal(id.Members, me.Members)) {
			return nil, fmt.Errorf("fastct: record %d: %w: %+v, and this is %+v", i, ErrLog, r, me)
		}
		if err := m.restore(r); err != nil {
			return nil, fmt.Errorf("fastct: record %d: %w", i, err)
		}
	}
	if len(records) == 0 {
		m.durable(me)
	}
	return m, nil
}

// restore takes in a record. A member knows only its durable records of instances that it
// was part of. Its leases are gone (F11).
func (m *Machine) restore(r any) error {
	switch r := r.(type) {
	case Identity:
	case Entered:
		m.begun = max(m.begun, r.CN)
		in := m.instance(r.CN)
		in.round = max(in.round, r.Round)
	case Adopted:
		m.begun = max(m.begun, r.CN)
		in := m.instance(r.CN)
		in.round, in.ts, in.est = max(in.round, r.Round), r.Round, r.Value
	case Settled:
		m.begun = max(m.begun, r.CN)
		in := m.instance(r.CN)
		if !r.Adopted {
			in.est = r.Value
		} else if in.ts < 0 {
			return fmt.Errorf("%w: instance %d was decided by an adopted value, and none was adopted", ErrLog, r.CN)
		}
		in.phase = settled
		m.highest = max(m.highest, r.CN)
	case Gone:
		m.forget(r.Below)
	default:
		return fmt.Errorf("%w: it is a %T", ErrLog, r)
	}
	return nil
}

// Records returns what a new log may begin with in place of all records so far.
func (m *Machine) Records() []any {
	records := []any{Identity{m.cfg.ID, m.cfg.Members, m.cfg.Plain, m.cfg.Spread}, Gone{m.floor}}
	var cns []uint64
	for cn := range m.instances {
		cns = append(cns, cn)
	}
	slices.Sort(cns)
	for _, cn := range cns {
		in := m.instances[cn]
		if in.phase == settled {
			records = append(records, Settled{CN: cn, Value: in.est})
			continue
		}
		if in.ts >= 0 {
			records = append(records, Adopted{cn, in.ts, in.est})
		}
		if in.round >= m.cfg.normal() {
			records = append(records, Entered{cn, in.round})
		}
	}
	return records
}

// Decision returns what an instance has decided, unless that is not known here.
func (m *Machine) Decision(cn uint64) (value []byte, ok bool) {
	in := m.instances[cn]
	if in == nil || in.phase != settled {
		return nil, false
	}
	return in.est, true
}

// Begun is the highest instance that the log knows of, from before this start. It may
// have been decided, though the log does not say so: the owner should propose to all
// up to it.
func (m *Machine) Begun() uint64 { return m.begun }

// Floor is the lowest instance that is not forgotten.
func (m *Machine) Floor() uint64 { return m.floor }

// Step takes a Propose, a Leased, a Suspect, a Learn or a Trim.
func (m *Machine) Step(now machine.Now, input Input) {
	m.begin(now)
	switch in := input.(type) {
	case Propose:
		m.propose(in)
	case Leased:
		m.verdict(in)
	case Suspect:
		m.told(in)
	case Learn:
		if in.CN >= m.floor {
			if i := m.instance(in.CN); i.phase != settled {
				m.settle(i, in.Value, -1)
			}
		}
	case Trim:
		if in.Below > m.floor {
			m.forget(in.Below)
			m.durable(Gone(in))
		}
	}
	m.end()
}

// Receive takes a message of another member, or of its own that has waited for a record.
func (m *Machine) Receive(now machine.Now, e machine.Envelope) {
	m.begin(now)
	m.envelope(e)
	m.end()
}

// Wake suspects members that were silent for too long, and repeats what was not answered in
// time.
func (m *Machine) Wake(now machine.Now) {
	m.begin(now)
	m.detect()
	for _, in := range slices.Clone(m.open) {
		if m.now >= in.retry && in.phase != settled {
			m.repeat(in)
		}
	}
	m.end()
}

// begin begins a step.
func (m *Machine) begin(now machine.Now) {
	m.now = now.Mono
	if !m.started {
		m.detect()
		m.started = true
	}
}

// end ends a step: this member hears what it has said to itself.
func (m *Machine) end() {
	for len(m.self) > 0 {
		e := m.self[0]
		m.self = m.self[1:]
		m.envelope(e)
	}
	m.lead()
}

// Ready returns the effects of the steps since the last call.
func (m *Machine) Ready() machine.Ready[Outcome] {
	rd := m.ready
	m.ready = machine.Ready[Outcome]{}
	rd.Alarm = m.watch()
	for _, in := range m.open {
		rd.Alarm = min(rd.Alarm, in.retry)
	}
	return rd
}

// envelope takes in a message, unless it makes no sense.
func (m *Machine) envelope(e machine.Envelope) {
	if e.To != m.cfg.ID || !slices.Contains(m.cfg.Members, e.From) {
		m.refuse(e.From, fmt.Errorf("from member %d to %d, and this is member %d of %v", e.From, e.To, m.cfg.ID, m.cfg.Members))
		return
	}
	if e.From != m.cfg.ID {
		m.noteLife(e.From)
	}
	if err := m.possible(e); err != nil {
		m.refuse(e.From, err)
		return
	}
	switch b := e.Body.(type) {
	case Counts:
		m.counted(b)
		return
	case Trimmed:
		if b.Below > m.floor {
			m.out(Behind{e.From, b.Below})
		}
		return
	}
	switch cn, _, _ := cnRound(e.Body); {
	case beyond(cn, max(m.highest, m.floor)):
	case cn < m.floor:
		m.send(e.From, Trimmed{m.floor})
	default:
		m.receive(m.instance(cn), e)
	}
}

// beyond reports whether an instance is more than Window behind another one.
func beyond(cn, from uint64) bool { return cn > from && cn-from > Window }

func (m *Machine) instance(cn uint64) *instance {
	in := m.instances[cn]
	if in == nil {
		in = newInstance(cn)
		m.instances[cn] = in
	}
	return in
}

// addOpen lists an instance among those that have something to do.
func (m *Machine) addOpen(in *instance) {
	i, found := slices.BinarySearchFunc(m.open, in.cn, func(o *instance, cn uint64) int { return cmp.Compare(o.cn, cn) })
	if !found {
		m.open = slices.Insert(m.open, i, in)
	}
	m.startWait(in, m.cfg.Retry)
}

func (m *Machine) removeOpen(in *instance) {
	m.open = slices.DeleteFunc(m.open, func(o *instance) bool { return o == in })
}

func (m *Machine) forget(below uint64) {
	m.floor = max(m.floor, below)
	for cn, in := range m.instances {
		if cn < m.floor {
			m.removeOpen(in)
			delete(m.instances, cn)
		}
	}
	m.forgetLeases()
}

func (m *Machine) out(outcome Outcome) { m.ready.Outcomes = append(m.ready.Outcomes, outcome) }

func (m *Machine) send(to machine.NodeID, body any) {
	e := machine.Envelope{From: m.cfg.ID, To: to, Body: body}
	if to == m.cfg.ID {
		m.self = append(m.self, e)
		return
	}
	m.ready.Sends = append(m.ready.Sends, e)
}

// sendToOthers sends to all but this member.
func (m *Machine) sendToOthers(body any) {
	for _, to := range m.cfg.Members {
		if to != m.cfg.ID {
			m.send(to, body)
		}
	}
}

// durable writes a record, which may be nil, and sends what follows only once that and
// all before it are durable.
func (m *Machine) durable(record any, then ...machine.Envelope) {
	if m.cfg.Volatile {
		for _, e := range then {
			m.send(e.To, e.Body)
		}
		return
	}
	if record != nil || len(then) > 0 {
		m.ready.Persists = append(m.ready.Persists, machine.Persist{Record: record, Then: then})
	}
}

func (m *Machine) to(id machine.NodeID, body any) machine.Envelope {
	return machine.Envelope{From: m.cfg.ID, To: id, Body: body}
}

var _ machine.Receiver[Input, Outcome] = (*Machine)(nil)
