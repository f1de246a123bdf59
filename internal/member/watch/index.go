package watch

import (
	"hash/maphash"
	"strings"
)

// index finds the watchers of a key: by hash those that watch exactly it, by an
// interval tree those that watch a range around it. A watcher is in at most one
// index at a time.
//
// The tree is a treap of intervals ordered by (start, end) in which each node
// knows the largest end below it, so that a key costs O(log ranges + matches).
// Watchers of the same range share a node.
type index struct {
	keys  map[string]*group
	tree  *node
	count int
}

// A group is a set of watchers of one and the same key or range. A watcher
// knows its place in the slice, so that leaving costs O(1).
type group struct{ watchers []*watcher }

func (g *group) add(w *watcher) {
	w.slot = len(g.watchers)
	g.watchers = append(g.watchers, w)
}

func (g *group) remove(w *watcher) {
	last := len(g.watchers) - 1
	moved := g.watchers[last]
	g.watchers[w.slot], moved.slot = moved, w.slot
	g.watchers[last] = nil
	g.watchers = g.watchers[:last]
}

type node struct {
	group
	start, end  string // [start, end), end "" is above every key
	top         string // the largest end in this subtree
	priority    uint64
	left, right *node
}

func (x *index) add(w *watcher) {
	x.count++
	if w.span.single {
		if x.keys == nil {
			x.keys = make(map[string]*group)
		}
		g := x.keys[w.span.start]
		if g == nil {
			g = &group{}
			x.keys[w.span.start] = g
		}
		g.add(w)
		return
	}
	n := x.tree.find(w.span.start, w.span.end)
	if n == nil {
		n = &node{start: w.span.start, end: w.span.end, priority: priority(w.span)}
		x.tree = x.tree.insert(n)
	}
	n.add(w)
}

func (x *index) remove(w *watcher) {
	x.count--
	if w.span.single {
		g := x.keys[w.span.start]
		if g.remove(w); len(g.watchers) == 0 {
			delete(x.keys, w.span.start)
		}
		return
	}
	n := x.tree.find(w.span.start, w.span.end)
	if n.remove(w); len(n.watchers) == 0 {
		x.tree = x.tree.delete(w.span.start, w.span.end)
	}
}

// match calls yield for every watcher of key. yield must not change the index.
func (x *index) match(key []byte, yield func(*watcher)) {
	if g := x.keys[string(key)]; g != nil {
		for _, w := range g.watchers {
			yield(w)
		}
	}
	if x.tree != nil {
		x.tree.match(string(key), yield)
	}
}

// all calls yield for every watcher, in no order. yield must not change the index.
func (x *index) all(yield func(*watcher)) {
	for _, g := range x.keys {
		for _, w := range g.watchers {
			yield(w)
		}
	}
	x.tree.all(yield)
}

// below reports whether the key (or start) a lies below the end b.
func below(a, b string) bool { return b == "" || a < b }

// compareEnds orders ends, the unlimited one last.
func compareEnds(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	return strings.Compare(a, b)
}

func (n *node) compare(start, end string) int {
	if c := strings.Compare(start, n.start); c != 0 {
		return c
	}
	return compareEnds(end, n.end)
}

func (n *node) find(start, end string) *node {
	for n != nil {
		c := n.compare(start, end)
		if c == 0 {
			return n
		}
		if c < 0 {
			n = n.left
		} else {
			n = n.right
		}
	}
	return nil
}

// fix recomputes what the node knows of its subtree.
func (n *node) fix() *node {
	n.top = n.end
	for _, child := range [2]*node{n.left, n.right} {
		if child != nil && compareEnds(child.top, n.top) > 0 {
			n.top = child.top
		}
	}
	return n
}

func (n *node) insert(m *node) *node {
	if n == nil {
		return m.fix()
	}
	if m.priority > n.priority {
		m.left, m.right = n.split(m.start, m.end)
		return m.fix()
	}
	if n.compare(m.start, m.end) < 0 {
		n.left = n.left.insert(m)
	} else {
		n.right = n.right.insert(m)
	}
	return n.fix()
}

// split parts the subtree into the intervals below and above (start, end).
func (n *node) split(start, end string) (low, high *node) {
	if n == nil {
		return nil, nil
	}
	if n.compare(start, end) < 0 {
		low, n.left = n.left.split(start, end)
		return low, n.fix()
	}
	n.right, high = n.right.split(start, end)
	return n.fix(), high
}

func (n *node) delete(start, end string) *node {
	switch c := n.compare(start, end); {
	case c < 0:
		n.left = n.left.delete(start, end)
	case c > 0:
		n.right = n.right.delete(start, end)
	default:
		return merge(n.left, n.right)
	}
	return n.fix()
}

// merge joins two trees, every interval of low being below those of high.
func merge(low, high *node) *node {
	switch {
	case low == nil:
		return high
	case high == nil:
		return low
	case low.priority > high.priority:
		low.right = merge(low.right, high)
		return low.fix()
	}
	high.left = merge(low, high.left)
	return high.fix()
}

func (n *node) match(key string, yield func(*watcher)) {
	for n != nil && below(key, n.top) {
		n.left.match(key, yield)
		if key < n.start {
			return // and so are all starts to the right
		}
		if below(key, n.end) {
			for _, w := range n.watchers {
				yield(w)
			}
		}
		n = n.right
	}
}

func (n *node) all(yield func(*watcher)) {
	for n != nil {
		n.left.all(yield)
		for _, w := range n.watchers {
			yield(w)
		}
		n = n.right
	}
}

// priority draws a node's place in the treap. The seed is of this process, so
// that nobody can pick ranges that unbalance the tree.
func priority(s span) uint64 { return maphash.Comparable(seed, s) }

var seed = maphash.MakeSeed()
