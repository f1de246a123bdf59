package asyncleasesim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/simtest"
)

func TestWorlds(t *testing.T) { simtest.Worlds(t, Protocol(), 60) }

func TestRepeats(t *testing.T) { simtest.Repeats(t, Protocol(), 1, 2, 3, 4) }
