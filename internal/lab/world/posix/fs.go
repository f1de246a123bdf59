package posix

import (
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"syscall"

	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/lab/world"
)

// Hook is asked before each call of a process, and before each block of a write but the first
// as "block". It may wait. Its error is that of the call.
type Hook func(op, name string) error

// FS is the tree as a process sees it.
func (t *Tree) FS(p *world.Process, hook Hook) file.FS {
	if hook == nil {
		hook = func(string, string) error { return nil }
	}
	return view{t: t, p: p, hook: hook}
}

// FSOn is FS on a host. Processes of one host see each other's locks, and none of another host's. On a
// network's file system nobody sees any.
func (t *Tree) FSOn(host string, network bool, p *world.Process, hook Hook) file.FS {
	v := t.FS(p, hook).(view)
	v.host, v.network = host, network
	return v
}

type view struct {
	t       *Tree
	p       *world.Process
	hook    Hook
	host    string
	network bool
}

func (v view) before(op, name string) error {
	err := v.hook(op, name)
	if e := v.p.Do(world.Disk, op, ""); e != nil {
		return fails(op, name, e)
	}
	if err != nil {
		return fails(op, name, err)
	}
	return nil
}

func (v view) Open(name string, flags int, perm fs.FileMode) (file.File, error) {
	op := "open"
	if flags&os.O_CREATE != 0 {
		op = "create"
	}
	if err := v.before(op, name); err != nil {
		return nil, err
	}
	t := v.t
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.names[name]
	switch {
	case n == nil && flags&os.O_CREATE == 0:
		return nil, fails(op, name, syscall.ENOENT)
	case n != nil && flags&os.O_EXCL != 0:
		return nil, fails(op, name, syscall.EEXIST)
	case n != nil && n.dir && flags&(os.O_WRONLY|os.O_RDWR) != 0:
		return nil, fails(op, name, syscall.EISDIR)
	case n == nil:
		if err := t.parent(op, name); err != nil {
			return nil, err
		}
		t.nodes++
		n = &node{ident: t.nodes, perm: perm}
		t.names[name] = n
	}
	return &handle{v: v, name: name, n: n, synced: flags&syscall.O_SYNC == syscall.O_SYNC, writes: flags&(os.O_WRONLY|os.O_RDWR) != 0}, nil
}

