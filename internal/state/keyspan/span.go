package keyspan

import (
	"strconv"
	"unsafe"
)

// fromKey as the end of a range means all keys from its first on, as in etcd.
const fromKey = "\x00"

// Span is a key, or the keys of a half-open range, in etcd's terms: an empty End
// means the key alone, "\x00" means Key and all that are greater. A range whose
// End is not above its Key is empty.
type Span struct {
	Key, End []byte
}

// All is every key there can be, the empty one included.
func All() Span { return Span{End: []byte(fromKey)} }

// empty reports whether no key is in s.
func (s Span) empty() bool { return s.span().empty() }

// Contains reports whether key is in s.
func (s Span) Contains(key []byte) bool { return s.Meets(Span{Key: key}) }

// Meets reports whether some key is in both.
func (s Span) Meets(o Span) bool { return s.span().meets(o.span()) }

// String gives "key", or "[key, end)" with quotes, for scripts and errors.
func (s Span) String() string {
	switch end := text(s.End); end {
	case "":
		return strconv.Quote(text(s.Key))
	case fromKey:
		return "[" + strconv.Quote(text(s.Key)) + ", …)"
	default:
		return "[" + strconv.Quote(text(s.Key)) + ", " + strconv.Quote(end) + ")"
	}
}

// text is b as a string without a copy, as in package kv: nobody changes the
// bytes of a Span while it is in use.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// span is a Span whose bytes cannot change.
type span struct {
	key, end string
}

func (s Span) span() span { return span{key: text(s.Key), end: text(s.End)} }

func (s span) single() bool { return s.end == "" }
func (s span) open() bool   { return s.end == fromKey }

func (s span) empty() bool { return !s.single() && !s.open() && s.end <= s.key }

// beyond reports whether s has room at or after key: whether it ends above it.
func (s span) beyond(key string) bool {
	switch s.end {
	case "":
		return key <= s.key // the end of a single key is its successor
	case fromKey:
		return true
	}
	return key < s.end
}

func (s span) meets(o span) bool {
	return s.beyond(o.key) && o.beyond(s.key) && !s.empty() && !o.empty()
}

// shorter reports whether s ends before o does. Of a key and a range that ends with
// it, the key is called the shorter.
func (s span) shorter(o span) bool {
	switch {
	case s.open():
		return false
	case o.open():
		return true
	case s.single() && o.single():
		return s.key < o.key
	case s.single():
		return s.key < o.end
	case o.single():
		return s.end <= o.key
	}
	return s.end < o.end
}

// less orders spans, those with the same first key by their ends' bytes.
func (s span) less(o span) bool {
	return s.key < o.key || s.key == o.key && s.end < o.end
}
