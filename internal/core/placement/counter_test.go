package placement

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/ycsb"
	"github.com/tenure-lease/tenure/internal/machine"
)

// times repeats.
func times(n int, do func()) {
	for range n {
		do()
	}
}

func TestCounter(t *testing.T) {
	c := NewCounter(1)
	times(5, func() { c.Read([]byte("a")) })
	times(4, func() { c.Write(9, []byte("a")) })
	written := [][]byte{[]byte("b"), []byte("a"), []byte("b")}
	times(4, func() { c.Write(3, written...) })
	if got := string(bytes.Join(written, nil)); got != "bab" {
		t.Errorf("the caller's keys are %s now, want them as they were: bab", got)
	}
	times(6, func() { c.ReadRange([]byte("r"), []byte("s")) })
	times(2, func() { c.ReadRange([]byte("b"), []byte("b\x00")) }) // one key
	times(9, func() { c.ReadRange([]byte("b"), []byte("a")) })     // nothing
	times(3, func() { c.Read([]byte("seldom")) })
	want := Counts{
		Buckets: 1,
		Origins: []machine.NodeID{3, 9},
		Reads:   []bucketCount{{0, 10}},
		Writes:  [][]bucketCount{{{0, 8}}, {{0, 4}}},
		Spans: []spanCount{
			{[]byte("a"), nil, Load{5, []uint64{4, 4}}},
			{[]byte("b"), nil, Load{2, []uint64{4, 0}}},
			{[]byte("r"), []byte("s"), Load{6, []uint64{0, 0}}},
		},
		Pairs: []PairCount{{[]byte("a"), []byte("b"), []uint64{4, 0}}},
	}
	if got := c.Take(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := c.Take(); got.Reads != nil || len(got.Spans) > 0 || len(got.Pairs) > 0 || got.Writes[0] != nil {
		t.Errorf("taken twice: %+v", got)
	}
}

// TestLargeTransactions: what writes very many keys says nothing about any two.
func TestLargeTransactions(t *testing.T) {
	for n, want := range map[int]int{linked: linked - 1, linked + 1: 0} {
		var keys [][]byte
		for i := range n {
			keys = append(keys, []byte{byte('a' + i)})
		}
		c := NewCounter(1)
		times(fewest, func() { c.Write(1, keys...) })
		if got := c.Take(); len(got.Pairs) != want || len(got.Spans) != n {
			t.Errorf("transactions of %d keys gave %d pairs and %d keys, want %d and %d", n, len(got.Pairs), len(got.Spans), want, n)
		}
	}
}

// TestFollow: cells are counted one by one from the first operation on; what is in a
// range that is a cell counts there and in no bucket, what is in a key's, in both.
func TestFollow(t *testing.T) {
	conf := must(t)(New(three, 1, []Cell{cell("k", "", 2), cell("r", "s", 2)}, nil))
	c := NewCounter(1)
	times(7, func() { c.Read([]byte("k")) }) // as a hot key
	c.Follow(conf)
	c.Read([]byte("k"))
	c.Write(5, []byte("r1"))
	c.Read([]byte("r2"))
	c.ReadRange([]byte("r1"), []byte("r9"))
	c.Follow(conf) // forgets nothing
	times(4, func() { c.ReadRange([]byte("r"), []byte("t")) })
	want := []spanCount{
		{[]byte("k"), []byte{}, Load{8, []uint64{0}}},
		{[]byte("r"), []byte("s"), Load{2, []uint64{1}}},
		{[]byte("r"), []byte("t"), Load{4, []uint64{0}}},
	}
	got := c.Take()
	for i := range got.Spans {
		got.Spans[i].End = append([]byte{}, got.Spans[i].End...)
	}
	if !reflect.DeepEqual(got.Spans, want) {
		t.Errorf("got  %+v\nwant %+v", got.Spans, want)
	}
	if want := []bucketCount{{0, 8}}; !reflect.DeepEqual(got.Reads, want) || got.Writes[0] != nil {
		t.Errorf("in buckets %+v and %+v, want %+v and nothing", got.Reads, got.Writes, want)
	}
}

// TestHotKeysAreFound: of a Zipf distribution, those that have more than one 512th of
// all operations are there, and none is said to have had more than it had.
func TestHotKeysAreFound(t *testing.T) {
	const operations = 50_000
	site := ycsb.Site{Popularity: ycsb.NewZipf(100_000, 0.99), Reads: 1}
	src, c, truth := rand.NewPCG(8, 8), NewCounter(1), map[string]uint64{}
	for range operations {
		key := fmt.Appendf(nil, "user%d", site.Next(src).Key)
		c.Read(key)
		truth[string(key)]++
	}
	counts := c.Take()
	found := map[string]bool{}
	for _, s := range counts.Spans {
		found[string(s.Key)] = true
		if s.Reads > truth[string(s.Key)] {
			t.Errorf("%s was read %d times, %d are told", s.Key, truth[string(s.Key)], s.Reads)
		}
	}
	for key, n := range truth {
		if n > operations/hotKeys && !found[key] {
			t.Errorf("%s was read %d times, and not told", key, n)
		}
	}
	if len(found) > hotKeys {
		t.Errorf("%d hot keys, at most %d are kept", len(found), hotKeys)
	}
}

// TestCounterIsBounded floods it with what is never the same twice.
func TestCounterIsBounded(t *testing.T) {
	c := NewCounter(64)
	for i := range 20_000 {
		key := fmt.Appendf(nil, "%d", i)
		c.Read(key)
		c.ReadRange(key, append(key, 'z'))
		c.Write(machine.NodeID(1+i%70), key, append(key, 'x'))
		c.Read([]byte(strings.Repeat("k", maxKey+1+i%3)))
	}
	for _, test := range []struct {
		what       string
		top        *top
		got, limit int
	}{
		{"keys", c.keys, len(c.keys.heap), hotKeys},
		{"ranges", c.ranges, len(c.ranges.heap), hotRanges},
		{"pairs", c.pairs, len(c.pairs.heap), hotPairs},
		{"origins", nil, len(c.origins), maxMembers},
	} {
		if test.got != test.limit {
			t.Errorf("%d %s, want %d", test.got, test.what, test.limit)
		}
		if test.top != nil && len(test.top.index) != test.limit {
			t.Errorf("the index has %d %s, want %d", len(test.top.index), test.what, test.limit)
		}
	}
	if _, err := DecodeCounts(c.Take().Encode()); err != nil {
		t.Error(err)
	}
}

// TestTopIsAHeap checks order and index after any touches.
func TestTopIsAHeap(t *testing.T) {
	top, rnd := newTop(20), rand.New(rand.NewPCG(9, 9))
	for range 20_000 {
		top.touch([]byte{byte(rnd.ExpFloat64() * 10)})
		for i, e := range top.heap {
			if e.at != i || top.index[e.id] != e || i > 0 && top.heap[(i-1)/2].rank > e.rank {
				t.Fatalf("entry %+v is not in its place %d", e, i)
			}
		}
	}
}

// TestSameCountsSameBytes: nothing depends on the order of a map.
func TestSameCountsSameBytes(t *testing.T) {
	w := newWorkload(5000, 0.99, 0.7)
	var first [][]byte
	for range 3 {
		counters := newCounters(1 << 10)
		w.run(counters, 5000, rand.NewPCG(1, 1))
		for i, c := range counters {
			data := c.Take().Encode()
			if len(first) <= i {
				first = append(first, data)
			} else if !bytes.Equal(data, first[i]) {
				t.Fatalf("counter %d wrote other bytes the second time", i)
			}
		}
	}
	if n := len(first[0]); n > 15_000 {
		t.Errorf("5,000 operations take %d bytes", n)
	}
}

func TestNewCounterRefuses(t *testing.T) {
	for _, n := range []int{0, -1, 3, 1 << 17} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d buckets were accepted", n)
				}
			}()
			NewCounter(n)
		}()
	}
}

