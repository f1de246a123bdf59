package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
)

// SnapshotInfo is what a snapshot file says of itself.
type SnapshotInfo struct {
	Index uint64 // names the file; the larger, the newer
	Term  uint64
	Meta  []byte // the caller's, at most 1 MiB
}

// Snapshots are the snapshot files of one data directory. Any goroutine may
// call any method; a file that is being read stays readable when it is pruned.
type Snapshots struct {
	fs  FS
	dir string
	tmp atomic.Uint64 // numbers unfinished files
}

func (s *Snapshots) path(index uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%016x%s", index, snapshotSuffix))
}

// Save writes a snapshot, whose body comes from the given function, and returns
// when it is durable. Until then nothing of it is seen under its name.
func (s *Snapshots) Save(info SnapshotInfo, body func(io.Writer) error) error {
	if len(info.Meta) > metadataBytesMax {
		return fmt.Errorf("wal: snapshot metadata of %d bytes: %d are the limit", len(info.Meta), metadataBytesMax)
	}
	_, err := s.create(func(w io.Writer) (SnapshotInfo, error) {
		enc, err := newSnapshotEncoder(w, info)
		if err == nil {
			err = body(enc)
		}
		if err == nil {
			err = enc.finish()
		}
		return info, err
	})
	if err != nil {
		return fmt.Errorf("wal: save snapshot %d: %w", info.Index, err)
	}
	return nil
}

// Import keeps a snapshot of an index that another member sent: Receive and Keep.
func (s *Snapshots) Import(index uint64, r io.Reader) (SnapshotInfo, error) {
	a, err := s.Receive(index, r)
	if err != nil {
		return SnapshotInfo{}, err
	}
	return a.Info, a.Keep()
}

// Arrival is a snapshot that another member sent. It is durable, and no snapshot of the
// directory before Keep: when the directory is opened again, it is gone.
type Arrival struct {
	Info SnapshotInfo
	s    *Snapshots
	tmp  string
}

// Keep gives the file its name, durably.
func (a *Arrival) Keep() error {
	if err := a.s.fs.Rename(a.tmp, a.s.path(a.Info.Index)); err != nil {
		return fmt.Errorf("wal: keep snapshot %d: %w", a.Info.Index, err)
	}
	return a.s.fs.SyncDir(a.s.dir)
}

// Discard removes the file.
func (a *Arrival) Discard() error { return a.s.fs.Remove(a.tmp) }

// Receive takes a snapshot of an index that another member sends, the bytes of its file. It
// checks them on the way and returns when they are durable. A damaged or
// unfinished one, or one of another index, leaves nothing behind; the error matches
// ErrCorrupt.
func (s *Snapshots) Receive(index uint64, r io.Reader) (*Arrival, error) {
	tmp, info, err := s.write(func(w io.Writer) (SnapshotInfo, error) {
		dec, err := newSnapshotDecoder("stream", io.TeeReader(r, w))
		if err == nil && dec.info.Index != index {
			err = dec.corrupt(16, fmt.Sprintf("snapshot %d was announced", index))
		}
		if err == nil {
			_, err = io.Copy(io.Discard, dec)
		}
		return dec.info, err
	})
	var corrupt *CorruptError
	switch {
	case errors.As(err, &corrupt):
		return nil, fmt.Errorf("wal: received snapshot %d: offset %d: %s; it was not kept, have it sent again: %w",
			info.Index, corrupt.Offset, corrupt.Reason, ErrCorrupt)
	case err != nil:
		return nil, fmt.Errorf("wal: receive snapshot: %w", err)
	}
	return &Arrival{info, s, tmp}, nil
}

// create makes a file of what write writes, durable before it has its name.
func (s *Snapshots) create(write func(io.Writer) (SnapshotInfo, error)) (SnapshotInfo, error) {
	tmp, info, err := s.write(write)
	if err != nil {
		return info, err
	}
	if err := s.fs.Rename(tmp, s.path(info.Index)); err != nil {
		s.fs.Remove(tmp) // or Open will
		return info, err
	}
	return info, s.fs.SyncDir(s.dir)
}

// write makes a durable file of what write writes, under a name of its own.
func (s *Snapshots) write(write func(io.Writer) (SnapshotInfo, error)) (tmp string, info SnapshotInfo, err error) {
	tmp = filepath.Join(s.dir, fmt.Sprintf("%d%s%s", s.tmp.Add(1), snapshotSuffix, tmpSuffix))
	f, err := s.fs.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return tmp, info, err
	}
	whole := false
	defer func() { // the caller's write may panic, too
		f.Close()
		if !whole {
			s.fs.Remove(tmp) // or Open will
		}
	}()
	w := &syncingWriter{file: f}
	info, err = write(w)
	if err == nil {
		err = w.err // io.ReadFull drops that of a Write whose bytes were all it needed
	}
	if err == nil {
		err = f.Sync()
	}
	whole = err == nil
	return tmp, info, err
}

