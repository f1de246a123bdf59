package file

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// toldKeeper answers as a test says, and notes its calls.
type toldKeeper struct {
	keeper
	checks, is, recovers error // the results of check, checkOwner and recover
	did                  []string
}

func (k *toldKeeper) check(*Store) error     { k.did = append(k.did, "check"); return k.checks }
func (k *toldKeeper) checkOwner(*home) error { k.did = append(k.did, "checkOwner"); return k.is }

func (k *toldKeeper) recover(s *Store) error {
	k.did = append(k.did, "recover")
	if k.recovers == nil {
		for i, key := range []key{{writer(1), "x"}, {writer(2), "y"}} {
			s.slots[key].at = i
		}
		s.home, s.lost = toldHome(), false
	}
	return k.recovers
}

func (k *toldKeeper) leave(_ *Store, forget bool) {
	k.did = append(k.did, fmt.Sprintf("leave, forget: %v", forget))
}

func (k *toldKeeper) noteFailure(s *Store, _ []*slot, err error) {
	k.did = append(k.did, "noteFailure")
	s.home.doubt = err
}

// toldFile takes writes, unless it fails, and notes that it was closed.
type toldFile struct {
	file
	fails  error
	wrote  int
	closed bool
}

func (f *toldFile) WriteAt(p []byte, _ int64) (int, error) {
	if f.fails != nil {
		return 0, f.fails
	}
	f.wrote += len(p)
	return len(p), nil
}

func (f *toldFile) Close() error { f.closed = true; return nil }

func toldHome() *home {
	return &home{id: machine.ID{7}, place: handleName(machine.ID{7}), f: &toldFile{}, slots: leastSlots, image: placeOfAHandle(machine.ID{7})}
}

// toldStore has slots 0 and 1 of a home written, a while ago, by the clock of a test.
func toldStore(k *toldKeeper) (*Store, *testClock) {
	c := &testClock{}
	c.pass(time.Hour)
	s := &Store{path: "p", keeper: k, slots: map[key]*slot{}, home: toldHome(), wrote: c.now()}
	s.lookout.now, s.lookout.wait = c.now, time.Minute
	for i, name := range []string{"x", "y"} {
		w := writer(byte(i + 1))
		s.slots[key{w, name}] = &slot{rec: record{writer: w, name: name, version: version(5, byte(i+1))}, at: i}
	}
	return s, c
}

var errHost = errors.New("the host cannot tell")

