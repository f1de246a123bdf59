package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
)

func TestTheOwnFileIsTakenAway(t *testing.T) {
	for _, op := range []register.Op{query("x"), put("x", 4, 1, "four"), note("x", 1, 1, "n")} {
		b := newBench(t, InitOptions{})
		s, other := b.open(), b.open()
		do(t, s, put("x", 3, 1, "three"))
		if err := os.Remove(filepath.Join(b.dir, handlesDir, s.home.place)); err != nil {
			t.Fatal(err)
		}
		wantFailure(t, s, op, register.ErrGone)
		// The written record is there again.
		if st := state(t, other, "x"); st.Version.Seq < 3 {
			t.Errorf("after a %T: x shows version %d, want 3 or later", op.Op, st.Version.Seq)
		}
		b.clock.pass(testWait - 1)
		wantFailure(t, s, query("x"), register.ErrGone)
		b.clock.pass(1)
		do(t, s, put("y", 1, 1, "y"))
		if st := state(t, other, "x"); st.Version.Seq < 3 {
			t.Errorf("after a %T: x shows version %d, want 3 or later", op.Op, st.Version.Seq)
		}
	}
}

// A file that was taken away from a handle that writes all the time was not removed by right, however long ago
// it was made.
func TestTheFileOfABusyHandleIsTakenAway(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	for seq := range uint64(5) {
		do(t, s, put("x", seq+1, 1, "data"))
		b.clock.pass(testWait / 2)
	}
	if err := os.Remove(filepath.Join(b.dir, handlesDir, s.home.place)); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, s, query("x"), register.ErrGone)
	wantFailure(t, s, query("x"), register.ErrGone)
	b.clock.pass(testWait)
	wantContents(t, s, "x", "5 data")
}

// The records of a file that was taken away are written again before any operation is
// answered. While that fails, as on a full disk, nothing is: the register would go back.
func TestWhatWasTakenAwayCannotBeWrittenAgain(t *testing.T) {
	b := newBench(t, InitOptions{})
	f := &faulty{}
	b.files = f
	s := b.open()
	do(t, s, put("x", 3, 1, "three"))
	if err := os.Remove(filepath.Join(b.dir, handlesDir, s.home.place)); err != nil {
		t.Fatal(err)
	}
	f.fail = func(step, _ string, _ int) (int, error) {
		if step == "create" {
			return 0, unix.ENOSPC
		}
		return 0, nil
	}
	wantFailure(t, s, query("x"), register.ErrGone)
	b.clock.pass(testWait)
	for range 2 {
		wantFailure(t, s, query("x"), unix.ENOSPC)
		wantFailure(t, s, put("y", 1, 1, "one"), unix.ENOSPC)
	}
	f.fail = nil
	wantContents(t, s, "x", "3 three")
	// From then on a full disk is in the way of nobody that only asks.
	s.home.doubt = errors.New("a write failed")
	f.fail = func(step, _ string, _ int) (int, error) {
		if step == "create" {
			return 0, unix.ENOSPC
		}
		return 0, nil
	}
	wantContents(t, s, "x", "3 three")
}

// A file of the same name that is not the same counts as gone.
func TestTheOwnFileIsReplaced(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "three"))
	path := filepath.Join(b.dir, handlesDir, s.home.place)
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, s, put("x", 4, 1, "four"), register.ErrGone)
	b.clock.pass(testWait)
	wantContents(t, s, "x", "4 four")
}

