package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// failingDisk is a disk on which one operation fails.
type failingDisk struct {
	waltest.Witness
	fails string // sync, rename or syncdir
}

var errDisk = errors.New("the disk is full")

func (d *failingDisk) OpenFile(path string, flag int, perm fs.FileMode) (wal.File, error) {
	f, err := d.Witness.OpenFile(path, flag, perm)
	return failingFile{f, d.fails == "sync"}, err
}

func (d *failingDisk) Rename(from, to string) error {
	if d.fails == "rename" {
		return errDisk
	}
	return d.Witness.Rename(from, to)
}

func (d *failingDisk) SyncDir(dir string) error {
	if d.fails == "syncdir" {
		return errDisk
	}
	return d.Witness.SyncDir(dir)
}

type failingFile struct {
	wal.File
	fails bool
}

func (f failingFile) Sync() error {
	if f.fails {
		return errDisk
	}
	return f.File.Sync()
}

// A save whose disk fails says so, and leaves no part of the file behind.
func TestASaveTellsOfItsDisk(t *testing.T) {
	for fails, there := range map[string]bool{"sync": false, "syncdir": true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "saved.db")
		err := appear(&failingDisk{fails: fails}, path, func(w io.Writer, _ string) error {
			_, err := io.WriteString(w, "all of it")
			return err
		})
		if !errors.Is(err, errDisk) || !strings.HasPrefix(err.Error(), "save "+path+": ") {
			t.Errorf("%s fails, and the save ends with %v; want that it could not save %s", fails, err, path)
		}
		var want []string
		if there {
			want = []string{path}
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); !slices.Equal(left, want) {
			t.Errorf("%s fails, and the directory has %q, want %q", fails, left, want)
		}
	}
}

// Where a file can have no second name, the part that was written gets the name.
func TestAFileAppearsWithoutLinks(t *testing.T) {
	for _, fails := range []string{"", "rename"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "saved.db")
		disk := &failingDisk{fails: fails}
		err := appear(disk, path, func(w io.Writer, part string) error {
			return os.Remove(part) // no link to it can be made
		})
		switch {
		case fails == "" && (err == nil || !errors.Is(err, fs.ErrNotExist)):
			t.Errorf("there is nothing to rename, and the save ends with %v", err)
		case fails != "" && (!errors.Is(err, errDisk) || !strings.HasPrefix(err.Error(), "save "+path+": ")):
			t.Errorf("the part cannot be renamed, and the save ends with %v; want that it could not save %s", err, path)
		}
		if calls := disk.Calls(); fails == "" && !slices.Contains(calls, "rename saved.db.part-"+strconv.Itoa(os.Getpid())+" saved.db") {
			t.Errorf("no link can be made, and done is %q; want the part renamed", calls)
		}
	}
}
