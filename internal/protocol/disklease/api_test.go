package disklease

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Configs at the limits make claims, and beyond them none.
func TestConfigsAtTheLimits(t *testing.T) {
	for what, c := range map[string]struct {
		change func(c *Config)
		ok     bool
	}{
		"as short a Term":       {func(c *Config) { c.Term = MinTerms * c.Delay }, true},
		"too short a Term":      {func(c *Config) { c.Term = MinTerms*c.Delay - 1 }, false},
		"as long a holder":      {func(c *Config) { c.Holder = strings.Repeat("x", 512) }, true},
		"too long a holder":     {func(c *Config) { c.Holder = strings.Repeat("x", 513) }, false},
		"as many slots":         {func(c *Config) { c.Slots = 1<<31 - 1 }, true},
		"too many slots":        {func(c *Config) { c.Slots = 1 << 31 }, false},
		"as much drift":         {func(c *Config) { c.Drift = 499_999 }, true},
		"too much drift":        {func(c *Config) { c.Drift = 500_000 }, false},
		"a negative drift":      {func(c *Config) { c.Drift = -1 }, false},
		"no delay":              {func(c *Config) { c.Delay = 0 }, false},
		"no lock delay":         {func(c *Config) { c.LockDelay = 0 }, true},
		"a negative lock delay": {func(c *Config) { c.LockDelay = -1 }, false},
	} {
		cfg := Config{ID: machine.ID{1}, Term: time.Second, Delay: time.Millisecond}
		c.change(&cfg)
		if _, err := New(cfg); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A claim that waits looks again as often as it was told, about, or every ten δ and at least fifty times a Term.
func TestPoll(t *testing.T) {
	const term = 10 * time.Second
	for _, c := range []struct{ delay, poll, want time.Duration }{
		{time.Millisecond, 0, 10 * time.Millisecond},
		{100 * time.Millisecond, 0, term / 50},
		{time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond},
		{time.Millisecond, time.Hour, term / 8},
	} {
		l, err := New(Config{ID: machine.ID{1}, Term: term, Delay: c.delay, Poll: c.poll})
		if err != nil {
			t.Fatal(err)
		}
		held := machine.Value{Version: machine.Version{Seq: 1, Writer: machine.ID{9}}, Next: 2,
			Data: record{delay: c.delay, entries: []entry{{id: machine.ID{9}, stamp: 1, slots: 1}}}.encode(c.delay)}
		var now machine.Mono = 1
		l.Step(machine.Now{Mono: now}, Acquire{})
		for looks := 0; looks < 5; {
			rd := l.Ready()
			for _, a := range rd.Accesses {
				var reply any
				if _, read := a.Op.(machine.Read); read {
					looks++
					reply = held
				}
				l.Accessed(machine.Now{Mono: now}, machine.Accessed{ID: a.ID, Reply: reply})
			}
			if len(rd.Accesses) > 0 {
				continue
			}
			if pause := rd.Alarm.Sub(now); pause < c.want/2-1 || pause > c.want*3/2+1 {
				t.Errorf("with a δ of %v, told %v: it looks again after %v, want about %v", c.delay, c.poll, pause, c.want)
			}
			now = rd.Alarm
			l.Wake(machine.Now{Mono: now})
		}
	}
}

// A record that cannot be decoded is that of a claim which nobody knows, for as long as it stays as it is.
func TestUnreadable(t *testing.T) {
	look := func(raw string) Member {
		st, err := Look(machine.Value{Version: machine.Version{Seq: 1}, Data: Unreadable([]byte(raw), time.Minute)})
		if err != nil || len(st.Members) != 1 {
			t.Fatalf("%q: %+v, %v, want one member", raw, st, err)
		}
		return st.Members[0]
	}
	one := look("torn")
	if one.Released || one.Slots != 1 || one.ID == (machine.ID{}) {
		t.Errorf("torn: %+v, want a claim that excludes all others", one)
	}
	if look("torn") != one {
		t.Error("the same bytes are another claim's")
	}
	if look("torn again").ID == one.ID {
		t.Error("other bytes are the same claim's, which would count as dead by now")
	}
	rec, err := decodeRecord(machine.Value{Version: machine.Version{Seq: 1}, Data: Unreadable(nil, time.Minute)}, time.Second)
	if err != nil || rec.delay != time.Second || rec.entries[0].lockDelay != time.Minute {
		t.Errorf("%+v, %v: want the δ of the header and the lock delay that was said", rec, err)
	}
}

// A store may forget what holds nobody off and lets nobody in.
func TestObsolete(t *testing.T) {
	holder, other := machine.ID{1}, machine.ID{2}
	rec := func(delay time.Duration) []byte {
		return record{delay: delay, entries: []entry{{id: holder, stamp: 3, slots: 1, token: 5}}}.encode(1)
	}
	released := []machine.Noted{{Writer: holder, Data: note{released: 3}.encode()}}
	earlier := []machine.Noted{{Writer: holder, Data: note{released: 2}.encode()}}
	by := func(writer machine.ID, data []byte, notes []machine.Noted) machine.Value {
		return machine.Value{Version: machine.Version{Seq: 5, Writer: writer}, Data: data, Notes: notes}
	}
	for what, c := range map[string]struct {
		v      machine.Value
		writer machine.ID
		want   bool
	}{
		"a note where nothing is held":                     {machine.Value{Notes: released}, holder, true},
		"the record of a holder":                           {by(holder, rec(1), nil), holder, false},
		"a note beside the record of a holder":             {by(holder, rec(1), nil), other, true},
		"another's record that lists a holder":             {by(other, rec(1), nil), other, false},
		"what a holder left whose record is another's":     {by(other, rec(1), nil), holder, false},
		"the record of one that released an earlier stamp": {by(holder, rec(1), earlier), holder, false},
		"the record of one that released":                  {by(holder, rec(1), released), holder, true},
		"the release that another's record needs":          {by(other, rec(1), released), holder, false},
		"another's record of one that released":            {by(other, rec(1), released), other, true},
		"a record that raised δ":                           {by(holder, rec(9), released), holder, false},
		"a note beside a record that raised δ":             {by(holder, rec(9), released), other, true},
		"what is no record":                                {by(holder, []byte("mine"), released), holder, false},
		"what is no note":                                  {by(holder, rec(1), []machine.Noted{{Writer: holder, Data: []byte("mine")}}), holder, false},
	} {
		if got := Obsolete(c.v, c.writer); got != c.want {
			t.Errorf("%s: obsolete %v, want %v", what, got, c.want)
		}
	}
}

// A claim that has begun begins no second time, and one that was told to leave leaves once.
func TestSecondInputs(t *testing.T) {
	l, err := New(Config{ID: machine.ID{1}, Term: time.Second, Delay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []LeaseInput{TryAcquire{}, Acquire{}, TryAcquire{}} {
		l.Step(machine.Now{Mono: 1}, in)
	}
	rd := l.Ready()
	if len(rd.Accesses) != 1 {
		t.Fatalf("told three times to begin, it began %d accesses, want one", len(rd.Accesses))
	}
	l.Step(machine.Now{Mono: 2}, Leave{})
	l.Step(machine.Now{Mono: 2}, Leave{})
	l.Accessed(machine.Now{Mono: 3}, machine.Accessed{ID: rd.Accesses[0].ID, Reply: machine.Value{Next: 1}})
	l.Step(machine.Now{Mono: 4}, Leave{})
	left := 0
	for _, out := range l.Ready().Outcomes {
		if out == any(Left{}) {
			left++
		}
	}
	if left != 1 {
		t.Errorf("told three times to leave, it left %d times", left)
	}
}

// A try that was told to leave leaves, and is not refused, also if its access fails.
func TestATryThatLeaves(t *testing.T) {
	l, err := New(Config{ID: machine.ID{1}, Term: time.Second, Delay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.Step(machine.Now{Mono: 1}, TryAcquire{})
	look := l.Ready().Accesses[0].ID
	l.Step(machine.Now{Mono: 2}, Leave{})
	l.Accessed(machine.Now{Mono: 3}, machine.Accessed{ID: look, Err: errors.New("the store is away")})
	rd := l.Ready()
	for _, out := range rd.Outcomes {
		if refused, ok := out.(Refused); ok {
			t.Errorf("told to leave, it was refused: %v", refused)
		}
	}
	if !slices.Contains(rd.Outcomes, Outcome(Left{})) {
		t.Errorf("told to leave, and its look failed: %v, want that it left", rd.Outcomes)
	}
}

// A claim is a holder or waits: one whose note still shows its place is not counted twice,
// wherever the record lists it.
func TestAHolderDoesNotWait(t *testing.T) {
	ids := []machine.ID{{1}, {2}, {3}}
	v := machine.Value{Version: machine.Version{Seq: 1, Writer: ids[1]}, Data: record{delay: 1, entries: []entry{
		{id: ids[0], stamp: 1, slots: 2, token: 1}, {id: ids[1], stamp: 1, slots: 2, token: 2},
	}}.encode(1)}
	for i, id := range ids {
		v.Notes = append(v.Notes, machine.Noted{Writer: id, Data: note{ticket: uint64(i + 1), slots: 2, stamp: 1}.encode()})
	}
	st, err := Look(v)
	if err != nil || len(st.Members) != 2 || st.Waiting != 1 {
		t.Errorf("two hold and a third waits: %+v, %v", st, err)
	}
}
