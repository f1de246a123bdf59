package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ElsewhereFile in the data directory says that the segments are in another directory, in which, and of which log. Without it
// a data directory whose log is elsewhere would look new, and its owner would forget its promises.
const ElsewhereFile = "wal.elsewhere"

// elsewhere is what the file says, on a line each.
type elsewhere struct {
	dir  string
	id   uint64
	used bool // the log was begun; before that nothing was promised
}

func readElsewhere(fsys FS, dir string) (e elsewhere, found bool, err error) {
	path := filepath.Join(dir, ElsewhereFile)
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return e, false, err
	}
	raw, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	if err != nil {
		return e, false, err
	}
	lines := strings.Split(string(raw), "\n")
	if len(lines) == 4 {
		e.dir, e.used = lines[0], lines[2] == "used"
		e.id, err = strconv.ParseUint(lines[1], 16, 64)
	}
	if len(lines) != 4 || err != nil {
		return e, false, &CorruptError{File: path, Reason: "it does not say where the log is"}
	}
	return e, true, nil
}

// write replaces the file as a whole.
func (e elsewhere) write(fsys FS, dir string) error {
	state := "new"
	if e.used {
		state = "used"
	}
	path := filepath.Join(dir, ElsewhereFile)
	f, err := fsys.OpenFile(path+tmpSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%s\n%016x\n%s\n", e.dir, e.id, state), 0)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(path+tmpSuffix, path); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// segmentsDir is where the segments of a data directory are.
func (o Options) segmentsDir(dir string) string {
	if o.LogDir != "" {
		return o.LogDir
	}
	return filepath.Join(dir, "wal")
}

// Exists reports whether a data directory holds a log or a snapshot, its log being where the options say. It is an error if
// the log is known to be at another place.
func (o Options) Exists(dir string) (bool, error) {
	o = o.withDefaults()
	count := func(dir, suffix string) (int, error) {
		numbers, err := listNumbers(o.FS, dir, suffix)
		return len(numbers), err
	}
	inside, err := count(filepath.Join(dir, "wal"), segmentSuffix)
	if err != nil {
		return false, err
	}
	snaps, err := count(filepath.Join(dir, "snap"), snapshotSuffix)
	if err != nil {
		return false, err
	}
	mark, marked, err := readElsewhere(o.FS, dir)
	if err != nil {
		return false, err
	}
	if o.LogDir == "" {
		if marked && mark.used && inside == 0 {
			return false, fmt.Errorf("wal: the log of %s is in %s: name that directory, or move its files to %s", dir, mark.dir, filepath.Join(dir, "wal"))
		}
		return inside+snaps > 0, nil
	}
	if inside > 0 {
		return false, fmt.Errorf("wal: the log of %s is in %s: move its files to %s, or name no directory for the log", dir, filepath.Join(dir, "wal"), o.LogDir)
	}
	outside, err := count(o.LogDir, segmentSuffix)
	if err != nil {
		return false, err
	}
	switch {
	case outside == 0 && marked && mark.used:
		return false, &CorruptError{File: o.LogDir, Reason: fmt.Sprintf("the log of %s is not here; it was in %s", dir, mark.dir)}
	case outside > 0 && !marked && !o.locked(dir):
		return false, fmt.Errorf("wal: %s holds a log and %s was never used: they are of two members, or the data directory was emptied", o.LogDir, dir)
	}
	return outside+snaps > 0, nil
}

// locked reports whether a data directory was ever locked, and so used.
func (o Options) locked(dir string) bool {
	names, err := o.FS.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, name := range names {
		if name == "lock" {
			return true
		}
	}
	return false
}

// mark says in the data directory where the log is, if it is elsewhere, or that it is there again.
func (l *Log) mark(dir string, used bool) error {
	mark, marked, err := readElsewhere(l.opts.FS, dir)
	if err != nil {
		return err
	}
	if marked && used && mark.id != l.id {
		return &CorruptError{File: l.dir, Reason: fmt.Sprintf("the log is not the one of %s", dir)}
	}
	if l.opts.LogDir == "" {
		if !marked {
			return nil
		}
		if err := l.opts.FS.Remove(filepath.Join(dir, ElsewhereFile)); err != nil {
			return err
		}
		return l.opts.FS.SyncDir(dir)
	}
	now := elsewhere{dir: l.dir, id: l.id, used: used}
	if marked && mark == now {
		return nil
	}
	return now.write(l.opts.FS, dir)
}

// locks are given back together.
type locks []io.Closer

// Close gives all of them back.
func (all locks) Close() (err error) {
	for _, l := range all {
		err = errors.Join(err, l.Close())
	}
	return err
}

// takeLocks locks the data directory and, if it is another, that of the log.
func takeLocks(dir string, opts Options) (io.Closer, error) {
	lock, err := opts.FS.Lock(filepath.Join(dir, "lock"))
	if err != nil || opts.LogDir == "" {
		return lock, err
	}
	other, err := opts.FS.Lock(filepath.Join(opts.LogDir, "lock"))
	if err != nil {
		lock.Close()
		return nil, err
	}
	return locks{lock, other}, nil
}
