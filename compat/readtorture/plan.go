package readtorture

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
	Hooked    bool   // it has package hook, which clocks, snapshots and the attacks on insides take
	// Life is how long an object is used until another takes its place. A policy that plans
	// by the reads needs some time.
	Life      time.Duration
	Apart     [][]time.Duration // how much longer it takes from one member to another; nil: no longer
	Rates     []int             // by how many millionths members' clocks are fast; nil: drawn for each life
	Processes []processAttack
	Links     []linkAttack
	Insides   []insideAttack
	Changes   []change // of the membership
}

// courses are what policies a run may have.
var courses = [][]string{
	{"all"},
	{"all/key"},
	{"off", "leader", "all"},
	{"all", "all/key", "off", "leader", "leader/key"},
	{"leader"},
	{"off"},
	{"static/key"},
	{"quorum/key"},
	{"cost/key"},
	{"static/key", "cost/key", "all/key", "quorum/key", "leader/key", "all"},
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
	p.Insides = insideAttacks(rand.New(rand.NewPCG(seed, 4)), span)
	p.Changes = changes(rand.New(rand.NewPCG(seed, 5)), span)
	p.Life = time.Second
	if planned := strings.Join(p.Policies, ","); strings.Contains(planned, "quorum") || strings.Contains(planned, "cost") {
		p.Life = 6 * time.Second
		p.Apart = distances(rand.New(rand.NewPCG(seed, 6)), p.Members)
	}
	return p
}

// distances draws how far members are from each other: between a local network and
// somewhat more, that there be something to plan.
func distances(random *rand.Rand, members int) [][]time.Duration {
	apart := make([][]time.Duration, members)
	for i := range apart {
		apart[i] = make([]time.Duration, members)
		for j := range i {
			d := between(random, 0, 6*ms)
			apart[i][j], apart[j][i] = d, d
		}
	}
	return apart
}

// apart is how much longer it takes from one member to another when no attack goes on.
func (p *Plan) apart(from, to int) time.Duration {
	if p.Apart == nil {
		return 0
	}
	return p.Apart[from][to]
}

// divides reports whether keys are divided by hand at some time: again every second then.
func (p *Plan) divides() bool { return slices.Contains(p.Policies, static) }

// static is the policy whose cells are given by hand.
const static = "static/key"

// strict reports whether entries are released in the order of the log all along.
func (p *Plan) strict() bool {
	for _, policy := range p.Policies {
		if strings.HasSuffix(policy, "/key") {
			return false
		}
	}
	return true
}

// leases reports whether somebody has a lease at some time.
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

// rates are what is drawn from: within the one in a hundred that read leases allow for.
var rates = []int{-9000, -9000, -5000, 0, 5000, 9000, 9000}

// tails are how much of the log members keep, and so how soon one that was away is sent
// a snapshot.
var tails = []int{128 << 10, 512 << 10, 0}

// env is that of a member's n-th life. Settings for package hook stay in its file.
func (p *Plan) env(dir string, member, n int) []string {
	const order = "TENURE_READ_LEASE_CHANGES=order" // no flag: older versions have none
	if !p.Hooked {
		return []string{order}
	}
	random := rand.New(rand.NewPCG(p.Seed, uint64(5000+100*n+member)))
	rate := rates[random.IntN(len(rates))]
	if p.Rates != nil {
		rate = p.Rates[member]
	}
	return []string{
		fmt.Sprintf("TORTURE_PPM=%d", rate),
		fmt.Sprintf("TORTURE_TAIL=%d", tails[int(p.Seed)%len(tails)]),
		"TORTURE_FILE=" + insideOf(dir, member),
		order,
	}
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
	for _, a := range p.Insides {
		fmt.Fprintf(&s, "\n  %v", a)
	}
	for _, c := range p.Changes {
		fmt.Fprintf(&s, "\n  %v", c)
	}
	return s.String()
}
