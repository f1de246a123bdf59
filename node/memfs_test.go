package node

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tenure-lease/tenure/wal"
)

// memDisk is a disk in memory that outlives the processes that use it. A crash
// leaves, of the sectors written since the last sync, a random subset, and of the
// changes to a directory since its last sync, a random number of the first.
type memDisk struct {
	mu   sync.Mutex
	boot int // processes before it are dead: their calls fail
	dirs map[string]*memDir
	lock map[string]bool
}

type memDir struct {
	names, durable map[string]*memInode
	pending        []func(map[string]*memInode)
}

type memInode struct{ data, disk []byte }

func newMemDisk() *memDisk {
	return &memDisk{dirs: map[string]*memDir{}, lock: map[string]bool{}}
}

// fs is the disk as a process sees it that starts now.
func (m *memDisk) fs() *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memFS{memDisk: m, boot: m.boot}
}

// dead ends all processes; crash has to follow.
func (m *memDisk) dead() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.boot++
}

// crash ends all processes, and forgets what was not synced, as chance has it.
func (m *memDisk) crash(r *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.boot++
	m.lock = map[string]bool{}
	for _, path := range sortedKeys(m.dirs) {
		d := m.dirs[path]
		for _, change := range d.pending[:r.IntN(len(d.pending)+1)] {
			change(d.durable)
		}
		d.pending = nil
		d.names = map[string]*memInode{}
		for _, name := range sortedKeys(d.durable) {
			ino := d.durable[name]
			d.names[name] = ino
			ino.crash(r)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (ino *memInode) crash(r *rand.Rand) {
	const sector = 512
	size := len(ino.disk)
	if r.IntN(2) == 0 {
		size = len(ino.data)
	}
	chance := r.IntN(5) // from losing all to losing nothing
	after := make([]byte, size)
	for off := 0; off < size; off += sector {
		from := ino.disk
		if r.IntN(4) < chance {
			from = ino.data
		}
		if off < len(from) {
			copy(after[off:min(off+sector, size)], from[off:])
		}
	}
	ino.data, ino.disk = after, slices.Clone(after)
}

var errCrashed = errors.New("the machine has crashed")

// memFS is a wal.FS on a memDisk, for the processes of one boot.
type memFS struct {
	*memDisk
	boot int
	// fault, if set, is consulted before each operation that changes something.
	fault func(op, path string) error
}

var _ wal.FS = (*memFS)(nil)

// enter takes the disk's lock, and fails if this process is dead.
func (f *memFS) enter(op, path string) (leave func(), err error) {
	if f.fault != nil {
		if err := f.fault(op, path); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	if f.boot != f.memDisk.boot {
		f.mu.Unlock()
		return nil, errCrashed
	}
	return f.mu.Unlock, nil
}

// at is a directory. The lock is held.
func (f *memFS) at(path string) *memDir {
	d := f.dirs[path]
	if d == nil {
		d = &memDir{names: map[string]*memInode{}, durable: map[string]*memInode{}}
		f.dirs[path] = d
	}
	return d
}

func (d *memDir) change(apply func(map[string]*memInode)) {
	apply(d.names)
	d.pending = append(d.pending, apply)
}

func (f *memFS) MkdirAll(string) error { return nil }

func (f *memFS) OpenFile(path string, flag int, _ fs.FileMode) (wal.File, error) {
	leave, err := f.enter("open", path)
	if err != nil {
		return nil, err
	}
	defer leave()
	d, name := f.at(filepath.Dir(path)), filepath.Base(path)
	ino := d.names[name]
	if ino == nil && flag&os.O_CREATE == 0 {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if ino == nil {
		ino = &memInode{}
		d.change(func(names map[string]*memInode) { names[name] = ino })
	}
	if flag&os.O_TRUNC != 0 {
		ino.data = nil
	}
	return &memFile{f, path, ino}, nil
}

func (f *memFS) Rename(from, to string) error {
	leave, err := f.enter("rename", to)
	if err != nil {
		return err
	}
	defer leave()
	d, old, name := f.at(filepath.Dir(from)), filepath.Base(from), filepath.Base(to)
	ino := d.names[old]
	d.change(func(names map[string]*memInode) {
		delete(names, old)
		names[name] = ino
	})
	return nil
}

func (f *memFS) Remove(path string) error {
	leave, err := f.enter("remove", path)
	if err != nil {
		return err
	}
	defer leave()
	f.at(filepath.Dir(path)).change(func(names map[string]*memInode) { delete(names, filepath.Base(path)) })
	return nil
}

func (f *memFS) ReadDir(dir string) ([]string, error) {
	leave, err := f.enter("readdir", dir)
	if err != nil {
		return nil, err
	}
	defer leave()
	return sortedKeys(f.at(dir).names), nil
}

func (f *memFS) SyncDir(dir string) error {
	leave, err := f.enter("syncdir", dir)
	if err != nil {
		return err
	}
	defer leave()
	d := f.at(dir)
	for _, change := range d.pending {
		change(d.durable)
	}
	d.pending = nil
	return nil
}

func (f *memFS) Lock(path string) (io.Closer, error) {
	leave, err := f.enter("lock", path)
	if err != nil {
		return nil, err
	}
	defer leave()
	if f.lock[path] {
		return nil, wal.ErrLocked
	}
	f.lock[path] = true
	return unlocker(func() error {
		leave, err := f.enter("unlock", path)
		if err == nil {
			delete(f.lock, path)
			leave()
		}
		return err
	}), nil
}

type unlocker func() error

func (u unlocker) Close() error { return u() }

type memFile struct {
	fs   *memFS
	path string
	ino  *memInode
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	leave, err := f.fs.enter("read", f.path)
	if err != nil {
		return 0, err
	}
	defer leave()
	n := 0
	if off < int64(len(f.ino.data)) {
		n = copy(b, f.ino.data[off:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	leave, err := f.fs.enter("write", f.path)
	if err != nil {
		return 0, err
	}
	defer leave()
	f.grow(off + int64(len(b)))
	return copy(f.ino.data[off:], b), nil
}

func (f *memFile) grow(size int64) {
	if n := int(size) - len(f.ino.data); n > 0 {
		f.ino.data = append(f.ino.data, make([]byte, n)...)
	}
}

func (f *memFile) Size() (int64, error) {
	leave, err := f.fs.enter("stat", f.path)
	if err != nil {
		return 0, err
	}
	defer leave()
	return int64(len(f.ino.data)), nil
}

func (f *memFile) Truncate(size int64) error {
	leave, err := f.fs.enter("truncate", f.path)
	if err != nil {
		return err
	}
	defer leave()
	f.ino.data = f.ino.data[:size:size]
	return nil
}

func (f *memFile) Preallocate(size int64) error {
	leave, err := f.fs.enter("preallocate", f.path)
	if err != nil {
		return err
	}
	defer leave()
	f.grow(size)
	return nil
}

func (f *memFile) Sync() error {
	leave, err := f.fs.enter("sync", f.path)
	if err != nil {
		return err
	}
	defer leave()
	f.ino.disk = slices.Clone(f.ino.data)
	return nil
}

func (f *memFile) Close() error { return nil }
