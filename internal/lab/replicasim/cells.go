package replicasim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// makePlan makes a plan as a goroutine of its own does: later.
func (m *Member) makePlan(plan *replica.Plan) {
	late := m.c.w.Between(20*time.Millisecond, 50*time.Millisecond)
	if !m.c.Measured {
		late = m.c.w.Between(0, 200*time.Millisecond)
	}
	m.After(late, func() {
		m.WhenRunning(func() {
			if !m.c.Measured {
				m.c.w.Count("plans", 1)
			}
			m.Step(plan.Make())
		})
	})
}

// Divide divides the keys among holders, as text says in the language of
// [placement.Parse], where members are called by their numbers, and reports whether that
// is in force soon. The present leader holds all keys besides.
func (c *Cluster) Divide(text string) bool {
	lead := c.leader()
	if lead == nil {
		return false
	}
	conf, err := placement.Parse(text, c.names())
	if err != nil {
		panic(err) // the caller's text
	}
	if conf, err = conf.Rebase(c.ids, lead.ID); err != nil {
		panic(err)
	}
	done := false
	lead.setCells(conf, func() { done = true })
	return c.w.Until(10*time.Second, func() bool { return done })
}

// names are the members' numbers.
func (c *Cluster) names() []placement.Member {
	var list []placement.Member
	for _, id := range c.ids {
		list = append(list, placement.Member{ID: id, Name: fmt.Sprint(id)})
	}
	return list
}

// setCells proposes the holders of keys. Done is called at most once.
func (m *Member) setCells(conf *placement.Configuration, done func()) {
	m.propose(wrapperspb.Bytes(conf.Encode()), func(r replica.Result, err error) {
		if err == nil && r.Err == nil {
			done()
		}
	})
}

// planning makes plans often, by short-lived counts, so that they change all the time.
func (o *Options) planning(between func(lo, hi time.Duration) time.Duration, pick func(int) int) {
	o.PlanEvery = between(50*time.Millisecond, 2*time.Second)
	o.Planner = placement.Settings{
		Buckets: 1 << pick(6), Cells: 1 + pick(8), HalfLife: between(100*time.Millisecond, 10*time.Second),
		Price: time.Microsecond, Doubt: 1e-3, Prior: 0.1,
	}
}

// someHolders is a set of members, most often not all of them.
func (c *Cluster) someHolders() placement.Set {
	all := placement.Set(1)<<len(c.ids) - 1
	if s := placement.Set(c.w.Rand.Uint64()) & all; s != 0 {
		return s
	}
	return all
}

// someCells divides the keys that clients use at random.
func (c *Cluster) someCells() *placement.Configuration {
	cells := []placement.Cell{}
	for _, s := range [...]struct{ key, end string }{{"k0", ""}, {"k1", "k3"}, {"leas", "leat"}, {"m0", "m2"}, {"m2", ""}, {"m4", ""}} {
		if c.w.Chance(0.4) {
			cells = append(cells, placement.Cell{Key: []byte(s.key), End: []byte(s.end), Holders: c.someHolders()})
		}
	}
	var buckets []placement.Set
	if c.w.Chance(0.5) {
		for range 1 << c.w.Rand.IntN(4) {
			bucket := placement.Set(0)
			if c.w.Chance(0.7) {
				bucket = c.someHolders()
			}
			buckets = append(buckets, bucket)
		}
	}
	conf, err := placement.New(c.ids, c.someHolders(), cells, buckets)
	if err != nil {
		panic(err)
	}
	return conf
}

// gerrymander divides the keys anew now and then, and with policies also changes the rule by
// which that is done.
func (c *Cluster) gerrymander(every time.Duration, policies bool) {
	c.w.After(c.w.Between(every/2, 3*every/2), func() {
		if c.harsh.stop {
			return
		}
		rounds := 1
		if c.w.Chance(0.2) {
			rounds = 3 // one after the other, before any of them is committed
		}
		for range rounds {
			m := c.anyMember()
			if m == nil {
				break
			}
			if policies && c.w.Chance(0.5) {
				policy := [...]quorumlease.Policy{
					quorumlease.Static, quorumlease.Quorum, quorumlease.Cost, quorumlease.AllByKey, quorumlease.LeaderByKey,
				}[c.w.Rand.IntN(5)]
				m.propose(wrapperspb.String(string(policy)), func(replica.Result, error) {})
				continue
			}
			m.setCells(c.someCells(), func() {})
		}
		c.gerrymander(every, policies)
	})
}

// Cells are the holders of keys, as far as this member knows; nil: a member with promises holds
// all.
func (m *Member) Cells() *placement.Configuration { return m.replica.Status().ReadLeases.Cells }
