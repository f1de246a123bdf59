package wal

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the same for Create and Open; the zero value is good.
type Options struct {
	// SegmentBytes is the size of a segment file; 0 means 64 MiB. A batch that
	// is larger makes its segment larger. It may differ from run to run.
	SegmentBytes int64
	// LogDir, if set, is where the segments are, on another disk, say. It is no other log's.
	LogDir string
	// FS is the file system; nil means the host's. For tests.
	FS FS
	// Wrote, if set, is told of each write of records: how many bytes, and how long it took. The next write waits
	// for it.
	Wrote func(bytes int, took time.Duration)
}

func (o Options) withDefaults() Options {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.FS == nil {
		o.FS = OS{}
	}
	return o
}

// flushBytes is how much is buffered before it is handed to the kernel, to be
// synced later. A larger buffer would only cost memory.
const flushBytes = 1 << 20

// Log is an open log. See the package comment for who may call what when.
type Log struct {
	opts   Options
	dir    string // of the segments
	lock   io.Closer
	snaps  *Snapshots
	codec  codec
	id     uint64
	meta   []byte
	repair *RepairNote

	// One goroutine's: see duty 1.
	file    File
	first   uint64 // sequence number of the first record in file
	version uint32 // of file's format
	off     int64  // in file, of the next byte to be written
	buf     []byte
	bufSeq  uint64 // sequence number of the first record in buf
	seq     uint64 // of the newest record
	durable uint64 // newest record known to be on disk
	err     error  // what ended the log

	written atomic.Uint64 // newest record that the kernel has; for Readers

	releasing sync.Mutex // held while segments are removed

	mu       sync.Mutex // guards what follows, and is never held while a disk is asked
	segments []segment  // oldest first
	leaving  bool       // the oldest is being removed
}

// Exists reports whether a data directory holds a log or a snapshot. fsys may be
// nil for the host's file system.
func Exists(dir string, fsys FS) (bool, error) {
	return Options{FS: fsys}.Exists(dir)
}

// Create makes a new, empty log in dir, which may exist. meta says whose log it
// is and is kept in every segment. It returns ErrExists if there is a log or a
// snapshot already and ErrLocked if another process has the directory.
func Create(dir string, meta []byte, opts Options) (*Log, error) {
	if len(meta) > metadataBytesMax {
		return nil, fmt.Errorf("wal: metadata of %d bytes: %d are the limit", len(meta), metadataBytesMax)
	}
	l, err := prepare(dir, opts)
	if err != nil {
		return nil, err
	}
	if err := l.create(dir, meta); err != nil {
		l.lock.Close()
		return nil, err
	}
	return l, nil
}

func (l *Log) create(dir string, meta []byte) error {
	if exists, err := l.opts.Exists(dir); err != nil {
		return err
	} else if exists {
		return fmt.Errorf("wal: %s: %w: open it, or use another directory for a new member", dir, ErrExists)
	}
	parents := []string{filepath.Dir(dir), dir}
	if l.opts.LogDir != "" {
		parents = append(parents, filepath.Dir(l.dir))
	}
	for _, d := range parents {
		if err := l.opts.FS.SyncDir(d); err != nil {
			return err
		}
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	l.setOwner(le.Uint64(id[:]), bytes.Clone(meta))
	if err := l.mark(dir, false); err != nil {
		return err
	}
	if err := l.startSegment(); err != nil {
		return err
	}
	return l.mark(dir, true)
}

// prepare locks the directory, makes its parts and removes unfinished files.
func prepare(dir string, opts Options) (*Log, error) {
	opts = opts.withDefaults()
	l := &Log{opts: opts, dir: opts.segmentsDir(dir)}
	l.snaps = &Snapshots{fs: opts.FS, dir: filepath.Join(dir, "snap")}
	if err := opts.FS.MkdirAll(dir); err != nil {
		return nil, err
	}
	if opts.LogDir != "" {
		if err := opts.FS.MkdirAll(opts.LogDir); err != nil {
			return nil, err
		}
	}
	var err error
	if l.lock, err = takeLocks(dir, opts); err != nil {
		return nil, err
	}
	for _, sub := range []string{l.dir, l.snaps.dir} {
		if err = opts.FS.MkdirAll(sub); err == nil {
			err = removeUnfinished(opts.FS, sub)
		}
		if err == nil {
			// A process may have died after it gave a file its name, and before that was durable.
			err = opts.FS.SyncDir(sub)
		}
		if err != nil {
			l.lock.Close()
			return nil, err
		}
	}
	return l, nil
}

func (l *Log) setOwner(id uint64, meta []byte) {
	l.id, l.meta, l.codec = id, meta, newCodec(id)
}

// Meta returns the metadata given to Create.
func (l *Log) Meta() []byte { return l.meta }

// ID is drawn at random when a log is created, and tells its directory from all others but
// copies of it.
func (l *Log) ID() uint64 { return l.id }

// Repair returns what Open cut off the end of the log, nil if nothing.
func (l *Log) Repair() *RepairNote { return l.repair }

// Snapshots returns the snapshot files of the same data directory.
func (l *Log) Snapshots() *Snapshots { return l.snaps }

// LastSeq returns the sequence number of the newest record, 0 if there is none
// yet. It may not be durable.
func (l *Log) LastSeq() uint64 { return l.seq }

// Append buffers records and numbers them; it sets their Seq in place and
// returns that of the last one. They are durable only after Sync. The payloads
// are copied.
func (l *Log) Append(records ...Record) (uint64, error) {
	for i := range records {
		if l.err != nil {
			return 0, l.err
		}
		if n := len(records[i].Payload); n > PayloadBytesMax {
			return 0, l.fail("append", fmt.Errorf("a payload of %d bytes: %d are the limit", n, PayloadBytesMax))
		}
		l.seq++
		records[i].Seq = l.seq
		if len(l.buf) == 0 {
			l.bufSeq = l.seq
		}
		l.buf = l.codec.append(l.buf, l.seq, l.durable, records[i].Kind, records[i].Payload)
		if len(l.buf) >= flushBytes {
			l.flush()
		}
	}
	return l.seq, l.err
}

// Sync makes every appended record durable. It costs nothing if all are.
func (l *Log) Sync() error {
	if l.err != nil || l.durable == l.seq {
		return l.err
	}
	if l.flush() != nil {
		return l.err
	}
	if err := l.file.Sync(); err != nil {
		return l.fail("sync", err)
	}
	l.durable = l.seq
	return nil
}

// Flush hands what was appended to the kernel, so that it outlives the process;
// only Sync makes it outlive the machine.
func (l *Log) Flush() error {
	if l.err != nil {
		return l.err
	}
	return l.flush()
}

// flush writes the buffer, to a new segment if the last one has no room.
func (l *Log) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	if l.off+int64(len(l.buf)) > l.opts.SegmentBytes && l.bufSeq > l.first {
		if err := l.cut(); err != nil {
			return l.fail("start a segment", err)
		}
	}
	begun := time.Now()
	if _, err := l.file.WriteAt(l.buf, l.off); err != nil {
		return l.fail("write", err)
	}
	if l.opts.Wrote != nil {
		l.opts.Wrote(len(l.buf), time.Since(begun))
	}
	l.off += int64(len(l.buf))
	if l.off > l.opts.SegmentBytes { // a batch made the file larger
		l.mu.Lock()
		l.segments[len(l.segments)-1].size = l.off
		l.mu.Unlock()
	}
	l.written.Store(l.seq)
	if cap(l.buf) > 4*flushBytes {
		l.buf = nil // a rare giant batch is no reason to hold its memory
	}
	l.buf = l.buf[:0]
	return nil
}

