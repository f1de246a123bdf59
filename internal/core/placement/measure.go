package placement

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// chooseFrom bounds the members among whom all sets are tried: beyond it, the leader
// and those others that read most.
const chooseFrom = 8

// row is what an operation costs under one set of holders, in milliseconds: n for a
// read by site, then n for a write.
type row []float64

// measure knows what each choice of holders costs.
type measure struct {
	policy     Policy
	byLeader   bool
	nearest    bool
	distances  *Distances
	unknown    float64 // the length of distances that are not known
	forgone    float64 // what the Quorum policy says of a read that is not local
	leaderOnly Set
	candidates []Set // fewer holders first
	costs      []row // of candidates
	rows       map[Set]row
	prior      []float64 // reads by site, then writes, of a cell of which nothing is known
	price      float64
	doubt      float64
	mature     bool    // what was not seen by now is seldom
	reads      float64 // all there are by others than the leader, and all writes
	writes     float64
	turns      []Set // the Quorum policy's holders of cells that nobody was seen to use
}

// newMeasure prepares to choose among members that are not down. Traffic is that of all
// keys, by site, reads and then writes.
func newMeasure(s Settings, d *Distances, traffic []float64) *measure {
	m := &measure{
		policy: s.Policy, byLeader: s.ByLeader, nearest: s.Nearest, distances: d, unknown: d.longest(), leaderOnly: SetOf(d.leader),
		rows: map[Set]row{}, prior: make([]float64, len(traffic)), price: milliseconds(s.Price), doubt: s.Doubt,
	}
	n := len(d.rtt)
	for i := range n {
		if i != d.leader {
			m.reads += traffic[i]
		}
		m.writes += traffic[n+i]
	}
	var others []int
	for i := range n {
		m.forgone += d.between(i, d.leader, m.unknown) / float64(n)
		if i != d.leader && !d.down.Has(i) {
			others = append(others, i)
		}
	}
	slices.SortStableFunc(others, func(a, b int) int { return cmp.Compare(traffic[b], traffic[a]) })
	others = others[:min(len(others), chooseFrom-1)]
	want := min(n/2, len(others))
	for pick := range uint(1) << len(others) {
		if s.Policy == Quorum && bits.OnesCount(pick) != want {
			continue
		}
		set := m.leaderOnly
		for i, member := range others {
			if pick>>i&1 == 1 {
				set |= SetOf(member)
			}
		}
		m.candidates = append(m.candidates, set)
	}
	slices.SortFunc(m.candidates, func(a, b Set) int {
		return cmp.Or(cmp.Compare(a.Len(), b.Len()), cmp.Compare(a, b))
	})
	for _, set := range m.candidates {
		m.costs = append(m.costs, m.row(set))
	}
	if s.Policy == Quorum {
		m.takeTurns(others)
	}
	return m
}

// takeTurns has each of the others in turn hold the keys that no member was seen to use,
// together with the members that then hold writes up least.
func (m *measure) takeTurns(others []int) {
	n := len(m.prior) / 2
	slices.Sort(others)
	for _, member := range others {
		first := make([]float32, 2*n)
		for site := range n {
			first[n+site] = 1
		}
		first[member] = 1
		m.turns = append(m.turns, m.best(first))
	}
}

// cold returns the holders of a bucket that nobody but the leader was seen to read. The paper's
// quorums are of one size, so that there are free places, and the first reader elsewhere
// is as likely one as another: the Quorum policy has all take turns. But where writes
// come and no reads, nobody reads.
func (m *measure) cold(bucket, buckets int, load []float32, fallback Set) Set {
	if len(m.turns) == 0 || m.reads == 0 {
		return fallback
	}
	if writes := float64(total(load[len(load)/2:])); writes > 0 && writes*m.writes >= m.reads/2 {
		return m.leaderOnly
	}
	return m.turns[bucket*len(m.turns)/buckets]
}

// row is computed once for each set.
func (m *measure) row(set Set) row {
	if r, ok := m.rows[set]; ok {
		return r
	}
	n := len(m.distances.rtt)
	r := make(row, 2*n)
	for site := range n {
		write := m.distances.write
		if m.byLeader {
			write = m.distances.writeByLeader
		}
		read := m.distances.read
		if m.nearest {
			read = m.distances.readNearest
		}
		r[site], r[n+site] = read(site, set, m.unknown), write(site, set, m.unknown)
		if m.policy == Quorum { // reads decide; among equals, the member that holds writes up least
			r[site], r[n+site] = m.forgone, 1e-6*r[n+site]
			if set.Has(site) {
				r[site] = 0
			}
		}
	}
	m.rows[set] = r
	return r
}

