package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
)

// A data directory that begins anew has the new log and snapshot made beside the former ones. The name of the
// directory that holds them says how far the exchange is; each step can be done again, so a crash in it
// costs nothing:
//
//	anew.work    they may not be whole: the next attempt removes them
//	anew.made    they are whole, and the new cluster is there: the former ones are moved away
//	anew.moving  the former ones are away: the new ones are moved in
//
// The former ones are kept, as former-1, in each of the data directory and the log's, if that is another.
const (
	anewWork   = "anew.work"
	anewMade   = "anew.made"
	anewMoving = "anew.moving"
	formerly   = "former-"
)

// places are where the files of an exchange are.
type places struct {
	dir, log string // of the member's data; log is where its segments are
	inside   bool   // in the data directory
}

func placesOf(dir string, opts wal.Options) places {
	if opts.LogDir != "" {
		return places{dir: dir, log: opts.LogDir}
	}
	return places{dir: dir, log: filepath.Join(dir, "wal"), inside: true}
}

// newLog is where the new segments are, and formerLog where the former ones go, in an exchange that is as far as a name says.
func (p places) newLog(at string) string {
	if p.inside {
		return filepath.Join(p.dir, at, "new", "wal")
	}
	return filepath.Join(p.log, "anew.log")
}

func (p places) formerLog(at string) string {
	if p.inside {
		return filepath.Join(p.dir, at, "former", "wal")
	}
	return filepath.Join(p.log, "anew.former")
}

// makeAnew makes the new log and snapshot beside those that are there.
func makeAnew(dir string, id identity, snap replica.Snapshot, opts wal.Options, logger *slog.Logger) error {
	p := placesOf(dir, opts)
	if err := p.clear(opts.FS); err != nil {
		return err
	}
	if opts.LogDir != "" {
		opts.LogDir = p.newLog(anewWork)
	}
	work := filepath.Join(dir, anewWork)
	if err := begin(filepath.Join(work, "new"), id, snap, opts, logger); err != nil {
		return err
	}
	if err := opts.FS.SyncDir(p.log); err != nil {
		return err
	}
	return opts.FS.SyncDir(work)
}

// commitAnew makes the new cluster the one of the data directory.
func commitAnew(dir string, opts wal.Options) error {
	return rename(opts.FS, dir, anewWork, anewMade)
}

// finishAnew ends an exchange that has begun, if there is one.
func finishAnew(dir string, opts wal.Options) (err error) {
	names, err := opts.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	made, moving := slices.Contains(names, anewMade), slices.Contains(names, anewMoving)
	if err != nil || !made && !moving {
		return err
	}
	lock, err := opts.FS.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	p := placesOf(dir, opts)
	at := anewMoving
	if made {
		at = anewMade
	}
	if _, err := opts.FS.ReadDir(p.newLog(at)); err != nil {
		return fmt.Errorf("the log of a cluster that begins anew is not where the flags say: give the same --wal-dir as before: %w", err)
	}
	if made {
		if err := p.moveAway(opts.FS); err != nil {
			return err
		}
	}
	return p.moveIn(opts.FS)
}

// moveAway moves the former log and snapshots away, and what the member remembers of the others.
func (p places) moveAway(fsys wal.FS) error {
	former := filepath.Join(p.dir, anewMade, "former")
	if err := errors.Join(
		moveAll(fsys, p.log, p.formerLog(anewMade), isSegment),
		moveAll(fsys, filepath.Join(p.dir, "snap"), filepath.Join(former, "snap"), all),
		moveAll(fsys, p.dir, former, func(name string) bool { return name == directoriesFile || name == wal.ElsewhereFile }),
	); err != nil {
		return err
	}
	return rename(fsys, p.dir, anewMade, anewMoving)
}

// moveIn moves the new log and snapshot to their places, and gives the former ones their last name.
func (p places) moveIn(fsys wal.FS) error {
	made := filepath.Join(p.dir, anewMoving, "new")
	if err := errors.Join(
		moveAll(fsys, p.newLog(anewMoving), p.log, isSegment),
		moveAll(fsys, filepath.Join(made, "snap"), filepath.Join(p.dir, "snap"), all),
		moveAll(fsys, made, p.dir, func(name string) bool { return name == wal.ElsewhereFile }),
	); err != nil {
		return err
	}
	if !p.inside {
		if err := keepFormer(fsys, p.log, "anew.former"); err != nil {
			return err
		}
	}
	if err := keepFormer(fsys, p.dir, filepath.Join(anewMoving, "former")); err != nil {
		return err
	}
	if err := rename(fsys, p.dir, anewMoving, anewWork); err != nil {
		return err
	}
	return p.clear(fsys)
}

// clear removes what is left of an attempt, or of an exchange that is over.
func (p places) clear(fsys wal.FS) error {
	return errors.Join(removeAll(fsys, filepath.Join(p.dir, anewWork)), removeAll(fsys, p.newLog(anewWork)))
}

func all(string) bool { return true }

func isSegment(name string) bool { return strings.HasSuffix(name, ".wal") }

// keepFormer gives a directory of former files, if it is there, the first name that is free.
func keepFormer(fsys wal.FS, dir, from string) error {
	if _, err := fsys.ReadDir(filepath.Join(dir, from)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for i := 1; ; i++ {
		if name := fmt.Sprint(formerly, i); !slices.Contains(names, name) {
			return rename(fsys, dir, from, name)
		}
	}
}

// rename renames in a directory, or out of one below it, durably.
func rename(fsys wal.FS, dir, from, to string) error {
	old := filepath.Join(dir, from)
	if err := fsys.Rename(old, filepath.Join(dir, to)); err != nil {
		return err
	}
	err := fsys.SyncDir(dir)
	if below := filepath.Dir(old); below != dir {
		err = errors.Join(err, fsys.SyncDir(below))
	}
	return err
}

// moveAll moves files from one directory to another, durably. It is no error if there is nothing to move.
func moveAll(fsys wal.FS, from, to string, which func(name string) bool) error {
	names, err := fsys.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := fsys.MkdirAll(to); err != nil {
		return err
	}
	for _, name := range names {
		if which(name) {
			if err := fsys.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
				return err
			}
		}
	}
	return errors.Join(fsys.SyncDir(to), fsys.SyncDir(from), fsys.SyncDir(filepath.Dir(to)))
}

// removeAll removes a file, or a directory with all that is in it.
func removeAll(fsys wal.FS, path string) error {
	err := fsys.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	names, err2 := fsys.ReadDir(path)
	if err2 != nil {
		return errors.Join(err, err2)
	}
	for _, name := range names {
		if err := removeAll(fsys, filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return fsys.Remove(path)
}
