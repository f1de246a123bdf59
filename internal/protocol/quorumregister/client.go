package quorumregister

import "github.com/tenure-lease/tenure/internal/machine"

// Outcome is the end of an operation of Client, or an event if Event is set.
type Outcome struct {
	machine.Accessed
	Event Event
}

// Client returns a machine that does to a register what its owner steps: inputs are
// machine.Access (at 0, with IDs of the owner's choice). Each has one outcome, in order,
// beside the events of Over.
func Client(cfg Config) machine.Storing[machine.Access, Outcome] {
	return Over(&relay{}, cfg, func(e Event) Outcome { return Outcome{Event: e} })
}

// relay hands its inputs on as accesses and their ends as outcomes.
type relay struct{ ready machine.Ready[Outcome] }

func (r *relay) Step(_ machine.Now, in machine.Access) {
	r.ready.Accesses = append(r.ready.Accesses, in)
}

func (r *relay) Accessed(_ machine.Now, a machine.Accessed) {
	r.ready.Outcomes = append(r.ready.Outcomes, Outcome{Accessed: a})
}

func (r *relay) Wake(machine.Now) {}

func (r *relay) Ready() machine.Ready[Outcome] {
	rd := r.ready
	rd.Alarm = machine.Never
	r.ready = machine.Ready[Outcome]{}
	return rd
}
