package file

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// toldVolume does as a test says, and notes the changes that it is asked for.
type toldVolume struct {
	volume
	areas   bool
	fails   map[string]error // by name
	rubbish []string
	did     []string
}

func (v *toldVolume) shared() bool              { return v.areas }
func (v *toldVolume) litter() ([]string, error) { return v.rubbish, nil }
func (v *toldVolume) pardon(n string) error     { return v.note("pardon ", n) }

func (v *toldVolume) discard(n string) error { return v.note("discard ", n) }

func (v *toldVolume) condemn(place string) (string, error) {
	return place + ".1", v.note("condemn ", place)
}

// note fails in the end if it is asked without end.
func (v *toldVolume) note(what, name string) error {
	if v.did = append(v.did, what+name); len(v.did) > 20 {
		return errHost
	}
	return v.fails[name]
}

// found is a record in a slot of the place of a name. Without one the slot was never used.
type found struct {
	name string
	slot int
	rec  record
}

// tidyStore has seen records in a look that has just ended. All have long been as they are. The
// store's own place is m.
func tidyStore(all ...found) (*Store, *toldVolume) {
	s, c := toldStore(&toldKeeper{})
	vol := &toldVolume{fails: map[string]error{}}
	s.slots, s.doomed, s.home.place, s.vol = map[key]*slot{}, map[string]bool{}, "m", vol
	s.lookout = lookout{vol: vol, now: c.now, wait: time.Minute, sights: map[string]*sight{}, began: c.now()}
	c.pass(time.Second) // for so long the look took
	for _, f := range all {
		place := placeOf(f.name)
		g := s.lookout.sights[place]
		if g == nil {
			g = &sight{place: place, name: f.name, since: s.lookout.began.Add(-time.Minute), slots: make([]glimpse, 4)}
			for i := range g.slots {
				g.slots[i].copies = [2]*record{{}, {}}
			}
			s.lookout.sights[place] = g
		}
		f.rec.handle = machine.ID{}
		g.slots[f.slot].copies = [2]*record{&f.rec, &f.rec}
	}
	s.lookout.order = slices.Sorted(maps.Keys(s.lookout.sights))
	return s, vol
}

func recordOf(name string, seq, note uint64) record {
	r := record{name: name, writer: writer(1), noteSeq: note}
	if seq > 0 {
		r.version, r.data = version(seq, 1), []byte("data")
	}
	if note > 0 {
		r.note = []byte("note")
	}
	return r
}

