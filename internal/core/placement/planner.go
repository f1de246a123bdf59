package placement

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Limits of what a Planner remembers beside its buckets.
const (
	knownKeys   = 4096
	knownRanges = 512
	knownPairs  = 1024
	// forgotten is how many operations, decayed, are as good as none: one after four
	// half-lives.
	forgotten = 1.0 / 16
)

// Planner chooses at the leader which members hold which keys. It knows what replicas tell with
// Observe and RTT; Plan gives the configuration that follows. It takes 8 bytes a
// bucket and member, and at most a few MiB for single keys. The same calls give the
// same configurations, to the byte, on one kind of machine. It is not for several
// goroutines at once; a Plan of five members takes some 20 ms, so do not make it in a
// goroutine that others wait for.
type Planner struct {
	settings  Settings
	members   []machine.NodeID
	distances *Distances
	present   *Configuration

	buckets []float32 // 2n for each bucket: reads by site, writes by site
	keys    map[string][]float32
	ranges  map[span][]float32
	pairs   map[pair][]float32 // joint writes, in the places of writes
	begun   bool
	began   machine.Mono
	decayed machine.Mono
}

type pair struct{ a, b string }

// NewPlanner begins with the configuration in force, usually that of a former leader,
// or, when that is nil, with everything at the leader alone.
func NewPlanner(s Settings, present *Configuration) (*Planner, error) {
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	p := &Planner{
		settings: s, members: identities(s.Members),
		keys: map[string][]float32{}, ranges: map[span][]float32{}, pairs: map[pair][]float32{},
	}
	n := len(p.members)
	voters := Set(0)
	for _, m := range s.Members {
		if !m.Learner {
			voters |= SetOf(place(p.members, m.ID))
		}
	}
	p.distances = NewDistances(n, voters, place(p.members, s.Leader))
	p.buckets = make([]float32, 2*n*s.Buckets)
	if present == nil {
		p.present, err = leaderOnly(p.members, s.Leader)
	} else {
		p.present, err = present.Rebase(p.members, s.Leader)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSettings, err)
	}
	return p, nil
}

// Present is the configuration that was planned last.
func (p *Planner) Present() *Configuration { return p.present }

// RTT tells the round-trip time between two members, both ways; between a member and
// itself, what a local read takes. A time within a tenth of the one before is not
// news: measurements waver. Members that are not in the group are ignored.
func (p *Planner) RTT(a, b machine.NodeID, rtt time.Duration) {
	i, j := place(p.members, a), place(p.members, b)
	if i < 0 || j < 0 || rtt <= 0 {
		return
	}
	if before := p.distances.rtt[i][j]; math.Abs(milliseconds(rtt)-before) > before/10 {
		p.distances.Set(i, j, rtt)
	}
}

// Down tells that a member is given up, or that it is back. One that is down holds
// nothing from the next Plan on. The leader is never down.
func (p *Planner) Down(id machine.NodeID, down bool) {
	i := place(p.members, id)
	if i < 0 || i == p.distances.leader {
		return
	}
	p.distances.down &^= SetOf(i)
	if down {
		p.distances.down |= SetOf(i)
	}
}

