package replica

import "github.com/tenure-lease/tenure/internal/machine"

// moment is where this member stands, as its parts are told. It is a value: a part changes
// nothing of it.
type moment struct {
	cfg *Config
	now machine.Mono
	// leader and term are those that were last reported.
	leader machine.NodeID
	term   uint64
	// visible is up to where the Applier has reported what is released, and visibleTerm is
	// the term of that entry.
	visible, visibleTerm uint64
	// last is the index of the last entry in the log; at a leader, exactly.
	last uint64
}

// leading reports whether this member believes to be the leader. Only a round of
// confirmation that began later proves it.
func (m moment) leading() bool { return m.leader == m.cfg.ID }

// presides reports whether this member leads and has an entry of its term released.
func (m moment) presides() bool { return m.leading() && m.visibleTerm == m.term }

// effects are what a turn calls for, in the order in which it came up: parts add to them, and
// Ready hands them out.
type effects struct {
	self     machine.NodeID
	sends    []machine.Envelope
	persists []machine.Persist
	outcomes []Outcome
}

func (e *effects) send(to machine.NodeID, body any) {
	e.sends = append(e.sends, machine.Envelope{From: e.self, To: to, Body: body})
}

// take returns what has been added since the last time.
func (e *effects) take() machine.Ready[Outcome] {
	rd := machine.Ready[Outcome]{Sends: e.sends, Persists: e.persists, Outcomes: e.outcomes}
	e.sends, e.persists, e.outcomes = nil, nil, nil
	return rd
}
