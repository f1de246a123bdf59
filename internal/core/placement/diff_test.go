package placement

import (
	"fmt"
	"slices"
	"sort"
)

// Change lists the members that gain and that lose a part of the key space.
type Change struct {
	// Key and End are a range as in etcd's requests, or, when there is no Key, the
	// keys in Bucket of Buckets that are in no cell, before nor after.
	Key, End        []byte
	Bucket, Buckets int
	// Gained do not hold all of it before, and hold some of it after.
	Gained Set
	// Lost hold some of it before and do not hold all of it after. A change is a write
	// to what they lose: it has to reach them, or their promises have to run out,
	// before they may be left out of a write's wait (R13).
	Lost Set
}

// Diff lists what is different in two configurations of the same members: ranges in
// order, then buckets. The same holders under other cells are no difference.
func Diff(before, after *Configuration) ([]Change, error) {
	if !slices.Equal(before.members, after.members) {
		return nil, fmt.Errorf("%w: compare configurations of the same members: rebase one", ErrConfiguration)
	}
	var changes []Change
	add := func(c Change, old, now piece) {
		c.Gained, c.Lost = now.some&^old.every, old.some&^now.every
		if c.Gained|c.Lost != 0 {
			changes = append(changes, c)
		}
	}
	for _, s := range edges(before, after) {
		old, now := before.pieces(s)[0], after.pieces(s)[0]
		add(Change{Key: []byte(s.lo), End: []byte(s.end())}, old, now)
	}
	n := max(len(before.buckets), len(after.buckets), 1)
	for i := range n {
		old, now := before.bucket(i), after.bucket(i)
		add(Change{Bucket: i, Buckets: n}, piece{every: old, some: old}, piece{every: now, some: now})
	}
	return changes, nil
}

// edges divides what is in a cell of one or the other at every border of both.
func edges(a, b *Configuration) (spans []span) {
	var cuts []string
	all := slices.Concat(a.spans, b.spans)
	for _, s := range all {
		cuts = append(cuts, s.lo, s.hi)
	}
	cuts = slices.DeleteFunc(cuts, func(s string) bool { return s == "" })
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i, lo := range cuts {
		s := span{lo: lo}
		if i+1 < len(cuts) {
			s.hi = cuts[i+1]
		}
		if inCell(a.spans, s) || inCell(b.spans, s) {
			spans = append(spans, s)
		}
	}
	return spans
}

func inCell(cells []span, s span) bool {
	at := sort.Search(len(cells), func(i int) bool { return !cells[i].endsBefore(s.lo) })
	return at < len(cells) && cells[at].covers(s)
}

// Losers are the members that lose anything.
func Losers(changes []Change) (s Set) {
	for _, c := range changes {
		s |= c.Lost
	}
	return s
}
