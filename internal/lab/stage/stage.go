package stage

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Tester is what a script fails with: a *testing.T.
type Tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Stage holds the members and the messages on their way.
type Stage[In, Out any] struct {
	T Tester
	// Wire is what was sent and has not arrived, in order of sending.
	Wire []machine.Envelope
	// Sent, if set, sees each message when it leaves, and Outcome each outcome.
	Sent    func(machine.Envelope)
	Outcome func(machine.NodeID, Out)

	now     machine.Mono
	members map[machine.NodeID]*member[In, Out]
	order   []machine.NodeID // of starting, to wake them in
}

type member[In, Out any] struct {
	m        machine.Receiver[In, Out] // nil while crashed
	durable  []any
	forced   int // how many of durable no crash can take
	queue    []machine.Persist
	held     bool // the disk
	alarm    machine.Mono
	outcomes []Out
}

// New returns an empty stage.
func New[In, Out any](t Tester) *Stage[In, Out] {
	return &Stage[In, Out]{T: t, members: map[machine.NodeID]*member[In, Out]{}}
}

// Start gives a member a machine. Its disk keeps its records.
func (s *Stage[In, Out]) Start(id machine.NodeID, m machine.Receiver[In, Out]) {
	if s.members[id] == nil {
		s.members[id] = &member[In, Out]{}
		s.order = append(s.order, id)
	}
	s.members[id].m = m
	s.Wake(id)
}

// Step steps a member's machine with an input, unless it has crashed.
func (s *Stage[In, Out]) Step(id machine.NodeID, in In) {
	s.turn(id, func(m machine.Receiver[In, Out], now machine.Now) { m.Step(now, in) })
}

// Receive has a message arrive.
func (s *Stage[In, Out]) Receive(e machine.Envelope) {
	s.turn(e.To, func(m machine.Receiver[In, Out], now machine.Now) { m.Receive(now, e) })
}

// Wake wakes a member's machine.
func (s *Stage[In, Out]) Wake(id machine.NodeID) {
	s.turn(id, func(m machine.Receiver[In, Out], now machine.Now) { m.Wake(now) })
}

func (s *Stage[In, Out]) turn(id machine.NodeID, step func(machine.Receiver[In, Out], machine.Now)) {
	k := s.members[id]
	if k == nil || k.m == nil {
		return
	}
	step(k.m, machine.Now{Mono: s.now})
	rd := k.m.Ready()
	k.alarm = rd.Alarm
	k.outcomes = append(k.outcomes, rd.Outcomes...)
	if s.Outcome != nil {
		for _, out := range rd.Outcomes {
			s.Outcome(id, out)
		}
	}
	s.send(rd.Sends)
	k.queue = append(k.queue, rd.Persists...)
	if !k.held {
		s.Sync(id)
	}
}

func (s *Stage[In, Out]) send(envelopes []machine.Envelope) {
	for _, e := range envelopes {
		if s.Sent != nil {
			s.Sent(e)
		}
		s.Wire = append(s.Wire, e)
	}
}

// Hold lets a member's records wait for Sync from now on.
func (s *Stage[In, Out]) Hold(id machine.NodeID) { s.members[id].held = true }

// Sync makes all of a member's records durable.
func (s *Stage[In, Out]) Sync(id machine.NodeID) { s.SyncFirst(id, len(s.members[id].queue)) }

// SyncFirst makes the first n of a member's records durable that are not.
func (s *Stage[In, Out]) SyncFirst(id machine.NodeID, n int) {
	k := s.members[id]
	queue := k.queue[:n:n]
	k.queue = k.queue[n:]
	for _, p := range queue {
		switch r := p.Record.(type) {
		case nil:
		case sim.Rewrite:
			k.durable = slices.Clone(r.Records)
			k.forced = len(k.durable)
		default:
			k.durable = append(k.durable, r)
			if len(p.Then) > 0 {
				k.forced = len(k.durable)
			}
		}
	}
	for _, p := range queue {
		for _, e := range p.Then {
			if e.To == id {
				s.Receive(e)
			} else {
				s.send([]machine.Envelope{e})
			}
		}
	}
}

