package fastctsim

import (
	"bytes"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// course are the messages of an instance, by all members in all of their lives. A member's
// messages to itself are not in it.
type course struct {
	j         *Judge
	imposed   []imposed                            // of interesting rounds
	fast      *imposed                             // the f-round
	estimates map[machine.NodeID][]fastct.Estimate // of NORMAL rounds, one for each
	acks      map[machine.NodeID][]int64           // rounds
	locked    []int64                              // rounds whose estimate is the decision
}

// imposed is a round that became interesting.
type imposed struct {
	by machine.NodeID
	fastct.NewEstimate
}

func newCourse(j *Judge) *course {
	return &course{j: j, estimates: map[machine.NodeID][]fastct.Estimate{}, acks: map[machine.NodeID][]int64{}}
}

// onEstimate is called at each NEWESTIMATE. An interesting round has one estimate, and an instance
// one FAST round that is interesting (Lemma 5).
func (c *course) onEstimate(by machine.NodeID, b fastct.NewEstimate) {
	for _, o := range c.imposed {
		if o.by == by && o.Round == b.Round {
			if !bytes.Equal(o.Value, b.Value) {
				c.j.violated("instance %d: member %d imposes %q and %q in round %d", b.CN, by, o.Value, b.Value, b.Round)
			}
			return
		}
	}
	k := imposed{by, b}
	c.imposed = append(c.imposed, k)
	if b.Round < int64(c.j.n) {
		if c.fast != nil {
			c.j.violated("Lemma 5: instance %d has the f-rounds %d of member %d and %d of member %d", b.CN, c.fast.Round, c.fast.by, b.Round, by)
		}
		c.fast = &k
	}
	for _, round := range c.locked {
		c.same(round)
	}
}

// estimate is told of each NORMAL ESTIMATE, and acknowledges of each ACK. An estimate knows of
// all that its sender acknowledged in earlier rounds. So a member that has sent one
// acknowledges nothing of an earlier round that is not in it, in a later life neither (B-1).
func (c *course) estimate(by machine.NodeID, b fastct.Estimate) {
	for _, o := range c.estimates[by] {
		if o.Round == b.Round {
			if o.TS != b.TS || !bytes.Equal(o.Value, b.Value) {
				c.j.violated("B-1: instance %d: member %d has the estimates %q of round %d and %q of round %d in round %d",
					b.CN, by, o.Value, o.TS, b.Value, b.TS, b.Round)
			}
			return
		}
	}
	c.estimates[by] = append(c.estimates[by], b)
	for _, round := range c.acks[by] {
		c.onKnown(by, b, round)
	}
}

func (c *course) onAcknowledgment(by machine.NodeID, b fastct.Ack) {
	if slices.Contains(c.acks[by], b.Round) {
		return
	}
	c.acks[by] = append(c.acks[by], b.Round)
	for _, e := range c.estimates[by] {
		c.onKnown(by, e, b.Round)
	}
	n := 0
	for _, rounds := range c.acks {
		if slices.Contains(rounds, b.Round) {
			n++
		}
	}
	if n > c.j.n/2 {
		c.onLock(b.Round)
	}
}

func (c *course) onKnown(by machine.NodeID, e fastct.Estimate, acked int64) {
	if e.TS < acked && acked < e.Round {
		c.j.violated("B-1: instance %d: member %d acknowledges round %d, and its estimate of round %d is of round %d", e.CN, by, acked, e.Round, e.TS)
	}
}

// onLock is called at a round that a majority has acknowledged: its estimate is imposed in all
// later ones (Lemma 6).
func (c *course) onLock(round int64) {
	if !slices.Contains(c.locked, round) {
		c.locked = append(c.locked, round)
		c.same(round)
	}
}

func (c *course) same(round int64) {
	for _, b := range c.imposed {
		for _, later := range c.imposed {
			if b.Round == round && later.Round > round && !bytes.Equal(later.Value, b.Value) {
				c.j.violated("Lemma 6: instance %d: round %d is locked with %q, and round %d imposes %q", b.CN, round, b.Value, later.Round, later.Value)
			}
		}
	}
}
