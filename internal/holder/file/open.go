package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Leaser is a storage.Leaser that knows its paths.
type Leaser struct {
	*storage.Leaser
	places []storage.Place[*file.Store] // by store
	made   bool
}

var _ tenure.Leaser = (*Leaser)(nil)

// Open opens the stores at the paths, in any order. A minority of them may be missing. It
// waits for those that hang no longer than until ctx is done, or some seconds after a
// majority is open.
func Open(ctx context.Context, cfg Config) (*Leaser, error) {
	if err := checkPaths(cfg.Paths); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System
	}
	if cfg.State == "" {
		cfg.State = storage.StateDir()
	}
	made := false
	found := openAll(ctx, cfg)
	if !cfg.Existing && !cfg.ReadOnly && found.empty() {
		if err := makeAll(ctx, cfg); err != nil {
			return nil, err
		}
		made = true
		found = openAll(ctx, cfg)
	}
	if found.begun() && !cfg.Existing && !cfg.ReadOnly {
		if missing, err := awaitAll(ctx, cfg.Paths); err == nil && missing == "" {
			found.close()
			found = openAll(ctx, cfg)
		}
	}
	l, err := found.join(cfg)
	if err != nil {
		found.close()
		return nil, err
	}
	l.made = made
	return l, nil
}

// Made reports whether Open made the stores, which were empty directories.
func (l *Leaser) Made() bool { return l.made }

// findings has one finding for each path, in the order of the paths.
type findings []finding

type finding struct {
	path  string
	store *file.Store
	err   error
	empty bool // there is no store, and one can be made
}

// grace is for how long Open waits for the others once a majority is open.
const grace = 2 * time.Second

var errSilent = errors.New("it does not answer")

// openAll opens each path in a goroutine of its own: one that hangs is left behind.
func openAll(ctx context.Context, cfg Config) findings {
	return openAllBy(ctx, cfg.Paths, func(path string) finding { return openOne(path, cfg) })
}

func openAllBy(ctx context.Context, paths []string, open func(path string) finding) findings {
	type answer struct {
		index int
		finding
	}
	answers := make(chan answer)
	done := make(chan struct{})
	defer close(done)
	all := make(findings, len(paths))
	for i, path := range paths {
		all[i] = finding{path: path, err: fmt.Errorf("%s: %w", path, errSilent)}
		go func() {
			f := open(path)
			select {
			case answers <- answer{i, f}:
			case <-done:
				findings{f}.close()
			}
		}()
	}
	var late <-chan time.Time
	for answered, open := 0, 0; answered < len(all); {
		select {
		case a := <-answers:
			all[a.index] = a.finding
			answered++
			if a.err == nil {
				if open++; open > len(all)/2 && late == nil {
					// A device whose handle died takes two Terms and more to open: see file.Open.
					h := a.store.Header()
					late = time.After(max(grace, (2*h.Term+12*h.Delay)/10*11))
				}
			}
		case <-late:
			return all
		case <-ctx.Done():
			return all
		}
	}
	return all
}

func openOne(path string, cfg Config) finding {
	f := finding{path: path}
	f.store, f.err = file.Open(path, file.Options{
		Clock: cfg.Clock.Now, Holder: self(), ReadOnly: cfg.ReadOnly,
		Obsolete: func(_ string, v machine.Value, writer machine.ID) bool { return storage.Obsolete(v, writer) },
	})
	if errors.Is(f.err, fs.ErrNotExist) {
		st, err := os.Stat(path)
		if f.empty = err == nil && st.IsDir(); err != nil {
			f.err = noPlace(err)
		}
	}
	return f
}

// empty reports whether all of the paths are empty directories.
func (f findings) empty() bool {
	return !slices.ContainsFunc(f, func(x finding) bool { return !x.empty })
}

// begun reports whether too few of the paths have a store and the others are empty directories.
// Then another process may be making a set.
func (f findings) begun() bool {
	open, empty := 0, 0
	for _, x := range f {
		switch {
		case x.err == nil:
			open++
		case x.empty:
			empty++
		}
	}
	return open > 0 && open <= len(f)/2 && open+empty == len(f)
}

// join makes a Leaser of the stores that were found.
func (f findings) join(cfg Config) (*Leaser, error) {
	found := make([]storage.Place[*file.Store], len(f))
	for i, x := range f {
		found[i] = storage.Place[*file.Store]{Name: x.path, Store: x.store, Err: x.err}
	}
	l, places, err := storage.Join(found, "paths", "stores", storage.Options{Clock: cfg.Clock, State: cfg.State, Lifelines: cfg.lifelines(found)})
	if err != nil {
		return nil, err
	}
	return &Leaser{Leaser: l, places: places}, nil
}

func (f findings) close() {
	for _, x := range f {
		if x.store != nil {
			x.store.Close()
		}
	}
}