// Durable returns what a member's disk has kept.
func (s *Stage[In, Out]) Durable(id machine.NodeID) []any { return slices.Clone(s.members[id].durable) }

// Rewrite puts records in the place of all that a member's disk has kept.
func (s *Stage[In, Out]) Rewrite(id machine.NodeID, records []any) {
	k := s.members[id]
	k.durable, k.forced = slices.Clone(records), len(records)
}

// Crash takes a member's machine away and all that was not durable. Its envelopes are on
// their way.
func (s *Stage[In, Out]) Crash(id machine.NodeID) {
	k := s.members[id]
	k.m, k.queue, k.alarm, k.held = nil, nil, machine.Never, false
}

// Wait lets time pass and wakes those whose alarm rings, each once.
func (s *Stage[In, Out]) Wait(d time.Duration) {
	s.now = s.now.Add(d)
	for _, id := range s.order {
		if k := s.members[id]; k.m != nil && k.alarm <= s.now {
			s.Wake(id)
		}
	}
}

// Match chooses messages.
type Match func(machine.Envelope) bool

// From, To and Kind choose by sender, receiver and type.
func From(ids ...machine.NodeID) Match {
	return func(e machine.Envelope) bool { return slices.Contains(ids, e.From) }
}

func To(ids ...machine.NodeID) Match {
	return func(e machine.Envelope) bool { return slices.Contains(ids, e.To) }
}

func Kind[T any]() Match {
	return func(e machine.Envelope) bool { _, ok := e.Body.(T); return ok }
}

func all(matches []Match) Match {
	return func(e machine.Envelope) bool {
		return !slices.ContainsFunc(matches, func(m Match) bool { return !m(e) })
	}
}

// Pass delivers the messages on the wire that all matches choose, in order of sending.
// It wants at least one.
func (s *Stage[In, Out]) Pass(matches ...Match) {
	s.T.Helper()
	for _, e := range s.take(matches) {
		s.Receive(e)
	}
}

// Lose takes messages off the wire. It wants at least one, and returns them: to lose
// is to keep for later.
func (s *Stage[In, Out]) Lose(matches ...Match) []machine.Envelope {
	s.T.Helper()
	return s.take(matches)
}

// Late delivers what was lost.
func (s *Stage[In, Out]) Late(envelopes []machine.Envelope) {
	for _, e := range envelopes {
		s.Receive(e)
	}
}

func (s *Stage[In, Out]) take(matches []Match) (taken []machine.Envelope) {
	s.T.Helper()
	match := all(matches)
	for _, e := range s.Wire {
		if match(e) {
			taken = append(taken, e)
		}
	}
	if len(taken) == 0 {
		s.T.Fatalf("no such message is on the wire: %v", s.Wire)
	}
	s.Wire = slices.DeleteFunc(s.Wire, func(e machine.Envelope) bool { return match(e) })
	return taken
}

// Has reports whether such a message is on the wire.
func (s *Stage[In, Out]) Has(matches ...Match) bool { return slices.ContainsFunc(s.Wire, all(matches)) }

// Settle delivers the envelopes on the wire and all that follow from them, until none is
// left. Messages that a match chooses stay.
func (s *Stage[In, Out]) Settle(but ...Match) {
	s.T.Helper()
	for range 100_000 {
		i := slices.IndexFunc(s.Wire, func(e machine.Envelope) bool {
			return !slices.ContainsFunc(but, func(m Match) bool { return m(e) })
		})
		if i < 0 {
			return
		}
		e := s.Wire[i]
		s.Wire = slices.Delete(s.Wire, i, i+1)
		s.Receive(e)
	}
	s.T.Fatalf("messages beget messages without end; %d are on the wire, such as %+v", len(s.Wire), s.Wire[0])
}
