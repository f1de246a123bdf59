package replica

import (
	"bytes"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"go.etcd.io/raft/v3"
)

// rounds confirms leadership for linearizable reads and for lease asks, many
// at a time. A round covers only what arrived before it began. It has a fresh
// ID each time it is tried, and rounds in flight are dropped when the leader
// changes, so that no answer of the past is taken for the present.
//
// A leader's round is raft's, by heartbeats. A follower's is a question to the
// leader, which confirms it by a round of its own, unless the question does; see
// vouched.
type rounds struct {
	id     uint64 // of the next round
	wanted uint64 // highest Read asked for
	done   uint64 // highest Read answered
	flying []round
	// wait is how long the oldest of these may be on its way before all count as lost, beside
	// half an election timeout. An answer to a round that was given up counts for nothing,
	// so it grows where answers take longer: otherwise none would ever count.
	wait time.Duration

	inbox []question // at the leader: of others, waiting for a round to begin
	// late are rounds that were confirmed, at a leader that has to commit first what
	// others may have found to be released.
	late []lateRounds
}

type lateRounds struct {
	index  uint64
	rounds []round
}

type round struct {
	id        uint64
	reads     uint64 // covers Reads up to this number
	asks      []askBatch
	questions []question
	keys      []*keyRead
	since     machine.Mono
}

// question is another member's round.
type question struct {
	asker
	round uint64
	keys  keyspan.Set // none: about everything
}

// maxRounds in flight, and more where members are far (see spacing): one is being
// confirmed while the next sets out, so that a busy leader is never idle for want of
// a confirmation.
const maxRounds = 2

func (rs *rounds) want(number uint64) { rs.wanted = max(rs.wanted, number) }

// mayGo reports whether another round may set out.
func (rs *rounds) mayGo(now machine.Mono) bool {
	n := len(rs.flying)
	return n < maxRounds || n < maxFlying && now.Sub(rs.flying[n-1].since) >= spacing
}

// due returns when another round may set out, if anybody waits for one.
func (rs *rounds) due(now machine.Mono, waiting int) machine.Mono {
	n := len(rs.flying)
	if n >= maxFlying || rs.mayGo(now) {
		return machine.Never
	}
	if rs.wanted > rs.covered() || len(rs.inbox)+waiting > 0 {
		return rs.flying[n-1].since.Add(spacing)
	}
	return machine.Never
}

func (rs *rounds) reset() { rs.flying, rs.inbox, rs.late, rs.wait = nil, nil, nil, 0 }

// patience returns how long a round may be on its way before it counts as lost.
func (rs *rounds) patience(at moment) time.Duration {
	return min(max(rs.wait, at.cfg.electionTimeout()/2), 2*at.cfg.electionTimeout())
}

// took notes how long the nth round in flight, if there is one, was on its way.
func (rs *rounds) took(at moment, n int) {
	if n >= 0 {
		rs.wait = 2 * at.now.Sub(rs.flying[n].since)
	}
}

// turnRounds ends rounds, and sends others out for what waits for one.
func (r *Replica) turnRounds() {
	rs := &r.rounds
	r.confirmed(rs.onCommitted(&r.effects, r.reads.committed))
	keys := r.reads.keys.questions()
	index, assured := r.reads.assured(r.moment, r.raft)
	bound := r.reads.bound(r.moment, index)
	// Of keys that it does not hold, and of leases that some other leader granted or
	// ended meanwhile, this one may have missed something.
	if assured && r.reads.keys.everywhere() && !r.reads.unsettled() {
		// The leader's lease says what a round would find out.
		if rs.wanted > rs.covered() || len(rs.flying)+len(r.asks.inbox)+len(rs.inbox)+len(keys) > 0 {
			r.confirmed(rs.endAll(r.moment, &r.effects, r.asks.takeInbox(), keys, bound))
			r.asks.flush(r.moment, &r.effects)
		}
		return
	}
	if assured {
		rs.underLease(&r.effects, &r.reads.keys, r.cfg.ID, bound)
	}
	if r.leader == 0 || !rs.mayGo(r.now) {
		return
	}
	// A new leader does not know what was committed before it has committed an
	// entry of its own term. Raft itself makes an exception for a group of one,
	// which after a restart would answer with the commit index of its last
	// hard state: older than what it has acknowledged.
	if r.leading() && r.visibleTerm != r.term {
		return
	}
	if rs.wanted > rs.covered() || len(r.asks.inbox)+len(rs.inbox) > 0 {
		r.launch(round{reads: rs.wanted, asks: r.asks.takeInbox(), questions: rs.takeInbox()})
	}
	if len(keys) > 0 { // apart, for these need not wait for other keys' writes
		for _, q := range keys {
			q.asked = true
		}
		r.launch(round{keys: keys})
	}
}

