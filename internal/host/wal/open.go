package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Open opens the log in dir, repairs its end as the package comment tells, and
// calls replay for each record that is kept, in order. The payload is valid only
// during the call. An error of replay ends Open and is returned as it is.
//
// It returns ErrNotExist if there is nothing to open, ErrLocked, ErrNewerVersion,
// or a *CorruptError. All but the first mean: do not start.
func Open(dir string, opts Options, replay func(Record) error) (*Log, error) {
	return openLog(dir, opts, false, replay)
}

// openLog is Open, or OpenEnds.
func openLog(dir string, opts Options, ends bool, replay func(Record) error) (*Log, error) {
	exists, err := opts.Exists(dir)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, fmt.Errorf("wal: %s: %w", dir, ErrNotExist)
	}
	l, err := prepare(dir, opts)
	if err != nil {
		return nil, err
	}
	err = l.load(ends, replay)
	if err == nil {
		err = l.mark(dir, true)
	}
	if err != nil {
		if l.file != nil {
			l.file.Close()
		}
		l.lock.Close()
		return nil, err
	}
	return l, nil
}

// load reads all segments, one in memory at a time, or the first and the last.
func (l *Log) load(ends bool, replay func(Record) error) error {
	firsts, err := listNumbers(l.opts.FS, l.dir, segmentSuffix)
	if err != nil {
		return err
	}
	if len(firsts) == 0 {
		return &CorruptError{File: l.dir, Reason: "there are snapshots but no log: its segments are gone"}
	}
	var buf []byte
	for i, first := range firsts {
		last := i == len(firsts)-1
		if ends && i > 0 && !last {
			err = l.skip(first, firsts[i+1])
		} else {
			buf, err = l.loadSegment(first, last, buf, replay)
		}
		if err != nil {
			return err
		}
	}
	if l.version < segmentVersion {
		if err := l.renew(); err != nil {
			return fmt.Errorf("wal: begin a segment of version %d in %s: %w", segmentVersion, l.dir, err)
		}
	}
	l.durable = l.seq
	l.written.Store(l.seq)
	return nil
}

// loadSegment reads a segment into a buffer, which it returns for the next one.
func (l *Log) loadSegment(first uint64, last bool, buf []byte, replay func(Record) error) ([]byte, error) {
	path := segmentPath(l.dir, first)
	f, err := l.opts.FS.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if last {
		l.file = f // Open closes it if need be
	} else {
		defer f.Close()
	}
	seg, err := readFile(f, buf)
	if err != nil {
		return nil, fmt.Errorf("wal: read %s: %w", path, err)
	}
	h, start, err := parseSegmentHeader(path, seg)
	if err != nil {
		return nil, err
	}
	if err := l.checkOwner(path, first, h); err != nil {
		return nil, err
	}

	codec := l.codec.of(h.version)
	if last && int64(len(seg)) < h.reserved {
		return nil, &CorruptError{path, int64(len(seg)), fmt.Sprintf("the file had %d bytes and was cut to %d: its end is gone, or the segments that followed it", h.reserved, len(seg))}
	}

	// Verify first, which leaves the bytes as they are on disk, then hand out.
	durable, unsafeFrom := first-1, start
	end, next, _ := codec.scan(seg, start, first, func(off int, h header) error {
		durable = max(durable, h.durable)
		return nil
	})
	if !allZero(seg[end:]) {
		if !last {
			return nil, &CorruptError{path, int64(end), fmt.Sprintf("record %d is damaged, and later segments follow", next)}
		}
		if damage := codec.judge(seg, end, next); damage != "" {
			return nil, &CorruptError{path, int64(end), damage}
		}
		l.repair = &RepairNote{File: path, Offset: int64(end), Bytes: dirtyBytes(seg[end:]), Seq: next}
	}
	for off := start; off < end; {
		h, _ := codec.parseHeader(seg[off:])
		if h.seq <= durable {
			unsafeFrom = off + h.size
		}
		off += h.size
	}
	if last {
		if err := l.resume(seg[:end], unsafeFrom); err != nil {
			return nil, fmt.Errorf("wal: repair %s: %w", path, err)
		}
	}
	size := int64(len(seg))
	if last {
		size = max(size, l.opts.SegmentBytes)
	}
	l.segments = append(l.segments, segment{path, first, size})
	l.first, l.seq, l.off, l.version = first, next-1, int64(end), h.version
	for off := start; off < end; {
		h, _ := codec.parseHeader(seg[off:])
		if err := replay(Record{h.seq, h.kind, codec.payload(seg[off:], h)}); err != nil {
			return nil, err
		}
		off += h.size
	}
	return seg, nil
}

// checkOwner wants the segments to be those of one log, without a gap.
func (l *Log) checkOwner(path string, name uint64, h segmentHeader) error {
	corrupt := func(format string, args ...any) error {
		return &CorruptError{File: path, Reason: fmt.Sprintf(format, args...)}
	}
	if h.first != name {
		return corrupt("the segment begins with record %d by its header but %d by its name", h.first, name)
	}
	if len(l.segments) == 0 {
		l.setOwner(h.logID, h.meta)
		return nil
	}
	if h.logID != l.id || !bytes.Equal(h.meta, l.meta) {
		return corrupt("the segment belongs to another log than %s", l.segments[0].path)
	}
	if h.first != l.seq+1 {
		return corrupt("the log before ends with record %d and this segment begins with %d: records are missing", l.seq, h.first)
	}
	return nil
}

// resume readies the last segment, whose good part is seg, for appending. The rest becomes
// zeros. Records that are not known to be durable are written again, because the page cache
// may show records that the disk does not have.
func (l *Log) resume(seg []byte, unsafeFrom int) error {
	if l.repair != nil {
		// Not by Truncate: a file that is too short would be taken for damaged.
		if _, err := l.file.WriteAt(make([]byte, l.repair.Bytes), l.repair.Offset); err != nil {
			return err
		}
	}
	if err := l.file.Preallocate(max(int64(len(seg)), l.opts.SegmentBytes)); err != nil {
		return err
	}
	if unsafeFrom < len(seg) {
		if _, err := l.file.WriteAt(seg[unsafeFrom:], int64(unsafeFrom)); err != nil {
			return err
		}
	}
	return l.file.Sync()
}

// dirtyBytes is the length of b without the zeros at its end.
func dirtyBytes(b []byte) int64 {
	return int64(len(bytes.TrimRight(b, "\x00")))
}

// listNumbers returns the numbers in the names of the files with a suffix,
// ascending; none if there is no such directory.
func listNumbers(fsys FS, dir, suffix string) ([]uint64, error) {
	names, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var numbers []uint64 // fixed-width hex: sorted as the names are
	for _, name := range names {
		if n, ok := parseNumber(name, suffix); ok {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// removeUnfinished removes files that a crash kept from getting their name.
func removeUnfinished(fsys FS, dir string) error {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, tmpSuffix) {
			if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}
