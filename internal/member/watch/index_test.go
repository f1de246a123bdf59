package watch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/tenure-lease/tenure/internal/state/kv"
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
		if step%8 == 0 {
			if n := x.tree.inexact(); n != nil {
				t.Fatalf("step %d: [%s, %s) takes %q for the largest end below it: keys are looked for where they cannot be", step, n.start, n.end, n.top)
			}
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
// inexact is a node that does not know the largest end below it, or nil.
func (n *node) inexact() *node {
	if n == nil {
		return nil
	}
	top := n.end
	for _, child := range []*node{n.left, n.right} {
		if wrong := child.inexact(); wrong != nil {
			return wrong
		}
		if child != nil && compareEnds(child.top, top) > 0 {
			top = child.top
		}
	}
	if n.top != top {
		return n
	}
	return nil
}

func (n *node) size() int {
	if n == nil {
		return 0
	}
	return n.left.size() + 1 + n.right.size()
}

// The hub keeps no more for a watcher than its stream's queue would take.
func TestABatchIsNoLargerThanAQueue(t *testing.T) {
	event := func(revision int) *Event {
		return &Event{Event: kv.Event{KV: &mvccpb.KeyValue{ModRevision: int64(revision)}}}
	}
	for _, c := range []Config{
		{MaxStreamEvents: 2, MaxStreamBytes: 1 << 20},
		{MaxStreamEvents: 1 << 20, MaxStreamBytes: 2 * event(1).size()},
	} {
		w := &watcher{}
		for n := range 5 {
			if first := w.stage(event(n+1), &c); first != (n == 0) {
				t.Errorf("event %d: first is %v", n+1, first)
			}
			if fits := n < 2; fits != !w.overflow || len(w.batch) > 2 {
				t.Errorf("%d events are kept of %d, overflow %v; a queue takes 2", len(w.batch), n+1, w.overflow)
			}
		}
		if w.first != 1 {
			t.Errorf("the log is read from revision %d on, want 1", w.first)
		}
	}
}

// Ranges that come in order, as a hostile client may send them, make no deep tree: not as they come,
// and not as they go.
func TestTheTreeIsNotDeep(t *testing.T) {
	var depth func(*node) int
	depth = func(n *node) int {
		if n == nil {
			return 0
		}
		return 1 + max(depth(n.left), depth(n.right))
	}
	const ranges, deep = 4096, 80 // at random it is about 30 deep
	var x index
	var all []*watcher
	for i := range ranges {
		w := &watcher{span: span{start: fmt.Sprintf("%04d", i), end: "x"}}
		all = append(all, w)
		x.add(w)
	}
	if got := depth(x.tree); got > deep {
		t.Errorf("a tree of %d ranges that came in order is %d deep, want %d at most", ranges, got, deep)
	}
	for i, w := range all {
		if i%2 == 0 {
			x.remove(w)
		}
	}
	if got := depth(x.tree); got > deep {
		t.Errorf("a tree of which every second range was removed is %d deep, want %d at most", got, deep)
	}
}
