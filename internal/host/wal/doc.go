// Package wal keeps the durable state of one member: a write-ahead log in
// segment files, and snapshot files beside it. It knows nothing of raft; it
// stores records of a kind (a byte) and a payload (bytes), and snapshots that
// carry an index, a term and opaque metadata.
//
//	l, err := wal.Open(dir, wal.Options{}, func(r wal.Record) error {
//		return state.restore(r.Seq, r.Kind, r.Payload)  // copy what you keep
//	})
//	…
//	l.Append(entry, hardState)   // buffered
//	if err := l.Sync(); err != nil {
//		log.Fatal(err)       // never go on: see duty 2
//	}
//	acknowledge()                // only now
//	…
//	l.Snapshots().Save(info, store.WriteTo)
//	l.ReleaseTo(seqOfFirstNeededRecord)
//
// # Duties of the caller
//
//  1. One goroutine at a time calls Append, Flush and Sync. Snapshots, ReleaseTo
//     and Usage may be called from others at the same time.
//  2. After a failed write or fsync the log refuses everything with the same
//     error. The process has to end: whether the lost write is on disk is not
//     known, and a second fsync would lie (the kernel drops the dirty pages and
//     reports success). The next Open finds out what is there.
//  3. Before ReleaseTo, everything that is needed from the released records is
//     in a durable snapshot or in later records.
//
// # Files
//
//	dir/lock                          flock, held while the log is open
//	dir/wal/<first sequence, hex>.wal  segments, preallocated with zeros
//	dir/snap/<index, hex>.snap         snapshots
//	dir/wal.elsewhere                 with Options.LogDir: the directory of the segments, the log's id, new or used
//	*.tmp                             unfinished, removed by Open
//
// All integers are little endian. A segment starts with
//
//	magic "TENUREWL" | version u32 | ^version u32 | log id u64 | first seq u64 |
//	meta length u32 | reserved u64 | meta | zeros to a multiple of 8, less 4 | CRC32C u32
//
// and goes on with records, each at a multiple of 8 bytes:
//
//	length u32 | CRC32C u32 | seq u64 | lag u32 | kind u8 | header's checksum u24 |
//	payload, masked | 1 to 8 bytes 0xff
//
// Sequence numbers count the records of the log from 1, without a gap. Both checksums are
// seeded with the log's random id, so that neither a misplaced record, nor one of another
// log, nor a value that looks like a record is ever taken for one. One covers the whole
// record; the other is the low 24 bits of a CRC32C of length, seq, lag and kind. seq-lag is
// the newest record that was known to be durable when this one was written. The mask (the
// payload XORed with a word drawn from the id) and the closing 0xff ensure that a sector of
// a record is never all zeros by itself. Zeros mean not written. reserved is the size that
// the file had, durably, before it had its name.
//
// Segments of version 1 have neither reserved nor header checksums (zeros). They are read,
// and followed by one of version 2, which programs before this one refuse.
//
// # The end of the log after a crash
//
// A crash may leave any subset of the sectors (512 bytes) written since the last
// Sync, the others still being the zeros of preallocation; a write that failed may end
// within one. Open reads records until one is bad. Zeros to the end of the file are the
// regular end. Otherwise, in the last segment:
//
//  1. If a later record is whole and says that the bad one was durable by then,
//     the bad record was damaged after it was written: [CorruptError].
//  2. If a sector of its header was never written, it is a torn write. So it is if length,
//     checksum and sequence number are zeros: an earlier Open had begun to cut it off.
//  3. Otherwise its header was written. If it is not a header with the expected sequence
//     number: [CorruptError].
//  4. Otherwise the header says how long the record is. If one of the record's sectors was
//     never written, it is a torn write, and if all were: [CorruptError].
//
// A sector was never written in three cases. It is zeros from the beginning of the bad
// record on. Or it is not in the file, which a batch had made larger. Or it is zeros
// from a byte on that is not zero in any record. A torn write is cut off with what
// follows, and [Log.Repair] tells.
//
// In an earlier segment every bad record is rule 1, because a segment is synced
// before the next begins. A last segment that is shorter than it was made has been cut, or
// was not the last: a segment is made shorter only when the next is there, durably. That is
// a [CorruptError], too.
//
// # What is known of the very last Sync
//
// Whether it returned is written down only with the next record. So of its records no bit
// can turn, and no byte behind their end be lost with the file's, without an error. One
// loss looks like a crash before that Sync: whole sectors that a disk has confirmed and
// lost, so that they are zeros. A note of the synced length could not tell either without a
// second fsync. Owners that append something soon after a Sync, forced or not, as package
// node does with each commit, make that Sync's records rule 1.
//
// Open writes again, and syncs, the records that are not known to be durable. A process may
// have been killed between write and fsync, or after a failed fsync, and the page cache
// shows such records as if they were safe. The same holds for the names of segments and
// snapshots.
//
// # Why not etcd's wal package
//
// It is proven and its log can be read by etcd's tools. But its errors do not name file and
// offset. Its records carry neither sequence numbers nor the durable position, so damage
// among the last records and a torn write can look alike. Its format has no version to
// refuse, and it pulls in etcd's server module. The log is small enough to own.
//
// # Left out
//
// Encryption, compression, segment recycling, more than one log a directory,
// and repair of damage: the other members have the data.
package wal