// One that had not changed for long was removed by right: its handle goes on.
func TestTheOwnFileIsRemovedByRight(t *testing.T) {
	for _, op := range []register.Op{query("x"), put("x", 4, 1, "four"), note("x", 1, 1, "n")} {
		b := newBench(t, InitOptions{})
		b.obsolete["x"] = true
		s, other := b.open(), b.open()
		do(t, s, put("x", 3, 1, "three"))
		do(t, other, put("y", 4, 2, "later"), query("x"))
		b.clock.pass(testWait)
		do(t, other, put("y", 5, 2, "still there"), query("x"))
		do(t, other, query("x"))
		if got := b.handles(); len(got) != 1 || got[0] != other.home.place {
			t.Fatalf("files %v, want the other's", got)
		}
		do(t, s, op)
		if st := state(t, other, "x"); st.Version.Seq < 3 {
			t.Errorf("after a %T: x shows version %d, want 3 or later", op.Op, st.Version.Seq)
		}
		do(t, s, put("x", 5, 1, "five"))
		wantContents(t, other, "y", "5 still there")
	}
}

func TestTheDirectoryVanishes(t *testing.T) {
	b := newBench(t, InitOptions{})
	s, idle := b.open(), b.open()
	do(t, s, put("x", 3, 1, "three"))
	away := b.dir + ".away"
	if err := os.Rename(b.dir, away); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(away)
	wantFailure(t, s, query("x"), register.ErrGone)
	wantFailure(t, s, put("x", 4, 1, "four"), register.ErrGone)
	wantFailure(t, idle, query("x"), register.ErrGone)
	wantFailure(t, idle, put("y", 1, 2, "y"), register.ErrGone)
	if _, err := s.Names(); err == nil || !strings.Contains(err.Error(), "bring it back") {
		t.Errorf("Names: %v, want advice", err)
	}
	if err := os.Rename(away, b.dir); err != nil {
		t.Fatal(err)
	}
	wantContents(t, s, "x", "4 four") // it was tried, so it may be there
	wantContents(t, idle, "x", "4 four")
}

func TestAnotherStoreTakesThePlace(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "three"))
	if err := os.RemoveAll(b.dir); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(b.dir, 0o700)
	h := testHeader
	h.Set[0]++
	if err := Init(b.dir, h, InitOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, s, query("x"), register.ErrMismatch)
	wantFailure(t, s, put("x", 4, 1, "four"), register.ErrMismatch)
	if got := b.handles(); len(got) != 0 {
		t.Errorf("files %v in the other store, want none", got)
	}
}

func TestAStoreWithoutHandles(t *testing.T) {
	b := newBench(t, InitOptions{})
	os.Remove(filepath.Join(b.dir, handlesDir))
	if _, err := Open(b.dir, b.options()); !errors.Is(err, register.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open: %v, want ErrDamaged", err)
	}
}

func TestAHandleOfAnotherStore(t *testing.T) {
	b := newBench(t, InitOptions{})
	h := testHeader
	h.Set[0]++
	c := &bench{t: t, dir: t.TempDir()}
	if err := Init(c.dir, h, InitOptions{}); err != nil {
		t.Fatal(err)
	}
	s := c.open()
	do(t, s, put("x", 1, 1, "x"))
	from, to := filepath.Join(c.dir, handlesDir, s.home.place), filepath.Join(b.dir, handlesDir, s.home.place)
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, b.open(), query("x"), register.ErrMismatch)
}

// A copied machine goes on as the same handle. The handle that meets the other's write
// stops for good.
func TestTwins(t *testing.T) {
	for _, seq := range []uint64{4, 5} {
		b := newBench(t, InitOptions{})
		s := b.open()
		do(t, s, put("x", 3, 1, "three"))
		twin := b.open()
		home, p := *s.home, *s.slots[key{writer(1), "x"}]
		home.image = append(aligned(0), s.home.image...)
		home.f, _ = host{}.open(filepath.Join(b.dir, handlesDir, home.place), true)
		twin.home, twin.slots = &home, map[key]*slot{{writer(1), "x"}: &p}
		do(t, twin, put("x", seq, 1, "the twin's"))
		if seq == 5 { // both wrote once: the later one stays
			do(t, s, put("x", 4, 1, "four"))
			s, twin = twin, s
		}
		wantFailure(t, s, query("x"), register.ErrGone)
		wantFailure(t, s, query("x"), register.ErrGone)
		wantFailure(t, s, put("x", 9, 1, "nine"), register.ErrGone)
		do(t, twin, query("x"))
		do(t, twin, put("x", 10, 1, "ten"))
	}
}

