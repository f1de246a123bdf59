package keyspan

import (
	"fmt"
	"iter"
	"strings"
)

// Table holds entries of a log by what they touch. The zero Table is empty and
// ready. See the package comment for who may call what.
type Table struct {
	entries    map[uint64]*entry
	unreleased list // ascending
	released   list // ascending, and not forgotten
	points     map[string]*node
	keys       tree // the nodes of points
	ranges     tree
	last       uint64 // index that was added last
	final      uint64 // highest index that was released
	floor      uint64
	peak       int // most entries since the maps were made
}

// entry is one of the log's that changes or reads keys.
type entry struct {
	index      uint64
	released   bool
	prev, next *entry
	touches    []touch // what it changes
	one        [1]touch
	reads      []span // besides that; until it is released
}

// touch ties an entry to a span that it changes.
type touch struct {
	entry      *entry
	node       *node
	prev, next *touch // unreleased ones of the same span
}

// keepPeak is how many entries the maps may have held without being made anew
// when the Table is empty.
const keepPeak = 1024

// Add appends the entry index. It may change the keys of writes, and its outcome depends on
// these and on the keys of reads. Indexes ascend, gaps are allowed; anything else is a
// fault of the caller and panics. The Table copies what it keeps of the sets.
func (t *Table) Add(index uint64, writes, reads Set) {
	if index <= t.last {
		panic(fmt.Sprintf("keyspan: entry %d was added after %d", index, t.last))
	}
	t.last = index
	e := &entry{index: index}
	e.touches = e.one[:0]
	if len(writes) > 1 {
		e.touches = make([]touch, 0, len(writes)) // touches must not move
	}
	for _, s := range writes {
		if s := s.span(); !s.empty() {
			t.touch(e, s)
		}
	}
	for _, s := range reads {
		if s := s.span(); !s.empty() {
			e.reads = append(e.reads, s.clone())
		}
	}
	if len(e.touches) == 0 && len(e.reads) == 0 {
		return
	}
	if t.entries == nil {
		t.entries = map[uint64]*entry{}
	}
	t.entries[index] = e
	t.peak = max(t.peak, len(t.entries), len(t.points))
	t.unreleased.insert(e)
}

func (s span) clone() span { return span{key: strings.Clone(s.key), end: strings.Clone(s.end)} }

// touch notes that e changes s.
func (t *Table) touch(e *entry, s span) {
	n := t.node(s)
	if n.last != nil && n.last.entry == e {
		return // it names the span twice
	}
	e.touches = append(e.touches, touch{entry: e, node: n, prev: n.last})
	at := &e.touches[len(e.touches)-1]
	if n.last != nil {
		n.last.next = at
	} else {
		n.first = at
	}
	n.last = at
	n.added(e.index)
}

// node finds or makes the node of a span.
func (t *Table) node(s span) *node {
	if !s.single() {
		if n := t.ranges.find(s); n != nil {
			return n
		}
		return t.ranges.insert(s.clone())
	}
	if n := t.points[s.key]; n != nil {
		return n
	}
	s = s.clone()
	n := t.keys.insert(s)
	if t.points == nil {
		t.points = map[string]*node{}
	}
	t.points[s.key] = n
	return n
}

// Truncate ends the log before the index from: the entries from there on were replaced.
// Released entries are committed and stay, and the next Add comes after them.
func (t *Table) Truncate(from uint64) {
	for e := t.unreleased.tail; e != nil && e.index >= from; e = t.unreleased.tail {
		t.unreleased.remove(e)
		t.resolve(e)
		t.drop(e)
	}
	t.last = max(t.final, min(t.last, max(from, 1)-1))
}

// Release tells that the entry index makes nobody wait any more. It does nothing
// for entries that touch nothing.
func (t *Table) Release(index uint64) {
	if e := t.entries[index]; e != nil && !e.released {
		t.release(e)
	}
}

// ReleaseThrough releases all entries up to index.
func (t *Table) ReleaseThrough(index uint64) {
	for e := t.unreleased.head; e != nil && e.index <= index; e = t.unreleased.head {
		t.release(e)
	}
}

func (t *Table) release(e *entry) {
	t.unreleased.remove(e)
	t.resolve(e)
	e.released, e.reads = true, nil
	t.final = max(t.final, e.index)
	if e.index <= t.floor || len(e.touches) == 0 {
		t.drop(e)
		return
	}
	for i := range e.touches {
		n := e.touches[i].node
		n.released = max(n.released, e.index)
		n.changed()
	}
	t.released.insert(e)
}

