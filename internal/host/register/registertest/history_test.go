package registertest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

func w(client int, data string, begin, end int64) Operation {
	return Operation{Client: client, Write: true, Data: data, Begin: begin, End: end}
}

func r(client int, data string, begin, end int64) Operation {
	return Operation{Client: client, Data: data, Begin: begin, End: end}
}

func TestCheckers(t *testing.T) {
	for _, c := range []struct {
		name            string
		history         []Operation
		regular, atomic bool
	}{
		{"nothing", nil, true, true},
		{"one after the other", []Operation{w(1, "a", 1, 2), r(2, "a", 3, 4), w(1, "b", 5, 6), r(2, "b", 7, 8)}, true, true},
		{"initially nothing", []Operation{r(1, "", 1, 2), w(2, "a", 3, 4)}, true, true},
		{"nothing, while the first is written", []Operation{w(1, "a", 1, 4), r(2, "", 2, 3), r(2, "a", 5, 6)}, true, true},
		{"nothing, after a write", []Operation{w(1, "a", 1, 2), r(2, "", 3, 4)}, false, false},
		{"what was overwritten", []Operation{w(1, "a", 1, 2), w(1, "b", 3, 4), r(2, "a", 5, 6)}, false, false},
		{"what nobody wrote", []Operation{w(1, "a", 1, 2), r(2, "b", 3, 4)}, false, false},
		{"what is not yet written", []Operation{r(2, "a", 1, 2), w(1, "a", 3, 4)}, false, false},
		{"either of two that overlap", []Operation{w(1, "a", 1, 4), w(2, "b", 2, 3), r(3, "a", 5, 6)}, true, true},
		{"new, then old, while new is written", []Operation{w(1, "a", 1, 2), w(1, "b", 3, 8), r(2, "b", 4, 5), r(2, "a", 6, 7)}, true, false},
		{"the same by two readers", []Operation{w(1, "a", 1, 2), w(1, "b", 3, 8), r(2, "b", 4, 5), r(3, "a", 6, 7), r(3, "b", 9, 10)}, true, false},
		// Each read by itself is fine, which is all that a scan of intervals sees: both
		// writes ended before, and neither before the other began.
		{"two reads that disagree about two writes", []Operation{
			w(1, "a", 1, 4), w(2, "b", 2, 3), r(3, "a", 5, 6), r(3, "b", 7, 8)}, false, false},
		{"two that disagree at the same time", []Operation{
			w(1, "a", 1, 4), w(2, "b", 2, 3), r(3, "a", 5, 8), r(4, "b", 6, 7)}, false, false},
		{"two that disagree while the writes last", []Operation{
			w(1, "a", 1, 20), w(2, "b", 2, 21), r(3, "a", 5, 6), r(4, "b", 7, 8), r(3, "a", 9, 10)}, true, false},
		{"the reads are right, but against a third write", []Operation{
			w(1, "a", 1, 2), w(2, "b", 1, 6), w(3, "c", 3, 4), r(4, "b", 5, 9), r(4, "a", 10, 11)}, false, false},
		// a before c in time; the reads want b before a, and c before b.
		{"a circle of three", []Operation{
			w(1, "a", 1, 6), w(2, "b", 2, 5), w(3, "c", 7, 8), r(4, "a", 6, 7), r(5, "b", 9, 10)}, false, false},
		{"a failed write that is read", []Operation{
			w(1, "a", 1, Unended), w(2, "b", 2, 3), r(3, "b", 4, 5), r(3, "a", 6, 7)}, true, true},
		{"a failed write that is read and then not", []Operation{
			w(1, "a", 1, Unended), w(2, "b", 2, 3), r(3, "a", 4, 5), r(3, "b", 6, 7)}, true, false},
		{"a failed write that nobody reads", []Operation{
			w(1, "a", 1, Unended), w(2, "b", 2, 3), r(3, "b", 4, 5)}, true, true},
		{"a failed read says nothing", []Operation{w(1, "a", 1, 2), r(2, "", 3, Unended)}, true, true},
		{"a write twice", []Operation{w(1, "a", 1, 2), w(1, "a", 3, 4)}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := Regular(c.history); (err == nil) != c.regular {
				t.Errorf("regular: %v, want %v", err, c.regular)
			}
			if err := Atomic(c.history); (err == nil) != c.atomic {
				t.Errorf("atomic: %v, want %v", err, c.atomic)
			}
		})
	}
}

