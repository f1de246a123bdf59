package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// device is a block device, or a preallocated file, in areas: the header, two blocks
// for the claim to each area, then the areas, each laid out like a handle's file.
type device struct {
	path   string
	header storeHeader
	f      file
}

// areaSlots is the number of an area's slots, unless Init gets another one.
const areaSlots = 32

func claimAt(area int) int64 { return int64(1+2*area) * block }

func (h *storeHeader) areaAt(area int) int64 {
	return claimAt(h.areas) + int64(area)*int64(placeSize(h.slots))
}

// size is the number of bytes of the device that the store takes.
func (h *storeHeader) size() int64 { return h.areaAt(h.areas) }

func areaName(area int) string { return fmt.Sprintf("area-%04d", area) }

// names lists the areas that were ever claimed.
func (d *device) names() ([]string, error) {
	claims, err := d.claims()
	if err != nil {
		return nil, err
	}
	var names []string
	for i, c := range claims {
		if !c.virgin() {
			names = append(names, areaName(i))
		}
	}
	return names, nil
}

func (d *device) shared() bool                   { return true }
func (d *device) discard(string) error           { return errStays }
func (d *device) condemn(string) (string, error) { return "", errStays }
func (d *device) pardon(string) error            { return errStays }
func (d *device) untwin([]string) error          { return nil }
func (d *device) litter() ([]string, error)      { return nil, nil }

var errStays = errors.New("areas stay")

func (d *device) open(place string) (file, error) {
	var i int
	if _, err := fmt.Sscanf(place, "area-%d", &i); err != nil || i >= d.header.areas {
		return nil, fs.ErrNotExist
	}
	return &area{dev: d, index: i}, nil
}

// area is a handle's place on a device.
type area struct {
	dev   *device
	index int
	claim *claim // nil to read only
}

func (a *area) ReadAt(p []byte, off int64) (int, error) {
	return a.dev.f.ReadAt(p, a.dev.header.areaAt(a.index)+off)
}

// WriteAt fails when the claim to the area has run out. It may do so during the write: nobody
// is told that something is there before areaKeeper.ours was asked again.
func (a *area) WriteAt(p []byte, off int64) (int, error) {
	if err := a.claim.check(); err != nil {
		return 0, err
	}
	return a.dev.f.WriteAt(p, a.dev.header.areaAt(a.index)+off)
}

func (a *area) Close() error {
	if a.claim != nil {
		a.claim.quit()
	}
	return nil
}

func (a *area) sync() error { return nil }

func (a *area) stat() (info, error) {
	return info{ident: [2]uint64{uint64(a.index)}, size: int64(placeSize(a.dev.header.slots)), plain: true}, nil
}

// surveyDevice opens a device on which a store can be made, and chooses the fields that the header
// leaves open.
func surveyDevice(path string, h *storeHeader) (_ file, err error) {
	if h.areas == 0 {
		return nil, register.Choice(fmt.Errorf("%s: a device needs the number of handles that can be open at a time", path))
	}
	if h.Term < disklease.MinTerms*h.Delay {
		return nil, fmt.Errorf("%s: a term of %v is too short for a delay of %v on a device: make it %v at least", path, h.Term, h.Delay, disklease.MinTerms*h.Delay)
	}
	if _, err := readHeader(OS, path); err == nil {
		return nil, errExists(path)
	}
	dev, size, err := openSized(path, host{buffered: h.single})
	if err != nil {
		return nil, advise(err)
	}
	defer func() {
		if err != nil {
			dev.Close()
		}
	}()
	if !h.single {
		if err := probe(path); err != nil {
			return nil, err
		}
	}
	if h.slots == 0 {
		h.slots = areaSlots
	}
	if size < h.size() {
		return nil, fmt.Errorf("%s has %d bytes: %d handles for %d registers each need %d", path, size, h.areas, h.slots, h.size())
	}
	if err := checkBlank(dev, h, size); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return dev, nil
}