// TestWhatIsForgettable: nobody needs a record that a greater one outdoes, and the greatest of a
// register goes last. Of equals the one in the last spot stays. A record in a condemned place outdoes nothing.
// A note is needed until its claim is obsolete.
func TestWhatIsForgettable(t *testing.T) {
	mine := spot{"m", 1}
	at := func(name string, slot int, seq, note uint64) found {
		return found{name, slot, recordOf("x", seq, note)}
	}
	elsewhere := found{"z", 1, recordOf("y", 9, 0)}
	for what, tt := range map[string]struct {
		seq, note uint64
		others    []found
		// beyond the slot and beyond the place, of a claim that may be held and of an obsolete one
		want string
	}{
		"nothing was written":                     {0, 0, nil, "true true, obsolete true true"},
		"it is the only one":                      {3, 0, []found{elsewhere}, "false false, obsolete true true"},
		"another is greater":                      {3, 0, []found{at("z", 1, 4, 0)}, "true true, obsolete true true"},
		"another is less":                         {3, 0, []found{at("z", 1, 2, 0)}, "false false, obsolete false false"},
		"another slot has a greater one":          {3, 0, []found{at("m", 2, 4, 0)}, "true false, obsolete true true"},
		"another slot has a lesser one":           {3, 0, []found{at("m", 2, 2, 0)}, "false false, obsolete false true"},
		"the next slot has the same":              {3, 0, []found{at("m", 2, 3, 0)}, "true false, obsolete true true"},
		"the slot before has the same":            {3, 0, []found{at("m", 0, 3, 0)}, "false false, obsolete false true"},
		"the next place has the same":             {3, 0, []found{at("n", 0, 3, 0)}, "true true, obsolete true true"},
		"the place before has the same":           {3, 0, []found{at("l", 2, 3, 0)}, "false false, obsolete false false"},
		"a condemned one is greater":              {3, 0, []found{at("z.1", 1, 4, 0)}, "false false, obsolete false false"},
		"others are greater and less":             {3, 0, []found{at("l", 1, 4, 0), at("z", 1, 2, 0)}, "true true, obsolete true true"},
		"another register's is greater":           {3, 0, []found{at("z", 0, 2, 0), elsewhere}, "false false, obsolete false false"},
		"it is a note alone":                      {0, 5, []found{elsewhere}, "false false, obsolete true true"},
		"it is a note, and others wrote":          {0, 5, []found{at("l", 1, 4, 0)}, "false false, obsolete true true"},
		"it is a note, and a condemned one wrote": {0, 5, []found{at("z.1", 1, 4, 0)}, "false false, obsolete true true"},
		"it has a note, and is outdone":           {3, 5, []found{at("z", 1, 4, 0)}, "false false, obsolete true true"},
		"it has a note, and is not outdone":       {3, 5, []found{at("z", 1, 2, 0)}, "false false, obsolete false false"},
		"another has a note only":                 {3, 0, []found{at("z", 1, 0, 5)}, "false false, obsolete true true"},
	} {
		s, _ := tidyStore(append([]found{{"m", 1, recordOf("x", tt.seq, tt.note)}}, tt.others...)...)
		judge := func() (of [2]bool) {
			c := s.census()
			r := s.lookout.sights["m"].slots[1].copies[0]
			return [2]bool{c.forgettable(mine, r, false), c.forgettable(mine, r, true)}
		}
		unknown := judge() // whether claims are obsolete
		s.opts.Obsolete = func(string, machine.Value, machine.ID) bool { return false }
		held := judge()
		s.opts.Obsolete = func(string, machine.Value, machine.ID) bool { return true }
		over := judge()
		got := fmt.Sprintf("%v %v, obsolete %v %v", held[0], held[1], over[0], over[1])
		if got != tt.want || unknown != held {
			t.Errorf("%s: forgettable beyond the slot and beyond the place: %s, want %s; and if nobody can tell: %v", what, got, tt.want, unknown)
		}
	}
}

// TestWhichPlacesAreForgotten: of the tokens a place that stays has to know as much, and of equals
// the last stays. The record of any slot, in either copy, is needed.
func TestWhichPlacesAreForgotten(t *testing.T) {
	none := record{}
	for what, tt := range map[string]struct {
		all    []found
		change func(g *sight) // of d
		want   bool
	}{
		"nothing was ever there":             {all: []found{{"d", 0, none}}, want: true},
		"another knows more":                 {all: []found{{"d", 0, record{floor: 5}}, {"a", 0, record{floor: 6}}}, want: true},
		"another knows less":                 {all: []found{{"d", 0, record{floor: 5}}, {"e", 0, record{floor: 4}}}},
		"the next knows as much":             {all: []found{{"d", 0, record{floor: 5}}, {"e", 0, record{floor: 5}}}, want: true},
		"the one before knows as much":       {all: []found{{"d", 0, record{floor: 5}}, {"c", 0, record{floor: 5}}}},
		"no other knows anything":            {all: []found{{"d", 0, record{floor: 5}}}},
		"a condemned one knows more":         {all: []found{{"d", 0, record{floor: 5}}, {"e.1", 0, record{floor: 6}}}},
		"a record is needed":                 {all: []found{{"d", 3, recordOf("x", 5, 0)}, {"e", 0, record{floor: 9}}}},
		"a record in one copy is needed":     {all: []found{{"d", 0, none}, {"e", 0, record{floor: 9}}}, change: func(g *sight) { r := recordOf("x", 5, 0); g.slots[2].copies[1] = &r }},
		"a record is outdone":                {all: []found{{"d", 3, recordOf("x", 5, 0)}, {"e", 0, recordOf("x", 6, 0)}}, want: true},
		"a record is outdone in the place":   {all: []found{{"d", 3, recordOf("x", 5, 0)}, {"d", 2, recordOf("x", 6, 0)}, {"e", 0, record{floor: 9}}}},
		"both records of an obsolete claim":  {all: []found{{"d", 3, recordOf("o", 5, 0)}, {"d", 2, recordOf("o", 6, 0)}, {"e", 0, record{floor: 9}}}, want: true},
		"the second of two is needed":        {all: []found{{"d", 0, recordOf("x", 5, 0)}, {"d", 1, recordOf("y", 5, 0)}, {"e", 0, recordOf("x", 6, 0)}}},
		"a copy is lost, and known as such":  {all: []found{{"d", 0, none}, {"e", 0, record{floor: 9}}}, change: func(g *sight) { g.slots[1].copies[1], g.slots[1].floor = nil, 8 }, want: true},
		"a copy is lost, and that is unsure": {all: []found{{"d", 0, none}, {"e", 0, record{floor: 9}}}, change: func(g *sight) { g.slots[1].copies[1], g.slots[1].floor = nil, 10 }},
	} {
		s, _ := tidyStore(tt.all...)
		s.opts.Obsolete = func(name string, _ machine.Value, _ machine.ID) bool { return name == "o" }
		g := s.lookout.sights["d"]
		if tt.change != nil {
			tt.change(g)
		}
		if got := s.mayForget(s.census(), g); got != tt.want {
			t.Errorf("%s: nobody needs anything there: %v, want %v", what, got, tt.want)
		}
	}
}

