package disklease

import (
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// holderThatEnds is a course in which claim 0 holds by stamp 1 from 9 ms to 1.2 s, and answers no more. A
// claim that waits is told at 350 ms that one has ended.
func holderThatEnds(delay time.Duration, told Ended) *course {
	return &course{
		name:   "a holder ends",
		config: func(i int, c *Config) { c.LockDelay = delay * time.Duration(1-i) },
		told:   []word{{0, 0, Acquire{}}, {300 * ms, 1, Acquire{}}, {350 * ms, 1, told}},
		access: func(i, n int, _ any) (time.Duration, error, bool) { return 3 * ms, nil, i == 0 && n > 3 },
		until:  600 * ms,
	}
}

var theHolder = machine.ID{1, 15: 7}

// A claim that is told that the holder has ended does not wait for the end of its lease, and its token is
// greater than that of the holder.
func TestAHolderThatHasEnded(t *testing.T) {
	if got := holderThatEnds(0, Ended{theHolder, 1}).play(t); !strings.Contains(got, "1: has acquired it with token 2 ") {
		t.Errorf("the next claim does not hold soon after the end of the holder:\n%s", got)
	}
}

// The end of a claim frees the name only of the stamp by which it held, and of no other claim. A lock delay
// is waited out: it is for holders that end without a release.
func TestAnEndThatFreesNothing(t *testing.T) {
	for what, c := range map[string]*course{
		"an earlier stamp": holderThatEnds(0, Ended{theHolder, 0}),
		"a later stamp":    holderThatEnds(0, Ended{theHolder, 2}),
		"another claim":    holderThatEnds(0, Ended{machine.ID{9, 15: 7}, 1}),
		"a lock delay":     holderThatEnds(time.Second, Ended{theHolder, 1}),
	} {
		if got := c.play(t); strings.Contains(got, "1: has acquired it") {
			t.Errorf("%s: the next claim holds while the holder does:\n%s", what, got)
		}
	}
}

// Only a stamp that was confirmed is one by which a claim has held: a write that came too late may hide
// another holder.
func TestTheStampThatIsHeld(t *testing.T) {
	l, err := New(Config{ID: theHolder, Term: courseTerm, Delay: courseDelay, Holder: "one"})
	if err != nil {
		t.Fatal(err)
	}
	register := machine.Value{Next: 1}
	now := machine.Mono(time.Hour)
	access := func() {
		t.Helper()
		for _, a := range l.Ready().Accesses {
			now = now.Add(3 * ms)
			e := ended{op: a.Op}
			l.Accessed(machine.Now{Mono: now}, machine.Accessed{ID: a.ID, Reply: serve(&register, theHolder, e)})
		}
	}
	wait := func() { now = l.Ready().Alarm; l.Wake(machine.Now{Mono: now}) }
	l.Step(machine.Now{Mono: now}, Acquire{})
	access() // reads
	access() // writes stamp 1
	if got := l.Held(); got != 0 {
		t.Errorf("it has written and not read back, and has held by %d", got)
	}
	wait()
	access() // reads it back
	if got := l.Held(); got != 1 {
		t.Errorf("it holds, and has held by %d, want 1", got)
	}
	wait()
	access() // renews: reads
	access() // writes stamp 2
	if got := l.Held(); got != 1 {
		t.Errorf("a renewal is not confirmed, and it has held by %d, want 1", got)
	}
	wait()
	access()
	if got := l.Held(); got != 2 {
		t.Errorf("it has renewed, and has held by %d, want 2", got)
	}
}

// Only a claim that waits looks at once when it is told that another has ended. One that has written must wait as long
// as ever before it reads that back: another's write may still come in.
func TestToldOfAnEndWhileItSettles(t *testing.T) {
	l, err := New(Config{ID: theHolder, Term: courseTerm, Delay: courseDelay, Holder: "one"})
	if err != nil {
		t.Fatal(err)
	}
	register := machine.Value{Next: 1}
	now := machine.Mono(time.Hour)
	rd := machine.Ready[Outcome]{}
	access := func() {
		for _, a := range rd.Accesses {
			now = now.Add(3 * ms)
			l.Accessed(machine.Now{Mono: now}, machine.Accessed{ID: a.ID, Reply: serve(&register, theHolder, ended{op: a.Op})})
		}
		rd = l.Ready()
	}
	stamps := uint64(0)
	told := func(when string) {
		t.Helper()
		if len(rd.Accesses) > 0 || rd.Alarm <= now {
			t.Fatalf("%s: it begins %v, with the alarm %v from now, want that it waits", when, rd.Accesses, rd.Alarm.Sub(now))
		}
		alarm := rd.Alarm
		stamps++
		l.Step(machine.Now{Mono: now}, Ended{machine.ID{9}, stamps})
		if rd = l.Ready(); len(rd.Accesses) > 0 || rd.Alarm != alarm {
			t.Errorf("%s: it is told of an end, and begins %v, with the alarm %v from now; want nothing, and %v", when, rd.Accesses, rd.Alarm.Sub(now), alarm.Sub(now))
		}
	}
	wait := func() { now = rd.Alarm; l.Wake(machine.Now{Mono: now}); rd = l.Ready() }
	l.Step(machine.Now{Mono: now}, Acquire{})
	rd = l.Ready()
	access() // reads
	access() // writes
	told("it has written")
	wait()
	access() // reads it back
	told("it holds")
	wait()
	access() // renews: reads
	access() // writes
	told("it has renewed")
}

// A claim that is told to leave while it reads back a renewal, and gets the answer too late for the renewal to count,
// releases the stamp by which it held before. A late stamp must not be released, because it may hide another holder.
func TestLeavesBehindALateRenewal(t *testing.T) {
	for late, want := range map[time.Duration]uint64{0: 2, 2 * courseTerm: 1} {
		l, err := New(Config{ID: theHolder, Term: courseTerm, Delay: courseDelay, Holder: "one"})
		if err != nil {
			t.Fatal(err)
		}
		register := machine.Value{Next: 1}
		now := machine.Mono(time.Hour)
		var list []machine.Access
		wait := func() {
			rd := l.Ready()
			if len(rd.Accesses) == 0 {
				now = rd.Alarm
				l.Wake(machine.Now{Mono: now})
				rd = l.Ready()
			}
			list = rd.Accesses
		}
		answer := func(after time.Duration) {
			now = now.Add(after)
			l.Accessed(machine.Now{Mono: now}, machine.Accessed{ID: list[0].ID, Reply: serve(&register, theHolder, ended{op: list[0].Op})})
		}
		l.Step(machine.Now{Mono: now}, Acquire{})
		for range 5 { // it reads, writes and reads that back; then it renews: it reads and writes
			wait()
			answer(3 * ms)
		}
		wait() // reads that back
		l.Step(machine.Now{Mono: now}, Leave{})
		answer(3*ms + late)
		wait()
		n, is := list[0].Op.(machine.Note)
		if !is {
			t.Fatalf("it leaves, and begins %+v, want its release", list)
		}
		if got, err := decodeNote(n.Data); err != nil || got.released != want {
			t.Errorf("a renewal is read back %v too late, and the claim leaves: it releases stamp %d, %v; want %d", late, got.released, err, want)
		}
	}
}
