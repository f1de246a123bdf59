package placement

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Limits of a configuration. With them it takes 1 MiB at most when its cells have
// keys of 100 bytes, and in practice some dozen KiB (see Encode).
const (
	MaxBuckets = 1 << 16 // hash buckets
	maxCells   = 4096    // keys and ranges with holders of their own
	maxKey     = 1024    // bytes of a cell's key and of its end
)

// ErrConfiguration says that something is no configuration: its cells overlap, name
// nobody or somebody unknown, or are too many.
var ErrConfiguration = errors.New("not a configuration of read leases")

// Cell is a key, or a range of keys, that has holders of its own.
type Cell struct {
	// Key and End are as in etcd's requests: no End means Key alone, an End of one
	// zero byte means all keys from Key on, else it is the first key after the range.
	Key, End []byte
	Holders  Set
}

func (c Cell) span() span { return spanOf(string(c.Key), string(c.End)) }

// Configuration says who holds which keys: the "lease configuration" of section 3.4.
// It divides the whole key space, keys that do not exist included, so that a range
// can be read without missing a key that comes into being. A key belongs to the Cell
// that has it; else to its hash bucket if that has holders; else to the default. A
// Configuration never changes; goroutines may share it.
type Configuration struct {
	members  []machine.NodeID // ascending
	fallback Set
	cells    []Cell // ascending, disjoint
	buckets  []Set  // a power of two of them or none; 0 is the default

	spans       []span // of cells
	every, some Set    // the holders of all that is in no cell, and of any of it
}

