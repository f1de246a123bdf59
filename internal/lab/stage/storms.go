package stage

import (
	"flag"
	"math/rand/v2"
	"testing"
)

// Storms is how many courses of weather a test plays: a seed is one of them.
type Storms struct{ number, one *uint64 }

// NewStorms registers the flags -storms, n if it is not given, and -storm, which replays
// one. A test package makes it a variable, once.
func NewStorms(n uint64) Storms {
	return Storms{
		number: flag.Uint64("storms", n, "number of storms"),
		one:    flag.Uint64("storm", 0, "replay this one storm"),
	}
}

// Play plays storms, each with a source of random numbers of its own, until one fails, and
// tells which.
func (s Storms) Play(t *testing.T, weather func(t *testing.T, r *rand.Rand)) {
	first, last := uint64(1), *s.number
	if *s.one != 0 {
		first, last = *s.one, *s.one
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		s.play(t, seed, weather)
	}
}

func (s Storms) play(t *testing.T, seed uint64, weather func(t *testing.T, r *rand.Rand)) {
	defer func() { // behind t.Fatal, too
		if t.Failed() {
			t.Logf("storm %d", seed)
		}
	}()
	weather(t, rand.New(rand.NewPCG(seed, 6)))
}
