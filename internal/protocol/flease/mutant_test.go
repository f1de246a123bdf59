package flease

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/mutant"
)

func TestMutants(t *testing.T) { mutant.Try(t) }

func TestMutantTable(t *testing.T) {
	mutant.Table(t, "TestExplore/two-ballots", "TestExplore/two-ballots-third-crashes", "TestExplore/lease-outlasts-a-crash",
		"TestTriesAndLooksEnd/others-have-left", "TestTriesAndLooksEnd/view-changes", "TestTriesAndLooksEnd/clock-faults",
		"TestAnswersToWhatIsOver/its-time", "TestAnswersToWhatIsOver/its-lease")
}
