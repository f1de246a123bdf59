package abcast

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// Machine is a member. It is a machine.Machine.
type Machine struct {
	cfg     Config
	cons    *Consensus // of the present epoch; nil if this is no member of it
	order   *order
	epoch   epoch
	pending pending
	agreed  agreement
	kept    []decided      // of each instance behind base.Order
	bytes   int            // of all that was kept so far
	dropped int            // in bytes, of decisions that are no longer kept
	opened  uint64         // the highest instance that was proposed to in this life
	wanted  uint64         // the highest instance that somebody takes part in
	base    Base           // the state that the first kept decision applies to, without Sessions until they are needed
	behind  *order         // is at base
	lacks   *Base          // where to go on from when the owner has what led there
	submit  []Message      // of this step
	again   bool           // some of them were sent before
	fast    machine.NodeID // the leader of the last instance that was decided, if that was in FAST mode; else 0
	status  machine.Mono   // when the next Status leaves
	fetched machine.Mono   // when Fetch was sent last
	asked   machine.NodeID
	told    map[machine.NodeID]told
	relays  machine.Mono // when to look next what has to be relayed
	now     machine.Mono
	ready   machine.Ready[Outcome]
	alarm   machine.Mono // of cons
}

// decided is the decision of an instance, and the position of the last message up to it.
type decided struct {
	batch    []byte
	position uint64
	bytes    int // Machine.bytes up to it
}

// New returns a member that has the given durable records, none at its first start. The
// owner knows the messages up to Position from its own records, or asks for Messages.
func New(cfg Config, records []any) (*Machine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if len(records) == 0 && !cfg.Join && !cfg.founders().Has(cfg.Consensus.ID) {
		return nil, fmt.Errorf("abcast: %d is not one of the founders %v", cfg.Consensus.ID, cfg.founders().IDs())
	}
	base := Base{Order: State{Group: cfg.founders(), Clients: cfg.Clients}}
	if cfg.Join {
		base = Base{}
	}
	started := uint64(1)
	learned, epochs := map[uint64][]byte{}, map[uint64][]any{}
	for _, r := range records {
		switch r := r.(type) {
		case Base:
			base = r
		case Learned:
			learned[r.CN] = r.Value
		case Started:
			started = r.Epoch
		case In:
			epochs[r.Epoch] = append(epochs[r.Epoch], r.Body)
		default:
			epochs[1] = append(epochs[1], r)
		}
	}
	m := &Machine{cfg: cfg, base: base, order: newOrder(base.Order), told: map[machine.NodeID]told{}, agreed: newAgreement()}
	m.agreed.note(m.order.position, m.order.digest)
	m.behind = m.order.clone()
	m.epoch = epoch{moved: started, begun: map[machine.NodeID]uint64{}}
	m.pending.clear()
	if err := m.replay(learned, epochs); err != nil {
		return nil, err
	}
	switch g := m.order.group; {
	case len(records) == 0 && !cfg.Join:
		m.durable(m.Base())
	case !m.isJoining() && m.order.clients != cfg.Clients:
		return nil, fmt.Errorf("abcast: %w: its members remember %d clients, which cannot be changed, and Clients is %d", ErrLog, m.order.clients, cfg.Clients)
	case g.First > started:
		m.startEpoch()
	}
	return m, nil
}

// replay applies the decisions that the log has, up to the first that is missing.
func (m *Machine) replay(learned map[uint64][]byte, epochs map[uint64][]any) error {
	for first := uint64(0); ; {
		if g := m.order.group; g.First != first {
			first = g.First
			if err := m.consensus(epochs[first]); err != nil {
				return fmt.Errorf("abcast: %w", err)
			}
		}
		batch, ok := learned[m.order.instance+1]
		if !ok && m.cons != nil {
			batch, ok = m.cons.Decision(m.order.instance + 1)
		}
		if !ok {
			break
		}
		for _, d := range m.order.next(batch) {
			m.agreed.note(d.Position, d.Digest)
		}
		m.keep(batch)
	}
	m.opened, m.wanted = m.order.instance, m.order.instance
	if m.cons == nil {
		return nil
	}
	if m.cons.Floor() > m.order.instance+1 {
		return fmt.Errorf("abcast: %w: decisions are kept from instance %d on, and the state is of instance %d", ErrLog, m.cons.Floor(), m.order.instance)
	}
	m.wanted = m.cons.Begun() // a decision may have been delivered: it must not wait for more to order
	return nil
}

func (m *Machine) keep(batch []byte) {
	m.bytes += len(batch)
	m.kept = append(m.kept, decided{batch, m.order.position, m.bytes})
}

