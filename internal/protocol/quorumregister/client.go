package quorumregister

import "github.com/tenure-lease/tenure/internal/machine"

// Client returns a machine that does to a register what its owner steps: inputs are
// machine.Access (at 0, with IDs of the owner's choice), outcomes machine.Accessed,
// one for each, in order, beside those of Over.
func Client(cfg Config) machine.Machine { return Over(&relay{}, cfg) }

// relay hands its inputs on as accesses and their ends as outcomes.
type relay struct{ ready machine.Ready }

func (r *relay) Step(_ machine.Now, input any) {
	switch in := input.(type) {
	case machine.Access:
		r.ready.Accesses = append(r.ready.Accesses, in)
	case machine.Accessed:
		r.ready.Outcomes = append(r.ready.Outcomes, in)
	}
}

func (r *relay) Ready() machine.Ready {
	rd := r.ready
	rd.Alarm = machine.Never
	r.ready = machine.Ready{}
	return rd
}
