package replica

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
)

// The answer to a question about some keys ends only its own round. The answer to a question about
// everything ends all rounds that began before it.
func TestAnswersEndTheirRounds(t *testing.T) {
	for _, c := range []struct {
		name     string
		round    uint64
		left     int
		done     uint64
		answered bool
	}{
		{"about some keys", 2, 2, 0, true},
		{"about everything", 3, 0, 8, true},
		{"about what was before", 1, 2, 5, false},
		{"that was given up", 9, 3, 0, false},
	} {
		r := keyReader(9)
		rs, q := &r.rounds, &keyRead{}
		rs.flying = []round{{id: 1, reads: 5}, {id: 2, keys: []*keyRead{q}}, {id: 3, reads: 8}}
		rs.answered(r.moment, &r.effects, readAnswer{Round: c.round, Index: 7}, r.reads.bound(r.moment, 7))
		if len(rs.flying) != c.left || rs.done != c.done || q.known != c.answered {
			t.Errorf("an answer %s: %d rounds are left, reads up to %d are answered, and that of the keys: %v; want %d, %d, %v",
				c.name, len(rs.flying), rs.done, q.known, c.left, c.done, c.answered)
		}
	}
}

// Rounds are given up, with all questions that they were to answer, by the age of the first. Nothing
// of an earlier leadership goes on.
func TestRoundsAreGivenUpByTheFirst(t *testing.T) {
	r := keyReader(9)
	rs := &r.rounds
	fly := func(first, last time.Duration) {
		ask, q := askBatch{}, question{}
		rs.flying = []round{{id: 1, since: r.now.Add(-first), asks: []askBatch{ask}, questions: []question{q}}, {id: 2, since: r.now.Add(-last)}}
	}
	half := r.cfg.electionTimeout() / 2
	if fly(half-1, 0); true {
		r.askAgain()
	}
	if len(rs.flying) != 2 {
		t.Errorf("rounds that set out %v ago are given up", half-1)
	}
	lost := &keyRead{asked: true}
	told := &keyRead{asked: true, committed: true, known: true, need: r.reads.committed + 1, behind: 7} // by a leader that is gone, maybe
	knows := &keyRead{asked: true, committed: true, known: true, need: r.reads.committed, behind: 7}
	r.reads.keys.reads = []*keyRead{lost, told, knows}
	fly(half, 0)
	if r.askAgain(); lost.asked || told.known || told.behind != 0 || !knows.known || knows.behind != 7 {
		t.Errorf("of reads of keys one is not asked for anew %v, one goes by what is not committed here %v, and one by what is: %v", lost.asked, told.known, knows.known)
	}
	if len(rs.flying) > 0 || len(rs.inbox) != 1 || len(r.asks.inbox) != 1 {
		t.Errorf("rounds of which the first set out %v ago: %d go on, %d questions and %d asks are put anew, want 0, 1 and 1", half, len(rs.flying), len(rs.inbox), len(r.asks.inbox))
	}
	fly(0, 0)
	rs.late = []lateRounds{{index: 3}}
	if rs.reset(); len(rs.flying)+len(rs.inbox)+len(rs.late) > 0 {
		t.Errorf("of an earlier leadership %d rounds go on, %d questions wait, and %d rounds are late", len(rs.flying), len(rs.inbox), len(rs.late))
	}
}

