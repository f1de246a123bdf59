package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Lifelines are files from which the processes of one machine learn that a holder has ended.
//
// A process locks the file of a claim before it claims anything, and writes into it by which stamp the
// claim has held. It never unlocks the file before the tenure is over. The kernel does so when the
// process has ended, and all processes that have inherited the descriptor. So a process that can lock
// the file, and then reads in it the stamp that the register shows, knows that the holder by that stamp
// has ended. Package disklease says why that is as good as a release by the holder (disklease.Ended).
//
// A descriptor that was handed on, by inheritance or over a socket, only makes others wait, and so does a
// process that is stopped or of which a core is dumped. A file that was unlinked, or whose directory was
// renamed, is not found. A hard link to it is the same file, and bind mounts and namespaces show it as it is.
// A process that was ended for a checkpoint and restored later is a copy, which nothing tells apart.
//
// Whatever else a process finds tells it nothing, and it waits as if there were no file. The content has
// to be, byte for byte, what that holder would have written:
//
//   - in this boot of this machine, by whose kernel alone the lock is kept;
//   - into this very file. A copy of it, as a backup makes, is locked by nobody while the holder lives.
//     No other file has the device and inode numbers of one that a living process has open: see local;
//   - about this claim and this stamp, in this set of stores.
//
// And the filesystem has to be one that only this kernel writes to, see File.Local. The file needs
// neither to be durable nor to be written at once: after a crash of the machine it is of another boot.
type Lifelines struct {
	sys     FS
	dir     string
	set     machine.ID
	boot    [sha256.Size]byte
	perm    fs.FileMode
	inherit bool
	tidied  atomic.Bool
}

const (
	lifelinesDir = "lifelines"
	lifelineSize = len(lifelineMagic) + 2*sha256.Size

	mostLifelines = 1024 // in a directory; nobody's are removed beyond
	lifelinesLook = 16   // at a time
)

const lifelineMagic = "TenureL\x01"

// Lifelines returns those of the store, nil if it has none. Boot names the boot of this machine; ""
// if it is unknown. With inherit, processes that this one starts are a part of each holder.
func (s *Store) Lifelines(boot string, inherit bool) *Lifelines {
	d, isDir := s.vol.(*directory)
	if !isDir || boot == "" || s.header.Of != 1 {
		return nil
	}
	return &Lifelines{
		sys: d.sys, dir: filepath.Join(d.path, lifelinesDir), set: s.header.Set,
		boot: sha256.Sum256([]byte(boot)), perm: d.perm, inherit: inherit,
	}
}

// content is what the holder by a stamp has written into a file.
func (l *Lifelines) content(id machine.ID, stamp uint64, st Info) []byte {
	h := sha256.New()
	h.Write(l.set[:])
	h.Write(id[:])
	var numbers []byte
	for _, n := range []uint64{stamp, st.Ident[0], st.Ident[1]} {
		numbers = binary.BigEndian.AppendUint64(numbers, n)
	}
	h.Write(numbers)
	return h.Sum(l.head())
}

// head is the part of the content that all files of this boot have.
func (l *Lifelines) head() []byte { return append([]byte(lifelineMagic), l.boot[:]...) }

func (l *Lifelines) path(id machine.ID) string { return filepath.Join(l.dir, id.String()) }

// Lifeline is that of one claim, for the process that makes the claim.
type Lifeline struct {
	of   *Lifelines
	id   machine.ID
	f    File
	info Info
}

var (
	errNotLocal   = errors.New("locks there may not tell of all processes")
	errLockedOnce = errors.New("another process has locked the file of this claim")
)

// Tie makes and locks the file of a claim. It has to be called before the claim is made.
func (l *Lifelines) Tie(id machine.ID) (*Lifeline, error) {
	x, err := l.tie(id)
	if errors.Is(err, fs.ErrNotExist) {
		if err = l.makeDir(); err == nil {
			x, err = l.tie(id)
		}
	}
	return x, err
}

