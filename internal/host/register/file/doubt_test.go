package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// A host that cannot check for once whether the own file is still there has taken nothing away: the
// operation fails, and the next one succeeds.
func TestALookAtTheOwnFileFails(t *testing.T) {
	for _, step := range []string{"stat", "names"} {
		for _, op := range []register.Op{query("x"), put("x", 4, 1, "four"), note("x", 4, 1, "n")} {
			b := newBench(t, InitOptions{})
			f := &faulty{}
			b.files = f
			s := b.open()
			b.files = nil
			reader := b.open()
			do(t, s, put("x", 3, 1, "three"))
			away := false
			f.fail = func(did, path string, _ int) (int, error) {
				switch {
				case did == "stat" && step == "names" && !away: // so that the handle looks for other names
					away = true
					return 0, &fs.PathError{Op: "stat", Path: path, Err: unix.ENOENT}
				case did == step:
					return 0, unix.EIO
				}
				return 0, nil
			}
			if r := s.Do([]register.Op{op})[0]; !errors.Is(r.Err, unix.EIO) || errors.Is(r.Err, register.ErrGone) {
				t.Errorf("%T while a %s fails: %v, want %v and nothing else", op.Op, step, r.Err, unix.EIO)
			}
			f.fail = nil
			if r := s.Do([]register.Op{op})[0]; r.Err != nil {
				t.Errorf("%T after a %s has failed: %v", op.Op, step, r.Err)
			}
			do(t, s, put("x", 5, 1, "five"))
			if st := state(t, reader, "x"); st.Version.Seq != 5 {
				t.Errorf("%T after a %s has failed: another handle reads version %d, want 5", op.Op, step, st.Version.Seq)
			}
			if got := b.handles(); len(got) != 1 {
				t.Errorf("%T after a %s has failed: files %v, want one", op.Op, step, got)
			}
		}
	}
}

// noHeader is a file system on which no header can be read while it is broken.
type noHeader struct {
	FS
	broken bool
}

func (n *noHeader) Open(path string, flags int, perm fs.FileMode) (File, error) {
	if n.broken && filepath.Base(path) == headerName {
		return nil, &fs.PathError{Op: "open", Path: path, Err: unix.EIO}
	}
	return n.FS.Open(path, flags, perm)
}

// The new file of a handle is taken away before the write is acknowledged, and a check whether the
// store is still there fails. Then the write is not acknowledged.
func TestTheNewFileIsTakenAwayAtOnce(t *testing.T) {
	b := newBench(t, InitOptions{})
	f, sys := &faulty{}, &noHeader{FS: OS}
	dir := &directory{path: b.dir, files: f, sys: sys, perm: 0o600}
	s := newStore(b.dir, storeHeader{Header: testHeader}, b.options(), dir, fileKeeper{dir})
	t.Cleanup(func() { s.Close() })
	do(t, s, put("x", 1, 1, "one"))
	f.fail = func(step, _ string, _ int) (int, error) {
		if step == "write" {
			return 0, unix.EIO
		}
		return 0, nil
	}
	wantFailure(t, s, put("x", 2, 1, "two"), unix.EIO) // so that the next write goes to a new file
	f.fail = func(step, path string, _ int) (int, error) {
		if step == "stat" {
			sys.broken = true
			return 0, os.Remove(path)
		}
		return 0, nil
	}
	if r := s.Do([]register.Op{put("x", 3, 1, "three")})[0]; r.Err == nil {
		t.Errorf("version 3 is acknowledged and is in none of the files %v", b.handles())
	}
	f.fail, sys.broken = nil, false
	s.Do([]register.Op{query("x")})
	b.clock.pass(testWait)
	wantContents(t, s, "x", "3 three")
	wantContents(t, b.open(), "x", "3 three")
}

// A file that another host has removed since it was opened cannot be read any more: there is a new
// list, as for one that could not be opened.
func TestAFileGoesStaleWhileItIsRead(t *testing.T) {
	for _, times := range []int{1, 3, 1 << 30} {
		b := newBench(t, InitOptions{})
		do(t, b.open(), put("x", 1, 1, "one"))
		u := &staleReads{left: times}
		b.files = u
		r := b.open().Do([]register.Op{query("x")})[0]
		if gone := times > turns; gone != errors.Is(r.Err, unix.ESTALE) || gone == (r.Err == nil) {
			t.Errorf("a file is stale in %d reads: %v, want an error only if it stays so", times, r.Err)
		}
	}
}

// staleReads is a host on which some first reads meet files that are gone.
type staleReads struct {
	host
	left int
}

func (u *staleReads) open(path string, write bool) (file, error) {
	f, err := u.host.open(path, write)
	if err != nil || write || u.left == 0 {
		return f, err
	}
	u.left--
	return staleFile{f}, nil
}

type staleFile struct{ file }

func (staleFile) ReadAt([]byte, int64) (int, error) { return 0, unix.ESTALE }

// Onlookers go by the header as handles do, and free their resources.
func TestAnOnlookerWithoutAHeader(t *testing.T) {
	b := newBench(t, InitOptions{})
	do(t, b.open(), put("x", 3, 1, "three"))
	opts := b.options()
	opts.ReadOnly = true
	s, err := Open(b.dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantContents(t, s, "x", "3 three")
	if err := os.Remove(filepath.Join(b.dir, headerName)); err != nil {
		t.Fatal(err)
	}
	b.clock.pass(testWait / 8)
	if r := s.Do([]register.Op{query("x")})[0]; !errors.Is(r.Err, register.ErrGone) {
		t.Errorf("an onlooker goes on without a header that newcomers could read: %v", r.Err)
	}
}

func TestAnOnlookerClosesItsDevice(t *testing.T) {
	s, err := Open(newDevice(t, InitOptions{Handles: 1}), Options{Clock: realClock, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.vol.(*device).f.ReadAt(aligned(block), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a read of the device after Close: %v, want %v", err, os.ErrClosed)
	}
}

// A writer leaves while nothing of the store counts: its slot is used anew all the same, when
// the store is back. Else the slots of a handle would fill up.
func TestLeavingAStoreThatIsGone(t *testing.T) {
	for _, batch := range [][]register.Op{{leave("x", 1)}, {query("y"), leave("x", 1)}} {
		b := newBench(t, InitOptions{})
		s := b.open()
		do(t, s, put("x", 3, 1, "three"), put("y", 4, 2, "four"))
		b.obsolete["x"] = true
		if err := os.Remove(filepath.Join(b.dir, handlesDir, s.home.place)); err != nil {
			t.Fatal(err)
		}
		wantFailure(t, s, query("y"), register.ErrGone)
		s.Do(batch)
		for range 3 {
			b.clock.pass(testWait)
			do(t, s, query("y"))
		}
		if _, kept := s.slots[key{writer(1), "x"}]; kept {
			t.Errorf("%d operations while the store was gone, a Leave the last of them: the writer's slot is kept for ever", len(batch))
		}
	}
}