// The answer to a round that was given up does not count. So the next round has twice as long, up to
// two election timeouts. The time of an answer determines how long later rounds may take. Otherwise a
// member whose answers take longer than half an election timeout would never get one.
func TestRoundsOfDistantMembersAreWaitedFor(t *testing.T) {
	r := keyReader(9)
	rs, timeout := &r.rounds, r.cfg.electionTimeout()
	fly := func(age time.Duration) { rs.flying = []round{{id: 1, reads: 1, since: r.now.Add(-age)}} }
	lost := func(age time.Duration) bool {
		fly(age)
		_, lost := rs.giveUp(r.moment)
		return lost
	}
	answered := map[string]func(){
		"the leader's answer": func() {
			rs.answered(r.moment, &r.effects, readAnswer{Round: 1, Index: 7}, r.reads.bound(r.moment, 7))
		},
		"raft's": func() { rs.confirmed(r.moment, &r.effects, readContext(1), r.reads.bound(r.moment, 7)) },
	}
	for _, want := range []time.Duration{timeout / 2, timeout, 2 * timeout, 2 * timeout} {
		if lost(want-1) || !lost(want) {
			t.Errorf("a round is not given up after %v", want)
		}
	}
	for name, answer := range answered {
		fly(timeout * 3 / 5)
		answer()
		if want := timeout * 6 / 5; lost(want-1) || !lost(want) {
			t.Errorf("%s took %v, and the next round is not given up after %v", name, timeout*3/5, want)
		}
		fly(1)
		answer()
		if want := timeout / 2; lost(want-1) || !lost(want) {
			t.Errorf("%s took a moment, and the next round is not given up after %v", name, want)
		}
	}
	if rs.reset(); lost(timeout/2-1) || !lost(timeout/2) {
		t.Errorf("the first round of a leadership is not given up after %v", timeout/2)
	}
}

// A round that is confirmed ends when this leader has committed what others may have found to be
// released, and not before.
func TestLateRoundsWaitForTheCommit(t *testing.T) {
	r := keyReader(9)
	r.leader = 1
	rs := &r.rounds
	rs.flying = []round{{id: 1, reads: 5, asks: []askBatch{{}}}}
	if asks := rs.end(r.moment, &r.effects, 0, readBound{index: 9, committed: 9, last: 12}); len(asks) > 0 || rs.done != 0 {
		t.Fatalf("of a log to 12, 9 is committed, and %d asks and the reads to %d are answered", len(asks), rs.done)
	}
	for _, c := range []struct {
		committed, done uint64
		asks            int
	}{{9, 0, 0}, {11, 0, 0}, {12, 5, 1}, {13, 5, 0}} {
		if asks := rs.onCommitted(&r.effects, c.committed); len(asks) != c.asks || rs.done != c.done {
			t.Errorf("committed to %d: %d asks and the reads to %d are answered, want %d and %d", c.committed, len(asks), rs.done, c.asks, c.done)
		} else if len(asks) > 0 && asks[0].index != 12 {
			t.Errorf("the ask goes by %d, want 12", asks[0].index)
		}
	}
	if want := []Outcome{ReadReady{Number: 5, Index: 12}}; !reflect.DeepEqual(r.effects.outcomes, want) {
		t.Errorf("readers are told %+v, want %+v", r.effects.outcomes, want)
	}
}

// A leader answers questions about keys under its lease if it holds them by the division that was
// committed last and by all behind it. Other questions wait for a round.
func TestQuestionsThatALeaseAnswers(t *testing.T) {
	r := keyReader(9)
	rs, k := &r.rounds, &r.reads.keys
	k.confs = []conf{{9, readSetting{quorumlease.Static, division(t)}}, {11, readSetting{policy: quorumlease.AllByKey}}} // by the first, member 1 holds no x
	rs.inbox = []question{{asker{2, 7}, 1, key("a")}, {asker{3, 8}, 2, key("x")}, {asker{3, 8}, 3, nil}}
	for _, step := range []struct {
		committed uint64
		answered  []machine.Envelope
		left      []uint64
	}{
		{10, []machine.Envelope{{From: 1, To: 2, Body: readAnswer{Boot: 7, Round: 1, Index: 12}}}, []uint64{2, 3}},
		{11, []machine.Envelope{{From: 1, To: 3, Body: readAnswer{Boot: 8, Round: 2, Index: 12}}}, []uint64{3}},
	} {
		r.sends = nil
		rs.underLease(&r.effects, k, 1, readBound{index: 9, committed: step.committed, last: 12})
		var left []uint64
		for _, q := range rs.inbox {
			left = append(left, q.round)
		}
		if !reflect.DeepEqual(r.sends, step.answered) || !slices.Equal(left, step.left) {
			t.Errorf("committed up to %d, a leader answers %+v and leaves the questions %d to a round; want %+v and %d", step.committed, r.sends, left, step.answered, step.left)
		}
	}
}

