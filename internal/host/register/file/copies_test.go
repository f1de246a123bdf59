package file

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// A sealed block with more of something than any store takes was not made by this program.
func TestARecordBeyondTheLimits(t *testing.T) {
	for what, change := range map[string]func(r *record, n int){
		"name": func(r *record, n int) { r.name = strings.Repeat("x", register.MaxName+n) },
		"data": func(r *record, n int) { r.data = make([]byte, register.MaxData+n) },
		"note": func(r *record, n int) { r.note = make([]byte, register.MaxNote+n) },
	} {
		for n := range 2 {
			r, b := sample, make([]byte, block)
			change(&r, n)
			r.encode(b)
			if _, err := decodeRecord(b); errors.Is(err, register.ErrDamaged) != (n == 1) {
				t.Errorf("a record with a %s of %d bytes more than the limit: %v, want it damaged: %v", what, n, err, n == 1)
			}
		}
	}
}

// Of the notes of one writer the newest counts, in any order of the files in which they are.
func TestTheNewestNoteCounts(t *testing.T) {
	b := newBench(t, InitOptions{})
	s, other := b.open(), b.open()
	do(t, s, note("x", 5, 1, "new"), note("y", 4, 1, "old"))
	do(t, other, note("x", 4, 1, "old"), note("y", 5, 1, "new"))
	for _, r := range []*Store{s, other, b.open()} {
		wantContents(t, r, "x", "0  1=new")
		wantContents(t, r, "y", "0  1=new")
	}
	do(t, s, note("x", 4, 1, "older than what is there"))
	wantContents(t, b.open(), "x", "0  1=new")
}

// Each acknowledged record is in both copies of its slot, whether the file was made for it,
// or the slot is written again or used anew.
func TestBothCopiesAreWritten(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	both := func(when, name string, seq, noteSeq uint64) {
		t.Helper()
		p := s.slots[key{writer(1), name}]
		for c := range 2 {
			var r *record
			var err error
			change(t, b, s.home.place, copyAt(s.home.slots, c, p.at), block, func(raw []byte) { r, err = decodeRecord(raw) })
			if err != nil || r.name != name || r.version.Seq != seq || r.noteSeq != noteSeq {
				t.Errorf("%s: copy %d holds %+v, %v, want version %d of %s and note %d", when, c, r, err, seq, name, noteSeq)
			}
		}
	}
	do(t, s, put("x", 1, 1, "one"))
	both("a new file", "x", 1, 0)
	do(t, s, put("x", 2, 1, "two"))
	both("a second write", "x", 2, 0)
	do(t, s, note("x", 3, 1, "note"))
	both("a note", "x", 2, 3)
	do(t, s, put("y", 3, 1, "three"), put("z", 4, 1, "four"))
	both("the first write to a slot", "y", 3, 0)
	both("the first write to its neighbour", "z", 4, 0)
}

// A file has its name only when it is whole and durable, and a write is acknowledged only when the
// name is durable, too.
func TestANewFileIsDurableBeforeItCounts(t *testing.T) {
	b := newBench(t, InitOptions{})
	var steps []string
	f := &faulty{fail: func(step, path string, _ int) (int, error) {
		if step == "write" || step == "sync" || step == "link" {
			what := "the file"
			switch path {
			case b.dir:
				what = "the store's names"
			case filepath.Join(b.dir, handlesDir):
				what = "the directory"
			}
			steps = append(steps, step+" "+what)
		}
		return 0, nil
	}}
	b.files = f
	do(t, b.open(), put("x", 1, 1, "one"))
	if want := []string{"sync the store's names", "write the file", "sync the file", "link the file", "sync the directory"}; !slices.Equal(steps, want) {
		t.Errorf("before the first write is acknowledged: %q, want %q", steps, want)
	}
}

// To enter a register again, where its writer has a place, costs no write.
func TestEnteredTwice(t *testing.T) {
	b := newBench(t, InitOptions{})
	writes := 0
	b.files = &faulty{fail: func(step, _ string, _ int) (int, error) {
		if step == "write" {
			writes++
		}
		return 0, nil
	}}
	s := b.open()
	enter := register.Op{Name: "x", Writer: writer(1), Op: register.Enter{}}
	if do(t, s, enter); writes == 0 {
		t.Error("a writer that enters gets no place")
	}
	writes = 0
	if do(t, s, enter); writes > 0 {
		t.Errorf("a writer that enters again costs %d writes, want none", writes)
	}
}

