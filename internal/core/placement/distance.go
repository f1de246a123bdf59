package placement

import (
	"math"
	"slices"
	"time"
)

// Distances are the round-trip times among the members of a group. From them follow the
// times of reads and writes under a choice of holders. Members are known by their places in
// the list.
type Distances struct {
	rtt    [][]float64 // milliseconds; 0 between two members is not known
	voters Set
	leader int
	down   Set
}

// NewDistances knows of no distance yet. The voters and the leader are among the
// first n places.
func NewDistances(n int, voters Set, leader int) *Distances {
	d := &Distances{rtt: make([][]float64, n), voters: voters, leader: leader}
	for i := range d.rtt {
		d.rtt[i] = make([]float64, n)
	}
	return d
}

// Set sets the round-trip time between a and b, both ways; between a and itself, what
// a local read takes. One that is not known is taken to be the longest that is.
func (d *Distances) Set(a, b int, rtt time.Duration) {
	d.rtt[a][b] = milliseconds(rtt)
	d.rtt[b][a] = d.rtt[a][b]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// duration is so many milliseconds.
func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// Read returns how long a read takes at a site. It is no longer than a local read if the
// site is a holder. Otherwise it is a round trip to the leader, to learn how far the log
// has to be released.
func (d *Distances) Read(site int, holders Set) time.Duration {
	return duration(d.read(site, holders, d.longest()))
}

// ReadNearest is how long it takes for a client of the site that asks the nearest holder
// itself.
func (d *Distances) ReadNearest(site int, holders Set) time.Duration {
	return duration(d.readNearest(site, holders, d.longest()))
}

// Write is how long a write takes at a site in three one-way delays: from there to
// the leader, to the others, and from each of them straight back (section 4, Castro).
// It ends when the site has heard from a majority of the voters and from all holders.
func (d *Distances) Write(site int, holders Set) time.Duration {
	return duration(d.write(site, holders, d.longest()))
}

// WriteByLeader is how long a write takes in four one-way delays, where the others
// answer the leader and the leader answers the site.
func (d *Distances) WriteByLeader(site int, holders Set) time.Duration {
	return duration(d.writeByLeader(site, holders, d.longest()))
}

// longest is the greatest distance that is known, or 1 ms when none is: with all
// distances alike, only the reads of each member count.
func (d *Distances) longest() (ms float64) {
	for a, row := range d.rtt {
		for b := range a {
			ms = max(ms, row[b])
		}
	}
	if ms == 0 {
		return 1
	}
	return ms
}

func (d *Distances) between(a, b int, unknown float64) float64 {
	switch {
	case a == b:
		return 0
	case d.rtt[a][b] == 0:
		return unknown
	}
	return d.rtt[a][b]
}

func (d *Distances) read(site int, holders Set, unknown float64) float64 {
	if holders.Has(site) {
		return d.rtt[site][site]
	}
	return d.between(site, d.leader, unknown)
}

func (d *Distances) readNearest(site int, holders Set, unknown float64) float64 {
	if holders.Has(site) {
		return d.rtt[site][site]
	}
	nearest := math.Inf(1)
	for h := range d.rtt {
		if holders.Has(h) {
			nearest = min(nearest, d.between(site, h, unknown))
		}
	}
	return nearest
}

func (d *Distances) write(site int, holders Set, unknown float64) float64 {
	return d.heard(holders, func(g int) float64 {
		return (d.between(site, d.leader, unknown) + d.between(d.leader, g, unknown) + d.between(g, site, unknown)) / 2
	})
}

func (d *Distances) writeByLeader(site int, holders Set, unknown float64) float64 {
	return d.between(site, d.leader, unknown) + d.heard(holders, func(g int) float64 {
		return d.between(d.leader, g, unknown)
	})
}

// heard is when a majority of the voters and all holders were heard, when each is
// heard after so long. Members that are down are not waited for.
func (d *Distances) heard(holders Set, after func(member int) float64) (ms float64) {
	var acks []float64
	for g := range d.rtt {
		if d.down.Has(g) {
			continue
		}
		if d.voters.Has(g) {
			acks = append(acks, after(g))
		}
		if holders.Has(g) {
			ms = max(ms, after(g))
		}
	}
	slices.Sort(acks)
	majority := d.voters.Len()/2 + 1
	if n := len(acks); n > 0 { // without a majority nothing is decided, and all choices are alike
		ms = max(ms, acks[min(majority, n)-1])
	}
	return ms
}
