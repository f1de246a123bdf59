package ycsb

import (
	"fmt"
	"math"
)

// Theta is YCSB's exponent.
const Theta = 0.99

// Source gives uniformly distributed random numbers. Sources of math/rand/v2 do.
type Source interface{ Uint64() uint64 }

// Zipf draws ranks, of which rank r, from 0, is asked for with a probability that is
// proportional to 1/(r+1)^theta.
type Zipf struct {
	items int
	theta float64
	zeta  float64 // the sum of 1/r^theta for r from 1 to items
	alpha float64
	eta   float64
}

// NewZipf makes a Zipf over so many items, of exponent theta. Theta 0 is the uniform
// distribution. It takes time in proportion to items, and panics unless items is
// positive and 0 <= theta < 1.
func NewZipf(items int, theta float64) *Zipf {
	if items < 1 || !(theta >= 0 && theta < 1) {
		panic(fmt.Sprintf("ycsb: no Zipf distribution of %d items with exponent %g: it takes at least one item, and an exponent from 0 to less than 1", items, theta))
	}
	z := &Zipf{items: items, theta: theta, zeta: zeta(items, theta), alpha: 1 / (1 - theta)}
	if items > 2 { // two items are all special cases
		z.eta = (1 - math.Pow(2/float64(items), 1-theta)) / (1 - zeta(2, theta)/z.zeta)
	}
	return z
}

// zeta sums the smallest first, which loses least.
func zeta(items int, theta float64) (sum float64) {
	for r := items; r >= 1; r-- {
		sum += math.Pow(float64(r), -theta)
	}
	return sum
}

// rank draws a rank, from 0 for the most popular to the number of items less one.
func (z *Zipf) rank(src Source) int {
	u := unit(src)
	switch at := u * z.zeta; {
	case at < 1 || z.items == 1:
		return 0
	case at < 1+math.Pow(0.5, z.theta) || z.items == 2:
		return 1
	}
	rank := float64(z.items) * math.Pow(float64(z.eta*u)-z.eta+1, z.alpha)
	return min(int(rank), z.items-1)
}

// Mass is the probability of a rank under Zipf's law.
func (z *Zipf) Mass(rank int) float64 {
	return math.Pow(float64(rank+1), -z.theta) / z.zeta
}

// unit draws a number from [0,1) with the 53 bits that a float64 has.
func unit(src Source) float64 { return float64(src.Uint64()>>11) / (1 << 53) }
