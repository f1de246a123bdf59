package load

import (
	"context"
	"slices"
	"strings"
)

// Case is a named measurement.
type Case struct {
	Name string
	Text string // one operation
	Run  func(context.Context, *Load) (Result, error)
}

// Cases are all of them. The order is that in which they are to run: grants come last, because what they
// leave has to be revoked.
var Cases = []Case{
	{"put", "a put of 256 bytes to one of 10,000 keys, at any member", put},
	{"put-1", "the same by one client, at the leader", putAlone},
	{"get-leader", "a linearizable get at the leader", getLeader},
	{"get-follower", "a linearizable get at a member that does not lead", getFollower},
	{"get-1", "a linearizable get by one client, at the leader", getAlone},
	{"get-serializable", "a serializable get, at any member", getSerializable},
	{"keepalive-leader", "a renewal on a stream, at the leader", keepAliveLeader},
	{"keepalive-follower", "a renewal on a stream, at a member that does not lead", keepAliveFollower},
	{"cycle", "a grant, a put with the lease, and its revocation", cycle},
	{"lock", "one concurrency.Mutex, handed on among 16 contenders; latency from Unlock to the next return of Lock", lock},
	{"watch", "an event to each of the clients, at 500 puts a second; latency from the start of the put", watch},
	{"grant", "a grant of a lease, at any member", grant},
}

// Named returns the cases whose names contain one of some words, all without words. It reports false if
// a word is in no name.
func Named(words []string) (list []Case, ok bool) {
	used := map[string]bool{}
	for _, c := range Cases {
		for _, w := range words {
			used[w] = used[w] || strings.Contains(c.Name, w)
		}
		if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return strings.Contains(c.Name, w) }) {
			list = append(list, c)
		}
	}
	for _, w := range words {
		if !used[w] {
			return nil, false
		}
	}
	return list, true
}
