package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// maxMarks is the number of marks that a picture shows: earlier ones are far from the
// trouble.
const maxMarks = 800

// view is the part of a timeline that is shown.
type view struct {
	from, to time.Duration
	total    time.Duration
	lanes    []string
	marks    []Mark // in the order in which they begin
	clashes  []clash
}

// clash is when two held what only one may hold.
type clash struct {
	a, b     int // of the view's marks
	from, to time.Duration
}

// view ends some time after the first violation, or else with the timeline, and
// begins so that there are maxMarks at most before that. Faults and rights that began earlier and last
// are in it.
func (t *Timeline) view() view {
	v := view{total: t.end, to: t.end, lanes: inOrder(t.lanes)}
	if i := slices.IndexFunc(t.marks, func(m *Mark) bool { return m.Kind == Violation }); i >= 0 {
		v.to = t.marks[i].From
	}
	until, _ := slices.BinarySearchFunc(t.marks, v.to+1, func(m *Mark, at time.Duration) int { return cmp.Compare(m.From, at) })
	if until > maxMarks {
		v.from = t.marks[until-maxMarks].From
	}
	if v.to < t.end {
		v.to = min(t.end, v.to+max((v.to-v.from)/3, time.Millisecond))
	}
	for _, m := range t.marks {
		c := *m
		if c.open {
			c.To = t.end
		}
		if c.From > v.to || c.To < v.from || c.From < v.from && c.Kind != Fault && c.Kind != Holds && c.Kind != Shares {
			continue
		}
		v.marks = append(v.marks, c)
	}
	v.clashes = slices.DeleteFunc(clashes(v.marks), func(c clash) bool { return c.from >= v.to || c.to <= v.from })
	return v
}

// inOrder sorts lanes whose names differ in a number at the end only, and leaves the
// rest in the order in which they came.
func inOrder(lanes []string) []string {
	lanes = slices.Clone(lanes)
	stem := func(lane string) string { return strings.TrimRight(lane, "0123456789") }
	first := func(lane string) int {
		return slices.IndexFunc(lanes, func(o string) bool { return stem(o) == stem(lane) })
	}
	place := map[string]int{}
	for _, lane := range lanes {
		place[lane] = first(lane)
	}
	slices.SortStableFunc(lanes, func(a, b string) int {
		return cmp.Or(cmp.Compare(place[a], place[b]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return lanes
}

// clashes finds where a right was held that somebody else held or shared.
func clashes(marks []Mark) (found []clash) {
	var holding []int // of those that began earlier
	for i, m := range marks {
		if m.Kind != Holds && m.Kind != Shares || m.From == m.To {
			continue
		}
		holding = slices.DeleteFunc(holding, func(o int) bool { return marks[o].To <= m.From })
		for _, o := range holding {
			if other := marks[o]; other.Right == m.Right && (other.Kind == Holds || m.Kind == Holds) {
				found = append(found, clash{o, i, m.From, min(other.To, m.To)})
			}
		}
		holding = append(holding, i)
	}
	return found
}
