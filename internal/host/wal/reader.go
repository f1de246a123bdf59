package wal

import (
	"fmt"
	"io"
	"os"
	"sort"
)

// readAhead is how much a Reader reads at a time.
const readAhead = 128 << 10

// Reader reads a log's records while others are appended. Any goroutine may have one, and
// call it while others call the log.
type Reader struct {
	log   *Log
	next  uint64 // sequence number of the next record
	file  File   // the segment it is in; nil before the first one
	path  string
	first uint64 // of the segment
	codec codec  // for the segment
	off   int64  // in file, of what follows buf
	buf   []byte // read and not yet returned
}

// Reader returns a reader of the records from a sequence number on. It reads what was
// handed to the kernel, by Flush or Sync, whether it is durable or not.
func (l *Log) Reader(from uint64) *Reader { return &Reader{log: l, next: from} }

// Next returns the next record; io.EOF if there is none yet, and then it can be called
// again later; ErrReleased if it is gone. The payload is the caller's.
func (r *Reader) Next() (Record, error) {
	if r.next > r.log.written.Load() {
		return Record{}, io.EOF
	}
	if err := r.seek(); err != nil {
		return Record{}, err
	}
	for {
		h, err := r.record()
		if err != nil {
			return Record{}, err
		}
		b := r.buf[:h.size]
		r.buf = r.buf[h.size:]
		if h.seq < r.next {
			continue // the segment began before
		}
		r.next++
		return Record{h.seq, h.kind, append([]byte(nil), r.codec.payload(b, h)...)}, nil
	}
}

// seek opens the segment that the next record is in.
func (r *Reader) seek() error {
	l := r.log
	s, there := l.segmentOf(r.next)
	if !there {
		return r.released()
	}
	if r.file != nil && s.first == r.first {
		return nil
	}
	f, err := l.opts.FS.OpenFile(s.path, os.O_RDONLY, 0) // a disk may take long: l.mu is not held
	if _, there := l.segmentOf(r.next); !there {         // it was released meanwhile
		if err == nil {
			f.Close()
		}
		return r.released()
	}
	if err != nil {
		return fmt.Errorf("wal: read %s: %w", s.path, err)
	}
	r.Close()
	r.file, r.path, r.first, r.off, r.buf = f, s.path, s.first, 0, nil
	if err := r.begin(); err != nil {
		r.Close() // the next call begins anew, and not in the midst of the header
		return err
	}
	return nil
}

// begin reads the header of the segment that is open.
func (r *Reader) begin() error {
	if err := r.fill(segmentHeaderBytes(len(r.log.meta))); err != nil {
		return err
	}
	h, start, err := parseSegmentHeader(r.path, r.buf)
	if err == nil {
		r.codec = r.log.codec.of(h.version)
		r.buf = r.buf[start:]
	}
	return err
}

func (r *Reader) released() error {
	return fmt.Errorf("wal: record %d in %s: %w", r.next, r.log.dir, ErrReleased)
}

// segmentOf finds the segment of a record, unless that is released.
func (l *Log) segmentOf(seq uint64) (segment, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].first > seq }) - 1
	if i < 0 || l.leaving && i == 0 {
		return segment{}, false
	}
	return l.segments[i], true
}

// record returns the header of the record that buf begins with, all of which is in buf.
func (r *Reader) record() (header, error) {
	for again := false; ; again = true {
		err := r.fill(recordBytesMin)
		h, ok := r.codec.parseHeader(r.buf)
		if err == nil && ok {
			err = r.fill(h.size)
		}
		switch {
		case err == nil && ok && r.codec.whole(r.buf, h) && h.seq <= r.next:
			return h, nil
		case !again: // it was read ahead, before it was written
			r.off -= int64(len(r.buf))
			r.buf = nil
		case err != nil:
			return h, err
		default:
			return h, &CorruptError{File: r.path, Offset: r.off - int64(len(r.buf)), Reason: fmt.Sprintf("record %d is damaged", r.next)}
		}
	}
}

// fill reads on until buf has n bytes at least.
func (r *Reader) fill(n int) error {
	if len(r.buf) >= n {
		return nil
	}
	b := make([]byte, max(n, readAhead))
	have := copy(b, r.buf)
	got, err := r.file.ReadAt(b[have:], r.off)
	r.buf, r.off = b[:have+got], r.off+int64(got)
	switch {
	case len(r.buf) >= n:
		return nil
	case err == io.EOF:
		return &CorruptError{File: r.path, Offset: r.off, Reason: "the file ends within a record"}
	}
	return fmt.Errorf("wal: read %s: %w", r.path, err)
}

// Close closes the file that is open, if one is.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
