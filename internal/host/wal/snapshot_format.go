package wal

import (
	"errors"
	"fmt"
	"io"

	"github.com/tenure-lease/tenure/internal/wire"
)

// A snapshot file is
//
//	magic "TENURESN" | version u32 | ^version u32 | index u64 | term u64 |
//	meta length u32 | meta | CRC32C u32
//	then chunks: length u32 (not 0) | CRC32C u32 | bytes
//	then the end: 0 u32 | CRC32C u32 | length of the body u64
//
// Each checksum is seeded with the one before, so chunks can neither be lost nor
// change places, and damage is found within a chunk of where it is.
const (
	snapshotMagic   = "TENURESN"
	snapshotVersion = 1
	snapshotSuffix  = ".snap"
	damagedSuffix   = ".damaged" // behind that
	snapshotFixed   = 36         // bytes before the metadata
	chunkBytes      = 128 << 10
)

// snapshotEncoder cuts a body into chunks.
type snapshotEncoder struct {
	w   io.Writer
	crc uint32
	len uint64
	buf []byte // a chunk header and a chunk being filled
}

func newSnapshotEncoder(w io.Writer, info SnapshotInfo) (*snapshotEncoder, error) {
	b := make([]byte, snapshotFixed, snapshotFixed+len(info.Meta)+4)
	copy(b, snapshotMagic)
	putVersion(b[8:], snapshotVersion)
	le.PutUint64(b[16:], info.Index)
	le.PutUint64(b[24:], info.Term)
	le.PutUint32(b[32:], uint32(len(info.Meta)))
	b = append(b, info.Meta...)
	crc := wire.Checksum(b)
	_, err := w.Write(le.AppendUint32(b, crc))
	return &snapshotEncoder{w: w, crc: crc, buf: make([]byte, 8, 8+chunkBytes)}, err
}

func (e *snapshotEncoder) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), cap(e.buf)-len(e.buf))
		e.buf = append(e.buf, p[:n]...)
		p = p[n:]
		if len(e.buf) == cap(e.buf) {
			if err := e.flush(); err != nil {
				return written, err
			}
		}
		written += n
	}
	return written, nil
}

func (e *snapshotEncoder) flush() error {
	body := e.buf[8:]
	e.crc = wire.Extend(e.crc, body)
	e.len += uint64(len(body))
	le.PutUint32(e.buf, uint32(len(body)))
	le.PutUint32(e.buf[4:], e.crc)
	_, err := e.w.Write(e.buf)
	e.buf = e.buf[:8]
	return err
}

func (e *snapshotEncoder) finish() error {
	if len(e.buf) > 8 {
		if err := e.flush(); err != nil {
			return err
		}
	}
	var b [16]byte
	le.PutUint64(b[8:], e.len)
	le.PutUint32(b[4:], wire.Extend(e.crc, b[8:]))
	_, err := e.w.Write(b[:])
	return err
}

// snapshotDecoder reads the body back. It reads no further than the end of the
// snapshot, unless wholeFile is set: then nothing may follow.
type snapshotDecoder struct {
	r         io.Reader
	name      string // for errors
	info      SnapshotInfo
	wholeFile bool

	off   int64 // in the file, of what r returns next
	crc   uint32
	len   uint64
	chunk []byte // not yet read part of buf
	buf   []byte
	err   error
}

// newSnapshotDecoder reads the header. The decoder is never nil.
func newSnapshotDecoder(name string, r io.Reader) (*snapshotDecoder, error) {
	d := &snapshotDecoder{r: r, name: name}
	head := make([]byte, snapshotFixed)
	if err := d.fill(head, 0); err != nil {
		return d, err
	}
	if err := checkVersion(name, head, snapshotMagic, snapshotVersion); err != nil {
		return d, err
	}
	n := le.Uint32(head[32:])
	if n > metadataBytesMax {
		return d, d.corrupt(32, "the header has an impossible length")
	}
	rest := make([]byte, n+4)
	if err := d.fill(rest, 0); err != nil {
		return d, err
	}
	d.crc = wire.Extend(wire.Checksum(head), rest[:n])
	if d.crc != le.Uint32(rest[n:]) {
		return d, d.corrupt(0, "the header's checksum is wrong")
	}
	d.info = SnapshotInfo{Index: le.Uint64(head[16:]), Term: le.Uint64(head[24:]), Meta: rest[:n:n]}
	return d, nil
}

func (d *snapshotDecoder) corrupt(off int64, reason string) error {
	return &CorruptError{File: d.name, Offset: off, Reason: reason}
}

// fill reads len(b) bytes; a file that ends before is damaged, in the part that
// starts at offset at.
func (d *snapshotDecoder) fill(b []byte, at int64) error {
	n, err := io.ReadFull(d.r, b)
	d.off += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return d.corrupt(at, "the snapshot ends too early")
	}
	return err
}

func (d *snapshotDecoder) Read(p []byte) (int, error) {
	for len(d.chunk) == 0 && d.err == nil {
		d.err = d.next()
	}
	n := copy(p, d.chunk)
	d.chunk = d.chunk[n:]
	if n > 0 {
		return n, nil
	}
	return 0, d.err
}

// next reads a chunk, or the end, which is io.EOF.
func (d *snapshotDecoder) next() error {
	at := d.off
	var head [8]byte
	if err := d.fill(head[:], at); err != nil {
		return err
	}
	n, crc := le.Uint32(head[:]), le.Uint32(head[4:])
	if n == 0 {
		return d.end(at, crc)
	}
	if n > chunkBytes {
		return d.corrupt(at, fmt.Sprintf("a chunk of %d bytes, %d are the limit", n, chunkBytes))
	}
	if d.buf == nil {
		d.buf = make([]byte, chunkBytes)
	}
	if err := d.fill(d.buf[:n], at); err != nil {
		return err
	}
	if d.crc = wire.Extend(d.crc, d.buf[:n]); d.crc != crc {
		return d.corrupt(at, "a chunk's checksum is wrong")
	}
	d.len += uint64(n)
	d.chunk = d.buf[:n]
	return nil
}

func (d *snapshotDecoder) end(at int64, crc uint32) error {
	var length [8]byte
	if err := d.fill(length[:], at); err != nil {
		return err
	}
	if wire.Extend(d.crc, length[:]) != crc || le.Uint64(length[:]) != d.len {
		return d.corrupt(at, "the closing checksum is wrong")
	}
	if d.wholeFile {
		switch n, err := io.ReadFull(d.r, length[:1]); {
		case n > 0:
			return d.corrupt(d.off, "something follows the end of the snapshot")
		case !errors.Is(err, io.EOF):
			return err
		}
	}
	return io.EOF
}