// A file that a handle is about to make is not swept away as litter of one that crashed.
func TestAFileInTheMaking(t *testing.T) {
	b := newBench(t, InitOptions{})
	tidier := b.open()
	b.clock.pass(testWait)
	do(t, tidier, put("y", 1, 2, "y"), query("y"))
	for _, step := range []string{"write", "sync", "link"} {
		looked := false
		f := &faulty{fail: func(did, path string, _ int) (int, error) {
			if did == step && !looked && filepath.Base(path) != handlesDir {
				looked = true
				for range 9 { // so that the tidier tidies up
					b.clock.pass(testWait / 9)
					do(t, tidier, query("y"))
				}
			}
			return 0, nil
		}}
		b.files = f
		s := b.open()
		b.files = nil
		if r := s.Do([]register.Op{put("x", 1, 1, "one")})[0]; r.Err != nil || !looked {
			t.Errorf("%d looks of a tidier before a %s: %v", 9, step, r.Err)
		}
	}
}

// Init leaves a device in use as it is, also when its header cannot be read.
func TestInitOfADeviceInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, damage := range []func(b []byte){func([]byte) {}, func(b []byte) { clear(b[:block]) }, func(b []byte) { b[100] ^= 1 }} {
			path := newDevice(t, InitOptions{Handles: 3})
			s := openArea(t, path)
			do(t, s, put("x", 1, 1, "one"))
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damage(b)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			h := s.Header()
			h.Set[0]++
			if err := Init(path, h, InitOptions{Handles: 3}); !errors.Is(err, fs.ErrExist) && !errors.Is(err, register.ErrForeign) {
				t.Errorf("Init of a device in use: %v, want %v or %v", err, fs.ErrExist, register.ErrForeign)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, b) {
				t.Errorf("Init has changed a device in use: %v", err)
			}
		}
	})
}

// A slot that its writer left is not used for another register before each reader that may have met
// it has met the record that outdoes it.
func TestAFreedSlotWaits(t *testing.T) {
	b := newBench(t, InitOptions{})
	s, other := b.open(), b.open()
	for i := range leastSlots {
		do(t, s, put(fmt.Sprint("x", i), 1, 1, "data"), leave(fmt.Sprint("x", i), 1))
		do(t, other, put(fmt.Sprint("x", i), 2, 2, "greater"))
	}
	place := s.home.place
	for range 3 {
		do(t, s, query("x0"))
		b.clock.pass(testWait / 4)
	}
	do(t, s, put("y", 3, 1, "new"))
	if s.home.place == place {
		t.Error("a slot was used anew at once: a reader may have met it and not yet what outdoes it")
	}
}

// The time that a slot waits begins when the look that found it outdone has ended. Another look
// that began before may have met the slot and not the record that outdoes it.
func TestAFreedSlotWaitsFromTheEndOfALook(t *testing.T) {
	b := newBench(t, InitOptions{})
	f := &faulty{}
	b.files = f
	s := b.open()
	b.files = nil
	do(t, s, put("x", 1, 1, "data"), leave("x", 1))
	do(t, b.open(), put("x", 2, 2, "greater"))
	free, half := len(s.home.free), testWait/2+1
	slow := true
	f.before = func(step, _ string) {
		if slow && step == "open" {
			slow = false
			b.clock.pass(half)
		}
	}
	for i, want := range []int{free, free, free + 1} {
		do(t, s, query("x"))
		if got := len(s.home.free); got != want {
			t.Errorf("a look took half of the wait; look %d, half of it later each: %d slots are free, want %d", i, got, want)
		}
		b.clock.pass(half)
	}
}

// A slot that is needed again, by its writer or by others, waits anew from the end of that need.
func TestAFreedSlotThatIsNeededAgainWaitsAnew(t *testing.T) {
	type step func(b *bench, s, other *Store)
	leaves := func(_ *bench, s, _ *Store) { do(t, s, leave("x", 1)) }
	for what, again := range map[string]struct {
		needed, needless step
		freed            int
	}{
		"its writer comes back and leaves": {
			func(_ *bench, s, _ *Store) { do(t, s, put("x", 3, 1, "back")) },
			func(b *bench, s, other *Store) { do(t, other, put("x", 4, 2, "greater still")); leaves(b, s, other) }, 1,
		},
		"its writer comes back with its earlier record, and leaves": {
			func(_ *bench, s, _ *Store) { do(t, s, put("x", 1, 1, "data")) }, leaves, 1,
		},
		"its writer comes back and stays": {
			func(_ *bench, s, _ *Store) { do(t, s, put("x", 1, 1, "data")) }, func(*bench, *Store, *Store) {}, 0,
		},
		"others need it for a while": {
			func(b *bench, _, _ *Store) { b.obsolete["x"] = false }, func(b *bench, _, _ *Store) { b.obsolete["x"] = true }, 1,
		},
	} {
		b := newBench(t, InitOptions{})
		s, other := b.open(), b.open()
		b.obsolete["x"] = true
		do(t, s, put("x", 1, 1, "data"), note("x", 1, 1, "n"), leave("x", 1))
		do(t, other, put("x", 2, 2, "greater"))
		do(t, s, query("x")) // it is needless
		free := len(s.home.free)
		again.needed(b, s, other)
		b.clock.pass(testWait / 2)
		do(t, s, query("x"))
		again.needless(b, s, other)
		b.clock.pass(testWait / 2)
		for i, want := range []int{free, free, free + again.freed} {
			do(t, s, query("x"))
			if got := len(s.home.free); got != want {
				t.Errorf("%s: look %d, half of the wait later each: %d slots are free, want %d", what, i, got, want)
			}
			b.clock.pass(testWait/2 + 1)
		}
	}
}

