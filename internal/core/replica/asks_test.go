package replica

import (
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A question is repeated when an election timeout has passed since it was last sent. It is given up
// when it is so old that no caller can still wait for its answer.
func TestAsksAreRepeatedAndGivenUp(t *testing.T) {
	r := keyReader(9)
	long, patience := r.cfg.electionTimeout(), r.cfg.patience()
	r.now = r.now.Add(2 * patience)
	ago := func(d time.Duration) machine.Mono { return r.now.Add(-d) }
	a := &r.asks
	a.own = map[uint64]*ownAsk{
		1: {since: ago(patience + 1), sent: ago(1)},
		2: {since: ago(patience), sent: ago(1)},
		3: {since: ago(2 * long), sent: ago(long)},
		5: {since: ago(2 * long), sent: ago(long + 1)},
		4: {since: ago(2 * long), sent: ago(long + 1)},
		6: {since: ago(patience + 1)}, // it waits for a leader
		7: {since: ago(patience - 1)},
	}
	for id, f := range a.own {
		f.ask.ID = id
	}
	a.fresh, a.away = []*ownAsk{a.own[6], a.own[7]}, true
	a.onTick(r.moment)
	var fresh []uint64
	for _, f := range a.fresh {
		fresh = append(fresh, f.ask.ID)
	}
	if want := []uint64{7, 4, 5}; !reflect.DeepEqual(fresh, want) || a.away {
		t.Errorf("the questions %d are put next, want %d; they wait for an answer: %v", fresh, want, a.away)
	}
	for id := range uint64(8) {
		if a.own[id] != nil != (id > 1 && id != 6) {
			t.Errorf("question %d is waited for: %v", id, a.own[id] != nil)
		}
	}
}

// Under another leader, all questions are asked again. Questions that arrived or were confirmed under
// the leader before are not answered: what was true then need not be true now.
func TestAnotherLeaderIsAskedAnew(t *testing.T) {
	a := &asks{own: map[uint64]*ownAsk{}, away: true}
	for id := uint64(9); id > 0; id-- {
		a.own[id] = &ownAsk{ask: leaseAsk{ID: id}}
	}
	a.fresh = []*ownAsk{a.own[9]}
	a.inbox, a.confirmed = []askBatch{{}}, []askBatch{{}}
	a.redirect()
	if len(a.inbox)+len(a.confirmed) > 0 || a.away {
		t.Errorf("of an earlier leadership %d questions wait for a round, and %d are confirmed", len(a.inbox), len(a.confirmed))
	}
	for i, f := range a.fresh {
		if len(a.fresh) != 9 || f.ask.ID != uint64(i+1) {
			t.Fatalf("%d questions are asked anew, and number %d is %d", len(a.fresh), i+1, f.ask.ID)
		}
	}
}

// An answer counts once, for the question with its number, in this life and about that lease.
func TestAnAnswerIsToItsQuestion(t *testing.T) {
	r := keyReader(9)
	a := &r.asks
	r.cfg.Boot = 3
	a.own = map[uint64]*ownAsk{1: {ask: leaseAsk{ID: 1, Lease: 7}}, 2: {ask: leaseAsk{ID: 2, Lease: 8}}}
	good := AnswerLease{ID: 1, Lease: 7, TTL: 9}
	for name, m := range map[string]leaseAnswers{
		"of an earlier life":  {Boot: 2, Answers: []AnswerLease{good}},
		"about another lease": {Boot: 3, Answers: []AnswerLease{{ID: 1, Lease: 8, TTL: 9}}},
		"of another number":   {Boot: 3, Answers: []AnswerLease{{ID: 3, Lease: 7, TTL: 9}}},
	} {
		a.away = true
		if a.answered(r.moment, &r.effects, m); len(r.outcomes) > 0 || len(a.own) != 2 {
			t.Fatalf("an answer %s is taken: %+v, and %d questions are open", name, r.outcomes, len(a.own))
		}
		if a.away != (m.Boot != r.cfg.Boot) {
			t.Errorf("after an answer %s the next questions wait for one: %v", name, a.away)
		}
	}
	for range 2 {
		a.answered(r.moment, &r.effects, leaseAnswers{Boot: 3, Answers: []AnswerLease{good}})
	}
	if want := []Outcome{good}; !reflect.DeepEqual(r.outcomes, want) || len(a.own) != 1 {
		t.Errorf("told %+v, want %+v, once", r.outcomes, want)
	}
}

// Answers share a message only if they go to the same life of a member. Another life would drop them.
func TestAnswersGoToTheLifeThatAsked(t *testing.T) {
	r := keyReader(9)
	a := &r.asks
	a.answer(asker{2, 1}, AnswerLease{ID: 1})
	a.answer(asker{2, 2}, AnswerLease{ID: 2})
	a.answer(asker{3, 1}, AnswerLease{ID: 3})
	a.answer(asker{2, 1}, AnswerLease{ID: 4})
	a.answer(asker{4, 1})
	a.flush(r.moment, &r.effects)
	want := []machine.Envelope{
		{From: 1, To: 2, Body: leaseAnswers{Boot: 1, Answers: []AnswerLease{{ID: 1}, {ID: 4}}}},
		{From: 1, To: 2, Body: leaseAnswers{Boot: 2, Answers: []AnswerLease{{ID: 2}}}},
		{From: 1, To: 3, Body: leaseAnswers{Boot: 1, Answers: []AnswerLease{{ID: 3}}}},
	}
	if !reflect.DeepEqual(r.sends, want) {
		t.Errorf("answers are sent as %+v, want %+v", r.sends, want)
	}
}

// A leader that was in key order during its leadership answers questions about leases only after its
// whole log is applied. Other members may have found more of the log to be released than is committed
// here.
func TestQuestionsWaitForWhatOthersMayHaveSeen(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "grant 1 7 60", "pass 500ms", "cut 2", "cut 3", "put 1 a b"} {
		s.do(command)
	}
	r := s.members[0].r
	commit := r.Status().Commit
	for far, want := range map[bool]uint64{true: r.last, false: commit} {
		r.reads.far, r.asks.confirmed, r.visible = far, nil, commit-1 // the last entry is yet to be seen here
		r.receiveAsks(2, leaseAsks{Boot: 1, Asks: []leaseAsk{{ID: 1, Lease: 7}}})
		if got := r.asks.confirmed; len(got) != 1 || got[0].index != want || got[0].asker != (asker{2, 1}) {
			t.Errorf("in key order before %v: a question waits as %+v, want it to wait for %d", far, got, want)
		}
	}
}

