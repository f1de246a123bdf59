package file

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/disklease"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/register"
)

// realClock is the bubble's in a bubble.
func realClock() machine.Mono { return machine.Mono(time.Now().UnixNano()) }

// newDevice makes a store in a preallocated file, with a short term.
func newDevice(t *testing.T, opts InitOptions) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	h := testHeader
	h.Term, h.Delay = 120*time.Millisecond, 4*time.Millisecond
	if err := Init(path, h, opts); err != nil {
		t.Fatal(err)
	}
	return path
}

func openArea(t *testing.T, path string, obsolete ...string) *Store {
	t.Helper()
	s, err := Open(path, Options{Clock: realClock, Holder: "a test", Obsolete: func(name string, _ machine.Value, _ machine.ID) bool {
		for _, o := range obsolete {
			if o == name {
				return true
			}
		}
		return false
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// until waits for something that takes real time, and checks it often.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 3})
		s, other := openArea(t, path), openArea(t, path)
		if s.home.place == other.home.place {
			t.Fatalf("both have %s", s.home.place)
		}
		do(t, s, put("x", 1, 1, "one"), note("x", 1, 1, "n"))
		do(t, other, put("x", 2, 2, "two"))
		shows(t, s, "x", "2 two 1=n")
		s.Close()
		onlooker, err := Open(path, Options{Clock: realClock, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer onlooker.Close()
		shows(t, onlooker, "x", "2 two 1=n")
		fails(t, onlooker, put("x", 3, 3, "three"), errReadOnly)
		handles := 0
		for h, err := range onlooker.Dump() {
			if err != nil || h.Holder != "a test" || h.Slots != areaSlots {
				t.Errorf("handle %+v, %v", h, err)
			}
			handles++
		}
		if handles != 2 {
			t.Errorf("%d areas were had, want 2", handles)
		}
		if h, single, err := Find(path); err != nil || h.Set != testHeader.Set || single {
			t.Errorf("Find: %+v, %v, %v", h, single, err)
		}
	})
}

func TestInitDevice(t *testing.T) {
	const size = 2 << 20
	opts := InitOptions{Handles: 4, Slots: 8}
	h := storeHeader{Header: testHeader, areas: 4, slots: 8}
	long := storeHeader{Header: testHeader, areas: 4, slots: 40} // longer than what is always looked at
	tests := []struct {
		name string
		size int
		opts InitOptions
		put  func(b []byte)
		want error
		says string
	}{
		{"blank", size, opts, func([]byte) {}, nil, ""},
		{"just large enough", int(h.size()), opts, func([]byte) {}, nil, ""},
		{"too small", int(h.size()) - 1, opts, func([]byte) {}, nil, "need"},
		{"empty", 0, opts, func([]byte) {}, nil, "need"},
		{"how many?", size, InitOptions{}, func([]byte) {}, nil, "number of handles"},
		{"too many", size, InitOptions{Handles: maxAreas + 1}, func([]byte) {}, nil, "1 to"},
		{"a superblock", size, opts, func(b []byte) { b[1080] = 0x53 }, register.ErrForeign, "byte 0"},
		{"something within", size, opts, func(b []byte) { b[h.areaAt(2)] = 1 }, register.ErrForeign, fmt.Sprint("something else at byte ", h.areaAt(2))},
		{"something right behind the store", int(long.size()) + 2*block, InitOptions{Handles: 4, Slots: 40}, func(b []byte) { b[long.size()] = 1 }, register.ErrForeign, fmt.Sprint("something else at byte ", long.size())},
		{"something at the end", size, opts, func(b []byte) { b[len(b)-1] = 1 }, register.ErrForeign, "something else"},
		{"an Init that crashed", size, opts, func(b []byte) {
			claimBlock{}.encode(b[block : 2*block])
			copy(b[h.areaAt(1):], blankArea(8))
		}, nil, ""},
		{"an area that was had", size, opts, func(b []byte) { claimBlock{version: machine.Version{Seq: 1}}.encode(b[block : 2*block]) }, register.ErrForeign, "something else"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "device")
			b := make([]byte, tt.size)
			tt.put(b)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			err := Init(path, testHeader, tt.opts)
			if tt.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := Init(path, testHeader, tt.opts); !errors.Is(err, fs.ErrExist) {
					t.Errorf("a second Init: %v, want that there is a store", err)
				}
				onlooker, err := Open(path, Options{Clock: realClock, ReadOnly: true})
				if err != nil {
					t.Fatalf("a store that was just made cannot be opened: %v", err)
				}
				onlooker.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("%v, want one that wraps %v and says %q", err, tt.want, tt.says)
			}
			if after, _ := os.ReadFile(path); string(after) != string(b) {
				t.Error("the device was changed")
			}
			if _, _, err := Find(path); tt.size >= block && !errors.Is(err, register.ErrForeign) {
				t.Errorf("Find: %v, want that it is none of ours", err)
			}
		})
	}
}

