package storage

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestWitnesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	set, seen := machine.ID{1}, []byte("seen")
	newWitnesses(dir, set).keep("x", seen)

	if got := newWitnesses(dir, set).of("x"); !bytes.Equal(got, seen) {
		t.Errorf("another process reads %q, want %q", got, seen)
	}
	if got := newWitnesses(dir, set).of("y"); got != nil {
		t.Errorf("of another name: %q", got)
	}
	if got := newWitnesses(dir, machine.ID{2}).of("x"); got != nil {
		t.Errorf("of another set: %q", got)
	}
	later := newWitnesses(dir, set)
	later.era[0] ^= 1
	if got := later.of("x"); got != nil {
		t.Errorf("after a boot, by another clock: %q", got)
	}
	w := newWitnesses(dir, set)
	for path, want := range map[string]os.FileMode{w.path("x"): 0o600, w.dir: 0o700} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %v", path, st.Mode().Perm(), err, want)
		}
	}
	whole, err := os.ReadFile(w.path("x"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(whole, []byte("TenureW\x01")) {
		t.Errorf("a file begins with %q: another version cannot tell its format", whole[:8])
	}
	for i := range whole {
		broken := bytes.Clone(whole)
		broken[i] ^= 0x40
		for _, b := range [][]byte{broken, whole[:i]} {
			if err := os.WriteFile(w.path("x"), b, 0o600); err != nil {
				t.Fatal(err)
			}
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("a file of %d bytes that is damaged at byte %d ends the process: %v", len(b), i, r)
					}
				}()
				if got := w.of("x"); got != nil {
					t.Errorf("of a file that is damaged at byte %d: %q", i, got)
				}
			}()
		}
	}
	w.keep("x", seen)
	w.forget("x")
	if got := w.of("x"); got != nil {
		t.Errorf("what was forgotten is remembered: %q", got)
	}
	if _, err := os.Stat(w.path("x")); !os.IsNotExist(err) {
		t.Errorf("a file is left of what was forgotten: %v", err)
	}
}

// TestWitnessesOfAnUnknownBoot: without the boot's name, nothing shows later by which clock an
// observation was made.
func TestWitnessesOfAnUnknownBoot(t *testing.T) {
	dir := t.TempDir()
	witnessesOf("", dir, machine.ID{1}).keep("x", []byte("seen"))
	if got := witnessesOf("", dir, machine.ID{1}).of("x"); got != nil {
		t.Errorf("another process believes %q, of a boot that is unknown", got)
	}
	witnessesOf("this", dir, machine.ID{1}).keep("x", []byte("seen"))
	for boot, want := range map[string]string{"this": "seen", "another": ""} {
		if got := witnessesOf(boot, dir, machine.ID{1}).of("x"); string(got) != want {
			t.Errorf("in the boot %q another process believes %q, want %q", boot, got, want)
		}
	}
}

// TestForgedWitnesses: another user's evidence could take a living holder for dead.
func TestForgedWitnesses(t *testing.T) {
	keep := func(t *testing.T) *witnesses {
		w := newWitnesses(t.TempDir(), machine.ID{1})
		w.keep("x", []byte("seen"))
		w.seen = map[string][]byte{} // as in another process
		if got := w.of("x"); string(got) != "seen" {
			t.Fatalf("before anything was changed %q is read", got)
		}
		return w
	}
	ignored := func(t *testing.T, w *witnesses) {
		t.Helper()
		if got := w.of("x"); got != nil {
			t.Errorf("%q was believed, which another user may have written", got)
		}
		w.keep("y", []byte("seen"))
		if got := w.of("y"); string(got) != "seen" {
			t.Errorf("the process itself remembers %q", got)
		}
	}
	for _, mode := range []os.FileMode{0o770, 0o702} {
		t.Run(mode.String(), func(t *testing.T) {
			w := keep(t)
			if err := os.Chmod(w.dir, mode); err != nil {
				t.Fatal(err)
			}
			ignored(t, w)
			if _, err := os.Stat(w.path("y")); err == nil {
				t.Error("a file was written where others may replace it")
			}
		})
	}
	t.Run("another user's", func(t *testing.T) {
		w := keep(t)
		w.uid++
		ignored(t, w)
	})
	t.Run("a link", func(t *testing.T) {
		w := keep(t)
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		if err := os.Rename(w.dir, elsewhere); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, w.dir); err != nil {
			t.Fatal(err)
		}
		ignored(t, w)
	})
}

