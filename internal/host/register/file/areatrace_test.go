package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// memoryDevice is a device in memory that notes what it is asked to change, and may fail a change.
type memoryDevice struct {
	b     []byte
	did   []string
	fails string // the change that fails
	at    func(off int64, p []byte) string
}

func (d *memoryDevice) note(what string) error {
	d.did = append(d.did, what)
	if what != "" && what == d.fails {
		return errHost
	}
	return nil
}

func (d *memoryDevice) ReadAt(p []byte, off int64) (int, error) {
	if n := copy(p, d.b[off:]); n < len(p) {
		return n, io.EOF
	}
	return len(p), nil
}

func (d *memoryDevice) WriteAt(p []byte, off int64) (int, error) {
	if err := d.note(d.at(off, p)); err != nil {
		return 0, err
	}
	return copy(d.b[off:], p), nil
}

func (d *memoryDevice) Close() error        { return nil }
func (d *memoryDevice) sync() error         { return d.note("sync") }
func (d *memoryDevice) stat() (info, error) { return info{}, nil }

// TestHowADeviceIsLaid: the claims and the areas come first, and then the header, without which there is
// no store. Nothing is reported before all of it is durable.
func TestHowADeviceIsLaid(t *testing.T) {
	h := &storeHeader{Header: testHeader, areas: 3, slots: 4}
	steps := []string{"3 claims", "area 0", "area 1", "area 2", "header", "sync"}
	for n := range len(steps) + 1 {
		d := &memoryDevice{b: make([]byte, h.size())}
		d.at = func(off int64, p []byte) string {
			switch {
			case off == 0:
				return "header"
			case off == claimAt(0):
				return fmt.Sprint(len(p)/(2*block), " claims")
			}
			return fmt.Sprint("area ", (off-h.areaAt(0))/int64(placeSize(h.slots)))
		}
		want, err := steps, error(nil)
		if n < len(steps) {
			d.fails, want, err = steps[n], steps[:n+1], errHost
		}
		if got := lay(d, h); !errors.Is(got, err) || (got == nil) != (err == nil) || !slices.Equal(d.did, want) {
			t.Errorf("the step %q fails: a device is laid by %q, with %v; want %q, %v", d.fails, d.did, got, want, err)
		}
	}
}

// heldArea is a handle with an area of a device in memory, whose claim is held for good, and its two slots
// written.
func heldArea(t *testing.T) (*Store, *areaKeeper, *memoryDevice) {
	h := storeHeader{Header: testHeader, areas: 1, slots: leastSlots}
	d := &memoryDevice{b: make([]byte, h.size()), at: func(int64, []byte) string { return "" }}
	if err := lay(d, &h); err != nil {
		t.Fatal(err)
	}
	var clock testClock
	clock.pass(time.Hour)
	dev := &device{path: "p", header: h, f: d}
	c := &claim{dev: dev, now: clock.now, id: machine.ID{7}}
	c.deadline.Store(int64(clock.now().Add(time.Hour)))
	if err := dev.write(claimBlock{version: machine.Version{Seq: 1, Writer: c.id}}, claimAt(0)); err != nil {
		t.Fatal(err)
	}
	k := &areaKeeper{dev: dev, now: clock.now}
	s := newStore("p", h, Options{Clock: clock.now, Holder: "a test"}, dev, k)
	s.home = &home{id: c.id, place: areaName(0), slots: h.slots, f: &area{dev: dev, claim: c}}
	if err := k.inherit(s, s.home); err != nil {
		t.Fatal(err)
	}
	do(t, s, put("x", 3, 1, "three"), put("y", 4, 2, "four"))
	d.did = nil
	d.at = func(off int64, p []byte) string {
		n := int(off-h.areaAt(0)) / block
		if n < 0 {
			return fmt.Sprint("byte ", off)
		}
		if n == 0 {
			return "header"
		}
		return fmt.Sprintf("%c%d+%d", 'A'+(n-2)/h.slots, (n-2)%h.slots, len(p)/block)
	}
	return s, k, d
}