// Observe takes what a member has counted since it told last. It refuses, with
// errCounts, counts of somebody unknown or in another number of buckets. Writes whose
// origin is not in the group are ignored.
func (p *Planner) Observe(from machine.NodeID, c Counts) error {
	site, n := place(p.members, from), len(p.members)
	if site < 0 {
		return fmt.Errorf("%w: they come from %d, which is not among the members %d", errCounts, from, p.members)
	}
	if c.Buckets != p.settings.Buckets || len(c.Writes) != len(c.Origins) {
		return fmt.Errorf("%w: they are in %d buckets with writes of %d origins out of %d, this planner has %d buckets", errCounts, c.Buckets, len(c.Writes), len(c.Origins), p.settings.Buckets)
	}
	origins := make([]int, len(c.Origins))
	for i, id := range c.Origins {
		origins[i] = place(p.members, id)
	}
	for _, r := range c.Reads {
		p.bucket(r.Bucket)[site] += float32(r.N)
	}
	for i, writes := range c.Writes {
		for _, w := range writes {
			if origins[i] >= 0 {
				p.bucket(w.Bucket)[n+origins[i]] += float32(w.N)
			}
		}
	}
	addWrites := func(load []float32, writes []uint64) {
		for i, w := range writes {
			if i < len(origins) && origins[i] >= 0 {
				load[n+origins[i]] += float32(w)
			}
		}
	}
	for _, s := range c.Spans {
		var load []float32
		sp := spanOf(string(s.Key), string(s.End))
		if len(s.Key) == 0 || len(s.Key) > maxKey || len(s.End) > maxKey || sp.empty() {
			continue // no Counter makes one
		}
		if sp.single() {
			load = known(p.keys, sp.lo, n)
		} else {
			load = known(p.ranges, sp, n)
		}
		load[site] += float32(s.Reads)
		addWrites(load, s.Writes)
	}
	for _, pr := range c.Pairs {
		addWrites(known(p.pairs, pair{string(pr.A), string(pr.B)}, n), pr.Writes)
	}
	p.prune(2) // in between; Plan does it strictly
	return nil
}

// bucket is the load of a bucket; a number that is too great is taken modulo.
func (p *Planner) bucket(i int) []float32 {
	w := 2 * len(p.members)
	i &= p.settings.Buckets - 1
	return p.buckets[w*i : w*i+w : w*i+w]
}

// known finds the load of a key, range or pair, or begins it.
func known[K comparable](loads map[K][]float32, k K, n int) []float32 {
	load, ok := loads[k]
	if !ok {
		load = make([]float32, 2*n)
		loads[k] = load
	}
	return load
}

func total(load []float32) (sum float32) {
	for _, x := range load {
		sum += x
	}
	return sum
}

// decay has what was counted count less as time goes by.
func (p *Planner) decay(now machine.Mono) {
	if !p.begun {
		p.begun, p.began, p.decayed = true, now, now
	}
	if now > p.decayed {
		f := float32(math.Exp2(-float64(now.Sub(p.decayed)) / float64(p.settings.HalfLife)))
		fade(p.buckets, f)
		fadeAll(p.keys, f)
		fadeAll(p.ranges, f)
		fadeAll(p.pairs, f)
	}
	p.decayed = max(now, p.decayed)
	p.prune(1)
}

func fade(load []float32, f float32) {
	for i := range load {
		load[i] *= f
	}
}

func fadeAll[K comparable](loads map[K][]float32, f float32) {
	for k, load := range loads {
		if fade(load, f); total(load) < forgotten {
			delete(loads, k)
		}
	}
}

// prune keeps the greatest loads, within so many times the limits.
func (p *Planner) prune(times int) {
	keep(p.keys, times*knownKeys, cmp.Compare)
	keep(p.ranges, times*knownRanges, span.compare)
	keep(p.pairs, times*knownPairs, pair.compare)
}

func (s span) compare(o span) int { return cmp.Or(cmp.Compare(s.lo, o.lo), cmp.Compare(s.hi, o.hi)) }
func (p pair) compare(o pair) int { return cmp.Or(cmp.Compare(p.a, o.a), cmp.Compare(p.b, o.b)) }

func keep[K comparable](loads map[K][]float32, limit int, compare func(a, b K) int) {
	if len(loads) <= limit {
		return
	}
	for _, k := range byLoad(loads, compare)[limit:] {
		delete(loads, k)
	}
}

// byLoad lists the greatest loads first, equal ones in order.
func byLoad[K comparable](loads map[K][]float32, compare func(a, b K) int) []K {
	return slices.SortedFunc(maps.Keys(loads), func(a, b K) int {
		return cmp.Or(cmp.Compare(total(loads[b]), total(loads[a])), compare(a, b))
	})
}