// Asks that wait for a round go into one of them. In two they would be answered twice, and rounds
// would set out for ever.
func TestAsksGoIntoOneRound(t *testing.T) {
	a := &asks{inbox: []askBatch{{index: 1}, {index: 2}}}
	if first, again := a.takeInbox(), a.takeInbox(); len(first) != 2 || len(again) != 0 {
		t.Errorf("of two batches one round takes %d and the next %d", len(first), len(again))
	}
}

// Questions go to the leader together, and the next ones wait until something comes back. A leader
// puts them before a round at once. Each knows when it was sent.
func TestFreshAsksGoToTheLeader(t *testing.T) {
	asks := []leaseAsk{{ID: 1, Lease: 7, Renew: true}, {ID: 2, Lease: 8}}
	for _, tt := range []struct {
		name   string
		leader machine.NodeID
		away   bool
		sends  []machine.Envelope
		inbox  []askBatch
	}{
		{"without a leader", 0, false, nil, nil},
		{"to a leader that has answered", 2, false, []machine.Envelope{{From: 1, To: 2, Body: leaseAsks{Boot: 3, Asks: asks}}}, nil},
		{"to a leader that has yet to answer", 2, true, nil, nil},
		{"at the leader", 1, false, nil, []askBatch{{asker: asker{1, 3}, asks: asks}}},
		{"at a leader that asked another before", 1, true, nil, []askBatch{{asker: asker{1, 3}, asks: asks}}},
	} {
		r := keyReader(9)
		r.now, r.leader, r.cfg.Boot = 50, tt.leader, 3
		a := &r.asks
		for _, ask := range asks {
			a.add(40, AskLease(ask))
		}
		a.away = tt.away
		a.turn(r.moment, &r.effects)
		if !reflect.DeepEqual(r.sends, tt.sends) || !reflect.DeepEqual(a.inbox, tt.inbox) {
			t.Errorf("%s, %+v are sent, and %+v wait for a round; want %+v and %+v", tt.name, r.sends, a.inbox, tt.sends, tt.inbox)
		}
		gone := tt.sends != nil || tt.inbox != nil
		if len(a.fresh) == 0 != gone || a.away != (tt.away || tt.sends != nil) {
			t.Errorf("%s, %d questions are still to be put, and more wait for an answer: %v", tt.name, len(a.fresh), a.away)
		}
		sent := machine.Mono(0)
		if gone {
			sent = 50
		}
		for id, own := range a.own {
			if own.sent != sent || own.since != 40 {
				t.Errorf("%s, question %d of 40 was put at %d and sent at %d, want %d", tt.name, id, own.since, own.sent, sent)
			}
		}
	}
}

// Answers that were kept back go to those that asked.
func TestParkedAnswersGoToTheirAskers(t *testing.T) {
	var a asks
	answer := func(id uint64) AnswerLease { return AnswerLease{ID: id, Lease: 1} }
	a.answerParked([]parkedAnswer{{asker{2, 7}, answer(1)}, {asker{3, 8}, answer(1)}, {asker{2, 9}, answer(2)}, {asker{2, 7}, answer(3)}})
	want := []answers{{asker{2, 7}, []AnswerLease{answer(1), answer(3)}}, {asker{3, 8}, []AnswerLease{answer(1)}}, {asker{2, 9}, []AnswerLease{answer(2)}}}
	if !reflect.DeepEqual(a.outbox, want) {
		t.Errorf("the answers are %+v, want %+v", a.outbox, want)
	}
}
