package file

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

func TestMoreHandlesThanAreas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 2})
		a := openArea(t, path)
		openArea(t, path)
		if _, err := Open(path, Options{Clock: realClock}); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("a third: %v, want that all are in use", err)
		}
		do(t, a, put("x", 1, 1, "one"))
		a.Close()
		began := time.Now()
		c := openArea(t, path)
		if took := time.Since(began); took > a.header.Term {
			t.Errorf("an area that was given back is had after %v, want a few delays", took)
		}
		wantContents(t, c, "x", "1 one")
	})
}

// An area whose handle died is had when its claim has run out, and a Term more.
func TestADeadHandlesArea(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1})
		s := openArea(t, path)
		do(t, s, put("x", 1, 1, "one"))
		c := s.home.f.(*area).claim
		deadline := machine.Mono(c.deadline.Load())
		c.driver.Halt()
		s.dead = register.ErrGone
		next := openArea(t, path)
		if late := realClock().Sub(deadline); late < s.header.Term {
			t.Errorf("the area was had %v after its claim ran out, want a Term at least", late)
		}
		wantContents(t, next, "x", "1 one")
	})
}

// A store that loses the claim is told, and goes on in another area.
func TestALostClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 2})
		s := openArea(t, path)
		do(t, s, put("x", 1, 1, "one"))
		before := s.home.place
		c := s.home.f.(*area).claim
		if err := c.dev.write(claimBlock{data: disklease.Unreadable(nil, 0), version: machine.Version{Seq: 99}}, claimAt(c.area)); err != nil {
			t.Fatal(err)
		}
		until(t, "the claim is lost", func() bool { return c.check() != nil })
		lost, after := append([]byte(nil), s.home.image...), aligned(len(s.home.image))
		wantFailure(t, s, put("x", 2, 1, "two"), register.ErrGone)
		if _, err := c.dev.f.ReadAt(after, c.dev.header.areaAt(c.area)); err != nil || !bytes.Equal(lost, after) {
			t.Errorf("something was written to the area after the claim was lost (%v)", err)
		}
		do(t, s, put("x", 3, 1, "three"))
		wantContents(t, s, "x", "3 three")
		if s.home.place == before {
			t.Errorf("it goes on in %s", before)
		}
	})
}

func TestClaimsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1})
		s := openArea(t, path)
		first := s.home.f.(*area).claim.deadline.Load()
		until(t, "three terms pass", func() bool { return int64(realClock()) > first+2*int64(s.header.Term) })
		do(t, s, put("x", 1, 1, "one"))
		wantContents(t, s, "x", "1 one")
	})
}

// A handle whose clock jumps while it contends tries another area, and takes none that is had.
func TestAJumpWhileContending(t *testing.T) {
	for jump := range 24 {
		synctest.Test(t, func(t *testing.T) {
			path := newDevice(t, InitOptions{Handles: 4})
			had := map[string]bool{}
			for range 2 {
				had[openArea(t, path).home.place] = true
			}
			var calls atomic.Int64
			h, _ := readHeader(OS, path)
			f, err := host{}.open(path, true)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var ahead atomic.Int64
			c, err := (&device{path: path, header: h, f: f}).acquire(func() machine.Mono {
				if calls.Add(1) == int64(jump) {
					ahead.Store(int64(3 * h.Delay))
				}
				return realClock() + machine.Mono(ahead.Load())
			}, true)
			if err != nil {
				t.Fatal(err)
			}
			c.quit()
			synctest.Wait()
			if had[areaName(c.area)] {
				t.Errorf("jump at reading %d: took %s, which is had", jump, areaName(c.area))
			}
		})
	}
}

