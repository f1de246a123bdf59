package ycsb

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func source(seed uint64) *rand.PCG { return rand.NewPCG(seed, 1) }

// TestShares has the figures of 100,000 keys of exponent 0.99, which everything
// else that is said about this workload rests on.
func TestShares(t *testing.T) {
	z := NewZipf(100_000, Theta)
	if got, want := z.zeta, 12.778; math.Abs(got-want) > 0.001 {
		t.Errorf("zeta %.4f, want %.3f", got, want)
	}
	const draws = 1_000_000
	counts := make([]int, z.items)
	src := source(1)
	for range draws {
		counts[z.rank(src)]++
	}
	for _, test := range []struct {
		most int
		want float64
	}{{1, 0.078}, {2, 0.1177}, {10, 0.231}, {100, 0.414}, {1000, 0.605}, {10_000, 0.800}, {100_000, 1}} {
		if got := share(z, test.most); math.Abs(got-test.want) > 0.0005 {
			t.Errorf("the law gives the %d most popular %.4f of all, want %.3f", test.most, got, test.want)
		}
		drawn := 0
		for _, c := range counts[:test.most] {
			drawn += c
		}
		// The error of the generator's curve, and four standard deviations of a draw.
		got, allow := float64(drawn)/draws, 0.002
		if test.most > 2 {
			allow = 0.015
		}
		if math.Abs(got-test.want) > allow {
			t.Errorf("drawn: the %d most popular had %.4f of all, want %.3f", test.most, got, test.want)
		}
	}
}

func TestMassesAddUp(t *testing.T) {
	for _, theta := range []float64{0, 0.5, Theta} {
		z := NewZipf(1000, theta)
		sum := 0.0
		for rank := range z.items {
			sum += z.Mass(rank)
			if got, want := sum, share(z, rank+1); math.Abs(got-want) > 1e-12 {
				t.Fatalf("theta %g: masses up to rank %d are %g, their share is %g", theta, rank, got, want)
			}
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("theta %g: masses are %g in all, want 1", theta, sum)
		}
	}
}

// TestThetaZeroIsUniform: chi-squared of 100 cells has mean 99 and deviation 14.
func TestThetaZeroIsUniform(t *testing.T) {
	z, src := NewZipf(100, 0), source(2)
	counts := make([]float64, 100)
	const draws = 100_000
	for range draws {
		counts[z.rank(src)]++
	}
	chi := 0.0
	for _, c := range counts {
		chi += (c - draws/100) * (c - draws/100) / (draws / 100)
	}
	if chi > 170 {
		t.Errorf("chi-squared %.0f of 100 cells, want about 99", chi)
	}
}

// edge gives the same number for ever.
type edge uint64

func (e edge) Uint64() uint64 { return uint64(e) }

func TestRanksStayInside(t *testing.T) {
	for _, items := range []int{1, 2, 3, 10, 100_000} {
		for _, theta := range []float64{0, 0.5, Theta} {
			z := NewZipf(items, theta)
			if got := z.rank(edge(0)); got != 0 {
				t.Errorf("%d items, theta %g: the least number gives rank %d, want 0", items, theta, got)
			}
			if got := z.rank(edge(math.MaxUint64)); got != items-1 {
				t.Errorf("%d items, theta %g: the greatest number gives rank %d, want the last", items, theta, got)
			}
		}
	}
}

func TestNewZipfRefuses(t *testing.T) {
	for _, bad := range []struct {
		items int
		theta float64
	}{{0, Theta}, {-1, 0}, {10, 1}, {10, -0.1}, {10, math.NaN()}} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			NewZipf(bad.items, bad.theta)
		})
	}
}

func TestOrder(t *testing.T) {
	a, b, again := NewOrder(1000, source(1)), NewOrder(1000, source(2)), NewOrder(1000, source(1))
	if !slices.Equal(a, again) {
		t.Error("a seed gave two orders")
	}
	if slices.Equal(a, b) {
		t.Error("two seeds gave one order")
	}
	ranks := ranksOf(a)
	for rank, key := range a {
		if ranks[key] != int32(rank) {
			t.Fatalf("key %d has rank %d, want %d", key, ranks[key], rank)
		}
	}
	sorted := slices.Sorted(slices.Values(a))
	for i, key := range sorted {
		if key != int32(i) {
			t.Fatalf("the order is no permutation: %d in place of %d", key, i)
		}
	}
}

// TestOrderIsFair counts all six orders of three keys.
func TestOrderIsFair(t *testing.T) {
	src, seen := source(3), map[[3]int32]int{}
	for range 60_000 {
		seen[[3]int32(NewOrder(3, src))]++
	}
	if len(seen) != 6 {
		t.Fatalf("saw %d orders of three keys, want 6", len(seen))
	}
	for order, n := range seen {
		if n < 9_500 || n > 10_500 {
			t.Errorf("order %v came up %d times of 60,000, want about 10,000", order, n)
		}
	}
}

func TestSite(t *testing.T) {
	zipf := NewZipf(1000, Theta)
	site := Site{Popularity: zipf, Order: NewOrder(1000, source(4)), Reads: 0.9}
	src, again := source(5), source(5)
	reads, top := 0, 0
	const draws = 100_000
	for range draws {
		op := site.Next(src)
		if other := site.Next(again); op != other {
			t.Fatalf("a seed gave %+v and %+v", op, other)
		}
		if op.Read {
			reads++
		}
		if op.Key == int(site.Order[0]) {
			top++
		}
	}
	if got := float64(reads) / draws; math.Abs(got-0.9) > 0.005 {
		t.Errorf("%.3f of the operations read, want 0.9", got)
	}
	if got, want := float64(top)/draws, zipf.Mass(0); math.Abs(got-want) > 0.005 {
		t.Errorf("the most popular key had %.3f of all, want %.3f", got, want)
	}
	plain := Site{Popularity: zipf}
	if got := plain.Next(edge(0)); got != (Op{}) {
		t.Errorf("without an order and reads got %+v, want a write of key 0", got)
	}
}

func BenchmarkRank(b *testing.B) {
	z, src := NewZipf(100_000, Theta), source(1)
	for b.Loop() {
		z.rank(src)
	}
}

// ranksOf is the inverse: ranksOf(o)[key] is the key's rank.
func ranksOf(o Order) []int32 {
	ranks := make([]int32, len(o))
	for rank, key := range o {
		ranks[key] = int32(rank)
	}
	return ranks
}

// share is the part of all requests that goes to the most popular ranks under Zipf's law.
func share(z *Zipf, most int) float64 { return zeta(min(most, z.items), z.theta) / z.zeta }
