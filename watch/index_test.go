package watch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestIndexAgainstScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	key := func() string { return fmt.Sprint(rng.IntN(60) + 10) }
	var x index
	var all []*watcher
	for step := range 20_000 {
		if rng.IntN(5) < 3 && len(all) < 300 {
			var end string
			switch rng.IntN(3) {
			case 0:
				end = "\x00"
			case 1:
				end = key()
			}
			s, err := spanOf([]byte(key()), []byte(end))
			if err != nil {
				continue
			}
			w := &watcher{id: int64(step), span: s}
			x.add(w)
			all = append(all, w)
		} else if len(all) > 0 {
			i := rng.IntN(len(all))
			x.remove(all[i])
			all = slices.Delete(all, i, i+1)
		}
		k := key()
		var got, want []int64
		x.match([]byte(k), func(w *watcher) { got = append(got, w.id) })
		for _, w := range all {
			if w.span.single && w.span.start == k || !w.span.single && w.span.start <= k && below(k, w.span.end) {
				want = append(want, w.id)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("step %d: key %q has watchers %v, want %v", step, k, got, want)
		}
		n := 0
		x.all(func(*watcher) { n++ })
		if n != len(all) || x.count != len(all) {
			t.Fatalf("step %d: %d watchers, count %d, want %d", step, n, x.count, len(all))
		}
		keys, ranges := map[span]bool{}, map[span]bool{}
		for _, w := range all {
			if w.span.single {
				keys[w.span] = true
			} else {
				ranges[w.span] = true
			}
		}
		if len(x.keys) != len(keys) || x.tree.size() != len(ranges) {
			t.Fatalf("step %d: the index keeps %d keys and %d ranges, want %d and %d, those that are watched", step, len(x.keys), x.tree.size(), len(keys), len(ranges))
		}
	}
}

// size is how many ranges a tree has.
func (n *node) size() int {
	if n == nil {
		return 0
	}
	return n.left.size() + 1 + n.right.size()
}
