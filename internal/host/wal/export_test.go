package wal

// The tests are in package wal_test, as their disk is in package waltest, which
// imports this one. This is what they know of the format.

const (
	SectorBytes       = sectorBytes
	RecordHeaderBytes = recordHeaderBytes
	SegmentVersion    = segmentVersion
	SnapshotVersion   = snapshotVersion
	SnapshotFixed     = snapshotFixed
	ChunkBytes        = chunkBytes
)

// RecordBytes is the size on disk of a record with a payload of n bytes.
func RecordBytes(n int) int { return recordBytes(n) }

// PutVersion writes a format version.
func PutVersion(b []byte, version uint32) { putVersion(b, version) }

// Offset is where the next record begins in the last segment.
func (l *Log) Offset() int { return int(l.off) }

// Path is the file of a snapshot.
func (s *Snapshots) Path(index uint64) string { return s.path(index) }

// Dir holds the snapshots' files.
func (s *Snapshots) Dir() string { return s.dir }

// Free reports whether nobody holds the log's lock.
func (l *Log) Free() bool {
	free := l.mu.TryLock()
	if free {
		l.mu.Unlock()
	}
	return free
}

// FlushBytes is how much is buffered before it is handed to the kernel.
const FlushBytes = flushBytes

// Buffer is the memory that the log holds for what is not handed to the kernel yet.
func (l *Log) Buffer() int { return cap(l.buf) }

// MayRelease reports whether a call of ReleaseTo would wait for no other one.
func (l *Log) MayRelease() bool {
	may := l.releasing.TryLock()
	if may {
		l.releasing.Unlock()
	}
	return may
}

// SyncEveryBytes is how much of a snapshot is written between two fsyncs.
const SyncEveryBytes = syncEveryBytes

// Extend lengthens a file of the host without reserving space.
func Extend(f File, size int64) error { return f.(osFile).extend(size) }
