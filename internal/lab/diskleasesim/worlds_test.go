package diskleasesim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/lab/simtest"
)

func TestWorlds(t *testing.T) { simtest.Worlds(t, Protocol(), 60) }

// TestEnds plays worlds in which claims are told of the ends of others.
func TestEnds(t *testing.T) { simtest.Worlds(t, EndsProtocol(), 60) }

// TestOwnEntries shows that claims of these worlds do not wait for what they wrote in time.
func TestOwnEntries(t *testing.T) {
	r, err := sim.Run(t.Context(), sim.Options{Protocol: Protocol(), First: 1, Worlds: 8, Failures: 1})
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Counters["written over an own entry"]; n == 0 {
		t.Errorf("no claim of %d worlds has written over an entry of its own", r.Worlds)
	}
}

func TestRepeats(t *testing.T) { simtest.Repeats(t, Protocol(), 1, 2, 3, 4) }
