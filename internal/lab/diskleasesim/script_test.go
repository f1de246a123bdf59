package diskleasesim

import "testing"

// scripts are schedules that random search meets rarely or never: each fails if a
// rule is taken away, see testdata/mutants.
var scripts = []struct {
	name string
	play func(*theater)
}{
	{"both-see-it-free", bothSeeItFree},
	{"stuck-write-claims-nothing", stuckWrite},
	{"deadline-counts-from-the-write", lateReadBack},
	{"late-renewal-is-a-loss", lateRenewal},
	{"overwritten-renewal-is-a-loss", overwrittenRenewal},
	{"delay-of-the-record", delayOfTheRecord},
	{"delay-is-raised-by-a-write", raisedDelay},
	{"late-release-frees-nothing-newer", lateRelease},
	{"unconfirmed-stamp-is-not-released", unconfirmedRelease},
	{"release-frees-the-stamp-that-was-held", releasedStamp},
	{"reader-may-hide-a-writer", hiddenWriter},
	{"join-counts-if-it-is-listed", listedJoin},
	{"renewed-entry-is-alive", renewedEntry},
	{"beating-entry-is-alive", beatingEntry},
	{"own-stale-entry-is-waited-out", ownStaleEntry},
	{"late-entry-may-hide-a-holder", lateEntry},
	{"own-entry-in-time-is-no-obstacle", entryInTime},
	{"entry-in-time-that-is-read-too-late", entryReadLate},
	{"entry-in-time-is-released", releasedEntryInTime},
	{"entry-settles-before-it-is-released", settledRelease},
	{"late-entry-after-one-in-time", lateAfterInTime},
	{"entry-of-another-with-that-stamp", stampOfAnother},
	{"damaged-record-is-not-free", damagedRecord},
	{"drift", driftingClocks},
	{"lock-delay", lockDelay},
	{"two-looks-far-apart", twoLooks},
	{"writer-before-later-readers", writerFirst},
	{"dead-waiter-is-passed", deadWaiter},
	{"dead-waiters-that-come-and-go", flickeringWaiters},
	{"older-beat-is-no-sign-of-life", olderBeat},
	{"release-after-a-blind-renewal", releaseAfterBlindRenewal},
	{"release-during-a-renewal", releaseDuringRenewal},
	{"release-during-a-stuck-renewal", releaseDuringStuckRenewal},
	{"deadline-by-the-least-delay", leastDelay},
	{"raised-delay-is-not-forgotten", raisedNotForgotten},
	{"no-write-that-cannot-count", futileWrite},
	{"slow-looks-raise-the-delay", slowLooks},
	{"refused-at-a-full-record", fullRecord},
	{"left-after-a-refusal", leftAfterRefusal},
	{"repeated-renewal", repeatedRenewal},
	{"slow-observer", slowObserver},
	{"token-of-a-renewal", keptToken},
	{"release-is-repeated", failedRelease},
	{"left-after-a-loss", leftAfterLoss},
	{"released-member-of-anothers-record", releasedMember},
	{"end-of-a-holder", endOfAHolder},
	{"unconfirmed-stamp-does-not-end", unconfirmedEnd},
	{"end-during-a-renewal", endDuringARenewal},
}

func TestScripts(t *testing.T) {
	for _, sc := range scripts {
		t.Run(sc.name, func(t *testing.T) {
			th := newTheater(t)
			sc.play(th)
			if th.j.fault != nil {
				t.Error(th.j.fault)
			}
		})
	}
}

// wait is how long an entry under the header's δ must not have changed to be dead.
const wait = term + 6*delta
