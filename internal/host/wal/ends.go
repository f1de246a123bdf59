package wal

import (
	"fmt"
	"os"
)

// OpenEnds is Open for an owner that keeps much in the log and little of it in memory. It
// passes only the records of the first segment and of the last one to replay. The others
// are for a [Reader]. Its cost grows with the size of a segment, and by one short read with
// each segment between. That read checks the header and that the last record is whole, so
// that no segment is missing or cut short. The Reader finds damage within a segment.
func OpenEnds(dir string, opts Options, replay func(Record) error) (*Log, error) {
	return openLog(dir, opts, true, replay)
}

// skip takes in a segment that is not read, and that ends before the record of a number.
func (l *Log) skip(first, next uint64) error {
	path := segmentPath(l.dir, first)
	f, err := l.opts.FS.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("wal: read %s: %w", path, err)
	}
	head, err := readAt(f, 0, make([]byte, min(size, int64(segmentHeaderBytes(len(l.meta))))))
	if err != nil {
		return fmt.Errorf("wal: read %s: %w", path, err)
	}
	h, start, err := parseSegmentHeader(path, head)
	if err != nil {
		return err
	}
	if err := l.checkOwner(path, first, h); err != nil {
		return err
	}
	found, err := l.codec.of(h.version).endsWith(f, int64(start), size, next-1)
	switch {
	case err != nil:
		return fmt.Errorf("wal: read %s: %w", path, err)
	case !found:
		return &CorruptError{path, size, fmt.Sprintf("it does not end with record %d, whole, and later segments follow", next-1)}
	}
	l.segments = append(l.segments, segment{path, first, size})
	l.seq = next - 1
	return nil
}

// endsWith reports whether a segment ends with the record of a number, but for zeros. It looks
// backwards, at more each time: the zeros of a preallocated file may have stayed.
func (c codec) endsWith(f File, start, size int64, seq uint64) (bool, error) {
	for n := int64(readAhead); ; n *= 8 {
		from := max(start, (size-n)/recordAlign*recordAlign)
		b, err := readAt(f, from, make([]byte, size-from))
		if err != nil {
			return false, err
		}
		for off := len(b) / recordAlign * recordAlign; off >= 0; off -= recordAlign {
			if h, ok := c.parseHeader(b[off:]); ok && h.seq == seq && c.whole(b[off:], h) {
				return allZero(b[off+h.size:]), nil
			}
		}
		if from == start {
			return false, nil
		}
	}
}
