package memberworld

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/sim/world"
)

func TestPeace(t *testing.T) {
	world.Batch(t, 1, nil, func(t *testing.T, seed uint64) world.Result {
		return Play(t, seed, Spec{Members: 3, Policy: "leader", Storm: 10 * time.Second, Clients: 3})
	})
}

func TestWorlds(t *testing.T) {
	world.Batch(t, 8, nil, func(t *testing.T, seed uint64) world.Result { return Play(t, seed, Draw(seed)) })
}
