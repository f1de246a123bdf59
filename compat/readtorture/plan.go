package readtorture

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Plan is everything about a run that follows from its seed.
type Plan struct {
	Seed     uint64
	Members  int
	Policies []string // the first, and those that take turns if there are more
	Time     time.Duration
	// Heartbeat of the cluster; an election timeout is ten of them.
	Heartbeat time.Duration
	Binary    string // of the members, if it is another than Tenure as it is here
	Processes []processAttack
	Links     []linkAttack
}

// courses are what policies a run may have.
var courses = [][]string{
	{"all"},
	{"all/key"},
	{"off", "leader", "all"},
	{"all", "all/key", "off", "leader", "leader/key"},
	{"leader"},
	{"off"},
}

// NewPlan makes the plan of a seed. Policies other than those that the seed draws may
// be given, separated by commas; so may the number of members.
func NewPlan(seed uint64, policies string, members int, span time.Duration) Plan {
	random := rand.New(rand.NewPCG(seed, 0))
	p := Plan{
		Seed: seed, Time: span, Members: 3 + 2*int(seed%2), Policies: courses[int(seed/2)%len(courses)],
		Heartbeat: time.Duration(20+random.IntN(5)*20) * time.Millisecond,
	}
	if policies != "" {
		p.Policies = strings.Split(policies, ",")
	}
	if members > 0 {
		p.Members = members
	}
	p.Processes = processAttacks(rand.New(rand.NewPCG(seed, 1)), span)
	p.Links = linkAttacks(rand.New(rand.NewPCG(seed, 2)), span)
	return p
}

// strict tells whether entries are released in the order of the log all along.
func (p *Plan) strict() bool {
	for _, policy := range p.Policies {
		if strings.HasSuffix(policy, "/key") {
			return false
		}
	}
	return true
}

// leases tells whether somebody has a lease at some time.
func (p *Plan) leases() bool { return len(p.Policies) > 1 || p.Policies[0] != "off" }

// ttls are those that lives of members have.
var ttls = []time.Duration{
	20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	200 * time.Millisecond, 400 * time.Millisecond, time.Second,
}

// ttl is that of a member's n-th life.
func (p *Plan) ttl(member, n int) time.Duration {
	return ttls[rand.New(rand.NewPCG(p.Seed, uint64(1000+100*n+member))).IntN(len(ttls))]
}

// args are those of a member's n-th life.
func (p *Plan) args(member, n int) []string {
	ms := p.Heartbeat.Milliseconds()
	return []string{
		"--read-lease=" + p.Policies[0], fmt.Sprintf("--read-lease-ttl=%v", p.ttl(member, n)),
		fmt.Sprintf("--heartbeat-interval=%d", ms), fmt.Sprintf("--election-timeout=%d", 10*ms),
	}
}

func (p Plan) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "seed %d: %d members, policies %v, %v, heartbeats every %v, TTLs of the first lives", p.Seed, p.Members, p.Policies, p.Time, p.Heartbeat)
	for i := range p.Members {
		fmt.Fprintf(&s, " %v", p.ttl(i, 0))
	}
	for _, a := range p.Processes {
		fmt.Fprintf(&s, "\n  %v", a)
	}
	for _, a := range p.Links {
		fmt.Fprintf(&s, "\n  %v", a)
	}
	return s.String()
}
