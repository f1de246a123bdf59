package replica

import (
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"google.golang.org/protobuf/encoding/protowire"
)

// The functions below take what a Touch needs from messages, without decoding the rest.

// appendSpan adds the span of a message that names its key and its end in these
// fields.
func appendSpan(set *keyspan.Set, p []byte, key, end protowire.Number) bool {
	var s keyspan.Span
	for len(p) > 0 {
		f, n := nextField(p)
		if n < 0 {
			return false
		}
		p = p[n:]
		switch f.num {
		case key:
			s.Key = f.bytes
		case end:
			s.End = f.bytes
		default:
			continue
		}
		if f.typ != protowire.BytesType {
			return false
		}
	}
	*set = append(*set, s)
	return true
}

// number is the number that a message has in a field, 0 if it has none.
func number(p []byte, num protowire.Number) (v int64, ok bool) {
	for len(p) > 0 {
		f, n := nextField(p)
		if n < 0 {
			return 0, false
		}
		p = p[n:]
		if f.num == num {
			if f.typ != protowire.VarintType {
				return 0, false
			}
			v = int64(f.number)
		}
	}
	return v, true
}

// field is one field of a message on the wire: bytes or a number, if it is
// either.
type field struct {
	num    protowire.Number
	typ    protowire.Type
	bytes  []byte
	number uint64
}

// nextField reads the field at the start of p and gives its length, which is
// negative if there is none.
func nextField(p []byte) (f field, n int) {
	num, typ, n := protowire.ConsumeTag(p)
	if n < 0 {
		return field{}, n
	}
	f, m := field{num: num, typ: typ}, 0
	switch typ {
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes(p[n:])
	case protowire.VarintType:
		f.number, m = protowire.ConsumeVarint(p[n:])
	default:
		m = protowire.ConsumeFieldValue(num, typ, p[n:])
	}
	if m < 0 {
		return field{}, m
	}
	return f, n + m
}