// A read needs no other round if one that covers it is on its way, is late, or was answered.
func TestWhichReadsAreCovered(t *testing.T) {
	for _, tt := range []struct {
		name string
		rs   rounds
		want uint64
	}{
		{"nothing", rounds{}, 0},
		{"an answer", rounds{done: 3}, 3},
		{"rounds on their way", rounds{done: 3, flying: []round{{reads: 5}, {reads: 7}, {}}}, 7},
		{"rounds that are late", rounds{done: 3, flying: []round{{reads: 5}}, late: []lateRounds{{rounds: []round{{reads: 4}, {reads: 8}}}, {rounds: []round{{reads: 6}}}}}, 8},
	} {
		if got := tt.rs.covered(); got != tt.want {
			t.Errorf("with %s, reads up to %d are covered, want %d", tt.name, got, tt.want)
		}
	}
}

// A leader answers reads under its lease, without a round. It needs a round while its log has a division
// of the keys that is not applied: by that it may hold less (R13).
func TestReadsUnderAnUnsettledDivision(t *testing.T) {
	for _, unsettled := range []bool{false, true} {
		s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		for _, command := range []string{"elect 1", "pass 500ms"} {
			s.do(command)
		}
		r := s.members[0].r
		if unsettled {
			r.reads.settings = []uint64{r.last}
		}
		r.outcomes = nil
		r.rounds.want(r.rounds.done + 1)
		r.turnRounds()
		if answered, asks := len(r.outcomes) > 0, len(r.rounds.flying) > 0; answered == unsettled || asks != unsettled {
			t.Errorf("with a division that is not applied %v: a read is answered under the lease %v, and by a round %v", unsettled, answered, asks)
		}
	}
}

// Up to two rounds set out at once. Another one may set out when the last has been on its way for a
// moment, but only so many at a time. If something waits for a round, the alarm says when.
func TestWhenTheNextRoundSetsOut(t *testing.T) {
	const now = machine.Mono(time.Hour)
	for _, tt := range []struct {
		name    string
		flying  int
		age     time.Duration // of the last
		reads   uint64        // wanted
		inbox   int
		waiting int
		sets    bool
		due     machine.Mono
	}{
		{"nothing on its way", 0, 0, 5, 1, 1, true, machine.Never},
		{"one on its way", maxRounds - 1, 0, 5, 1, 1, true, machine.Never},
		{"two, and nothing waits", maxRounds, 0, 3, 0, 0, false, machine.Never},
		{"two, and a read waits", maxRounds, 0, 4, 0, 0, false, now.Add(spacing)},
		{"two, and another member waits", maxRounds, 1, 3, 1, 0, false, now.Add(spacing - 1)},
		{"two, and a lease or a key waits", maxRounds, spacing - 1, 3, 0, 1, false, now.Add(1)},
		{"two of long ago", maxRounds, spacing, 4, 1, 1, true, machine.Never},
		{"as many as may be but one", maxFlying - 1, spacing, 4, 1, 1, true, machine.Never},
		{"as many as may be but one, just now", maxFlying - 1, 0, 4, 0, 0, false, now.Add(spacing)},
		{"as many as may be", maxFlying, spacing, 4, 1, 1, false, machine.Never},
		{"as many as may be, just now", maxFlying, 0, 4, 1, 1, false, machine.Never},
	} {
		rs := rounds{wanted: tt.reads, done: 3, inbox: make([]question, tt.inbox)}
		for range tt.flying {
			rs.flying = append(rs.flying, round{since: now.Add(-tt.age)})
		}
		if got, due := rs.mayGo(now), rs.due(now, tt.waiting); got != tt.sets || due != tt.due {
			t.Errorf("with %s, another round may set out %v, and the alarm is in %v; want %v and %v", tt.name, got, due.Sub(now), tt.sets, tt.due.Sub(now))
		}
	}
}