// A file that goes back to an older state, as from a backup, is found out by its handle.
func TestTheFileGoesBack(t *testing.T) {
	b := newBench(t, InitOptions{})
	s, other := b.open(), b.open()
	do(t, s, put("x", 3, 1, "three"))
	size := placeSize(leastSlots)
	var old []byte
	change(t, b, s.home.place, 0, size, func(p []byte) { old = append(old, p...) })
	do(t, s, put("x", 4, 1, "four"))
	change(t, b, s.home.place, 0, size, func(p []byte) { copy(p, old) })
	wantFailure(t, s, query("x"), register.ErrGone)
	wantContents(t, other, "x", "4 four")
	b.clock.pass(testWait)
	wantContents(t, s, "x", "4 four")
}

func TestStrangeThingsAmongTheHandles(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "three"))
	for _, name := range []string{".nfs000001", "notes.txt", strings.Repeat("a", 31), strings.Repeat("A", 32)} {
		write(t, b.dir, handlesDir+"/"+name, []byte("?"))
	}
	wantContents(t, s, "x", "3 three")
	if err := os.Mkdir(filepath.Join(b.dir, handlesDir, strings.Repeat("a", 32)), 0o700); err != nil {
		t.Fatal(err)
	}
	if r := s.Do([]register.Op{query("x")}); r[0].Err == nil {
		t.Error("a directory with a handle's name was read")
	}
}

// A half-made file of a crash is removed, but not while it may be in the making.
func TestHalfMadeFiles(t *testing.T) {
	b := newBench(t, InitOptions{})
	name := strings.Repeat("a", 32) + temporary
	write(t, b.dir, handlesDir+"/"+name, []byte("half"))
	s := b.open()
	b.clock.pass(testWait)
	do(t, s, query("x"))
	b.clock.pass(testWait - 1)
	do(t, s, query("x"))
	if got := b.handles(); len(got) != 1 {
		t.Errorf("files %v before the wait is over, want %s", got, name)
	}
	b.clock.pass(testWait)
	do(t, s, query("x"))
	if got := b.handles(); len(got) != 0 {
		t.Errorf("files %v, want none", got)
	}
}

// Newcomers cannot open a store without a sound header, so open handles stop.
func TestTheHeaderIsLost(t *testing.T) {
	for _, damage := range []func(path string) error{
		os.Remove,
		func(path string) error { return os.WriteFile(path, nil, 0o600) },
		func(path string) error {
			p, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			p[100] ^= 1
			return os.WriteFile(path, p, 0o600)
		},
	} {
		b := newBench(t, InitOptions{})
		s := b.open()
		do(t, s, put("x", 3, 1, "three"), query("x"))
		path := filepath.Join(b.dir, headerName)
		header, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := damage(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(b.dir, b.options()); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open: %v, want an error that makes nobody make a new store", err)
		} else if !errors.Is(err, register.ErrDamaged) && !strings.Contains(err.Error(), "do not use another one before they have stopped") && !strings.Contains(err.Error(), "empty") {
			t.Errorf("Open: %v, want advice", err)
		}
		b.clock.pass(testWait / 8)
		for i := range 3 { // for as long as it takes, and not once in a while
			if r := s.Do([]register.Op{query("x")})[0]; !errors.Is(r.Err, register.ErrGone) {
				t.Errorf("a handle goes on without a header that newcomers could read, asked for the %d. time: %v", i+1, r.Err)
			}
		}
		if err := os.WriteFile(path, header, 0o600); err != nil {
			t.Fatal(err)
		}
		wantContents(t, s, "x", "3 three")
	}
}
