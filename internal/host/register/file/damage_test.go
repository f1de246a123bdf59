package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// change rewrites bytes of a handle's file behind everybody's back.
func change(t testing.TB, b *bench, place string, at, n int, f func([]byte)) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(b.dir, handlesDir, place), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := make([]byte, n)
	if _, err := file.ReadAt(p, int64(at)); err != nil {
		t.Fatal(err)
	}
	f(p)
	if _, err := file.WriteAt(p, int64(at)); err != nil {
		t.Fatal(err)
	}
	if err := file.Sync(); err != nil { // readers past the page cache shall see it
		t.Fatal(err)
	}
}

// flip turns over a bit of the block at a byte.
func flip(t testing.TB, b *bench, place string, at int) {
	t.Helper()
	change(t, b, place, at+200, 1, func(p []byte) { p[0] ^= 0x10 })
}

// tear leaves the second half of a block as it was before: zeros.
func tear(t testing.TB, b *bench, place string, at int) {
	t.Helper()
	change(t, b, place, at, block, func(p []byte) {
		for i := 60; i < block; i++ {
			p[i] ^= 0xff
		}
	})
}

// die ends a handle as a crash does.
func die(s *Store) string {
	place := s.home.place
	s.home.f.Close()
	s.dead = register.ErrGone
	return place
}

func TestDamage(t *testing.T) {
	slot := func(name string, s *Store) int { return s.slots[key{writer(1), name}].at }
	tests := []struct {
		name   string
		damage func(t *testing.T, b *bench, s *Store, place string)
		// The result of a Query of either register before the end of the wait, and after
		// it.
		xFails, yFails bool
		x, y           string
		floor          uint64
	}{
		{"copy A of x", func(t *testing.T, b *bench, s *Store, place string) {
			flip(t, b, place, copyAt(leastSlots, 0, slot("x", s)))
		}, true, false, "3 x 1=n", "5 y", 6},
		{"copy B of x torn", func(t *testing.T, b *bench, s *Store, place string) {
			tear(t, b, place, copyAt(leastSlots, 1, slot("x", s)))
		}, true, false, "3 x 1=n", "5 y", 6},
		{"both copies of x", func(t *testing.T, b *bench, s *Store, place string) {
			flip(t, b, place, copyAt(leastSlots, 0, slot("x", s)))
			flip(t, b, place, copyAt(leastSlots, 1, slot("x", s)))
		}, true, true, "0 ", "5 y", 5 + lostWrites},
		{"a copy of a slot that was never used", func(t *testing.T, b *bench, s *Store, place string) {
			flip(t, b, place, copyAt(leastSlots, 0, 7))
		}, false, false, "3 x 1=n", "5 y", 6},
		{"the header", func(t *testing.T, b *bench, s *Store, place string) {
			flip(t, b, place, 0)
		}, true, true, "3 x 1=n", "5 y", 5},
		{"cut off", func(t *testing.T, b *bench, s *Store, place string) {
			if err := os.Truncate(filepath.Join(b.dir, handlesDir, place), int64(copyAt(leastSlots, 1, 0))); err != nil {
				t.Fatal(err)
			}
		}, true, true, "3 x 1=n", "5 y", 6},
		{"emptied", func(t *testing.T, b *bench, s *Store, place string) {
			if err := os.Truncate(filepath.Join(b.dir, handlesDir, place), 0); err != nil {
				t.Fatal(err)
			}
		}, true, true, "0 ", "0 ", lostWrites},
		{"x written over y's blocks", func(t *testing.T, b *bench, s *Store, place string) {
			var x []byte
			change(t, b, place, copyAt(leastSlots, 0, slot("x", s)), block, func(p []byte) { x = append(x, p...) })
			change(t, b, place, copyAt(leastSlots, 0, slot("y", s)), block, func(p []byte) { copy(p, x) })
		}, false, true, "3 x 1=n", "5 y", 6},
		{"the file under another handle's name", func(t *testing.T, b *bench, s *Store, place string) {
			other := filepath.Join(b.dir, handlesDir, handleName(machine.ID{9}))
			if err := os.Rename(filepath.Join(b.dir, handlesDir, place), other); err != nil {
				t.Fatal(err)
			}
		}, true, true, "0 ", "0 ", lostWrites},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, InitOptions{})
			b.t = t
			s := b.open()
			do(t, s, put("x", 3, 1, "x"), note("x", 1, 1, "n"), put("y", 5, 1, "y"))
			tt.damage(t, b, s, die(s))
			reader := b.open()
			expect := func(when string) {
				for name, bad := range map[string]bool{"x": tt.xFails, "y": tt.yFails} {
					if bad {
						wantFailure(t, reader, query(name), register.ErrDamaged)
					} else if st := state(t, reader, name); string(st.Data) != name {
						t.Errorf("%s: %s shows %q", when, name, st.Data)
					}
				}
			}
			expect("at once")
			b.clock.pass(testWait - 1)
			expect("just before the wait is over")
			b.clock.pass(1)
			// By the first answer somebody may choose the next version, so it has the floor already.
			if got := state(t, reader, "x").Floor; got != tt.floor {
				t.Errorf("floor %d in the first answer, want %d", got, tt.floor)
			}
			wantContents(t, reader, "x", tt.x)
			wantContents(t, reader, "y", tt.y)
			// It is raised once, and not for each write.
			do(t, reader, put("z", tt.floor+1, 2, "z"))
			b.clock.pass(testWait)
			if got := state(t, reader, "x").Floor; got != tt.floor+1 {
				t.Errorf("floor %d after a write, want %d", got, tt.floor+1)
			}
		})
	}
}