// A round asks once for everything that waits. A round for reads of keys is apart from it. Without a leader, or
// before the leader has an entry of its term, none sets out.
func TestWhatARoundAsks(t *testing.T) {
	keys := keyspan.Set{{Key: []byte("a")}, {Key: []byte("m"), End: []byte("n")}}
	for _, tt := range []struct {
		name   string
		member int
		change func(r *Replica)
		want   []any // messages to the leader
		flying int
		keys   bool // are asked for
	}{
		{"a follower", 1, func(*Replica) {}, []any{readAsk{Boot: 1, Round: 1}, readAsk{Boot: 1, Round: 2, Keys: keys}}, 2, true},
		{"a follower with a round on its way", 1, func(r *Replica) { r.rounds.flying = []round{{reads: 3, since: r.now}} }, []any{readAsk{Boot: 1, Round: 1, Keys: keys}}, 2, true},
		{"a follower with two on their way", 1, func(r *Replica) { r.rounds.flying = make([]round, maxRounds); r.rounds.flying[1].since = r.now }, nil, 2, false},
		{"a follower without a leader", 1, func(r *Replica) { r.leader = 0 }, nil, 0, false},
		{"the leader", 0, func(*Replica) {}, nil, 2, true},
		{"a leader before its first entry", 0, func(r *Replica) { r.visibleTerm-- }, nil, 0, false},
	} {
		s := newStage(t)
		for _, command := range []string{"elect 1", "pass 200ms"} {
			s.do(command)
		}
		r := s.members[tt.member].r
		r.rounds = rounds{id: 1, wanted: 3, done: 2}
		q := &keyRead{ReadKeys: ReadKeys{ID: 1, Keys: keys}}
		r.reads.keys.reads, r.sends = []*keyRead{q}, nil
		tt.change(r)
		r.turnRounds()
		if tt.keys {
			r.now = r.now.Add(spacing) // another round might set out
		}
		r.turnRounds()
		var sent []any
		for _, env := range r.sends {
			if env.To != 1 {
				t.Errorf("%s asks member %d, which does not lead", tt.name, env.To)
			}
			sent = append(sent, env.Body)
		}
		if !reflect.DeepEqual(sent, tt.want) || len(r.rounds.flying) != tt.flying || q.asked != tt.keys {
			t.Errorf("%s asks %+v, with %d rounds on their way, and for the keys: %v; want %+v, %d, %v", tt.name, sent, len(r.rounds.flying), q.asked, tt.want, tt.flying, tt.keys)
		}
	}
}

// What ends with some rounds is answered by the index of the latest: each question, each ask, each read of
// keys that has no answer yet. Readers are told once of each number, and never of a lesser one.
func TestWhatEndsWithRounds(t *testing.T) {
	r := keyReader(9)
	rs := &r.rounds
	rs.done = 2
	fresh, known := &keyRead{}, &keyRead{known: true, need: 3}
	asks := rs.finish(&r.effects, []round{
		{reads: 2},
		{reads: 5, questions: []question{{asker{2, 7}, 31, nil}}, asks: []askBatch{{asker: asker{3, 8}}}},
		{reads: 4, keys: []*keyRead{fresh, known}},
		{reads: 5, questions: []question{{asker{3, 8}, 32, nil}}},
		{},
		{reads: 8, asks: []askBatch{{asker: asker{2, 7}, index: 4}}},
	}, 11)
	if want := []askBatch{{asker: asker{3, 8}, index: 11}, {asker: asker{2, 7}, index: 11}}; !reflect.DeepEqual(asks, want) {
		t.Errorf("the asks are %+v, want %+v", asks, want)
	}
	if want := []Outcome{ReadReady{Number: 5, Index: 11}, ReadReady{Number: 8, Index: 11}}; !reflect.DeepEqual(r.outcomes, want) || rs.done != 8 {
		t.Errorf("readers are told %+v, and up to %d are answered, want %+v", r.outcomes, rs.done, want)
	}
	sends := []machine.Envelope{{From: 1, To: 2, Body: readAnswer{Boot: 7, Round: 31, Index: 11}}, {From: 1, To: 3, Body: readAnswer{Boot: 8, Round: 32, Index: 11}}}
	if !reflect.DeepEqual(r.sends, sends) {
		t.Errorf("others are told %+v, want %+v", r.sends, sends)
	}
	if fresh.need != 11 || !fresh.known || !fresh.committed || known.need != 3 || known.committed {
		t.Errorf("a read of keys waits for entry %d, and one that had its answer for %d, want 11 and 3", fresh.need, known.need)
	}
}

