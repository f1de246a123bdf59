package file

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Names never takes damage for a name that nobody has written. Like a Query, it fails for as long
// as the damage may be a living handle's.
func TestNamesBesideDamage(t *testing.T) {
	for copies := range 3 {
		b := newBench(t, InitOptions{})
		s := b.open()
		do(t, s, put("x", 3, 1, "x"), put("y", 5, 1, "y"))
		at := s.slots[key{writer(1), "x"}].at
		place := die(s)
		for c := range copies {
			flip(t, b, place, copyAt(leastSlots, c, at))
		}
		reader := b.open()
		for _, after := range []struct {
			pass  machine.Mono
			fails bool
		}{{0, copies == 2}, {machine.Mono(testWait - 1), copies == 2}, {1, false}} {
			b.clock.at.Add(int64(after.pass))
			names, err := reader.Names()
			want := []string{"x", "y"}
			if copies == 2 {
				want = want[1:]
			}
			if after.fails {
				if !errors.Is(err, register.ErrDamaged) {
					t.Errorf("%d copies of a slot are unreadable for %v: names %q, %v; want %v", copies, b.clock.now(), names, err, register.ErrDamaged)
				}
			} else if err != nil || !slices.Equal(names, want) {
				t.Errorf("%d copies of a slot are unreadable for %v: names %q, %v; want %q", copies, b.clock.now(), names, err, want)
			}
		}
	}
}

// Each kind of file is seen as that kind: nobody takes a terminal for a disk.
func TestKindsOfFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, dir, "file", nil)
	for _, err := range []error{
		os.Mkdir(at("dir"), 0o750), os.Symlink(at("file"), at("link")), unix.Mkfifo(at("pipe"), 0o640), os.Chmod(at("file"), 0o604),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", at("s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	paths := []string{at("file"), at("dir"), at("link"), at("pipe"), at("s"), os.DevNull}
	if disks, _ := filepath.Glob("/dev/loop[0-9]"); len(disks) > 0 {
		paths = append(paths, disks[0])
	}
	for _, path := range paths {
		want, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := OS.Lstat(path)
		if err != nil || got.Mode.Type() != want.Mode().Type() || got.Mode.Perm() != want.Mode().Perm() || got.Mode.IsRegular() && got.Size != want.Size() {
			t.Errorf("%s is taken for %v, %v; it is %v", path, got.Mode, err, want.Mode())
		}
		followed, err := OS.Stat(path)
		if want, _ := os.Stat(path); err != nil || followed.Mode.Type() != want.Mode().Type() {
			t.Errorf("%s leads to %v, %v; want %v", path, followed.Mode, err, want.Mode())
		}
		able := want.Mode().IsRegular() || want.Mode()&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice
		if isDevice(got.Mode) != able {
			t.Errorf("%s can be used as a device: %v, want %v", path, isDevice(got.Mode), able)
		}
	}
	for _, path := range []string{at("pipe"), at("s"), os.DevNull} {
		if _, _, err := Find(path); err == nil || !strings.Contains(err.Error(), "leases are kept in a directory") {
			t.Errorf("Find of %s: %v, want where leases are kept", path, err)
		}
	}
	for _, stat := range []func(string) (Info, error){OS.Stat, OS.Lstat} {
		if _, err := stat(at("none")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), at("none")) {
			t.Errorf("of what is not there: %v", err)
		}
	}
}

// Users of the directory may use everything in it, under any umask.
func TestPermissions(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	for _, perm := range []fs.FileMode{0o700, 0o770, 0o775, 0o777} {
		b := &bench{t: t, dir: t.TempDir()}
		if err := os.Chmod(b.dir, perm); err != nil {
			t.Fatal(err)
		}
		if err := Init(b.dir, testHeader, InitOptions{}); err != nil {
			t.Fatal(err)
		}
		s, err := Open(b.dir, b.options())
		if err != nil {
			t.Fatal(err)
		}
		do(t, s, put("x", 1, 1, "one"))
		for name, want := range map[string]fs.FileMode{headerName: perm & 0o666, handlesDir: perm, handlesDir + "/" + s.home.place: perm & 0o666} {
			if st, err := os.Stat(filepath.Join(b.dir, name)); err != nil || st.Mode().Perm() != want {
				t.Errorf("in a directory of mode %v, %s has %v, %v; want %v", perm, name, st.Mode().Perm(), err, want)
			}
		}
		s.Close()
	}
}

// The host's errors come with a remedy.
func TestAdvice(t *testing.T) {
	for errno, says := range map[error]string{
		unix.ENOSPC:     "make room",
		unix.EDQUOT:     "raise the quota",
		unix.EROFS:      "mount it for writing",
		unix.EACCES:     "allowed to write",
		unix.EPERM:      "allowed to write",
		unix.EOPNOTSUPP: "hard links",
		unix.EMFILE:     "open files",
		unix.EFBIG:      "ulimit -f",
		unix.ESTALE:     "mount it again",
	} {
		err := advise(&os.PathError{Op: "write", Path: "/leases", Err: errno})
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want one that wraps %v and says %q", err, errno, says)
		}
	}
	if err := advise(unix.EIO); err != unix.EIO {
		t.Errorf("where there is no advice: %v", err)
	}
	if advise(nil) != nil {
		t.Error("advice where nothing is wrong")
	}
}

// Headers at the limits are made, and beyond them none.
func TestLimitsOfHeaders(t *testing.T) {
	for _, c := range []struct {
		areas, slots int
		ok           bool
	}{
		{0, 0, true}, {-1, 0, false}, {maxAreas, 1, true}, {maxAreas + 1, 1, false}, {1, mostSlots, true}, {1, mostSlots + 1, false}, {1, -1, false},
	} {
		h := storeHeader{Header: testHeader, areas: c.areas, slots: c.slots}
		b := make([]byte, block)
		h.encode(b)
		if _, err := decodeHeader(b); (err == nil) != c.ok {
			t.Errorf("a header for %d handles of %d slots: %v", c.areas, c.slots, err)
		}
	}
	for slots, ok := range map[int]bool{0: false, 1: true, mostSlots: true, mostSlots + 1: false} {
		b := make([]byte, block)
		h := handleHeader{id: machine.ID{1}, slots: slots}
		h.encode(b)
		if _, err := decodeHandle(b); (err == nil) != ok {
			t.Errorf("a handle of %d slots: %v", slots, err)
		}
	}
}

// Something larger than any handle's file is not read.
func TestAFileLargerThanAHandles(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 1, 1, "one"))
	huge := filepath.Join(b.dir, handlesDir, strings.Repeat("a", 32))
	write(t, filepath.Dir(huge), filepath.Base(huge), nil)
	if err := os.Truncate(huge, int64(placeSize(mostSlots))+1); err != nil {
		t.Fatal(err)
	}
	if r := s.Do([]register.Op{query("x")})[0]; !errors.Is(r.Err, register.ErrForeign) || !strings.Contains(fmt.Sprint(r.Err), strings.Repeat("a", 32)) {
		t.Errorf("a file larger than any handle's: %v, want %v that names it", r.Err, register.ErrForeign)
	}
}
