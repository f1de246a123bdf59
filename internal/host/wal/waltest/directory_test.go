package waltest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// put makes a file that a crash leaves.
func put(t *testing.T, f *FS, dir, name, text string) {
	t.Helper()
	w, err := f.OpenFile(dir+"/"+name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
}

func listing(t *testing.T, f *FS, dirs ...string) string {
	t.Helper()
	var all []string
	for _, dir := range dirs {
		names, err := f.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(dir, names))
	}
	return strings.Join(all, " ")
}

// A directory is renamed with all that is in it, and is not there under the other name.
func TestDirectoriesAreRenamed(t *testing.T) {
	d := NewDisk()
	f := d.FS()
	put(t, f, "/d/unnamed/new", "a", "1")
	if err := f.Rename("/d/unnamed", "/d/made"); err != nil {
		t.Fatal(err)
	}
	if got := string(d.ReadFile("/d/made/new/a")); got != "1" {
		t.Errorf("under the new name it has %q", got)
	}
	if got := listing(t, f, "/d"); got != "/d[made]" {
		t.Errorf("after the rename there is %s", got)
	}
	if err := f.Remove("/d/made"); err == nil {
		t.Error("a directory that is not empty was removed")
	}
}

// A move to another directory that was not synced is undone by a crash as a whole, or stays as a whole: the file is in one of both.
func TestMovesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, synced := range []string{"", "/a", "/b"} {
		for seed := range uint64(30) {
			d := NewDisk()
			f := d.FS()
			put(t, f, "/a", "x", "1")
			if err := f.MkdirAll("/b"); err != nil {
				t.Fatal(err)
			}
			if err := f.Rename("/a/x", "/b/y"); err != nil {
				t.Fatal(err)
			}
			if synced != "" {
				if err := f.SyncDir(synced); err != nil {
					t.Fatal(err)
				}
			}
			d.Crash(rand.New(rand.NewPCG(seed, 0)))
			got := listing(t, d.FS(), "/a", "/b")
			if synced != "" && got != "/a[] /b[y]" || !slices.Contains([]string{"/a[x] /b[]", "/a[] /b[y]"}, got) {
				t.Fatalf("with %q synced a crash leaves %s", synced, got)
			}
			seen[got] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("crashes leave only %v", seen)
	}
}
