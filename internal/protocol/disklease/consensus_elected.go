package disklease

import "github.com/tenure-lease/tenure/internal/machine"

// Elected runs a Consensus and the Oracle that leads it as one machine: it steps the
// oracle's outcomes into the consensus, and also reports them. Propose goes to the
// consensus, all other inputs go to the oracle.
//
//	disklease.NewElected(oracle, disklease.RankedOverNotes(consensus, id), 1)
//
// The oracle's accesses are at At 0 to stores-1, those of the consensus come after. So
// either may be wrapped, as by quorumregister: stores is then how many bases the
// wrapped oracle has.
type Elected struct {
	oracle, consensus machine.Machine
	stores            int
	now               machine.Now
}

// NewElected joins the two.
func NewElected(oracle, consensus machine.Machine, stores int) *Elected {
	return &Elected{oracle: oracle, consensus: consensus, stores: stores}
}

// Step implements machine.Machine.
func (e *Elected) Step(now machine.Now, input any) {
	e.now = now
	switch in := input.(type) {
	case Propose:
		e.consensus.Step(now, in)
	case machine.Wake:
		e.oracle.Step(now, in)
		e.consensus.Step(now, in)
	case machine.Accessed:
		part := e.oracle
		if in.ID%2 == 1 {
			part = e.consensus
		}
		in.ID /= 2
		part.Step(now, in)
	default:
		e.oracle.Step(now, in)
	}
}

// Ready implements machine.Machine.
func (e *Elected) Ready() machine.Ready {
	rd := e.oracle.Ready()
	for i := range rd.Accesses {
		rd.Accesses[i].ID *= 2
	}
	for _, outcome := range rd.Outcomes {
		switch outcome.(type) {
		case Leads, Follows:
			e.consensus.Step(e.now, outcome)
		}
	}
	theirs := e.consensus.Ready()
	for _, a := range theirs.Accesses {
		a.ID, a.At = 2*a.ID+1, a.At+e.stores
		rd.Accesses = append(rd.Accesses, a)
	}
	rd.Outcomes = append(rd.Outcomes, theirs.Outcomes...)
	rd.Alarm = min(rd.Alarm, theirs.Alarm)
	return rd
}