// A follower's round ends with the leader's answer, although this member does not know yet that what the answer
// names is committed: the reader waits for that.
func TestAFollowersRoundsEndAtOnce(t *testing.T) {
	r := keyReader(9)
	r.leader = 2
	rs := &r.rounds
	rs.flying = []round{{id: 1, reads: 5, asks: []askBatch{{}}}}
	asks := rs.end(r.moment, &r.effects, 0, readBound{index: 12, committed: 9, last: 12})
	if want := []Outcome{ReadReady{Number: 5, Index: 12}}; !reflect.DeepEqual(r.outcomes, want) || len(asks) != 1 || len(rs.late) > 0 {
		t.Errorf("a follower that has 9 committed is answered 12: readers are told %+v, %d asks are confirmed, %d rounds are late; want %+v, 1, 0", r.outcomes, len(asks), len(rs.late), want)
	}
}

// Under its lease a leader answers at once all that waits for a round: its own reads and asks, questions and asks
// of others, and what rounds on their way are for. The answers leave in the same turn. No round sets out.
func TestWhatALeaseAnswersAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *Replica)
		sends  []any
		done   bool // a read
		known  bool // what a read of keys needs
	}{
		{"a read", func(r *Replica) { r.rounds.wanted = 5 }, nil, true, false},
		{"a read in a round", func(r *Replica) {
			r.rounds.wanted, r.rounds.flying = 5, []round{{id: 7, reads: 5, since: r.now}}
		}, nil, true, false},
		{"another's ask", func(r *Replica) {
			r.asks.inbox = []askBatch{{asker: asker{2, 7}, asks: []leaseAsk{{ID: 3, Lease: 9}}}}
		}, []any{leaseAnswers{Boot: 7, Answers: []AnswerLease{{ID: 3, Lease: 9}}}}, false, false},
		{"an ask in a round", func(r *Replica) {
			r.rounds.flying = []round{{id: 7, since: r.now, asks: []askBatch{{asker: asker{2, 7}, asks: []leaseAsk{{ID: 3, Lease: 9}}}}}}
		}, []any{leaseAnswers{Boot: 7, Answers: []AnswerLease{{ID: 3, Lease: 9}}}}, false, false},
		{"another's question", func(r *Replica) { r.rounds.inbox = []question{{asker{2, 7}, 31, nil}} }, []any{readAnswer{Boot: 7, Round: 31}}, false, false},
		{"another's question about a key", func(r *Replica) { r.rounds.inbox = []question{{asker{3, 8}, 32, key("k")}} }, []any{readAnswer{Boot: 8, Round: 32}}, false, false},
		{"a read of a key", func(r *Replica) { r.reads.keys.reads = []*keyRead{{ReadKeys: ReadKeys{ID: 1, Keys: key("k")}}} }, nil, false, true},
	} {
		s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		for _, command := range []string{"elect 1", "pass 500ms"} {
			s.do(command)
		}
		r := s.members[0].r
		r.rounds.wanted, r.rounds.done = 4, 4
		r.outcomes, r.sends = nil, nil
		tt.change(r)
		r.turnRounds()
		var sends []any
		for _, env := range r.sends {
			if a, ok := env.Body.(readAnswer); ok && a.Index == r.Status().Commit {
				a.Index = 0
				env.Body = a
			}
			sends = append(sends, env.Body)
		}
		var want []Outcome
		if tt.done {
			want = []Outcome{ReadReady{Number: 5, Index: r.Status().Commit}}
		}
		waits := len(r.asks.inbox) + len(r.rounds.inbox) + len(r.rounds.flying) + r.reads.keys.unasked()
		if !reflect.DeepEqual(sends, tt.sends) || !reflect.DeepEqual(r.outcomes, want) || waits > 0 {
			t.Errorf("%s: a leader under its lease sends %+v and tells readers %+v, want %+v and %+v; %d things wait", tt.name, sends, r.outcomes, tt.sends, want, waits)
		}
		for _, q := range r.reads.keys.reads {
			if q.known != tt.known || q.need != r.Status().Commit {
				t.Errorf("%s needs entry %d, known: %v, want %d", tt.name, q.need, q.known, r.Status().Commit)
			}
		}
	}
}

