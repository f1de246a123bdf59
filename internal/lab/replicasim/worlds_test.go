package replicasim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/simtest"
)

func TestWorlds(t *testing.T) { simtest.Worlds(t, Protocol(), 5) }

// Worlds that are hard for read leases.
func TestReadLeaseWorlds(t *testing.T) { simtest.Worlds(t, ReadLeaseProtocol(), 4) }

// Worlds that are hard for key order.
func TestKeyOrderWorlds(t *testing.T) { simtest.Worlds(t, KeyOrderProtocol(), 6) }

func TestRepeats(t *testing.T)          { simtest.Repeats(t, Protocol(), 1, 2) }
func TestReadLeaseRepeats(t *testing.T) { simtest.Repeats(t, ReadLeaseProtocol(), 1) }
func TestKeyOrderRepeats(t *testing.T)  { simtest.Repeats(t, KeyOrderProtocol(), 1) }
