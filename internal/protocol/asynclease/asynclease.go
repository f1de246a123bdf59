package asynclease

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Machine is a member: an acceptor, and the requests of its owner. It is a
// machine.Machine.
type Machine struct {
	cfg   Config
	acc   acceptor
	seq   uint64
	asked []*request           // not decided yet, by Seq
	held  map[uint64]Permitted // granted and not given back, by the owner's ID
	ready machine.Ready[Verdict]
	now   machine.Mono
}

// request is an invocation that lasts.
type request struct {
	id uint64
	Lease
	answered map[machine.NodeID]bool // true: an Ack
	acks     int
	until    uint64
	retry    machine.Mono
	pause    time.Duration // from retry to the next
}

// New returns a member that has the given durable records, none at its first start.
func New(cfg Config, records []any) (*Machine, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("asynclease: %w", err)
	}
	cfg.Members = slices.Sorted(slices.Values(cfg.Members))
	m := &Machine{cfg: cfg, acc: acceptor{askers: map[machine.NodeID]*asker{}}, held: map[uint64]Permitted{}}
	me := Identity{cfg.ID, cfg.Members}
	for i, r := range records {
		switch r := r.(type) {
		case Identity:
			if i > 0 || r.Node != me.Node || !slices.Equal(r.Members, me.Members) {
				return nil, fmt.Errorf("asynclease: record %d: %w: %+v, want %+v", i, ErrLog, r, me)
			}
			continue
		case Permitted:
			m.acc.mark(r)
		case Cut:
			m.acc.cut(r.Request, r.From)
		case Floor:
			m.acc.forget(r.Below)
		default:
			return nil, fmt.Errorf("asynclease: record %d is a %T: %w", i, r, ErrLog)
		}
		if i == 0 {
			return nil, fmt.Errorf("asynclease: the log does not begin with the identity of its owner: %w", ErrLog)
		}
	}
	if len(records) == 0 {
		m.record(me)
	}
	return m, nil
}

// Records returns what a new log may begin with in place of all records so far.
func (m *Machine) Records() []any {
	records := []any{Identity{m.cfg.ID, m.cfg.Members}, Floor{m.acc.floor}}
	for _, p := range m.acc.marks {
		records = append(records, p)
	}
	return records
}

// Permitted returns what this acceptor has marked, by first integer.
func (m *Machine) Permitted() []Permitted { return slices.Clone(m.acc.marks) }

// Step takes an Ask, a Return or a Forget.
func (m *Machine) Step(now machine.Now, input Input) {
	m.now = now.Mono
	switch in := input.(type) {
	case Ask:
		m.ask(in)
	case Return:
		m.giveBack(in)
	case Forget:
		if m.acc.forget(in.Below) {
			m.record(Floor(in))
			maps.DeleteFunc(m.held, func(_ uint64, p Permitted) bool { return p.Interval.Last < in.Below })
		}
	}
}

// Receive takes a message of another member, or of its own that has waited for a record.
func (m *Machine) Receive(now machine.Now, e machine.Envelope) {
	m.now = now.Mono
	if slices.Contains(m.cfg.Members, e.From) && e.To == m.cfg.ID && Check(e) == nil {
		m.receive(e.From, e.Body)
	}
}

// Wake repeats what was not answered in time.
func (m *Machine) Wake(now machine.Now) {
	m.now = now.Mono
	for _, r := range slices.Clone(m.asked) { // sending may end one, in a group of one
		if m.now >= r.retry {
			m.send(r)
		}
	}
}

// Ready returns the effects of the steps since the last call.
func (m *Machine) Ready() machine.Ready[Verdict] {
	rd := m.ready
	m.ready = machine.Ready[Verdict]{}
	rd.Alarm = machine.Never
	for _, r := range m.asked {
		rd.Alarm = min(rd.Alarm, r.retry)
	}
	return rd
}

func (m *Machine) receive(from machine.NodeID, body any) {
	switch b := body.(type) {
	case Lease:
		m.accept(b)
	case Give:
		m.given(b)
	case Ack:
		m.answer(from, b.Request, true, 0)
	case Nack:
		m.answer(from, b.Request, false, b.Until)
	}
}