// A round sets out for each kind of thing that waits for one, and takes with it all that waits. Nothing that a
// round on its way is for needs another.
func TestWhatARoundSetsOutFor(t *testing.T) {
	waits := []struct {
		name   string
		change func(r *Replica)
	}{
		{"nothing", func(*Replica) {}},
		{"a read", func(r *Replica) { r.rounds.wanted = 5 }},
		{"an ask", func(r *Replica) { r.asks.inbox = []askBatch{{asker: asker{2, 7}}} }},
		{"another's question", func(r *Replica) { r.rounds.inbox = []question{{asker{2, 7}, 31, nil}} }},
		{"all of these", func(r *Replica) {
			r.rounds.wanted, r.asks.inbox, r.rounds.inbox = 6, []askBatch{{asker: asker{3, 8}}}, []question{{asker{3, 8}, 32, key("k")}}
		}},
	}
	for _, tt := range waits {
		s := newStage(t)
		for _, command := range []string{"elect 1", "pass 200ms"} {
			s.do(command)
		}
		r := s.members[0].r
		r.rounds = rounds{id: 7, wanted: 4, done: 4}
		tt.change(r)
		asks, questions := r.asks.inbox, r.rounds.inbox
		r.turnRounds()
		var want []round
		if tt.name != "nothing" {
			want = []round{{id: 7, reads: r.rounds.wanted, asks: asks, questions: questions, since: r.now}}
		}
		r.turnRounds() // nothing waits any more
		if !reflect.DeepEqual(r.rounds.flying, want) || len(r.asks.inbox)+len(r.rounds.inbox) > 0 {
			t.Errorf("where %s waits, the rounds %+v set out, want %+v; %d asks and %d questions wait on", tt.name, r.rounds.flying, want, len(r.asks.inbox), len(r.rounds.inbox))
		}
		if len(questions) > 0 && len(r.rounds.flying) > 0 {
			r.rounds.inbox = append(r.rounds.inbox, question{asker{2, 9}, 99, nil}) // it comes while the round is on its way
			if got := r.rounds.flying[0].questions[0].round; got == 99 {
				t.Error("a question that comes later is taken for one that was there before the round")
			}
		}
	}
}

