package keyspan

import "math"

// none is the lowest unreleased index where there is none.
const none = math.MaxUint64

// node is a span that entries of the table touch.
type node struct {
	span span

	// The touches that are not released, in order of index.
	first, last *touch
	// released is the highest index of those that are, while it is not forgotten.
	released uint64

	parent, left, right *node
	rank                uint64 // no child has a higher one

	// Of this node and all below it: which reaches furthest, the highest index of a
	// touch, the lowest unreleased.
	reach           *node
	highest, lowest uint64
}

// lastTouch is the highest index that touches n's span itself.
func (n *node) lastTouch() uint64 {
	if n.last != nil {
		return max(n.released, n.last.entry.index)
	}
	return n.released
}

func (n *node) firstUnreleased() uint64 {
	if n.first != nil {
		return n.first.entry.index
	}
	return none
}

// count recomputes the indexes that n knows of all below it, and reports whether
// they differ from before.
func (n *node) count() (changed bool) {
	highest, lowest := n.lastTouch(), n.firstUnreleased()
	if c := n.left; c != nil {
		highest, lowest = max(highest, c.highest), min(lowest, c.lowest)
	}
	if c := n.right; c != nil {
		highest, lowest = max(highest, c.highest), min(lowest, c.lowest)
	}
	changed = highest != n.highest || lowest != n.lowest
	n.highest, n.lowest = highest, lowest
	return changed
}

// extend recomputes how far n and all below it reach.
func (n *node) extend() (changed bool) {
	reach := n
	if c := n.left; c != nil && reach.span.shorter(c.reach.span) {
		reach = c.reach
	}
	if c := n.right; c != nil && reach.span.shorter(c.reach.span) {
		reach = c.reach
	}
	changed = reach != n.reach
	n.reach = reach
	return changed
}

// added tells n and those above that n is touched by an index above all others.
func (n *node) added(index uint64) {
	for ; n != nil; n = n.parent {
		n.highest, n.lowest = index, min(n.lowest, index)
	}
}

// changed tells n and those above that n's own touches have changed.
func (n *node) changed() {
	for n != nil && n.count() {
		n = n.parent
	}
}

// tree is a treap: a search tree by span, a heap by rank. Ranks that look random
// keep it as flat as one that was built in random order.
type tree struct {
	root *node
	seed uint64
}

// nextRank is a step of SplitMix64 (Steele, Lea and Flood, 2014).
func (t *tree) nextRank() uint64 {
	t.seed += 0x9e3779b97f4a7c15
	z := t.seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (t *tree) find(s span) *node {
	n := t.root
	for n != nil && n.span != s {
		if s.less(n.span) {
			n = n.left
		} else {
			n = n.right
		}
	}
	return n
}

// insert adds a node for a span that has none. It has no touches yet.
func (t *tree) insert(s span) *node {
	n := &node{span: s, rank: t.nextRank(), lowest: none}
	at := &t.root
	for *at != nil {
		n.parent = *at
		if s.less(n.parent.span) {
			at = &n.parent.left
		} else {
			at = &n.parent.right
		}
	}
	*at = n
	for p := n; p != nil && p.extend(); {
		p = p.parent
	}
	for n.parent != nil && n.parent.rank < n.rank {
		t.lift(n)
	}
	return n
}

// remove takes a node without touches out.
func (t *tree) remove(n *node) {
	for n.left != nil || n.right != nil {
		if n.right == nil || n.left != nil && n.left.rank > n.right.rank {
			t.lift(n.left)
		} else {
			t.lift(n.right)
		}
	}
	*t.place(n) = nil
	for p := n.parent; p != nil && p.extend(); {
		p = p.parent
	}
}

// place is where the tree refers to n.
func (t *tree) place(n *node) **node {
	switch {
	case n.parent == nil:
		return &t.root
	case n.parent.left == n:
		return &n.parent.left
	}
	return &n.parent.right
}

// lift rotates n into the place of its parent, whose child it makes it.
func (t *tree) lift(n *node) {
	p := n.parent
	*t.place(p) = n
	n.parent, p.parent = p.parent, n
	if p.left == n {
		p.left, n.right = n.right, p
		if p.left != nil {
			p.left.parent = p
		}
	} else {
		p.right, n.left = n.left, p
		if p.right != nil {
			p.right.parent = p
		}
	}
	p.count()
	p.extend()
	n.count()
	n.extend()
}

// answer is what was found so far: the highest index, and the lowest unreleased.
type answer struct {
	last, first uint64
}

func (a *answer) add(n *node) {
	a.last = max(a.last, n.lastTouch())
	a.first = min(a.first, n.firstUnreleased())
}

// look adds what meets q. From says that all spans below n begin at q's first key
// or later, before that all begin before q ends: then all of them meet it.
func (n *node) look(q span, from, before bool, a *answer) {
	if n == nil || n.highest <= a.last && n.lowest >= a.first {
		return
	}
	switch {
	case from && before:
		a.last = max(a.last, n.highest)
		a.first = min(a.first, n.lowest)
	case !n.reach.span.beyond(q.key):
	case !before && !q.beyond(n.span.key):
		n.left.look(q, from, false, a)
	default:
		if n.span.beyond(q.key) {
			a.add(n)
		}
		n.right.look(q, from || n.span.key >= q.key, before, a)
		n.left.look(q, from, true, a)
	}
}