// A claim to an area takes a few accesses, for which there has to be time in a Term.
func TestATermTooShortForADevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	h := testHeader
	h.Term = disklease.MinTerms*h.Delay - 1
	if err := Init(path, h, InitOptions{Handles: 2}); err == nil || !strings.Contains(err.Error(), "too short") {
		t.Errorf("a Term of %v for a Delay of %v: %v, want it refused", h.Term, h.Delay, err)
	}
	h.Term++
	if err := Init(path, h, InitOptions{Handles: 2}); err != nil {
		t.Errorf("a Term of %v for a Delay of %v: %v", h.Term, h.Delay, err)
	}
}

// A device of which a part cannot be read may be in use.
func TestADeviceThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	const size = 4 << 20
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := host{}.open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := storeHeader{Header: testHeader, areas: 2, slots: 4}
	if err := checkBlank(f, &h, size); err != nil {
		t.Errorf("a blank device: %v", err)
	}
	if err := checkBlank(blind{f}, &h, size); !errors.Is(err, errBlind) { // its end
		t.Errorf("a device whose end cannot be read: %v, want its error", err)
	}
}

// A file in memory is no device for what several hosts share, though it says that it is.
func TestADeviceInMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "tenure")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Type != 0x1021994 {
		t.Skip("/dev/shm is not in memory here")
	}
	path := filepath.Join(dir, "device")
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := InitOptions{Handles: 2, Slots: 4}
	if err := Init(path, testHeader, opts); err == nil || !strings.Contains(err.Error(), "single-host") {
		t.Errorf("Init: %v, want advice to make it single-host", err)
	}
	opts.SingleHost = true
	if err := Init(path, testHeader, opts); err != nil {
		t.Errorf("Init for one host: %v", err)
	}
	look := Options{Clock: realClock, ReadOnly: true}
	s, err := Open(path, look)
	if err != nil {
		t.Fatalf("Open for one host: %v", err)
	}
	s.Close()
	b := make([]byte, block)
	h := storeHeader{Header: testHeader, areas: 2, slots: 4}
	h.encode(b) // as if it were for several
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(path, look); err == nil || !strings.Contains(err.Error(), "single-host") {
		t.Errorf("Open: %v, %v, want advice to make it single-host", s, err)
	}
}

func TestADeviceCutShort(t *testing.T) {
	path := newDevice(t, InitOptions{Handles: 3})
	if err := os.Truncate(path, 100<<10); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{Clock: realClock}); !errors.Is(err, register.ErrDamaged) {
		t.Errorf("Open: %v, want ErrDamaged", err)
	}
}

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
		shows(t, c, "x", "1 one")
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
		shows(t, next, "x", "1 one")
	})
}

// Whoever loses the claim is told, and goes on in another area.
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
		fails(t, s, put("x", 2, 1, "two"), register.ErrGone)
		if _, err := c.dev.f.ReadAt(after, c.dev.header.areaAt(c.area)); err != nil || !bytes.Equal(lost, after) {
			t.Errorf("something was written to the area after the claim was lost (%v)", err)
		}
		do(t, s, put("x", 3, 1, "three"))
		shows(t, s, "x", "3 three")
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
		shows(t, s, "x", "1 one")
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

