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
	// SingleHost: a store that Open makes is for the processes of this host only. It may
	// be on any filesystem then.
	SingleHost bool
	// ReadOnly is to look only, for which no right to write is needed. It implies
	// Existing.
	ReadOnly bool
	// State is where to remember what has to be remembered from process to process.
	// Default storage.StateDir().
	State string
	// Clock measures leases. Default clock.System.
	Clock clock.Clock
}

// CheckPaths tells what is wrong with paths of a set, without looking for them.
func CheckPaths(paths []string) error {
	if len(paths) == 0 {
		return errors.New("no path is given: name a directory, or several of which a minority may fail")
	}
	for i, p := range paths {
		switch {
		case !filepath.IsAbs(p):
			return fmt.Errorf("path %q is not absolute: it would be another one for each working directory", p)
		case slices.Contains(paths[:i], p):
			return fmt.Errorf("path %q is given twice: one failure would take both away", p)
		}
	}
	return nil
}

// self is what people are told of our handles.
func self() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
