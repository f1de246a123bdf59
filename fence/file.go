package fence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// File is a Store in a small file beside the resource: the highest token in decimal, and
// a line end. It is replaced as a whole and made durable before the write that the
// token is for, so that it is never torn and never goes back, over a crash either. A
// second file, Path with ".lock" added, is locked (flock) meanwhile: all writers of the
// resource must be on file systems where that works between them. The second file holds the
// token that is known to be durable. So the next call makes up for a crash before that, and
// calls with that token need not sync.
type File struct {
	Path string
}

// Check raises the highest token, or returns an error that wraps ErrStale. It is
// enough where a write that was overtaken does no harm; otherwise use Do.
func (f File) Check(token uint64) error {
	return f.Do(token, func() error { return nil })
}

// Do implements Store. One call runs at a time, over all processes.
func (f File) Do(token uint64, write func() error) error {
	return ledger{f.Path, host{}}.do(token, write)
}

// ledger is a File on a disk.
type ledger struct {
	path string
	disk disk
}

func (l ledger) do(token uint64, write func() error) error {
	lock, err := l.disk.lock(l.path + ".lock")
	if err != nil {
		return fmt.Errorf("lock the token: %w", err)
	}
	defer lock.Close()
	highest, err := l.highest()
	if err != nil {
		return err
	}
	if err := check(token, highest); err != nil {
		return err
	}
	// A process that died between the rename and the sync leaves a token that a power loss
	// would take back.
	if token > highest || !knownDurable(lock, token) {
		if err := l.replace(token); err != nil {
			return fmt.Errorf("write token %d: %w", token, err)
		}
		noteDurable(lock, token)
	}
	return write()
}

func (l ledger) highest() (uint64, error) {
	b, err := l.disk.read(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the highest token: %w", err)
	}
	line, whole := strings.CutSuffix(string(b), "\n")
	token, err := strconv.ParseUint(line, 10, 64)
	if err != nil || !whole {
		return 0, fmt.Errorf("%s holds %.40q, want a token in decimal and a line end: it was not written by this package; repair it by the highest token that the lease's holders know", l.path, b)
	}
	return token, nil
}

// replace makes the token durable before its name, and the name before it returns.
func (l ledger) replace(token uint64) error {
	next := l.path + ".next" // the lock is ours, so there is one writer
	if err := l.writeSynced(next, text(token)); err != nil {
		return err
	}
	if err := l.disk.rename(next, l.path); err != nil {
		return err
	}
	return l.disk.syncDir(filepath.Dir(l.path))
}

func (l ledger) writeSynced(path, text string) error {
	file, err := l.disk.create(path)
	if err != nil {
		return err
	}
	if _, err = io.WriteString(file, text); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func text(token uint64) string { return strconv.FormatUint(token, 10) + "\n" }

// knownDurable reports whether the lock file says that the token is durable. Tokens only
// grow, so the answer stays true.
func knownDurable(lock io.ReaderAt, token uint64) bool {
	b := make([]byte, len("18446744073709551615\n")+1)
	n, err := lock.ReadAt(b, 0) // one byte more than a token has, so that what follows one shows
	return err == io.EOF && string(b[:n]) == text(token)
}

// noteDurable says so. A note that is lost, or torn, costs another sync.
func noteDurable(lock lockFile, token uint64) {
	if lock.Truncate(0) == nil {
		_, _ = lock.WriteAt([]byte(text(token)), 0)
	}
}
