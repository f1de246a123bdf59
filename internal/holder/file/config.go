package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tenure-lease/tenure/internal/host/clock"
)

// Config says where leases are kept. Only Paths is required.
type Config struct {
	// Paths are the stores of one set: directories, or devices, by absolute path.
	Paths []string
	// Existing has Open fail where there is no store, instead of making one.
	Existing bool
	// SingleHost lets Open make a store that only the processes of this host can use. Such a store
	// may be on any filesystem.
	SingleHost bool
	// ReadOnly opens the stores to look only. It needs no right to write, and implies Existing.
	ReadOnly bool
	// State is a directory for observations that later processes on this machine can use. Default
	// storage.StateDir().
	State string
	// Clock measures leases. Default clock.System.
	Clock clock.Clock
}

// checkPaths returns an error if paths cannot be those of a set. It does not look for them.
func checkPaths(paths []string) error {
	if len(paths) == 0 {
		return errors.New("no path is given: name a directory, or several of which a minority may fail")
	}
	for i, p := range paths {
		switch {
		case !filepath.IsAbs(p):
			return fmt.Errorf("path %q is not absolute: it would mean another place in each working directory", p)
		case slices.Contains(paths[:i], p):
			return fmt.Errorf("path %q is given twice: one failure would take both away", p)
		}
	}
	return nil
}

// self is the name that our handles show to people.
func self() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
