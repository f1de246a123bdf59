package fastctsim

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

func TestDetector(t *testing.T) {
	for _, sc := range detections {
		t.Run(sc.name, func(t *testing.T) {
			m, err := fastct.New(fastct.Config{
				ID: 1, Members: []machine.NodeID{1, 2}, Plain: true, Retry: time.Second, Heartbeat: beat, Timeout: time.Second,
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			d := &detector{t: t, m: m}
			d.step(stage.Wake{})
			sc.play(d)
		})
	}
}

// beat is the time between two heartbeats of either member.
const beat = 500 * time.Millisecond

// detector is member 1 of two: its view of member 2, in exact time.
type detector struct {
	t     *testing.T
	m     *fastct.Machine
	now   machine.Mono
	alarm machine.Mono
	told  []fastct.Counts // its news to 2
}

func (d *detector) step(input any) {
	stage.Feed(d.m, machine.Now{Mono: d.now}, input)
	rd := d.m.Ready()
	for _, e := range rd.Sends {
		if c, ok := e.Body.(fastct.Counts); ok {
			d.told = append(d.told, c)
		}
	}
	d.alarm = rd.Alarm
}

// silent lets time pass, without a word of 2.
func (d *detector) silent(pause time.Duration) {
	end := d.now.Add(pause)
	for d.alarm <= end {
		d.now = d.alarm
		d.step(stage.Wake{})
	}
	d.now = end
}

func (d *detector) say() {
	d.step(machine.Envelope{From: 2, To: 1, Body: fastct.Counts{Counts: []uint64{0, 0}}})
}

// talk lets time pass; 2 says something after each beat.
func (d *detector) talk(pause time.Duration) {
	for end := d.now.Add(pause); d.now < end; {
		d.silent(min(beat, end.Sub(d.now)))
		d.say()
	}
}

// end is the owner's word when the process of 2 ends.
func (d *detector) end() { d.step(fastct.Suspect{Node: 2, Suspected: true}) }

func (d *detector) wantSuspicion(want bool) {
	d.t.Helper()
	if got := slices.Contains(d.m.Suspects(), 2); got != want {
		d.t.Errorf("after %v: 2 is suspected: %v, want %v", time.Duration(d.now), got, want)
	}
}

// hang lets 2 hang, and wants it to be suspected after that long and no sooner; then it
// is back.
func (d *detector) hang(want time.Duration) {
	d.t.Helper()
	d.silent(want)
	d.wantSuspicion(false)
	d.silent(1)
	d.wantSuspicion(true)
	d.say()
	d.wantSuspicion(false)
}

// found is hangs without making the timeout longer: 2 hangs until it is killed.
func (d *detector) found(want time.Duration) {
	d.t.Helper()
	d.silent(want)
	d.wantSuspicion(false)
	d.silent(1)
	d.wantSuspicion(true)
	d.end()
	d.say()
}

var detections = []struct {
	name string
	play func(d *detector)
}{
	{"wrong-timeouts-double", func(d *detector) {
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 64, 64} {
			d.hang(want * time.Second)
		}
	}},
	{"a-process-that-ended", func(d *detector) {
		for range 8 {
			d.talk(time.Second)
			d.end()
			d.wantSuspicion(true)
			d.silent(2 * time.Second)
			d.say() // its next process
			d.wantSuspicion(false)
		}
		d.found(time.Second)
		d.found(time.Second) // first suspected, and then seen to end
		d.hang(time.Second)
		d.found(2 * time.Second)
	}},
	{"away-for-longer-than-messages-take", func(d *detector) {
		d.silent(64*time.Second + 1)
		d.say()
		d.hang(time.Second)
		d.silent(64 * time.Second)
		d.say()
		d.found(4 * time.Second)
	}},
	{"quiet-halves", func(d *detector) {
		for _, want := range []time.Duration{1, 2, 4} {
			d.hang(want * time.Second)
		}
		d.talk(256*time.Second - 1) // 32, doubled by three mistakes
		d.found(8 * time.Second)
		for _, want := range []time.Duration{4, 2, 1, 1} {
			d.talk(256 * time.Second)
			d.found(want * time.Second)
		}
	}},
	{"not-below-what-was-needed", func(d *detector) {
		d.hang(time.Second)
		d.hang(2 * time.Second)
		for range 5 { // it says something every two seconds, and a bit
			d.silent(2*time.Second + 1)
			d.wantSuspicion(false)
			d.say()
			d.talk(128 * time.Second)
		}
		d.found(4 * time.Second)
	}},
	{"quiet-doubles", func(d *detector) {
		for quiet := 64 * time.Second; quiet <= 1<<16*time.Second; quiet *= 2 {
			d.hang(time.Second)
			d.talk(quiet - 1)
			d.found(2 * time.Second)
			d.talk(quiet)
			d.found(time.Second)
		}
		d.hang(time.Second)
		d.talk(1 << 16 * time.Second)
		d.found(time.Second)
	}},
	{"one-step-of-transform-in-a-period", func(d *detector) { // F18
		d.end()
		d.told = nil
		for range 10 {
			for range 7 { // other alarms ring, too
				d.silent(beat / 8)
				d.step(stage.Wake{})
			}
			d.silent(beat - 7*(beat/8))
		}
		if n := len(d.told); n != 10 || d.told[9].Counts[1]-d.told[0].Counts[1] != 9 {
			d.t.Errorf("in ten periods it has told %v, want ten counts from one to the next", d.told)
		}
	}},
}
