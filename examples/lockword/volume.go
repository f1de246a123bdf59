package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/file"
)

// Volume is a directory of files and, in a directory within, of the words that lock them.
//
// A file has the token of the lease under which it was written in its name: NAME@TOKEN, and
// the greatest token is the file. That is the fence. A writer that was paused until the
// lock passed to another writes under a name that is out of date, and nobody will read it.
// As a word on a disk, a file only goes forward. It needs no other lock, and no check that
// would have to be one with the write.
type Volume struct {
	dir     string
	leaser  tenure.Leaser
	locking atomic.Int64 // nanoseconds
}

// OpenVolume makes of the directory a volume, if nobody has made it yet.
func OpenVolume(ctx context.Context, dir string, spec file.Spec) (*Volume, error) {
	locks, err := filepath.Abs(filepath.Join(dir, "locks"))
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(locks, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := file.Init(ctx, []string{locks}, spec); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	leaser, err := file.Open(ctx, file.Config{Paths: []string{locks}, Existing: true})
	if err != nil {
		return nil, err
	}
	return &Volume{dir: dir, leaser: leaser}, nil
}

// Close unlocks what is locked.
func (v *Volume) Close() error { return v.leaser.Close() }

// Locking is how long all Updates together took to lock and to unlock.
func (v *Volume) Locking() time.Duration { return time.Duration(v.locking.Load()) }

// Update locks a file, reads it (nil if there is none), and replaces it by what change
// makes of it. If its error wraps tenure.ErrLost then the lock was lost before the end, and
// the file may have been replaced or not: read it before trying again.
func (v *Volume) Update(ctx context.Context, name string, change func([]byte) ([]byte, error)) error {
	began, work, made := time.Now(), time.Duration(0), false
	err := tenure.Do(ctx, v.leaser, tenure.Claim{Name: name}, func(ctx context.Context, lease tenure.Lease) error {
		began := time.Now()
		defer func() { work = time.Since(began) }()
		text, at, err := v.read(name)
		if err != nil {
			return err
		}
		if at > lease.Token() {
			return fmt.Errorf("%s was written under token %d, and ours is %d: another made these locks anew, without looking at the files", name, at, lease.Token())
		}
		if text, err = change(text); err != nil {
			return err
		}
		if err := v.write(name, lease.Token(), text); err != nil {
			return err
		}
		made = true
		v.tidy(name, lease.Token())
		return nil
	})
	v.locking.Add(int64(time.Since(began) - work))
	if made && !errors.Is(err, tenure.ErrLost) {
		return nil // and if the release was not confirmed the lease ends by itself
	}
	return err
}

// Read reads a file without locking it: as some Update left it, perhaps not the last.
func (v *Volume) Read(name string) ([]byte, error) {
	text, _, err := v.read(name)
	return text, err
}

func (v *Volume) read(name string) (text []byte, token uint64, err error) {
	for {
		tokens, err := v.tokens(name)
		if err != nil || len(tokens) == 0 {
			return nil, 0, err
		}
		token := slices.Max(tokens)
		text, err := os.ReadFile(v.path(name, token))
		if !errors.Is(err, fs.ErrNotExist) { // there is a newer one
			return text, token, err
		}
	}
}

func (v *Volume) path(name string, token uint64) string {
	return filepath.Join(v.dir, fmt.Sprintf("%s@%d", name, token))
}

// tokens under which the file was written, of the few that nobody has removed yet.
func (v *Volume) tokens(name string) (tokens []uint64, err error) {
	entries, err := os.ReadDir(v.dir)
	for _, e := range entries {
		if token, whole := parse(e.Name(), name); token > 0 && whole {
			tokens = append(tokens, token)
		}
	}
	return tokens, err
}

// parse takes the token from the name of an entry, if it belongs to the file.
func parse(entry, name string) (token uint64, whole bool) {
	suffix, ok := strings.CutPrefix(entry, name+"@")
	if !ok {
		return 0, false
	}
	suffix, unfinished := strings.CutSuffix(suffix, unfinished)
	token, _ = strconv.ParseUint(suffix, 10, 64) // no lease has token 0
	return token, !unfinished
}

const unfinished = ".new"

// write has the file on disk under its name, as a whole.
func (v *Volume) write(name string, token uint64, text []byte) error {
	f, err := os.Create(v.path(name, token) + unfinished) // a token is one holder's
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), v.path(name, token)); err != nil {
		return err
	}
	d, err := os.Open(v.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// tidy removes the files that ours has replaced, and those that others did not finish. If
// it cannot remove one, the next tidy will: none of them is read.
func (v *Volume) tidy(name string, ours uint64) {
	entries, _ := os.ReadDir(v.dir)
	for _, e := range entries {
		if token, _ := parse(e.Name(), name); 0 < token && token < ours {
			_ = os.Remove(filepath.Join(v.dir, e.Name()))
		}
	}
}
