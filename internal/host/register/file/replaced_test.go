package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A handle that has met another store in the place of its own stops for good, also if its own comes
// back: it does not know the writes of the time between.
func TestTheStoreComesBackAfterAnother(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "three"))
	away := filepath.Join(t.TempDir(), "away")
	if err := os.Rename(b.dir, away); err != nil {
		t.Fatal(err)
	}
	h := testHeader
	h.Set[0]++
	if err := errors.Join(os.Mkdir(b.dir, 0o700), Init(b.dir, h, InitOptions{})); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, s, query("x"), register.ErrMismatch)
	if err := errors.Join(os.RemoveAll(b.dir), os.Rename(away, b.dir)); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, s, query("x"), register.ErrMismatch)
	wantFailure(t, s, put("x", 4, 1, "four"), register.ErrMismatch)
	wantContents(t, b.open(), "x", "3 three")
}

// A store that cannot be read is shown as such, and not as one without handles.
func TestADumpOfWhatIsGone(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "three"))
	away := filepath.Join(t.TempDir(), "away")
	if err := os.Rename(b.dir, away); err != nil {
		t.Fatal(err)
	}
	n := 0
	for h, err := range s.Dump() {
		if n++; !errors.Is(err, register.ErrGone) {
			t.Errorf("a dump of a store that is gone shows %+v, %v, want ErrGone", h, err)
		}
	}
	if n != 1 {
		t.Errorf("a dump of a store that is gone has %d lines, want one that says so", n)
	}
	if err := os.Rename(away, b.dir); err != nil { // the handle says farewell there
		t.Fatal(err)
	}
}

// A device has no size in the directory that names it, and is opened all the same.
func TestTheSizeOfADevice(t *testing.T) {
	h := storeHeader{Header: testHeader, single: true, areas: 2, slots: 4}
	s, err := openDevice(os.DevNull, h, Options{ReadOnly: true, Clock: realClock})
	if err != nil {
		t.Fatalf("a device, whose directory shows no size for it: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	short := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(short, make([]byte, block), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDevice(short, h, Options{ReadOnly: true, Clock: realClock}); !errors.Is(err, register.ErrDamaged) {
		t.Errorf("a file that is too short for its areas: %v, want ErrDamaged", err)
	}
}

// keepsAll is a file system from which nothing may be removed.
type keepsAll struct{ FS }

func (keepsAll) Remove(path string) error {
	return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrPermission}
}

// A file that is still there was not discarded. One that is gone already was.
func TestDiscarding(t *testing.T) {
	b := newBench(t, InitOptions{})
	const place = "left"
	if err := os.WriteFile(filepath.Join(b.dir, handlesDir, place), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		fs   FS
		want error
	}{{keepsAll{OS}, fs.ErrPermission}, {OS, nil}, {OS, nil}} {
		d := &directory{path: b.dir, files: host{fs: tt.fs}}
		if err := d.discard(place); !errors.Is(err, tt.want) {
			t.Errorf("to discard a file: %v, want %v", err, tt.want)
		}
	}
}

// This host's file system says so if it cannot rename a file.
func TestARenameOfNothing(t *testing.T) {
	dir := t.TempDir()
	if err := OS.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("to rename what is not there: %v, want %v", err, fs.ErrNotExist)
	}
}

// TestAPlaceIsTakenOnce: a file that stands in a new handle's place already is left as it is, and the handle gets no
// place there.
func TestAPlaceIsTakenOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, handlesDir), 0o700); err != nil {
		t.Fatal(err)
	}
	d := &directory{path: dir, files: host{buffered: true}, perm: 0o600}
	id := machine.ID{7}
	first := slices.Repeat([]byte{1}, block)
	f, ident, err := d.add(id, first)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f, _, err := d.add(id, slices.Repeat([]byte{2}, block)); err == nil {
		f.Close()
		t.Error("a second file is made in the place of a handle, want an error")
	} else if !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second file in the place of a handle: %v, want %v", err, fs.ErrExist)
	}
	got, err := os.ReadFile(d.pathOf(handleName(id)))
	if err != nil || !slices.Equal(got, first) {
		t.Errorf("the file that stood there begins with %.4x, %v; want %.4x", got, err, first)
	}
	if st, err := d.files.stat(d.pathOf(handleName(id))); err != nil || st.ident != ident {
		t.Errorf("the file that stood there is now %v, %v; want %v", st.ident, err, ident)
	}
	if litter, err := d.litter(); err != nil || len(litter) > 0 {
		t.Errorf("%q, %v are left behind, want nothing", litter, err)
	}
}