// No two handles ever have an area at a time, and a handle that waits gets it. A handle that
// contended in vain may have left a claim, which has to run out first.
func TestContendersForAnArea(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1, SingleHost: true})
		var inside, had atomic.Int64
		contend := func(patient bool) {
			f, err := host{buffered: true}.open(path, true)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			h, _ := readHeader(OS, path)
			c, err := (&device{path: path, header: h, f: f}).acquire(realClock, patient)
			if err != nil {
				return // it is in use
			}
			if inside.Add(1) > 1 {
				t.Error("two have the area")
			}
			had.Add(1)
			time.Sleep(h.Delay)
			inside.Add(-1)
			c.release()
		}
		for range 20 {
			var crowd sync.WaitGroup
			for range 5 {
				crowd.Go(func() { contend(false) })
			}
			crowd.Wait()
		}
		until(t, "somebody has the area", func() bool {
			if had.Load() == 0 {
				contend(true)
			}
			return had.Load() > 0
		})
	})
}

func TestAFullArea(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1, Slots: 4})
		s := openArea(t, path, "r0")
		for i := range 4 {
			do(t, s, put(fmt.Sprint("r", i), uint64(i+1), 1, "data"))
		}
		if r := s.Do([]register.Op{put("r4", 5, 1, "data")})[0]; r.Err == nil || !strings.Contains(r.Err.Error(), "4 slots") {
			t.Errorf("a fifth register: %v, want that all are in use", r.Err)
		}
		do(t, s, put("r3", 6, 1, "still"), leave("r0", 1))
		until(t, "a slot is free", func() bool {
			do(t, s, query("r0"))
			return len(s.home.free) > 0
		})
		do(t, s, put("r4", 7, 1, "data"))
		wantContents(t, s, "r4", "7 data")
	})
}

// Records of earlier handles in an area stay until nobody needs them.
func TestInheritedSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1, Slots: 4})
		s := openArea(t, path)
		do(t, s, put("needed", 1, 1, "kept"), put("needless", 2, 1, "dropped"))
		s.Close()
		s = openArea(t, path, "needless")
		if got := len(s.home.free); got != 2 {
			t.Fatalf("%d slots are free, want 2", got)
		}
		wantContents(t, s, "needless", "2 dropped")
		do(t, s, put("other", 3, 1, "x"))
		until(t, "a slot is free", func() bool {
			do(t, s, query("x"))
			return len(s.home.free) == 2
		})
		do(t, s, put("a", 4, 1, "a"), put("b", 5, 1, "b"))
		wantContents(t, s, "needed", "1 kept")
		wantContents(t, s, "needless", "0 ")
	})
}

// Nobody may write a damaged slot of an area before it counts as lost: written anew, it would show
// nothing in place of a record, and others would not notice.
func TestInheritedDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1, Slots: 4})
		s := openArea(t, path)
		do(t, s, put("x", 7, 1, "seven"))
		dev, at := s.vol.(*device), s.slots[key{writer(1), "x"}].at
		for c := range 2 {
			if _, err := dev.f.WriteAt(aligned(block), dev.header.areaAt(0)+int64(copyAt(4, c, at))); err != nil {
				t.Fatal(err)
			}
		}
		s.home.f.(*area).claim.release() // as a handle does that goes away
		s.dead = register.ErrGone
		next := openArea(t, path)
		wantFailure(t, next, query("x"), register.ErrDamaged)
		for i := range 4 {
			next.Do([]register.Op{put(fmt.Sprint("other ", i), uint64(i+1), 2, "x")}) // the last has no room
		}
		if r := next.Do([]register.Op{query("x")})[0]; !errors.Is(r.Err, register.ErrDamaged) {
			t.Errorf("a damaged slot was written over, and its register shows %+v, %v; want ErrDamaged", r.Value, r.Err)
		}
		time.Sleep(next.lookout.wait)
		if got := state(t, next, "x").Floor; got < lostWrites {
			t.Errorf("the floor is %d when what was lost counts as lost, want %d at least", got, lostWrites)
		}
	})
}

// A look that fails does not show which records are needed.
func TestInheritedSlotsAndAFailedLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1, Slots: 4})
		s := openArea(t, path)
		do(t, s, put("needed", 1, 1, "kept"))
		s.Close()
		s = openArea(t, path)
		dev := s.vol.(*device)
		works := dev.f
		dev.f = blind{works}
		wantFailure(t, s, query("needed"), errBlind)
		dev.f = works
		if got := len(s.home.free); got != 3 {
			t.Errorf("%d slots are free, want 3", got)
		}
		wantContents(t, s, "needed", "1 kept")
	})
}

