package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Spec is fixed when stores are made. A zero Delay is replaced by Times.Delay of a measurement, at
// least storage.LeastDelay, and by 50 ms for devices.
type Spec struct {
	storage.Spec
	// SingleHost makes stores for the processes of one host only, on any filesystem.
	SingleHost bool
	// Handles is how many processes can have a device open at a time. 0 for directories.
	Handles int
}

const deviceDelay = 50 * time.Millisecond

// Init makes the stores of a new set, and returns the header that they share. All paths have to be
// empty directories, or all devices that hold nothing.
func Init(ctx context.Context, paths []string, spec Spec) (register.Header, error) {
	return initBy(ctx, clock.Now, paths, spec)
}

// initBy is Init with the clock that measures δ.
func initBy(ctx context.Context, now func() machine.Mono, paths []string, spec Spec) (register.Header, error) {
	var h register.Header
	if err := checkPaths(paths); err != nil {
		return h, err
	}
	for _, path := range paths { // before any is made
		if err := vacant(path); err != nil {
			return h, err
		}
	}
	var err error
	if spec.Delay == 0 {
		if spec.Delay, err = choose(ctx, now, paths, spec); err != nil {
			return h, err
		}
	}
	if h, err = spec.Header(len(paths)); err != nil {
		return h, err
	}
	if err := makeSet(paths, h, file.InitOptions{SingleHost: spec.SingleHost, Handles: spec.Handles}, file.Check, file.Init); err != nil {
		return h, err
	}
	return h, nil
}

// step is file.Check or file.Init.
type step func(path string, h register.Header, opts file.InitOptions) error

// makeSet makes the stores of a set, one after the other. It looks at all before it makes any, or a
// device that is too small would leave half a set. If a disk fails and half a set is left all the
// same, the error says which stores there are.
func makeSet(paths []string, h register.Header, opts file.InitOptions, check, initialize step) error {
	for i, path := range paths {
		h.Index = i
		if err := check(path, h, opts); err != nil {
			return err
		}
	}
	for i, path := range paths {
		h.Index = i
		if err := initialize(path, h, opts); i > 0 && err != nil {
			return fmt.Errorf("%w; half a set is left: empty %s before it is made again", err, strings.Join(paths[:i], ", "))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// vacant returns an error if no store can be made at path. It does not write, so it cannot find
// every obstacle.
func vacant(path string) error {
	_, _, err := file.Find(path)
	if err == nil {
		return fmt.Errorf("%s is a store already: use it as it is, or empty it when nobody uses it any more: %w", path, fs.ErrExist)
	}
	st, missing := os.Stat(path)
	switch {
	case missing != nil:
		return noPlace(missing)
	case st.IsDir() && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

func noPlace(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: make the directory first (mkdir), on the filesystem that is to be shared", err)
	}
	return err
}

// choose is δ by measurement, of the slowest store. Devices are not written before they
// are made.
func choose(ctx context.Context, now func() machine.Mono, paths []string, spec Spec) (time.Duration, error) {
	delay := storage.LeastDelay
	for _, path := range paths {
		if st, err := os.Stat(path); err != nil || !st.IsDir() {
			delay = max(delay, deviceDelay)
			continue // Init returns the error
		}
		times, err := measureBy(ctx, now, path, spec.SingleHost, someAccesses, nil)
		if err != nil {
			return 0, err
		}
		delay = max(delay, times.Delay())
	}
	return delay.Round(time.Millisecond), nil
}

// makeAll is Init for the first process. Of several processes at once, the one that makes the first
// store makes them all, and the others wait for it. So all begin with the same path.
func makeAll(ctx context.Context, cfg Config) error {
	paths := slices.Sorted(slices.Values(cfg.Paths))
	_, err := initBy(ctx, cfg.Clock.Now, paths, Spec{SingleHost: cfg.SingleHost})
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	missing, err := awaitAll(ctx, paths)
	if err == nil && missing != "" {
		err = fmt.Errorf("a process began to make a set of stores and did not finish: %s is still empty; if nobody has used the other stores yet, empty them too", missing)
	}
	return err
}

// awaitAll waits for stores that somebody is making, and returns the path of one that is still
// missing after some time.
func awaitAll(ctx context.Context, paths []string) (missing string, err error) {
	for end := time.Now().Add(grace); ; {
		missing = ""
		for _, path := range paths {
			if _, _, err := file.Find(path); err != nil {
				missing = path
			}
		}
		if missing == "" || time.Now().After(end) {
			return missing, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return missing, ctx.Err()
		}
	}
}
