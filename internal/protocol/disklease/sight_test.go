package disklease

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// watched is a witness with a register that a test makes up.
type watched struct {
	t *testing.T
	w witness
}

const (
	sightWait     = 100
	sightPatience = 40
)

// looks has the witness look at a register, and returns what it makes of that.
func (x *watched) looks(at machine.Mono, entries []entry, notes map[byte]note) *sight {
	x.t.Helper()
	v := machine.Value{Version: machine.Version{Seq: 1}, Next: 2}
	for id := byte(1); id < 9; id++ {
		if n, ok := notes[id]; ok {
			v.Notes = append(v.Notes, machine.Noted{Writer: machine.ID{id}, Data: n.encode()})
		}
	}
	s := &sight{begun: at, record: record{delay: 1, entries: entries}}
	if err := x.w.look(at, s, v, machine.ID{9}, func(record, entry) time.Duration { return sightWait }, sightPatience); err != nil {
		x.t.Fatal(err)
	}
	return s
}

// An entry lives as long as the beat that is about its own stamp grows. Beats about an earlier stamp of the same claim are
// not its own: counted as such, they would hide the beats that follow, and a holder that lives would pass for dead.
func TestABeatIsAboutItsStamp(t *testing.T) {
	x := &watched{t, decodeWitness(nil)}
	e := entry{id: machine.ID{1}, stamp: 5, slots: Shared}
	x.looks(0, []entry{e}, map[byte]note{1: {stamp: 4, beat: 10}})
	for beat := uint64(1); beat < 9; beat++ {
		at := machine.Mono(beat * (sightWait - 1))
		if s := x.looks(at, []entry{e}, map[byte]note{1: {stamp: 5, beat: beat}}); s.dead[e.key()] {
			t.Fatalf("a holder beats for the time %d, and passes for dead since it beat %d times under an earlier stamp", beat, 10)
		}
	}
	last := machine.Mono(8 * (sightWait - 1))
	for _, c := range []struct {
		after machine.Mono
		dead  bool
	}{{sightWait - 1, false}, {sightWait, true}} {
		if s := x.looks(last+c.after, []entry{e}, map[byte]note{1: {stamp: 5, beat: 8}}); s.dead[e.key()] != c.dead {
			t.Errorf("the last beat is %d ago, and the holder is dead: %v, want %v", c.after, !c.dead, c.dead)
		}
	}
}

// A claim that waits keeps its place until it has been silent for as long as patience says, whether its note is shown all
// the time or not: for twice that long a note that is not shown is remembered, and is no news when it is shown again.
func TestANoteThatComesAndGoes(t *testing.T) {
	waits := map[byte]note{1: {ticket: 3, slots: 1, heartbeat: 7}}
	for _, tt := range []struct {
		gone, back machine.Mono // when its note is not shown, and when it is again
		want       bool         // whether it has a place then
	}{
		{sightPatience / 2, sightPatience - 1, true},
		{sightPatience / 2, sightPatience, false},
		{sightPatience + sightPatience/2, sightPatience + sightPatience/2 + 1, false},
		{2*sightPatience - 1, 2 * sightPatience, false},
		{2 * sightPatience, 2*sightPatience + 1, true}, // it was forgotten, and is news
	} {
		x := &watched{t, decodeWitness(nil)}
		x.looks(0, nil, waits)
		x.looks(tt.gone, nil, nil)
		got := x.looks(tt.back, nil, waits).queue
		want := "[]"
		if tt.want {
			want = fmt.Sprint([]wish{{machine.ID{1}, 3, 1}})
		}
		if fmt.Sprint(got) != want {
			t.Errorf("a waiter was heard of at 0, its note is not shown at %d and is at %d: the queue is %v, want %s", tt.gone, tt.back, got, want)
		}
	}
}
