package fleaseworld

import (
	"testing"

	"github.com/tenure-lease/tenure/sim/world"
)

func TestWorlds(t *testing.T) {
	world.Batch(t, 12, []string{"tenures", "losses", "releases", "starts", "clients"}, Play)
}
