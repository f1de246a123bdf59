package replica

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// asks brings questions about leases, renewals above all, to the leader and
// the answers back. At the leader an ask waits for a round of confirmation that
// began after it arrived, then for the leases of that moment to be applied:
// a leader that was deposed while it slept answers nothing. Asking twice does no
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
func (a *asks) turn(r *Replica) {
	a.flush(r)
	if r.leader == 0 || len(a.fresh) == 0 || a.away && !r.leading() {
		return
	}
	out := make([]leaseAsk, len(a.fresh))
	for i, f := range a.fresh {
		out[i], f.sent = f.ask, r.now
	}
	a.fresh = nil
	if r.leading() {
		a.inbox = append(a.inbox, askBatch{asker: asker{r.cfg.ID, r.cfg.Boot}, asks: out})
		return
	}
	r.send(r.leader, leaseAsks{Boot: r.cfg.Boot, Asks: out})
	a.away = true
}

// receive takes another member's asks. A member that does not lead drops them:
// the sender asks again when it hears who does.
func (a *asks) receive(r *Replica, from machine.NodeID, m leaseAsks) {
	b := askBatch{asker: asker{from, m.Boot}, asks: m.Asks}
	if index, ok := r.vouched(from); ok {
		b.index = r.reads.behind(r, index)
		a.confirmed = append(a.confirmed, b)
		a.settle(r)
	} else if r.leading() {
		a.inbox = append(a.inbox, b)
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
func (a *asks) onTick(r *Replica) {
	a.away = false // it was lost, or all of its asks are parked
	var again []*ownAsk
	for id, f := range a.own {
		switch {
		case r.now.Sub(f.since) > r.cfg.patience():
			delete(a.own, id)
			a.fresh = slices.DeleteFunc(a.fresh, func(x *ownAsk) bool { return x == f })
		case f.sent != 0 && r.now.Sub(f.sent) > r.cfg.electionTimeout():
			f.sent = 0
			again = append(again, f)
		}
	}
	slices.SortFunc(again, byID)
	a.fresh = append(a.fresh, again...)
}

// settle answers the confirmed asks whose index has been applied.
func (a *asks) settle(r *Replica) {
	if !r.leases.ticking {
		return
	}
	var wait []askBatch
	for _, b := range a.confirmed {
		if b.index > r.visible {
			wait = append(wait, b)
			continue
		}
		list := make([]AnswerLease, 0, len(b.asks))
		for _, ask := range b.asks {
			if answer, ok := r.leases.ask(r.now, b.asker, ask); ok {
				list = append(list, answer)
			}
		}
		a.answer(b.asker, list...)
	}
	a.confirmed = wait
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

// flush sends what is in the outbox.
func (a *asks) flush(r *Replica) {
	for _, o := range a.outbox {
		if m := (leaseAnswers{Boot: o.to.boot, Answers: o.list}); o.to.node == r.cfg.ID {
			a.answered(r, m)
		} else {
			r.send(o.to.node, m)
		}
	}
	a.outbox = nil
}

// answered passes answers on to the owner, the first to each ask.
func (a *asks) answered(r *Replica, m leaseAnswers) {
	if m.Boot != r.cfg.Boot {
		return // to an ask of an earlier life, which used the same numbers
	}
	a.away = false
	for _, answer := range m.Answers {
		if own, ok := a.own[answer.ID]; ok && own.ask.Lease == answer.Lease {
			delete(a.own, answer.ID)
			r.outcomes = append(r.outcomes, answer)
		}
	}
}
