package fastct

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// ErrImpossible says that a message is none that a member sends which runs the same program
// with the same Config.
var ErrImpossible = errors.New("the message is impossible")

// Refusal is that messages of a member were not taken in: nothing has changed because of
// them.
type Refusal struct {
	From  machine.NodeID
	Count uint64
	Err   error // of the last; it is an ErrImpossible
}

// Refusals returns those since the last call, one of each sender. Somebody should be told:
// it is no matter of the network, and will not mend itself.
func (m *Machine) Refusals() []Refusal {
	list := m.refusals
	m.refusals = nil
	return list
}

// refusalsMax is of how many senders refusals are kept until the owner asks.
const refusalsMax = 64

func (m *Machine) refuse(from machine.NodeID, err error) {
	i := slices.IndexFunc(m.refusals, func(r Refusal) bool { return r.From == from })
	if i < 0 {
		if len(m.refusals) == refusalsMax {
			return
		}
		i = len(m.refusals)
		m.refusals = append(m.refusals, Refusal{From: from})
	}
	m.refusals[i].Count++
	m.refusals[i].Err = fmt.Errorf("%w: %w", ErrImpossible, err)
}

const (
	// roundsAhead is how far beyond its own round of an instance a member follows another
	// one. Nobody works behind by so much, at ten thousand rounds a second for five days. A
	// member that has followed a message that lies goes on from there: there are that many
	// rounds more than a billion times.
	roundsAhead = 1 << 32
	// maxRound is the last one, and leaves room for the next.
	maxRound = math.MaxInt64 / 2
)

// possible says why a message cannot be meant as it is.
func (m *Machine) possible(e machine.Envelope) error {
	switch b := e.Body.(type) {
	case Counts:
		if len(b.Counts) != len(m.cfg.Members) {
			return fmt.Errorf("%d members are counted, and there are %d", len(b.Counts), len(m.cfg.Members))
		}
		return nil
	case Trimmed:
		return nil
	}
	cn, round, ok := cnRound(e.Body)
	if !ok {
		return fmt.Errorf("a %T is not a message of fastct", e.Body)
	}
	if cn == 0 {
		return fmt.Errorf("a %T of instance 0, and the first is 1", e.Body)
	}
	present := m.cfg.normal()
	if in := m.instances[cn]; in != nil {
		present = max(present, in.round)
	}
	if round < 0 || round > min(present+roundsAhead, maxRound) {
		return fmt.Errorf("a %T of instance %d in round %d, and this member is in round %d", e.Body, cn, round, present)
	}
	coordinator := e.From
	switch b := e.Body.(type) {
	case Estimate:
		coordinator = e.To
		if b.TS < -1 || b.TS >= round {
			return fmt.Errorf("a %T of instance %d in round %d that was adopted in round %d", e.Body, cn, round, b.TS)
		}
	case Ack, Nack:
		coordinator = e.To
	case NewEstimate, Abort:
	case Call:
		if round == 0 {
			return nil // of a member that lacks the decision
		}
	case Decide:
		return nil
	}
	if c := m.cfg.coordinator(cn, round); c != coordinator {
		return fmt.Errorf("a %T of instance %d in round %d from member %d to %d, and the coordinator is %d", e.Body, cn, round, e.From, e.To, c)
	}
	return nil
}
