package waltest_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

const sector = 512

func create(t *testing.T, fs *waltest.FS, path string) wal.File {
	t.Helper()
	f, err := fs.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// outcomes crashes after the same calls with many seeds, and counts what is left.
func outcomes(t *testing.T, calls func(fs *waltest.FS), left func(disk *waltest.Disk) string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for seed := range uint64(500) {
		var twice [2]string
		for i := range twice {
			disk := waltest.NewDisk()
			calls(disk.FS())
			disk.Crash(rand.New(rand.NewPCG(seed, 0)))
			twice[i] = left(disk)
		}
		if twice[0] != twice[1] {
			t.Fatalf("seed %d leaves %q and %q", seed, twice[0], twice[1])
		}
		found[twice[0]]++
	}
	return found
}

// wantOutcomes wants each of these to happen, and nothing else.
func wantOutcomes(t *testing.T, got map[string]int, want ...string) {
	t.Helper()
	for _, w := range want {
		if got[w] == 0 {
			t.Errorf("%q never happens", w)
		}
	}
	for g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("%q happens", g)
		}
	}
}

// TestCrashOfAFile overwrites one of two synced sectors and appends two: each new
// one is there or not by itself, and the first stays.
func TestCrashOfAFile(t *testing.T) {
	got := outcomes(t, func(fs *waltest.FS) {
		f := create(t, fs, "/d/f")
		f.WriteAt(bytes.Repeat([]byte("a"), 2*sector), 0)
		f.Sync()
		fs.SyncDir("/d")
		f.WriteAt(bytes.Repeat([]byte("b"), sector), sector)
		f.WriteAt(bytes.Repeat([]byte("c"), sector), 2*sector)
		f.WriteAt(bytes.Repeat([]byte("d"), sector), 3*sector)
	}, func(disk *waltest.Disk) (sectors string) {
		all := disk.ReadFile("/d/f")
		for s := range slices.Chunk(all, sector) {
			if len(bytes.Trim(s, string(s[:1]))) > 0 {
				t.Fatalf("a sector is torn: %q", s)
			}
			sectors += string(s[:1])
		}
		return sectors
	})
	wantOutcomes(t, got, "aa", "ab", // the length of before
		"aa\x00\x00", "aac\x00", "aa\x00d", "aacd", "ab\x00\x00", "abc\x00", "ab\x00d", "abcd")
}

// TestCrashOfADirectory makes changes of which a crash leaves the first few.
func TestCrashOfADirectory(t *testing.T) {
	got := outcomes(t, func(fs *waltest.FS) {
		create(t, fs, "/d/kept")
		fs.SyncDir("/d")
		create(t, fs, "/d/a")
		fs.Rename("/d/a", "/d/b")
		fs.Remove("/d/kept")
	}, func(disk *waltest.Disk) string {
		names, err := disk.FS().ReadDir("/d")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, " ")
	})
	wantOutcomes(t, got, "kept", "a kept", "b kept", "b")
}

func TestTheDeadDoNothing(t *testing.T) {
	for name, die := range map[string]func(*waltest.Disk){
		"kill":  (*waltest.Disk).Kill,
		"crash": func(d *waltest.Disk) { d.Crash(rand.New(rand.NewPCG(1, 1))) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := waltest.NewDisk()
			fs := disk.FS()
			f := create(t, fs, "/d/f")
			f.WriteAt([]byte("old"), 0)
			f.Sync()
			fs.SyncDir("/d")
			lock, err := fs.Lock("/d/lock")
			if err != nil {
				t.Fatal(err)
			}
			die(disk)
			_, open := fs.OpenFile("/d/g", os.O_CREATE, 0o600)
			_, readdir := fs.ReadDir("/d")
			_, again := fs.Lock("/d/lock")
			_, write := f.WriteAt([]byte("new new"), 0)
			_, read := f.ReadAt(make([]byte, 3), 0)
			_, size := f.Size()
			for i, err := range []error{
				open, readdir, again, write, read, size, f.Truncate(0), f.Preallocate(9), f.Sync(), lock.Close(),
				fs.MkdirAll("/e"), fs.Rename("/d/f", "/d/g"), fs.Remove("/d/f"), fs.SyncDir("/d"),
			} {
				if err != waltest.ErrCrashed {
					t.Errorf("call %d: %v, want ErrCrashed", i, err)
				}
			}
			disk.Crash(rand.New(rand.NewPCG(2, 2)))
			if got := disk.ReadFile("/d/f"); string(got) != "old" {
				t.Errorf("the file holds %q, want %q", got, "old")
			}
			if _, err := disk.FS().Lock("/d/lock"); err != nil {
				t.Errorf("the lock of a dead process: %v", err)
			}
		})
	}
}

