package fastct

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// receive takes in a message about an instance, in whatever state that is.
func (m *Machine) receive(in *instance, e machine.Envelope) {
	if d, ok := e.Body.(Decide); ok {
		m.decided(in, e.From, d)
		return
	}
	if in.phase == settled {
		m.tellDecision(in, e)
		return
	}
	if in.phase == idle {
		m.buffer(in, e)
		if !in.wanted {
			in.wanted = true
			m.out(Wanted{in.cn, e.From})
		}
		return
	}
	_, round, _ := cnRound(e.Body)
	if round < m.cfg.normal() && !in.ready {
		if _, normal := e.Body.(Call); !normal {
			m.buffer(in, e) // line 44
			return
		}
	}
	switch b := e.Body.(type) {
	case Estimate:
		m.estimate(in, e.From, b)
	case NewEstimate:
		m.newEstimate(in, e.From, b)
	case Ack:
		m.reply(in, e.From, b.Round, true)
	case Nack:
		m.reply(in, e.From, b.Round, false)
	case Abort:
		if e.From == m.coordinatorOf(in) && b.Round == in.round && (in.phase == waiting || in.phase == acked) {
			m.next(in)
		}
	case Call:
		if b.Round > in.round && b.Round >= m.cfg.normal() {
			m.leave(in)
			m.enter(in, b.Round)
		}
	}
}

// estimate is line 26 for a NORMAL coordinator, and lines 45 and 46 for a member that does
// not coordinate the sender's FAST round, or no longer does (F16, F20).
func (m *Machine) estimate(in *instance, from machine.NodeID, b Estimate) {
	switch {
	case b.Round < m.cfg.normal():
		if !(in.fast && in.round == b.Round && in.phase == counting) {
			m.send(from, Abort{in.cn, b.Round})
		}
		return
	case b.Round > in.round:
		m.leave(in)
		m.enter(in, b.Round)
		if in.round != b.Round || in.phase != collecting {
			return
		}
	case b.Round < in.round:
		m.send(from, Abort{in.cn, b.Round})
		return
	case in.phase != collecting:
		return
	}
	if in.estimates == nil {
		in.estimates = map[machine.NodeID]Estimate{}
	}
	in.estimates[from] = b
	if len(in.estimates) >= m.cfg.majority() {
		in.est = best(in.estimates, m.cfg.Members).Value
		m.impose(in, true)
	}
}

// newEstimate is phase 3, and lines 47 and 48, which want q != firstc_p, for a member
// that trusts another one in FAST mode (F12): that is any FAST round but its own.
func (m *Machine) newEstimate(in *instance, from machine.NodeID, b NewEstimate) {
	if from == m.cfg.ID {
		return
	}
	switch {
	case in.due >= 0 && b.Round >= in.due:
		m.adopt(in, from, b) // it is the decision
	case b.Round == in.ts:
		// It was acknowledged before. Records that are not durable yet become so before
		// this message leaves.
		m.durable(nil, m.to(from, Ack{CN: in.cn, Round: b.Round}))
	case b.Round == in.round && in.phase == waiting:
		m.adopt(in, from, b)
	case b.Round > in.round && b.Round >= m.cfg.normal():
		m.leave(in)
		in.round, in.estimates, in.replies = b.Round, nil, nil
		m.adopt(in, from, b)
		if in.phase != settled {
			m.flush(in) // a FAST coordinator that waited for its lease is none any more (F20)
		}
	default: // an earlier round, or, in FAST mode, one of whom this member does not trust
		m.send(from, Nack{in.cn, b.Round})
	}
}

// reply is phase 4. Acknowledgments are counted by sender, on beyond the first majority
// of replies for as long as the round lasts (F17).
func (m *Machine) reply(in *instance, from machine.NodeID, round int64, ack bool) {
	if in.round != round || in.phase != counting || m.coordinatorOf(in) != m.cfg.ID {
		if ack && round <= in.round {
			m.send(from, Abort{in.cn, round}) // a member that has acknowledged waits to be told
		}
		return
	}
	in.replies[from] = in.replies[from] || ack
	switch n := acks(in.replies, m.cfg.Members); {
	case n >= m.cfg.majority():
		m.sendToOthers(Decide{CN: in.cn, Round: round})
		m.settle(in, in.est, round)
	case len(in.replies) >= m.cfg.majority() && len(in.replies) > n:
		m.leave(in)
		m.next(in)
	}
}

// decided is line 49.
func (m *Machine) decided(in *instance, from machine.NodeID, d Decide) {
	switch {
	case in.phase == settled:
	case d.Whole:
		m.settle(in, d.Value, -1)
	case in.ts >= d.Round:
		m.settle(in, in.est, d.Round) // Lemma 6: a value adopted in that round or later is the decision
	default:
		in.due, in.dueFrom = d.Round, from
		if i := slices.IndexFunc(in.buffer, func(e machine.Envelope) bool {
			b, ok := e.Body.(NewEstimate)
			return ok && b.Round >= d.Round
		}); i >= 0 {
			m.settle(in, in.buffer[i].Body.(NewEstimate).Value, -1)
			return
		}
		if in.phase != idle {
			m.addOpen(in)
		} else if !in.wanted {
			in.wanted = true
			m.out(Wanted{in.cn, from})
		}
	}
}

// tellDecision answers a member that does not know the decision. Most members hear of it
// anyway and are not told twice: only a repeated message, or one of NORMAL mode, shows that
// something was lost.
func (m *Machine) tellDecision(in *instance, e machine.Envelope) {
	tell := false
	switch b := e.Body.(type) {
	case Estimate:
		tell = b.Again || b.Round >= m.cfg.normal() && !m.cfg.Plain
	case NewEstimate, Call, Nack:
		tell = true
	case Ack:
		tell = b.Again
	}
	if tell && e.From != m.cfg.ID {
		m.send(e.From, Decide{CN: in.cn, Value: in.est, Whole: true})
	}
}