// TestOldWitnesses: an observation of a month ago is removed, and one of a few weeks ago stays.
func TestOldWitnesses(t *testing.T) {
	w := newWitnesses(t.TempDir(), machine.ID{1})
	w.keep("old", []byte("seen"))
	month := time.Now().Add(-oldWitness - time.Hour)
	if err := os.Chtimes(w.path("old"), month, month); err != nil {
		t.Fatal(err)
	}
	w.keep("recent", []byte("seen"))
	weeks := time.Now().Add(-29 * 24 * time.Hour)
	if err := os.Chtimes(w.path("recent"), weeks, weeks); err != nil {
		t.Fatal(err)
	}
	w.keep("new", []byte("seen"))
	for name, want := range map[string]bool{"old": false, "recent": true, "new": true} {
		if _, err := os.Stat(w.path(name)); (err == nil) != want {
			t.Errorf("the %s observation is there: %v, want %v", name, err == nil, want)
		}
	}
}

// TestWitnessesWithoutFiles: where nothing can be written, the process remembers.
func TestWitnessesWithoutFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"", file} {
		w := newWitnesses(state, machine.ID{1})
		w.keep("x", []byte("seen"))
		if got := w.of("x"); string(got) != "seen" {
			t.Errorf("below %q: %q is remembered", state, got)
		}
		for i := range manyWitnesses {
			w.keep(string(rune(i+0x100)), []byte("seen"))
		}
		if len(w.seen) > manyWitnesses {
			t.Errorf("%d names are remembered, want %d at most", len(w.seen), manyWitnesses)
		}
	}
}

// TestAWitnessThatCannotBePutInPlace leaves nothing half made, and the process remembers.
func TestAWitnessThatCannotBePutInPlace(t *testing.T) {
	w := newWitnesses(t.TempDir(), machine.ID{1})
	if err := os.MkdirAll(w.path("x"), 0o700); err != nil { // in the way
		t.Fatal(err)
	}
	dir := w.dir
	w.keep("x", []byte("seen"))
	if got := w.of("x"); string(got) != "seen" {
		t.Errorf("%q is remembered", got)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("%v, %v: want what was there before", files, err)
	}
	if w.keep("y", []byte("seen")); w.dir != "" {
		t.Errorf("it goes on writing to %s, where it failed", w.dir)
	}
}

// TestAWitnessThatIsKnown is not written again: a claim that is refused once a second would wear out the disk.
func TestAWitnessThatIsKnown(t *testing.T) {
	w := newWitnesses(t.TempDir(), machine.ID{1})
	w.keep("x", []byte("seen"))
	if err := os.Remove(w.path("x")); err != nil {
		t.Fatal(err)
	}
	w.keep("x", []byte("seen"))
	if _, err := os.Stat(w.path("x")); !os.IsNotExist(err) {
		t.Errorf("what is known was written again: %v", err)
	}
	w.keep("x", nil) // a claim that has seen nothing
	if got := w.of("x"); string(got) != "seen" {
		t.Errorf("a claim that has seen nothing leaves %q, want what was known before", got)
	}
	w.keep("x", []byte("seen again"))
	first, err := os.Stat(w.path("x"))
	if err != nil {
		t.Fatal(err)
	}
	w.keep("x", []byte("seen later"))
	if later, err := os.Stat(w.path("x")); err != nil || os.SameFile(first, later) {
		t.Errorf("%v, and the file was written in place: another process may read half of it", err)
	}
	if got := newWitnesses(filepath.Dir(w.dir), machine.ID{1}).of("x"); string(got) != "seen later" {
		t.Errorf("another process reads %q, want what was seen last", got)
	}
}

func TestStateDir(t *testing.T) {
	for _, c := range []struct{ state, home, want string }{
		{"/s", "/h", "/s/tenure"},
		{"", "/h", "/h/.local/state/tenure"},
		{"relative", "/h", "/h/.local/state/tenure"},
		{"", "", ""},
		{"", "relative", ""},
	} {
		t.Setenv("XDG_STATE_HOME", c.state)
		t.Setenv("HOME", c.home)
		if got := StateDir(); got != c.want {
			t.Errorf("with %q and %q: %q, want %q", c.state, c.home, got, c.want)
		}
	}
}
