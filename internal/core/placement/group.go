package placement

import (
	"cmp"
	"slices"
)

// group is a hot key, or some that are mostly written together and therefore get the
// same holders (section 3.9): else such a write would wait for the holders of all.
type group struct {
	keys  []string // the most used first
	loads [][]float32
	joint []float32 // of writes that are in more than one of loads, all but one
}

// load is that of all, where what writes several keys is one write.
func (g *group) load() []float32 {
	sum := slices.Clone(g.loads[0])
	for _, l := range g.loads[1:] {
		addTo(sum, l)
	}
	for i := range g.joint {
		sum[i] = max(0, sum[i]-g.joint[i])
	}
	return sum
}

// groups puts keys together of which either is written mostly with the other. A key
// that is written along with ever different others stays alone.
func (d *draft) groups() []*group {
	of := make(map[string]*group, len(d.hot))
	var all []*group
	for _, key := range d.hot {
		s := spanOf(key, "")
		if slices.ContainsFunc(d.cells, func(r Cell) bool { return r.span().covers(s) }) {
			continue // its range decides
		}
		g := &group{keys: []string{key}, loads: [][]float32{d.keys[key]}}
		of[key] = g
		all = append(all, g)
	}
	n := len(d.members)
	for _, p := range byLoad(d.pairs, pair.compare) {
		a, b, joint := of[p.a], of[p.b], d.pairs[p]
		if a == nil || b == nil || a == b || len(a.keys)+len(b.keys) > linked {
			continue
		}
		if 2*total(joint) < max(total(d.keys[p.a][n:]), total(d.keys[p.b][n:])) {
			continue
		}
		if total(b.loads[0]) > total(a.loads[0]) {
			a, b = b, a
		}
		a.joint = sum(sum(a.joint, b.joint), joint)
		for _, key := range b.keys {
			of[key] = a
		}
		a.keys, a.loads = append(a.keys, b.keys...), append(a.loads, b.loads...)
		b.keys = nil
	}
	return slices.DeleteFunc(all, func(g *group) bool { return g.keys == nil })
}

func sum(a, b []float32) []float32 {
	if a == nil {
		return slices.Clone(b)
	}
	if b != nil {
		addTo(a, b)
	}
	return a
}

// chooseKeys gives cells to those hot keys, and keys written together, that their
// buckets do not serve well.
func (d *draft) chooseKeys() {
	n := len(d.members)
	var found []candidate
	for _, g := range d.groups() {
		var c candidate
		fallback := d.served(g.keys[0])
		present := fallback
		if at, ok := d.cell(spanOf(g.keys[0], "")); ok {
			present = d.present.cells[at].Holders
		}
		c.load = g.load()
		c.set = d.choose(c.load, present, fallback)
		together := Set(0) // whom a write to all of them has to reach without cells
		for i, key := range g.keys {
			s := d.served(key)
			together |= s
			if s != c.set {
				c.spans = append(c.spans, spanOf(key, ""))
			}
			for site, cost := range d.row(s)[:n] {
				c.gain += float64(g.loads[i][site]) * cost
			}
		}
		for site, cost := range d.row(together)[n:] {
			c.gain += float64(c.load[n+site]) * cost
		}
		c.gain -= d.waiting(c.load, c.set)
		if len(c.spans) > 0 {
			found = append(found, c)
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })
	for _, c := range found {
		if len(d.cells)+len(c.spans) <= d.settings.Cells {
			d.add(c)
		}
	}
}

// served returns the holders of a key that has no cell.
func (d *draft) served(key string) Set {
	return d.buckets[Bucket([]byte(key), len(d.buckets))]
}
