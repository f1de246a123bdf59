package replicasim

import (
	"errors"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// Protocol is package replica in worlds of its own. They are played one at a time:
// raft's random numbers come from a source that is the process's.
func Protocol() sim.Protocol {
	return sim.Protocol{
		Name:  "replica",
		About: "the lease server: one to five members and learners; reads, writes, leases, a lock; linearizability, exactly-once, expiry in time",
		Play:  play,
		Alone: true,
	}
}

// play has a cluster go through faults, heal, and come to rest.
func play(w *sim.World) error {
	defer keepRandom()()
	size := [...]struct{ voters, learners int }{{1, 0}, {3, 0}, {5, 0}, {3, 1}, {2, 0}, {4, 0}}[w.Seed%6]
	o := Options{
		Voters: size.voters, Learners: size.learners, Tail: smallTail,
		ReadLease: Policies[w.Seed/6%uint64(len(Policies))], LeaseLength: w.Between(60*time.Millisecond, 600*time.Millisecond),
		LeaseIdle: w.Between(100*time.Millisecond, 5*time.Second),
	}
	o.planning(w.Between, w.Rand.IntN)
	c := start(w, o, harshness{rate: drift, reshape: w.Seed/6%5 == 4})
	w.Run(3 * time.Second)
	if c.byKey() {
		c.Surveyors(2, 2)
		if static := c.ReadLease == string(quorumlease.Static); static || w.Chance(0.3) {
			c.gerrymander(w.Between(200*time.Millisecond, 4*time.Second), !static || w.Chance(0.3))
		}
	}
	c.Clients(4)
	c.Holders(4)
	c.Watchers(3)
	c.Lockers(3)
	c.janitor()
	var err error
	for range 2 { // faults of other kinds, and two times in which there are none
		c.reshape(14 * time.Second)
		c.chaos(14 * time.Second)
		c.heal()
		err = errors.Join(err, c.recover())
	}
	err = errors.Join(err, c.settle(), c.Check())
	c.count()
	return err
}