// No two ever have an area at a time, and one who waits gets it: who contended in vain
// may have left a claim, which has to run out first.
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
		shows(t, s, "r4", "7 data")
	})
}

// What earlier handles left in an area stays until nobody needs it.
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
		shows(t, s, "needless", "2 dropped")
		do(t, s, put("other", 3, 1, "x"))
		until(t, "a slot is free", func() bool {
			do(t, s, query("x"))
			return len(s.home.free) == 2
		})
		do(t, s, put("a", 4, 1, "a"), put("b", 5, 1, "b"))
		shows(t, s, "needed", "1 kept")
		shows(t, s, "needless", "0 ")
	})
}

// A damaged slot of an area is nobody's to write before it counts as lost: written anew, it would show nothing
// where a record was, and others could not tell.
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
		fails(t, next, query("x"), register.ErrDamaged)
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

// A look that fails says nothing of what is needed.
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
		fails(t, s, query("needed"), errBlind)
		dev.f = works
		if got := len(s.home.free); got != 3 {
			t.Errorf("%d slots are free, want 3", got)
		}
		shows(t, s, "needed", "1 kept")
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
				fails(t, other, query("x"), register.ErrDamaged)
			}
			shows(t, s, "x", "3 three")
			shows(t, other, "x", "3 three")
		}
	})
}

// Damage to a slot of its area that a handle does not use is not in its way, nor in that of others for longer than
// the wait.
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
			shows(t, s, "x", "3 three")
		}
		do(t, s, put("x", 4, 1, "four"))
		shows(t, s, "x", "4 four")
		shows(t, other, "x", "4 four")
		time.Sleep(s.lookout.wait)
		shows(t, other, "x", "4 four")
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
		shows(t, s, "x", "5 five")
		shows(t, s, "y", "4 four")
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
		s.dead = register.ErrGone // it dies, so that others judge what it has left
		onlooker, err := Open(path, Options{Clock: realClock, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer onlooker.Close()
		shows(t, onlooker, "x", "3 three")
		shows(t, onlooker, "needed", "2 kept")
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

// What cannot be written to the other area, either, is not acknowledged.
func TestAFailedWriteToAnotherArea(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 3})
		s := openArea(t, path)
		do(t, s, put("x", 1, 1, "one"))
		dev := s.vol.(*device)
		slots := &deafSlots{dev.f, true}
		dev.f = slots
		s.home.doubt = errors.New("a write failed")
		fails(t, s, put("x", 2, 1, "two"), errBlind)
		slots.deaf = false
		do(t, s, put("x", 3, 1, "three"))
		shows(t, s, "x", "3 three")
	})
}

// A write that failed may yet land, so the area is not given back: whoever has it next waits until it
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
		shows(t, next, "x", "1 one")
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

// A claim block that cannot be read may be that of somebody who lives.
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

// failingDevice fails its n-th write.
type failingDevice struct {
	file
	n *int
}

func (d failingDevice) WriteAt(p []byte, off int64) (int, error) {
	if *d.n--; *d.n == 0 {
		return 0, errBlind
	}
	return d.file.WriteAt(p, off)
}

// An Init that fails, or dies, at any of its writes leaves no store behind.
func TestADeviceWhoseInitFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	h := storeHeader{Header: testHeader, areas: 2, slots: 4}
	for dies := 1; ; dies++ {
		if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := host{}.open(path, true)
		if err != nil {
			t.Fatal(err)
		}
		n := dies
		err = lay(failingDevice{f, &n}, &h)
		f.Close()
		if n <= 0 && !errors.Is(err, errBlind) {
			t.Errorf("its write %d failed, and Init says %v", dies, err)
		}
		if n > 0 {
			return
		}
		if _, _, err := Find(path); !errors.Is(err, register.ErrForeign) {
			t.Errorf("its write %d failed: Find returns %v, want no store", dies, err)
		}
		if err := Init(path, testHeader, InitOptions{Handles: 2, Slots: 4}); err != nil {
			t.Errorf("its write %d failed: another Init: %v", dies, err)
		}
	}
}
