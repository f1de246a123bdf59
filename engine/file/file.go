package file

import (
	"context"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/storage"
)

// Config says where leases are kept. Only Paths is required.
type Config struct {
	// Paths are the stores of one set: directories, or devices, by absolute path and in any order.
	Paths []string
	// Existing has Open fail where there is no store, instead of making one.
	Existing bool
	// SingleHost lets Open make a store that only the processes of this host can use. Such a store
	// may be on any filesystem.
	SingleHost bool
	// ReadOnly opens the stores to look only. It needs no right to write, and implies Existing.
	ReadOnly bool
	// State is a directory for observations that later processes on this machine can use. Default
	// $XDG_STATE_HOME/tenure, or ~/.local/state/tenure.
	State string
}

func (c Config) internal() file.Config {
	return file.Config{Paths: c.Paths, Existing: c.Existing, SingleHost: c.SingleHost, ReadOnly: c.ReadOnly, State: c.State}
}

// Open opens the stores. A minority of them may be missing. Open waits for stores that hang until ctx
// is done, but no longer than some seconds after a majority is open. The Leaser is a tenure.Awaiter
// and a tenure.Lister as well.
func Open(ctx context.Context, cfg Config) (tenure.Leaser, error) {
	l, err := file.Open(ctx, cfg.internal())
	if err != nil {
		return nil, err // not l: a nil *file.Leaser is no nil Leaser
	}
	return l, nil
}

// Spec is fixed when the stores of a set are made. A zero field is chosen by Init.
type Spec struct {
	// TTL is how long a lease lasts without a renewal: that of all leases. Default
	// tenure.DefaultTTL.
	TTL time.Duration
	// Delay is how long an access takes at most, in ordinary times. By default it is measured, and
	// 50 ms for devices. A slower store costs time, and never exclusion.
	Delay time.Duration
	// Drift is by how much clocks may differ in rate from true time, in parts per million. Default
	// 1,000.
	Drift int
	// SingleHost makes stores that only the processes of one host can use, on any filesystem.
	SingleHost bool
	// Handles is how many processes can have a device open at a time. It is 0 for directories.
	Handles int
}

func (s Spec) internal() file.Spec {
	return file.Spec{
		Spec:       storage.Spec{Term: s.TTL, Delay: s.Delay, Drift: s.Drift},
		SingleHost: s.SingleHost, Handles: s.Handles,
	}
}

// Init makes the stores of a new set. All paths have to be empty directories, or all devices that
// hold nothing. The error wraps fs.ErrExist if a path is a store already.
func Init(ctx context.Context, paths []string, spec Spec) error {
	_, err := file.Init(ctx, paths, spec.internal())
	return err
}
