package storage

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBootID: an identity of the clock is returned only if all parts of it can be read.
func TestBootID(t *testing.T) {
	if id := bootID(); len(id) < 36 {
		t.Errorf("this boot is %q, want its UUID", id)
	}
	make := func(boot, space string) string {
		proc := t.TempDir()
		for _, dir := range []string{"sys/kernel/random", "self/ns"} {
			if err := os.MkdirAll(filepath.Join(proc, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if boot != "" {
			err = os.WriteFile(filepath.Join(proc, "sys/kernel/random/boot_id"), []byte(boot+"\n"), 0o600)
		}
		switch {
		case err != nil:
		case space == "unreadable":
			err = os.Mkdir(filepath.Join(proc, "self/ns/time"), 0o700)
		case space != "":
			err = os.Symlink(space, filepath.Join(proc, "self/ns/time"))
		}
		if err != nil {
			t.Fatal(err)
		}
		return bootIDIn(proc)
	}
	for _, c := range []struct{ boot, space, want string }{
		{"a", "time:[1]", "a time:[1]"},
		{"b", "time:[1]", "b time:[1]"},
		{"a", "time:[2]", "a time:[2]"},
		{"a", "", "a "},
		{"a", "unreadable", ""},
		{"", "time:[1]", ""},
	} {
		if got := make(c.boot, c.space); got != c.want {
			t.Errorf("boot %q, namespace %q: %q, want %q", c.boot, c.space, got, c.want)
		}
	}
}
