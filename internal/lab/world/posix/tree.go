package posix

import (
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"syscall"
)

// blockSize is the unit of writes and of losses.
const blockSize = 4096

// Tree is a file system. All processes of a world share it.
type Tree struct {
	mu      sync.Mutex // held within a call only
	nodes   uint64
	names   map[string]*node // the present content
	durable map[string]*node // the content after a crash
}

// node is a file, or a directory.
type node struct {
	ident  uint64
	dir    bool
	perm   fs.FileMode
	data   []byte
	stable []byte           // the part of data that is there after a crash
	locks  map[*handle]bool // by whom, and whether shared
}

// New returns an empty tree with a root.
func New() *Tree {
	t := &Tree{names: map[string]*node{}, durable: map[string]*node{}}
	t.Mkdir("/")
	return t
}

// Mkdir makes a durable directory.
func (t *Tree) Mkdir(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes++
	n := &node{ident: t.nodes, dir: true, perm: 0o700}
	t.names[name], t.durable[name] = n, n
}

// Crash has the storage lose its power. Random decides which part of the data that was not
// durable remains.
func (t *Tree) Crash(random *rand.Rand) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]bool{}
	for name := range t.names {
		all[name] = true
	}
	for name := range t.durable {
		all[name] = true
	}
	seen := map[uint64]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if t.names[name] != t.durable[name] && random.IntN(2) == 0 {
			if n := t.durable[name]; n != nil {
				t.names[name] = n
			} else {
				delete(t.names, name)
			}
		}
		if n := t.names[name]; n != nil && !seen[n.ident] {
			seen[n.ident] = true
			n.crash(random)
		}
	}
	t.durable = maps.Clone(t.names)
}

// crash keeps some of the blocks that were not durable.
func (n *node) crash(random *rand.Rand) {
	if len(n.data) > len(n.stable) {
		switch random.IntN(3) {
		case 0:
			n.data = n.data[:len(n.stable)]
		case 1: // the file has grown, and some writes there have not arrived
			for at := len(n.stable); at < len(n.data); {
				end := min((at/blockSize+1)*blockSize, len(n.data))
				if random.IntN(2) == 0 {
					clear(n.data[at:end])
				}
				at = end
			}
		}
	}
	for at := 0; at < min(len(n.data), len(n.stable)); at += blockSize {
		end := min(at+blockSize, len(n.data), len(n.stable))
		if random.IntN(2) == 0 {
			copy(n.data[at:end], n.stable[at:end])
		}
	}
	n.stable = slices.Clone(n.data)
}

// Names are those in a directory, in order.
func (t *Tree) Names(dir string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names []string
	for name := range t.names {
		if name != "/" && path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names
}

// Size is how long a file is, 0 if there is none.
func (t *Tree) Size(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.names[name]; n != nil {
		return len(n.data)
	}
	return 0
}

// Copy is a directory's content, for a Restore: an older copy that is put back.
func (t *Tree) Copy(dir string) map[string][]byte {
	names := t.Names(dir)
	t.mu.Lock()
	defer t.mu.Unlock()
	was := map[string][]byte{}
	for _, name := range names {
		if n := t.names[path.Join(dir, name)]; n != nil && !n.dir {
			was[name] = slices.Clone(n.data)
		}
	}
	return was
}

// Restore puts a copy back: other files are gone, and those of the copy are new ones.
func (t *Tree) Restore(dir string, was map[string][]byte) {
	now := t.Names(dir)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range now {
		full := path.Join(dir, name)
		if n := t.names[full]; n != nil && !n.dir {
			delete(t.names, full)
			delete(t.durable, full)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		t.nodes++
		n := &node{ident: t.nodes, perm: 0o600, data: slices.Clone(was[name]), stable: slices.Clone(was[name])}
		full := path.Join(dir, name)
		t.names[full], t.durable[full] = n, n
	}
}

func fails(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// parent returns the directory of a name, or why there is none. t.mu is held.
func (t *Tree) parent(op, name string) error {
	if d := t.names[path.Dir(name)]; d == nil || !d.dir {
		return fails(op, name, syscall.ENOENT)
	}
	return nil
}
