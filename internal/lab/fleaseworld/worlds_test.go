package fleaseworld

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// musts are events that have to happen in many worlds.
var musts = []string{
	"tenures", "losses", "releases", "refused", "observe", "await", "list", "records", "records read", "records forgotten", "two records of a tenure", "clients", "again at once", "judged: lock delays",
	"starts", "starts with a state", "changes of members", "removed", "alarms: jump", "connections reset",
	"half-open connections", "strangers", "fault: kill", "fault: crash", "fault: planned", "fault: freeze", "fault: kill client",
	"fault: cut", "fault: isolate", "fault: reset", "fault: half-open", "fault: clock jump", "fault: delay", "fault: fail",
	"fault: member", "fault: stranger", "ended while they started", "ended while they closed",
}

func TestWorlds(t *testing.T) { world.Batch(t, 8, 150, musts, Play) }

// TestSkew plays peers of which one has a clock that is wrong by more than ε.
func TestSkew(t *testing.T) {
	world.Batch(t, 2, 40, []string{"tenures", "skewed: ahead", "skewed: behind", "alarms: skew", "tenures by a clock that is behind"}, playSkewed)
}

// TestRestarts plays peers that are cut off and killed in turns.
func TestRestarts(t *testing.T) {
	world.Batch(t, 2, 4, []string{"tenures", "fault: isolate", "fault: kill", "records", "records read"}, playRestarts)
}

// TestChanges plays peers whose members change all the time, and whose hosts read the lists at different times.
func TestChanges(t *testing.T) {
	world.Batch(t, 2, 6, []string{"changes of members", "lists read at different times", "removed", "records", "records read", "fault: isolate", "fault: kill"}, playChanges)
}

// TestSetBack plays peers whose clocks are all set back, so that tokens begin anew.
func TestSetBack(t *testing.T) {
	world.Batch(t, 2, 2, []string{"clocks set back", "tenures", "records", "records read"}, playSetBack)
}

// TestBackups plays peers that start with states that are not their last.
func TestBackups(t *testing.T) {
	world.Batch(t, 2, 2, []string{"states put back", "states noticed", "starts with a state", "records", "records read"}, playBackups)
}
