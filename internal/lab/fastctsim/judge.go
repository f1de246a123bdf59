package fastctsim

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// Judge knows the proposals, messages and decisions, crashed members included.
type Judge struct {
	n         int // members
	proposed  map[uint64][][]byte
	decisions map[uint64]fastct.Decided
	first     map[uint64]machine.NodeID // the member that decided an instance first
	by        map[decision]bool         // the decisions of members, with their lives
	courses   map[uint64]*course        // by instance
	errs      []error
}

type decision struct {
	by   machine.NodeID
	life uint64
	cn   uint64
}

// NewJudge returns a judge of a group of n.
func NewJudge(n int) *Judge {
	return &Judge{
		n: n, proposed: map[uint64][][]byte{}, decisions: map[uint64]fastct.Decided{}, first: map[uint64]machine.NodeID{},
		by: map[decision]bool{}, courses: map[uint64]*course{},
	}
}

func (j *Judge) violated(format string, args ...any) {
	j.errs = append(j.errs, fmt.Errorf(format, args...))
}

// Err returns the violations so far.
func (j *Judge) Err() error { return errors.Join(j.errs...) }

// onProposal is called before a member proposes.
func (j *Judge) onProposal(p fastct.Propose) { j.proposed[p.CN] = append(j.proposed[p.CN], p.Value) }

// onDecision is called at each decision.
func (j *Judge) onDecision(by machine.NodeID, life uint64, d fastct.Decided) {
	k := decision{by, life, d.CN}
	if j.by[k] {
		j.violated("integrity: member %d decides instance %d twice", by, d.CN)
	}
	j.by[k] = true
	valid := false
	for _, v := range j.proposed[d.CN] {
		valid = valid || bytes.Equal(v, d.Value)
	}
	if !valid {
		j.violated("validity: member %d decides %q in instance %d, which nobody proposed", by, d.Value, d.CN)
	}
	if o, ok := j.decisions[d.CN]; !ok {
		j.decisions[d.CN], j.first[d.CN] = d, by
	} else if !bytes.Equal(o.Value, d.Value) {
		j.violated("agreement: instance %d: member %d decides %q, and member %d has decided %q", d.CN, by, d.Value, j.first[d.CN], o.Value)
	}
}

// Sends is told of each message that leaves.
func (j *Judge) Sends(e machine.Envelope) {
	switch b := e.Body.(type) {
	case fastct.NewEstimate:
		j.course(b.CN).onEstimate(e.From, b)
	case fastct.Estimate:
		if b.Round >= int64(j.n) {
			j.course(b.CN).estimate(e.From, b)
		}
	case fastct.Ack:
		j.course(b.CN).onAcknowledgment(e.From, b)
	case fastct.Decide:
		if !b.Whole {
			j.course(b.CN).onLock(b.Round)
		}
	}
}

func (j *Judge) course(cn uint64) *course {
	c := j.courses[cn]
	if c == nil {
		c = newCourse(j)
		j.courses[cn] = c
	}
	return c
}
