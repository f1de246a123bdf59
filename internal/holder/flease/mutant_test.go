package flease_test

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/mutant"
)

func TestMutants(t *testing.T) { mutant.Try(t) }

func TestMutantTable(t *testing.T) {
	mutant.Table(t, "TestPeerCloses/closed", "TestPeerCloses/killed", "TestClientsLockDelay/killed", "TestClientsLockDelay/stopped",
		"TestUnreadableState/remove", "TestUnreadableState/syncdir", "TestSilence/none", "TestSilence/damaged",
		"TestSilence/of_another_t_max", "TestWhatIsNotSavedIsTold/too_busy", "TestDisagreement/t_max", "TestDisagreement/epsilon", "TestDisagreement/cluster",
		"TestBlankBesideAnotherList/older", "TestBlankBesideAnotherList/newer", "TestTwoBegin/cut_off", "TestTwoBegin/cut_off_from_one")
}