// New returns a configuration, or an error that matches ErrConfiguration.
// Members ascend. Each set names members only, and at least one; but a bucket may be
// empty, which leaves it to the default. Buckets are a power of two, or none. New
// keeps nothing of its arguments but the keys' bytes.
func New(members []machine.NodeID, fallback Set, cells []Cell, buckets []Set) (*Configuration, error) {
	if err := checkMembers(members); err != nil {
		return nil, err
	}
	c := &Configuration{members: slices.Clone(members), fallback: fallback, cells: slices.Clone(cells)}
	if err := c.checkSet(fallback, "the default"); err != nil {
		return nil, err
	}
	if len(cells) > maxCells {
		return nil, fmt.Errorf("%w: %d keys and ranges of their own; want at most %d", ErrConfiguration, len(cells), maxCells)
	}
	for i := range c.cells {
		if err := c.checkCell(&c.cells[i]); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(c.cells, func(a, b Cell) int { return bytes.Compare(a.Key, b.Key) })
	for i, cell := range c.cells {
		c.spans = append(c.spans, cell.span())
		if i > 0 && c.spans[i-1].meets(c.spans[i]) {
			return nil, fmt.Errorf("%w: %v and %v have keys in common", ErrConfiguration, c.cells[i-1], cell)
		}
	}
	return c, c.setBuckets(buckets)
}

// leaderOnly is the configuration in which the leader holds everything: the default
// lease of section 3.4, and nothing else.
func leaderOnly(members []machine.NodeID, leader machine.NodeID) (*Configuration, error) {
	at := place(members, leader)
	if at < 0 {
		return nil, fmt.Errorf("%w: the leader %d is not among the members %d", ErrConfiguration, leader, members)
	}
	return New(members, SetOf(at), nil, nil)
}

func (c *Configuration) checkSet(s Set, what string) error {
	if s == 0 {
		return fmt.Errorf("%w: nobody holds %s", ErrConfiguration, what)
	}
	if s&^first(len(c.members)) != 0 {
		return fmt.Errorf("%w: holders %b of %s are more than the %d members", ErrConfiguration, s, what, len(c.members))
	}
	return nil
}

func (c *Configuration) checkCell(cell *Cell) error {
	if len(cell.Key) == 0 || len(cell.Key) > maxKey || len(cell.End) > maxKey {
		return fmt.Errorf("%w: a key of %d bytes and an end of %d: keys have from 1 to %d", ErrConfiguration, len(cell.Key), len(cell.End), maxKey)
	}
	s := cell.span()
	if s.empty() {
		return fmt.Errorf("%w: %v ends before it begins", ErrConfiguration, *cell)
	}
	cell.End = []byte(s.end()) // a range of one key is written as the key
	return c.checkSet(cell.Holders, cell.String())
}

// setBuckets brings buckets to the one form in which a configuration has them.
func (c *Configuration) setBuckets(buckets []Set) error {
	n := len(buckets)
	if n > MaxBuckets || n&(n-1) != 0 {
		return fmt.Errorf("%w: %d hash buckets: none, or a power of two up to %d will do", ErrConfiguration, n, MaxBuckets)
	}
	buckets = slices.Clone(buckets)
	for i, s := range buckets {
		if s == c.fallback {
			buckets[i] = 0
		} else if s != 0 {
			if err := c.checkSet(s, fmt.Sprintf("bucket %d of %d", i, n)); err != nil {
				return err
			}
		}
	}
	for n := len(buckets); n > 1 && slices.Equal(buckets[:n/2], buckets[n/2:]); n = len(buckets) {
		buckets = buckets[:n/2]
	}
	if len(buckets) == 1 {
		if buckets[0] != 0 {
			c.fallback = buckets[0]
		}
		buckets = nil
	}
	c.buckets = slices.Clip(buckets)
	c.every, c.some = c.fallback, c.fallback
	if len(buckets) > 0 {
		c.every, c.some = first(len(c.members)), 0
	}
	for _, s := range buckets {
		if s == 0 {
			s = c.fallback
		}
		c.every &= s
		c.some |= s
	}
	return nil
}

// Members are the members that the bits of a Set stand for, ascending.
func (c *Configuration) Members() []machine.NodeID { return slices.Clone(c.members) }

// Default returns the holders of keys in no cell and in no bucket that has holders.
func (c *Configuration) Default() Set { return c.fallback }

// Cells are the keys and ranges with holders of their own, ascending.
func (c *Configuration) Cells() []Cell { return slices.Clone(c.cells) }

// Buckets are the holders by hash bucket (see Bucket), 0 for the default. There may
// be fewer than were given to New, or none: the least number that says the same.
func (c *Configuration) Buckets() []Set { return slices.Clone(c.buckets) }

// Place is the bit that stands for a member, or -1.
func (c *Configuration) Place(id machine.NodeID) int { return place(c.members, id) }

// Holders returns the holders of a key. It does not allocate.
func (c *Configuration) Holders(key []byte) Set {
	at := sort.Search(len(c.cells), func(i int) bool { return bytes.Compare(c.cells[i].Key, key) > 0 }) - 1
	if at >= 0 {
		cell := &c.cells[at]
		switch {
		case len(cell.End) == 0:
			if bytes.Equal(cell.Key, key) {
				return cell.Holders
			}
		case c.spans[at].hi == "", bytes.Compare(key, cell.End) < 0:
			return cell.Holders
		}
	}
	return c.elsewhere(key)
}

// elsewhere returns the holders of a key that is in no cell.
func (c *Configuration) elsewhere(key []byte) Set {
	if len(c.buckets) > 0 {
		if s := c.buckets[Bucket(key, len(c.buckets))]; s != 0 {
			return s
		}
	}
	return c.fallback
}

// HoldersOfRange takes a range as key and end mean it in etcd's requests. It returns the
// members that hold every part of it, and the members that hold some part of it. The
// former may read it, whether keys exist in it or not (R26). The latter have to get a
// write to all of it. A range that ends before it begins is held by all members, and by
// nobody in part.
func (c *Configuration) HoldersOfRange(key, end []byte) (every, some Set) {
	if len(end) == 0 {
		s := c.Holders(key)
		return s, s
	}
	every = first(len(c.members))
	for _, p := range c.pieces(spanOf(string(key), string(end))) {
		every &= p.every
		some |= p.some
	}
	return every, some
}

// Everything returns the members that hold the whole key space, and those that hold some of
// it.
func (c *Configuration) Everything() (every, some Set) {
	return c.HoldersOfRange([]byte(everything.lo), []byte(everything.end()))
}

// piece is a part of the key space that is in one cell, or in none.
type piece struct {
	span
	every, some Set
}

// pieces divides a span by the cells. Keys in no cell are spread over all buckets,
// but for a gap that has room for one key.
func (c *Configuration) pieces(s span) (pieces []piece) {
	gap := func(g span) {
		switch {
		case g.empty():
		case g.single():
			h := c.elsewhere([]byte(g.lo))
			pieces = append(pieces, piece{g, h, h})
		default:
			pieces = append(pieces, piece{g, c.every, c.some})
		}
	}
	if s.empty() {
		return nil
	}
	at := sort.Search(len(c.spans), func(i int) bool { return !c.spans[i].endsBefore(s.lo) })
	for ; at < len(c.spans) && c.spans[at].meets(s); at++ {
		cell := c.spans[at]
		if s.lo < cell.lo {
			gap(span{s.lo, cell.lo})
		} else {
			cell.lo = s.lo
		}
		if cell.hi == "" || s.hi != "" && s.hi < cell.hi {
			cell.hi = s.hi
		}
		h := c.cells[at].Holders
		pieces = append(pieces, piece{cell, h, h})
		if cell.hi == s.hi {
			return pieces
		}
		s.lo = cell.hi
	}
	gap(s)
	return pieces
}

// Rebase returns the same configuration for another group or leader. Members that have left
// hold nothing, and new ones do not hold yet. The leader holds everything, which costs
// nothing, since it sees every write (section 3.4). A cell is never without holder that
// way.
func (c *Configuration) Rebase(members []machine.NodeID, leader machine.NodeID) (*Configuration, error) {
	if place(members, leader) < 0 {
		return nil, fmt.Errorf("%w: the leader %d is not among the members %d", ErrConfiguration, leader, members)
	}
	move := func(s Set) (moved Set) {
		for i, id := range members {
			if at := c.Place(id); at >= 0 && s.Has(at) || id == leader {
				moved |= SetOf(i)
			}
		}
		return moved
	}
	cells, buckets := slices.Clone(c.cells), slices.Clone(c.buckets)
	for i := range cells {
		cells[i].Holders = move(cells[i].Holders)
	}
	for i, s := range buckets {
		if s != 0 {
			buckets[i] = move(s)
		}
	}
	return New(members, move(c.fallback), cells, buckets)
}

// Equal reports whether two configurations have the same members and the same holders.
func (c *Configuration) Equal(o *Configuration) bool {
	return slices.Equal(c.members, o.members) && c.fallback == o.fallback && slices.Equal(c.buckets, o.buckets) &&
		slices.EqualFunc(c.cells, o.cells, func(a, b Cell) bool {
			return a.Holders == b.Holders && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.End, b.End)
		})
}

// String is the cell's selector in the text of a static configuration.
func (c Cell) String() string {
	s := c.span()
	switch {
	case s.single():
		return "key:" + quote(s.lo)
	case s.hi == "":
		return "range:" + quote(s.lo) + ".."
	case prefixEnd(s.lo) == s.hi:
		return "prefix:" + quote(s.lo)
	}
	return "range:" + quote(s.lo) + ".." + quote(s.hi)
}

// quote writes a key so that Parse reads it back, also before the two dots of a range.
func quote(key string) string {
	if q := fmt.Sprintf("%q", key); len(q) != len(key)+2 || strings.ContainsAny(key, "=;, ") || strings.Contains(key+".", "..") {
		return q
	}
	return key
}

// bucket returns the holders of bucket i of as many or more than there are.
func (c *Configuration) bucket(i int) Set {
	if n := len(c.buckets); n > 0 && c.buckets[i&(n-1)] != 0 {
		return c.buckets[i&(n-1)]
	}
	return c.fallback
}