// lay writes an empty store to a device, its header last: without it there is none.
func lay(f file, h *storeHeader) error {
	claims := aligned(2 * h.areas * block)
	for b := range slices.Chunk(claims, block) {
		claimBlock{}.encode(b)
	}
	if _, err := f.WriteAt(claims, claimAt(0)); err != nil {
		return err
	}
	blank := blankArea(h.slots)
	for i := range h.areas {
		if _, err := f.WriteAt(blank, h.areaAt(i)); err != nil {
			return err
		}
	}
	b := aligned(block)
	h.encode(b)
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	return f.sync()
}

// blankArea is an area that nobody has had.
func blankArea(slots int) []byte {
	b := aligned(placeSize(slots))
	head := handleHeader{slots: slots}
	head.encode(b)
	for i := range slots {
		r := record{slot: i}
		for c := range 2 {
			at := copyAt(slots, c, i)
			r.encode(b[at : at+block])
		}
	}
	return b
}

// checkBlank returns an error if a device holds anything but the writes of an Init that crashed.
// Any other user of a device leaves traces at its beginning or its end.
func checkBlank(f file, h *storeHeader, size int64) error {
	const margin = 1 << 20
	buf := aligned(margin)
	virgin := make([]byte, block)
	claimBlock{}.encode(virgin)
	blank := blankArea(h.slots)
	expected := func(at int64) []byte {
		switch {
		case at >= h.size() || at == 0:
			return zeros[:]
		case at < h.areaAt(0):
			return virgin
		}
		off := (at - h.areaAt(0)) % int64(len(blank))
		return blank[off : off+block]
	}
	check := func(from, to int64) error {
		for at := from; at < to; at += margin {
			n, err := f.ReadAt(buf[:min(margin, to-at)], at)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			for i := 0; i+block <= n; i += block {
				b := buf[i : i+block]
				if !allZero(b) && !bytes.Equal(b, expected(at+int64(i))) {
					return fmt.Errorf("there is something else at byte %d: %w: if nobody needs it, fill the beginning and the end with zeros", at+int64(i), register.ErrForeign)
				}
			}
		}
		return nil
	}
	end := size / block * block
	if err := check(0, min(max(h.size(), margin), end)); err != nil {
		return err
	}
	return check(max(h.size(), end-margin), end)
}

// openSized opens a device to write, and returns its size in bytes.
func openSized(path string, files files) (file, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	f.Close()
	if err != nil {
		return nil, 0, err
	}
	dev, err := files.open(path, true)
	return dev, size, err
}

func openDevice(path string, h storeHeader, opts Options) (*Store, error) {
	if !h.single {
		if err := probe(path); err != nil {
			return nil, err
		}
	}
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Size() < h.size() {
		return nil, fmt.Errorf("%s has %d bytes and needs %d: %w", path, st.Size(), h.size(), register.ErrDamaged)
	}
	f, err := host{buffered: h.single}.open(path, !opts.ReadOnly)
	if err != nil {
		return nil, advise(err)
	}
	s, err := openOn(f, path, h, opts)
	if err != nil {
		f.Close()
	}
	return s, err
}

// openOn opens the store on a device that is open already.
func openOn(f file, path string, h storeHeader, opts Options) (*Store, error) {
	dev := &device{path: path, header: h, f: f}
	k := &areaKeeper{dev: dev, now: opts.Clock}
	s := newStore(path, h, opts, dev, k)
	if opts.ReadOnly {
		return s, nil
	}
	if err := k.take(s, true); err != nil {
		return nil, err
	}
	return s, nil
}

// areaKeeper keeps the own place in an area that it claims.
type areaKeeper struct {
	dev *device
	now func() machine.Mono
}

