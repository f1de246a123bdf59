package abcast

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// Consensus is package fastct over package asynclease: a fastct.Machine whose WantLease
// and GiveLease are answered by the members themselves. It is a machine.Machine with the
// inputs and outcomes of fastct, but for those two and Leased, and the records of both.
type Consensus struct {
	*fastct.Machine
	lease *asynclease.Machine // nil without leases
	ready machine.Ready[fastct.Outcome]
	// Leases counts the invocations of lease() and how many were refused.
	Leases, Refused uint64
}

// NewConsensus returns a member. Its life is greater at each start.
func NewConsensus(cfg fastct.Config, life uint64, records []any) (*Consensus, error) {
	var ofLease, ofFast []any
	for _, r := range records {
		switch r.(type) {
		case asynclease.Identity, asynclease.Permitted, asynclease.Cut, asynclease.Floor:
			ofLease = append(ofLease, r)
		default:
			ofFast = append(ofFast, r)
		}
	}
	c := &Consensus{}
	var err error
	if c.Machine, err = fastct.New(cfg, ofFast); err != nil {
		return nil, err
	}
	fast := c.Machine.Ready()
	c.gather(fast.Sends, fast.Persists)
	if cfg.Plain {
		return c, nil
	}
	c.lease, err = asynclease.New(asynclease.Config{
		ID: cfg.ID, Members: cfg.Members, Life: life, Retry: max(cfg.Retry, time.Nanosecond), Volatile: cfg.Volatile,
	}, ofLease)
	if err != nil {
		return nil, fmt.Errorf("leases: %w", err)
	}
	lease := c.lease.Ready()
	c.gather(lease.Sends, lease.Persists)
	return c, nil
}

// Records returns what a new log may begin with in place of all records so far.
func (c *Consensus) Records() []any {
	records := c.Machine.Records()
	if c.lease != nil {
		records = append(records, c.lease.Records()...)
	}
	return records
}

// Step takes the inputs of fastct.Machine.
func (c *Consensus) Step(now machine.Now, input fastct.Input) {
	c.Machine.Step(now, input)
	if trim, ok := input.(fastct.Trim); ok && c.lease != nil {
		c.lease.Step(now, asynclease.Forget{Below: trim.Below})
	}
	c.end(now)
}

// Receive takes a message of another member, or of its own that has waited for a record.
func (c *Consensus) Receive(now machine.Now, e machine.Envelope) {
	switch e.Body.(type) {
	case asynclease.Lease, asynclease.Ack, asynclease.Nack, asynclease.Give:
		if c.lease != nil {
			c.lease.Receive(now, e)
		}
	default:
		c.Machine.Receive(now, e)
	}
	c.end(now)
}

// Wake wakes both machines.
func (c *Consensus) Wake(now machine.Now) {
	if c.lease != nil {
		c.lease.Wake(now)
	}
	c.Machine.Wake(now)
	c.end(now)
}

// end ends a step: the two machines talk until neither has anything to say.
func (c *Consensus) end(now machine.Now) {
	for c.exchange(now) {
	}
}

// exchange hands what one machine wants to the other, and reports whether there was any.
func (c *Consensus) exchange(now machine.Now) (any bool) {
	rd := c.Machine.Ready()
	c.gather(rd.Sends, rd.Persists)
	for _, out := range rd.Outcomes {
		switch o := out.(type) {
		case fastct.WantLease:
			c.Leases++
			c.lease.Step(now, asynclease.Ask{ID: o.ID, Interval: asynclease.Interval{First: o.First, Last: o.Last}})
			any = true
		case fastct.GiveLease:
			c.lease.Step(now, asynclease.Return{ID: o.ID, From: o.From})
			any = true
		default:
			c.ready.Outcomes = append(c.ready.Outcomes, out)
		}
	}
	if c.lease == nil {
		return any
	}
	lease := c.lease.Ready()
	c.gather(lease.Sends, lease.Persists)
	for _, v := range lease.Outcomes {
		if !v.Granted {
			c.Refused++
		}
		c.Machine.Step(now, fastct.Leased{ID: v.ID, Granted: v.Granted, Until: v.Until})
		any = true
	}
	return any
}

func (c *Consensus) gather(sends []machine.Envelope, persists []machine.Persist) {
	c.ready.Sends = joined(c.ready.Sends, sends)
	c.ready.Persists = joined(c.ready.Persists, persists)
}

// joined is append for a list that nobody else has any more: most often it is the first.
func joined[T any](list, more []T) []T {
	if len(list) == 0 {
		return more
	}
	return append(list, more...)
}

// Ready returns the effects of the steps since the last call. Each step has left nothing
// but alarms with the two machines.
func (c *Consensus) Ready() machine.Ready[fastct.Outcome] {
	rd := c.ready
	c.ready = machine.Ready[fastct.Outcome]{}
	fast := c.Machine.Ready()
	rd.Alarm = fast.Alarm
	if c.lease != nil {
		rd.Alarm = min(rd.Alarm, c.lease.Ready().Alarm)
	}
	return rd
}

var _ machine.Receiver[fastct.Input, fastct.Outcome] = (*Consensus)(nil)
