package replicasim

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/pushlease"
)

// script is a directed schedule: a suspicion, played out.
type script struct {
	name     string
	members  int           // that vote; 0: three
	learners int           // after these
	tail     int           // bytes of log in memory; 0: smallTail
	policy   string        // of read leases; "": off
	length   time.Duration // of promises; 0: 200 ms
	idle     time.Duration // after which holders give them back; 0: 10 s
	plan     time.Duration // how often the holders of keys are planned; 0: 5 s
	paper    *pushlease.Ways
	play     func(*stage)
}

var scriptLists = [][]script{
	proposalScripts, leaseScripts, regrantScripts, leaderScripts, readScripts, logScripts,
	promiseScripts, holderScripts, releaseScripts, lapseScripts,
	cellScripts, requestScripts, stallScripts, restartScripts, roundScripts, directScripts, orderScripts, heldScripts, foresightScripts, ownScripts, pastScripts,
	snapshotScripts, pushScripts, membershipScripts, heldUpScripts, sharingScripts, keyLeaseScripts, accountScripts,
}

func TestScripts(t *testing.T) {
	for _, list := range scriptLists {
		for _, sc := range list {
			t.Run(sc.name, func(t *testing.T) {
				if sc.members == 0 {
					sc.members = 3
				}
				if sc.tail == 0 {
					sc.tail = smallTail
				}
				s := newStage(t, sc)
				sc.play(s)
				s.end()
			})
		}
	}
}