// TestWhatIsTidiedUp: files that look left behind are condemned, and removed by a later look.
// A failure with one leaves the others. It happens a few times in each wait, and at once if a file
// is condemned. A handle that may not write, or cannot read everything, does not tidy up.
func TestWhatIsTidiedUp(t *testing.T) {
	const wait = time.Minute
	own := found{"m", 0, recordOf("y", 9, 0)}
	none := record{}
	at := func(name string, change func(s *Store, g *sight)) func(*Store, *toldVolume) {
		return func(s *Store, _ *toldVolume) { change(s, s.lookout.sights[name]) }
	}
	fails := func(name string) func(*Store, *toldVolume) {
		return func(_ *Store, v *toldVolume) { v.fails[name] = unix.EIO }
	}
	for what, tt := range map[string]struct {
		others []found
		before func(*Store, *toldVolume)
		now    bool
		did    []string
		idle   bool // it is not its time
	}{
		"a useless file":                         {others: []found{{"d", 0, none}}, did: []string{"condemn d"}},
		"one that changed a moment too late":     {others: []found{{"d", 0, none}}, before: at("d", func(_ *Store, g *sight) { g.since++ })},
		"one that just said farewell":            {others: []found{{"d", 0, none}}, before: at("d", func(s *Store, g *sight) { g.since, g.farewell = s.lookout.began, true }), did: []string{"condemn d"}},
		"one that is needed":                     {others: []found{{"d", 0, recordOf("x", 1, 0)}}},
		"the own file":                           {before: at("m", func(_ *Store, g *sight) { g.slots[0].copies = [2]*record{{}, {}} })},
		"one that was condemned before":          {others: []found{{"d.1", 0, none}}, did: []string{"discard d.1"}},
		"one that was condemned in this look":    {others: []found{{"d.1", 0, none}}, before: at("d", func(s *Store, _ *sight) { s.doomed["d.1"] = true })},
		"one that was condemned and changes":     {others: []found{{"d.1", 0, none}}, before: at("d", func(s *Store, g *sight) { g.since = s.lookout.began }), did: []string{"discard d.1"}},
		"one that was condemned and is needed":   {others: []found{{"d.1", 0, recordOf("x", 1, 0)}}},
		"two":                                    {others: []found{{"d", 0, none}, {"e", 0, none}}, did: []string{"condemn d", "condemn e"}},
		"two, of which one cannot be removed":    {others: []found{{"d.1", 0, none}, {"e", 0, none}}, before: fails("d.1"), did: []string{"discard d.1", "condemn e", "discard d.1"}},
		"two, of which one cannot be condemned":  {others: []found{{"d", 0, none}, {"e", 0, none}}, before: fails("d"), did: []string{"condemn d", "condemn e", "condemn d"}},
		"an obsolete one behind a removed one":   {others: []found{{"d.1", 0, recordOf("o", 1, 0)}, {"e", 0, recordOf("o", 2, 0)}}, did: []string{"discard d.1", "condemn e"}},
		"a useless file, in a store not ours":    {others: []found{{"d", 0, none}}, before: func(s *Store, _ *toldVolume) { s.opts.ReadOnly = true }, now: true, idle: true},
		"a useless file, beside a damaged one":   {others: []found{{"d", 0, none}, {"e", 0, none}}, before: at("e", func(s *Store, g *sight) { g.headErr, g.headSeen = register.ErrDamaged, s.lookout.began })},
		"a useless file, beside a damaged slot":  {others: []found{{"d", 0, none}, {"e", 0, recordOf("x", 1, 0)}}, before: at("e", func(s *Store, g *sight) { g.slots[0].copies[1], g.slots[0].since = nil, s.lookout.began })},
		"a useless area":                         {others: []found{{"d", 0, none}}, before: func(_ *Store, v *toldVolume) { v.areas, v.rubbish = true, []string{"r"} }},
		"a useless file, long after the last":    {others: []found{{"d", 0, none}}, before: func(s *Store, _ *toldVolume) { s.tidied = s.lookout.began.Add(-wait / 8) }, did: []string{"condemn d"}},
		"a useless file, soon after the last":    {others: []found{{"d", 0, none}}, before: func(s *Store, _ *toldVolume) { s.tidied = s.lookout.began.Add(-wait/8 + 1) }, idle: true},
		"a useless file, soon, and now it is to": {others: []found{{"d", 0, none}}, before: func(s *Store, _ *toldVolume) { s.tidied = s.lookout.began.Add(-1) }, now: true, did: []string{"condemn d"}},
		"a condemned file, soon after the last":  {others: []found{{"d.1", 0, none}}, before: func(s *Store, _ *toldVolume) { s.tidied = s.lookout.began.Add(-1) }, did: []string{"discard d.1"}},
		"a file half made long ago, and another": {before: func(s *Store, v *toldVolume) {
			v.rubbish = []string{"fresh", "new", "old", "older"}
			s.rubbish = map[string]machine.Mono{"gone": 0, "old": s.lookout.began.Add(-wait), "new": s.lookout.began.Add(-wait + 1), "older": 0}
		}, did: []string{"discard old", "discard older"}},
	} {
		s, vol := tidyStore(append([]found{own}, tt.others...)...)
		s.opts.Obsolete = func(name string, _ machine.Value, _ machine.ID) bool { return name == "o" }
		idle := &slot{rec: record{name: "z"}, at: 2, left: true}
		s.slots[key{name: "z"}] = idle
		if tt.before != nil {
			tt.before(s, vol)
		}
		s.tidy(tt.now)
		if !slices.Equal(vol.did, tt.did) {
			t.Errorf("%s: it did %q, want %q", what, vol.did, tt.did)
		}
		if (s.tidied != s.lookout.began) != tt.idle {
			t.Errorf("%s: it was tidied up last at %v, and the look began at %v; want that it was not its time: %v", what, s.tidied, s.lookout.began, tt.idle)
		}
		for _, did := range tt.did {
			var name string
			if n, _ := fmt.Sscanf(did, "condemn %s", &name); n == 1 && vol.fails[name] == nil && (s.lookout.sights[name].name != name+".1" || !s.doomed[name+".1"]) {
				t.Errorf("%s: %s is held to have the name %s, and is doomed in this look: %v", what, name, s.lookout.sights[name].name, s.doomed[name+".1"])
			}
			if n, _ := fmt.Sscanf(did, "discard %s", &name); n == 1 && (s.lookout.sights[placeOf(name)] == nil) == (vol.fails[name] != nil) {
				t.Errorf("%s: %s was removed, or could not be: %v; it is held to be there: %v", what, name, vol.fails[name], s.lookout.sights[placeOf(name)] != nil)
			}
		}
		half := map[string]machine.Mono{}
		if len(vol.rubbish) == 4 {
			half["fresh"], half["new"] = s.lookout.now(), s.lookout.began.Add(-wait+1)
		}
		if len(s.rubbish)+len(half) > 0 && !maps.Equal(s.rubbish, half) {
			t.Errorf("%s: remembered as half made are %v, since when, want %v", what, s.rubbish, half)
		}
	}
}

