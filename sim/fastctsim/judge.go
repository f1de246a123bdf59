package fastctsim

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/fastct"
	"github.com/tenure-lease/tenure/machine"
)

// Judge knows what was proposed, sent and decided, crashed members included.
type Judge struct {
	n         int // members
	proposed  map[uint64][][]byte
	decisions map[uint64]fastct.Decided
	first     map[uint64]machine.NodeID      // who decided an instance first
	by        map[decision]bool              // who decided what, in which life
	imposed   map[imposed]fastct.NewEstimate // the estimate of an interesting round
	fast      map[uint64]imposed             // the f-round of an instance
	errs      []error
}

type decision struct {
	by   machine.NodeID
	life uint64
	cn   uint64
}

type imposed struct {
	by    machine.NodeID
	cn    uint64
	round int64
}

// NewJudge returns a judge of a group of n.
func NewJudge(n int) *Judge {
	return &Judge{
		n: n, proposed: map[uint64][][]byte{}, decisions: map[uint64]fastct.Decided{}, first: map[uint64]machine.NodeID{},
		by: map[decision]bool{}, imposed: map[imposed]fastct.NewEstimate{}, fast: map[uint64]imposed{},
	}
}

func (j *Judge) violated(format string, args ...any) {
	j.errs = append(j.errs, fmt.Errorf(format, args...))
}

// Err returns what was violated so far.
func (j *Judge) Err() error { return errors.Join(j.errs...) }

// Proposes is told before a member proposes.
func (j *Judge) Proposes(p fastct.Propose) { j.proposed[p.CN] = append(j.proposed[p.CN], p.Value) }

// Decides is told of each decision.
func (j *Judge) Decides(by machine.NodeID, life uint64, d fastct.Decided) {
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

// Sends is told of each message that leaves. An interesting round has one estimate, and
// an instance one FAST round that is interesting (Lemma 5).
func (j *Judge) Sends(e machine.Envelope) {
	b, ok := e.Body.(fastct.NewEstimate)
	if !ok {
		return
	}
	k := imposed{e.From, b.CN, b.Round}
	if o, ok := j.imposed[k]; ok && !bytes.Equal(o.Value, b.Value) {
		j.violated("instance %d: member %d imposes %q and %q in round %d", b.CN, e.From, o.Value, b.Value, b.Round)
	}
	j.imposed[k] = b
	if b.Round >= int64(j.n) {
		return
	}
	if o, ok := j.fast[b.CN]; ok && o != k {
		j.violated("Lemma 5: instance %d has the f-rounds %d of member %d and %d of member %d", b.CN, o.round, o.by, b.Round, e.From)
	}
	j.fast[b.CN] = k
}

// Decided returns what was decided in an instance.
func (j *Judge) Decided(cn uint64) (value []byte, ok bool) {
	d, ok := j.decisions[cn]
	return d.Value, ok
}
