package wal_test

import (
	"io/fs"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/wal"
)

// counting counts what is synced.
type counting struct {
	wal.FS
	syncs *int
}

func (c counting) OpenFile(path string, flag int, perm fs.FileMode) (wal.File, error) {
	f, err := c.FS.OpenFile(path, flag, perm)
	return countingFile{f, c.syncs}, err
}

func (c counting) SyncDir(dir string) error {
	*c.syncs++
	return c.FS.SyncDir(dir)
}

type countingFile struct {
	wal.File
	syncs *int
}

func (f countingFile) Sync() error {
	*f.syncs++
	return f.File.Sync()
}

// A log over Unsynced syncs neither files nor directories, and is read as any other.
func TestUnsynced(t *testing.T) {
	var syncs int
	dir, disk := t.TempDir(), counting{wal.OS{}, &syncs}
	write := func(fsys wal.FS) {
		t.Helper()
		l, err := wal.Create(dir, nil, wal.Options{FS: fsys})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, err := l.Append(wal.Record{Kind: 1, Payload: []byte("one")}); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	write(wal.Unsynced{FS: disk})
	if syncs != 0 {
		t.Errorf("%d syncs, want none", syncs)
	}
	var got string
	l, err := wal.Open(dir, wal.Options{}, func(r wal.Record) error { got += string(r.Payload); return nil })
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if got != "one" {
		t.Errorf("the log has %q, want one", got)
	}
	if _, err := (wal.Unsynced{FS: disk}).OpenFile(dir+"/none/none", 0, 0); err == nil {
		t.Error("a file that is not there was opened")
	}
	dir = t.TempDir()
	if write(disk); syncs == 0 {
		t.Error("a log that syncs was not seen to")
	}
}