// ask begins an invocation: lines 3 and 4 of Figure 2.
func (m *Machine) ask(in Ask) {
	if err := in.check(); err != nil {
		m.ready.Outcomes = append(m.ready.Outcomes, Verdict{ID: in.ID, Interval: in.Interval, Err: err})
		return
	}
	m.seq++
	r := &request{id: in.ID, answered: map[machine.NodeID]bool{}, pause: m.cfg.Retry}
	r.Lease = Lease{Request: Request{m.cfg.ID, m.cfg.Life, m.seq}, Interval: in.Interval}
	m.asked = append(m.asked, r)
	m.send(r)
}

// send asks those that have not answered.
func (m *Machine) send(r *request) {
	r.retry, r.pause = m.now.Add(r.pause), min(2*r.pause, retryMax*m.cfg.Retry)
	r.Open = m.asked[0].Request.Seq
	for _, to := range m.cfg.Members {
		if _, ok := r.answered[to]; ok {
			continue
		}
		if to == m.cfg.ID {
			m.accept(r.Lease)
			continue
		}
		m.ready.Sends = append(m.ready.Sends, machine.Envelope{From: m.cfg.ID, To: to, Body: r.Lease})
	}
}

// accept is lines 7 to 11 of Figure 2. A mark is durable before the answer that tells of
// it.
func (m *Machine) accept(l Lease) {
	v, mark, ok := m.acc.judge(l, m.cfg.MarkRefused)
	if !ok {
		return
	}
	reply := machine.Envelope{From: m.cfg.ID, To: l.Request.Node, Body: Nack{l.Request, v.until}}
	if v.ack {
		reply.Body = Ack{l.Request}
	}
	var record any
	if mark {
		record = Permitted{l.Request, l.Interval}
	}
	switch {
	case m.cfg.Volatile && reply.To == m.cfg.ID:
		m.receive(reply.From, reply.Body)
	case m.cfg.Volatile:
		m.ready.Sends = append(m.ready.Sends, reply)
	default:
		// A repeated answer waits for the record, too, if that is not durable yet.
		m.ready.Persists = append(m.ready.Persists, machine.Persist{Record: record, Then: []machine.Envelope{reply}})
	}
}

// answer counts an answer: lines 5 and 6 of Figure 2, with each member counted once.
func (m *Machine) answer(from machine.NodeID, id Request, ack bool, until uint64) {
	i, ok := slices.BinarySearchFunc(m.asked, id.Seq, func(r *request, seq uint64) int {
		return cmp.Compare(r.Request.Seq, seq)
	})
	if !ok || m.asked[i].Request != id {
		return
	}
	r := m.asked[i]
	if _, again := r.answered[from]; again {
		return
	}
	r.answered[from] = ack
	if ack {
		r.acks++
	}
	r.until = max(r.until, until)
	if len(r.answered) < m.cfg.majority() {
		return
	}
	m.asked = slices.Delete(m.asked, i, i+1)
	v := Verdict{ID: r.id, Interval: r.Interval, Granted: r.acks == len(r.answered)}
	if v.Granted {
		m.held[r.id] = Permitted{r.Request, r.Interval}
	} else {
		v.Until = r.until
		if !m.cfg.MarkRefused {
			m.give(r.Request, r.Interval.First)
		}
	}
	m.ready.Outcomes = append(m.ready.Outcomes, v)
}

// giveBack is the owner's wish to keep less than was granted.
func (m *Machine) giveBack(in Return) {
	p, ok := m.held[in.ID]
	if !ok || in.From > p.Interval.Last {
		return
	}
	m.give(p.Request, in.From)
	if in.From <= p.Interval.First {
		delete(m.held, in.ID)
		return
	}
	p.Interval.Last = in.From - 1
	m.held[in.ID] = p
}

func (m *Machine) give(r Request, from uint64) {
	for _, to := range m.cfg.Members {
		if to == m.cfg.ID {
			m.given(Give{r, from})
			continue
		}
		m.ready.Sends = append(m.ready.Sends, machine.Envelope{From: m.cfg.ID, To: to, Body: Give{r, from}})
	}
}

// given takes back what this acceptor permitted. A crash that forgets it does no harm.
func (m *Machine) given(g Give) {
	if m.acc.cut(g.Request, g.From) {
		m.record(Cut(g))
	}
}

// record writes what need not be forced.
func (m *Machine) record(r any) {
	if !m.cfg.Volatile {
		m.ready.Persists = append(m.ready.Persists, machine.Persist{Record: r})
	}
}

var _ machine.Receiver[Input, Verdict] = (*Machine)(nil)
