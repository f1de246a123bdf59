package placement

import (
	"bytes"
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// reader takes numbers and strings from bytes that may be anything, and says which field is
// wrong, and how. After the first that is wrong it gives zeroes.
type reader struct {
	in  wire.Reader
	bad error // what kind of error it is when something is wrong
	err error
}

// newReader reads a copy of data.
func newReader(data []byte, bad error) *reader {
	return &reader{in: wire.Reader{Rest: bytes.Clone(data)}, bad: bad}
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{r.bad}, args...)...)
		r.in.Fail()
	}
}

// number reads a varint of at most limit, written in the one shortest way.
func (r *reader) number(limit uint64, what string) uint64 {
	if r.err != nil {
		return 0
	}
	before := r.in.Rest
	v := r.in.Uvarint()
	took := before[:len(before)-len(r.in.Rest)]
	switch {
	case r.in.Bad:
		r.fail("it ends, or is damaged, at %s", what)
		return 0
	case len(took) > 1 && took[len(took)-1] == 0:
		r.fail("%s is not written in its shortest form", what)
		return 0
	case v > limit:
		r.fail("%s is %d, at most %d makes sense", what, v, limit)
		return 0
	}
	return v
}

// count reads how many of something follow, each of which takes a byte or more: so a
// short message never asks for much memory.
func (r *reader) count(limit int, what string) int {
	n := int(r.number(uint64(limit), "the number of "+what))
	if n > len(r.in.Rest) {
		r.fail("%d %s cannot be in the %d bytes that are left", n, what, len(r.in.Rest))
		return 0
	}
	return n
}

func (r *reader) text(limit int, what string) []byte {
	return r.in.Take(uint64(r.count(limit, "bytes of "+what)))
}

// done refuses what comes after the end.
func (r *reader) done() error {
	if len(r.in.Rest) > 0 {
		r.fail("%d bytes too many", len(r.in.Rest))
	}
	return r.err
}

// writeMembers writes how many IDs there are, and each less the one before. They ascend.
func writeMembers(w *wire.Writer, ids []machine.NodeID) {
	w.Count(len(ids))
	var last machine.NodeID
	for _, id := range ids {
		w.Uvarint(uint64(id - last))
		last = id
	}
}
