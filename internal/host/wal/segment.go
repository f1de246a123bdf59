package wal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tenure-lease/tenure/internal/wire"
)

const (
	segmentMagic     = "TENUREWL"
	segmentVersion   = 2
	segmentSuffix    = ".wal"
	tmpSuffix        = ".tmp"
	segmentFixed     = 44 // bytes before the metadata
	segmentFixedV1   = 36
	metadataBytesMax = 1 << 20
)

// segment is a segment file as the log remembers it.
type segment struct {
	path  string
	first uint64 // sequence number of its first record
	size  int64  // on disk
}

func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016x%s", first, segmentSuffix))
}

// parseNumber reads the number in a file name such as 000000000000002a.wal.
func parseNumber(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, err == nil
}

// segmentHeader is the start of a segment file.
type segmentHeader struct {
	version  uint32
	reserved int64 // bytes, which the file had before it had its name; 0 in version 1
	logID    uint64
	first    uint64
	meta     []byte
}

// segmentHeaderBytes is the size of a header with metadata of n bytes.
func segmentHeaderBytes(n int) int { return segmentHeaderBytesOf(segmentFixed, n) }

func segmentHeaderBytesOf(fixed, n int) int {
	return (fixed + n + 4 + recordAlign - 1) / recordAlign * recordAlign
}

func (h segmentHeader) encode() []byte {
	size := segmentHeaderBytes(len(h.meta))
	b := make([]byte, size)
	copy(b, segmentMagic)
	putVersion(b[8:], segmentVersion)
	le.PutUint64(b[16:], h.logID)
	le.PutUint64(b[24:], h.first)
	le.PutUint32(b[32:], uint32(len(h.meta)))
	le.PutUint64(b[36:], uint64(h.reserved))
	copy(b[segmentFixed:], h.meta)
	le.PutUint32(b[size-4:], wire.Checksum(b[:size-4]))
	return b
}

// parseSegmentHeader reads the header at the start of b and returns its size.
// path is for the error.
func parseSegmentHeader(path string, b []byte) (segmentHeader, int, error) {
	bad := func(reason string) (segmentHeader, int, error) {
		return segmentHeader{}, 0, &CorruptError{File: path, Reason: reason}
	}
	if len(b) < segmentFixedV1+4 {
		return bad("the file is shorter than a segment header")
	}
	if err := checkVersion(path, b, segmentMagic, segmentVersion); err != nil {
		return segmentHeader{}, 0, err
	}
	version, fixed := le.Uint32(b[8:]), segmentFixed
	if version == 1 {
		fixed = segmentFixedV1
	}
	n := int(le.Uint32(b[32:]))
	size := segmentHeaderBytesOf(fixed, n)
	if n > metadataBytesMax || size > len(b) {
		return bad("the segment header has an impossible length")
	}
	if wire.Checksum(b[:size-4]) != le.Uint32(b[size-4:]) {
		return bad("the segment header's checksum is wrong")
	}
	h := segmentHeader{
		version: version,
		logID:   le.Uint64(b[16:]),
		first:   le.Uint64(b[24:]),
		meta:    bytes.Clone(b[fixed : fixed+n]),
	}
	if version > 1 {
		h.reserved = int64(le.Uint64(b[36:]))
	}
	if h.first == 0 {
		return bad("the segment header has sequence number 0")
	}
	return h, size, nil
}

// putVersion writes a version and its complement, so that a flipped bit is not
// mistaken for a file of the future.
func putVersion(b []byte, version uint32) {
	le.PutUint32(b, version)
	le.PutUint32(b[4:], ^version)
}

// checkVersion judges the magic and the version at the start of a file.
func checkVersion(path string, b []byte, magic string, known uint32) error {
	if string(b[:8]) != magic {
		return &CorruptError{File: path, Reason: fmt.Sprintf("the file does not start with %q", magic)}
	}
	version := le.Uint32(b[8:])
	switch {
	case version != ^le.Uint32(b[12:]) || version == 0:
		return &CorruptError{File: path, Offset: 8, Reason: "the format version is damaged"}
	case version > known:
		return fmt.Errorf("wal: %s has format version %d and this program knows %d at most: "+
			"run the newer program that wrote it: %w", path, version, known, ErrNewerVersion)
	}
	return nil
}

// createSegment makes a segment durable under its name before anything is
// written to it, so that a segment without a good header is never a torn one.
// It returns the open file and the offset of the first record.
func createSegment(fsys FS, dir string, h segmentHeader, bytes int64) (File, int64, error) {
	path := segmentPath(dir, h.first)
	tmp := path + tmpSuffix
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, 0, err
	}
	h.reserved = max(bytes, int64(segmentHeaderBytes(len(h.meta))))
	head := h.encode()
	err = f.Preallocate(h.reserved)
	if err == nil {
		_, err = f.WriteAt(head, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = fsys.Rename(tmp, path)
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, int64(len(head)), nil
}

// readFile reads all of an open file, into a buffer if it has room.
func readFile(f File, into []byte) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > int64(cap(into)) {
		into = make([]byte, size)
	}
	return readAt(f, 0, into[:size])
}

// readAt fills b from an open file.
func readAt(f File, off int64, b []byte) ([]byte, error) {
	if got, err := f.ReadAt(b, off); got < len(b) {
		return nil, err
	}
	return b, nil
}
