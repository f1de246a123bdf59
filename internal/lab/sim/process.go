package sim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Process is a host and the machine that it runs.
type Process[In, Out any] struct {
	*Host
	// Outcome takes what the machine reports.
	Outcome func(Out)
	// Takes, if set, is how long the Processor works for a turn.
	Takes func(received []machine.Envelope, rd machine.Ready[Out]) time.Duration
}

// NewProcess adds a host to a network, see newHost.
func NewProcess[In, Out any](w *World, net *Network, id machine.NodeID, maxRate float64) *Process[In, Out] {
	return &Process[In, Out]{Host: newHost(w, net, id, maxRate)}
}

// Start gives the host a machine to run.
func (p *Process[In, Out]) Start(m machine.Machine[In, Out]) { p.start(running[In, Out]{p, m}) }

// Step queues an input, to be stepped with whatever else is there by then.
func (p *Process[In, Out]) Step(in In) {
	p.add(input{step: func(now machine.Now) { p.m.(running[In, Out]).m.Step(now, in) }})
}

// Wake queues a turn without an input, as the alarm does.
func (p *Process[In, Out]) Wake() {
	p.add(input{step: func(now machine.Now) { p.m.wake(now) }})
}

// runs is a machine of whatever inputs and outcomes.
type runs interface {
	receive(machine.Now, machine.Envelope)
	accessed(machine.Now, machine.Accessed)
	wake(machine.Now)
	// ready returns the effects of a turn, and how long it takes.
	ready(received []machine.Envelope) (effects, time.Duration)
}

// effects is a Ready whose outcomes report themselves.
type effects = machine.Ready[func()]

type running[In, Out any] struct {
	p *Process[In, Out]
	m machine.Machine[In, Out]
}

func (r running[In, Out]) receive(now machine.Now, e machine.Envelope) {
	r.m.(machine.Receiver[In, Out]).Receive(now, e)
}

func (r running[In, Out]) accessed(now machine.Now, a machine.Accessed) {
	r.m.(machine.Storing[In, Out]).Accessed(now, a)
}

func (r running[In, Out]) wake(now machine.Now) { r.m.Wake(now) }

func (r running[In, Out]) ready(received []machine.Envelope) (e effects, takes time.Duration) {
	rd := r.m.Ready()
	if r.p.Takes != nil {
		takes = r.p.Takes(received, rd)
	}
	e = effects{Sends: rd.Sends, Persists: rd.Persists, Accesses: rd.Accesses, Alarm: rd.Alarm}
	for _, out := range rd.Outcomes {
		e.Outcomes = append(e.Outcomes, func() { r.p.Outcome(out) })
	}
	return e, takes
}
