package disklease

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// An access that takes its time is not yet one that hangs.
func TestStuck(t *testing.T) {
	const delta = 10 * time.Millisecond
	l, err := New(Config{ID: machine.ID{1}, Term: 20 * delta, Delay: delta, Holder: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if l.Stuck(machine.Mono(time.Hour)) {
		t.Error("a claim without an access is stuck")
	}
	begun := machine.Mono(time.Second)
	l.Step(machine.Now{Mono: begun}, TryAcquire{})
	if n := len(l.Ready().Accesses); n != 1 {
		t.Fatalf("%d accesses were begun, want the first look", n)
	}
	for after, want := range map[time.Duration]bool{0: false, 4 * delta: false, 4*delta + 1: true} {
		if got := l.Stuck(begun.Add(after)); got != want {
			t.Errorf("%v after an access began: stuck %v, want %v", after, got, want)
		}
	}
}

// An access that this claim has not under way ends nothing.
func TestAnAnswerToNothing(t *testing.T) {
	l, err := New(Config{ID: machine.ID{1}, Term: time.Second, Delay: time.Millisecond, Holder: "one"})
	if err != nil {
		t.Fatal(err)
	}
	l.Step(machine.Now{Mono: 1}, TryAcquire{})
	look := l.Ready().Accesses
	if len(look) != 1 {
		t.Fatalf("%d accesses were begun, want the first look", len(look))
	}
	l.Accessed(machine.Now{Mono: 2}, machine.Accessed{ID: look[0].ID + 1, Reply: machine.Value{Next: 1}})
	if rd := l.Ready(); len(rd.Accesses)+len(rd.Outcomes) > 0 {
		t.Errorf("the end of an access that was never begun led to %+v", rd)
	}
	l.Accessed(machine.Now{Mono: 3}, machine.Accessed{ID: look[0].ID, Reply: machine.Value{Next: 1}})
	if rd := l.Ready(); len(rd.Accesses) == 0 && rd.Alarm == machine.Never {
		t.Error("the end of the look led to nothing")
	}
}

// A try that would have to wait is refused as soon as it has looked; also one that contends as the paper has it, which waits
// at first sight.
func TestATryDoesNotWait(t *testing.T) {
	l, err := New(Config{ID: machine.ID{1}, Term: time.Second, Delay: time.Millisecond, Holder: "one", Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	l.Step(machine.Now{Mono: 1}, TryAcquire{})
	for _, a := range l.Ready().Accesses {
		l.Accessed(machine.Now{Mono: 2}, machine.Accessed{ID: a.ID, Reply: machine.Value{Next: 1}})
	}
	rd := l.Ready()
	if len(rd.Outcomes) != 1 || len(rd.Accesses) > 0 || rd.Alarm != machine.Never {
		t.Fatalf("a try that would have to wait leads to %+v", rd)
	}
	if refused, ok := rd.Outcomes[0].(Refused); !ok || refused.Err != nil {
		t.Errorf("a try that would have to wait ends with %+v, want that it is refused", rd.Outcomes[0])
	}
}

// A claim that has seen nothing hands on what the one before it saw.
func TestAWitnessOfNothing(t *testing.T) {
	cfg := Config{ID: machine.ID{1}, Term: time.Second, Delay: time.Millisecond, Holder: "one", Witness: []byte("seen before")}
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Witness(); string(got) != "seen before" {
		t.Errorf("before its first look it hands on %q, want what it was given", got)
	}
}

// A lease lasts as long as others wait for it: Δ from when it was confirmed, and no longer
// than Δ+2δ from when its write was invoked (fail-aware check 2).
func TestHowLongALeaseLasts(t *testing.T) {
	const term, delta = time.Second, 10 * time.Millisecond
	for _, slow := range []time.Duration{time.Millisecond, 9 * time.Millisecond} {
		l, err := New(Config{ID: machine.ID{1}, Term: term, Delay: delta, Holder: "one"})
		if err != nil {
			t.Fatal(err)
		}
		var now, wrote machine.Mono = 1, 0
		value := machine.Value{Next: 1}
		l.Step(machine.Now{Mono: now}, Acquire{})
		for range 100 {
			rd := l.Ready()
			if i := slices.IndexFunc(rd.Outcomes, func(out Outcome) bool { _, ok := out.(Acquired); return ok }); i >= 0 {
				got := rd.Outcomes[i].(Acquired).Deadline
				if want := min(now.Add(term), wrote.Add(term+2*delta)); got > want || want.Sub(got) > time.Microsecond {
					t.Errorf("accesses of %v: the lease lasts until %v after its write, want %v", slow, got.Sub(wrote), want.Sub(wrote))
				}
				break
			}
			if len(rd.Accesses) == 0 {
				if rd.Alarm == machine.Never {
					t.Fatal("it waits for nothing")
				}
				now = max(now, rd.Alarm)
				l.Wake(machine.Now{Mono: now})
			}
			for _, a := range rd.Accesses {
				var reply any = value
				if op, ok := a.Op.(machine.Write); ok {
					wrote = now
					value = machine.Value{Version: machine.Version{Seq: value.Next, Writer: machine.ID{1}}, Data: op.Data, Next: value.Next + 1}
					reply = value.Version
				}
				now = now.Add(slow)
				l.Accessed(machine.Now{Mono: now}, machine.Accessed{ID: a.ID, Reply: reply})
			}
		}
		if l.deadline == 0 {
			t.Fatalf("accesses of %v: it was not acquired", slow)
		}
	}
}