// TestAPardon: a condemned file that is needed gets its name back, also if another process was
// quicker, and another look has to see that nothing has vanished. Files condemned before the look
// may be removed from now on.
func TestAPardon(t *testing.T) {
	needed, useless := recordOf("x", 1, 0), record{}
	for what, tt := range map[string]struct {
		others   []found
		fails    map[string]error
		readOnly bool
		did      []string
		again    bool
		err      error
	}{
		"nothing is condemned":              {others: []found{{"d", 0, needed}}},
		"a useless file":                    {others: []found{{"d.1", 0, useless}}},
		"a needed file":                     {others: []found{{"d.1", 0, needed}}, did: []string{"pardon d.1"}, again: true},
		"a useless and a needed file":       {others: []found{{"d.1", 0, useless}, {"e.1", 0, needed}}, did: []string{"pardon e.1"}, again: true},
		"a needed and a useless file":       {others: []found{{"d.1", 0, needed}, {"e.1", 0, useless}}, did: []string{"pardon d.1"}, again: true},
		"one that another has pardoned":     {others: []found{{"d.1", 0, needed}}, fails: map[string]error{"d.1": fs.ErrNotExist}, did: []string{"pardon d.1"}, again: true},
		"one that cannot be pardoned":       {others: []found{{"d.1", 0, needed}}, fails: map[string]error{"d.1": unix.EACCES}, did: []string{"pardon d.1"}, err: unix.EACCES},
		"a needed file, for an onlooker":    {others: []found{{"d.1", 0, needed}}, readOnly: true, err: register.ErrDamaged},
		"a useless file, for an onlooker":   {others: []found{{"d.1", 0, useless}}, readOnly: true},
		"a needed one, and one that cannot": {others: []found{{"d.1", 0, needed}, {"e.1", 0, recordOf("z", 1, 0)}}, fails: map[string]error{"e.1": unix.EACCES}, did: []string{"pardon d.1", "pardon e.1"}, err: unix.EACCES},
	} {
		s, vol := tidyStore(append([]found{{"m", 0, recordOf("y", 9, 0)}}, tt.others...)...)
		s.opts.ReadOnly, s.doomed["d.1"] = tt.readOnly, true
		if tt.fails != nil {
			vol.fails = tt.fails
		}
		again, err := s.pardon()
		if again != tt.again || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: another look has to see: %v, %v; want %v, %v", what, again, err, tt.again, tt.err)
		}
		if !slices.Equal(vol.did, tt.did) {
			t.Errorf("%s: it did %q, want %q", what, vol.did, tt.did)
		}
		if len(s.doomed) > 0 {
			t.Errorf("%s: %v are still held to be condemned in this look", what, s.doomed)
		}
	}
}

