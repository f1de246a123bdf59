package abcastsim

import (
	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// counted is a machine whose messages carry the number of communication steps that led to them
// within their instance. A proposal is after no step. A message is one step after those that
// its sender waited for. A FAST estimate comes after the answers about the lease, if that was
// asked for in this instance; a NORMAL one after estimates; an acknowledgment after the
// coordinator's estimate; a decision after acknowledgments. A message of a member to itself is
// no step. Messages that it got besides, and did not wait for, do not count, so that neither
// delays nor the order of arrival change the result.
type counted struct {
	*abcast.Machine
	id    machine.NodeID
	n     int64
	count *counter

	leases    map[uint64]uint64            // by Seq: the instance in which the lease was asked for
	answers   map[uint64]int               // by instance: the greatest depth of an answer about its lease
	requests  map[asynclease.Request]asked // of others
	estimates map[[2]uint64]int            // by instance and round
	imposed   map[[2]uint64]int
	acks      map[[2]uint64]int
}

// deep is a message on its way.
type deep struct {
	depth int
	body  any
}

// asked is a Lease that came.
type asked struct {
	cn    uint64
	depth int
}

// counter adds up a group's messages, by instance.
type counter struct {
	steps   map[uint64]int   // the depth of the decision at another member
	rounds  map[uint64]int64 // in which it was decided
	traffic map[uint64]*traffic
}

// traffic is the messages of consensus and about the lease that was asked for in an
// instance.
type traffic struct{ leases, messages, bytes int }

func newCounter() *counter {
	return &counter{steps: map[uint64]int{}, rounds: map[uint64]int64{}, traffic: map[uint64]*traffic{}}
}

func newCounted(m *abcast.Machine, id machine.NodeID, n int, c *counter) *counted {
	return &counted{
		Machine: m, id: id, n: int64(n), count: c, leases: map[uint64]uint64{}, answers: map[uint64]int{}, requests: map[asynclease.Request]asked{},
		estimates: map[[2]uint64]int{}, imposed: map[[2]uint64]int{}, acks: map[[2]uint64]int{},
	}
}

func deepest(m map[[2]uint64]int, cn uint64, round int64, depth int) {
	k := [2]uint64{cn, uint64(round)}
	m[k] = max(m[k], depth)
}

func (c *counted) Receive(now machine.Now, e machine.Envelope) {
	if d, ok := e.Body.(deep); ok {
		c.noteDepth(d)
		e.Body = d.body
	}
	c.Machine.Receive(now, e)
}

// noteDepth notes the depth of an arriving message.
func (c *counted) noteDepth(d deep) {
	switch b := d.body.(type) {
	case asynclease.Lease:
		c.requests[b.Request] = asked{b.Interval.First, d.depth}
	case asynclease.Ack:
		cn := c.leases[b.Request.Seq]
		c.answers[cn] = max(c.answers[cn], d.depth)
	case asynclease.Nack:
		cn := c.leases[b.Request.Seq]
		c.answers[cn] = max(c.answers[cn], d.depth)
	case fastct.Estimate:
		deepest(c.estimates, b.CN, b.Round, d.depth)
	case fastct.NewEstimate:
		deepest(c.imposed, b.CN, b.Round, d.depth)
	case fastct.Ack:
		deepest(c.acks, b.CN, b.Round, d.depth)
	case fastct.Decide:
		c.count.steps[b.CN] = max(c.count.steps[b.CN], d.depth)
		if !b.Whole {
			c.count.rounds[b.CN] = b.Round
		}
	}
}

func (c *counted) Ready() machine.Ready[abcast.Outcome] {
	rd := c.Machine.Ready()
	rd.Sends = c.noteSent(rd.Sends)
	for i := range rd.Persists {
		rd.Persists[i].Then = c.noteSent(rd.Persists[i].Then)
	}
	return rd
}

func (c *counted) noteSent(envelopes []machine.Envelope) []machine.Envelope {
	var out []machine.Envelope
	for _, e := range envelopes {
		if e.To != c.id {
			c.tally(e.Body)
			e.Body = deep{c.depth(e.Body), e.Body}
		}
		out = append(out, e)
	}
	return out
}

// depth is one more than that of the message upon which the message was sent.
func (c *counted) depth(body any) int {
	at := func(m map[[2]uint64]int, cn uint64, round int64) int { return m[[2]uint64{cn, uint64(round)}] + 1 }
	switch b := body.(type) {
	case asynclease.Ack:
		return c.requests[b.Request].depth + 1
	case asynclease.Nack:
		return c.requests[b.Request].depth + 1
	case fastct.NewEstimate:
		if b.Round < c.n {
			return c.answers[b.CN] + 1
		}
		return at(c.estimates, b.CN, b.Round)
	case fastct.Ack:
		return at(c.imposed, b.CN, b.Round)
	case fastct.Decide:
		return at(c.acks, b.CN, b.Round)
	}
	return 1
}

// tally adds a message to those of its instance.
func (c *counted) tally(body any) {
	var cn uint64
	lease := 0
	switch b := body.(type) {
	case asynclease.Lease:
		cn = b.Interval.First
		if _, again := c.leases[b.Request.Seq]; !again {
			lease = 1
		}
		c.leases[b.Request.Seq] = cn
	case asynclease.Ack:
		cn = c.requests[b.Request].cn
	case asynclease.Nack:
		cn = c.requests[b.Request].cn
	case fastct.Estimate:
		cn = b.CN
	case fastct.NewEstimate:
		cn = b.CN
	case fastct.Ack:
		cn = b.CN
	case fastct.Nack:
		cn = b.CN
	case fastct.Abort:
		cn = b.CN
	case fastct.Decide:
		cn = b.CN
	default:
		return // of no instance: broadcast messages, and heartbeats
	}
	t := c.count.traffic[cn]
	if t == nil {
		t = &traffic{}
		c.count.traffic[cn] = t
	}
	t.leases += lease
	t.messages++
	t.bytes += size(body)
}

// size is about how many bytes a message takes on a wire: one for its kind, 8 for each number,
// and the payload's.
func size(body any) int {
	switch b := body.(type) {
	case fastct.Estimate:
		return 26 + len(b.Value)
	case fastct.NewEstimate:
		return 18 + len(b.Value)
	case fastct.Decide:
		return 18 + len(b.Value)
	case asynclease.Lease:
		return 1 + 6*8
	}
	return 25
}
