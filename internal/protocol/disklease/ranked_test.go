package disklease

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"pgregory.net/rapid"
)

func rank(counter uint64, id byte) Rank { return Rank{counter, machine.ID{15: id}} }

// invocation is an operation on a ranked register and its result.
type invocation struct {
	op    any
	reply any // nil while it has not returned
	// When it returned, greatest was the greatest rank invoked, and writes were these.
	greatest Rank
	writes   []RRWrite
}

func rankOf(op any) Rank {
	if w, ok := op.(RRWrite); ok {
		return w.Rank
	}
	return op.(RRRead).Rank
}

// history judges Properties 4 and 5 over all invocations of an execution.
type history []invocation

func (h *history) invoke(op any) int {
	*h = append(*h, invocation{op: op})
	return len(*h) - 1
}

func (h history) reply(i int, reply any) {
	h[i].reply = reply
	for _, o := range h {
		h[i].greatest = maxRank(h[i].greatest, rankOf(o.op))
		if w, ok := o.op.(RRWrite); ok {
			h[i].writes = append(h[i].writes, w)
		}
	}
}

func (h history) property4() error {
	for _, r := range h {
		seen, ok := r.reply.(RRSeen)
		if !ok {
			continue
		}
		written := slices.ContainsFunc(r.writes, func(w RRWrite) bool {
			return w.Rank == seen.Rank && string(w.Value) == string(seen.Value)
		})
		if seen.Rank != (Rank{}) && !written {
			return fmt.Errorf("Property 4: %v returned %v, which nobody wrote", r.op, seen)
		}
		for _, w := range h {
			v, ok := w.reply.(RRVerdict)
			if ok && v.Commit && rankOf(r.op).Compare(rankOf(w.op)) > 0 && seen.Rank.Compare(rankOf(w.op)) < 0 {
				return fmt.Errorf("Property 4: %v committed, and %v returned %v", w.op, r.op, seen)
			}
		}
	}
	return nil
}

func (h history) property5() error {
	for _, w := range h {
		v, ok := w.reply.(RRVerdict)
		if ok && !v.Commit && w.greatest.Compare(rankOf(w.op)) <= 0 {
			return fmt.Errorf("Property 5: %v aborted though no greater rank than %v was invoked", w.op, w.greatest)
		}
	}
	return nil
}

func (h history) err() error {
	if err := h.property4(); err != nil {
		return err
	}
	return h.property5()
}

// TestRankedInEveryOrder plays all sequences of six operations with three ranks
// against one base, each of them any number of times.
func TestRankedInEveryOrder(t *testing.T) {
	var ops []any
	for i := range byte(3) {
		r := rank(1+uint64(i)/2, i)
		ops = append(ops, RRRead{r}, RRWrite{r, []byte{'a' + i}})
	}
	const length = 6
	played := 0
	var play func(s Ranked, h history)
	play = func(s Ranked, h history) {
		if err := h.err(); err != nil {
			t.Fatalf("%v\nin %v", err, h)
		}
		if len(h) == length {
			played++
			return
		}
		for _, op := range ops {
			s, h := s, slices.Clone(h)
			i := h.invoke(op)
			h.reply(i, s.Do(op))
			play(s, h)
		}
	}
	play(Ranked{}, nil)
	if want := 46656; played != want {
		t.Errorf("played %d sequences, want %d", played, want)
	}
}

// TestRankedTells has the replies in full.
func TestRankedTells(t *testing.T) {
	one, two := rank(1, 1), rank(2, 1)
	steps := []struct {
		op   any
		want any
	}{
		{RRRead{}, RRSeen{}},
		{RRRead{one}, RRSeen{}},
		{RRWrite{one, []byte("a")}, RRVerdict{Commit: true}},
		{RRRead{}, RRSeen{one, []byte("a")}},
		{RRWrite{one, []byte("a")}, RRVerdict{Commit: true}}, // its reply was lost
		{RRWrite{one, []byte("b")}, RRVerdict{Above: one}},   // no attempt has two values
		{RRRead{two}, RRSeen{one, []byte("a")}},
		{RRWrite{one, []byte("a")}, RRVerdict{Above: two}},
		{RRWrite{two, []byte("a")}, RRVerdict{Commit: true}},
		{RRRead{one}, RRSeen{two, []byte("a")}},
		{RRWrite{last, []byte("a")}, RRVerdict{Commit: true}},
		{RRWrite{last, []byte("a")}, RRVerdict{Commit: true}},
		{RRWrite{rank(9, 9), []byte("b")}, RRVerdict{Above: last}},
		{RRRead{rank(9, 9)}, RRSeen{last, []byte("a")}},
	}
	var s Ranked
	for i, step := range steps {
		if got := s.Do(step.op); fmt.Sprint(got) != fmt.Sprint(step.want) {
			t.Errorf("%d: %v: got %v, want %v", i, step.op, got, step.want)
		}
	}
}

func TestRanksAreOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Rank {
			return Rank{rapid.Uint64Range(0, 3).Draw(t, name), machine.ID{0: rapid.Byte().Draw(t, name), 15: rapid.Byte().Draw(t, name)}}
		}
		a, b, c := draw("a"), draw("b"), draw("c")
		if a.Compare(b) != -b.Compare(a) || (a.Compare(b) == 0) != (a == b) {
			t.Errorf("%v and %v: %d and %d", a, b, a.Compare(b), b.Compare(a))
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Errorf("%v <= %v <= %v, but not the first and the last", a, b, c)
		}
		if a.Compare(last) >= 0 {
			t.Errorf("%v is not before Last", a)
		}
	})
}
