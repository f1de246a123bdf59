package quorumlease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Policy says which members hold read leases, and in which order entries are
// released.
type Policy string

// The policies of strict order: a holder holds all keys, and entries are released in
// the order of the log, so that revisions are as etcd has them.
const (
	// Off: no member. Every linearizable read asks the leader.
	Off Policy = "off"
	// Leader: the leader only, as in most systems that use Paxos or Raft.
	Leader Policy = "leader"
	// All: every member that is read from, as in Megastore.
	All Policy = "all"
)

// The policies of key order: an entry waits for the holders of the keys that it touches
// only, and for earlier entries that touch these. A read of one key tells nothing about the
// revisions of other keys (R27).
const (
	LeaderByKey Policy = "leader/key"
	AllByKey    Policy = "all/key"
	// Static: the keys are divided among holders by hand.
	Static Policy = "static/key"
	// Quorum: the holders of a key are the leader and the members that read it most,
	// together a majority (the paper, section 3.4).
	Quorum Policy = "quorum/key"
	// Cost: the holders of a key are those that make its reads and writes cheapest.
	Cost Policy = "cost/key"
)

// ErrPolicy reports that there is no such policy.
var ErrPolicy = errors.New("quorumlease: no such policy of read leases")

// Policies lists all policies.
var Policies = []Policy{Off, Leader, All, LeaderByKey, AllByKey, Static, Quorum, Cost}

// ParsePolicy checks the name of a policy.
func ParsePolicy(s string) (Policy, error) {
	if p := Policy(s); slices.Contains(Policies, p) {
		return p, nil
	}
	names := make([]string, len(Policies))
	for i, p := range Policies {
		names[i] = string(p)
	}
	return "", fmt.Errorf("%w: %q; there are %s", ErrPolicy, s, strings.Join(names, ", "))
}

// ByKey reports whether entries are released in key order.
func (p Policy) ByKey() bool { return strings.HasSuffix(string(p), "/key") }

// Placed reports whether a configuration assigns keys to holders.
func (p Policy) Placed() bool { return p == Static || p == Quorum || p == Cost }

// Planned reports whether the leader computes that configuration from the reads and writes
// it counts.
func (p Policy) Planned() bool { return p == Quorum || p == Cost }

// Asks reports whether a member asks for promises, given whether it leads. Safety does not
// depend on the policy under which a promise was requested: writes wait for every member
// that has promises.
func (p Policy) Asks(leads bool) bool {
	switch p {
	case All, AllByKey, Static, Quorum, Cost:
		return true
	case Leader, LeaderByKey:
		return leads
	}
	return false
}
