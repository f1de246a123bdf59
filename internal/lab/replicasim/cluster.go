package replicasim

import (
	"errors"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/pushlease"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Cluster is a simulated consistent core: replicas with their appliers, which
// keep a store, and clients that use it.
type Cluster struct {
	Options
	w         *sim.World
	net       *sim.Network
	members   []*Member
	ids       []machine.NodeID
	checks    checks
	clients   []*client
	lockers   []*locker
	surveyors []*surveyor
	watchers  []*watcher
	harsh     harshness
	reshaping reshaping
}

// tick and electionTicks are etcd's defaults.
const (
	tick          = 100 * time.Millisecond
	electionTicks = 10
	smallTail     = 64 << 10 // so that worlds see snapshots
	drift         = 1e-4     // clocks differ in rate by at most this, each way
)

// The answer to a client whose request was given up.
var (
	errAmbiguous = errors.New("given up: it may take effect or not")
	errVoid      = errors.New("given up: it will never take effect")
)

// Options are the parts of a cluster.
type Options struct {
	Voters, Learners int
	Tail             int // bytes of log in memory
	// Measured says that the cluster is there to be measured: the members' own
	// checks are left out, and an entry takes 20 to 100 µs to apply.
	Measured bool
	// Costs, if set, are what members' processors take time for: each has one.
	Costs *Costs
	// OneWay, if set, is how far it is from one member to another, beside the
	// network's own delay; links then keep their order.
	OneWay func(from, to machine.NodeID) time.Duration
	// ReadLease is the policy of read leases, one of [Policies]; "" is "off".
	ReadLease string
	// LeaseLength is how long a promise to a reader lasts; 0: as package replica has it.
	LeaseLength time.Duration
	// LeaseIdle is how long after a read a member renews its lease; 0: as package
	// replica has it.
	LeaseIdle time.Duration
	// PlanEvery and Planner are as package replica has them.
	PlanEvery time.Duration
	Planner   placement.Settings
	// Paper, if set, are the paper's own ways, in place of the product's.
	Paper *pushlease.Ways
}

// Start starts a cluster.
func Start(w *sim.World, o Options) *Cluster { return start(w, o, harshness{rate: drift}) }

func start(w *sim.World, o Options, harsh harshness) *Cluster {
	if o.Paper != nil {
		if err := o.Paper.Push.Check(); err != nil {
			panic(err)
		}
	}
	seedRaft(w.Seed)
	c := &Cluster{Options: o, w: w, checks: newChecks(), harsh: harsh}
	c.net = sim.NewNetwork(w, overTheWire)
	c.net.OneWay = o.OneWay
	for i := range o.Voters + o.Learners {
		c.ids = append(c.ids, machine.NodeID(i+1))
	}
	for _, id := range c.ids {
		c.enlist(id).startUp()
	}
	return c
}

// genesis is the log that all members start from.
func (c *Cluster) genesis() replica.Log {
	log := replica.Genesis(c.ids[:c.Voters])
	for _, id := range c.ids[c.Voters:] {
		conf := log.Snapshot.GetConfState()
		conf.Learners = append(conf.Learners, uint64(id))
	}
	return log
}

// overTheWire encodes and decodes, so that no member can see another's memory.
func overTheWire(body any) any {
	switch body.(type) {
	case pushlease.Guard, pushlease.GuardAck, pushlease.Pushed, pushlease.PromiseReply, pushlease.Suspicion:
		return body // which the product has no code for
	}
	p, err := replica.EncodeBody(body)
	if err != nil {
		panic(err)
	}
	out, err := replica.DecodeBody(p)
	if err != nil {
		panic(err)
	}
	return out
}

func (c *Cluster) applyDelay() time.Duration {
	if c.Measured {
		return c.w.Between(20*time.Microsecond, 100*time.Microsecond)
	}
	return c.w.Between(0, 3*time.Millisecond)
}