func (v view) Names(dir string) ([]string, error) {
	if err := v.before("list", dir); err != nil {
		return nil, err
	}
	v.t.mu.Lock()
	n := v.t.names[dir]
	v.t.mu.Unlock()
	if n == nil || !n.dir {
		return nil, fails("list", dir, syscall.ENOENT)
	}
	// The directory is read in whatever order, and not at one moment.
	names := []string{".", ".."}
	for half := range uint32(2) {
		if half > 0 {
			if err := v.before("listing", dir); err != nil {
				return nil, err
			}
		}
		for _, name := range v.t.Names(dir) {
			if crc32.ChecksumIEEE([]byte(name))>>31 == half {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

func (v view) Stat(name string) (file.Info, error) {
	if err := v.before("stat", name); err != nil {
		return file.Info{}, err
	}
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	if n := v.t.names[name]; n != nil {
		return n.info(), nil
	}
	return file.Info{}, fails("stat", name, syscall.ENOENT)
}

func (v view) Lstat(name string) (file.Info, error) { return v.Stat(name) }

func (n *node) info() file.Info {
	mode := n.perm
	if n.dir {
		mode |= fs.ModeDir
	}
	return file.Info{Ident: [2]uint64{1, n.ident}, Size: int64(len(n.data)), Mode: mode}
}

// change is a call that changes names.
func (v view) change(op, name string, f func() error) error {
	if err := v.before(op, name); err != nil {
		return err
	}
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	if err := v.t.parent(op, name); err != nil {
		return err
	}
	return f()
}

func (v view) Mkdir(name string, perm fs.FileMode) error {
	return v.change("mkdir", name, func() error {
		if v.t.names[name] != nil {
			return fails("mkdir", name, syscall.EEXIST)
		}
		v.t.nodes++
		v.t.names[name] = &node{ident: v.t.nodes, dir: true, perm: perm}
		return nil
	})
}

func (v view) Chmod(name string, perm fs.FileMode) error {
	return v.change("chmod", name, func() error {
		n := v.t.names[name]
		if n == nil {
			return fails("chmod", name, syscall.ENOENT)
		}
		n.perm = perm
		return nil
	})
}

func (v view) Link(from, to string) error {
	return v.change("link", to, func() error {
		n := v.t.names[from]
		switch {
		case n == nil:
			return fails("link", from, syscall.ENOENT)
		case v.t.names[to] != nil:
			return fails("link", to, syscall.EEXIST)
		}
		v.t.names[to] = n
		return nil
	})
}

func (v view) Rename(from, to string) error {
	return v.change("rename", to, func() error {
		n := v.t.names[from]
		if n == nil {
			return fails("rename", from, syscall.ENOENT)
		}
		if v.t.names[to] != n { // else nothing happens
			delete(v.t.names, from)
			v.t.names[to] = n
		}
		return nil
	})
}

func (v view) Remove(name string) error {
	return v.change("remove", name, func() error {
		if v.t.names[name] == nil {
			return fails("remove", name, syscall.ENOENT)
		}
		delete(v.t.names, name)
		return nil
	})
}

func (v view) SyncDir(dir string) error {
	return v.change("syncdir", dir, func() error {
		for name, n := range v.t.names {
			if name != "/" && path.Dir(name) == dir {
				v.t.durable[name] = n
			}
		}
		for name := range v.t.durable {
			if name != "/" && path.Dir(name) == dir && v.t.names[name] == nil {
				delete(v.t.durable, name)
			}
		}
		return nil
	})
}

func (v view) Writable(dir string) error {
	_, err := v.Stat(dir)
	return err
}

func (view) Probe(string) error { return nil }

// handle is an open file.
type handle struct {
	v      view
	name   string
	n      *node
	synced bool
	writes bool

	mu     sync.Mutex
	closed bool
}

func (h *handle) open(op string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fails(op, h.name, os.ErrClosed)
	}
	return nil
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	if err := errors.Join(h.open("read"), h.v.before("read", h.name)); err != nil {
		return 0, err
	}
	h.v.t.mu.Lock()
	defer h.v.t.mu.Unlock()
	if off >= int64(len(h.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	if err := h.open("write"); err != nil {
		return 0, err
	}
	if !h.writes {
		return 0, fails("write", h.name, syscall.EBADF)
	}
	done := 0
	for op := "write"; done < len(p); op = "block" {
		if err := h.v.before(op, h.name); err != nil {
			return done, err
		}
		n := min(blockSize, len(p)-done)
		if done > 0 || len(p) > 4*blockSize {
			n = len(p) - done // two steps are enough to be met between
		}
		h.put(p[done:done+n], off+int64(done))
		done += n
	}
	if err := h.v.before("written", h.name); err != nil {
		return done, err
	}
	return done, nil
}

func (h *handle) put(p []byte, off int64) {
	t := h.v.t
	t.mu.Lock()
	defer t.mu.Unlock()
	n := h.n
	if end := int(off) + len(p); end > len(n.data) {
		n.data = append(n.data, make([]byte, end-len(n.data))...)
	}
	copy(n.data[off:], p)
	if h.synced {
		if len(n.stable) < len(n.data) {
			n.stable = append(n.stable, make([]byte, len(n.data)-len(n.stable))...)
		}
		copy(n.stable[off:], p)
	}
}

func (h *handle) Stat() (file.Info, error) {
	h.v.t.mu.Lock()
	defer h.v.t.mu.Unlock()
	return h.n.info(), nil
}

func (h *handle) Sync() error {
	if err := errors.Join(h.open("sync"), h.v.before("sync", h.name)); err != nil {
		return err
	}
	h.v.t.mu.Lock()
	defer h.v.t.mu.Unlock()
	h.n.stable = slices.Clone(h.n.data)
	return nil
}

// Local implements file.File.
func (h *handle) Local() bool { return !h.v.network }

// Lock implements file.File. The locks of a process end with it.
func (h *handle) Lock(shared bool) (bool, error) {
	if err := errors.Join(h.open("lock"), h.v.before("lock", h.name)); err != nil {
		return false, err
	}
	h.v.t.mu.Lock()
	defer h.v.t.mu.Unlock()
	for other, theirs := range h.n.locks {
		if other != h && other.v.sees(h.v) && !other.v.ended() && !(shared && theirs) {
			return false, nil
		}
	}
	if h.n.locks == nil {
		h.n.locks = map[*handle]bool{}
	}
	h.n.locks[h] = shared
	return true, nil
}

func (v view) sees(w view) bool { return v.host == w.host && !v.network && !w.network }

func (v view) ended() bool {
	select {
	case <-v.p.Ended():
		return true
	default:
		return false
	}
}

// Inherit implements file.File: no process of a world starts others.
func (h *handle) Inherit() error { return h.open("inherit") }

func (h *handle) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.v.t.mu.Lock()
	defer h.v.t.mu.Unlock()
	delete(h.n.locks, h)
	return nil
}
