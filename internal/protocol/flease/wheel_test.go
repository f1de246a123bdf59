package flease

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A wheel rings each alarm once, never early, and in the tick in which next said it would
// have to be looked at, even if others are set and taken back meanwhile.
func TestWheel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := machine.Mono(rapid.Int64Range(0, 1<<50).Draw(t, "start"))
		var w wheel
		w.cur = int64(now) >> tickBits
		due := map[int32]machine.Mono{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := int32(rapid.IntRange(0, 20).Draw(t, "id"))
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0, 1:
				far := []time.Duration{time.Millisecond, time.Second, time.Hour, 100000 * time.Hour}[rapid.IntRange(0, 3).Draw(t, "far")]
				at := now.Add(time.Duration(rapid.Int64Range(0, int64(far)).Draw(t, "in")))
				w.set(id, at)
				due[id] = at
			case 2:
				w.clear(id)
				delete(due, id)
			case 3:
				next := w.next()
				if next == machine.Never {
					next = now
				}
				now = max(now, next)
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "beyond")))
				for {
					id, ok := w.ring(now)
					if !ok {
						break
					}
					at, set := due[id]
					if !set || at > now {
						t.Fatalf("alarm %d of %v rings at %v (set: %v)", id, at, now, set)
					}
					delete(due, id)
				}
				for id, at := range due {
					if at.Add(2<<tickBits) <= now {
						t.Fatalf("alarm %d of %v has not rung at %v", id, at, now)
					}
				}
			}
			first := machine.Never
			for _, at := range due {
				first = min(first, at)
			}
			if next := w.next(); first != machine.Never && next > max(first, now).Add(2<<tickBits) {
				t.Fatalf("the first alarm is at %v, now is %v, and next says %v", first, now, next)
			}
		}
	})
}

func TestWheelSleepsUntilTheNext(t *testing.T) {
	var w wheel
	w.set(0, machine.Mono(30*time.Second))
	looks := 0
	for now := machine.Mono(0); ; looks++ {
		if _, ok := w.ring(now); ok {
			if now < machine.Mono(30*time.Second) {
				t.Fatal("early")
			}
			break
		}
		now = w.next()
	}
	if looks > wheelLevels {
		t.Errorf("%d looks for one alarm", looks)
	}
}

// A wheel sleeps until the next alarm from wherever it is, and for good when there is none.
func TestWheelSleepsFromAnywhere(t *testing.T) {
	for _, from := range []int64{0, 100, 4095, 4096 + 100, 1<<18 + 77} {
		for _, ahead := range []int64{1, 63, 64, 4080, 1 << 17, 1<<18 - 100} {
			w := wheel{cur: from}
			at := machine.Mono((from + ahead) << tickBits)
			w.set(0, at)
			looks := 0
			for now := machine.Mono(from << tickBits); looks <= wheelLevels; looks++ {
				if _, ok := w.ring(now); ok {
					break
				}
				if next := w.next(); next <= now {
					t.Errorf("from tick %d, with an alarm %d ahead: next at %v, and it is %v", from, ahead, next, now)
				}
				now = w.next()
			}
			if looks > wheelLevels {
				t.Errorf("from tick %d, with an alarm %d ahead: more than %d looks", from, ahead, wheelLevels)
			}
			if next := w.next(); next != machine.Never {
				t.Errorf("from tick %d, with an alarm %d ahead that has rung: next at %v, want never", from, ahead, next)
			}
			w.set(0, at.Add(time.Hour))
			w.clear(0)
			if next := w.next(); next != machine.Never {
				t.Errorf("from tick %d, with an alarm that was taken back: next at %v, want never", from, next)
			}
		}
	}
}

// An alarm for never does not ring, nor does the one in whose place it is.
func TestAnAlarmForNever(t *testing.T) {
	for _, never := range []machine.Mono{machine.Never, machine.Never - 1, machine.Never>>1 + 1} {
		var w wheel
		w.set(0, machine.Mono(time.Second))
		w.set(0, never)
		if next := w.next(); next != machine.Never {
			t.Errorf("an alarm at %v: next at %v, want never", never, next)
		}
		if _, ok := w.ring(machine.Mono(time.Hour)); ok {
			t.Errorf("an alarm at %v rings within an hour", never)
		}
	}
}

// An alarm in the past rings in the next tick, and not in the same one: an owner that sets it again would
// be rung for ever.
func TestAnAlarmInThePast(t *testing.T) {
	for _, at := range []int64{-1 << 40, 0, 99, 100} {
		w := wheel{cur: 100}
		w.set(0, machine.Mono(at<<tickBits))
		if id, ok := w.ring(machine.Mono(101<<tickBits - 1)); ok {
			t.Errorf("in tick 100 an alarm for tick %d is set, and alarm %d rings in the same tick", at, id)
		}
		if id, ok := w.ring(machine.Mono(101 << tickBits)); !ok || id != 0 {
			t.Errorf("in tick 100 an alarm for tick %d is set, and none rings in tick 101", at)
		}
	}
}

// Alarms that are further away than the wheel reaches ring in their ticks, each of them, and the wheel is
// looked at seldom until then.
func TestAlarmsBeyondTheWheel(t *testing.T) {
	const round = int64(1) << (wheelBits * wheelLevels)
	for _, from := range []int64{0, 77, 1<<30 + 5} {
		w := wheel{cur: from}
		due := map[int32]int64{}
		for i, ahead := range []int64{round - 1, round, round + 1, round + 1<<30, 2*round - 1, 2 * round, 2*round + 5, 3*round + 1<<31} {
			due[int32(i)] = from + ahead
			w.set(int32(i), machine.Mono((from+ahead)<<tickBits))
		}
		for looks := 0; len(due) > 0; looks++ {
			next := w.next()
			if looks > 200 || next == machine.Never {
				t.Errorf("from tick %d: after %d looks, and with the next at %d, alarms for ticks %v have not rung", from, looks, next, due)
				break
			}
			for {
				id, ok := w.ring(next)
				if !ok {
					break
				}
				if tick := int64(next) >> tickBits; due[id] != tick {
					t.Errorf("from tick %d: alarm %d, for tick %d, rings in tick %d", from, id, due[id], tick)
				}
				delete(due, id)
			}
		}
	}
}
