package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tenure-lease/tenure/internal/host/wal"
)

// ErrRemoved is why a member ends that is one no more: in etcd's words.
var ErrRemoved = errors.New("node: the member has been permanently removed from the cluster: add it again, and start it with another, empty data directory")

// removedFile in the data directory says that its member was removed.
const removedFile = "removed"

// checkRemoved returns ErrRemoved if the member of a data directory was removed, and
// another error if that cannot be found out.
func checkRemoved(dir string, fsys wal.FS) error {
	f, err := fsys.OpenFile(filepath.Join(dir, removedFile), os.O_RDONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("node: read the data directory: %w", err)
	}
	f.Close()
	return ErrRemoved
}

// noteRemoval makes it durable that the member of a data directory was removed.
func noteRemoval(dir string, fsys wal.FS, text string) error {
	f, err := fsys.OpenFile(filepath.Join(dir, removedFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), 0)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}
