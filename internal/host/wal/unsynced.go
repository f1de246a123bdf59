package wal

import "io/fs"

// Unsynced is a file system that syncs nothing: what was acknowledged outlives the process, and not the machine.
type Unsynced struct{ FS }

// OpenFile opens or creates a file that is never synced.
func (u Unsynced) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	f, err := u.FS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

// SyncDir does nothing.
func (u Unsynced) SyncDir(string) error { return nil }

type unsyncedFile struct{ File }

func (unsyncedFile) Sync() error { return nil }