// take claims an area and makes it the home, with all slots written there.
func (k *areaKeeper) take(s *Store, patient bool) error {
	c, err := k.dev.acquire(k.now, patient)
	if err != nil {
		return err
	}
	h := &home{id: c.id, place: areaName(c.area), ident: [2]uint64{uint64(c.area)}, slots: k.dev.header.slots}
	a := &area{dev: k.dev, index: c.area, claim: c}
	h.f = a
	if err := k.inherit(s, h); err != nil {
		a.Close()
		return fmt.Errorf("take %s of %s: %w", h.place, s.path, advise(err))
	}
	if s.home != nil {
		s.home.f.Close()
	}
	s.home, s.lost, s.wrote = h, false, s.lookout.now()
	var all []*slot
	for _, p := range s.slots {
		p.at, p.dirty = nowhere, true
		all = append(all, p)
	}
	if !s.settle(all) {
		return k.full(s)
	}
	if err := s.write(all); err != nil {
		return err
	}
	for _, p := range all {
		p.dirty = false
	}
	return nil
}

func (k *areaKeeper) full(s *Store) error {
	return fmt.Errorf("%s: all %d slots of this handle are in use: release leases, or make a store with fewer handles", s.path, k.dev.header.slots)
}

// inherit reads the records in the area, and puts our name on it.
func (k *areaKeeper) inherit(s *Store, h *home) error {
	h.image = aligned(placeSize(h.slots))
	if _, err := h.f.ReadAt(h.image, 0); err != nil {
		return err
	}
	head := aligned(block)
	hh := handleHeader{id: h.id, set: s.header.Set, slots: h.slots, holder: s.opts.Holder}
	hh.encode(head)
	if _, err := h.f.WriteAt(head, 0); err != nil {
		return err
	}
	copy(h.image, head)
	g := sight{place: h.place}
	g.take(h.image, true, 0)
	for i := h.slots - 1; i >= 0; i-- {
		v := g.slots[i]
		newer, _ := v.newer()
		if v.unreadable() == 0 && newer.name == "" {
			h.free = append(h.free, i)
			continue
		}
		p := &slot{at: i, left: true}
		if newer != nil {
			p.rec = *newer
		}
		h.inherited = append(h.inherited, p)
	}
	return nil
}

// recover writes damaged copies anew, and goes to another area when a write has failed:
// one that got stuck does no harm there.
func (k *areaKeeper) recover(s *Store) error {
	if err := k.check(s); err != nil {
		return err
	}
	h := s.home
	switch {
	case h == nil || h.doubt != nil && !errors.Is(h.doubt, register.ErrDamaged):
		return k.take(s, false)
	case h.doubt == nil:
		return k.full(s)
	}
	g := s.lookout.sights[h.place]
	var bad []*slot
	for _, p := range s.slots {
		if p.at != nowhere && g.slots[p.at].unreadable() > 0 {
			bad = append(bad, p)
		}
	}
	copy(h.image, g.raw)
	hh := handleHeader{id: h.id, set: s.header.Set, slots: h.slots, holder: s.opts.Holder}
	hh.encode(h.image)
	if _, err := h.f.WriteAt(h.image[:block], 0); err != nil {
		return err
	}
	h.doubt = nil
	return s.write(bad)
}

func (k *areaKeeper) noteFailure(s *Store, _ []*slot, err error) { s.home.doubt = err }

func (k *areaKeeper) checkOwner(h *home) error { return h.f.(*area).claim.check() }

func (k *areaKeeper) leave(s *Store, _ bool) { s.home.f.(*area).claim.release() }

// check makes sure that the device is still the store that was opened. If it was made anew, the
// areas are others' now, and claiming one would be in their way.
func (k *areaKeeper) check(s *Store) error {
	b := aligned(block)
	if _, err := k.dev.f.ReadAt(b, 0); err != nil {
		return fmt.Errorf("read the header of %s: %w", s.path, advise(err))
	}
	switch h, err := decodeHeader(b); {
	case err != nil:
		return fmt.Errorf("the header of %s: %w: %w: restore it from a copy, see the store's documentation", s.path, register.ErrGone, err)
	case h != s.header:
		s.drop()
		s.dead = fmt.Errorf("%s: another store has taken the place of this one: %w", s.path, register.ErrMismatch)
		return s.dead
	}
	return nil
}

func (k *areaKeeper) close() { k.dev.f.Close() }