// Rounds that were late end as soon as all behind them is committed, each of them, and their asks are answered.
func TestLateRoundsEndInTheirTurn(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	r := s.members[0].r
	commit := r.reads.committed
	late := func(index, reads uint64, boot uint64) lateRounds {
		return lateRounds{index, []round{{reads: reads, asks: []askBatch{{asker: asker{2, boot}, asks: []leaseAsk{{ID: 1, Lease: 9}}}}}}}
	}
	r.rounds.late = []lateRounds{late(commit-1, 5, 7), late(commit, 6, 8), late(commit+1, 7, 9)}
	r.rounds.wanted, r.rounds.done, r.outcomes = 7, 4, nil
	r.turnRounds()
	if want := []Outcome{ReadReady{Number: 5, Index: commit - 1}, ReadReady{Number: 6, Index: commit}}; !reflect.DeepEqual(r.outcomes, want) || len(r.rounds.late) != 1 || len(r.rounds.flying) > 0 {
		t.Errorf("committed up to %d, readers are told %+v, want %+v; %d rounds are late, %d set out", commit, r.outcomes, want, len(r.rounds.late), len(r.rounds.flying))
	}
	if want := []answers{{asker{2, 7}, []AnswerLease{{ID: 1, Lease: 9}}}, {asker{2, 8}, []AnswerLease{{ID: 1, Lease: 9}}}}; !reflect.DeepEqual(r.asks.outbox, want) {
		t.Errorf("committed up to %d, the asks are answered %+v, want %+v", commit, r.asks.outbox, want)
	}
}

// A follower asks once about all keys that are read there. The leader waits with a question until a round has
// confirmed it, unless the asker and it are a majority of the voters; then it answers by its commit index of that
// moment. A follower, and a leader that has no vote, vouch for nothing.
func TestQuestionsToALeader(t *testing.T) {
	asked := readAsk{Boot: 7, Round: 31, Keys: key("k")}
	for _, tt := range []struct {
		name   string
		member int
		change func(r *Replica)
		waits  bool
		answer bool
	}{
		{"a leader of three", 0, func(*Replica) {}, false, true},
		{"a leader that knows of less to be committed", 0, func(r *Replica) { r.reads.committed-- }, false, true},
		{"a leader of four", 0, func(r *Replica) { r.tail.conf.Voters = []uint64{1, 2, 3, 4} }, true, false},
		{"a leader without a vote", 0, func(r *Replica) { r.tail.conf.Voters = []uint64{2, 3} }, true, false},
		{"a leader asked by a learner", 0, func(r *Replica) { r.tail.conf.Voters = []uint64{1, 3} }, true, false},
		{"a leader without an entry of its term", 0, func(r *Replica) { r.visibleTerm-- }, true, false},
		{"a follower", 1, func(*Replica) {}, false, false},
		{"one that takes itself for the leader", 1, func(r *Replica) { r.leader = 2 }, true, false},
	} {
		s := newStage(t)
		for _, command := range []string{"elect 1", "pass 200ms"} {
			s.do(command)
		}
		r := s.members[tt.member].r
		from := machine.NodeID(2 - tt.member)
		r.sends, r.rounds.inbox = nil, nil
		tt.change(r)
		r.asked(from, asked)
		var sends []machine.Envelope
		if tt.answer {
			sends = []machine.Envelope{{From: 1, To: 2, Body: readAnswer{Boot: 7, Round: 31, Index: r.Status().Commit}}}
		}
		var inbox []question
		if tt.waits {
			inbox = []question{{asker{from, 7}, 31, key("k")}}
		}
		if !reflect.DeepEqual(r.sends, sends) || !reflect.DeepEqual(r.rounds.inbox, inbox) {
			t.Errorf("%s answers %+v, and %+v wait for a round; want %+v, %+v", tt.name, r.sends, r.rounds.inbox, sends, inbox)
		}
	}

	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	r := s.members[1].r
	r.sends = nil
	r.visibleTerm-- // which only a leader has to wait for
	r.rounds.id = 5
	r.reads.keys.reads = []*keyRead{{ReadKeys: ReadKeys{Keys: key("a")}}, {asked: true, ReadKeys: ReadKeys{Keys: key("b")}}, {ReadKeys: ReadKeys{Keys: key("c")}, together: true}, {known: true, ReadKeys: ReadKeys{Keys: key("d")}}}
	r.turnRounds()
	if want := []machine.Envelope{{From: 2, To: 1, Body: readAsk{Boot: 1, Round: 5, Keys: append(key("a"), key("c")...)}}}; !reflect.DeepEqual(r.sends, want) {
		t.Errorf("a follower that reads two keys asks %+v, want %+v", r.sends, want)
	}
}

