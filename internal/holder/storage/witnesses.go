package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"golang.org/x/sys/unix"
)

// witnesses keeps the observations of claims, by name, for later claims: in memory, and in one file
// a name for other processes of this user. A forged observation could make a living holder look
// dead, so a directory that another user owns or may write to is not used. Trouble with files is no
// error: then only this process remembers.
type witnesses struct {
	dir string // empty: no files
	uid uint32 // of this user
	set machine.ID
	era [sha256.Size]byte // of the clock by which they were seen

	mu   sync.Mutex
	seen map[string][]byte
}

const (
	witnessMagic = "TenureW\x01"
	witnessHead  = len(witnessMagic) + 4 + sha256.Size // a checksum, the era

	manyWitnesses = 4096                // in memory; then all are forgotten, which costs time
	oldWitness    = 30 * 24 * time.Hour // files that are removed
)

// StateDir is the directory for files that outlive programs of this user on this machine, below
// $XDG_STATE_HOME or ~/.local/state. It is "" if there is no such place.
func StateDir() string {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return ""
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "tenure")
}

// BootID names this boot of this machine; "" if it is unknown. Clocks count from the boot.
func BootID() string { return bootID() }

func newWitnesses(state string, set machine.ID) *witnesses { return witnessesOf(bootID(), state, set) }

// witnessesOf is newWitnesses for a boot.
func witnessesOf(boot, state string, set machine.ID) *witnesses {
	w := &witnesses{uid: uint32(os.Geteuid()), set: set, seen: map[string][]byte{}}
	if state == "" || boot == "" {
		return w
	}
	w.dir, w.era = filepath.Join(state, "witness"), sha256.Sum256([]byte(boot))
	return w
}

// of returns the observation of a name, nil if there is none.
func (w *witnesses) of(name string) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.seen[name]; p != nil || w.dir == "" {
		return p
	}
	if !w.private() {
		return nil
	}
	b, err := os.ReadFile(w.path(name))
	if err != nil || len(b) < witnessHead || !bytes.Equal(b[:witnessHead], w.head(b[witnessHead:])) {
		return nil
	}
	return b[witnessHead:]
}

// keep replaces the observation of a name.
func (w *witnesses) keep(name string, witness []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if witness == nil || bytes.Equal(w.seen[name], witness) {
		return
	}
	if len(w.seen) >= manyWitnesses {
		clear(w.seen)
	}
	w.seen[name] = witness
	if w.dir != "" && w.write(w.path(name), slices.Concat(w.head(witness), witness)) != nil {
		w.dir = ""
	}
}

// forget drops the observation of a name that is ours now.
func (w *witnesses) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, name)
	if w.dir != "" {
		_ = os.Remove(w.path(name))
	}
}

var errNotPrivate = errors.New("another user owns the directory or may write to it")

// private reports whether only this user, or root, can have written to the directory.
func (w *witnesses) private() bool {
	var st unix.Stat_t
	err := unix.Lstat(w.dir, &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Uid == w.uid && st.Mode&0o022 == 0
}

func (w *witnesses) path(name string) string {
	sum := sha256.Sum256(append(w.set[:], name...))
	return filepath.Join(w.dir, hex.EncodeToString(sum[:16]))
}

// head returns the bytes before a witness in its file.
func (w *witnesses) head(witness []byte) []byte {
	b := make([]byte, witnessHead)
	copy(b, witnessMagic)
	copy(b[len(witnessMagic)+4:], w.era[:])
	sum := crc32.Update(crc32.ChecksumIEEE(b), crc32.IEEETable, witness)
	binary.BigEndian.PutUint32(b[len(witnessMagic):], sum)
	return b
}

// write replaces a file whole, and removes old ones.
func (w *witnesses) write(path string, b []byte) error {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	if !w.private() {
		return errNotPrivate
	}
	f, err := os.CreateTemp(w.dir, ".new*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	files, err := os.ReadDir(w.dir)
	for _, e := range files {
		if i, err := e.Info(); err == nil && time.Since(i.ModTime()) > oldWitness {
			_ = os.Remove(filepath.Join(w.dir, e.Name()))
		}
	}
	return err
}
