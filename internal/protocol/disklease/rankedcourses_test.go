package disklease

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"pgregory.net/rapid"
)

// key tells states apart. Bases are interchangeable, so they are sorted.
func (m *model) key() []byte {
	var slots, others [][]byte
	for _, s := range m.bases {
		slots = append(slots, put(nil, s))
	}
	var b []byte
	for _, a := range m.actors {
		b = put(b, a.alarm != machine.Never, a.decided)
		switch s := a.m.(type) {
		case *rankedBases:
			b = put(b, s.op, s.replies, s.seen, s.verdict)
			for i, base := range s.bases {
				slots[i] = put(slots[i], base.access != 0, base.ours, base.ended, base.failed)
			}
		case *rankedNotes:
			b = put(b, s.block, s.saved, s.op)
		}
		switch s := inner(a.m).(type) {
		case *caller:
			b = put(b, s.asked, len(s.replies))
			b = put(b, s.replies...)
		case *Consensus:
			b = put(b, int(s.until), s.rank, s.seen, int(s.doing), s.op, s.open)
		}
	}
	for _, f := range m.flying {
		if k := put(nil, f.actor, f.access.Op, f.done, f.reply, f.began, f.final); len(slots) > 0 {
			slots[f.access.At] = append(slots[f.access.At], k...)
		} else {
			others = append(others, k)
		}
	}
	slices.SortFunc(slots, bytes.Compare)
	slices.SortFunc(others, bytes.Compare)
	b = append(append(b, bytes.Join(slots, []byte("/"))...), bytes.Join(others, []byte("/"))...)
	for _, n := range m.reg.notes {
		b = put(b, n)
	}
	return put(b, m.reg.complete, len(m.reg.data), m.reg.final)
}

// put appends values so that different ones differ, as far as small worlds go.
func put(b []byte, values ...any) []byte {
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			b = append(b, 0)
		case bool:
			b = append(b, 1)
			if v {
				b = append(b, 1)
			}
		case int:
			b = append(b, 2, byte(v))
		case []int:
			b = append(b, 3, byte(len(v)))
			for _, n := range v {
				b = append(b, byte(n))
			}
		case string:
			b = append(append(b, 4, byte(len(v))), v...)
		case []byte:
			b = put(b, string(v))
		case []string:
			b = append(b, 5, byte(len(v)))
			for _, s := range v {
				b = put(b, s)
			}
		case Rank:
			b = append(b, 6, byte(v.Counter), v.ID[15])
		case RRRead:
			b = put(append(b, 7), v.Rank)
		case RRWrite:
			b = put(append(b, 8), v.Rank, v.Value)
		case RRSeen:
			b = put(append(b, 9), v.Rank, v.Value)
		case RRVerdict:
			b = put(append(b, 10), v.Commit, v.Above)
		case Ranked:
			b = put(append(b, 11), v.Read, v.Written, v.Value)
		case block:
			b = put(append(b, 12), v.mbal, v.bal, v.value)
		case machine.Note:
			b = put(append(b, 13), v.Data)
		case machine.Write:
			b = put(append(b, 14), v.Data)
		case machine.Read:
			b = append(b, 15)
		default:
			panic(fmt.Sprintf("a state with %T", v))
		}
	}
	return b
}

// explore plays all courses of a model. Each state is judged once; it returns how many
// there were, and how many of them have no move left.
func explore(m *model, judge func(m *model, last bool) error) (states, ends int, err error) {
	seed := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	seen := map[[2]uint64]bool{}
	var visit func(m *model) error
	visit = func(m *model) error {
		s := m.key()
		k := [2]uint64{maphash.Bytes(seed[0], s), maphash.Bytes(seed[1], s)}
		if seen[k] {
			return nil
		}
		seen[k] = true
		moves := m.moves()
		if len(moves) == 0 {
			ends++
		}
		if err := judge(m, len(moves) == 0); err != nil {
			return err
		}
		for _, mv := range moves {
			next := m.clone()
			next.apply(mv)
			if err := visit(next); err != nil {
				return fmt.Errorf("%v < %w", mv, err)
			}
		}
		return nil
	}
	err = visit(m)
	return len(seen), ends, err
}

// wander plays a course at random, with accesses that fail.
func (m *model) wander(t *rapid.T) {
	for range rapid.IntRange(0, 150).Draw(t, "moves") {
		moves := m.moves()
		if len(moves) == 0 {
			return
		}
		mv := moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]
		if (mv.kind == perform || mv.kind == deliver) && rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
			mv.kind = fail
		}
		m.apply(mv)
	}
}

// finish plays on, first things first and nothing failing, until nothing can happen.
func (m *model) finish() {
	for m.applyFirst() {
	}
}

// applyFirst ends the access that began first, a read so that it shows all; or begins one.
func (m *model) applyFirst() bool {
	moves := m.moves()
	if len(moves) == 0 {
		return false
	}
	first := moves[0]
	for _, mv := range moves {
		began := mv.kind == perform || mv.kind == deliver
		if was := first.kind == perform || first.kind == deliver; began && (!was || mv.i == first.i) {
			first = mv
		}
	}
	m.apply(first)
	return true
}