// TestAPlaceThatIsGone: a place that others do not find is dropped, and all that it held has no
// place any more. Where somebody meddles, nothing counts for the wait. A place that was condemned
// or removed by right, as it can be after a long silence, and a store that has gone, are no such
// case. If the host cannot check, or the store is another, nothing is dropped.
func TestAPlaceThatIsGone(t *testing.T) {
	for name, tt := range map[string]struct {
		err, checks error
		silent      time.Duration
		drops       bool
		hushes      bool
	}{
		"taken":                        {err: errTaken, drops: true, hushes: true},
		"taken, just before it may be": {err: errTaken, silent: 54 * time.Second, drops: true, hushes: true},
		"taken after a long silence":   {err: errTaken, silent: 54*time.Second + 1, drops: true},
		"condemned":                    {err: errCondemned, drops: true},
		"its claim ran out":            {err: errors.Join(register.ErrGone, errClaim), drops: true},
		"the host cannot tell":         {err: errHost},
		"the store is another":         {err: errTaken, checks: register.ErrMismatch},
	} {
		k := &toldKeeper{checks: tt.checks}
		s, c := toldStore(k)
		f := s.home.f.(*toldFile)
		c.pass(tt.silent)
		err := s.gone(tt.err)
		want := tt.err
		if tt.checks != nil {
			want = tt.checks
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
		at := s.slots[key{writer(1), "x"}].at
		if (s.home == nil) != tt.drops || f.closed != tt.drops || s.lost != tt.drops || (at == nowhere) != tt.drops || s.slots[key{writer(2), "y"}].at == 1 && tt.drops {
			t.Errorf("%s: there is a home: %v, its file is closed: %v, it is lost: %v, x is at %d; want that it was dropped: %v", name, s.home != nil, f.closed, s.lost, at, tt.drops)
		}
		if until := c.now().Add(s.lookout.wait); (s.why != nil) != tt.hushes || tt.hushes && (s.hushed != until || !errors.Is(err, register.ErrGone)) {
			t.Errorf("%s: nothing counts until %v, for %v; want that to be %v: %v", name, s.hushed, s.why, until, tt.hushes)
		}
	}
}

// TestWhatIsKept: a record counts as written once the place is known to be where others look; else
// it is written again. A home in doubt, or without room, is repaired first, and records that the
// repair has written are not written again.
func TestWhatIsKept(t *testing.T) {
	for name, tt := range map[string]struct {
		keeper toldKeeper
		before func(*Store)
		err    error
		did    []string
		dirty  bool // x, afterwards
		doubt  error
		writes bool // at the home that there is in the end
	}{
		"all is well":                       {did: []string{"checkOwner"}, writes: true},
		"there is no home":                  {before: func(s *Store) { s.home = nil }, did: []string{"recover", "checkOwner"}, writes: true},
		"the home is in doubt":              {before: func(s *Store) { s.home.doubt = errHost }, did: []string{"recover", "checkOwner"}, writes: true},
		"there is no room":                  {before: func(s *Store) { s.slots[key{writer(1), "x"}].at = nowhere }, did: []string{"recover", "checkOwner"}, writes: true},
		"it cannot be made good":            {keeper: toldKeeper{recovers: errHost}, before: func(s *Store) { s.home = nil }, err: errHost, did: []string{"recover"}, dirty: true},
		"the write fails":                   {before: func(s *Store) { s.home.f.(*toldFile).fails = errHost }, err: errHost, did: []string{"noteFailure"}, dirty: true, doubt: errHost},
		"nobody can tell where it is":       {keeper: toldKeeper{is: errHost}, err: errHost, did: []string{"checkOwner", "check"}, dirty: true, doubt: errHost, writes: true},
		"it was condemned":                  {keeper: toldKeeper{is: errCondemned}, did: []string{"checkOwner", "check", "recover"}},
		"its claim has run out":             {keeper: toldKeeper{is: register.ErrGone}, err: register.ErrGone, did: []string{"checkOwner", "check", "recover"}, dirty: true},
		"it was condemned, and no other is": {keeper: toldKeeper{is: errCondemned, recovers: errHost}, err: errHost, did: []string{"checkOwner", "check", "recover"}, dirty: true},
	} {
		k := tt.keeper
		s, c := toldStore(&k)
		x, y := s.slots[key{writer(1), "x"}], s.slots[key{writer(2), "y"}]
		x.dirty = true
		if tt.before != nil {
			tt.before(s)
		}
		wrote := s.wrote
		c.pass(time.Second)
		err := s.keep([]*slot{x})
		if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: got %v, want %v", name, err, tt.err)
		}
		if !slices.Equal(k.did, tt.did) {
			t.Errorf("%s: it did %q, want %q", name, k.did, tt.did)
		}
		if x.dirty != tt.dirty || y.dirty || (s.wrote == c.now()) != (tt.err == nil) || tt.err != nil && s.wrote != wrote {
			t.Errorf("%s: x is to be written again: %v, want %v; y: %v; written last at %v", name, x.dirty, tt.dirty, y.dirty, s.wrote)
		}
		var doubt error
		if s.home != nil {
			doubt = s.home.doubt
		}
		if !errors.Is(doubt, tt.doubt) || (doubt == nil) != (tt.doubt == nil) {
			t.Errorf("%s: the home is in doubt for %v, want %v", name, doubt, tt.doubt)
		}
		if s.home != nil && (s.home.f.(*toldFile).wrote > 0) != tt.writes {
			t.Errorf("%s: %d bytes are written, want any: %v", name, s.home.f.(*toldFile).wrote, tt.writes)
		}
	}
}