// cut ends the last segment and starts one for the records in the buffer.
func (l *Log) cut() error {
	if err := l.file.Sync(); err != nil {
		return err
	}
	full, size := l.file, l.off
	if err := l.startSegment(); err != nil {
		return err
	}
	// The zeros behind the last record are not needed any more. Whether this
	// survives a crash does not matter. It comes after the next segment is durable, so
	// that a last segment that was cut tells that another followed.
	if err := errors.Join(full.Truncate(size), full.Close()); err != nil {
		return err
	}
	l.mu.Lock()
	l.segments[len(l.segments)-2].size = size
	l.mu.Unlock()
	return nil
}

// renew begins a segment of this program's version, behind or in the place of one that an
// older program began.
func (l *Log) renew() error {
	if l.first <= l.seq {
		return l.cut()
	}
	old := l.file
	l.segments = l.segments[:len(l.segments)-1]
	if err := l.startSegment(); err != nil {
		return err
	}
	return old.Close()
}

// startSegment makes the buffer's first record, or the next one, the first of a
// new last segment.
func (l *Log) startSegment() error {
	first := l.seq + 1
	if len(l.buf) > 0 {
		first = l.bufSeq
	}
	h := segmentHeader{logID: l.id, first: first, meta: l.meta}
	f, off, err := createSegment(l.opts.FS, l.dir, h, l.opts.SegmentBytes)
	if err != nil {
		return err
	}
	l.file, l.first, l.off, l.version = f, first, off, segmentVersion
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(l.segments, segment{segmentPath(l.dir, first), first, l.opts.SegmentBytes})
	return nil
}

// fail ends the log for good.
func (l *Log) fail(what string, err error) error {
	l.err = fmt.Errorf("wal: %s in %s: %w: %w; this process has to end, and to be started again "+
		"once the disk is well", what, l.dir, ErrFailed, err)
	return l.err
}

// ReleaseTo removes the whole segments whose records all come before seq. The
// last segment always stays. It may be called at any time from any goroutine;
// after an error the segments that are left are still a log.
func (l *Log) ReleaseTo(seq uint64) error {
	l.releasing.Lock()
	defer l.releasing.Unlock()
	for {
		l.mu.Lock()
		oldest := l.segments[0]
		l.leaving = len(l.segments) > 1 && l.segments[1].first <= seq
		leaving := l.leaving
		l.mu.Unlock() // a disk may take long
		if !leaving {
			return nil
		}
		// One that is gone was removed by a call whose SyncDir failed.
		if err := l.opts.FS.Remove(oldest.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.mu.Lock()
			l.leaving = false
			l.mu.Unlock()
			return fmt.Errorf("wal: release a segment: %w", err)
		}
		// One by one, for a crash must not leave a hole.
		if err := l.opts.FS.SyncDir(l.dir); err != nil {
			return fmt.Errorf("wal: release a segment: %w", err)
		}
		l.mu.Lock()
		l.segments, l.leaving = l.segments[1:], false
		l.mu.Unlock()
	}
}

// FirstSeq returns the sequence number of the oldest record that is kept, or
// that of the next one if there is none.
func (l *Log) FirstSeq() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaving {
		return l.segments[1].first
	}
	return l.segments[0].first
}

// Usage returns the bytes on disk of all segments, preallocated ones included.
func (l *Log) Usage() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum int64
	for _, s := range l.segments {
		sum += s.size
	}
	return sum
}

// Close gives the directory up. It does not sync: records that were not synced may be lost.
func (l *Log) Close() error {
	if l.lock == nil {
		return nil
	}
	if l.err == nil {
		l.err = fmt.Errorf("wal: %s: %w", l.dir, ErrClosed)
	}
	err := l.file.Close()
	if e := l.lock.Close(); err == nil {
		err = e
	}
	l.lock = nil
	return err
}
