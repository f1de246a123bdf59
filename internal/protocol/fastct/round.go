package fastct

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// propose is procedure propose of Figure 4. A member that has crashed goes on behind
// the last round that it may have taken part in, and in NORMAL mode.
func (m *Machine) propose(p Propose) {
	if p.CN < m.floor || p.CN == 0 {
		return
	}
	in := m.instance(p.CN)
	m.highest = max(m.highest, p.CN)
	if in.phase != idle {
		return
	}
	in.value = p.Value
	if in.ts < 0 {
		in.est = p.Value
	}
	m.addOpen(in)
	switch {
	case in.due >= 0: // it is decided, and the value is on its way
		in.phase = acked
		m.send(in.dueFrom, Call{CN: in.cn})
		m.flush(in)
	case in.round >= m.cfg.normal():
		m.enter(in, in.round+1)
	case in.round >= 0 || m.cfg.Plain:
		m.enter(in, m.cfg.normal())
	default:
		m.enter(in, int64(m.omega.min())) // rotate(), which begins anew in each instance (F14)
	}
}

func (m *Machine) coordinatorOf(in *instance) machine.NodeID {
	return m.cfg.coordinator(in.cn, in.round)
}

// enter begins a round: phase 1.
func (m *Machine) enter(in *instance, round int64) {
	in.round, in.estimates, in.replies = round, nil, nil
	m.startWait(in, m.cfg.Retry)
	c := m.coordinatorOf(in)
	if round < m.cfg.normal() {
		if c == m.cfg.ID {
			m.coordinate(in)
			return
		}
		in.phase = waiting
		if !m.imposed(in) { // else it would tell the coordinator nothing
			m.send(c, Estimate{CN: in.cn, Round: round, TS: -1})
		}
	} else {
		in.phase = waiting
		if c == m.cfg.ID {
			// Nobody hears of a round that a coordinator alone has begun, and a member
			// whose proposal failed may not begin by itself (see package abcast). So the
			// coordinator calls soon.
			in.phase = collecting
			m.startWait(in, m.cfg.Retry/16)
		}
		// The round is durable before anybody hears of it (B-1).
		m.durable(Entered{in.cn, round}, m.to(c, Estimate{CN: in.cn, Round: round, TS: in.ts, Value: in.est}))
	}
	m.flush(in)
	m.doubt(in)
}

// imposed reports whether the coordinator's estimate of this round has come already.
func (m *Machine) imposed(in *instance) bool {
	return slices.ContainsFunc(in.buffer, func(e machine.Envelope) bool {
		b, ok := e.Body.(NewEstimate)
		return ok && b.Round == in.round && e.From == m.coordinatorOf(in)
	})
}

// next is the round after this one: from FAST mode always the first of NORMAL mode.
func (m *Machine) next(in *instance) { m.enter(in, max(in.round+1, m.cfg.normal())) }

// coordinate is phase 2F.
func (m *Machine) coordinate(in *instance) {
	fast, known := m.leases.status[in.cn]
	if !known {
		in.phase = leasing
		if !m.leaseKnown(in.cn) {
			m.wantLease(in.cn)
		}
		return
	}
	m.leases.status[in.cn] = false // it is used up, whatever happens (F11)
	in.fast = fast
	if !fast {
		m.next(in)
		return
	}
	in.est = in.value
	m.impose(in, false)
	m.flush(in)
	if m.cfg.Prefetch {
		m.prefetch(in.cn)
	}
}

// impose sends the coordinator's estimate to all, itself included: the end of phase 2.
func (m *Machine) impose(in *instance, durably bool) {
	in.phase, in.replies = counting, map[machine.NodeID]bool{}
	m.startWait(in, m.cfg.Retry)
	b := NewEstimate{CN: in.cn, Round: in.round, Value: in.est}
	if durably {
		// Another estimate must never be imposed in this round, so that it was entered
		// has to be durable. In FAST mode the lease sees to that.
		var then []machine.Envelope
		for _, to := range m.cfg.Members {
			if to != m.cfg.ID {
				then = append(then, m.to(to, b))
			}
		}
		m.durable(nil, then...)
	} else {
		m.sendToOthers(b)
	}
	in.ts = in.round
	m.durable(Adopted{in.cn, in.round, in.est}, m.to(m.cfg.ID, Ack{CN: in.cn, Round: in.round}))
}

// adopt is phase 3 with a coordinator's estimate.
func (m *Machine) adopt(in *instance, from machine.NodeID, b NewEstimate) {
	if in.due >= 0 && in.due <= b.Round {
		m.settle(in, b.Value, -1)
		return
	}
	in.est, in.ts = b.Value, b.Round
	in.phase = acked
	m.startWait(in, m.cfg.Retry)
	m.durable(Adopted{in.cn, b.Round, b.Value}, m.to(from, Ack{CN: in.cn, Round: b.Round}))
	m.doubt(in)
}

// leave tells those who may wait for it that this member has no part in its round any
// more.
func (m *Machine) leave(in *instance) {
	switch in.phase {
	case collecting, counting:
		m.sendToOthers(Abort{in.cn, in.round})
	case waiting:
		m.send(m.coordinatorOf(in), Nack{in.cn, in.round})
	}
}