// Handles that are gone are forgotten, or a process that lives for months would remember all that ever were.
func TestHandlesThatAreGoneAreForgotten(t *testing.T) {
	b := newBench(t, InitOptions{SingleHost: true})
	s := b.open()
	do(t, s, put("x", 1, 1, "data"))
	for i := range byte(10) {
		other := b.open()
		name := fmt.Sprint("y", i)
		b.obsolete[name] = true
		do(t, other, put(name, 1, 2, "data"), leave(name, 2))
		do(t, s, query("x"))
		do(t, s, put("x", uint64(i)+2, 1, "data"))
		other.Close()
	}
	b.clock.pass(testWait)
	for range 3 {
		do(t, s, query("x"))
	}
	if n, files := len(s.lookout.sights), len(b.handles()); n > files || len(s.doomed) > files {
		t.Errorf("%d handles are remembered, and %d as put aside; there are %d", n, len(s.doomed), files)
	}
}

// A look begins before it reads the first place: what is written while it reads may be missing.
func TestALookBeginsBeforeItReads(t *testing.T) {
	b := newBench(t, InitOptions{})
	do(t, b.open(), put("x", 1, 1, "data"))
	f := &faulty{}
	b.files = f
	s := b.open()
	began := b.clock.now()
	f.before = func(step, _ string) {
		if step == "open" {
			b.clock.pass(testWait / 4)
		}
	}
	do(t, s, query("x"))
	if s.lookout.began != began {
		t.Errorf("a look of which reading took %v counts from %v, want %v", testWait/4, s.lookout.began, began)
	}
}

// The notes of a register are in the order of their writers.
func TestNotesAreInOrder(t *testing.T) {
	b := newBench(t, InitOptions{})
	s, other := b.open(), b.open()
	for _, w := range []byte{9, 3, 7, 1, 5} {
		do(t, s, note("x", 1, w, "n"))
		do(t, other, note("x", 1, w+1, "n"))
	}
	wantContents(t, b.open(), "x", "0  1=n 2=n 3=n 4=n 5=n 6=n 7=n 8=n 9=n 10=n")
}

// A handle that moves to a new file knows what is in it: each record in a slot of its own, whole,
// under the generation that it is written with. All other slots are free, the first one next.
func TestWhatAHandleKnowsOfANewFile(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "three"), put("y", 4, 2, "four"), note("y", 1, 2, "n"))
	old := s.home
	s.home.doubt = errors.New("a write failed")
	for _, p := range s.slots {
		p.fresh, p.dirty = true, true
	}
	s.slots[key{writer(3), "z"}] = &slot{rec: record{writer: writer(3), name: "z"}, at: nowhere, dirty: true}
	s.lost = true
	b.clock.pass(testWait)
	if err := s.recover(); err != nil {
		t.Fatal(err)
	}
	if s.home == old || s.lost || s.wrote != b.clock.now() || s.homeless() {
		t.Errorf("moved: %v, lost: %v, written last at %v, homeless: %v; want it moved just now, at %v", s.home != old, s.lost, s.wrote, s.homeless(), b.clock.now())
	}
	if _, err := old.f.ReadAt(aligned(block), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a read of the file before: %v, want %v", err, os.ErrClosed)
	}
	if got := b.handles(); !slices.Equal(got, []string{s.home.place}) {
		t.Errorf("there are the files %v, want %v alone", got, s.home.place)
	}
	taken := map[int]bool{}
	for k, p := range s.slots {
		if p.fresh || p.dirty || taken[p.at] || p.at < 0 || p.at > 2 {
			t.Errorf("%s is in slot %d, taken by another: %v, to be written again: %v, as in a slot of another's: %v", k.name, p.at, taken[p.at], p.dirty, p.fresh)
			continue
		}
		taken[p.at] = true
		for c := range 2 {
			change(t, b, s.home.place, copyAt(s.home.slots, c, p.at), block, func(raw []byte) {
				if r, err := decodeRecord(raw); err != nil || r.name != k.name || r.writer != k.writer || r.gen != p.rec.gen || r.slot != p.at || r.version != p.rec.version || r.noteSeq != p.rec.noteSeq || r.floor != 4 {
					t.Errorf("copy %d of %s is %+v, %v, and held to be %+v in slot %d", c, k.name, r, err, p.rec, p.at)
				}
			})
		}
	}
	var free []int
	for i := s.home.slots - 1; i > 2; i-- {
		free = append(free, i)
	}
	if !slices.Equal(s.home.free, free) {
		t.Errorf("free are the slots %v, want %v", s.home.free, free)
	}
}