// resolve takes the touches of e off the unreleased ones.
func (t *Table) resolve(e *entry) {
	for i := range e.touches {
		at := &e.touches[i]
		if at.prev != nil {
			at.prev.next = at.next
		} else {
			at.node.first = at.next
		}
		if at.next != nil {
			at.next.prev = at.prev
		} else {
			at.node.last = at.prev
		}
		at.prev, at.next = nil, nil
	}
}

// Forget tells that every state that is captured from now on includes the entries
// up to through: those that are released are given up, the others once they are.
func (t *Table) Forget(through uint64) {
	t.floor = max(t.floor, through)
	for e := t.released.head; e != nil && e.index <= through; e = t.released.head {
		t.released.remove(e)
		t.drop(e)
	}
}

// drop gives up an entry that is on no list, and the nodes that only it needed.
func (t *Table) drop(e *entry) {
	for i := range e.touches {
		n := e.touches[i].node
		if n.released == e.index {
			n.released = 0
		}
		n.changed()
	}
	// Only now, for a removal moves nodes whose changes have to be told before.
	for i := range e.touches {
		n := e.touches[i].node
		switch {
		case n.first != nil || n.released != 0:
		case n.span.single():
			delete(t.points, n.span.key)
			t.keys.remove(n)
		default:
			t.ranges.remove(n)
		}
	}
	delete(t.entries, e.index)
	if len(t.entries) == 0 && t.peak > keepPeak {
		t.entries, t.points, t.peak = nil, nil, 0
	}
}

// Floor is the highest index that was given to Forget: the Table says nothing
// about what a state older than that lacks.
func (t *Table) Floor() uint64 { return t.floor }

// Len is the number of entries in the Table.
func (t *Table) Len() int { return len(t.entries) }

// Look gives the highest index in the Table that changes a key of the set, and the
// lowest that does and is not released; 0: none.
func (t *Table) Look(s Set) (last, first uint64) {
	a := answer{first: none}
	for _, q := range s {
		t.look(q.span(), &a)
	}
	if a.first == none {
		a.first = 0
	}
	return a.last, a.first
}

func (t *Table) look(q span, a *answer) {
	switch {
	case q.empty():
		return
	case q.single():
		if n := t.points[q.key]; n != nil {
			a.add(n)
		}
	default:
		t.keys.root.look(q, q.key == "", q.open(), a)
	}
	t.ranges.root.look(q, q.key == "", q.open(), a)
}

// LastTouch is the highest index in the Table that changes a key of the set, 0 if
// none does.
func (t *Table) LastTouch(s Set) uint64 {
	last, _ := t.Look(s)
	return last
}

// FirstUnreleased is the lowest index that changes a key of the set and is not
// released, 0 if there is none.
func (t *Table) FirstUnreleased(s Set) uint64 {
	_, first := t.Look(s)
	return first
}

// Blocked returns the lowest index that has to be released before the entry index, since it
// changes a key that the entry changes or reads. It returns 0 if there is none, or if the
// entry is released or touches nothing.
func (t *Table) Blocked(index uint64) uint64 {
	e := t.entries[index]
	if e == nil || e.released {
		return 0
	}
	a := answer{first: none}
	for i := range e.touches {
		t.look(e.touches[i].node.span, &a)
	}
	for _, q := range e.reads {
		t.look(q, &a)
	}
	if a.first >= index {
		return 0
	}
	return a.first
}

// Overtaken gives the lowest index before the entry index that is not released and changes
// a key that the entry reads. Unlike Blocked it leaves out what the entry changes.
func (t *Table) Overtaken(index uint64) uint64 {
	e := t.entries[index]
	if e == nil || e.released {
		return 0
	}
	a := answer{first: none}
	for _, q := range e.reads {
		t.look(q, &a)
	}
	if a.first >= index {
		return 0
	}
	return a.first
}

// Has reports whether the entry index is in the Table: not released, or released and not
// forgotten.
func (t *Table) Has(index uint64) bool { return t.entries[index] != nil }

// Held reports whether the entry index is in the Table and not released.
func (t *Table) Held(index uint64) bool {
	e := t.entries[index]
	return e != nil && !e.released
}

// Unreleased gives the indexes of the entries that are not released, ascending.
// The one that was given last may be released meanwhile.
func (t *Table) Unreleased() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for e := t.unreleased.head; e != nil; {
			next := e.next
			if !yield(e.index) {
				return
			}
			e = next
		}
	}
}
