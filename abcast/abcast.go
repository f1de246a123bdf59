package abcast

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/fastct"
	"github.com/tenure-lease/tenure/machine"
)

// Machine is a member. It is a machine.Machine.
type Machine struct {
	cfg     Config
	cons    *Consensus
	order   *order
	pending pending
	marks   []State      // after each instance from the floor on, without sessions
	opened  uint64       // the highest instance that was proposed to in this life
	wanted  uint64       // the highest instance that somebody takes part in
	base    Base         // what the first decision that is kept applies to
	submit  []Message    // of this step
	status  machine.Mono // when the next Status leaves
	fetched machine.Mono // when Fetch was sent last
	relays  machine.Mono // when to look next what has to be relayed
	now     machine.Mono
	ready   machine.Ready
	alarm   machine.Mono // of cons
}

// New returns a member that has the given durable records, none at its first start. The
// owner knows the messages up to Position from what he has kept, or asks for Messages.
func New(cfg Config, records []any) (*Machine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var base Base
	var ofConsensus []any
	for _, r := range records {
		if b, ok := r.(Base); ok {
			base = b
			continue
		}
		ofConsensus = append(ofConsensus, r)
	}
	cons, err := NewConsensus(cfg.Consensus, cfg.Life, ofConsensus)
	if err != nil {
		return nil, fmt.Errorf("abcast: %w", err)
	}
	if cons.Floor() > base.Order.Instance+1 {
		return nil, fmt.Errorf("abcast: %w: decisions are kept from instance %d on, and the state is of instance %d", ErrLog, cons.Floor(), base.Order.Instance)
	}
	m := &Machine{cfg: cfg, cons: cons, base: base, order: newOrder(base.Order, cfg.Clients)}
	m.pending.byKey = map[key]*waiting{}
	m.replay()
	return m, nil
}

// replay applies the decisions that the log has, up to the first that is missing.
func (m *Machine) replay() {
	for {
		batch, ok := m.cons.Decision(m.order.instance + 1)
		if !ok {
			break
		}
		m.order.next(batch)
		m.mark()
	}
	m.opened = m.order.instance
	m.wanted = m.cons.Begun() // what is decided may have been delivered: it must not wait for more to order
}

func (m *Machine) mark() {
	m.marks = append(m.marks, State{Instance: m.order.instance, Position: m.order.position})
}

// Position is that of the last message that was delivered.
func (m *Machine) Position() uint64 { return max(m.order.position, m.base.Position) }

// Consensus is for looking at its counters.
func (m *Machine) Consensus() *Consensus { return m.cons }

// Messages returns the messages behind a position that are not trimmed, at most n; ok
// is false if some that should be among them were.
func (m *Machine) Messages(after uint64, n int) (messages []Delivered, ok bool) {
	if after < m.base.Position {
		return nil, false
	}
	replayed := newOrder(m.base.Order, m.cfg.Clients)
	for replayed.instance < m.order.instance && len(messages) < n {
		batch, _ := m.cons.Decision(replayed.instance + 1)
		for _, d := range replayed.next(batch) {
			if d.Position > after && len(messages) < n {
				messages = append(messages, d)
			}
		}
	}
	return messages, true
}

// Base is what the owner has to begin with after a restart: his state after a position,
// from Trim or Installed. Messages has what follows.
func (m *Machine) Base() Base { return m.base }

// Records returns what a new log may begin with in place of all records so far.
func (m *Machine) Records() []any { return append([]any{m.base}, m.cons.Records()...) }

// Step takes a Broadcast, a Trim, a fastct.Suspect, an Envelope or a Wake.
func (m *Machine) Step(now machine.Now, input any) {
	m.now = now.Mono
	switch in := input.(type) {
	case Broadcast:
		m.broadcast(in.Message)
	case Trim:
		m.trim(now, in)
	case fastct.Suspect:
		m.cons.Step(now, in)
	case machine.Envelope:
		m.envelope(now, in)
	case machine.Wake:
		m.cons.Step(now, in)
		m.relay()
		m.tell()
	default:
		panic(fmt.Sprintf("abcast: no such input: %T", input))
	}
	m.advance(now)
}

// advance takes in what consensus has come to, and opens instances, until neither
// changes anything.
func (m *Machine) advance(now machine.Now) {
	for {
		m.open(now)
		rd := m.cons.Ready()
		m.ready.Sends = append(m.ready.Sends, rd.Sends...)
		m.ready.Persists = append(m.ready.Persists, rd.Persists...)
		m.alarm = rd.Alarm
		if len(rd.Outcomes) == 0 {
			return
		}
		for _, out := range rd.Outcomes {
			switch o := out.(type) {
			case fastct.Decided:
				m.deliver()
			case fastct.Wanted:
				m.wanted = max(m.wanted, o.CN)
				if o.CN >= m.order.instance+1+uint64(m.cfg.Pipeline) {
					m.fetch(o.From)
				}
			case fastct.Behind:
				m.fetch(o.From)
			case fastct.Leader:
				m.out(o)
			}
		}
	}
}

// open proposes to the next instances: those that others take part in, and more if
// there is something to order. What another one proposes may be decided; then what was
// proposed here is proposed again.
func (m *Machine) open(now machine.Now) {
	for m.opened = max(m.opened, m.order.instance); m.opened < m.order.instance+uint64(m.cfg.Pipeline); {
		if m.opened >= m.wanted && !m.pending.any(m.order) {
			return
		}
		m.opened++
		if _, decided := m.cons.Decision(m.opened); decided {
			continue
		}
		m.cons.Step(now, fastct.Propose{CN: m.opened, Value: m.pending.batch(m.opened, m.order, m.cfg.BatchCount, m.cfg.BatchBytes)})
	}
}

