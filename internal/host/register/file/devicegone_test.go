package file

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// A device that was made anew under an open handle belongs to the handles that opened it since. A
// handle of the store before stops for good and writes nothing.
func TestADeviceIsMadeAnew(t *testing.T) {
	for _, first := range []register.Op{query("x"), put("x", 4, 1, "four")} {
		deviceMadeAnew(t, first)
	}
}

// deviceMadeAnew has the old handle begin with an operation.
func deviceMadeAnew(t *testing.T, first register.Op) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 2})
		s := openArea(t, path)
		do(t, s, put("x", 3, 1, "three"))
		onlooker, err := Open(path, Options{Clock: realClock, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer onlooker.Close()
		if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		h := s.Header()
		h.Set[0]++
		if err := Init(path, h, InitOptions{Handles: 2}); err != nil {
			t.Fatal(err)
		}
		newcomer := openArea(t, path)
		do(t, newcomer, put("y", 1, 2, "one"))
		for range 4 {
			time.Sleep(s.lookout.wait)
			if r := s.Do([]register.Op{first})[0]; r.Err == nil {
				t.Errorf("the handle of a store that is not there any more: a %T succeeds", first.Op)
			}
		}
		for who, old := range map[string]*Store{"a handle": s, "an onlooker": onlooker} {
			if r := old.Do([]register.Op{query("x")})[0]; !errors.Is(r.Err, register.ErrMismatch) {
				t.Errorf("%s of the store before: %v, want %v", who, r.Err, register.ErrMismatch)
			}
		}
		if r := newcomer.Do([]register.Op{query("y")})[0]; r.Err != nil {
			t.Errorf("a handle of the store before begins with a %T, and is in the way of the new one: %v", first.Op, r.Err)
		}
		openArea(t, path).Close() // the other area is free
	})
}

// The header of a device is damaged: newcomers cannot open it, and open handles stop until it is
// back.
func TestTheHeaderOfADeviceIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 2})
		s := openArea(t, path)
		do(t, s, put("x", 3, 1, "three"))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		header := make([]byte, block)
		if _, err := f.ReadAt(header, 0); err != nil {
			t.Fatal(err)
		}
		for _, damaged := range [][]byte{make([]byte, block), append([]byte(magicStore), make([]byte, block-len(magicStore))...)} {
			if _, err := f.WriteAt(damaged, 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(s.lookout.wait / 8)
			if r := s.Do([]register.Op{query("x")})[0]; !errors.Is(r.Err, register.ErrGone) {
				t.Errorf("a handle goes on without a header that newcomers could read: %v", r.Err)
			}
			if _, err := f.WriteAt(header, 0); err != nil {
				t.Fatal(err)
			}
			wantContents(t, s, "x", "3 three")
		}
	})
}

// faultyHeaders fails reads of the store's header, or writes of a handle's, as told.
type faultyHeaders struct {
	file
	unread, unwritten atomic.Bool
}

func (d *faultyHeaders) ReadAt(p []byte, off int64) (int, error) {
	if d.unread.Load() && off == 0 {
		return 0, errBlind
	}
	return d.file.ReadAt(p, off)
}

func (d *faultyHeaders) WriteAt(p []byte, off int64) (int, error) {
	if d.unwritten.Load() && string(p[:len(magicHandle)]) == magicHandle {
		return 0, errBlind
	}
	return d.file.WriteAt(p, off)
}

// A device that does not give the store's header for once is not gone.
func TestTheHeaderOfADeviceIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1})
		var dev *faultyHeaders
		s, err := openOver(t, path, func(f file) file { dev = &faultyHeaders{file: f}; return dev })
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		do(t, s, put("x", 1, 1, "one"))
		time.Sleep(s.lookout.wait)
		dev.unread.Store(true)
		if r := s.Do([]register.Op{query("x")})[0]; !errors.Is(r.Err, errBlind) || errors.Is(r.Err, register.ErrGone) {
			t.Errorf("the header is not read: %v, want the device's error and nothing else", r.Err)
		}
		dev.unread.Store(false)
		wantContents(t, s, "x", "1 one")
	})
}

// The damaged header of a handle's own area is written anew, and a failure of that is
// reported.
func TestTheHeaderOfTheOwnAreaIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1})
		var dev *faultyHeaders
		s, err := openOver(t, path, func(f file) file { dev = &faultyHeaders{file: f}; return dev })
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		do(t, s, put("x", 1, 1, "one"))
		if _, err := dev.file.WriteAt(aligned(block), s.header.areaAt(0)); err != nil {
			t.Fatal(err)
		}
		dev.unwritten.Store(true)
		wantFailure(t, s, query("x"), errBlind)
		dev.unwritten.Store(false)
		wantContents(t, s, "x", "1 one")
		for h, err := range s.Dump() {
			if err != nil || h.Damage != nil || h.ID != s.home.id || h.Slots != areaSlots {
				t.Errorf("then the handle is shown as %+v, %v; want its header as it was", h, err)
			}
		}
	})
}

// A handle that finds another store on the device gives its area up at once: the claim is renewed no more.
func TestTheAreaInAnotherStoreIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newDevice(t, InitOptions{Handles: 1})
		s := openArea(t, path)
		do(t, s, put("x", 1, 1, "one"))
		c := s.home.f.(*area).claim
		other := s.header
		other.Set[0]++
		b := aligned(block)
		other.encode(b)
		if _, err := c.dev.f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		if err := s.keeper.check(s); !errors.Is(err, register.ErrMismatch) {
			t.Errorf("another store is there: %v, want ErrMismatch", err)
		}
		if s.home != nil || c.check() == nil {
			t.Errorf("the handle keeps its area in another store: home %v, claim %v", s.home, c.check())
		}
	})
}
