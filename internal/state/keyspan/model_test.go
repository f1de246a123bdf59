package keyspan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The keys of the model: few, so that spans meet, with neighbours and successors.
var universe = []string{"\x00", "a", "a\x00", "a\x00\x00", "ab", "b", "b\x00", "c", "d", "\xff", "\xff\xff"}

var someEnds = []string{"", "", "\x00", "a", "a\x00", "ab", "b", "b\x00", "c", "e", "\xff", "\xff\xff\x00"}

func someSpan(t *rapid.T) Span {
	if rapid.IntRange(0, 30).Draw(t, "barrier") == 0 {
		return All()
	}
	return Span{
		Key: []byte(rapid.SampledFrom(universe).Draw(t, "key")),
		End: []byte(rapid.SampledFrom(someEnds).Draw(t, "end")),
	}
}

func someSet(t *rapid.T, most int) Set {
	return rapid.SliceOfN(rapid.Custom(someSpan), 0, most).Draw(t, "set")
}

// keysOf is the definition of a span, as etcd has it: which keys of the universe
// are in it.
func keysOf(s Set) (keys []string) {
	for _, k := range universe {
		if slices.ContainsFunc(s, func(s Span) bool {
			switch {
			case len(s.End) == 0:
				return k == string(s.Key)
			case string(s.End) == "\x00":
				return k >= string(s.Key)
			}
			return k >= string(s.Key) && k < string(s.End)
		}) {
			keys = append(keys, k)
		}
	}
	return keys
}

// share reports whether two sets share a key of the universe. The universe is dense
// enough to decide it for the spans of someSpan: it holds every first key, and two
// spans that meet share the greater of theirs.
func share(a, b Set) bool {
	in := keysOf(b)
	return slices.ContainsFunc(keysOf(a), func(k string) bool { return slices.Contains(in, k) })
}

// modelEntry is an entry in a plain list.
type modelEntry struct {
	index         uint64
	writes, reads Set
	released      bool
}

type model struct {
	entries []modelEntry
	floor   uint64
}

func (m *model) clean() {
	m.entries = slices.DeleteFunc(m.entries, func(e modelEntry) bool { return e.released && e.index <= m.floor })
}

func (m *model) look(s Set) (last, first uint64) {
	for _, e := range m.entries {
		if share(e.writes, s) {
			last = e.index
			if first == 0 && !e.released {
				first = e.index
			}
		}
	}
	return last, first
}

func (m *model) blocked(index uint64) uint64 {
	at := slices.IndexFunc(m.entries, func(e modelEntry) bool { return e.index == index })
	if at < 0 || m.entries[at].released {
		return 0
	}
	for _, e := range m.entries[:at] {
		if !e.released && (share(e.writes, m.entries[at].writes) || share(e.writes, m.entries[at].reads)) {
			return e.index
		}
	}
	return 0
}

func (m *model) overtaken(index uint64) uint64 {
	at := slices.IndexFunc(m.entries, func(e modelEntry) bool { return e.index == index })
	if at < 0 || m.entries[at].released {
		return 0
	}
	for _, e := range m.entries[:at] {
		if !e.released && share(e.writes, m.entries[at].reads) {
			return e.index
		}
	}
	return 0
}

func (m *model) unreleased() (list []uint64) {
	for _, e := range m.entries {
		if !e.released {
			list = append(list, e.index)
		}
	}
	return list
}

func TestTableAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table
		var m model
		last := uint64(0)
		someIndex := func(t *rapid.T) uint64 {
			return rapid.Uint64Range(max(last, 20)-20, last+2).Draw(t, "index")
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				last += rapid.Uint64Range(1, 3).Draw(t, "gap")
				writes, reads := someSet(t, 4), someSet(t, 2)
				// The Table must not keep what it was given.
				table.Add(last, scratch(writes), scratch(reads))
				if len(keysOf(writes)) > 0 || len(keysOf(reads)) > 0 {
					m.entries = append(m.entries, modelEntry{index: last, writes: writes, reads: reads})
				}
			},
			"truncate": func(t *rapid.T) {
				from := someIndex(t)
				for _, e := range m.entries {
					if e.released {
						from = max(from, e.index+1)
					}
				}
				from = max(from, table.final+1)
				table.Truncate(from)
				m.entries = slices.DeleteFunc(m.entries, func(e modelEntry) bool { return e.index >= from })
				last = min(last, from-1)
			},
			"release": func(t *rapid.T) {
				index := someIndex(t)
				table.Release(index)
				for i, e := range m.entries {
					m.entries[i].released = e.released || e.index == index
				}
				m.cleanReads()
			},
			"release a prefix": func(t *rapid.T) {
				index := max(someIndex(t), 10) - 10
				table.ReleaseThrough(index)
				for i, e := range m.entries {
					m.entries[i].released = e.released || e.index <= index
				}
				m.cleanReads()
			},
			"forget": func(t *rapid.T) {
				through := someIndex(t)
				table.Forget(through)
				m.floor = max(m.floor, through)
				m.clean()
			},
			"": func(t *rapid.T) {
				s := someSet(t, 3)
				gotLast, gotFirst := table.Look(s)
				if wantLast, wantFirst := m.look(s); gotLast != wantLast || gotFirst != wantFirst {
					t.Fatalf("Look(%v): got %d, %d, want %d, %d", s, gotLast, gotFirst, wantLast, wantFirst)
				}
				if table.LastTouch(s) != gotLast || table.FirstUnreleased(s) != gotFirst {
					t.Fatalf("of %v LastTouch is %d, FirstUnreleased %d; Look gives %d, %d", s, table.LastTouch(s), table.FirstUnreleased(s), gotLast, gotFirst)
				}
				for _, e := range m.entries {
					if has, held := table.Has(e.index), table.Held(e.index); !has || held == e.released {
						t.Fatalf("entry %d, released %v: Has is %v, Held %v", e.index, e.released, has, held)
					}
					if got, want := table.Blocked(e.index), m.blocked(e.index); got != want {
						t.Fatalf("Blocked(%d): got %d, want %d", e.index, got, want)
					}
					if got, want := table.Overtaken(e.index), m.overtaken(e.index); got != want {
						t.Fatalf("Overtaken(%d): got %d, want %d", e.index, got, want)
					}
				}
				for _, absent := range []uint64{0, last + 1} {
					if b, o := table.Blocked(absent), table.Overtaken(absent); b != 0 || o != 0 {
						t.Fatalf("entry %d, which there is not, waits for %d, overtakes %d", absent, b, o)
					}
					if table.Has(absent) || table.Held(absent) {
						t.Fatalf("entry %d, which there is not: Has is %v, Held %v", absent, table.Has(absent), table.Held(absent))
					}
				}
				if got, want := slices.Collect(table.Unreleased()), m.unreleased(); !slices.Equal(got, want) {
					t.Fatalf("Unreleased: got %v, want %v", got, want)
				}
				if got, want := table.Len(), len(m.entries); got != want {
					t.Fatalf("Len: got %d, want %d", got, want)
				}
				table.check(t)
			},
		})
	})
}

// cleanReads drops released entries that only read: nobody can meet them.
func (m *model) cleanReads() {
	m.entries = slices.DeleteFunc(m.entries, func(e modelEntry) bool { return e.released && len(keysOf(e.writes)) == 0 })
	m.clean()
}

// scratch copies a set into memory that is overwritten before the next check.
func scratch(s Set) Set {
	c := make(Set, len(s))
	for i := range s {
		c[i] = Span{Key: bytes.Clone(s[i].Key), End: bytes.Clone(s[i].End)}
	}
	used = append(used, c)
	return c
}

var used []Set

func (t *Table) check(f *rapid.T) {
	for _, s := range used {
		for _, span := range s {
			for _, b := range [...][]byte{span.Key, span.End} {
				for i := range b {
					b[i] = '!'
				}
			}
		}
	}
	used = used[:0]
	nodes := t.keys.root.check(f) + t.ranges.root.check(f)
	if got, want := len(t.points), t.keys.root.check(f); got != want {
		f.Fatalf("%d keys in the map, %d in the tree", got, want)
	}
	touched := map[*node]bool{}
	for _, e := range t.entries {
		for i := range e.touches {
			touched[e.touches[i].node] = true
		}
	}
	if nodes > len(touched) {
		f.Fatalf("%d spans are held, %d are touched", nodes, len(touched))
	}
}

// check judges order, ranks, links and summaries, and counts nodes.
func (n *node) check(f *rapid.T) int {
	if n == nil {
		return 0
	}
	highest, lowest := n.lastTouch(), n.firstUnreleased()
	if highest == 0 {
		f.Fatalf("%v is held for nothing", n.span)
	}
	count, furthest := 1, n.span
	for _, c := range []*node{n.left, n.right} {
		if c == nil {
			continue
		}
		if c.parent != n || c.rank > n.rank || c.span.less(n.span) != (c == n.left) {
			f.Fatalf("%v stands wrongly below %v", c.span, n.span)
		}
		count += c.check(f)
		highest, lowest = max(highest, c.highest), min(lowest, c.lowest)
		if n.reach.span.shorter(c.reach.span) {
			f.Fatalf("%v reaches further than %v", c.reach.span, n.reach.span)
		}
		if furthest.shorter(c.reach.span) {
			furthest = c.reach.span
		}
	}
	if furthest.shorter(n.reach.span) {
		f.Fatalf("%v reaches as far as %v, which is gone: the furthest is %v", n.span, n.reach.span, furthest)
	}
	if n.highest != highest || n.lowest != lowest {
		f.Fatalf("%v: got %d and %d below it, want %d and %d", n.span, n.highest, n.lowest, highest, lowest)
	}
	return count
}

