package replica

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// asks brings questions about leases, renewals above all, to the leader and the
// answers back. At the leader an ask waits for a round of confirmation that
// began after it arrived, then for the leases of that moment to be applied. So a
// leader that was deposed while it slept answers nothing. Asking twice does no
// harm, so an ask is repeated until it is answered.
type asks struct {
	own   map[uint64]*ownAsk
	fresh []*ownAsk // of these, not yet with a leader
	// away is set while a message with asks is on its way and nothing came
	// back: what comes up meanwhile shares the next one.
	away bool

	// At the leader:
	inbox     []askBatch // arrived, waiting for a round to begin
	confirmed []askBatch // waiting for index to be applied
	outbox    []answers  // to be sent in this turn, one for each asker
}

type answers struct {
	to   asker
	list []AnswerLease
}

type ownAsk struct {
	ask         leaseAsk
	since, sent machine.Mono
}

type askBatch struct {
	asker
	index uint64
	asks  []leaseAsk
}

// asker is where an answer goes: a member, and the boot of it that asked.
type asker struct {
	node machine.NodeID
	boot uint64
}

func (a *asks) add(now machine.Mono, in AskLease) {
	if a.own == nil {
		a.own = map[uint64]*ownAsk{}
	}
	ask := &ownAsk{ask: leaseAsk(in), since: now}
	a.own[in.ID] = ask
	a.fresh = append(a.fresh, ask)
}

// turn sends answers, and hands fresh asks to the leader.
func (a *asks) turn(at moment, eff *effects) {
	a.flush(at, eff)
	if at.leader == 0 || len(a.fresh) == 0 || a.away && !at.leading() {
		return
	}
	out := make([]leaseAsk, len(a.fresh))
	for i, f := range a.fresh {
		out[i], f.sent = f.ask, at.now
	}
	a.fresh = nil
	if at.leading() {
		a.inbox = append(a.inbox, askBatch{asker: asker{at.cfg.ID, at.cfg.Boot}, asks: out})
		return
	}
	eff.send(at.leader, leaseAsks{Boot: at.cfg.Boot, Asks: out})
	a.away = true
}

// receive takes another member's asks: index is up to where they have to be applied, if the
// question vouches for the leader. A member that does not lead drops them: the sender asks
// again when it hears of the leader.
func (a *asks) receive(at moment, from machine.NodeID, m leaseAsks, index uint64, vouched bool) {
	b := askBatch{asker: asker{from, m.Boot}, index: index, asks: m.Asks}
	switch {
	case vouched:
		a.confirmed = append(a.confirmed, b)
	case at.leading():
		a.inbox = append(a.inbox, b)
	}
}

// receiveAsks takes another member's asks.
func (r *Replica) receiveAsks(from machine.NodeID, m leaseAsks) {
	index, vouched := r.vouched(from)
	if r.asks.receive(r.moment, from, m, r.reads.bound(r.moment, index).all(), vouched); vouched {
		r.settleAsks()
	}
}

// redirect makes everything unanswered fresh, for another leader.
func (a *asks) redirect() {
	a.inbox, a.confirmed, a.fresh, a.away = nil, nil, nil, false
	for _, f := range a.own {
		a.fresh = append(a.fresh, f)
	}
	slices.SortFunc(a.fresh, byID)
}

func byID(x, y *ownAsk) int {
	if x.ask.ID < y.ask.ID {
		return -1
	}
	return 1
}

// onTick repeats asks that seem lost and forgets those nobody waits for.
func (a *asks) onTick(at moment) {
	a.away = false // it was lost, or all of its asks are parked
	var again []*ownAsk
	for id, f := range a.own {
		switch {
		case at.now.Sub(f.since) > at.cfg.patience():
			delete(a.own, id)
			a.fresh = slices.DeleteFunc(a.fresh, func(x *ownAsk) bool { return x == f })
		case f.sent != 0 && at.now.Sub(f.sent) > at.cfg.electionTimeout():
			f.sent = 0
			again = append(again, f)
		}
	}
	slices.SortFunc(again, byID)
	a.fresh = append(a.fresh, again...)
}

// takeInbox takes the asks that wait for a round.
func (a *asks) takeInbox() []askBatch {
	inbox := a.inbox
	a.inbox = nil
	return inbox
}

// confirm takes asks that wait for nothing but their index.
func (a *asks) confirm(list []askBatch) {
	if len(a.confirmed) == 0 {
		a.confirmed = list
	} else {
		a.confirmed = append(a.confirmed, list...)
	}
}

// due takes out the confirmed asks whose index is visible.
func (a *asks) due(visible uint64) (due []askBatch) {
	waits := func(b askBatch) bool { return b.index > visible }
	if !slices.ContainsFunc(a.confirmed, waits) {
		due, a.confirmed = a.confirmed, nil
		return due
	}
	var wait []askBatch
	for _, b := range a.confirmed {
		if waits(b) {
			wait = append(wait, b)
		} else {
			due = append(due, b)
		}
	}
	a.confirmed = wait
	return due
}

// settleAsks answers the confirmed asks whose index has been applied.
func (r *Replica) settleAsks() {
	if !r.leases.ticking {
		return
	}
	for _, b := range r.asks.due(r.visible) {
		list := make([]AnswerLease, 0, len(b.asks))
		for _, ask := range b.asks {
			if answer, ok := r.leases.ask(r.now, b.asker, ask); ok {
				list = append(list, answer)
			}
		}
		r.asks.answer(b.asker, list...)
	}
}

// answer puts answers into the outbox.
func (a *asks) answer(to asker, list ...AnswerLease) {
	for i := range a.outbox {
		if a.outbox[i].to == to {
			a.outbox[i].list = append(a.outbox[i].list, list...)
			return
		}
	}
	if len(list) > 0 {
		a.outbox = append(a.outbox, answers{to, list})
	}
}

// answerParked puts the answers into the outbox that leases had kept back.
func (a *asks) answerParked(list []parkedAnswer) {
	for _, p := range list {
		a.answer(p.to, p.answer)
	}
}

// flush sends what is in the outbox.
func (a *asks) flush(at moment, eff *effects) {
	for _, o := range a.outbox {
		if m := (leaseAnswers{Boot: o.to.boot, Answers: o.list}); o.to.node == at.cfg.ID {
			a.answered(at, eff, m)
		} else {
			eff.send(o.to.node, m)
		}
	}
	a.outbox = nil
}

// answered passes answers on to the owner, the first to each ask.
func (a *asks) answered(at moment, eff *effects, m leaseAnswers) {
	if m.Boot != at.cfg.Boot {
		return // to an ask of an earlier life, which used the same numbers
	}
	a.away = false
	for _, answer := range m.Answers {
		if own, ok := a.own[answer.ID]; ok && own.ask.Lease == answer.Lease {
			delete(a.own, answer.ID)
			eff.outcomes = append(eff.outcomes, answer)
		}
	}
}
