package file

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// bare is one direct read or write of n blocks: the cost of the medium itself.
func bare(b *testing.B, n int, write bool) {
	path := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, n*block), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := host{}.open(path, true)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	buf := aligned(n * block)
	if _, err := f.WriteAt(buf, 0); err != nil { // so that all is allocated
		b.Fatal(err)
	}
	for b.Loop() {
		buf[0]++
		if write {
			_, err = f.WriteAt(buf, 0)
		} else {
			_, err = f.ReadAt(buf, 0)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBareRead4KiB(b *testing.B)    { bare(b, 1, false) }
func BenchmarkBareRead72KiB(b *testing.B)   { bare(b, 18, false) }
func BenchmarkBareWrite4KiB(b *testing.B)   { bare(b, 1, true) }
func BenchmarkBareWrite256KiB(b *testing.B) { bare(b, 64, true) }

// BenchmarkQuery reads one register among the handles of n processes.
func BenchmarkQuery(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprint("handles=", n), func(b *testing.B) {
			s := newBench(b, InitOptions{}).handlesOf(n)[0]
			for b.Loop() {
				do(b, s, query("x"))
			}
		})
	}
}

// BenchmarkPut writes one register.
func BenchmarkPut(b *testing.B) {
	s := newBench(b, InitOptions{}).open()
	seq := uint64(0)
	for b.Loop() {
		seq++
		do(b, s, put("x", seq, 1, "a lease's record, about so long, with a holder's name in it"))
	}
}

// BenchmarkRenew renews n leases together: a Query of each, then a Put of each.
func BenchmarkRenew(b *testing.B) {
	for _, single := range []bool{false, true} {
		for _, n := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("single-host=%v/leases=%d", single, n), func(b *testing.B) {
				s := newBench(b, InitOptions{SingleHost: single}).open()
				seq := uint64(0)
				for b.Loop() {
					seq++
					var queries, puts []register.Op
					for i := range n {
						name := fmt.Sprint("lease ", i)
						queries, puts = append(queries, query(name)), append(puts, put(name, seq, 1, "a lease's record"))
					}
					do(b, s, queries...)
					do(b, s, puts...)
				}
			})
		}
	}
}

// BenchmarkOpen is a handle's life: opened, one register written and left, closed.
func BenchmarkOpen(b *testing.B) {
	bench := newBench(b, InitOptions{})
	bench.obsolete["x"] = true
	seq := uint64(0)
	for b.Loop() {
		seq++
		s := bench.open()
		w := byte(seq)
		do(b, s, query("x"))
		do(b, s, put("x", seq, w, "data"))
		do(b, s, leave("x", w))
		s.Close()
	}
}

// handlesOf opens n handles that have written something each.
func (b *bench) handlesOf(n int) (stores []*Store) {
	for i := range n {
		s := b.open()
		for j := range 4 {
			do(b.t, s, put(fmt.Sprintf("r%d-%d", i, j), uint64(i+1), byte(i), "data"))
		}
		stores = append(stores, s)
	}
	return stores
}

func BenchmarkDecodeRecord(b *testing.B) {
	p := make([]byte, block)
	r := sample
	r.writer = machine.ID{1}
	r.encode(p)
	for b.Loop() {
		if _, err := decodeRecord(p); err != nil {
			b.Fatal(err)
		}
	}
}
