package broadcast

import (
	"log/slog"
	"regexp"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A member that lacks messages asks another member at each try: one of them may have stopped, or
// may have less. The member that has given some is asked first.
func TestAsksOneAfterTheOther(t *testing.T) {
	var log written
	n := minorityOf(t, map[machine.NodeID]string{2: "127.0.0.1:1", 3: "127.0.0.1:1", 4: "127.0.0.1:1"}, slog.New(slog.NewTextHandler(&log, nil)))
	asked := func() (members []string) {
		for _, line := range regexp.MustCompile(`asks for the messages that it lacks" member=(\d+)`).FindAllStringSubmatch(log.String(), -1) {
			members = append(members, line[1])
		}
		return members
	}
	lacks := abcast.Lacks{From: 3, Position: 9}
	for range 4 {
		n.askForMissing(lacks, 1)
	}
	n.mu.Lock()
	n.source, n.tries = 4, 0
	n.mu.Unlock()
	for range 3 {
		n.askForMissing(lacks, 5)
	}
	n.mu.Lock()
	n.source, n.tries = 3, 0
	n.mu.Unlock()
	for range 3 {
		n.askForMissing(lacks, 7)
	}
	if got, want := asked(), []string{"3", "2", "4", "3", "4", "3", "2", "3", "2", "4"}; !slices.Equal(got, want) {
		t.Errorf("member 3 said what is lacked, and later 4, and then 3 itself, gave some of it: asked are %v, want %v", got, want)
	}
}

// A member that catches up to one position does not forget a later position that it has heard
// of meanwhile.
func TestRestoredAndBehindAgain(t *testing.T) {
	n := minority(t)
	later := abcast.Lacks{From: 2, Position: 20}
	n.mu.Lock()
	n.lacks = later
	n.mu.Unlock()
	n.reportRestored(abcast.Lacks{From: 2, Position: 10}, 10)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lacks != later {
		t.Errorf("a member that lacks what led to 20 and has got what led to 10 lacks %+v", n.lacks)
	}
}