var errBlind = errors.New("it cannot be read")

// blind shows the claims and nothing else.
type blind struct{ file }

func (b blind) ReadAt(p []byte, off int64) (int, error) {
	if off > claimAt(0) {
		return 0, errBlind
	}
	return b.file.ReadAt(p, off)
}

func TestADamagedArea(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 2})
		s, other := openArea(t, path), openArea(t, path)
		do(t, s, put("x", 3, 1, "three"))
		dev := s.vol.(*device)
		at := dev.header.areaAt(s.home.f.(*area).index)
		for _, off := range []int{0, copyAt(areaSlots, 0, s.slots[key{writer(1), "x"}].at)} {
			b := aligned(block)
			if _, err := dev.f.ReadAt(b, at+int64(off)); err != nil {
				t.Fatal(err)
			}
			b[300] ^= 1
			if _, err := dev.f.WriteAt(b, at+int64(off)); err != nil {
				t.Fatal(err)
			}
			if off > 0 {
				wantFailure(t, other, query("x"), register.ErrDamaged)
			}
			wantContents(t, s, "x", "3 three")
			wantContents(t, other, "x", "3 three")
		}
	})
}

// Damage to a slot of its area that a handle does not use is not in its way, nor in that of others
// for longer than the wait.
func TestADamagedFreeSlotOfAnArea(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 2})
		s, other := openArea(t, path), openArea(t, path)
		do(t, s, put("x", 3, 1, "three"))
		dev := s.vol.(*device)
		at := dev.header.areaAt(s.home.f.(*area).index) + int64(copyAt(areaSlots, 1, s.home.free[0]))
		if _, err := dev.f.WriteAt(aligned(block), at); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			wantContents(t, s, "x", "3 three")
		}
		do(t, s, put("x", 4, 1, "four"))
		wantContents(t, s, "x", "4 four")
		wantContents(t, other, "x", "4 four")
		time.Sleep(s.lookout.wait)
		wantContents(t, other, "x", "4 four")
	})
}

// A write that fails makes the handle go on in another area, with all it has.
func TestAFailedWriteOnADevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 2})
		s := openArea(t, path)
		do(t, s, put("x", 3, 1, "three"), put("y", 4, 1, "four"))
		before := s.home.place
		s.home.doubt = errors.New("a write failed")
		do(t, s, put("x", 5, 1, "five"))
		wantContents(t, s, "x", "5 five")
		wantContents(t, s, "y", "4 four")
		if s.home.place == before {
			t.Errorf("it goes on in %s", before)
		}
		if other, err := Open(path, Options{Clock: realClock}); err != nil {
			t.Errorf("the area that it left is nobody's, and cannot be had: %v", err)
		} else {
			other.Close()
		}
	})
}

// A handle that goes on in another area writes over nothing that earlier handles left there.
func TestWhoMovesKeepsWhatIsInherited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 2})
		s, other := openArea(t, path), openArea(t, path)
		do(t, s, put("x", 1, 1, "one"))
		do(t, other, put("needed", 2, 2, "kept")) // in the same slot of the other area
		other.Close()
		s.home.doubt = errors.New("a write failed")
		do(t, s, put("x", 3, 1, "three"))
		s.dead = register.ErrGone // it dies, so that others judge its records
		onlooker, err := Open(path, Options{Clock: realClock, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer onlooker.Close()
		wantContents(t, onlooker, "x", "3 three")
		wantContents(t, onlooker, "needed", "2 kept")
	})
}

// deafSlots fails writes of records.
type deafSlots struct {
	file
	deaf bool
}

func (d *deafSlots) WriteAt(p []byte, off int64) (int, error) {
	if d.deaf && string(p[:len(magicRecord)]) == magicRecord {
		return 0, errBlind
	}
	return d.file.WriteAt(p, off)
}

