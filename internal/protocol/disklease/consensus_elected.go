package disklease

import (
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Elected runs a Consensus and the Oracle that leads it as one machine: it steps the
// oracle's outcomes into the consensus, and also reports them. Propose goes to the
// consensus, all other inputs go to the oracle.
//
//	disklease.NewElected(oracle, disklease.RankedOverNotes(consensus, id, 0), 1)
//
// The oracle's accesses are at At 0 to stores-1, those of the consensus come after. So
// either may be wrapped, as by quorumregister: stores is then how many bases the
// wrapped oracle has.
type Elected struct {
	oracle    Claim
	consensus Proposer
	stores    int
	now       machine.Now
}

// NewElected joins the two.
func NewElected(oracle Claim, consensus Proposer, stores int) *Elected {
	return &Elected{oracle: oracle, consensus: consensus, stores: stores}
}

// Step implements machine.Machine.
func (e *Elected) Step(now machine.Now, input Input) {
	e.now = now
	switch in := input.(type) {
	case Propose:
		e.consensus.Step(now, in)
	case LeaseInput:
		e.oracle.Step(now, in)
	default:
		panic(fmt.Sprintf("disklease: an elected consensus takes no %T", in))
	}
}

// Accessed implements machine.Storing.
func (e *Elected) Accessed(now machine.Now, in machine.Accessed) {
	e.now = now
	consensus := in.ID%2 == 1
	in.ID /= 2
	if consensus {
		e.consensus.Accessed(now, in)
	} else {
		e.oracle.Accessed(now, in)
	}
}

// Wake implements machine.Machine.
func (e *Elected) Wake(now machine.Now) {
	e.now = now
	e.oracle.Wake(now)
	e.consensus.Wake(now)
}

// Ready implements machine.Machine.
func (e *Elected) Ready() machine.Ready[Outcome] {
	rd := e.oracle.Ready()
	for i := range rd.Accesses {
		rd.Accesses[i].ID *= 2
	}
	for _, outcome := range rd.Outcomes {
		if led, ok := outcome.(ConsensusInput); ok { // Leads or Follows
			e.consensus.Step(e.now, led)
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