// A slot that passes from one name to another says whose it is before the first write
// to it counts: damage in the middle of that is the new name's.
func TestDamageWhileASlotPasses(t *testing.T) {
	// The steps are: the name on copy A, on copy B, the record on copy A, on copy B.
	for step, blamed := range []string{"old", "new", "new", "new"} {
		b := newBench(t, InitOptions{})
		f := &faulty{}
		b.files = f
		s := b.open()
		b.files = nil
		b.obsolete["old"] = true
		do(t, s, put("old", 1, 1, "old"))
		for i := range leastSlots - 1 {
			do(t, s, put(fmt.Sprint("r", i), 2, 1, "data"))
		}
		at := s.slots[key{writer(1), "old"}].at
		do(t, s, leave("old", 1))
		for range 2 {
			b.clock.pass(testWait)
			do(t, s, query("r1"))
		}
		steps := 0
		f.fail = func(what, _ string, n int) (int, error) {
			if steps++; steps <= step {
				return 0, nil
			}
			return 0, errCrash
		}
		wantFailure(t, s, put("new", 3, 1, "new"), errCrash)
		place := die(s)
		if s.slots[key{writer(1), "new"}].at != at {
			t.Fatal("another slot was taken")
		}
		tear(t, b, place, copyAt(leastSlots, step%2, at))
		reader := b.open()
		for _, name := range []string{"old", "new"} {
			if name == blamed {
				wantFailure(t, reader, query(name), register.ErrDamaged)
			} else {
				do(t, reader, query(name))
			}
		}
	}
}

// A handle that lives writes its damaged copies anew before anybody has to wait.
func TestDamageIsHealedByWhoLives(t *testing.T) {
	for _, at := range []int{0, block, copyAt(leastSlots, 0, 0), copyAt(leastSlots, 1, 0), copyAt(leastSlots, 1, 3)} {
		b := newBench(t, InitOptions{})
		s, other := b.open(), b.open()
		do(t, s, put("x", 3, 1, "x"))
		flip(t, b, s.home.place, at)
		wantContents(t, s, "x", "3 x")
		wantContents(t, other, "x", "3 x")
		for _, size := range []int64{0, 5000, int64(placeSize(20))} {
			if err := os.Truncate(filepath.Join(b.dir, handlesDir, s.home.place), size); err != nil {
				t.Fatal(err)
			}
			wantContents(t, s, "x", "3 x")
			wantContents(t, other, "x", "3 x")
		}
		do(t, s, put("x", 4, 1, "on"))
		wantContents(t, other, "x", "4 on")
		if got := len(b.handles()); got != 1 {
			t.Errorf("%d files, want one", got)
		}
	}
}

// Damage that goes away is forgotten, and the wait begins anew with each change.
func TestDamageThatChanges(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "x"))
	place := die(s)
	reader := b.open()
	at := copyAt(leastSlots, 0, 0)
	flip(t, b, place, at)
	wantFailure(t, reader, query("x"), register.ErrDamaged)
	b.clock.pass(testWait / 2)
	change(t, b, place, at+300, 1, func(p []byte) { p[0] = 7 })
	wantFailure(t, reader, query("x"), register.ErrDamaged)
	b.clock.pass(testWait - 1)
	wantFailure(t, reader, query("x"), register.ErrDamaged)
	change(t, b, place, at+300, 1, func(p []byte) { p[0] = 0 })
	flip(t, b, place, at)
	wantContents(t, reader, "x", "3 x")
}

// A newer program's block is no damage, however long it stays as it is: its writer may hold
// something that this program cannot read.
func TestAHandleOfANewerFormat(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 3, 1, "x"))
	change(t, b, die(s), 0, block, func(p []byte) {
		p[body+3] = format + 1
		seal(p, magicHandle)
	})
	reader := b.open()
	for _, after := range []time.Duration{0, testWait, 10 * testWait} {
		b.clock.pass(after)
		if r := reader.Do([]register.Op{query("x")})[0]; !errors.Is(r.Err, register.ErrNewer) {
			t.Errorf("the handle of a newer program is silent for %v, and a Query is answered by %v, %v; want ErrNewer", after, r.Value, r.Err)
		}
	}
	if got := len(b.handles()); got != 1 {
		t.Errorf("%d files, want the newer program's", got)
	}
}
