package keyspan

import (
	"bytes"
	"slices"
	"strings"
)

// Set is the keys of some spans, in any order; spans may overlap and be empty. A
// [Table] takes it as it is.
type Set []Span

// Normalize brings a set into the one form that sets of the same keys have:
// spans ascend, none is empty, overlaps or touches another, and a range of one
// key is that key. It works in place.
func (s Set) Normalize() Set {
	s = slices.DeleteFunc(s, Span.empty)
	for i := range s {
		s[i] = s[i].canonical()
	}
	if len(s) < 2 {
		return s
	}
	slices.SortFunc(s, func(a, b Span) int { return bytes.Compare(a.Key, b.Key) })
	merged := s[:1]
	for _, o := range s[1:] {
		last := &merged[len(merged)-1]
		switch {
		case !last.touches(o):
			merged = append(merged, o)
		case last.span().shorter(o.span()):
			*last = Span{Key: last.Key, End: o.bound()}.canonical()
		}
	}
	clear(s[len(merged):])
	return merged
}

// canonical gives the form of a span that is not empty: "key" rather than
// [key, key's successor).
func (s Span) canonical() Span {
	n := len(s.Key)
	if len(s.End) == 0 || len(s.End) == n+1 && s.End[n] == 0 && n > 0 && bytes.HasPrefix(s.End, s.Key) {
		return Span{Key: s.Key}
	}
	return s
}

// bound is the end of s as the end of a range.
func (s Span) bound() []byte {
	if len(s.End) > 0 {
		return s.End
	}
	return append(bytes.Clone(s.Key), 0)
}

// touches reports whether o, which begins no earlier, begins within s or right
// after it.
func (s Span) touches(o Span) bool {
	if s.span().beyond(text(o.Key)) {
		return true
	}
	if len(s.End) > 0 {
		return bytes.Equal(s.End, o.Key)
	}
	n := len(s.Key)
	// The successor of the empty key cannot be told from "from key on".
	return n > 0 && len(o.Key) == n+1 && o.Key[n] == 0 && bytes.HasPrefix(o.Key, s.Key)
}

// String lists the spans.
func (s Set) String() string {
	parts := make([]string, len(s))
	for i, span := range s {
		parts[i] = span.String()
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
