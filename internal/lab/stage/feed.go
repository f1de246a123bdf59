package stage

import "github.com/tenure-lease/tenure/internal/machine"

// Wake stands for a wake-up in Feed.
type Wake struct{}

// Feed steps a machine with one of a list of mixed events: an input of the machine's own, a
// machine.Envelope, a machine.Accessed or a Wake.
func Feed[In, Out any](m machine.Machine[In, Out], now machine.Now, event any) {
	switch e := event.(type) {
	case Wake:
		m.Wake(now)
	case machine.Envelope:
		m.(machine.Receiver[In, Out]).Receive(now, e)
	case machine.Accessed:
		m.(machine.Storing[In, Out]).Accessed(now, e)
	default:
		m.Step(now, event.(In))
	}
}
