package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
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
		wantContents(t, s, "x", "2 two 1=n")
		s.Close()
		onlooker, err := Open(path, Options{Clock: realClock, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer onlooker.Close()
		wantContents(t, onlooker, "x", "2 two 1=n")
		wantFailure(t, onlooker, put("x", 3, 3, "three"), errReadOnly)
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
	long := storeHeader{Header: testHeader, areas: 4, slots: 40} // longer than the part that is always looked at
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
		{"something late within a large store", 4 << 20, InitOptions{Handles: 4, Slots: 40}, func(b []byte) { b[long.size()-1] = 1 }, register.ErrForeign, fmt.Sprint("something else at byte ", long.size()-block)},
		{"something behind a small store", 4 << 20, opts, func(b []byte) { b[1<<20-1] = 1 }, register.ErrForeign, fmt.Sprint("something else at byte ", 1<<20-block)},
		{"something in the middle of nowhere", 4 << 20, opts, func(b []byte) { b[2<<20] = 1 }, nil, ""},
		{"something shortly before the end", 4 << 20, opts, func(b []byte) { b[3<<20] = 1 }, register.ErrForeign, fmt.Sprint("something else at byte ", 3<<20)},
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

// A file in memory is no device that several hosts share, although it looks like one.
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

// A device that is a byte shorter than its store is damaged. Bytes behind the store do not matter.
func TestADeviceThatIsJustTooShort(t *testing.T) {
	path := newDevice(t, InitOptions{Handles: 2, Slots: 4})
	h, err := readHeader(OS, path)
	if err != nil {
		t.Fatal(err)
	}
	for cut, want := range map[int64]error{0: nil, 1: register.ErrDamaged, block: register.ErrDamaged} {
		if err := os.Truncate(path, h.size()-cut); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path, Options{Clock: realClock, ReadOnly: true})
		if !errors.Is(err, want) {
			t.Errorf("a device %d bytes too short: %v, want %v", cut, err, want)
		}
		if err == nil {
			s.Close()
		}
	}
}

// A device has the areas that its header says, and no others.
func TestAreasOfADevice(t *testing.T) {
	d := &device{header: storeHeader{Header: testHeader, areas: 3, slots: 4}}
	for place, want := range map[string]bool{"area-0000": true, "area-0002": true, "area-0003": false, "x": false, "": false} {
		if f, err := d.open(place); want != (err == nil) || !want && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q of three areas: %v, %v", place, f, err)
		}
	}
}
