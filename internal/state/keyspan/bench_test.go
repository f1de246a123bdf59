package keyspan

import (
	"fmt"
	"testing"
)

// backlog is a Table with n entries of one key each and some ranges, nothing of
// it released.
func backlog(n int) *Table {
	t := new(Table)
	for i := range n {
		s := Span{Key: key(i * 7919 % n)}
		if i%1000 == 999 {
			s = Span{Key: key(i), End: key(i + 20)}
		}
		t.Add(uint64(i+1), Set{s}, nil)
	}
	return t
}

func key(i int) []byte { return fmt.Appendf(nil, "/registry/pods/ns-%04d/name-%08d", i%37, i) }

func BenchmarkTable(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		table := backlog(n)
		one, absent := Set{{Key: key(n / 2)}}, Set{{Key: []byte("/absent")}}
		prefix := Set{{Key: []byte("/registry/pods/ns-0003/"), End: []byte("/registry/pods/ns-00030")}}
		for name, s := range map[string]Set{"key": one, "absent": absent, "prefix": prefix, "all": {All()}} {
			b.Run(fmt.Sprintf("look/%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					table.Look(s)
				}
			})
		}
		keys := make([]Set, 4096)
		for i := range keys {
			keys[i] = Set{{Key: key(1_000_000 + i)}}
		}
		b.Run(fmt.Sprintf("cycle/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			index := table.last
			for b.Loop() {
				index++
				table.Add(index, keys[index%4096], nil)
				table.Release(index)
				table.Forget(index)
			}
		})
		hot := backlog(n)
		b.Run(fmt.Sprintf("cycle/hot/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			index := hot.last
			for b.Loop() {
				index++
				hot.Add(index, one, nil)
				hot.Release(index)
				hot.Forget(index)
			}
		})
	}
}

func TestLookAllocatesNothing(t *testing.T) {
	table := backlog(5000)
	for _, s := range []Set{{{Key: key(77)}}, {{Key: key(5), End: key(900)}}, {All()}} {
		if got := testing.AllocsPerRun(100, func() { table.Look(s) }); got != 0 {
			t.Errorf("%v: got %v allocations, want none", s, got)
		}
	}
}
