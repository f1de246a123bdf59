package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// maxRanges is how many ranges may have cells of their own.
const maxRanges = 32

// Plan chooses the holders anew, and reports whether they differ from the last plan. Call
// it every 10 s or so, and propose what has changed.
func (p *Planner) Plan(now machine.Mono) (*Configuration, bool) {
	p.decay(now)
	for _, s := range p.present.spans { // cells of which nothing is known are judged too
		if s.single() {
			known(p.keys, s.lo, len(p.members))
		} else {
			known(p.ranges, s, len(p.members))
		}
	}
	traffic, mix := p.usual()
	m := newMeasure(p.settings, p.distances, traffic)
	m.mature = float64(now.Sub(p.began)) >= 4*float64(p.settings.HalfLife)

	fallback := m.leaderOnly
	if p.settings.Policy == Cost {
		fallback = m.choose(mix, p.present.fallback, 0)
		if fallback == 0 {
			fallback = p.present.fallback &^ p.distances.down
		}
	}
	m.expect(mix, p.settings.Prior)
	d := draft{Planner: p, measure: m, fallback: fallback, unseen: make([]float32, 2*len(p.members)), hot: byLoad(p.keys, cmp.Compare)}
	d.chooseBuckets()
	d.chooseRanges()
	d.chooseKeys()
	next, err := New(p.members, fallback, d.cells, d.buckets)
	if err != nil {
		panic(fmt.Sprintf("placement: the plan is %v", err))
	}
	changed := !next.Equal(p.present)
	if changed {
		p.present = next
	}
	return p.present, changed
}

// usual is all traffic, and the usual traffic of a key: the sum over buckets where none
// counts more than Prior operations, so that few hot keys do not speak for all.
func (p *Planner) usual() (traffic []float64, mix []float32) {
	traffic, mix = make([]float64, 2*len(p.members)), make([]float32, 2*len(p.members))
	for b := range p.settings.Buckets {
		load := p.bucket(b)
		sum := total(load)
		if sum == 0 {
			continue
		}
		say := min(1, float32(p.settings.Prior)/sum)
		for i, x := range load {
			traffic[i] += float64(x)
			mix[i] += say * x
		}
	}
	return traffic, mix
}

// draft is a configuration that is being planned.
type draft struct {
	*Planner
	*measure
	fallback Set
	unseen   []float32 // the load of what nobody was seen to use
	hot      []string  // keys that are known one by one, the most used first
	buckets  []Set
	every    Set // who holds all buckets
	cells    []Cell
}

// chooseBuckets decides for each bucket by what happens in it, less what belongs to
// keys that have cells.
func (d *draft) chooseBuckets() {
	n := d.settings.Buckets
	less := map[int][]float32{}
	for _, c := range d.present.cells {
		if load, ok := d.keys[string(c.Key)]; ok && len(c.End) == 0 {
			sum := known(less, Bucket(c.Key, n), len(d.members))
			addTo(sum, load)
		}
	}
	d.buckets, d.every = make([]Set, n), first(len(d.members))
	rest := make([]float32, 2*len(d.members))
	for b := range n {
		load := d.Planner.bucket(b)
		if sum, ok := less[b]; ok {
			for i := range rest {
				rest[i] = max(0, load[i]-sum[i])
			}
			load = rest
		}
		fallback := d.cold(b, n, load, d.fallback)
		present := fallback // where there was nothing special, the default moves all
		if s := d.present.bucket(b); s != d.present.fallback && s != d.cold(b, n, d.unseen, d.fallback) {
			present = s
		}
		d.buckets[b] = d.choose(load, present, fallback)
		d.every &= d.buckets[b]
	}
}

func addTo(sum, load []float32) {
	for i, x := range load {
		sum[i] += x
	}
}

// candidate is a range, a key, or keys that are written together, which may get cells.
type candidate struct {
	spans []span
	load  []float32
	set   Set
	gain  float64
}

// chooseRanges gives cells to ranges that are read as such, where that beats reading
// them at those who hold everything. Of ranges that overlap, the one that gains more
// stands.
func (d *draft) chooseRanges() {
	var found []candidate
	for _, s := range byLoad(d.ranges, span.compare) {
		load := slices.Clone(d.ranges[s])
		present := d.every
		if at, ok := d.cell(s); ok {
			present = d.present.cells[at].Holders
		} else { // not counted as a cell yet: the counts of its keys
			for _, key := range d.hot {
				if s.covers(spanOf(key, "")) {
					addTo(load, d.keys[key])
				}
			}
		}
		set := d.choose(load, present, d.every)
		if set != d.every {
			gain := d.waiting(load, d.every) - d.waiting(load, set)
			found = append(found, candidate{[]span{s}, load, set, gain})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })
	for _, c := range found {
		overlaps := slices.ContainsFunc(d.cells, func(other Cell) bool { return other.span().meets(c.spans[0]) })
		if !overlaps && len(d.cells) < min(maxRanges, d.settings.Cells) {
			d.add(c)
		}
	}
}

// cell finds the present cell that is just this span.
func (d *draft) cell(s span) (at int, ok bool) {
	at, _ = slices.BinarySearchFunc(d.present.spans, s, span.compare)
	return at, at < len(d.present.spans) && d.present.spans[at] == s
}

// waiting is what a load costs, without the prior.
func (d *draft) waiting(load []float32, set Set) (ms float64) {
	for i, c := range d.row(set) {
		ms += float64(load[i]) * c
	}
	return ms
}

func (d *draft) add(c candidate) {
	for _, s := range c.spans {
		d.cells = append(d.cells, Cell{[]byte(s.lo), []byte(s.end()), c.set})
	}
}