// TestManyKeys compares with a plain list where the trees are deep.
func TestManyKeys(t *testing.T) {
	const keys = 500
	type write struct {
		index    uint64
		from, to int // keys [from, to)
		released bool
	}
	rng := rand.New(rand.NewPCG(1, 2))
	number := func(i int) []byte { return fmt.Appendf(nil, "%04d", i) }
	some := func() (from, to int, s Set) {
		from = rng.IntN(keys)
		if rng.IntN(10) > 0 {
			return from, from + 1, Set{{Key: number(from)}}
		}
		to = from + 1 + rng.IntN(keys/4)
		return from, to, Set{{Key: number(from), End: number(to)}}
	}
	var table Table
	var list []write
	for index := uint64(1); index <= 6000; index++ {
		from, to, s := some()
		table.Add(index, s, nil)
		list = append(list, write{index: index, from: from, to: to})
		if len(list) > 700 { // give up some, not in order
			for range 2 {
				w := &list[rng.IntN(len(list)-200)]
				w.released = true
				table.Release(w.index)
			}
			through := list[rng.IntN(20)].index
			table.Forget(through)
			list = slices.DeleteFunc(list, func(w write) bool { return w.released && w.index <= table.Floor() })
		}
		from, to, s = some()
		var wantLast, wantFirst uint64
		for _, w := range list {
			if w.from < to && from < w.to {
				wantLast = w.index
				if wantFirst == 0 && !w.released {
					wantFirst = w.index
				}
			}
		}
		if last, first := table.Look(s); last != wantLast || first != wantFirst {
			t.Fatalf("after %d, Look(%v): got %d, %d, want %d, %d", index, s, last, first, wantLast, wantFirst)
		}
	}
	if len(table.points) < keys/2 || table.ranges.root == nil {
		t.Errorf("only %d keys in the end: the test is too easy", len(table.points))
	}
}

func TestAddOutOfOrderPanics(t *testing.T) {
	tests := map[string]func(*Table){
		"twice":            func(t *Table) { t.Add(5, nil, nil); t.Add(5, nil, nil) },
		"over a released":  func(t *Table) { t.Add(5, Set{All()}, nil); t.Release(5); t.Truncate(4); t.Add(5, nil, nil) },
		"before truncated": func(t *Table) { t.Add(5, nil, nil); t.Truncate(5); t.Add(4, nil, nil) },
	}
	for name, do := range tests {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !bytes.HasPrefix([]byte(got), []byte("keyspan: entry ")) {
					t.Errorf("got %q, want a panic", got)
				}
			}()
			do(new(Table))
		})
	}
}

// TestSpanNamedTwice: an entry that names a key twice takes it away once, and no other key with it.
func TestSpanNamedTwice(t *testing.T) {
	const keys = 20
	key := func(i int) Span { return Span{Key: fmt.Appendf(nil, "%02d", i)} }
	for twice := range keys {
		var table Table
		for i := range keys {
			table.Add(uint64(i+1), Set{key(i)}, nil)
		}
		again := Span{Key: append(key(twice).Key, 'x')}
		table.Add(keys+1, Set{again, again}, nil)
		table.Truncate(keys + 1)
		for i := range keys {
			// A range, for keys alone are found without the tree.
			if got := table.LastTouch(Set{{Key: key(i).Key, End: key(i + 1).Key}}); got != uint64(i+1) {
				t.Errorf("an entry that named %v twice is gone, and the last change of key %d is %d, want %d", again, i, got, i+1)
			}
		}
	}
}

// TestTheTableCopies: the caller of Add may use the bytes of the keys again.
func TestTheTableCopies(t *testing.T) {
	for what, end := range map[string]string{"a key": "", "a range": "c"} {
		var table Table
		reused := Span{Key: []byte("b"), End: []byte(end)}
		table.Add(2, Set{reused}, nil)
		table.Add(3, nil, Set{reused})
		reused.Key[0] = 'x'
		if end != "" {
			reused.End[0] = 'y'
		}
		table.Add(4, Set{{Key: []byte("x")}}, nil)
		b, x := Set{{Key: []byte("b"), End: []byte("b\x00\x00")}}, Set{{Key: []byte("x"), End: []byte("x\x00\x00")}}
		if table.LastTouch(b) != 2 || table.FirstUnreleased(x) != 4 {
			t.Errorf("%s whose bytes are used again: b was changed last by %d, x first by %d; want 2 and 4", what, table.LastTouch(b), table.FirstUnreleased(x))
		}
		if got := table.Overtaken(3); got != 2 {
			t.Errorf("%s whose bytes are used again was read: the entry waits for %d, want 2", what, got)
		}
	}
}