// Position is that of the last message that was delivered.
func (m *Machine) Position() uint64 { return max(m.order.position, m.base.Position) }

// Instance is the last instance of consensus that was delivered; some order nothing.
func (m *Machine) Instance() uint64 { return m.order.instance }

// Consensus is for looking at the counters of the present epoch; nil if this is no member.
func (m *Machine) Consensus() *Consensus { return m.cons }

// Messages returns the messages behind a position that are not trimmed, at most n; ok
// is false if some that should be among them were.
func (m *Machine) Messages(after uint64, n int) (messages []Delivered, ok bool) {
	if after < m.base.Position {
		return nil, false
	}
	replayed := m.behind.clone()
	for _, k := range m.kept {
		if len(messages) >= n {
			break
		}
		for _, d := range replayed.next(k.batch) {
			if d.Position > after && len(messages) < n {
				messages = append(messages, d)
			}
		}
	}
	return messages, true
}

// Base is what the messages that are kept follow. The owner has what led to its Position;
// Messages has what comes behind it.
func (m *Machine) Base() Base {
	if m.base.Order.Sessions == nil {
		m.base.Order.Sessions = m.behind.list()
	}
	return m.base
}

// Records returns what a new log may begin with in place of all records so far.
func (m *Machine) Records() []any {
	records := []any{m.Base()}
	first := m.order.group.First
	for i, k := range m.kept {
		if cn := m.base.Order.Instance + 1 + uint64(i); m.cons == nil || cn < first {
			records = append(records, Learned{cn, k.batch})
		}
	}
	if first > 1 {
		records = append(records, Started{m.epoch.moved})
	}
	if m.cons == nil {
		return records
	}
	of := m.cons.Records()
	if first > 1 {
		for i, r := range of {
			of[i] = In{first, r}
		}
	}
	return append(records, of...)
}

// Step takes a Broadcast, a Trim, a Restored or a Suspect.
func (m *Machine) Step(now machine.Now, input Input) {
	m.now = now.Mono
	switch in := input.(type) {
	case Broadcast:
		m.broadcast(in.Message)
	case Trim:
		m.trim(now, in)
	case Restored:
		m.restored(now, in.Position)
	case Suspect:
		if m.cons != nil {
			m.cons.Step(now, fastct.Suspect(in))
		}
	default:
		panic(fmt.Sprintf("abcast: no such input: %T", input))
	}
	m.end(now)
}

// Receive takes a message of another member, or of its own that has waited for a record.
func (m *Machine) Receive(now machine.Now, e machine.Envelope) {
	m.now = now.Mono
	m.envelope(now, e)
	m.end(now)
}

// Wake repeats what may have been lost, and tells others how far this member is.
func (m *Machine) Wake(now machine.Now) {
	m.now = now.Mono
	if m.cons != nil {
		m.cons.Wake(now)
	}
	m.relay()
	m.tell()
	m.end(now)
}

// end ends a step.
func (m *Machine) end(now machine.Now) {
	m.advance(now)
	if m.cfg.Direct {
		m.route()
	}
}

// advance takes in what consensus has come to, and opens instances, until neither
// changes anything.
func (m *Machine) advance(now machine.Now) {
	for m.cons != nil {
		m.open(now)
		cons, outcomes := m.cons, m.gather()
		if len(outcomes) == 0 {
			return
		}
		for _, out := range outcomes {
			if m.cons != cons {
				break // the rest is of an epoch that is over
			}
			switch o := out.(type) {
			case fastct.Decided:
				m.fast = cons.FastLeader(o.Round)
				m.deliver(now)
			case fastct.Wanted:
				m.wanted = max(m.wanted, o.CN)
				if o.CN >= m.order.instance+1+uint64(m.cfg.Pipeline) {
					m.fetch(o.From)
				}
			case fastct.Behind:
				m.fetch(o.From)
			case fastct.Leader:
				m.out(Leader(o))
			}
		}
	}
	m.alarm = machine.Never
}

// mayBegin reports whether enough messages wait for another instance. While instances are
// undecided, as many messages have to wait as those instances contain: many small batches cost
// more than they gain.
func (m *Machine) mayBegin() bool {
	p := &m.pending
	return (m.opened == m.order.instance || len(p.list)-p.proposed >= p.proposed) && p.any(m.order)
}

