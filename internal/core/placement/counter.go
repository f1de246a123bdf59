package placement

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// Limits of what a Counter remembers, and so of its memory and of a Counts.
const (
	hotKeys   = 512 // keys that are counted one by one
	hotRanges = 64  // ranges that are read as such
	hotPairs  = 128 // pairs of keys that are written in one transaction
	fewest    = 4   // operations below which a key, range or pair is not reported
	linked    = 16  // keys of a transaction, above which it links none
)

// Counter counts, at a replica, the reads and writes of keys by their origin, in bounded
// memory. It takes 4 bytes a bucket, as much again for each origin of writes that it sees,
// and at most 704 keys, ranges and pairs of up to 1 KiB each. The same calls always give
// the same Counts. It is not for several goroutines at once.
type Counter struct {
	reads   []uint32 // by bucket
	origins []machine.NodeID
	writes  [][]uint32 // by origin, by bucket

	followed []followed // ascending, disjoint
	keys     *top
	ranges   *top // the ID is pairID(key, end)
	pairs    *top // the ID is pairID(key, key), the lesser first
	scratch  []byte
}

type followed struct {
	span
	load
}

// NewCounter makes a Counter with so many hash buckets, a power of two up to
// MaxBuckets, which has to be that of the Planner.
func NewCounter(buckets int) *Counter {
	if buckets < 1 || buckets > MaxBuckets || buckets&(buckets-1) != 0 {
		panic(fmt.Sprintf("placement: cannot count in %d buckets: it takes a power of two up to %d", buckets, MaxBuckets))
	}
	return &Counter{reads: make([]uint32, buckets), keys: newTop(hotKeys), ranges: newTop(hotRanges), pairs: newTop(hotPairs)}
}

// Follow has the Counter count the configuration's cells one by one, each exactly,
// whether they are hot here or not. Call it when a configuration comes into force.
func (c *Counter) Follow(conf *Configuration) {
	next := make([]followed, len(conf.spans))
	for i, s := range conf.spans {
		next[i].span = s
		if old := c.followedSpan(s.lo); old != nil && old.span == s {
			next[i].load = old.load
		}
	}
	c.followed = next
}

// followedSpan is the followed span that key is in, or nil.
func (c *Counter) followedSpan(key string) *followed {
	at := sort.Search(len(c.followed), func(i int) bool { return c.followed[i].lo > key }) - 1
	if at < 0 || c.followed[at].endsBefore(key) {
		return nil
	}
	return &c.followed[at]
}

// Read counts that a client of this replica read a key, wherever the reply came from.
func (c *Counter) Read(key []byte) {
	l, bucket := c.point(key)
	if bucket {
		add(&c.reads[Bucket(key, len(c.reads))])
	}
	if l != nil {
		l.read()
	}
}

// ReadRange counts a read of the range that key and end mean in etcd's requests, once.
func (c *Counter) ReadRange(key, end []byte) {
	s := spanOf(string(key), string(end))
	switch {
	case s.empty():
	case s.single():
		c.Read(key)
	default:
		if f := c.followedSpan(s.lo); f != nil && f.covers(s) {
			f.read()
		} else if len(key) > 0 && len(key) <= maxKey && len(end) <= maxKey {
			c.scratch = appendPair(c.scratch[:0], key, end)
			c.ranges.touch(c.scratch).read()
		}
	}
}

// Write counts a write of one or more keys, in one transaction, by a client of the
// replica origin. Count each write once in the whole group: at its origin, or at the
// leader, which sees all. Writes of ranges are not counted.
func (c *Counter) Write(origin machine.NodeID, keys ...[]byte) {
	from := c.origin(origin)
	if from < 0 {
		return
	}
	if len(keys) > 1 {
		keys = slices.Clone(keys)
		slices.SortFunc(keys, bytes.Compare)
		keys = slices.CompactFunc(keys, bytes.Equal)
	}
	for i, key := range keys {
		l, bucket := c.point(key)
		if bucket {
			add(&c.writes[from][Bucket(key, len(c.reads))])
		}
		if l != nil {
			l.write(from)
		}
		// A chain of pairs is enough to tell that all of them go together.
		if i > 0 && len(keys) <= linked && len(keys[i-1]) <= maxKey && len(key) <= maxKey {
			c.scratch = appendPair(c.scratch[:0], keys[i-1], key)
			c.pairs.touch(c.scratch).write(from)
		}
	}
}

