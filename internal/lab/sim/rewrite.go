package sim

import (
	"math/rand/v2"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Rewrite is a record that stands in place of all before it: a log that was compacted. It
// is durable as a whole or not at all.
type Rewrite struct{ Records []any }

// Rewriting is a machine whose owner compacts its log: at a turn that writes something, if
// When says so, the result of Records takes the place of the log. The records of that turn
// are part of it, as they are when package broadcast rewrites a member's log.
type Rewriting[In, Out any] struct {
	machine.Receiver[In, Out]
	Records func() []any
	When    func() bool
}

// Ready is that of the machine, with the log rewritten if its time has come.
func (r Rewriting[In, Out]) Ready() machine.Ready[Out] {
	rd := r.Receiver.Ready()
	if len(rd.Persists) > 0 && r.When() {
		anew := machine.Persist{Record: Rewrite{r.Records()}}
		for _, p := range rd.Persists {
			anew.Then = append(anew.Then, p.Then...)
		}
		rd.Persists = []machine.Persist{anew}
	}
	return rd
}

// Rewrites says when logs are rewritten in this world: never in half of the worlds, often in
// others. It draws from a source of its own, so that a world's course before the first
// rewriting is the same without it.
func (w *World) Rewrites() func() bool {
	own := rand.New(rand.NewPCG(w.Seed, 0x5e7))
	often := own.Float64() * 0.1
	if own.IntN(2) == 0 {
		often = 0
	}
	return func() bool {
		if own.Float64() >= often {
			return false
		}
		w.Count("rewritten", 1)
		return true
	}
}
