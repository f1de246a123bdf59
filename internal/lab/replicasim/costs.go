package replicasim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Costs are the times of a member's processor. All else takes none.
type Costs struct {
	Request time.Duration // a client's request: to take it and to answer it
	Entry   time.Duration // a write in the log, at each member: to append and to apply it
	// Frame is the messages between two members that go together, at each of the two.
	Frame time.Duration
}

// Handle has the member take a client's request and call f with it. The time of its answer is
// taken at once.
func (m *Member) Handle(f func()) {
	m.Serve(func() (time.Duration, func()) { return m.c.Costs.Request, f })
}

// turn is the cost of a turn: of its messages, and of its output.
func (c *Costs) turn(received []machine.Envelope, rd machine.Ready[replica.Outcome]) time.Duration {
	var with []machine.NodeID
	frames := 0
	frame := func(id machine.NodeID) {
		if !slices.Contains(with, id) {
			with = append(with, id)
			frames++
		}
	}
	for _, env := range received {
		frame(env.From)
	}
	with = nil
	for _, env := range rd.Sends {
		frame(env.To)
	}
	for _, p := range rd.Persists {
		for _, env := range p.Then {
			if env.To != env.From {
				frame(env.To)
			}
		}
	}
	return time.Duration(frames) * c.Frame
}

// entries is what so many writes take.
func (c *Costs) entries(n int64) time.Duration {
	if c == nil {
		return 0
	}
	return time.Duration(n) * c.Entry
}