// open proposes to the next instances: those that others take part in, and more if there is
// something to order. Another member's proposal may be decided; then this member's is
// proposed again.
func (m *Machine) open(now machine.Now) {
	for m.opened = max(m.opened, m.order.instance); m.opened < m.order.instance+uint64(m.cfg.Pipeline); {
		if m.opened >= m.wanted && !m.mayBegin() {
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
func (m *Machine) deliver(now machine.Now) {
	for m.cons != nil {
		batch, ok := m.cons.Decision(m.order.instance + 1)
		if !ok {
			return
		}
		m.apply(now, batch)
	}
}

// apply delivers what the next instance orders.
func (m *Machine) apply(now machine.Now, batch []byte) {
	first := m.order.group.First
	for _, d := range m.order.next(batch) {
		m.agreed.note(d.Position, d.Digest)
		w := m.pending.get(d.Client, d.Seq)
		if w != nil {
			w.done = true // its client may be forgotten within the same batch
		}
		if d.Position > m.base.Position {
			m.out(d)
		} else if w != nil && w.own {
			m.out(Repeated{d.Client, d.Seq}) // an installed state is ahead of the order
		}
	}
	m.keep(batch)
	m.compareReached()
	for _, w := range m.pending.drop(m.order) {
		if w.own {
			m.out(Refused{w.Client, w.Seq, ErrSequence}) // all messages ordered until now are known here
		}
	}
	m.pending.free(m.order.instance)
	if m.lacks != nil && m.lacks.Order.Instance <= m.order.instance {
		m.lacks = nil
	}
	if m.order.group.First != first {
		m.begin(now)
	}
}

// Ready returns the effects of the steps since the last call.
func (m *Machine) Ready() machine.Ready[Outcome] {
	rd := m.ready
	m.ready = machine.Ready[Outcome]{}
	if len(m.submit) > 0 {
		// It leaves before the messages of consensus, so that a member that takes part
		// because of those has something to propose.
		for len(m.submit) > 0 {
			n, size := 1, m.submit[0].size()
			for ; n < len(m.submit) && size+m.submit[n].size() <= m.cfg.BatchBytes; n++ {
				size += m.submit[n].size()
			}
			m.sendSubmits(m.submit[:n:n])
			m.submit = m.submit[n:]
		}
		m.submit, m.again = nil, false
		rd.Sends, m.ready.Sends = append(m.ready.Sends, rd.Sends...), nil
	}
	rd.Alarm = m.alarm
	if len(m.pending.list) > 0 {
		rd.Alarm = min(rd.Alarm, m.relays)
	}
	if m.mustTell() {
		rd.Alarm = min(rd.Alarm, m.status)
	}
	return rd
}

// envelope takes in a message of another member, or of consensus to itself.
func (m *Machine) envelope(now machine.Now, e machine.Envelope) {
	if e.To != m.cfg.Consensus.ID || m.agreed.denied[e.From] {
		return
	}
	switch b := e.Body.(type) {
	case moved:
		if e.From == e.To {
			m.hasMoved(b.Epoch)
		}
	case Submit:
		if m.cons == nil || !m.order.group.Has(e.From) {
			return
		}
		for _, msg := range b.Messages {
			m.submitted(msg)
		}
	case Status:
		m.notePosition(e.From, b)
	case Fetch:
		m.serve(e.From, b.From)
	case Transfer:
		if m.knows(e.From) {
			m.transferred(now, e.From, b.Base)
		}
	case Decisions:
		if m.knows(e.From) {
			m.learn(now, e.From, b)
		}
	case In:
		e.Body = b.Body
		m.of(now, b.Epoch, e)
	default:
		m.of(now, 1, e)
	}
}

// mustTell reports whether this member tells the others how far it is. A member that was removed
// does not once the new epoch is established, nor does a member that knows of no group yet.
func (m *Machine) mustTell() bool {
	return m.cfg.Consensus.Heartbeat > 0 && !m.isJoining() && !(m.removed() && m.epoch.established)
}

// tell tells the others how far this member is.
func (m *Machine) tell() {
	if m.mustTell() && m.now >= m.status {
		m.status = m.now.Add(m.cfg.Consensus.Heartbeat)
		m.tellAll()
	}
}

func (m *Machine) tellAll() { m.sendToOthers(m.present()) }

// present is how far this member is.
func (m *Machine) present() Status {
	return Status{m.order.instance, m.epoch.moved, m.order.position, m.order.digest}
}

func (m *Machine) out(outcome Outcome) { m.ready.Outcomes = append(m.ready.Outcomes, outcome) }

func (m *Machine) send(to machine.NodeID, body any) {
	m.ready.Sends = append(m.ready.Sends, machine.Envelope{From: m.cfg.Consensus.ID, To: to, Body: body})
}

func (m *Machine) sendToOthers(body any) {
	for _, to := range m.order.group.Members {
		if to.ID != m.cfg.Consensus.ID {
			m.send(to.ID, body)
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

var _ machine.Receiver[Input, Outcome] = (*Machine)(nil)
