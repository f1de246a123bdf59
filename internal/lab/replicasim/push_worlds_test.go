package replicasim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/simtest"
)

// Worlds under the paper's own protocol.
func TestPushWorlds(t *testing.T) { simtest.Worlds(t, PushProtocol(), 1) }

func TestPushRepeats(t *testing.T) { simtest.Repeats(t, PushProtocol(), 4) } // a short world
