package disklease

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/machine"
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
