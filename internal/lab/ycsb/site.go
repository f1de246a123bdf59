package ycsb

import (
	"fmt"
	"math"
	"math/bits"
)

// Order assigns keys to ranks at a site: Order[rank] is the key. It is a permutation of the
// numbers from 0.
type Order []int32

// NewOrder shuffles the keys from 0 to items-1; each permutation is equally likely.
func NewOrder(items int, src Source) Order {
	if items < 1 || items > math.MaxInt32 {
		panic(fmt.Sprintf("ycsb: cannot order %d keys: from 1 to %d will do", items, math.MaxInt32))
	}
	o := make(Order, items)
	for i := range o {
		o[i] = int32(i)
	}
	for i := items - 1; i > 0; i-- {
		j := below(src, uint64(i+1))
		o[i], o[j] = o[j], o[i]
	}
	return o
}

// Site generates the requests of one site's clients.
type Site struct {
	Popularity *Zipf
	Order      Order   // nil: the key is the rank
	Reads      float64 // the part of the operations that are reads, from 0 to 1
}

// Op is an operation on one key.
type Op struct {
	Key  int
	Read bool // else it is a write
}

// Next draws an operation. Whether it reads does not depend on its key.
func (s Site) Next(src Source) Op {
	op := Op{Read: unit(src) < s.Reads, Key: s.Popularity.rank(src)}
	if s.Order != nil {
		op.Key = int(s.Order[op.Key])
	}
	return op
}

// below draws a number less than n, all equally likely: Lemire, Fast Random Integer
// Generation in an Interval, 2019.
func below(src Source, n uint64) uint64 {
	hi, lo := bits.Mul64(src.Uint64(), n)
	if lo < n {
		for bound := -n % n; lo < bound; {
			hi, lo = bits.Mul64(src.Uint64(), n)
		}
	}
	return hi
}
