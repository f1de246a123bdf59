package abcastsim

import (
	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
)

// owner is a member's owner with its disk, crashes included: the state up to a position.
// Others' owners get it from this one.
type owner struct{ has uint64 }

// prompt is a member whose owner gets missing state at once.
type prompt struct {
	*abcast.Machine
	gets func(abcast.Lacks) abcast.Restored
	now  machine.Now
}

func (p *prompt) Step(now machine.Now, input abcast.Input) {
	p.now = now
	p.Machine.Step(now, input)
}

func (p *prompt) Receive(now machine.Now, e machine.Envelope) {
	p.now = now
	p.Machine.Receive(now, e)
}

func (p *prompt) Wake(now machine.Now) {
	p.now = now
	p.Machine.Wake(now)
}

func (p *prompt) Ready() machine.Ready[abcast.Outcome] {
	rd := p.Machine.Ready()
	for _, out := range rd.Outcomes {
		if l, ok := out.(abcast.Lacks); ok {
			p.Machine.Step(p.now, p.gets(l))
			more := p.Machine.Ready()
			rd.Outcomes = append(rd.Outcomes, more.Outcomes...)
			rd.Sends = append(rd.Sends, more.Sends...)
			rd.Persists = append(rd.Persists, more.Persists...)
			rd.Alarm = more.Alarm
		}
	}
	return rd
}
