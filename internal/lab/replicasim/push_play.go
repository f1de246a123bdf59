package replicasim

import (
	"errors"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/pushlease"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// PushProtocol is the paper's own protocol, which the product does not use: promises that
// are pushed, with the paper's other ways or without, in worlds
// as hard as those of [ReadLeaseProtocol].
func PushProtocol() sim.Protocol {
	return sim.Protocol{
		Name:  "quorumlease-push",
		About: "the paper's way to make read leases, as a control: guard, promise, grace; configurations that lapse or are abided by, t_wait; nobody reads less than anybody was shown",
		Play:  playPushed,
		Alone: true,
	}
}

// someWays are the paper's ways, each or not. Lengths are such that a stall after a
// death ends within two seconds.
func someWays(w *sim.World) *pushlease.Ways {
	l := pushlease.Lengths{
		Guard: w.Between(quorumlease.MinTTL, 500*time.Millisecond), Lease: w.Between(quorumlease.MinTTL, 600*time.Millisecond),
	}
	l.Renew = w.Between(l.Lease/8, 4*l.Lease/5)
	l.Grace = w.Between(l.Renew, 900*time.Millisecond)
	return &pushlease.Ways{
		Push: l, Lapse: w.Chance(0.5), Abide: w.Chance(0.5), ExcludeSuspect: w.Chance(0.5), WaitToRejoin: w.Chance(0.5),
	}
}

// playPushed has a cluster with holders go through faults, heal, and come to rest. There
// are no gray failures: under them writes may wait for as long as they last.
func playPushed(w *sim.World) error {
	defer keepRandom()()
	size := [...]struct{ voters, learners int }{{3, 0}, {5, 0}, {3, 1}, {3, 2}, {2, 1}, {4, 0}}[w.Seed%6]
	h := harshness{rate: drift, holders: true}
	if w.Chance(0.7) {
		h.rate = 9e-3
	}
	o := Options{
		Voters: size.voters, Learners: size.learners, Tail: smallTail, Paper: someWays(w),
		ReadLease: [...]string{"all", "all", "leader", "all/key", "static/key", "quorum/key", "cost/key"}[w.Rand.IntN(7)],
	}
	o.LeaseLength = o.Paper.Push.Wait() // as long as faults that are aimed at promises take
	o.planning(w.Between, w.Rand.IntN)
	c := start(w, o, h)
	w.Run(3 * time.Second)
	c.Clients(4)
	c.Surveyors(3, 0)
	c.Holders(2)
	c.Watchers(2)
	c.Lockers(2)
	c.janitor()
	switch every := w.Between(200*time.Millisecond, 2*time.Second); {
	case w.Chance(0.5):
	case c.byKey():
		c.gerrymander(every, w.Chance(0.5))
	default:
		c.changePolicies(every)
	}
	var err error
	for range 2 {
		c.spread(14 * time.Second)
		c.chaos(14 * time.Second)
		c.heal()
		err = errors.Join(err, c.recover())
	}
	err = errors.Join(err, c.settle(), c.Check())
	c.count()
	return err
}