// recordedFile notes the records that are written, in order, with the copy that each is of.
type recordedFile struct {
	toldFile
	wrote []string
}

func (f *recordedFile) WriteAt(p []byte, off int64) (int, error) {
	for at := 0; at < len(p); at += block {
		r, err := decodeRecord(p[at : at+block])
		if err != nil {
			return 0, err
		}
		n := int(off)/block - 2 + at/block
		f.wrote = append(f.wrote, fmt.Sprintf("%c%d %s gen %d floor %d seq %d %q note %d %q", 'A'+n/leastSlots, n%leastSlots, r.name, r.gen, r.floor, r.version.Seq, r.data, r.noteSeq, r.note))
		if r.slot != n%leastSlots || r.handle != (machine.ID{7}) {
			return 0, fmt.Errorf("a record of slot %d and handle %v is written to slot %d", r.slot, r.handle, n%leastSlots)
		}
	}
	return len(p), nil
}

// TestHowSlotsAreWritten: slots are written in the order of their places, neighbours together, and
// both copies of all one after the other. A slot that had another's record first gets the new name
// on both its copies, without data. So the good copy of a damaged slot shows whose write it was. A
// writer that has only entered needs no more.
func TestHowSlotsAreWritten(t *testing.T) {
	s, _ := toldStore(&toldKeeper{})
	f := &recordedFile{}
	s.home.f, s.lookout.top = f, 40
	rec := func(name string, gen, seq, note uint64) record {
		r := record{name: name, writer: writer(1), gen: gen, noteSeq: note}
		if seq > 0 {
			r.version, r.data = version(seq, 1), []byte("data")
		}
		if note > 0 {
			r.note = []byte("note")
		}
		return r
	}
	fresh := &slot{rec: rec("fresh", 8, 3, 4), at: 5, fresh: true}
	old := &slot{rec: rec("old", 1, 2, 0), at: 4}
	entered := &slot{rec: rec("entered", 6, 0, 0), at: 1, fresh: true}
	noted := &slot{rec: rec("noted", 2, 0, 9), at: 2, fresh: true}
	if err := s.write([]*slot{fresh, old, entered, noted}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`A1 entered gen 7 floor 40 seq 0 "" note 0 ""`, `A2 noted gen 3 floor 40 seq 0 "" note 0 ""`, `A5 fresh gen 9 floor 40 seq 0 "" note 0 ""`,
		`B1 entered gen 7 floor 40 seq 0 "" note 0 ""`, `B2 noted gen 3 floor 40 seq 0 "" note 0 ""`, `B5 fresh gen 9 floor 40 seq 0 "" note 0 ""`,
		`A2 noted gen 4 floor 40 seq 0 "" note 9 "note"`, `A4 old gen 2 floor 40 seq 2 "data" note 0 ""`, `A5 fresh gen 10 floor 40 seq 3 "data" note 4 "note"`,
		`B2 noted gen 4 floor 40 seq 0 "" note 9 "note"`, `B4 old gen 2 floor 40 seq 2 "data" note 0 ""`, `B5 fresh gen 10 floor 40 seq 3 "data" note 4 "note"`,
	}
	if !slices.Equal(f.wrote, want) {
		t.Errorf("four slots are written as\n%s\nwant\n%s", strings.Join(f.wrote, "\n"), strings.Join(want, "\n"))
	}
	for _, p := range []*slot{fresh, old, entered, noted} {
		at := copyAt(leastSlots, 1, p.at)
		if r, err := decodeRecord(s.home.image[at : at+block]); err != nil || r.gen != p.rec.gen || r.name != p.rec.name || p.fresh {
			t.Errorf("what was written of %s is held to be %+v, %v, and the slot is fresh: %v", p.rec.name, r, err, p.fresh)
		}
	}
}
