package wal

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt matches every *CorruptError.
	ErrCorrupt = errors.New("data on disk is damaged")
	// ErrNewerVersion means that a file was written by a newer program.
	ErrNewerVersion = errors.New("file format is newer than this program")
	// ErrLocked means that another process has the data directory open.
	ErrLocked = errors.New("data directory is in use by another process")
	// ErrExists means that Create found a log or a snapshot.
	ErrExists = errors.New("data directory is not empty")
	// ErrNotExist means that Open found neither a log nor a snapshot.
	ErrNotExist = errors.New("no log in the data directory")
	// ErrFailed matches the error of a log that failed to write or sync, and of
	// every call after that. The process has to end.
	ErrFailed = errors.New("the log cannot be written")
	// ErrClosed means that the log was closed.
	ErrClosed = errors.New("the log is closed")
	// ErrReleased means that a Reader is behind ReleaseTo.
	ErrReleased = errors.New("the record was released")
	// ErrNoSnapshot means that there is no snapshot file at all.
	ErrNoSnapshot = errors.New("no snapshot")
)

// CorruptError says where data that had been durable is no longer readable.
type CorruptError struct {
	File   string // path
	Offset int64  // of the damaged record, chunk or header
	Reason string
}

// Error names the place and says what to do.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("wal: %s: offset %d: %s; this member's data cannot be trusted: "+
		"leave it stopped, the others go on without it, keep a copy of its data directory and replace the member; "+
		"do not start it with an empty directory under the same name, for it would have forgotten its votes; "+
		"never edit or delete single files", e.File, e.Offset, e.Reason)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// RepairNote tells that the end of the log was cut off on Open, because some of its
// sectors were never written. A crash before the fsync leaves that, and then nothing in it
// was acknowledged; so does a disk that lost what it had confirmed, which cannot be told
// apart.
type RepairNote struct {
	File   string // path of the segment
	Offset int64  // where the log ends now
	Bytes  int64  // how many bytes behind it were dropped
	Seq    uint64 // sequence number of the first record dropped
}

// String is one line for the log.
func (n *RepairNote) String() string {
	return fmt.Sprintf("%s: dropped %d bytes at offset %d: record %d was not written as a whole, as a crash before its fsync leaves it",
		n.File, n.Bytes, n.Offset, n.Seq)
}
