// Package waltest is a disk in memory for tests of what stands on package wal:
// it forgets what was not synced, and fails when it is told to.
//
//	disk := waltest.NewDisk()
//	fs := disk.FS()                       // as a process sees it
//	log, err := wal.Create("/data", nil, wal.Options{FS: fs})
//	…
//	disk.Crash(rand.New(rand.NewPCG(seed, 0)))
//	log, err = wal.Open("/data", wal.Options{FS: disk.FS()}, replay)
//
// # What a crash may do
//
// Crash is the loss of power, the worst that a disk which keeps its promises may
// do, as chance has it:
//
//   - The content of a file at its last Sync stays, as far as it was not written again.
//     Each sector of 512 bytes that was written since may be there or be as before,
//     whatever the order of the writes. So records are lost, torn, or there although
//     earlier ones are not. A sector is never half written.
//   - The length is that of the last Sync or the present one. A sector that a
//     longer file has and that was not written is zeros.
//   - Of the changes to a directory since its last SyncDir (files created,
//     renamed, removed), the first few are there, in the order in which they
//     were made. A file whose name is lost is lost. A move to another directory is
//     durable when either is synced, as a whole. A directory that is made stays.
//   - All processes are dead: calls through an FS of before fail with
//     ErrCrashed. Their locks are free.
//
// The same seed and the same calls give the same outcome.
//
// Fault stands before every call of a process and may fail it. A write that fails has
// written its first half. Kill ends the processes at a point that a Fault chooses, as the
// loss of power in the middle of a call does. Then Crash decides what is left, or Exit if
// only the processes have died. ReadFile and WriteFile go past the processes: to look at
// what is on the disk, and to damage it. Open tells which files a process has left open.
//
// Left out: permissions, open files that were removed from their directory and
// are still read by other names, directories that must exist before their files
// do, and disks that lie about Sync.
package waltest