// onCommitted ends the rounds that waited for the leader to commit what is behind them.
func (rs *rounds) onCommitted(eff *effects, committed uint64) (asks []askBatch) {
	for len(rs.late) > 0 && rs.late[0].index <= committed {
		asks = append(asks, rs.finish(eff, rs.late[0].rounds, rs.late[0].index)...)
		rs.late = rs.late[1:]
	}
	return asks
}

// endAll ends all rounds in flight, and one of all that waits for one.
func (rs *rounds) endAll(at moment, eff *effects, asks []askBatch, keys []*keyRead, b readBound) []askBatch {
	rs.flying = append(rs.flying, round{reads: rs.wanted, asks: asks, questions: rs.takeInbox(), keys: keys})
	return rs.end(at, eff, len(rs.flying)-1, b)
}

// underLease answers questions about keys that this leader holds: as it may read them
// itself, and by what others may have found to be released of them (R29, Q-3). Otherwise the
// asker would pay for the leader's round to a majority beside its own to the leader.
func (rs *rounds) underLease(eff *effects, keys *keyOrder, self machine.NodeID, b readBound) {
	rs.inbox = slices.DeleteFunc(rs.inbox, func(q question) bool {
		holds := len(q.keys) > 0 && keys.holds(self, q.keys, b.committed)
		if holds {
			eff.send(q.node, q.answer(b.of(q.keys)))
		}
		return holds
	})
}

// launch sends a round out.
func (r *Replica) launch(f round) {
	f = r.rounds.add(r.now, f)
	if r.leading() {
		r.raft.ReadIndex(readContext(f.id))
		return
	}
	m := readAsk{Boot: r.cfg.Boot, Round: f.id}
	for _, q := range f.keys {
		m.Keys = append(m.Keys, q.Keys...)
	}
	r.send(r.leader, m)
}

// add takes a round that sets out, and gives it a fresh ID.
func (rs *rounds) add(now machine.Mono, f round) round {
	f.id, f.since = rs.id, now
	rs.id++
	rs.flying = append(rs.flying, f)
	return f
}

func (rs *rounds) takeInbox() []question {
	inbox := rs.inbox
	rs.inbox = nil
	return inbox
}

// covered returns up to which Read there is a round, on its way or late.
func (rs *rounds) covered() uint64 {
	covered := rs.done
	for _, f := range rs.flying {
		covered = max(covered, f.reads)
	}
	for _, l := range rs.late {
		for _, f := range l.rounds {
			covered = max(covered, f.reads)
		}
	}
	return covered
}

// vouched reports whether a question of another voter is all the confirmation that
// this leader needs, and up to which index writes may have been acknowledged
// before the question was put. Why it is:
//
//   - The asker followed this leader then, in a term that it had led.
//     Terms never go back, in a crash neither, so this leader's is no earlier now.
//   - Until then no vote of the asker in a later term had left. A vote is written
//     before it leaves, and the turn in which it is written is the last in which
//     the member follows an earlier leader. Nor had one of this leader, or it
//     would lead no more.
//   - Each majority has one of the two in it, if the voters are three at most. So
//     nobody had been elected in a later term when the question was put.
//   - Hence what was committed by then is in this leader's log, and it knows that
//     once an entry of its own term is applied. And a leader of a later term
//     begins to count the time of leases after the question was put.
//
// All this speaks of the moment when the question was put, so it may come late,
// twice, after others, after a crash of the asker, or to a leader that slept or
// was elected again. A learner has no vote to withhold.
func (r *Replica) vouched(by machine.NodeID) (index uint64, ok bool) {
	st := r.raft.BasicStatus()
	voters := r.tail.conf.GetVoters()
	ok = st.RaftState == raft.StateLeader && st.HardState.GetTerm() == r.visibleTerm && len(voters) < 4 &&
		slices.Contains(voters, uint64(r.cfg.ID)) && slices.Contains(voters, uint64(by))
	return st.HardState.GetCommit(), ok
}

