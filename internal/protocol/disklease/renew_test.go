package disklease

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A renewal that reads another's record ends the tenure and writes nothing: line 2 of Figure
//  5. Two holders at once, possible with the paper's lease before GST, would write in turns
//     and read themselves back for ever.
func TestARenewalReadsFirst(t *testing.T) {
	for _, plain := range []bool{false, true} {
		const delta = 10 * time.Millisecond
		l, err := New(Config{
			ID: machine.ID{1}, Term: 20 * delta, Delay: delta, Holder: "one",
			Plain: plain, Trusting: plain,
		})
		if err != nil {
			t.Fatal(err)
		}
		var now machine.Mono = 1
		var value machine.Value
		value.Next = 1
		held, lost := false, false
		// turn lets the claim go on until it has nothing to do before its alarm.
		turn := func() (writes int) {
			for {
				rd := l.Ready()
				for _, out := range rd.Outcomes {
					switch out.(type) {
					case Acquired:
						held = true
					case Lost:
						lost = true
					}
				}
				if len(rd.Accesses) == 0 {
					if rd.Alarm == machine.Never {
						return writes
					}
					now = max(now, rd.Alarm)
					return writes
				}
				for _, a := range rd.Accesses {
					now = now.Add(time.Millisecond)
					var reply any
					switch op := a.Op.(type) {
					case machine.Read:
						reply = value
					case machine.Write:
						writes++
						value.Version = machine.Version{Seq: value.Next, Writer: machine.ID{1}}
						value.Data, value.Next = slices.Clone(op.Data), value.Next+1
						reply = value.Version
					}
					l.Accessed(machine.Now{Mono: now}, machine.Accessed{ID: a.ID, Reply: reply})
				}
			}
		}
		l.Step(machine.Now{Mono: now}, Acquire{})
		for range 100 {
			turn()
			if held {
				break
			}
			l.Wake(machine.Now{Mono: now})
		}
		if !held {
			t.Fatalf("plain %v: the lease is not acquired", plain)
		}
		other := record{delay: delta, entries: []entry{{id: machine.ID{2}, stamp: 1, slots: 1, token: value.Next}}}
		value.Version = machine.Version{Seq: value.Next, Writer: machine.ID{2}}
		value.Data, value.Next = other.encode(delta), value.Next+1
		writes := 0
		for range 100 {
			l.Wake(machine.Now{Mono: now})
			if writes += turn(); lost || writes > 0 {
				break
			}
		}
		if writes > 0 || !lost {
			t.Errorf("plain %v: a renewal that read another's record wrote %d times, and was given up: %v", plain, writes, lost)
		}
	}
}
