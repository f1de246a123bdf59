package waltest

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// sectorBytes is what a disk writes as a whole or not at all.
const sectorBytes = 512

// Disk outlives the processes that use it. Any goroutine may use it.
type Disk struct {
	mu   sync.Mutex
	boot int  // counts crashes: processes of before are dead
	dead bool // killed, and not crashed yet: so are those of now
	root *dir
	lock map[string]bool
}

// dir is a directory: the names as processes see them, those that a crash
// leaves for certain, and the changes from the latter to the former.
type dir struct {
	names, durable map[string]*inode
	pending        []*edit
}

// edit is a change of names that is durable only after a SyncDir. One that moves a name to another directory is
// pending in both, and becomes durable as a whole.
type edit struct {
	done bool
	make func()
}

func (e *edit) apply() {
	if !e.done {
		e.done = true
		e.make()
	}
}

// inode is a file: its bytes as the page cache has them, and as of the last sync. The two
// differ from dirty up to dirtyEnd only, and in length. Or it is a directory.
type inode struct {
	data, disk      []byte
	dirty, dirtyEnd int
	sub             *dir
}

func newDir() *dir { return &dir{names: map[string]*inode{}, durable: map[string]*inode{}} }

// soil notes that the page cache was changed there.
func (ino *inode) soil(from, to int) {
	if ino.dirty == ino.dirtyEnd {
		ino.dirty, ino.dirtyEnd = from, to
		return
	}
	ino.dirty, ino.dirtyEnd = min(ino.dirty, from), max(ino.dirtyEnd, to)
}

// clean makes the bytes of the page cache those of the disk. Logs sync a few bytes of a
// large file, so only what was changed is copied.
func (ino *inode) clean() {
	size := len(ino.data)
	ino.disk = ino.disk[:min(size, len(ino.disk))]
	ino.disk = append(ino.disk, make([]byte, size-len(ino.disk))...)
	if end := min(ino.dirtyEnd, size); ino.dirty < end {
		copy(ino.disk[ino.dirty:end], ino.data[ino.dirty:end])
	}
	ino.dirty, ino.dirtyEnd = 0, 0
}

// NewDisk is an empty disk.
func NewDisk() *Disk {
	return &Disk{root: newDir(), lock: map[string]bool{}}
}

// FS is the disk as a process sees it that starts now.
func (d *Disk) FS() *FS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &FS{disk: d, boot: d.boot, open: map[*file]struct{}{}}
}

// Kill ends all processes at once, in the middle of what they do. The disk is
// then off until Crash decides what it holds.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

// Exit ends all processes, and the machine goes on: nothing is lost, nor is it any safer.
func (d *Disk) Exit() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
}

// Crash ends all processes and forgets what was not synced, as chance has it.
func (d *Disk) Crash(r *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
	d.root.lose(r)
	d.root.crash(r)
}

// lose draws which of the pending changes are there, in this directory and those below it as processes see them.
func (d *dir) lose(r *rand.Rand) {
	for _, e := range d.pending[:r.IntN(len(d.pending)+1)] {
		e.apply()
	}
	d.pending = nil
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		if sub := d.names[name].sub; sub != nil {
			sub.lose(r)
		}
	}
}

func (d *dir) crash(r *rand.Rand) {
	d.names = maps.Clone(d.durable)
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		if ino := d.names[name]; ino.sub != nil {
			ino.sub.crash(r)
		} else {
			ino.crash(r)
		}
	}
}

func (ino *inode) crash(r *rand.Rand) {
	size := len(ino.disk)
	if r.IntN(2) == 0 {
		size = len(ino.data)
	}
	chance := r.IntN(5) // of a sector to be there, in quarters
	after := make([]byte, size)
	for off := 0; off < size; off += sectorBytes {
		from := ino.disk
		if r.IntN(4) < chance {
			from = ino.data
		}
		if off < len(from) {
			copy(after[off:min(off+sectorBytes, size)], from[off:])
		}
	}
	ino.set(after)
}

// set gives the file other contents, that a crash leaves.
func (ino *inode) set(contents []byte) {
	*ino = inode{data: slices.Clone(contents), disk: slices.Clone(contents)}
}

// change makes a change that is durable only after a SyncDir.
func (d *dir) change(apply func(names map[string]*inode)) {
	apply(d.names)
	d.pending = append(d.pending, &edit{make: func() { apply(d.durable) }})
}

// sync makes the changes durable.
func (d *dir) sync() {
	for _, e := range d.pending {
		e.apply()
	}
	d.pending = nil
}

// move moves a name to another directory.
func move(ino *inode, from *dir, name string, to *dir, as string) {
	step := func(from, to map[string]*inode) {
		delete(from, name)
		to[as] = ino
	}
	step(from.names, to.names)
	e := &edit{make: func() { step(from.durable, to.durable) }}
	from.pending = append(from.pending, e)
	if to != from {
		to.pending = append(to.pending, e)
	}
}

// look is a directory, nil if there is none. The lock is held.
func (d *Disk) look(path string) *dir {
	at := d.root
	for name := range strings.SplitSeq(filepath.Clean(path), "/") {
		if name == "" || name == "." {
			continue
		}
		ino := at.names[name]
		if ino == nil || ino.sub == nil {
			return nil
		}
		at = ino.sub
	}
	return at
}

// at is a directory, made when it is first asked for. The lock is held.
func (d *Disk) at(path string) *dir {
	at := d.root
	for name := range strings.SplitSeq(filepath.Clean(path), "/") {
		if name == "" || name == "." {
			continue
		}
		ino := at.names[name]
		if ino == nil {
			ino = &inode{sub: newDir()}
			at.names[name], at.durable[name] = ino, ino
		}
		at = ino.sub
	}
	return at
}

// find is a directory and what has that path in it, nil if there is none. The
// lock is held.
func (d *Disk) find(path string) (*dir, *inode) {
	in := d.at(filepath.Dir(path))
	return in, in.names[filepath.Base(path)]
}

// ReadFile is what a file holds, synced or not; nil if there is none.
func (d *Disk) ReadFile(path string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ino := d.find(path); ino != nil && ino.sub == nil {
		return append([]byte{}, ino.data...)
	}
	return nil
}

// WriteFile puts contents in the place of a file's own, or makes the file, so
// that a crash leaves all of it.
func (d *Disk) WriteFile(path string, contents []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	in, ino := d.find(path)
	if ino == nil {
		ino = &inode{}
		in.names[filepath.Base(path)] = ino
		in.durable[filepath.Base(path)] = ino
	}
	ino.set(contents)
}