// A leader's round answers questions about some keys by what the log has of these keys, and all others by the end
// of the log, once that is committed. Each question is answered once.
func TestWhatAConfirmedRoundAnswers(t *testing.T) {
	r := keyReader(9)
	r.leader = 1
	r.reads.far = true
	k := &r.reads.keys
	k.appended(entryOfPuts(t, 2, 10, "a"))
	k.appended(entryOfPuts(t, 2, 11, "b"))
	r.last = 12
	reads := []*keyRead{{ReadKeys: ReadKeys{Keys: key("a")}}, {ReadKeys: ReadKeys{Keys: key("x")}}}
	r.rounds.flying = []round{
		{id: 1, questions: []question{{asker{2, 7}, 31, key("b")}, {asker{2, 7}, 32, nil}, {asker{3, 8}, 33, key("x")}}, keys: reads[:1]},
		{id: 2, keys: reads[1:]},
	}
	r.rounds.confirmed(r.moment, &r.effects, readContext(2), r.reads.bound(r.moment, 9))
	sends := []machine.Envelope{{From: 1, To: 2, Body: readAnswer{Boot: 7, Round: 31, Index: 11}}, {From: 1, To: 3, Body: readAnswer{Boot: 8, Round: 33, Index: 9}}}
	if !reflect.DeepEqual(r.sends, sends) {
		t.Errorf("the questions are answered %+v, want %+v", r.sends, sends)
	}
	if reads[0].need != 10 || reads[1].need != 9 || !reads[0].known || !reads[1].known {
		t.Errorf("reads of keys need the entries %d and %d, want 10 and 9", reads[0].need, reads[1].need)
	}
	for _, l := range r.rounds.late {
		for _, f := range l.rounds {
			if len(f.keys) > 0 {
				t.Errorf("reads of keys are answered, and %d wait for the end of the log as well", len(f.keys))
			}
		}
	}
	r.sends = nil
	r.rounds.onCommitted(&r.effects, 12)
	if want := []machine.Envelope{{From: 1, To: 2, Body: readAnswer{Boot: 7, Round: 32, Index: 12}}}; !reflect.DeepEqual(r.sends, want) {
		t.Errorf("when all is committed, the questions are answered %+v, want %+v", r.sends, want)
	}
}

// Where keys are divided, a leader answers questions about keys that it holds at once, under its lease. All others
// wait for a round, and in doubt these do, too.
func TestQuestionsUnderADivision(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(r *Replica)
		answers []uint64
		flying  []uint64
	}{
		{"under a lease", func(*Replica) {}, []uint64{31}, []uint64{32, 33}},
		{"without a lease", func(r *Replica) { r.reads.wanted = 0 }, nil, []uint64{31, 32, 33}},
	} {
		s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		for _, command := range []string{"elect 1", "pass 500ms"} {
			s.do(command)
		}
		r := s.members[0].r
		r.reads.keys.start(r.last, r.last, readSetting{quorumlease.Static, division(t)}, nil)
		r.rounds.inbox = []question{{asker{2, 7}, 31, key("a")}, {asker{2, 7}, 32, key("z")}, {asker{3, 8}, 33, nil}}
		r.sends = nil
		tt.change(r)
		r.turnRounds()
		var answers, flying []uint64
		for _, env := range r.sends {
			answers = append(answers, env.Body.(readAnswer).Round)
		}
		for _, f := range r.rounds.flying {
			for _, q := range f.questions {
				flying = append(flying, q.round)
			}
		}
		if !slices.Equal(answers, tt.answers) || !slices.Equal(flying, tt.flying) {
			t.Errorf("a leader %s answers the questions %d at once, and %d wait for a round; want %d, %d", tt.name, answers, flying, tt.answers, tt.flying)
		}
	}
}