// doubt leaves a round whose coordinator is suspected: line 36. The coordinator of the next
// round calls at once: the others may have been told the decision, or may not know the
// instance at all.
func (m *Machine) doubt(in *instance) {
	if in.phase != waiting && in.phase != acked {
		return
	}
	if c := m.coordinatorOf(in); in.round >= 0 && c != m.cfg.ID && m.suspects(c) {
		m.leave(in)
		following := max(in.round+1, m.cfg.normal())
		m.next(in)
		if in.phase == collecting && in.round == following {
			m.call(in)
		}
	}
}

// call asks those for their estimates from whom there is none yet.
func (m *Machine) call(in *instance) {
	for _, to := range m.cfg.Members {
		if _, ok := in.estimates[to]; !ok && to != m.cfg.ID {
			m.send(to, Call{in.cn, in.round})
		}
	}
}

// flush takes in what came before phases 1 and 2 of FAST mode were complete (F13).
func (m *Machine) flush(in *instance) {
	in.ready = true
	buffer := in.buffer
	in.buffer = nil
	for _, e := range buffer {
		m.receive(in, e)
	}
}

// startWait begins to wait for an answer, for so long at first.
func (m *Machine) startWait(in *instance, first time.Duration) {
	in.retry, in.pause = m.now.Add(first), max(m.cfg.Retry, 2*first)
}

// repeat sends again the message that this member waits to be answered, and then waits for
// longer: a member that does not answer is overloaded or away.
func (m *Machine) repeat(in *instance) {
	in.retry, in.pause = m.now.Add(in.pause), min(2*in.pause, retryMax*m.cfg.Retry)
	if in.due >= 0 {
		m.sendToOthers(Call{CN: in.cn})
	}
	if in.round < 0 {
		return
	}
	c := m.coordinatorOf(in)
	switch in.phase {
	case collecting:
		m.call(in)
	case waiting:
		if in.round < m.cfg.normal() {
			m.send(c, Estimate{CN: in.cn, Round: in.round, TS: -1, Again: true})
			break
		}
		m.durable(nil, m.to(c, Estimate{CN: in.cn, Round: in.round, TS: in.ts, Value: in.est, Again: true}))
	case acked:
		if in.ts == in.round { // else it knows that there is a decision, and has acknowledged nothing
			m.durable(nil, m.to(c, Ack{CN: in.cn, Round: in.round, Again: true}))
		}
	case counting:
		for _, to := range m.cfg.Members {
			if _, ok := in.replies[to]; !ok && to != m.cfg.ID {
				m.durable(nil, m.to(to, NewEstimate{CN: in.cn, Round: in.round, Value: in.est, Again: true}))
			}
		}
	}
}

// settle decides. The others hear of it from the member that counted the acknowledgments,
// and from any member that knows if they ask again: a reliable broadcast that relays only
// when it must.
func (m *Machine) settle(in *instance, value []byte, round int64) {
	adopted := in.ts >= 0 && in.ts >= round && round >= 0
	in.phase, in.est = settled, value
	in.estimates, in.replies, in.buffer, in.value = nil, nil, nil, nil
	m.highest = max(m.highest, in.cn)
	m.removeOpen(in)
	r := Settled{CN: in.cn, Adopted: adopted}
	if !adopted {
		r.Value = value
	}
	m.durable(r)
	m.out(Decided{in.cn, value, round})
}

// acks counts the replies that are acknowledgments, each sender's once.
func acks(replies map[machine.NodeID]bool, members []machine.NodeID) (n int) {
	for _, id := range members {
		if replies[id] {
			n++
		}
	}
	return n
}

// best is lines 28 and 29: the estimate that was adopted last, of the first member if
// there are several.
func best(estimates map[machine.NodeID]Estimate, members []machine.NodeID) (b Estimate) {
	found := false
	for _, id := range members {
		if e, ok := estimates[id]; ok && (!found || e.TS > b.TS) {
			b, found = e, true
		}
	}
	return b
}

// bufferMax is how many messages of each member are kept in an instance. A bound for all
// together could be used up by one of them.
const bufferMax = 8

// buffer keeps a message until it can be taken in. Messages beyond the limit are dropped;
// their senders repeat them.
func (m *Machine) buffer(in *instance, e machine.Envelope) {
	of := 0 // the sender's
	for _, o := range in.buffer {
		if same(o, e) {
			return
		}
		if o.From == e.From {
			of++
		}
	}
	if of < bufferMax {
		in.buffer = append(in.buffer, e)
	}
}

// same reports whether two messages of a sender say the same, whatever they carry.
func same(a, b machine.Envelope) bool {
	_, ra, _ := cnRound(a.Body)
	_, rb, _ := cnRound(b.Body)
	return a.From == b.From && ra == rb && kind(a.Body) == kind(b.Body)
}

func kind(body any) int {
	switch body.(type) {
	case Estimate:
		return 1
	case NewEstimate:
		return 2
	case Ack:
		return 3
	case Nack:
		return 4
	case Abort:
		return 5
	case Call:
		return 6
	}
	return 0
}
