package wal

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// memFS is a file system in memory that can fail and crash. After a crash a
// random subset of the sectors written since the last sync is there, and of the
// directory changes since the last SyncDir a random number of the first.
type memFS struct {
	mu    sync.Mutex
	dirs  map[string]*memDir
	locks map[string]bool
	fault func(op, path string) error // consulted before each operation
}

type memDir struct {
	names   map[string]*memInode
	durable map[string]*memInode
	pending []func(map[string]*memInode)
}

type memInode struct {
	mu   sync.Mutex
	data []byte // as the page cache has it
	disk []byte
}

func newMemFS() *memFS {
	return &memFS{dirs: map[string]*memDir{}, locks: map[string]bool{}}
}

func (m *memFS) check(op, path string) error {
	if m.fault == nil {
		return nil
	}
	return m.fault(op, path)
}

// crash loses what was not synced, as chance has it, and every lock.
func (m *memFS) crash(r *rand.Rand) {
	m.locks = map[string]bool{}
	for _, d := range m.dirs {
		for _, change := range d.pending[:r.IntN(len(d.pending)+1)] {
			change(d.durable)
		}
		d.pending = nil
		d.names = map[string]*memInode{}
		for name, ino := range d.durable {
			d.names[name] = ino
			ino.crash(r)
		}
	}
}

func (ino *memInode) crash(r *rand.Rand) {
	size := len(ino.disk)
	if r.IntN(2) == 0 {
		size = len(ino.data)
	}
	chance := r.IntN(5) // from losing all to losing nothing
	after := make([]byte, size)
	for off := 0; off < size; off += sectorBytes {
		stop := min(off+sectorBytes, size)
		from := ino.disk
		if r.IntN(4) < chance {
			from = ino.data
		}
		if off < len(from) {
			copy(after[off:stop], from[off:])
		}
	}
	ino.data, ino.disk = after, slices.Clone(after)
}

func (m *memFS) dir(path string) *memDir {
	d := m.dirs[path]
	if d == nil {
		d = &memDir{names: map[string]*memInode{}, durable: map[string]*memInode{}}
		m.dirs[path] = d
	}
	return d
}

func (d *memDir) change(f func(map[string]*memInode)) {
	f(d.names)
	d.pending = append(d.pending, f)
}

func (m *memFS) MkdirAll(dir string) error { return m.check("mkdir", dir) }

func (m *memFS) OpenFile(path string, flag int, _ fs.FileMode) (File, error) {
	if err := m.check("open", path); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d, name := m.dir(filepath.Dir(path)), filepath.Base(path)
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
	return &memFile{m, path, ino}, nil
}

func (m *memFS) Rename(from, to string) error {
	if err := m.check("rename", to); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d, old, name := m.dir(filepath.Dir(from)), filepath.Base(from), filepath.Base(to)
	ino := d.names[old]
	d.change(func(names map[string]*memInode) {
		delete(names, old)
		names[name] = ino
	})
	return nil
}

func (m *memFS) Remove(path string) error {
	if err := m.check("remove", path); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dir(filepath.Dir(path)).change(func(names map[string]*memInode) { delete(names, filepath.Base(path)) })
	return nil
}

func (m *memFS) ReadDir(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range m.dir(dir).names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (m *memFS) SyncDir(dir string) error {
	if err := m.check("syncdir", dir); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dir(dir)
	for _, change := range d.pending {
		change(d.durable)
	}
	d.pending = nil
	return nil
}

func (m *memFS) Lock(path string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[path] {
		return nil, ErrLocked
	}
	m.locks[path] = true
	return unlocker(func() { delete(m.locks, path) }), nil
}

type unlocker func()

func (u unlocker) Close() error { u(); return nil }

type memFile struct {
	fs   *memFS
	path string
	*memInode
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fs.check("read", f.path); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	if off < int64(len(f.data)) {
		n = copy(b, f.data[off:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.fs.check("write", f.path); err != nil {
		n := len(b) / 2 // as far as it got
		f.put(b[:n], off)
		return n, err
	}
	f.put(b, off)
	return len(b), nil
}

func (f *memFile) put(b []byte, off int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if need := int(off) + len(b); need > len(f.data) {
		f.data = append(f.data, make([]byte, need-len(f.data))...)
	}
	copy(f.data[off:], b)
}

func (f *memFile) Size() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.data)), nil
}

func (f *memFile) Truncate(size int64) error {
	if err := f.fs.check("truncate", f.path); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if size > int64(len(f.data)) {
		return errors.New("memFS: Truncate makes files shorter only")
	}
	f.data = f.data[:size:size]
	return nil
}

func (f *memFile) Preallocate(size int64) error {
	if err := f.fs.check("preallocate", f.path); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := int(size) - len(f.data); n > 0 {
		f.data = append(f.data, make([]byte, n)...)
	}
	return nil
}

func (f *memFile) Sync() error {
	if err := f.fs.check("sync", f.path); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disk = slices.Clone(f.data)
	return nil
}

func (f *memFile) Close() error { return nil }
