// Package posix is a directory tree in memory that keeps what POSIX promises to processes of
// one host, or of several on a cluster's file system, and nothing else.
//
//	tree := posix.New()
//	tree.Mkdir("/leases")
//	sys := tree.FS(p, nil)     // a process's view: internal/host/register/file.FS
//	tree.Crash(random)         // the storage loses its power
//
// # Its memory
//
// Names are apart from the files that they lead to. A file that was unlinked, or whose name was
// given to another, stays for processes that have it open. They read and write it though no other
// finds it. Renames and links are atomic. A list is made in two halves, in whatever order, and a
// call may be met between them: POSIX says nothing of a name that comes or goes meanwhile.
//
// A write is done block by block, so that others may read some blocks new and others old. It is
// durable when it returns if the file was opened with O_SYNC, else after a Sync. A name is
// durable, or its absence is, after a SyncDir. A crash keeps any part of the data that was not
// durable: each block and each name for itself. A file that has grown has its old size or the
// new one, and zeros where its blocks were lost.
//
// Locks are seen by the processes of one host, and end with the process. They never wait.
//
// # Processes
//
// Each call asks the world.Process first, at seam world.Disk: there it is delayed, fails,
// hangs or stands still with the process. Hook, if not nil, is asked before that, for
// worlds that draw their faults themselves.
package posix
