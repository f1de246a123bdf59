package asyncleasesim

import (
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
)

// judge knows all invocations and their outcomes, in true order.
type judge struct {
	invocations []*invocation
	floor       uint64 // the highest that anybody asked for
	errs        []error
}

// invocation is one call of lease().
type invocation struct {
	by       machine.NodeID
	id       uint64
	asked    asynclease.Interval
	answered bool
	held     asynclease.Interval // the part that was granted and not given back; zero if none
	gone     bool                // the member that asked has crashed
}

// overlap is the specification's own, apart from the judged code.
func overlap(a, b asynclease.Interval) bool {
	for _, x := range []uint64{a.First, a.Last} {
		if b.First <= x && x <= b.Last {
			return true
		}
	}
	return a.First <= b.First && b.Last <= a.Last
}

func (j *judge) violated(format string, args ...any) {
	j.errs = append(j.errs, fmt.Errorf(format, args...))
}

// Err returns the violations so far.
func (j *judge) Err() error { return errors.Join(j.errs...) }

// onAsk is called before a member asks.
func (j *judge) onAsk(by machine.NodeID, in asynclease.Ask) {
	j.invocations = append(j.invocations, &invocation{by: by, id: in.ID, asked: in.Interval})
}

// onForget is called before a member forgets.
func (j *judge) onForget(below uint64) { j.floor = max(j.floor, below) }

// find returns the invocation that a member lasts on, or has made last, under an ID.
func (j *judge) find(by machine.NodeID, id uint64) *invocation {
	for i := len(j.invocations) - 1; i >= 0; i-- {
		if inv := j.invocations[i]; inv.by == by && inv.id == id && !inv.gone {
			return inv
		}
	}
	return nil
}

// verdict is told of an outcome at once.
func (j *judge) verdict(by machine.NodeID, v asynclease.Verdict) {
	inv := j.find(by, v.ID)
	if inv == nil || inv.answered {
		j.violated("member %d: a verdict on %d, which nobody awaits: %+v", by, v.ID, v)
		return
	}
	inv.answered = true
	if v.Granted {
		for _, o := range j.invocations {
			if o.held != (asynclease.Interval{}) && overlap(o.held, inv.asked) {
				j.violated("at most once: member %d is granted %v, and member %d has %v", by, inv.asked, o.by, o.held)
			}
		}
		inv.held = inv.asked
		return
	}
	if inv.asked.First < j.floor {
		return
	}
	for _, o := range j.invocations {
		if o != inv && overlap(o.asked, inv.asked) {
			return
		}
	}
	j.violated("mandatory leasing: member %d is refused %v, and nobody else has asked for any of it", by, inv.asked)
}

// onReturn is called before a member returns.
func (j *judge) onReturn(by machine.NodeID, r asynclease.Return) {
	inv := j.find(by, r.ID)
	switch {
	case inv == nil || inv.held.First == 0:
	case r.From <= inv.held.First:
		inv.held = asynclease.Interval{}
	case r.From <= inv.held.Last:
		inv.held.Last = r.From - 1
	}
}

// onCrash is called when a member crashes: it will not hear the awaited answers, and no other
// may get its leases.
func (j *judge) onCrash(id machine.NodeID) {
	for _, inv := range j.invocations {
		inv.gone = inv.gone || inv.by == id
	}
}

// waiting returns one of the first n invocations that lasts though its member lives, if there
// is one.
func (j *judge) waiting(n int) error {
	for _, inv := range j.invocations[:n] {
		if !inv.answered && !inv.gone {
			return fmt.Errorf("wait-freedom: member %d still waits for a verdict on %v", inv.by, inv.asked)
		}
	}
	return nil
}
