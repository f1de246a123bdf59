package kv

import (
	"bufio"
	"encoding/binary"
	"io"

	"github.com/tenure-lease/tenure/internal/wire"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// A snapshot is
//
//	"TENUREKV" version:uint32          big endian
//	revision compact                   varints, as all numbers below
//	raised                             if the compact revision has no event, see [Content]
//	base…                              each key's version at the compact revision
//	                                   that is older than it, in order of keys
//	events…                            from the compact revision on, in order
//	leases…                            in order of id
//	end
//	CRC32C:uint32                      of all bytes before, big endian
//
// where a record is a kind byte and
//
//	raised      (nothing)
//	base, put   create mod version lease key value
//	delete      mod key
//	lease       id ttl remaining
//
// with keys and values preceded by their length as an unsigned varint. The bytes
// are a function of what a View shows: it does not matter what was reclaimed, nor
// whether the store was itself read from a snapshot.
const (
	snapshotMagic   = "TENUREKV"
	snapshotVersion = 1

	recordEnd    = 0
	recordBase   = 1
	recordPut    = 2
	recordDelete = 3
	recordLease  = 4
	recordRaised = 5
)

// WriteTo writes the view as a snapshot, which [Read] makes a Store of. It takes long for a
// large view: pin the view (see [Store.Pin]), or it may fail with [ErrStaleView] when
// history was reclaimed meanwhile. The bytes written by then are worthless. Views of the
// same state give the same bytes.
func (v View) WriteTo(w io.Writer) (int64, error) {
	if v.none() {
		return 0, ErrNoState
	}
	e := newEncoder(w)
	e.header(v)
	if v.Raised() {
		e.record(recordRaised)
	}
	e.history(v, v.revision)
	e.leases(v)
	e.record(recordEnd)
	n, err := e.finish()
	if err == nil && v.Stale() {
		err = ErrStaleView
	}
	return n, err
}

// encoder writes records through a buffer and sums them up. It keeps the first
// error and writes nothing after it.
type encoder struct {
	out     *bufio.Writer
	sum     summer
	err     error
	scratch []byte
}

// summer is a writer that counts and checksums what passes.
type summer struct {
	w   io.Writer
	n   int64
	crc uint32
}

func (s *summer) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	s.crc = wire.Extend(s.crc, p[:n])
	return n, err
}

func newEncoder(w io.Writer) *encoder {
	e := &encoder{sum: summer{w: w}}
	e.out = bufio.NewWriterSize(&e.sum, 64<<10)
	return e
}

func (e *encoder) write(p []byte) {
	if e.err == nil {
		_, e.err = e.out.Write(p)
	}
}

func (e *encoder) header(v View) {
	b := binary.BigEndian.AppendUint32([]byte(snapshotMagic), snapshotVersion)
	b = binary.AppendVarint(b, v.revision)
	e.write(binary.AppendVarint(b, v.compact))
}

func (e *encoder) record(kind byte, numbers ...int64) {
	b := append(e.scratch[:0], kind)
	for _, n := range numbers {
		b = binary.AppendVarint(b, n)
	}
	e.write(b)
	e.scratch = b
}

func (e *encoder) version(kind byte, kv *mvccpb.KeyValue) {
	if kv.Version == 0 { // a tombstone
		e.record(recordDelete, kv.ModRevision)
		e.bytes(kv.Key)
		return
	}
	e.record(kind, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease)
	e.bytes(kv.Key)
	e.bytes(kv.Value)
}

func (e *encoder) bytes(p []byte) {
	e.scratch = binary.AppendUvarint(e.scratch[:0], uint64(len(p)))
	e.write(e.scratch)
	e.write(p)
}

// summed is the checksum of all that was written.
func (e *encoder) summed() uint32 {
	if e.err == nil {
		e.err = e.out.Flush() // so that the sum covers all
	}
	return e.sum.crc
}

// finish adds the checksum and gives the number of bytes written.
func (e *encoder) finish() (int64, error) {
	e.write(binary.BigEndian.AppendUint32(nil, e.summed()))
	if e.err == nil {
		e.err = e.out.Flush()
	}
	return e.sum.n, e.err
}
