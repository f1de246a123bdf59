package waltest

import (
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tenure-lease/tenure/internal/host/wal"
)

// Witness is the host's file system, for code that needs calls which a Disk does not have. It notes what
// was made durable and what was renamed.
type Witness struct {
	wal.OS
	// Saw, if set, is called before a call is made.
	Saw func(call string)

	mu    sync.Mutex
	calls []string
}

// Calls returns what happened, in order: "sync PATH", "rename FROM TO" and "syncdir PATH", by the last
// elements of the paths.
func (w *Witness) Calls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

func (w *Witness) saw(op string, paths ...string) {
	call := op
	for _, p := range paths {
		call += " " + filepath.Base(p)
	}
	if w.Saw != nil {
		w.Saw(call)
	}
	w.mu.Lock()
	w.calls = append(w.calls, call)
	w.mu.Unlock()
}

// OpenFile opens a file whose syncs are noted.
func (w *Witness) OpenFile(path string, flag int, perm fs.FileMode) (wal.File, error) {
	f, err := w.OS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return witnessed{f, w, path}, nil
}

// Rename renames a file or a directory.
func (w *Witness) Rename(from, to string) error {
	w.saw("rename", from, to)
	return w.OS.Rename(from, to)
}

// SyncDir makes the entries of a directory durable.
func (w *Witness) SyncDir(dir string) error {
	w.saw("syncdir", dir)
	return w.OS.SyncDir(dir)
}

type witnessed struct {
	wal.File
	by   *Witness
	path string
}

func (f witnessed) Sync() error {
	f.by.saw("sync", f.path)
	return f.File.Sync()
}
