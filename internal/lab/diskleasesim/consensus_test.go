package diskleasesim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/simtest"
)

func TestConsensusWorlds(t *testing.T) { simtest.Worlds(t, ConsensusProtocol(), 80) }

func TestConsensusRepeats(t *testing.T) { simtest.Repeats(t, ConsensusProtocol(), 1, 2, 3, 4) }