// TestWhichSlotsAreFreed: one whose writer left, when nobody has needed its record for the wait.
// One that has no place, or is not written as it is, is not freed. A place in doubt, or one that
// the look did not meet, has no slot to free.
func TestWhichSlotsAreFreed(t *testing.T) {
	const wait = time.Minute
	for what, tt := range map[string]struct {
		change  func(s *Store, p *slot, began machine.Mono)
		needed  bool
		lesser  bool // there is a lesser one beside it, in the same place
		kept    bool // among the slots of writers
		settled bool // the inherited one, too
		idle    bool
	}{
		"for the wait":                {},
		"for less than the wait":      {change: func(_ *Store, p *slot, began machine.Mono) { p.since = began.Add(-wait + 1) }, kept: true, settled: true, idle: true},
		"for the first time":          {change: func(_ *Store, p *slot, _ machine.Mono) { p.idle = false }, kept: true, settled: true, idle: true},
		"its writer is there":         {change: func(_ *Store, p *slot, _ machine.Mono) { p.left = false }, kept: true, idle: true},
		"it is not written yet":       {change: func(_ *Store, p *slot, _ machine.Mono) { p.dirty = true }, kept: true, idle: true},
		"it has no place":             {change: func(_ *Store, p *slot, _ machine.Mono) { p.at = nowhere }, kept: true, idle: true},
		"it is needed":                {needed: true, kept: true, settled: true},
		"it outdoes its neighbour":    {lesser: true, kept: true, settled: true},
		"the place is in doubt":       {change: func(s *Store, _ *slot, _ machine.Mono) { s.home.doubt = errHost }, kept: true, settled: true, idle: true},
		"the look did not meet it":    {change: func(s *Store, _ *slot, _ machine.Mono) { s.home.place = "n" }, kept: true, settled: true, idle: true},
		"the place has gone just now": {change: func(s *Store, _ *slot, _ machine.Mono) { s.home = nil }, kept: true, idle: true},
	} {
		name := "o"
		if tt.needed {
			name = "x"
		}
		s, _ := tidyStore(found{"m", 0, recordOf("y", 9, 0)}, found{"m", 2, recordOf(name, 3, 0)})
		if tt.lesser {
			r := recordOf(name, 1, 0)
			s.lookout.sights["m"].slots[1].copies = [2]*record{&r, &r}
		}
		s.opts.Obsolete = func(name string, _ machine.Value, _ machine.ID) bool { return name == "o" }
		began := s.lookout.began
		aSlot := func() *slot {
			return &slot{rec: recordOf(name, 3, 0), at: 2, left: true, idle: true, since: began.Add(-wait)}
		}
		own, inherited, home := aSlot(), aSlot(), s.home
		s.slots[key{writer(1), name}], home.inherited = own, []*slot{inherited}
		if tt.change != nil {
			tt.change(s, own, began)
			tt.change(s, inherited, began)
		}
		s.freeSlots(s.census())
		want := 0
		if !tt.kept {
			want++
		}
		if s.home != nil && !tt.settled {
			want++
		}
		if len(s.slots) == 0 == tt.kept || len(home.free) != want || s.home != nil && len(home.inherited) == 0 == tt.settled || own.idle != (tt.idle || !tt.kept) {
			t.Errorf("a slot that nobody needs %s: it is kept: %v, the inherited one: %v, needless: %v, %d places are free; want it kept: %v, the inherited one: %v, needless: %v, %d free",
				what, len(s.slots) > 0, len(home.inherited) > 0, own.idle, len(home.free), tt.kept, tt.settled, tt.idle || !tt.kept, want)
		}
	}
}