// TestReleasedInAnyOrder: a later entry may be released before an earlier one.
func TestReleasedInAnyOrder(t *testing.T) {
	var table Table
	k := Set{{Key: []byte("k")}}
	for i := uint64(1); i <= 3; i++ {
		table.Add(i, k, nil)
	}
	table.Release(3)
	if last, first := table.Look(k); last != 3 || first != 1 {
		t.Errorf("with the last of three released: last %d, first %d, want 3 and 1", last, first)
	}
	table.Release(1)
	table.Forget(1)
	if table.Has(1) || !table.Has(3) {
		t.Errorf("entry 1 was released after 3, and forgotten: it is there: %v, and 3: %v; want 3 alone", table.Has(1), table.Has(3))
	}
}

// TestReleasedAmongTheUnreleased: a loop over the unreleased entries may release each in
// turn.
func TestReleasedAmongTheUnreleased(t *testing.T) {
	var table Table
	for i := uint64(1); i <= 3; i++ {
		table.Add(i, Set{All()}, nil)
	}
	var got []uint64
	for i := range table.Unreleased() {
		got = append(got, i)
		table.Release(i)
	}
	if !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("released one by one, the unreleased entries are %v, want all three", got)
	}
	for range table.Unreleased() {
		t.Error("an entry that was released is given as unreleased")
	}
}

func TestMapsAreGivenBack(t *testing.T) {
	var table Table
	for i := range uint64(keepPeak + 1) {
		table.Add(i+1, Set{{Key: fmt.Append(nil, i)}}, nil)
	}
	table.ReleaseThrough(table.last)
	table.Forget(table.last)
	if table.entries != nil || table.points != nil || table.keys.root != nil {
		t.Errorf("%d entries and %d keys are held", table.Len(), len(table.points))
	}
	table.Add(table.last+1, Set{{Key: []byte("k")}}, nil)
	if got, want := table.LastTouch(Set{All()}), uint64(keepPeak+2); got != want {
		t.Errorf("after that: got %d, want %d", got, want)
	}
}

// The map of keys is given back, too, if few entries had many keys.
func TestMapsOfFewEntriesAreGivenBack(t *testing.T) {
	var table Table
	var many Set
	for i := range keepPeak + 1 {
		many = append(many, Span{Key: fmt.Append(nil, i)})
	}
	table.Add(1, many, nil)
	table.Add(2, many[:1], nil)
	table.ReleaseThrough(2)
	table.Forget(2)
	if table.points != nil {
		t.Errorf("room for %d keys is held, and there are %d", keepPeak+1, len(table.points))
	}
}

// A log that is replaced from its beginning is empty, whatever it is told to begin with.
func TestCutFromTheBeginning(t *testing.T) {
	for _, from := range []uint64{0, 1} {
		var table Table
		k := Set{{Key: []byte("k")}}
		table.Add(1, k, nil)
		table.Add(2, k, nil)
		table.Truncate(from)
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("cut from %d on, the log does not begin anew: %v", from, p)
				}
			}()
			table.Add(1, k, nil)
		}()
		if got := table.LastTouch(k); got != 1 {
			t.Errorf("cut from %d on, the last change of a key is %d, want that of the new log", from, got)
		}
	}
}

// Entries added behind a cut come after all released ones, in whatever order those were
// released.
func TestACutLeavesWhatIsReleased(t *testing.T) {
	var table Table
	for i := uint64(1); i <= 6; i++ {
		table.Add(i, Set{{Key: []byte("k")}}, nil)
	}
	table.Release(5)
	table.Release(3)
	table.Truncate(2)
	for i := uint64(1); i <= 5; i++ {
		func() {
			defer func() { _ = recover() }()
			table.Add(i, Set{{Key: []byte("k")}}, nil)
			t.Errorf("entry %d is added behind entry 5, which is released", i)
		}()
	}
	table.Add(6, Set{{Key: []byte("k")}}, nil)
	if last, first := table.Look(Set{{Key: []byte("k")}}); last != 6 || first != 1 && first != 6 {
		t.Errorf("the key is touched by %d last, and by %d first of what is held", last, first)
	}
}
