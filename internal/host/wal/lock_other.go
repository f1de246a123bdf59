//go:build !unix || solaris || illumos || aix

package wal

import (
	"errors"
	"fmt"
	"io"
)

// Lock refuses: without flock two processes could write one log.
func (OS) Lock(path string) (io.Closer, error) {
	return nil, fmt.Errorf("wal: cannot lock %s on this system: %w", path, errors.ErrUnsupported)
}