// TestHowDamageOfAnAreaIsMended: a handle writes anew the header of its own area and both copies of its slots
// of which one is damaged, and no others. The place is in doubt until the header is written, and a failed
// write leaves it in doubt.
func TestHowDamageOfAnAreaIsMended(t *testing.T) {
	copyOf := func(c, slot int) int { return copyAt(leastSlots, c, slot) }
	for name, tt := range map[string]struct {
		damage []int // bytes of the area
		fails  string
		did    []string
		doubt  bool
	}{
		"the header":           {damage: []int{0}, did: []string{"header"}},
		"a copy of x":          {damage: []int{copyOf(0, 0)}, did: []string{"header", "A0+1", "B0+1"}},
		"the other copy of y":  {damage: []int{copyOf(1, 1)}, did: []string{"header", "A1+1", "B1+1"}},
		"a copy of both":       {damage: []int{copyOf(0, 0), copyOf(1, 1)}, did: []string{"header", "A0+2", "B0+2"}},
		"both copies of y":     {damage: []int{copyOf(0, 1), copyOf(1, 1)}, did: []string{"header", "A1+1", "B1+1"}},
		"a free slot":          {damage: []int{copyOf(1, 5)}, did: []string{"header"}},
		"x, and header fails":  {damage: []int{copyOf(0, 0)}, fails: "header", did: []string{"header"}, doubt: true},
		"x, and a copy fails":  {damage: []int{copyOf(0, 0)}, fails: "A0+1", did: []string{"header", "A0+1"}, doubt: true},
		"x, and other's fails": {damage: []int{copyOf(0, 0)}, fails: "B0+1", did: []string{"header", "A0+1", "B0+1"}, doubt: true},
	} {
		s, k, d := heldArea(t)
		image := d.b[s.header.areaAt(0):]
		was := bytes.Clone(image)
		for _, at := range tt.damage {
			image[at+200] ^= 1
		}
		if err := s.lookout.look(); err != nil {
			t.Fatal(err)
		}
		if err := s.verify(); !errors.Is(err, register.ErrDamaged) {
			t.Fatalf("%s is damaged: %v, want %v", name, err, register.ErrDamaged)
		}
		d.fails = tt.fails
		err := k.recover(s)
		if (err != nil) != (tt.fails != "") || err != nil && !errors.Is(err, errHost) || (s.home.doubt != nil) != tt.doubt {
			t.Errorf("%s: %v, and the place is in doubt for %v; want an error and doubt: %v", name, err, s.home.doubt, tt.doubt)
		}
		if !slices.Equal(d.did, tt.did) {
			t.Errorf("%s: written were %q, want %q", name, d.did, tt.did)
		}
		if tt.doubt {
			continue
		}
		if !bytes.Equal(image[:block], was[:block]) {
			t.Errorf("%s: the header is another than before", name)
		}
		if err := s.lookout.look(); err != nil {
			t.Fatal(err)
		}
		if err := s.verify(); err != nil || !bytes.Equal(image, s.home.image) {
			t.Errorf("%s: after it was mended: %v; the area is as it is held to be: %v", name, err, bytes.Equal(image, s.home.image))
		}
		for name, want := range map[string]string{"x": "three", "y": "four"} {
			if got := s.lookout.states(map[string]bool{name: true})[name]; string(got.Data) != want {
				t.Errorf("%s: after it was mended %s shows %q, want %q", name, name, got.Data, want)
			}
		}
	}
}

// TestWhatAHandleFindsInItsArea: free are the slots that nobody's record is in, the first one last. All others are
// inherited as of writers that have left, with the newer copy; an unreadable slot is not free. The header
// has the handle's own name, and what it holds the area to contain is what is there.
func TestWhatAHandleFindsInItsArea(t *testing.T) {
	s, k, d := heldArea(t)
	at := s.header.areaAt(0)
	old := bytes.Clone(d.b[at+int64(copyAt(leastSlots, 1, 0)):][:block])
	do(t, s, put("x", 5, 1, "five"))
	copy(d.b[at+int64(copyAt(leastSlots, 1, 0)):], old) // as after a crash between the copies
	for _, damage := range []int{copyAt(leastSlots, 0, 1), copyAt(leastSlots, 0, 3), copyAt(leastSlots, 0, 6), copyAt(leastSlots, 1, 6)} {
		d.b[at+int64(damage)+200] ^= 1
	}
	c := &claim{dev: k.dev, now: k.now, id: machine.ID{9}}
	c.deadline.Store(int64(k.now().Add(time.Hour)))
	h := &home{id: c.id, place: areaName(0), slots: leastSlots, f: &area{dev: k.dev, claim: c}}
	if err := k.inherit(s, h); err != nil {
		t.Fatal(err)
	}
	if want := []int{7, 5, 4, 2}; !slices.Equal(h.free, want) {
		t.Errorf("free are the slots %v, want %v", h.free, want)
	}
	var got []string
	for _, p := range h.inherited {
		got = append(got, fmt.Sprintf("%d %s seq %d %q", p.at, p.rec.name, p.rec.version.Seq, p.rec.data))
		if !p.left || p.dirty || p.fresh {
			t.Errorf("slot %d is inherited as %+v, want one whose writer has left", p.at, *p)
		}
	}
	if want := []string{`6  seq 0 ""`, `3  seq 0 ""`, `1 y seq 4 "four"`, `0 x seq 5 "five"`}; !slices.Equal(got, want) {
		t.Errorf("inherited are %q, want %q", got, want)
	}
	if !bytes.Equal(h.image, d.b[at:at+int64(placeSize(leastSlots))]) {
		t.Error("the handle holds its area to contain something else than is there")
	}
	if head, err := decodeHandle(d.b[at:]); err != nil || head.id != c.id || head.set != s.header.Set || head.slots != leastSlots || head.holder != "a test" {
		t.Errorf("the area has the header %+v, %v; want that of its new handle", head, err)
	}
}

