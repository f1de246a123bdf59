package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Options are an opener's own.
type Options struct {
	// Clock counts suspend and never goes back, as clock.Now does. Any goroutine may
	// call it.
	Clock func() machine.Mono
	// Obsolete reports whether nobody needs a writer's record of a name any more, given the
	// register's value. Nil: everything may be needed.
	Obsolete func(name string, v machine.Value, writer machine.ID) bool
	// Holder is a name that shows people whose handle it is. At most 512 bytes are shown.
	Holder string
	// FS is where a directory is. Default OS.
	FS FS
	// ReadOnly is for onlookers, which need no right to write. All changes fail.
	ReadOnly bool
}

// Open opens a store that Init made: a directory, or a device or the file in its place.
// In a directory nothing is written before the first Put or PutNote. On a device,
// unless ReadOnly, it takes an area first, which lasts some Delays, or two Terms and some Delays if none is
// known to be free.
//
// It fails with fs.ErrNotExist if there is no store, and with register.ErrForeign,
// ErrNewer or ErrDamaged for one that it cannot use.
func Open(path string, opts Options) (*Store, error) {
	if opts.Clock == nil {
		return nil, errors.New("file.Open: Options.Clock is missing")
	}
	if opts.FS == nil {
		opts.FS = OS
	}
	h, isDir, err := find(opts.FS, path)
	if err != nil {
		return nil, err
	}
	if !isDir {
		return openDevice(path, h, opts)
	}
	if !h.single {
		if err := opts.FS.Probe(filepath.Join(path, headerName)); err != nil {
			return nil, err
		}
	}
	handles := filepath.Join(path, handlesDir)
	st, err := opts.FS.Stat(handles)
	if err != nil {
		return nil, fmt.Errorf("%w: the store has lost its handles, and their records are unknown: stop all processes that use it, and make a new store (%v)", register.ErrDamaged, err)
	}
	if !opts.ReadOnly {
		if err := opts.FS.Writable(handles); err != nil {
			return nil, advise(err)
		}
	}
	dir := &directory{path: path, sys: opts.FS, files: host{buffered: h.single, fs: opts.FS}, perm: st.Mode.Perm() & 0o666}
	return newStore(path, h, opts, dir, fileKeeper{dir}), nil
}

func newStore(path string, h storeHeader, opts Options, vol volume, k keeper) *Store {
	s := &Store{path: path, header: h, opts: opts, vol: vol, keeper: k, slots: map[key]*slot{}, doomed: map[string]bool{}}
	if opts.ReadOnly {
		s.keeper = onlooker{k}
	}
	s.lookout = *s.newLookout()
	s.checked = opts.Clock()
	s.tidied = s.checked.Add(-s.lookout.wait) // the first look tidies up
	return s
}

func (s *Store) newLookout() *lookout {
	return &lookout{vol: s.vol, now: s.opts.Clock, wait: s.header.wait(), set: s.header.Set, sights: map[string]*sight{}}
}

// Find returns the header of the store at a path, and whether it is for one host only. It changes
// nothing. Its errors are those of Open.
func Find(path string) (h register.Header, singleHost bool, err error) {
	found, _, err := find(OS, path)
	return found.Header, found.single, err
}

func find(sys FS, path string) (h storeHeader, isDir bool, err error) {
	st, err := sys.Stat(path)
	if err != nil {
		return h, false, err
	}
	switch {
	case st.Mode.IsDir():
		h, err = readHeader(sys, filepath.Join(path, headerName))
		if errors.Is(err, fs.ErrNotExist) {
			if err := noStore(sys, path); !errors.Is(err, fs.ErrExist) {
				return h, true, err
			}
			h, err = readHeader(sys, filepath.Join(path, headerName)) // it was made just now
		}
		if err == nil && h.areas != 0 {
			err = fmt.Errorf("it is the header of a device: %w", register.ErrForeign)
		}
	case isDevice(st.Mode):
		h, err = readHeader(sys, path)
		if err == nil && (h.areas == 0 || h.slots == 0) {
			err = fmt.Errorf("it is the header of a directory: give that instead")
		}
	default:
		err = fmt.Errorf("it is %v: leases are kept in a directory, on a block device, or in a preallocated file", st.Mode.Type())
	}
	if err != nil {
		return h, false, fmt.Errorf("%s: %w", path, err)
	}
	return h, st.Mode.IsDir(), nil
}

// isDevice reports whether a file can be used as one.
func isDevice(m fs.FileMode) bool {
	return m.IsRegular() || m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0
}

// noStore returns fs.ErrNotExist for a directory in which a store can be made, and another error
// for one that has other things in it.
func noStore(sys FS, path string) error {
	if err := checkEmpty(sys, path); err != nil {
		return err
	}
	return fmt.Errorf("%s is empty: make a store in it first (tenure lease init): %w", path, fs.ErrNotExist)
}

// readHeader reads a store's header.
func readHeader(sys FS, path string) (h storeHeader, err error) {
	if sys == nil {
		sys = OS
	}
	f, err := sys.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return h, err
	}
	defer f.Close()
	b := make([]byte, block)
	n, err := f.ReadAt(b, 0)
	switch {
	case n == block:
		return decodeHeader(b)
	case err != nil && !errors.Is(err, io.EOF):
		return h, err
	case n >= len(magicStore) && string(b[:len(magicStore)]) == magicStore:
		return h, fmt.Errorf("its header was cut off: %w", register.ErrDamaged)
	case n == 0:
		return h, fmt.Errorf("it is empty: %w", register.ErrForeign)
	}
	return h, register.ErrForeign
}

// onlooker keeps nothing, and goes by the store's header as the keeper does that it stands for.
type onlooker struct{ keeper }

var errReadOnly = errors.New("the store was opened to look only")

func (onlooker) recover(*Store) error               { return errReadOnly }
func (onlooker) noteFailure(*Store, []*slot, error) {}
func (onlooker) checkOwner(*home) error             { return nil }
func (onlooker) leave(*Store, bool)                 {}