// TestHowAPlaceIsLeft: altogether if nobody needs its records, and then the look forgets a file.
// A place in doubt is left as it is, for a write may be on its way to it.
func TestHowAPlaceIsLeft(t *testing.T) {
	for what, tt := range map[string]struct {
		rec   record
		area  bool
		doubt error
		did   []string
		seen  bool
	}{
		"a needed file":  {rec: recordOf("x", 1, 0), did: []string{"leave, forget: false"}, seen: true},
		"a useless file": {did: []string{"leave, forget: true"}},
		"a needed area":  {rec: recordOf("x", 1, 0), area: true, did: []string{"leave, forget: false"}, seen: true},
		"a useless area": {area: true, did: []string{"leave, forget: true"}, seen: true},
		"one in doubt":   {doubt: errHost, seen: true},
	} {
		s, vol := tidyStore(found{"m", 0, tt.rec}, found{"n", 0, recordOf("y", 9, 0)})
		k := s.keeper.(*toldKeeper)
		vol.areas, s.home.doubt = tt.area, tt.doubt
		s.leavePlace()
		if seen := slices.Contains(s.lookout.order, "m"); !slices.Equal(k.did, tt.did) || seen != tt.seen {
			t.Errorf("%s: it did %q, and the place is held to be there: %v; want %q, %v", what, k.did, seen, tt.did, tt.seen)
		}
	}
}