func TestFault(t *testing.T) {
	broken := errors.New("broken")
	disk := waltest.NewDisk()
	fs := disk.FS()
	f := create(t, fs, "/d/f")
	var ops []string
	fs.Fault = func(op, path string) error {
		ops = append(ops, op+" "+path)
		if op == "write" || op == "remove" {
			return broken
		}
		return nil
	}
	if n, err := f.WriteAt([]byte("abcd"), 0); n != 2 || err != broken {
		t.Errorf("WriteAt: %d, %v; want half of it and the fault", n, err)
	}
	if got := disk.ReadFile("/d/f"); string(got) != "ab" {
		t.Errorf("the file holds %q, want %q", got, "ab")
	}
	if err := fs.Remove("/d/f"); err != broken || disk.ReadFile("/d/f") == nil {
		t.Errorf("Remove: %v, want the fault and nothing removed", err)
	}
	if _, err := f.ReadAt(make([]byte, 3), 0); err != io.EOF {
		t.Errorf("ReadAt past the end: %v, want io.EOF", err)
	}
	if want := []string{"write /d/f", "remove /d/f", "read /d/f"}; !slices.Equal(ops, want) {
		t.Errorf("Fault saw %q, want %q", ops, want)
	}
	fs.Fault = func(string, string) error { disk.Kill(); return nil }
	if n, err := f.WriteAt([]byte("xyz!"), 0); n != 2 || err != waltest.ErrCrashed {
		t.Errorf("killed in a WriteAt: %d, %v; want half of it and ErrCrashed", n, err)
	}
	if got := disk.ReadFile("/d/f"); string(got) != "xy" {
		t.Errorf("the file holds %q, want %q", got, "xy")
	}
}

// TestDamage: what WriteFile puts there is durable, and processes read it.
func TestDamage(t *testing.T) {
	disk := waltest.NewDisk()
	disk.WriteFile("/d/f", []byte("damaged"))
	disk.Crash(rand.New(rand.NewPCG(1, 1)))
	b := make([]byte, 7)
	if _, err := create(t, disk.FS(), "/d/f").ReadAt(b, 0); err != nil || string(b) != "damaged" {
		t.Errorf("a process reads %q, %v", b, err)
	}
	if got := disk.ReadFile("/d/none"); got != nil {
		t.Errorf("a file that is not there holds %q", got)
	}
}

// TestWhatWasSyncedIsWhatWasWritten makes changes of all kinds and wants that a sync leaves
// on the disk what processes saw.
func TestWhatWasSyncedIsWhatWasWritten(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		disk := waltest.NewDisk()
		fs := disk.FS()
		f := create(t, fs, "/d/f")
		if err := fs.SyncDir("/d"); err != nil {
			t.Fatal(err)
		}
		var calls []string
		for range 1 + r.IntN(12) {
			size, err := f.Size()
			if err != nil {
				t.Fatal(err)
			}
			switch r.IntN(5) {
			case 0, 1:
				at, n := r.Int64N(3*sector), r.IntN(sector)
				calls = append(calls, "write")
				if _, err := f.WriteAt(bytes.Repeat([]byte{byte(1 + r.IntN(255))}, n), at); err != nil {
					t.Fatal(err)
				}
			case 2:
				calls = append(calls, "truncate")
				err = f.Truncate(r.Int64N(size + 1))
			case 3:
				calls = append(calls, "preallocate")
				err = f.Preallocate(r.Int64N(4 * sector))
			case 4:
				calls = append(calls, "sync")
				err = f.Sync()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if r.IntN(8) == 0 {
			calls = append(calls, "empty")
			if _, err := fs.OpenFile("/d/f", os.O_RDWR|os.O_TRUNC, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		want := disk.ReadFile("/d/f")
		disk.Crash(r)
		if got := disk.ReadFile("/d/f"); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: after %v and a sync the power cut left %d bytes other than the %d that were written", seed, calls, len(got), len(want))
		}
	}
}

func TestAnImageIsRestored(t *testing.T) {
	disk := waltest.NewDisk()
	fs := disk.FS()
	f := create(t, fs, "/d/f")
	if _, err := f.WriteAt([]byte("early"), 0); err != nil {
		t.Fatal(err)
	}
	img := disk.Image()
	if _, err := f.WriteAt([]byte("LATER"), 0); err != nil {
		t.Fatal(err)
	}
	create(t, fs, "/d/g")
	disk.Restore(img)
	if _, err := f.Size(); !errors.Is(err, waltest.ErrCrashed) {
		t.Errorf("a call of a process of before: %v", err)
	}
	disk.Crash(rand.New(rand.NewPCG(1, 0)))
	if got := disk.ReadFile("/d/f"); string(got) != "early" {
		t.Errorf("the file holds %q", got)
	}
	if disk.ReadFile("/d/g") != nil {
		t.Error("a file is there that was made later")
	}
	disk.Restore(waltest.Image{})
	if disk.ReadFile("/d/f") != nil {
		t.Error("a file is there on an empty disk")
	}
}

func TestOpenFilesAreCounted(t *testing.T) {
	fs := waltest.NewDisk().FS()
	a, b := create(t, fs, "/d/a"), create(t, fs, "/d/b")
	again := create(t, fs, "/d/a")
	want := func(paths ...string) {
		t.Helper()
		if got := fs.Open(); !slices.Equal(got, paths) {
			t.Errorf("open are %q, want %q", got, paths)
		}
	}
	want("/d/a", "/d/a", "/d/b")
	a.Close()
	a.Close() // the same file
	want("/d/a", "/d/b")
	again.Close()
	b.Close()
	want()
}

func TestFilesAreForTheUserOnly(t *testing.T) {
	fs := waltest.NewDisk().FS()
	if _, err := fs.OpenFile("/d/a", os.O_RDWR|os.O_CREATE, 0o640); err == nil {
		t.Error("a file was made that others may read")
	}
	create(t, fs, "/d/a")
	if _, err := fs.OpenFile("/d/a", os.O_RDONLY, 0); err != nil {
		t.Errorf("a file that is there: %v", err)
	}
}
