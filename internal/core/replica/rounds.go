package replica

import (
	"bytes"
	"slices"

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

// due is when another round may set out.
func (rs *rounds) due(r *Replica) machine.Mono {
	n := len(rs.flying)
	if n == 0 || n >= maxFlying || rs.mayGo(r.now) {
		return machine.Never
	}
	if rs.wanted > rs.covered() || len(r.asks.inbox)+len(rs.inbox)+len(r.reads.keys.questions()) > 0 {
		return rs.flying[n-1].since.Add(spacing)
	}
	return machine.Never
}

func (rs *rounds) reset() { rs.flying, rs.inbox, rs.late = nil, nil, nil }

func (rs *rounds) turn(r *Replica) {
	for len(rs.late) > 0 && rs.late[0].index <= r.reads.committed {
		rs.finish(r, rs.late[0].rounds, rs.late[0].index)
		rs.late = rs.late[1:]
	}
	keys := r.reads.keys.questions()
	// Of keys that it does not hold, and of leases that some other leader granted or
	// ended meanwhile, this one may have missed something.
	if index, ok := r.reads.assured(r); ok && r.reads.keys.everywhere() && !r.reads.unsettled() {
		// The leader's lease says what a round would find out.
		if rs.wanted > rs.covered() || len(rs.flying)+len(r.asks.inbox)+len(rs.inbox)+len(keys) > 0 {
			rs.flying = append(rs.flying, round{reads: rs.wanted, asks: r.asks.inbox, questions: rs.inbox, keys: keys})
			r.asks.inbox, rs.inbox = nil, nil
			rs.end(r, len(rs.flying)-1, index)
			r.asks.flush(r)
		}
		return
	}
	rs.underLease(r)
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
		rs.launch(r, round{reads: rs.wanted, asks: r.asks.inbox, questions: rs.inbox})
		r.asks.inbox, rs.inbox = nil, nil
	}
	if len(keys) > 0 { // apart, for these need not wait for other keys' writes
		for _, q := range keys {
			q.asked = true
		}
		rs.launch(r, round{keys: keys})
	}
}

// underLease answers questions about keys that this leader holds: as it may read them
// itself, and by what others may have found to be released of them (R29, Q-3). Else who
// misses would pay for the leader's round to a majority beside his own to the leader.
func (rs *rounds) underLease(r *Replica) {
	index, ok := r.reads.assured(r)
	if !ok {
		return
	}
	rs.inbox = slices.DeleteFunc(rs.inbox, func(q question) bool {
		holds := len(q.keys) > 0 && r.reads.keys.holds(r.cfg.ID, q.keys, r.reads.committed)
		if holds {
			r.answer(q, r.reads.touched(r, q.keys, index))
		}
		return holds
	})
}

// launch sends a round out.
func (rs *rounds) launch(r *Replica, f round) {
	f.id, f.since = rs.id, r.now
	rs.id++
	rs.flying = append(rs.flying, f)
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

// covered is up to which Read there is a round, on its way or late.
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
//   - Who put the question followed this leader then, in a term that it had led.
//     Terms never go back, in a crash neither, so this leader's is no earlier now.
//   - Until then no vote of the asker in a later term had left: the turn in which
//     a vote is written, before it leaves, is the last in which the member follows
//     an earlier leader. Nor had one of this leader, or it would lead no more.
//   - Each majority has one of the two in it, if the voters are three at most. So
//     nobody had been elected in a later term when the question was put.
//   - Hence what was committed by then is in this leader's log, and it knows that
//     once an entry of its own term is applied. And whoever leads in a later term
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

// asked takes another member's question. Who does not lead drops it: the asker
// puts it anew when it hears who does.
func (rs *rounds) asked(r *Replica, from machine.NodeID, m readAsk) {
	q := question{asker{from, m.Boot}, m.Round, m.Keys}
	if index, ok := r.vouched(from); ok {
		rs.confirm(r, []round{{questions: []question{q}}}, index)
	} else if r.leading() {
		rs.inbox = append(rs.inbox, q)
	}
}

func (r *Replica) answer(q question, index uint64) {
	r.send(q.node, readAnswer{Boot: q.boot, Round: q.round, Index: index})
}

// answered takes the leader's answer to a question.
func (rs *rounds) answered(r *Replica, m readAnswer) {
	if m.Boot != r.cfg.Boot {
		return // to an earlier life, which used the same numbers
	}
	n := slices.IndexFunc(rs.flying, func(f round) bool { return f.id == m.Round })
	if n < 0 || len(rs.flying[n].keys) == 0 {
		rs.end(r, n, m.Index)
		return
	}
	f := rs.flying[n] // the index is good for its keys only
	rs.flying = slices.Delete(rs.flying, n, n+1)
	rs.finish(r, []round{f}, m.Index)
}

// confirmed takes raft's word that this leader was the leader after the round
// began, and that nothing later than Index was answered before.
func (rs *rounds) confirmed(r *Replica, st raft.ReadState) {
	rs.end(r, slices.IndexFunc(rs.flying, func(f round) bool {
		return bytes.Equal(st.RequestCtx, readContext(f.id))
	}), st.Index)
}

// end ends the nth round in flight, if there is one, and those before.
func (rs *rounds) end(r *Replica, n int, index uint64) {
	if n < 0 {
		return
	}
	done := rs.flying[:n+1]
	rs.flying = append([]round(nil), rs.flying[n+1:]...)
	rs.confirm(r, done, index)
}

// confirm ends rounds at an index, or once this leader has committed what is behind
// it.
func (rs *rounds) confirm(r *Replica, done []round, index uint64) {
	if r.leading() {
		for i := range done {
			f := &done[i]
			for _, q := range f.keys {
				q.confirmed(r.reads.touched(r, q.Keys, index))
			}
			f.keys = nil
			f.questions = slices.DeleteFunc(f.questions, func(q question) bool {
				if len(q.keys) > 0 {
					r.answer(q, r.reads.touched(r, q.keys, index))
				}
				return len(q.keys) > 0
			})
		}
	}
	if index = r.reads.behind(r, index); index > r.reads.committed && r.leading() {
		rs.late = append(rs.late, lateRounds{index, done})
	} else {
		rs.finish(r, done, index)
	}
}

// finish answers everything in some rounds. The index of the latest serves all.
func (rs *rounds) finish(r *Replica, done []round, index uint64) {
	for _, f := range done {
		for _, b := range f.asks {
			b.index = index
			r.asks.confirmed = append(r.asks.confirmed, b)
		}
		for _, q := range f.questions {
			r.answer(q, index)
		}
		for _, q := range f.keys {
			q.confirmed(index)
		}
		if f.reads > rs.done {
			rs.done = f.reads
			r.outcomes = append(r.outcomes, ReadReady{Number: f.reads, Index: index})
		}
	}
	r.asks.settle(r)
}

// onTick gives up rounds whose messages seem lost, so that fresh ones set out.
func (rs *rounds) onTick(r *Replica) {
	if len(rs.flying) == 0 || r.now.Sub(rs.flying[0].since) < r.cfg.electionTimeout()/2 {
		return
	}
	r.reads.keys.again(r.reads.committed)
	for _, f := range rs.flying {
		r.asks.inbox = append(r.asks.inbox, f.asks...)
		rs.inbox = append(rs.inbox, f.questions...)
	}
	rs.flying = nil
}
