package placement

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// errCounts says that bytes are no Counts, or that Counts do not fit a Planner.
var errCounts = errors.New("not counts of reads and writes")

// Counts holds a replica's counts since it last reported them. It sends them to the leader
// from time to time, the first way of section 3.4. One that is lost costs a little
// knowledge, one that arrives twice weighs twice; neither does harm.
type Counts struct {
	Buckets int              // how many hash buckets there are
	Origins []machine.NodeID // whose writes are counted, ascending
	Reads   []bucketCount    // by this replica's clients; ascending, none is 0
	Writes  [][]bucketCount  // by origin, each ascending, none is 0
	Spans   []spanCount      // hot keys, ranges and cells; ascending by Key, then End
	Pairs   []PairCount      // keys that were written together; ascending
}

// bucketCount is the number of operations on a bucket's keys.
type bucketCount struct {
	Bucket int
	N      uint64
}

// spanCount is the operations on a key, or on a range: of a range that is a cell,
// those on its keys too. It is at most what happened.
type spanCount struct {
	Key, End []byte // as in etcd's requests
	Load
}

// Load is a number of reads, and one of writes for each of Counts.Origins.
type Load struct {
	Reads  uint64
	Writes []uint64
}

// PairCount is how often two keys were written in one transaction.
type PairCount struct {
	A, B   []byte
	Writes []uint64 // by origin
}

// Of returns what was counted of a key by itself: nothing, of one that is not hot.
func (c Counts) Of(key []byte) Load {
	i, found := slices.BinarySearchFunc(c.Spans, key, func(s spanCount, key []byte) int {
		return s.compare(spanCount{Key: key})
	})
	if !found {
		return Load{}
	}
	return c.Spans[i].Load
}

func (s spanCount) compare(o spanCount) int {
	return cmp.Or(bytes.Compare(s.Key, o.Key), bytes.Compare(s.End, o.End))
}

func (p PairCount) compare(o PairCount) int {
	return cmp.Or(bytes.Compare(p.A, o.A), bytes.Compare(p.B, o.B))
}

// maxSpans bounds what one message may name.
const maxSpans = maxCells + hotKeys + hotRanges

// Encode writes counts: about 3 bytes for each bucket that was used, and for each
// span its keys and a few bytes more. 5,000 operations of a Zipf distribution take
// some 10 KiB.
func (c Counts) Encode() []byte {
	w := wire.Writer{format, byte(bits.Len(uint(c.Buckets)))}
	writeMembers(&w, c.Origins)
	writeBuckets(&w, c.Reads)
	for _, list := range c.Writes {
		writeBuckets(&w, list)
	}
	w.Count(len(c.Spans))
	for _, s := range c.Spans {
		w.Bytes(s.Key)
		w.Bytes(s.End)
		w.Uvarint(s.Reads)
		writeWrites(&w, s.Writes)
	}
	w.Count(len(c.Pairs))
	for _, p := range c.Pairs {
		w.Bytes(p.A)
		w.Bytes(p.B)
		writeWrites(&w, p.Writes)
	}
	return w
}

func writeBuckets(w *wire.Writer, list []bucketCount) {
	w.Count(len(list))
	next := 0
	for _, c := range list {
		w.Uvarint(uint64(c.Bucket - next))
		w.Uvarint(c.N)
		next = c.Bucket + 1
	}
}

func writeWrites(w *wire.Writer, writes []uint64) {
	for _, n := range writes {
		w.Uvarint(n)
	}
}

// DecodeCounts reads what Encode wrote, and refuses everything else with errCounts.
// It keeps no reference to data.
func DecodeCounts(data []byte) (Counts, error) {
	r := newReader(data, errCounts)
	if v := r.number(255, "the format"); r.err == nil && v != format {
		r.fail("format %d is not known here: a newer version wrote it", v)
	}
	var c Counts
	if n := r.number(uint64(bits.Len(MaxBuckets)), "the number of buckets"); n > 0 {
		c.Buckets = 1 << (n - 1)
	} else {
		r.fail("no buckets")
	}
	var last uint64
	for i := range r.count(maxMembers, "origins") {
		step := r.number(math.MaxUint64-last, "an origin")
		if last += step; step == 0 {
			r.fail("origin %d of them comes twice, or is no member", i)
		}
		c.Origins = append(c.Origins, machine.NodeID(last))
	}
	c.Reads = r.buckets(c.Buckets)
	for range c.Origins {
		c.Writes = append(c.Writes, r.buckets(c.Buckets))
	}
	for i := range r.count(maxSpans, "keys and ranges") {
		s := spanCount{Key: r.text(maxKey, "a key"), End: r.text(maxKey, "an end")}
		s.Load = Load{r.number(math.MaxUint32, "a number of reads"), r.writes(len(c.Origins))}
		if r.err == nil && (len(s.Key) == 0 || spanOf(string(s.Key), string(s.End)).empty()) {
			r.fail("%q to %q is no range", s.Key, s.End)
		}
		if r.err == nil && i > 0 && c.Spans[i-1].compare(s) >= 0 {
			r.fail("%q comes after %q", s.Key, c.Spans[i-1].Key)
		}
		c.Spans = append(c.Spans, s)
	}
	for i := range r.count(hotPairs, "pairs") {
		p := PairCount{r.text(maxKey, "a key"), r.text(maxKey, "a key"), r.writes(len(c.Origins))}
		if r.err == nil && (bytes.Compare(p.A, p.B) >= 0 || i > 0 && c.Pairs[i-1].compare(p) >= 0) {
			r.fail("the pair of %q and %q is not in its place", p.A, p.B)
		}
		c.Pairs = append(c.Pairs, p)
	}
	if err := r.done(); err != nil {
		return Counts{}, err
	}
	return c, nil
}

func (r *reader) buckets(limit int) []bucketCount {
	n := r.count(limit, "buckets")
	if n == 0 {
		return nil
	}
	list, next := make([]bucketCount, n), 0
	for i := range list {
		list[i].Bucket = next + int(r.number(uint64(max(0, limit-1-next)), "a bucket"))
		list[i].N = r.number(math.MaxUint32, "a number of operations")
		if next = list[i].Bucket + 1; list[i].N == 0 || next > limit {
			r.fail("nothing in bucket %d of %d", list[i].Bucket, limit)
		}
	}
	return list
}

func (r *reader) writes(origins int) []uint64 {
	w := make([]uint64, origins)
	for i := range w {
		w[i] = r.number(math.MaxUint32, "a number of writes")
	}
	return w
}