// TestAMoveToAnotherArea moves a handle. It writes its registers into slots of the new area, renews the old
// area no more, and forgets the doubts about failed neighbors there. If a write fails, it writes all of them
// again.
func TestAMoveToAnotherArea(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			path := newDevice(t, InitOptions{Handles: 2, Slots: 4})
			first := openArea(t, path)
			do(t, first, put("needed", 1, 9, "kept"), put("needed, too", 2, 9, "kept"))
			s := openArea(t, path)
			do(t, s, put("x", 3, 1, "three"), put("y", 4, 2, "four"))
			first.Close()
			dev, old := s.vol.(*device), s.home.f.(*area).claim
			s.home.doubt, s.lost = errHost, true
			x, y := s.slots[key{writer(1), "x"}], s.slots[key{writer(2), "y"}]
			x.at, y.at = 0, 1 // where the other area has what is needed
			slots := &deafSlots{dev.f, fails}
			dev.f = slots
			time.Sleep(time.Millisecond)
			err := s.recover()
			if (err != nil) != fails {
				t.Fatalf("its writes fail: %v; the move to another area ends with %v", fails, err)
			}
			if old.check() == nil || s.home.f.(*area).claim == old {
				t.Errorf("a handle goes on in another area, and keeps the claim to the one before, until %v", old.deadline.Load())
			}
			if x.dirty != fails || y.dirty != fails || s.lost || s.wrote != realClock() {
				t.Errorf("writes fail: %v; then x and y are to be written: %v, %v, its records are lost: %v, and it wrote last %v ago",
					fails, x.dirty, y.dirty, s.lost, realClock().Sub(s.wrote))
			}
			if at := []int{x.at, y.at}; slices.Min(at) < 2 || x.at == y.at || len(s.home.free) != 0 || (s.home.doubt != nil) != fails {
				t.Errorf("writes fail: %v; x and y are at %v, free are %v, in doubt for %v; want them beside what was there", fails, at, s.home.free, s.home.doubt)
			}
			if fails {
				return
			}
			wantContents(t, s, "x", "3 three")
			wantContents(t, s, "y", "4 four")
			wantContents(t, s, "needed", "1 kept")
			wantContents(t, s, "needed, too", "2 kept")
		})
	}
}

// TestAClaimThatIsGivenUpIsNotRenewed, whether its holder ends it, gives it back, or did not win it: others wait for it
// no longer than its last renewal lasts.
func TestAClaimThatIsGivenUpIsNotRenewed(t *testing.T) {
	for what, give := range map[string]func(c *claim){"ended": (*claim).quit, "given back": (*claim).release, "closed with its area": func(c *claim) {
		(&area{dev: c.dev, index: c.area, claim: c}).Close()
	}} {
		synctest.Test(t, func(t *testing.T) {
			path := newDevice(t, InitOptions{Handles: 1, Slots: 4})
			h, err := readHeader(OS, path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := host{}.open(path, true)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			c, err := (&device{path: path, header: h, f: f}).acquire(realClock, false)
			if err != nil {
				t.Fatal(err)
			}
			before, _ := c.dev.claim(c.area)
			time.Sleep(h.Term)
			if renewed, _ := c.dev.claim(c.area); renewed.record.version == before.record.version {
				t.Error("a claim is not renewed while it is held")
			}
			give(c)
			if c.check() == nil {
				t.Errorf("a claim was %s, and holds", what)
			}
			synctest.Wait()
			last, _ := c.dev.claim(c.area)
			time.Sleep(3 * h.Term)
			if now, err := c.dev.claim(c.area); err != nil || now.record.version != last.record.version || !bytes.Equal(now.record.data, last.record.data) {
				t.Errorf("a claim was %s, and is renewed: version %v was the last, and now it is %v, %v", what, last.record.version, now.record.version, err)
			}
		})
	}
}