// TestBucketNeverChanges: members of different versions must agree.
func TestBucketNeverChanges(t *testing.T) {
	for key, want := range map[string]int{"": 11903, "a": 28529, "user1": 25493, "user2": 34453, "/registry/pods/x": 57735} {
		if got := Bucket([]byte(key), MaxBuckets); got != want {
			t.Errorf("%q is in bucket %d, want %d", key, got, want)
		}
	}
	counts := make([]int, 64)
	for i := range 64_000 {
		counts[Bucket(fmt.Appendf(nil, "user%d", i), 64)]++
	}
	chi := 0.0
	for _, n := range counts {
		chi += float64((n-1000)*(n-1000)) / 1000
	}
	if chi > 120 { // of 63 degrees of freedom: mean 63, deviation 11
		t.Errorf("chi-squared of 64 buckets is %.0f: the hash is uneven", chi)
	}
}

func BenchmarkRead(b *testing.B) {
	w := newWorkload(100_000, 0.99, 1)
	c, src := NewCounter(MaxBuckets), rand.NewPCG(1, 1)
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = w.keys[w.sites[0].Next(src).Key]
	}
	for i := 0; b.Loop(); i++ {
		c.Read(keys[i%len(keys)])
	}
}

// An item that displaces another has its rank, and none of its load. A taken item holds no
// place.
func TestWhoComesInherits(t *testing.T) {
	list := newTop(2)
	for _, id := range []string{"a", "a", "a", "b", "b"} {
		list.touch([]byte(id)).read()
	}
	if e := list.touch([]byte("c")); e.rank != 3 || e.reads != 0 || list.index["b"] != nil || list.index["c"] != e {
		t.Errorf("in the place of one of rank 2 there is %+v, want one of rank 3 that nobody has read", e)
	}
	c := NewCounter(16)
	for range 10 {
		c.Write(1, []byte("a"), []byte("b"))
		c.ReadRange([]byte("a"), []byte("c"))
	}
	c.Take()
	for what, top := range map[string]*top{"keys": c.keys, "ranges": c.ranges, "pairs": c.pairs} {
		if len(top.heap)+len(top.index) > 0 {
			t.Errorf("%d %s that were taken hold places still", len(top.heap), what)
		}
	}
}

// A cell that is another than before begins at nothing: it takes over no count of a cell that it
// was a part of.
func TestFollowAnotherCell(t *testing.T) {
	follow := func(c *Counter, cells ...Cell) { c.Follow(must(t)(New(three, 1, cells, nil))) }
	c := NewCounter(1)
	follow(c, cell("a", "m", 2), cell("r", "s", 2))
	times(5, func() { c.Read([]byte("b")) })
	times(3, func() { c.Read([]byte("r1")) })
	follow(c, cell("a", "c", 2), cell("c", "m", 2), cell("r", "s", 2))
	loads := map[string]uint64{}
	for _, s := range c.Take().Spans {
		if len(s.End) > 0 {
			loads[string(s.Key)+"-"+string(s.End)] = s.Load.Reads
		}
	}
	if want := map[string]uint64{"r-s": 3}; !reflect.DeepEqual(loads, want) {
		t.Errorf("the cells have %v reads, want %v", loads, want)
	}
}
