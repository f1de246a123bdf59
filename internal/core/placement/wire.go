package placement

import (
	"encoding/binary"
	"fmt"
)

// reader takes numbers and strings from bytes that may be anything. After the first
// that is wrong it gives zeroes.
type reader struct {
	data []byte
	bad  error // what kind of error it is when something is wrong
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{r.bad}, args...)...)
		r.data = nil
	}
}

// number reads a varint of at most limit, written in the one shortest way.
func (r *reader) number(limit uint64, what string) uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.data)
	switch {
	case n <= 0:
		r.fail("it ends, or is damaged, at %s", what)
		return 0
	case n > 1 && r.data[n-1] == 0:
		r.fail("%s is not written in its shortest form", what)
		return 0
	case v > limit:
		r.fail("%s is %d, at most %d makes sense", what, v, limit)
		return 0
	}
	r.data = r.data[n:]
	return v
}

// count reads how many of something follow, each of which takes a byte or more: so a
// short message never asks for much memory.
func (r *reader) count(limit int, what string) int {
	n := int(r.number(uint64(limit), "the number of "+what))
	if n > len(r.data) {
		r.fail("%d %s cannot be in the %d bytes that are left", n, what, len(r.data))
		return 0
	}
	return n
}

func (r *reader) text(limit int, what string) []byte {
	n := r.count(limit, "bytes of "+what)
	if r.err != nil {
		return nil
	}
	s := r.data[:n:n]
	r.data = r.data[n:]
	return s
}

// done refuses what comes after the end.
func (r *reader) done() error {
	if len(r.data) > 0 {
		r.fail("%d bytes too many", len(r.data))
	}
	return r.err
}

func appendText(b, s []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
