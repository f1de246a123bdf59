package diskleasesim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/simtest"
)

func TestWorlds(t *testing.T) { simtest.Worlds(t, Protocol(), 60) }

// TestEnds plays worlds in which claims are told of the ends of others.
func TestEnds(t *testing.T) { simtest.Worlds(t, EndsProtocol(), 60) }

func TestRepeats(t *testing.T) { simtest.Repeats(t, Protocol(), 1, 2, 3, 4) }