// asked takes another member's question. A member that does not lead drops it: the asker
// puts it anew when it hears of the leader.
func (r *Replica) asked(from machine.NodeID, m readAsk) {
	q := question{asker{from, m.Boot}, m.Round, m.Keys}
	if index, ok := r.vouched(from); ok {
		r.confirmed(r.rounds.confirm(r.moment, &r.effects, []round{{questions: []question{q}}}, r.reads.bound(r.moment, index)))
	} else if r.leading() {
		r.rounds.inbox = append(r.rounds.inbox, q)
	}
}

// answer returns the leader's answer to a question.
func (q question) answer(index uint64) readAnswer {
	return readAnswer{Boot: q.boot, Round: q.round, Index: index}
}

// confirmed takes asks that a round has confirmed.
func (r *Replica) confirmed(asks []askBatch) {
	if len(asks) > 0 {
		r.asks.confirm(asks)
		r.settleAsks()
	}
}

// answered takes the leader's answer to a question, and returns the asks that it confirms.
func (rs *rounds) answered(at moment, eff *effects, m readAnswer, b readBound) []askBatch {
	if m.Boot != at.cfg.Boot {
		return nil // to an earlier life, which used the same numbers
	}
	n := slices.IndexFunc(rs.flying, func(f round) bool { return f.id == m.Round })
	rs.took(at, n)
	if n < 0 || len(rs.flying[n].keys) == 0 {
		return rs.end(at, eff, n, b)
	}
	f := rs.flying[n] // the index is good for its keys only
	rs.flying = slices.Delete(rs.flying, n, n+1)
	return rs.finish(eff, []round{f}, m.Index)
}

// confirmed takes raft's word that this leader was the leader after the round
// began, and that nothing later than the bound's index was answered before.
func (rs *rounds) confirmed(at moment, eff *effects, context []byte, b readBound) []askBatch {
	n := slices.IndexFunc(rs.flying, func(f round) bool { return bytes.Equal(context, readContext(f.id)) })
	rs.took(at, n)
	return rs.end(at, eff, n, b)
}

// end ends the nth round in flight, if there is one, and those before.
func (rs *rounds) end(at moment, eff *effects, n int, b readBound) []askBatch {
	if n < 0 {
		return nil
	}
	done := rs.flying[:n+1]
	rs.flying = append([]round(nil), rs.flying[n+1:]...)
	return rs.confirm(at, eff, done, b)
}

// confirm ends rounds at an index, or once this leader has committed what is behind
// it.
func (rs *rounds) confirm(at moment, eff *effects, done []round, b readBound) []askBatch {
	if at.leading() {
		for i := range done {
			f := &done[i]
			for _, q := range f.keys {
				q.confirmed(b.of(q.Keys))
			}
			f.keys = nil
			f.questions = slices.DeleteFunc(f.questions, func(q question) bool {
				if len(q.keys) > 0 {
					eff.send(q.node, q.answer(b.of(q.keys)))
				}
				return len(q.keys) > 0
			})
		}
	}
	if index := b.all(); index > b.committed && at.leading() {
		rs.late = append(rs.late, lateRounds{index, done})
		return nil
	}
	return rs.finish(eff, done, b.all())
}

// finish answers everything in some rounds but the asks about leases, which it returns. The
// index of the latest serves all.
func (rs *rounds) finish(eff *effects, done []round, index uint64) (asks []askBatch) {
	for _, f := range done {
		for _, b := range f.asks {
			b.index = index
			asks = append(asks, b)
		}
		for _, q := range f.questions {
			eff.send(q.node, q.answer(index))
		}
		for _, q := range f.keys {
			q.confirmed(index)
		}
		if f.reads > rs.done {
			rs.done = f.reads
			eff.outcomes = append(eff.outcomes, ReadReady{Number: f.reads, Index: index})
		}
	}
	return asks
}

// giveUp gives up rounds whose messages seem lost, so that fresh ones set out, and reports
// whether there were any. It returns their asks.
func (rs *rounds) giveUp(at moment) (asks []askBatch, lost bool) {
	if len(rs.flying) == 0 || at.now.Sub(rs.flying[0].since) < rs.patience(at) {
		return nil, false
	}
	rs.wait = 2 * rs.patience(at)
	for _, f := range rs.flying {
		asks = append(asks, f.asks...)
		rs.inbox = append(rs.inbox, f.questions...)
	}
	rs.flying = nil
	return asks, true
}

// askAgain has what lost rounds were to confirm asked anew.
func (r *Replica) askAgain() {
	if asks, lost := r.rounds.giveUp(r.moment); lost {
		r.reads.keys.again(r.reads.committed)
		r.asks.inbox = append(r.asks.inbox, asks...)
	}
}