// A write that fails in the other area, too, is not acknowledged.
func TestAFailedWriteToAnotherArea(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 3})
		s := openArea(t, path)
		do(t, s, put("x", 1, 1, "one"))
		dev := s.vol.(*device)
		slots := &deafSlots{dev.f, true}
		dev.f = slots
		s.home.doubt = errors.New("a write failed")
		wantFailure(t, s, put("x", 2, 1, "two"), errBlind)
		slots.deaf = false
		do(t, s, put("x", 3, 1, "three"))
		wantContents(t, s, "x", "3 three")
	})
}

// A write that failed may yet land, so the area is not given back: its next owner waits until it
// cannot.
func TestAnAreaInDoubtIsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1})
		s := openArea(t, path)
		do(t, s, put("x", 1, 1, "one"))
		s.home.doubt = errors.New("a write failed")
		left := time.Now()
		s.Close()
		next := openArea(t, path)
		if d := time.Since(left); d < s.header.Term {
			t.Errorf("an area to which a write may be on its way is had after %v, want a Term of %v at least", d, s.header.Term)
		}
		wantContents(t, next, "x", "1 one")
	})
}

// slowDevice has writes to areas take as long as it is told.
type slowDevice struct {
	file
	wait func()
}

func (d slowDevice) WriteAt(p []byte, off int64) (int, error) {
	n, err := d.file.WriteAt(p, off)
	if off >= claimAt(2) { // of two areas
		d.wait()
	}
	return n, err
}

// A write to an area is acknowledged only if the claim still lasts when it has ended: another
// handle may have the area by then.
func TestAWriteThatOutlastsItsClaim(t *testing.T) {
	for copies := 1; copies <= 2; copies++ {
		synctest.Test(t, func(t *testing.T) {
			path := newDevice(t, InitOptions{Handles: 2})
			var ahead atomic.Int64
			s, err := Open(path, Options{Clock: func() machine.Mono { return realClock() + machine.Mono(ahead.Load()) }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			do(t, s, put("x", 1, 1, "one"))
			dev := s.vol.(*device)
			works, writes := dev.f, 0
			dev.f = slowDevice{works, func() {
				if writes++; writes == copies {
					ahead.Add(int64(s.header.Term))
				}
			}}
			err = s.Do([]register.Op{put("x", 2, 1, "two")})[0].Err
			dev.f = works
			if !errors.Is(err, register.ErrGone) {
				t.Errorf("a claim runs out during the write of copy %d, and the write is answered by %v, want ErrGone", copies, err)
			}
		})
	}
}

// A claim block that cannot be read may be a living handle's.
func TestATornClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1})
		s := openArea(t, path)
		c := s.home.f.(*area).claim
		c.driver.Halt()
		b := aligned(block)
		if _, err := c.dev.f.WriteAt(b, claimAt(c.area)); err != nil {
			t.Fatal(err)
		}
		torn := time.Now()
		if other, err := c.dev.acquire(realClock, false); err == nil {
			other.quit()
			t.Errorf("an area whose claim cannot be read was had at once")
		}
		other, err := c.dev.acquire(realClock, true)
		if err != nil {
			t.Fatal(err)
		}
		defer other.quit()
		if d := time.Since(torn); d < 2*s.header.Term {
			t.Errorf("an area whose claim cannot be read was had after %v, want two Terms at least", d)
		}
	})
}

// A claim's deadline allows for clocks that are wrong.
func TestAClaimAllowsForDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "device")
		if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		h := testHeader
		h.Drift = register.MaxDrift
		if err := Init(path, h, InitOptions{Handles: 1}); err != nil {
			t.Fatal(err)
		}
		s := openArea(t, path)
		c := s.home.f.(*area).claim
		if lasts := machine.Mono(c.deadline.Load()).Sub(realClock()); lasts > h.Term/100*97 {
			t.Errorf("a claim lasts for %v of a Term of %v, where a clock may be wrong by 4 %%", lasts, h.Term)
		}
		c.driver.Halt()
		died := time.Now()
		openArea(t, path)
		if d := time.Since(died); d < (2*h.Term)/100*104 {
			t.Errorf("the area was had after %v, where a clock may be wrong by 4 %%", d)
		}
	})
}
