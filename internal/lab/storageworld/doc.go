// Package storageworld plays worlds of processes that keep leases in directories. The
// internal/holder/storage and internal/host/register/file that ship run over the tree of
// internal/lab/world/posix, each process with a clock of its own that goes at its own rate.
//
// A world has one directory, or three of which one may fail, two to four processes, and one or two
// names. Processes hold several claims at once, exclusive and shared. They look on, tidy up, are idle
// for long, are closed and opened again. They are killed and stand still between any two system calls,
// also within a listing of a directory. They have calls that are slow or fail, and the storage loses
// its power. A few have so many claims that their files grow. Each world draws few of these, and those
// often. Processes of one host see each other's locks, and learn from lifelines which holder has ended; in
// some worlds the file system is a network's, where locks tell nothing, or the lifelines are replaced by
// copies while their holders live. Calls that stand still once in a hundred times found nothing; one kind of call, drawn for a
// world, that does so once in five found that a file of a living handle was removed.
//
// The judge stands apart and knows true time:
//
//   - two hold at once though their claims exclude each other: their Check returns nil at one
//     moment;
//   - a token of an exclusive tenure that is not greater than that of each tenure before it, or
//     one of a shared tenure that is not greater than that of each exclusive one before. That
//     counts over releases, deaths and crashes;
//   - a name that is not held and cannot be had, once the faults have ended, within the time
//     that it takes to wait for all leftovers;
//   - a release that fails although all is well, or, with one directory, after which the name is not
//     to be had at once;
//   - a lease that is lost although it was acquired when nothing was left of the faults;
//   - a process that cannot open the store again when the faults have ended.
//
// Witnesses (internal/holder/storage, Options.State) are files of the host, outside of the tree: no
// crash, torn file or call that stands still befalls them. They have a checksum, are never synced, and
// only save waits: one that is lost or damaged costs time. Clocks go at rates that do not change, and
// no clock jumps; NFS's stale handles are for the tests of internal/host/register/file.
//
// A world is played on one P, with its trace in memory, and its draws come from a source for
// each part of a process. Most seeds repeat exactly so; where two are ready at the same
// nanosecond, Go's select and scheduler choose, and the course may be another one. Not here:
// devices, which internal/host/register/file has worlds of its own for, Redis, which internal/lab/redisworld plays, and
// package internal/holder/file's Open.
package storageworld