// TestRegularAgreesWithItsDefinition tries all permutations of the writes of small
// random histories, as Definition 1 says.
func TestRegularAgreesWithItsDefinition(t *testing.T) {
	count := map[bool]int{}
	for seed := range uint64(20000) {
		random := rand.New(rand.NewPCG(seed, 0))
		var history []Operation
		data := []string{""}
		for i := range 2 + random.IntN(3) {
			d := string(rune('a' + i))
			data = append(data, d)
			history = append(history, w(i, d, 0, 0))
		}
		for i := range 1 + random.IntN(3) {
			history = append(history, r(10+i, data[random.IntN(len(data))], 0, 0))
		}
		for i := range history {
			begin := random.Int64N(12)
			history[i].Begin, history[i].End = begin, begin+1+random.Int64N(8)
			if history[i].Write && random.IntN(8) == 0 {
				history[i].End = Unended
			}
		}
		want := byDefinition(history)
		count[want]++
		if err := Regular(history); (err == nil) != want {
			t.Fatalf("%v: %v, by definition %v", history, err, want)
		}
	}
	if count[true] < 1000 || count[false] < 1000 {
		t.Errorf("%v: the histories are too much alike", count)
	}
}

// byDefinition looks for a π. It puts reads where the definition allows any place.
func byDefinition(history []Operation) bool {
	writes, index, reads, err := split(history)
	if err != nil {
		return false
	}
	explains := func(pi []int) bool {
		for _, r := range reads {
			// The projection: writes that began before r ended, in order; r is somewhere among
			// them, and returns the one before it.
			var proj []int
			for _, w := range pi {
				if writes[w].Begin <= r.End {
					proj = append(proj, w)
				}
			}
			for i, w := range proj {
				for _, later := range proj[i+1:] {
					if writes[later].End < writes[w].Begin {
						return false // not consistent with real time
					}
				}
			}
			legal := false
			for place := 1; place <= len(proj); place++ {
				ok := proj[place-1] == index[r.Data]
				for _, w := range proj[place:] {
					ok = ok && writes[w].End >= r.Begin
				}
				legal = legal || ok
			}
			if !legal {
				return false
			}
		}
		return true
	}
	var search func(pi, rest []int) bool
	search = func(pi, rest []int) bool {
		if len(rest) == 0 {
			return explains(pi)
		}
		for i := range rest {
			others := append(append([]int{}, rest[:i]...), rest[i+1:]...)
			if search(append(pi[:len(pi):len(pi)], rest[i]), others) {
				return true
			}
		}
		return false
	}
	var rest []int
	for i := range writes[1:] {
		rest = append(rest, i+1)
	}
	return search([]int{0}, rest)
}

func TestVersions(t *testing.T) {
	with := func(o Operation, seq uint64, writer byte) Operation {
		o.Version = machine.Version{Seq: seq, Writer: machine.ID{writer}}
		return o
	}
	for _, c := range []struct {
		history []Operation
		want    string
	}{
		{[]Operation{with(w(1, "a", 1, 2), 1, 1), with(r(2, "a", 3, 4), 1, 1), with(w(2, "b", 5, 6), 2, 2)}, ""},
		{[]Operation{with(w(1, "a", 1, 4), 2, 1), with(w(2, "b", 2, 3), 1, 2)}, ""},
		{[]Operation{with(w(1, "a", 1, 2), 1, 1), w(2, "b", 3, Unended), with(r(3, "b", 4, 5), 2, 2), r(3, "", 0, 1), r(3, "", 6, Unended)}, ""},
		{[]Operation{with(w(1, "a", 1, 2), 2, 1), with(w(2, "b", 3, 4), 2, 1)}, "also that of"},
		{[]Operation{with(w(1, "a", 1, 2), 2, 2), with(w(2, "b", 3, 4), 2, 1)}, "after which"},
		{[]Operation{with(w(1, "a", 1, 2), 2, 2), with(w(2, "b", 3, 4), 1, 3)}, "after which"},
		{[]Operation{with(w(1, "a", 1, 4), 2, 2), with(r(2, "a", 2, 3), 1, 2)}, "another under"},
		{[]Operation{with(w(1, "a", 1, 2), 2, 2), r(2, "", 3, 4)}, "after which"},
		{[]Operation{with(r(2, "", 3, 4), 1, 1)}, "another under"},
	} {
		err := Versions(c.history)
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%v: %v, want %q", c.history, err, c.want)
		}
	}
}

func TestHistory(t *testing.T) {
	var h history
	a, b := h.begin(), h.begin()
	h.End(r(1, "x", a, 0), false)
	h.End(w(2, "y", b, 0), true)
	ops := h.operations()
	if len(ops) != 2 || ops[0].Begin >= b || ops[0].End <= b || ops[1].End != Unended {
		t.Errorf("%v", ops)
	}
}
