package main

import "golang.org/x/sys/unix"

// inMemory reports whether a directory's files are in memory only.
func inMemory(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && (fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC)
}