// cost is the waiting in all operations of a load, and of the prior.
func (m *measure) cost(load []float32, r row) (ms float64) {
	for i, c := range r {
		ms += (float64(load[i]) + m.prior[i]) * c
	}
	return ms
}

// expect sets the prior: so many operations of the usual mix. For the Quorum policy it
// is a write at each site, which among equals favours the member that holds writes up least.
func (m *measure) expect(mix []float32, operations float64) {
	n, sum := len(mix)/2, float64(total(mix))
	for i, x := range mix {
		switch {
		case m.policy == Quorum && i >= n:
			m.prior[i] = 1
		case sum > 0:
			m.prior[i] = operations * float64(x) / sum
		}
	}
}

// evidence returns how many operations tell which members should hold what: for the Quorum policy,
// reads by others than the leader.
func (m *measure) evidence(load []float32) (sum float32) {
	if m.policy != Quorum {
		return total(load)
	}
	for site, reads := range load[:len(load)/2] {
		if !m.leaderOnly.Has(site) {
			sum += reads
		}
	}
	return sum
}

// expected is the number of reads that a load of the usual mix would have at a site. A site
// without any counts as idle from there on: chance alone makes that happen to one cell in
// 150.
const expected = 5

// idle returns the members that would read here if this were as usual, and were not seen to. To
// have them hold it may cost nothing, as long as they live.
func (m *measure) idle(load []float32) (set Set) {
	if m.policy == Quorum {
		return 0 // each has its place, read or not
	}
	usual := 0.0
	for _, x := range m.prior {
		usual += x
	}
	times := float64(total(load))
	for site := range len(load) / 2 {
		if load[site] < forgotten && times*m.prior[site] >= expected*usual && usual > 0 {
			set |= SetOf(site)
		}
	}
	return set &^ m.leaderOnly
}

// best is the set that costs least; among equals, the one with fewer holders. An idle site
// is in none.
func (m *measure) best(load []float32) (best Set) {
	least, idle := math.Inf(1), m.idle(load)
	for i, set := range m.candidates {
		if set&idle != 0 {
			continue
		}
		if ms := m.cost(load, m.costs[i]); ms < least {
			best, least = set, ms
		}
	}
	return best
}

// choose returns the best set, or the present one if the change may not pay for itself: the
// saving has to exceed the price and the effect of chance. Operations are counted as if
// they came at random, each on its own, so that the variance of a sum is the sum of the
// squares. The Quorum policy leaves the fallback without doubt: a first reader is a reader.
//
// The fallback is chosen where there is no evidence, but not before a planner that
// took over from another has had the time to see some.
func (m *measure) choose(load []float32, present, fallback Set) Set {
	settled := present != fallback
	lame := present&m.leaderOnly == 0 || present&(m.distances.down|m.idle(load)) != 0
	if m.evidence(load) < forgotten {
		if settled && !lame && !m.mature {
			return present
		}
		return fallback
	}
	best := m.best(load)
	if best == present || lame || m.policy == Quorum && present.Len() > best.Len() {
		return best
	}
	now, then := m.row(present), m.row(best)
	saving, variance := 0.0, 0.0
	for i := range now {
		less := now[i] - then[i]
		saving += (float64(load[i]) + m.prior[i]) * less
		variance += float64(load[i]) * less * less
	}
	threshold := m.price
	if settled || m.policy == Cost {
		threshold += m.doubt * m.caution(load, present&^best) * math.Sqrt(variance)
	}
	if saving > threshold {
		return best
	}
	return present
}

// caution is how much of the doubt is due when some leave. A member that has a place under
// the Quorum policy and does not read gives way to one that does. It does so the more
// readily the fewer writes there are for a read, since writes wait for the new holder.
func (m *measure) caution(load []float32, leave Set) float64 {
	for site := range len(load) / 2 {
		if leave.Has(site) && load[site] >= forgotten {
			return 1
		}
	}
	if m.policy != Quorum || m.writes >= m.reads {
		return 1
	}
	return m.writes / m.reads
}
