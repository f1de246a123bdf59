package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/machine"
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
	// Holder says which processes are a holder.
	Holder Holder
	// State is a directory for observations that later processes on this machine can use. Default
	// storage.StateDir().
	State string
	// Clock measures leases. Default clock.System.
	Clock clock.Clock
}

// Holder says which processes have to end before their lease can be another's at once. In sets of one
// directory that is not shared by network, others on this machine see when the last of them does.
type Holder int

const (
	// Process is this process alone: if it has children that go on, they go on without a lease.
	Process Holder = iota
	// Family is this process with all that it starts.
	Family
	// Stranger is a process that hears from this one, and takes a while to hear of its end. Others
	// wait as for a holder on another machine.
	Stranger
)

// lifelines returns those of the stores, nil if there are none.
func (cfg Config) lifelines(stores []storage.Place[*file.Store]) storage.Lifelines {
	if cfg.Holder == Stranger || len(stores) != 1 || stores[0].Err != nil {
		return nil
	}
	return Lifelines(stores[0].Store, storage.BootID(), cfg.Holder == Family)
}

// Lifelines returns those of a store as package storage wants them, nil if it has none.
func Lifelines(s *file.Store, boot string, inherit bool) storage.Lifelines {
	if l := s.Lifelines(boot, inherit); l != nil {
		return lifelines{l}
	}
	return nil
}

type lifelines struct{ *file.Lifelines }

func (l lifelines) Tie(id machine.ID) (storage.Lifeline, error) {
	line, err := l.Lifelines.Tie(id)
	if err != nil {
		return nil, err
	}
	return line, nil
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
