package readtorture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// step is an operation as porcupine judges it: versions that it looks at, by revision,
// and those that it makes. Values are unique, and so are versions: each is there once,
// from one place in an order to another, the absence after a deletion, too.
type step struct {
	*operation
	looks, makes [together]int64
	start, end   time.Duration
}

const (
	nothing = math.MaxInt64 // this key is not looked at, or not changed
	never   = -1            // a version that there is not
)

// steps are those of a history, by object. Each change looks at the version before its
// own, for that is what it is made of.
func steps(history []operation, v *versions) []step {
	all := fewerReads(readsOf(history, v))
	for _, o := range writesOf(history, v) {
		s := step{operation: o, start: o.Start, end: o.End}
		for i := range together {
			k := key(o.Object, i)
			s.looks[i], s.makes[i] = v.saw(o, i), nothing
			if o.Writes[i] && (o.Value != "" || o.Saw[i] != "" || !o.Known) {
				s.makes[i] = o.Revision
				if before := v.of(k, o.Revision-1).Revision; s.looks[i] == nothing {
					s.looks[i] = before
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// saw is the version of a key that an operation was told.
func (v *versions) saw(o *operation, i int) int64 {
	switch at := v.of(key(o.Object, i), o.from()); {
	case !o.told(i):
		return nothing
	case o.Saw[i] != "":
		if e, ok := v.values[o.Saw[i]]; ok {
			return e.Revision
		}
		return never
	case at.Value == "":
		return at.Revision
	}
	return never
}

// readsOf returns the reads of a history, and the operations that only read in the end.
func readsOf(history []operation, v *versions) (reads []step) {
	for i := range history {
		o := &history[i]
		if !o.Known || o.Kind == kindSerial || o.changes() {
			continue
		}
		s := step{operation: o, start: o.Start, end: o.End}
		for i := range together {
			s.looks[i], s.makes[i] = v.saw(o, i), nothing
		}
		reads = append(reads, s)
	}
	return reads
}

// writesOf are the changes of a history, with those whose answer did not come: they took
// effect before they were shown first, or never. Deletions of two operations without an
// answer cannot be told apart. The deletions that were shown stand for them, from the start
// of the first operation that may have made them.
func writesOf(history []operation, v *versions) (writes []*operation) {
	claimed := map[int64]bool{} // revisions
	lost := map[string][]*operation{}
	for i := range history {
		o := &history[i]
		switch {
		case !slices.Contains(o.Writes[:], true):
		case o.changes():
			writes = append(writes, o)
			claimed[o.Revision] = true
		case o.Known:
		case o.Value == "":
			lost[o.Object] = append(lost[o.Object], o)
		default:
			if shown, ok := v.values[o.Value]; ok {
				it := *o
				it.Revision, it.End = shown.Revision, max(o.Start+1, shown.At)
				writes = append(writes, &it)
			}
		}
	}
	for revision, changed := range v.at {
		if claimed[revision] {
			continue
		}
		if o := v.deletion(revision, changed); o.Object != "" {
			for _, l := range lost[o.Object] {
				o.Start = min(o.Start, l.Start)
			}
			writes = append(writes, &o)
		}
	}
	slices.SortFunc(writes, func(a, b *operation) int { return cmp.Compare(a.Start, b.Start) })
	return writes
}

// deletion is what was deleted in a revision, if anything was.
func (v *versions) deletion(revision int64, changed map[string]string) (o operation) {
	for k, value := range changed {
		if value != "" {
			continue
		}
		at := strings.LastIndexByte(k, '/')
		shown := v.of(k, revision).At
		o.Kind, o.Object, o.Revision, o.Start, o.End = kindClear, k[:at], revision, shown-1, shown
		o.Writes[k[at+1]-'0'] = true
	}
	return o
}

// unasked are deletions that nobody asked for.
func unasked(history []operation, v *versions) (faults []error) {
	for _, o := range writesOf(history, v) {
		if o.Kind == kindClear && !o.Known && o.Start == o.End-1 {
			faults = append(faults, fmt.Errorf("somebody deleted what nobody asked for: %+v", *o))
		}
	}
	return faults
}

// fewerReads are reads without those that say nothing more. Two that saw the same, one
// of them during the other, are as good as the one. Two that overlap are as good as one
// in the time that they share: in each order in which both have a place, what they saw
// is there from the one place to the other.
func fewerReads(all []step) (reads []step) {
	type sight struct {
		object string
		looks  [together]int64
	}
	alike := map[sight][]step{}
	var order []sight
	for _, s := range all {
		at := sight{s.Object, s.looks}
		if alike[at] == nil {
			order = append(order, at)
		}
		alike[at] = append(alike[at], s)
	}
	for _, at := range order {
		list := alike[at]
		slices.SortFunc(list, func(a, b step) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(b.start, a.start)) })
		first := len(reads)
		for _, s := range list {
			if n := len(reads); n == first || s.start > reads[n-1].end {
				reads = append(reads, s)
			} else {
				reads[n-1].start = max(reads[n-1].start, s.start)
			}
		}
	}
	return reads
}