// point says where an operation on a key is counted: in a load, if there is one for
// it, and in its bucket, unless the key is in a range that has a cell. A key with a
// cell of its own is in its bucket's count as well.
func (c *Counter) point(key []byte) (l *load, bucket bool) {
	if len(c.followed) > 0 {
		if f := c.followedSpan(string(key)); f != nil {
			return &f.load, f.single()
		}
	}
	if len(key) > 0 && len(key) <= maxKey {
		l = &c.keys.touch(key).load
	}
	return l, true
}

// origin is the place of a member in origins, or -1 if there are too many.
func (c *Counter) origin(id machine.NodeID) int {
	if at := slices.Index(c.origins, id); at >= 0 {
		return at
	}
	if len(c.origins) == maxMembers || id == 0 {
		return -1
	}
	c.origins = append(c.origins, id)
	c.writes = append(c.writes, make([]uint32, len(c.reads)))
	return len(c.origins) - 1
}

// Take gives what was counted since the last Take, and begins anew.
func (c *Counter) Take() Counts {
	order := make([]int, len(c.origins))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(c.origins[a], c.origins[b]) })

	counts := Counts{Buckets: len(c.reads), Reads: drain(c.reads)}
	for _, i := range order {
		counts.Origins = append(counts.Origins, c.origins[i])
		counts.Writes = append(counts.Writes, drain(c.writes[i]))
	}
	spans := make([]spanCount, 0, len(c.followed)+len(c.keys.heap)+len(c.ranges.heap))
	for i := range c.followed {
		f := &c.followed[i]
		if f.operations() > 0 {
			spans = append(spans, spanCount{[]byte(f.lo), []byte(f.end()), f.load.take(order)})
		}
	}
	for _, e := range c.keys.heap {
		if e.operations() >= fewest {
			spans = append(spans, spanCount{Key: []byte(e.id), Load: e.load.take(order)})
		}
	}
	for _, e := range c.ranges.heap {
		if e.operations() >= fewest {
			key, end := halves(e.id)
			spans = append(spans, spanCount{key, end, e.load.take(order)})
		}
	}
	for _, e := range c.pairs.heap {
		if e.operations() >= fewest {
			a, b := halves(e.id)
			counts.Pairs = append(counts.Pairs, PairCount{a, b, e.load.take(order).Writes})
		}
	}
	slices.SortFunc(spans, func(a, b spanCount) int { return a.compare(b) })
	slices.SortFunc(counts.Pairs, func(a, b PairCount) int { return a.compare(b) })
	counts.Spans = merge(spans)
	c.keys.clear()
	c.ranges.clear()
	c.pairs.clear()
	return counts
}

// merge adds up what was counted as a hot key and then as a cell.
func merge(spans []spanCount) []spanCount {
	kept := spans[:0]
	for _, s := range spans {
		if n := len(kept); n > 0 && kept[n-1].compare(s) == 0 {
			kept[n-1].Reads = min(kept[n-1].Reads+s.Reads, math.MaxUint32)
			for i, w := range s.Writes {
				kept[n-1].Writes[i] = min(kept[n-1].Writes[i]+w, math.MaxUint32)
			}
			continue
		}
		kept = append(kept, s)
	}
	return kept
}

// drain lists the buckets that are not 0, and makes them so.
func drain(buckets []uint32) (list []bucketCount) {
	for i, n := range buckets {
		if n > 0 {
			list = append(list, bucketCount{i, uint64(n)})
			buckets[i] = 0
		}
	}
	return list
}

func (l *load) operations() (n uint64) {
	n = uint64(l.reads)
	for _, w := range l.writes {
		n += uint64(w)
	}
	return n
}

// take gives the load by origins in order, and makes it nothing.
func (l *load) take(order []int) Load {
	t := Load{Reads: uint64(l.reads), Writes: make([]uint64, len(order))}
	for i, from := range order {
		if from < len(l.writes) {
			t.Writes[i] = uint64(l.writes[from])
		}
	}
	*l = load{}
	return t
}

// appendPair makes one string of two.
func appendPair(dst, a, b []byte) []byte {
	w := wire.Writer(dst)
	w.Bytes(a)
	w.Put(b)
	return w
}

// halves takes apart what appendPair has put together.
func halves(id string) (a, b []byte) {
	r := wire.Reader{Rest: []byte(id)}
	a = r.Bytes()
	return a, r.Rest
}
