package fleasesim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/simtest"
)

func TestWorlds(t *testing.T) { simtest.Worlds(t, Protocol(), 8) }

func TestRepeats(t *testing.T) { simtest.Repeats(t, Protocol(), 1) }

func TestPaperWorlds(t *testing.T) { simtest.Worlds(t, PaperProtocol(), 300) }
