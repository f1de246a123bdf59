package fleasesim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/mutant"
)

// scripts are schedules that random search meets rarely or never: each fails if a
// rule is taken away, see testdata/mutants. Peers 4, 5 and 6 are acceptors, 1 to 3 propose.
var scripts = []struct {
	name string
	play func(*theater)
}{
	{"strict-order", strictOrder},
	{"distinct-acceptors", distinctAcceptors},
	{"promise-kept", promiseKept},
	{"read-refused", readRefused},
	{"looks-promise-nothing", looksPromiseNothing},
	{"tries-disturb-nothing", triesDisturbNothing},
	{"kept-out-by-the-stale", keptOutByTheStale},
	{"skew-refused", skewRefused},
	{"forgetting-is-exact", forgettingExact},
	{"lease-within-its-ballot", leaseWithinBallot},
	{"anchored-expiry", anchoredExpiry},
	{"late-answer", lateAnswer},
	{"recovery-outlasts-leases", recoveryOutlastsLeases},
	{"forgotten-promise", forgottenPromise},
	{"restart-is-silent", restartIsSilent},
	{"planned-restart", plannedRestart},
	{"planned-restart-promises", plannedRestartPromises},
	{"shutdown-in-quarantine", shutdownInQuarantine},
	{"tokens-outlive-jumps", tokensOutliveJumps},
	{"quarantine-by-both-clocks", bothClocks},
	{"former-self", formerSelf},
	{"durable-before-answer", durableBeforeAnswer},
	{"stale-release", staleRelease},
	{"released-wins", releasedWins},
	{"release-behind-reads", releaseBehindReads},
	{"release-during-renewal", releaseDuringRenewal},
	{"release-of-a-minority", releaseOfAMinority},
	{"new-tenure-new-token", newTenureNewToken},
	{"safety-period", safetyPeriod},
	{"monotonic-clock-ends-tenures", monoEndsTenures},
	{"synchronized-clock-ends-tenures", wallEndsTenures},
	{"lock-delay", lockDelay},
	{"holder-outlives-its-peer", holderOutlivesItsPeer},
	{"one-refusal", oneRefusal},
	{"copies-do-no-harm", copiesDoNoHarm},
	{"ballots-of-others", ballotsOfOthers},
	{"silent-proposes-nothing", silentProposesNothing},
	{"decides-what-it-finds", decidesWhatItFinds},
	{"token-stays", tokenStays},
	{"unknown-epoch", unknownEpoch},
	{"clock-jump", clockJump},
	{"others-are-kept", othersAreKept},
	{"own-write-under-way", ownWriteUnderWay},
	{"disjoint-views", disjointViews},
	{"minority-closes", minorityCloses},
	{"view-missed", viewMissed},
	{"views-by-both-clocks", viewsByBothClocks},
	{"closed-means-closed", closedMeansClosed},
	{"closed-for-good", closedForGood},
	{"told-too-soon", toldTooSoon},
	{"unchanged-cells", unchangedCells},
	{"disagreement", disagreement},
	{"other-places", otherPlaces},
}

func TestScripts(t *testing.T) {
	for _, sc := range scripts {
		t.Run(sc.name, func(t *testing.T) {
			th := newTheater(t, 6, 4, 5, 6)
			sc.play(th)
			if th.j.fault != nil {
				t.Error(th.j.fault)
			}
		})
	}
}

func TestMutants(t *testing.T) { mutant.Try(t) }

func TestMutantTable(t *testing.T) {
	var names []string
	for _, sc := range scripts {
		names = append(names, "TestScripts/"+sc.name)
	}
	mutant.Table(t, names...)
}
