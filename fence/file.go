package fence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// File is a Store in a small file beside the resource: the highest token in decimal, and
// a line end. It is replaced as a whole and made durable before the write that the
// token is for, so that it is never torn and never goes back, over a crash either. A
// second file, Path with ".lock" added, is locked (flock) meanwhile: all who
// write to the resource must be on file systems where that works between them.
type File struct {
	Path string
}

// Highest returns the highest token seen, 0 if none was.
func (f File) Highest() (uint64, error) {
	b, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the highest token: %w", err)
	}
	line, whole := strings.CutSuffix(string(b), "\n")
	token, err := strconv.ParseUint(line, 10, 64)
	if err != nil || !whole {
		return 0, fmt.Errorf("%s holds %.40q, want a token in decimal and a line end: it was not written by this package; repair it by the highest token that the lease's holders know", f.Path, b)
	}
	return token, nil
}

// Check raises the highest token, or returns an error that wraps ErrStale. It is
// enough where a write that was overtaken does no harm; otherwise use Do.
func (f File) Check(token uint64) error {
	return f.Do(token, func() error { return nil })
}

// Do implements Store. One call runs at a time, over all processes.
func (f File) Do(token uint64, write func() error) error {
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	highest, err := f.Highest()
	if err != nil {
		return err
	}
	if err := check(token, highest); err != nil {
		return err
	}
	if token > highest {
		if err := f.replace(token); err != nil {
			return fmt.Errorf("write token %d: %w", token, err)
		}
	}
	return write()
}

// lock waits for the lock file, which is never removed.
func (f File) lock() (unlock func(), err error) {
	file, err := os.OpenFile(f.Path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock beside the token: %w", err)
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if err != unix.EINTR {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
}

// replace makes the token durable before its name, and the name before it returns.
func (f File) replace(token uint64) error {
	dir := filepath.Dir(f.Path)
	next := f.Path + ".next" // the lock is ours, so there is one writer
	if err := writeSynced(next, strconv.FormatUint(token, 10)+"\n"); err != nil {
		return err
	}
	if err := os.Rename(next, f.Path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func writeSynced(path, text string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err = file.WriteString(text); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
