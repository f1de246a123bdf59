package readtorture

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// sighting is what somebody knows from a time on: the state at a revision is there,
// or, in key order, a version of some keys.
type sighting struct {
	at       time.Duration
	revision int64
	keys     []string
	by       any // *operation, or the event that a watch showed
}

// sightings are all of a history, by time.
func sightings(history []operation, events []event) (all []sighting) {
	for i := range history {
		o := &history[i]
		if !o.Known {
			continue
		}
		s := sighting{at: o.End, revision: o.Revision, by: o}
		for i := range together {
			if o.Looks[i] || o.Writes[i] {
				s.keys = append(s.keys, key(o.Object, i))
			}
		}
		all = append(all, s)
	}
	for _, e := range events {
		all = append(all, sighting{e.At, e.Revision, []string{e.Key}, e})
	}
	slices.SortStableFunc(all, func(a, b sighting) int { return cmp.Compare(a.at, b.at) })
	return all
}

// judged are the operations that time binds, by their start.
func judged(history []operation) (list []*operation) {
	for i := range history {
		if o := &history[i]; o.Known && o.Kind != kindSerial {
			list = append(list, o)
		}
	}
	slices.SortStableFunc(list, func(a, b *operation) int { return cmp.Compare(a.Start, b.Start) })
	return list
}

// strictFloors wants an answer to be at least at the highest revision that somebody
// had seen before its request was sent, and a change above it.
func strictFloors(history []operation, events []event) (faults []error) {
	var floor sighting
	known := sightings(history, events)
	for _, o := range judged(history) {
		for ; len(known) > 0 && known[0].at < o.Start; known = known[1:] {
			if known[0].revision > floor.revision {
				floor = known[0]
			}
		}
		if o.Revision < floor.revision || o.changes() && o.Revision == floor.revision {
			faults = append(faults, fmt.Errorf("the revision is too low: %d was seen before, by %+v: %+v", floor.revision, floor.by, *o))
		}
	}
	return faults
}

// keyFloors wants of each key that an operation looks at the newest version that
// somebody had seen before its request was sent, and changes above that.
func keyFloors(history []operation, events []event, v *versions) (faults []error) {
	type version struct {
		revision int64
		by       any
	}
	floors := map[string]version{}
	known := sightings(history, events)
	for _, o := range judged(history) {
		for ; len(known) > 0 && known[0].at < o.Start; known = known[1:] {
			for _, k := range known[0].keys {
				if r := v.of(k, known[0].revision).Revision; r > floors[k].revision {
					floors[k] = version{r, known[0].by}
				}
			}
		}
		for i := range together {
			k := key(o.Object, i)
			floor := floors[k]
			if o.told(i) && v.of(k, o.from()).Revision < floor.revision {
				faults = append(faults, fmt.Errorf("stale: revision %d of %s was seen before, by %+v: %+v", floor.revision, k, floor.by, *o))
			}
			if o.changes() && o.Writes[i] && o.Revision <= floor.revision {
				faults = append(faults, fmt.Errorf("a write before what is there: revision %d of %s was seen before, by %+v: %+v", floor.revision, k, floor.by, *o))
			}
		}
	}
	return faults
}
