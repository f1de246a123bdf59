package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
)

// clearBackups removes what an earlier life of the member had put together for a client when it was killed. The
// directory is the member's own, and locked.
func clearBackups(dir string) (err error) {
	if dir == "" {
		return nil
	}
	left, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, l := range left {
		if strings.HasPrefix(l.Name(), etcdapi.BackupPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, l.Name())))
		}
	}
	return err
}