func (l *Lifelines) tie(id machine.ID) (*Lifeline, error) {
	f, err := l.sys.Open(l.path(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, l.perm)
	if err != nil {
		return nil, err
	}
	x := &Lifeline{of: l, id: id, f: f}
	if err := x.lock(); err != nil {
		x.Cut()
		return nil, err
	}
	return x, nil
}

func (x *Lifeline) lock() (err error) {
	if !x.f.Local() {
		return errNotLocal
	}
	if x.info, err = x.f.Stat(); err != nil {
		return err
	}
	locked, err := x.f.Lock(false)
	switch {
	case err != nil:
		return err
	case !locked:
		return errLockedOnce
	case x.of.inherit:
		if err := x.f.Inherit(); err != nil {
			return err
		}
	}
	return x.Held(0) // stamps count from 1
}

// makeDir makes the directory, for all users that may write handles.
func (l *Lifelines) makeDir() error {
	st, err := l.sys.Stat(filepath.Join(filepath.Dir(l.dir), handlesDir))
	if err != nil {
		return err
	}
	perm := st.Mode.Perm()
	if err := l.sys.Mkdir(l.dir, perm); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return l.sys.Chmod(l.dir, perm)
}

// Held notes the stamp by which the claim holds.
func (x *Lifeline) Held(stamp uint64) error {
	_, err := x.f.WriteAt(x.of.content(x.id, stamp, x.info), 0)
	return err
}

// Cut removes the file. The claim's tenure has to be over.
func (x *Lifeline) Cut() {
	_ = x.of.sys.Remove(x.of.path(x.id))
	_ = x.f.Close()
	if !x.of.tidied.Swap(true) {
		x.of.tidy(x.id[0])
	}
}

// Ended reports whether the holder by a stamp is known to have ended.
func (l *Lifelines) Ended(id machine.ID, stamp uint64) bool {
	// Not to block on what is no file at all.
	f, err := l.sys.Open(l.path(id), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode.IsRegular() || !f.Local() || !l.isOf(f, id, stamp, st) {
		return false
	}
	free, err := f.Lock(true) // others may look, too
	return err == nil && free && l.isOf(f, id, stamp, st)
}

// isOf reports whether a file is the lifeline of a claim.
func (l *Lifelines) isOf(f File, id machine.ID, stamp uint64, st Info) bool {
	b := make([]byte, lifelineSize+1)
	n, err := f.ReadAt(b, 0)
	return err == io.EOF && bytes.Equal(b[:n], l.content(id, stamp, st))
}

// Forget removes the file of a claim that has ended and that no register shows any more.
func (l *Lifelines) Forget(id machine.ID) { _ = l.sys.Remove(l.path(id)) }

// tidy looks at some of the files, and removes those that nobody has locked if they are of an earlier
// boot, or too many. They are of processes that were killed, and whose names nobody has wanted since.
// One that is missed costs a wait. Random says where to begin.
func (l *Lifelines) tidy(random byte) {
	names, err := l.sys.Names(l.dir)
	names = slices.DeleteFunc(names, func(name string) bool { return !isHandle(name) })
	if err != nil || len(names) == 0 {
		return
	}
	first := len(names) * int(random) / 256
	for i := range min(len(names), lifelinesLook) {
		id, _ := parseHandle(names[(first+i)%len(names)])
		if l.left(id, len(names) <= mostLifelines) {
			l.Forget(id)
		}
	}
}

// left reports whether a file is nobody's and of no use. Of use are those of this boot, if they are
// wanted: of a claim that only waited, others have to know that its place in the queue is free.
func (l *Lifelines) left(id machine.ID, wanted bool) bool {
	f, err := l.sys.Open(l.path(id), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if !f.Local() {
		return false
	}
	if free, err := f.Lock(true); err != nil || !free {
		return false
	}
	b := make([]byte, lifelineSize)
	_, _ = f.ReadAt(b, 0)
	return !wanted || !bytes.HasPrefix(b, l.head())
}