// deliver delivers what decisions order whose turn has come.
func (m *Machine) deliver() {
	for {
		batch, ok := m.cons.Decision(m.order.instance + 1)
		if !ok {
			return
		}
		for _, d := range m.order.next(batch) {
			if d.Position > m.base.Position { // an installed state may be ahead of the order
				m.out(d)
			}
		}
		m.mark()
		m.pending.drop(m.order)
		m.pending.free(m.order.instance)
	}
}

// Ready returns the effects of the steps since the last call.
func (m *Machine) Ready() machine.Ready {
	rd := m.ready
	m.ready = machine.Ready{}
	if len(m.submit) > 0 {
		// Before what consensus sends: who takes part because of that has something to
		// propose then.
		m.toOthers(Submit{m.submit})
		m.submit = nil
		rd.Sends, m.ready.Sends = append(m.ready.Sends, rd.Sends...), nil
	}
	rd.Alarm = m.alarm
	if len(m.pending.list) > 0 {
		rd.Alarm = min(rd.Alarm, m.relays)
	}
	if m.cfg.Consensus.Heartbeat > 0 {
		rd.Alarm = min(rd.Alarm, m.status)
	}
	return rd
}

// envelope takes in a message of another member, or of consensus to itself.
func (m *Machine) envelope(now machine.Now, e machine.Envelope) {
	if e.To != m.cfg.Consensus.ID || !slices.Contains(m.cfg.Consensus.Members, e.From) {
		return
	}
	switch b := e.Body.(type) {
	case Submit:
		for _, msg := range b.Messages {
			m.submitted(msg)
		}
	case Status:
		if b.Delivered > m.order.instance {
			m.fetch(e.From)
		}
	case Fetch:
		m.serve(e.From, b.From)
	case Transfer:
		m.install(now, b)
	default:
		m.cons.Step(now, e)
	}
}

// broadcast takes a message of the owner: R-broadcast, and A-deliver will follow.
func (m *Machine) broadcast(msg Message) {
	refuse := func(err error) { m.out(Refused{msg.Client, msg.Seq, err}) }
	switch upto := m.order.upto(msg.Client); {
	case msg.Seq <= upto && msg.Seq > 0:
		m.out(Repeated{msg.Client, msg.Seq})
		return
	case msg.size() > m.cfg.BatchBytes:
		refuse(ErrTooLarge)
		return
	case msg.Seq == 0 || msg.Seq != upto+1 && m.pending.get(msg.Client, msg.Seq-1) == nil:
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
	m.pending.add(&waiting{Message: msg, own: true, relay: m.now.Add(m.cfg.Consensus.Retry)})
	m.submit = append(m.submit, msg)
}

// Room tells whether a message with a payload of so many bytes would be taken now, as far
// as what waits goes.
func (m *Machine) Room(payload int) bool {
	size := Message{}.size() + payload
	return len(m.pending.list) < m.cfg.PendingCount && m.pending.bytes+size <= m.cfg.PendingBytes
}

// submitted is R-deliver. What has no room here will be sent again.
func (m *Machine) submitted(msg Message) {
	if msg.Seq <= m.order.upto(msg.Client) || m.pending.get(msg.Client, msg.Seq) != nil || msg.size() > m.cfg.BatchBytes ||
		len(m.pending.list) >= 2*m.cfg.PendingCount || m.pending.bytes+msg.size() > 2*m.cfg.PendingBytes {
		return
	}
	m.pending.add(&waiting{Message: msg, relay: m.now.Add(m.cfg.Relay)})
}

// relay sends again what is not ordered yet: its own messages each Retry, those of
// others each Relay.
func (m *Machine) relay() {
	if m.now < m.relays {
		return
	}
	m.relays = m.now.Add(m.once())
	for _, w := range m.pending.list {
		if m.now < w.relay {
			continue
		}
		after := m.cfg.Relay
		if w.own {
			after = m.cfg.Consensus.Retry
		}
		w.relay, w.tries = m.now.Add(after), 0
		m.submit = append(m.submit, w.Message)
	}
}

// tell tells the others how far this member is.
func (m *Machine) tell() {
	if every := m.cfg.Consensus.Heartbeat; every > 0 && m.now >= m.status {
		m.status = m.now.Add(every)
		m.toOthers(Status{m.order.instance})
	}
}

func (m *Machine) out(outcome any) { m.ready.Outcomes = append(m.ready.Outcomes, outcome) }

func (m *Machine) send(to machine.NodeID, body any) {
	m.ready.Sends = append(m.ready.Sends, machine.Envelope{From: m.cfg.Consensus.ID, To: to, Body: body})
}

func (m *Machine) toOthers(body any) {
	for _, to := range m.cfg.Consensus.Members {
		if to != m.cfg.Consensus.ID {
			m.send(to, body)
		}
	}
}

func (m *Machine) durable(record any) {
	if !m.cfg.Consensus.Volatile {
		m.ready.Persists = append(m.ready.Persists, machine.Persist{Record: record})
	}
}

// once is how often one may ask for the same.
func (m *Machine) once() time.Duration { return m.cfg.Consensus.Retry / 2 }

var _ machine.Machine = (*Machine)(nil)
