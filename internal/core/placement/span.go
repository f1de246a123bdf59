package placement

import "strings"

// span is the keys from lo up to, but without, hi. An empty hi is the end of the
// key space.
type span struct{ lo, hi string }

// everything is the whole key space: keys are not empty.
var everything = span{lo: "\x00"}

// spanOf reads a key and an end as etcd's requests have them: no end is that key
// alone, an end of one zero byte is all keys from key on.
func spanOf(key, end string) span {
	switch end {
	case "":
		return span{key, key + "\x00"}
	case "\x00":
		return span{key, ""}
	}
	return span{key, end}
}

// end is the span's end as etcd's requests have it.
func (s span) end() string {
	switch {
	case s.single():
		return ""
	case s.hi == "":
		return "\x00"
	}
	return s.hi
}

func (s span) empty() bool { return s.hi != "" && s.hi <= s.lo }

// single says that the span is one key.
func (s span) single() bool {
	return len(s.hi) == len(s.lo)+1 && s.hi[len(s.lo)] == 0 && strings.HasPrefix(s.hi, s.lo)
}

// endsBefore says that all of s lies before key.
func (s span) endsBefore(key string) bool { return s.hi != "" && s.hi <= key }

func (s span) meets(o span) bool { return !s.endsBefore(o.lo) && !o.endsBefore(s.lo) }

// covers says that o is a part of s.
func (s span) covers(o span) bool {
	return s.lo <= o.lo && (s.hi == "" || o.hi != "" && o.hi <= s.hi)
}

// prefixEnd is the first key after all keys that begin with prefix, or nothing if
// there is none.
func prefixEnd(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) > 0 {
		b[len(b)-1]++
	}
	return string(b)
}
