package placement

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestQuotesWithinQuotes: a key in quotes may have quotes and separators in it.
func TestQuotesWithinQuotes(t *testing.T) {
	const key = `a";b=c`
	c, err := Parse(fmt.Sprintf("key:%q = JP; default = CA", key), wide)
	if err != nil {
		t.Fatalf("a key with quotes in it is refused: %v", err)
	}
	if cells := c.Cells(); len(cells) != 1 || string(cells[0].Key) != key {
		t.Errorf("a key with quotes in it is read as %v, want %q", cells, key)
	}
}

// TestNobodyWrites: a write whose origin is not known is not counted, and makes nobody an origin.
func TestNobodyWrites(t *testing.T) {
	c := NewCounter(1)
	times(fewest, func() { c.Write(0, []byte("k")) })
	if got := c.Take(); len(got.Origins) != 0 || len(got.Spans) != 0 {
		t.Errorf("writes of nobody are told as %+v", got)
	}
}

// TestHotAndThenACell: what was counted of a key before it had a cell adds to what is counted of the cell.
func TestHotAndThenACell(t *testing.T) {
	c := NewCounter(1)
	k := []byte("k")
	count := func() { times(5, func() { c.Read(k); c.Write(5, k); c.Write(7, k) }) }
	count()
	c.Follow(must(t)(New(three, 1, []Cell{cell("k", "", 2)}, nil)))
	count()
	got := c.Take().Of(k)
	if want := (Load{10, []uint64{10, 10}}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("a key that was hot, and then a cell: counted %v, want %v", got, want)
	}
}

// TestTheClockGoesBack: counts fade with the time that has passed, and not again when it passes once more.
func TestTheClockGoesBack(t *testing.T) {
	p := widePlanner(Settings{Policy: Cost, Buckets: 1, HalfLife: time.Minute})
	p.decay(seconds(0))
	p.bucket(0)[0] = 1024
	for _, step := range []struct {
		at   float64
		want float32
	}{{60, 512}, {0, 512}, {60, 512}, {120, 256}} {
		p.decay(seconds(step.at))
		if got := p.bucket(0)[0]; got != step.want {
			t.Errorf("1024 operations, at %v s: they count as %v, want %v", step.at, got, step.want)
		}
	}
}

// TestGroupsAreLimited: keys that are written in one long chain are no group of all of them.
func TestGroupsAreLimited(t *testing.T) {
	p := widePlanner(Settings{Policy: Cost, Buckets: 1})
	load := func() []float32 { l := make([]float32, 2*sites); l[sites] = 100; return l }
	var hot []string
	for i := range 3 * linked {
		key := fmt.Sprintf("%03d", i)
		p.keys[key] = load()
		if i > 0 {
			p.pairs[pair{hot[i-1], key}] = load()
		}
		hot = append(hot, key)
	}
	d := draft{Planner: p, hot: hot}
	keys := 0
	for _, g := range d.groups() {
		keys += len(g.keys)
		if len(g.keys) > linked {
			t.Errorf("%d keys are one group, %d are the most", len(g.keys), linked)
		}
	}
	if keys != len(hot) {
		t.Errorf("the groups have %d keys, want each of %d in one", keys, len(hot))
	}
}