// syncingWriter appends to a file and syncs it every few megabytes, so that the
// kernel never has a whole snapshot to write while the log waits for its fsync.
type syncingWriter struct {
	file     File
	off      int64
	unsynced int
	err      error // the first
}

const syncEveryBytes = 4 << 20

func (w *syncingWriter) Write(b []byte) (int, error) {
	n, err := w.file.WriteAt(b, w.off)
	w.off += int64(n)
	w.unsynced += n
	if err == nil && w.unsynced >= syncEveryBytes {
		w.unsynced = 0
		err = w.file.Sync()
	}
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// Newest returns the newest snapshot after reading all of it. A damaged one is an error,
// unless an older one is good and the function reaches reports of it that the log still
// holds all later records. Then skipped has the errors, to be reported. The damaged files
// are renamed, so that none is taken for a reserve. It returns ErrNoSnapshot if there is
// none.
func (s *Snapshots) Newest(reaches func(SnapshotInfo) bool) (info SnapshotInfo, skipped []error, err error) {
	indexes, err := listNumbers(s.fs, s.dir, snapshotSuffix)
	if err != nil {
		return info, nil, err
	}
	for i := len(indexes) - 1; i >= 0; i-- {
		info, err := s.Verify(indexes[i])
		switch {
		case errors.Is(err, ErrCorrupt):
			skipped = append(skipped, err)
		case err != nil:
			return info, nil, err
		case len(skipped) > 0 && (reaches == nil || !reaches(info)):
			return info, nil, fmt.Errorf("%w (snapshot %d is whole, but the log does not reach back to it)", skipped[0], info.Index)
		default:
			return info, skipped, s.setAside(indexes[i+1:])
		}
	}
	if len(skipped) > 0 {
		return info, nil, skipped[0]
	}
	return info, nil, ErrNoSnapshot
}

// setAside renames damaged snapshots.
func (s *Snapshots) setAside(indexes []uint64) error {
	for _, index := range indexes {
		if err := s.fs.Rename(s.path(index), s.path(index)+damagedSuffix); err != nil {
			return fmt.Errorf("wal: set a damaged snapshot aside: %w", err)
		}
	}
	return nil
}

// Verify reads all of a snapshot and returns what it says of itself.
func (s *Snapshots) Verify(index uint64) (SnapshotInfo, error) {
	r, err := s.Open(index)
	if err != nil {
		return SnapshotInfo{}, err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return r.Info(), err
}

// Open opens a snapshot. Read returns verified bytes. io.EOF comes only after the whole
// file was found good, so wait for it before using the content.
func (s *Snapshots) Open(index uint64) (*SnapshotReader, error) {
	raw, _, err := s.Export(index)
	if err != nil {
		return nil, err
	}
	dec, err := newSnapshotDecoder(s.path(index), raw)
	if err == nil && dec.info.Index != index {
		err = &CorruptError{File: s.path(index), Offset: 16,
			Reason: fmt.Sprintf("the header says snapshot %d, the name says %d", dec.info.Index, index)}
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	dec.wholeFile = true
	return &SnapshotReader{dec, raw}, nil
}

// SnapshotReader reads the body of a snapshot.
type SnapshotReader struct {
	dec *snapshotDecoder
	raw io.ReadCloser
}

// Info returns what the header says.
func (r *SnapshotReader) Info() SnapshotInfo { return r.dec.info }

// Read reads from the body; a *CorruptError says where it is damaged.
func (r *SnapshotReader) Read(b []byte) (int, error) { return r.dec.Read(b) }

// Close closes the file.
func (r *SnapshotReader) Close() error { return r.raw.Close() }

// Export opens the bytes of a snapshot file, unverified, to be sent to another
// member's Import, which verifies them. It also returns how many they are.
func (s *Snapshots) Export(index uint64) (io.ReadCloser, int64, error) {
	f, err := s.fs.OpenFile(s.path(index), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("wal: snapshot %d in %s: %w", index, s.dir, ErrNoSnapshot)
	}
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, 0, size), f}, size, nil
}

// List returns the indexes of the snapshots, ascending, damaged ones included.
func (s *Snapshots) List() ([]uint64, error) { return listNumbers(s.fs, s.dir, snapshotSuffix) }

// Prune removes all but the newest keep snapshots, at least one.
func (s *Snapshots) Prune(keep int) error {
	indexes, err := s.List()
	if err != nil {
		return err
	}
	for i := 0; i < len(indexes)-max(keep, 1); i++ {
		if err := s.fs.Remove(s.path(indexes[i])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("wal: prune snapshots: %w", err)
		}
	}
	return nil
}
