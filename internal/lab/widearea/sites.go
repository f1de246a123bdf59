package widearea

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Sites are the paper's datacenters, in the order of its Table 1.
var Sites = [...]string{"JP", "CA", "OR", "VA", "IRL"}

// Leader is the site of the leader, in California in all of the paper's runs.
const Leader = 1

// holderThatDies is a site whose replica dies, for Figure 7: not the leader's.
const holderThatDies = 3

// RoundTrips is Table 1: approximate round-trip times in milliseconds. Between
// hosts of one site it is Local.
var RoundTrips = [len(Sites)][len(Sites)]float64{
	{0, 120, 120, 180, 270},
	{120, 0, 20, 85, 150},
	{120, 20, 0, 75, 170},
	{180, 85, 75, 0, 92},
	{270, 150, 170, 92, 0},
}

// Local is the round trip between a client and the replica of its site.
const Local = 400 * time.Microsecond

// RoundTrip is the time there and back between the replicas of two sites.
func RoundTrip(a, b int) time.Duration {
	return time.Duration(RoundTrips[a][b] * float64(time.Millisecond))
}

// replicaAt is the ID of a site's replica.
func replicaAt(site int) machine.NodeID { return machine.NodeID(site + 1) }

// oneWay is half of a round trip, for links are taken to be alike both ways.
func oneWay(from, to machine.NodeID) time.Duration { return RoundTrip(int(from)-1, int(to)-1) / 2 }

// Floor is the least time that a write at a site can take in strict order. It goes to the
// leader, from there to the nearest majority and back, and back to the site: four one-way
// delays, by Table 1 alone.
func Floor(site int) time.Duration {
	var acks []time.Duration
	for s := range Sites {
		acks = append(acks, RoundTrip(Leader, s)) // the leader's own takes no time
	}
	slices.Sort(acks)
	return RoundTrip(site, Leader) + acks[len(Sites)/2]
}

// FloorByKey is the same in key order: the write goes to the leader, from there to all, and
// from a majority of them to its site, which is one of them. Three one-way delays.
func FloorByKey(site int) time.Duration {
	var acks []time.Duration
	for s := range Sites {
		acks = append(acks, (RoundTrip(Leader, s)+RoundTrip(s, site))/2)
	}
	slices.Sort(acks)
	return RoundTrip(site, Leader)/2 + acks[len(Sites)/2]
}