// TestEveryKeyIsWritten: whatever bytes a key has, the text of its cell reads back as that cell.
func TestEveryKeyIsWritten(t *testing.T) {
	for _, key := range []string{"a..b", "..", "+.", "+", "a.", ".", "a=b", "a;b", "a,b", " a", "a b", `a"`, `"a"`, `a\`, "a\x00", "\xff", "\u00a0", "*", "default", "é"} {
		for _, end := range []string{"", "\x00", key + "x", key + ".", key + "..", key + "\x00\x00", prefixEnd(key)} {
			want, err := New([]machine.NodeID{1, 2, 3, 4, 5}, 2, []Cell{{Key: []byte(key), End: []byte(end), Holders: 1}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			text := want.Format(wide)
			if got, err := Parse(text, wide); err != nil || !got.Equal(want) {
				t.Errorf("the cell from %q to %q is written as %s, which reads back as %v, %v", key, end, text, got, err)
			}
		}
	}
}

// TestPrefixEnd: the first key behind all that begin with a prefix is the next of its length, without the bytes that cannot
// be greater. If there is none the prefix goes to the end of the keys.
func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "", "a": "b", "ab": "ac", "\x00": "\x01", "a\xfe": "a\xff", "a\xff": "b", "a\xff\xff": "b", "a\xffb": "a\xffc", "\xff": "", "\xff\xff": "",
	} {
		if got := prefixEnd(prefix); got != want {
			t.Errorf("behind all that begins with %q there comes %q, want %q", prefix, got, want)
		}
	}
}

// TestLearnersDoNotVote: a planner does not take a learner for one of those who make a majority.
func TestLearnersDoNotVote(t *testing.T) {
	members := []Member{{ID: 3}, {ID: 1, Learner: true}, {ID: 2}}
	p, err := NewPlanner(Settings{Policy: Cost, Members: members, Leader: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := SetOf(1, 2); p.distances.voters != want {
		t.Errorf("of three members, the first a learner, %03b vote, want %03b", p.distances.voters, want)
	}
}

// TestDefaults: what is 0 has the default that Settings name, and what is set stays.
func TestDefaults(t *testing.T) {
	for policy, want := range map[Policy]Settings{
		Cost:   {Buckets: MaxBuckets, Cells: 256, HalfLife: 5 * time.Minute, Prior: 5, Price: 50 * time.Millisecond, Doubt: 0.5},
		Quorum: {Buckets: MaxBuckets, Cells: 256, HalfLife: 5 * time.Minute, Prior: 0, Price: 20 * time.Millisecond, Doubt: 1},
	} {
		want.Policy, want.Members, want.Leader = policy, wide, 2
		got, err := Settings{Policy: policy, Members: wide, Leader: 2}.complete()
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the defaults of %v are %+v, %v; want %+v", policy, got, err, want)
		}
		set := want
		set.Buckets, set.Cells, set.HalfLife, set.Price, set.Doubt = 8, 7, time.Second, time.Second, 3
		if got, err := set.complete(); err != nil || fmt.Sprint(got) != fmt.Sprint(set) {
			t.Errorf("settings of %v that are given become %+v, %v; want %+v", policy, got, err, set)
		}
	}
}

// TestAKeyIsWrittenOnce: a transaction that names a key twice writes it once.
func TestAKeyIsWrittenOnce(t *testing.T) {
	c := NewCounter(1)
	k := []byte("k")
	times(fewest, func() { c.Write(5, k, k) })
	got := c.Take()
	if l := got.Of(k); len(got.Pairs) != 0 || fmt.Sprint(l.Writes) != fmt.Sprint([]uint64{fewest}) || got.Writes[0][0].N != fewest {
		t.Errorf("%d transactions that name a key twice are told as %+v", fewest, got)
	}
}

// TestRangeCellsAreLimited: of many ranges that are read, no more than maxRanges get cells.
func TestRangeCellsAreLimited(t *testing.T) {
	s := newStage(t, Settings{Policy: Cost, Buckets: 8})
	for i := range maxRanges + 8 {
		from := fmt.Appendf(nil, "%02d", i)
		times(100, func() { s.counters[jp].ReadRange(from, append(from[:2:2], '~')) })
	}
	conf, _ := s.plan(10)
	ranges := 0
	for _, c := range conf.spans {
		if !c.single() {
			ranges++
		}
	}
	if ranges != maxRanges {
		t.Errorf("%d ranges have cells, want %d", ranges, maxRanges)
	}
}

// TestThePriceOfAChange: what a change of holders saves has to exceed its price.
func TestThePriceOfAChange(t *testing.T) {
	load := make([]float32, 2*sites)
	load[jp] = 1 // a read that takes a round trip to the leader, 120 ms
	traffic := make([]float64, 2*sites)
	for price, moves := range map[time.Duration]bool{100 * time.Millisecond: true, 200 * time.Millisecond: false} {
		m := newMeasure(Settings{Policy: Cost, Price: price}, wideDistances(), traffic)
		if got := m.choose(load, m.leaderOnly, m.leaderOnly); got.Has(jp) != moves {
			t.Errorf("a change that saves 120 ms, at a price of %v: held by %05b then; want the reader among them: %v", price, got, moves)
		}
	}
}

// TestRangesOfAPlanDoNotOverlap: of two that do, the one that gains more has a cell.
func TestRangesOfAPlanDoNotOverlap(t *testing.T) {
	s := newStage(t, Settings{Policy: Cost, Buckets: 8})
	times(100, func() { s.counters[jp].ReadRange([]byte("a"), []byte("m")) })
	times(500, func() { s.counters[jp].ReadRange([]byte("c"), []byte("z")) })
	conf, _ := s.plan(10)
	if len(conf.spans) != 1 || conf.spans[0].lo != "c" {
		t.Errorf("of two ranges that overlap %v have cells, want the one that is read more", conf.Cells())
	}
}

// TestBucketsThatThereAreNot: counts of more buckets than they say are refused.
func TestBucketsThatThereAreNot(t *testing.T) {
	for _, n := range []int{1, 2, 8} {
		c := Counts{Buckets: n, Reads: []bucketCount{{n - 1, 3}}}
		if _, err := DecodeCounts(c.Encode()); err != nil {
			t.Errorf("the last of %d buckets is refused: %v", n, err)
		}
		c.Reads = append(c.Reads, bucketCount{n, 3})
		if _, err := DecodeCounts(c.Encode()); !errors.Is(err, errCounts) {
			t.Errorf("bucket %d of %d: %v, want %v", n, n, err, errCounts)
		}
	}
}

// TestPairsInTheirPlace: each pair is named once, in order, and its lesser key first.
func TestPairsInTheirPlace(t *testing.T) {
	p := func(a, b string) PairCount { return PairCount{[]byte(a), []byte(b), []uint64{1}} }
	for _, tt := range []struct {
		pairs []PairCount
		fine  bool
	}{
		{[]PairCount{p("a", "b"), p("a", "c"), p("b", "c")}, true},
		{[]PairCount{p("a", "c"), p("a", "b")}, false},
		{[]PairCount{p("b", "c"), p("a", "b")}, false},
		{[]PairCount{p("a", "b"), p("a", "b")}, false},
		{[]PairCount{p("b", "a")}, false},
		{[]PairCount{p("a", "a")}, false},
	} {
		c := Counts{Buckets: 1, Origins: []machine.NodeID{1}, Writes: [][]bucketCount{nil}, Pairs: tt.pairs}
		if _, err := DecodeCounts(c.Encode()); (err == nil) != tt.fine || err != nil && !errors.Is(err, errCounts) {
			t.Errorf("the pairs %+v: %v, want them taken: %v", tt.pairs, err, tt.fine)
		}
	}
}

// TestGroupsOfChains: keys that are written together in a chain are one group, in whatever order
// its links are found, and what writes several of them is one write. A key that is read much is
// no less written with another.
func TestGroupsOfChains(t *testing.T) {
	p := widePlanner(Settings{Policy: Cost, Buckets: 1})
	var hot []string
	for _, k := range []struct {
		key    string
		reads  float32
		writes float32
	}{{"a", 900, 100}, {"b", 0, 90}, {"c", 0, 80}, {"d", 0, 70}, {"e", 0, 60}, {"f", 500, 10}, {"g", 0, 9}} {
		load := known(p.keys, k.key, sites)
		load[jp], load[sites+or] = k.reads, k.writes
		hot = append(hot, k.key)
	}
	for pr, joint := range map[pair]float32{{"a", "b"}: 70, {"c", "d"}: 60, {"b", "c"}: 55, {"d", "e"}: 50, {"f", "g"}: 8, {"e", "f"}: 5} {
		known(p.pairs, pr, sites)[sites+or] = joint
	}
	d := draft{Planner: p, hot: hot}
	var got []string
	for _, g := range d.groups() {
		load := g.load()
		got = append(got, fmt.Sprintf("%s: %g reads, %g writes", strings.Join(g.keys, ""), load[jp], load[sites+or]))
	}
	want := []string{"abcde: 900 reads, 165 writes", "fg: 500 reads, 11 writes"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the groups are %q, want %q", got, want)
	}
}

// TestQuorumsOfAnyGroup: a quorum is the leader and half of the group, as far as members are
// there, and no more of them.
func TestQuorumsOfAnyGroup(t *testing.T) {
	half := map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4}
	for members := range half {
		for down := range members {
			d := NewDistances(members, first(members), 0)
			d.down = first(down+1) &^ SetOf(0)
			want := min(half[members], members-down)
			m := newMeasure(Settings{Policy: Quorum}, d, make([]float64, 2*members))
			for _, set := range m.candidates {
				if set.Len() != want || !set.Has(0) || set&d.down != 0 {
					t.Errorf("of %d members, %d of them down, %b may be a quorum, want the leader and %d in all that are there", members, down, set, want)
				}
			}
			if len(m.candidates) == 0 || len(m.turns) != members-down-1 {
				t.Errorf("of %d members, %d of them down, there are %d quorums, and %d members take turns", members, down, len(m.candidates), len(m.turns))
			}
		}
	}
}

// TestGroupsAreJoinedOnce: keys that are all written with each other are one group, each of them in it
// once, and every pair of them counts by the chain that joined it.
func TestGroupsAreJoinedOnce(t *testing.T) {
	p := widePlanner(Settings{Policy: Cost, Buckets: 1})
	hot := []string{"a", "b", "c"}
	for _, key := range hot {
		known(p.keys, key, sites)[sites+or] = 100
	}
	for pr, joint := range map[pair]float32{{"a", "b"}: 90, {"b", "c"}: 80, {"a", "c"}: 70} {
		known(p.pairs, pr, sites)[sites+or] = joint
	}
	var got []string
	for _, g := range (&draft{Planner: p, hot: hot}).groups() {
		got = append(got, fmt.Sprintf("%s: %g writes", strings.Join(g.keys, ""), g.load()[sites+or]))
	}
	if want := []string{"abc: 130 writes"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the groups are %q, want %q", got, want)
	}
}

// TestTheLeaderIsNotIdle: a member that would read here by what is usual, and does not, is idle. The
// leader holds everything, read or not.
func TestTheLeaderIsNotIdle(t *testing.T) {
	m := newMeasure(Settings{Policy: Cost}, NewDistances(3, first(3), 0), make([]float64, 6))
	m.expect([]float32{1, 1, 1, 0, 0, 0}, 5)
	if got, want := m.idle([]float32{0, 100, 0, 0, 0, 0}), SetOf(2); got != want {
		t.Errorf("where member 1 reads and 0 leads, %b are idle, want %b", got, want)
	}
}

// TestGroupsHaveALimit: as many keys as one transaction may link are one group, and not one more.
func TestGroupsHaveALimit(t *testing.T) {
	for keys, want := range map[int]int{linked: 1, linked + 1: 2} {
		p := widePlanner(Settings{Policy: Cost, Buckets: 1})
		var hot []string
		for i := range keys {
			hot = append(hot, fmt.Sprintf("%02d", i))
			known(p.keys, hot[i], sites)[sites+or] = 10
			if i > 0 {
				known(p.pairs, pair{hot[i-1], hot[i]}, sites)[sites+or] = 10
			}
		}
		if got := (&draft{Planner: p, hot: hot}).groups(); len(got) != want {
			t.Errorf("a chain of %d keys is %d groups, want %d", keys, len(got), want)
		}
	}
}
