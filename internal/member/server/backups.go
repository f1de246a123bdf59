package server

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
)

// clearBackups removes what an earlier life of the member had put together for a client when it was killed. The
// directory is the member's own, and locked.
func clearBackups(dir string) (err error) {
	if dir == "" {
		return nil
	}
	left, err := filepath.Glob(filepath.Join(dir, etcdapi.BackupPrefix+"*"))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}
