package driver

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestWhatIsSaidAtOnceLeavesTogether has an owner that answers each outcome. Every second
// turn sends, however long the owner goes on.
func TestWhatIsSaidAtOnceLeavesTogether(t *testing.T) {
	say := func(body string, outcomes ...any) effects {
		return effects{Sends: []machine.Envelope{env(2, body)}, Outcomes: outcomes}
	}
	forced := say("c")
	forced.Persists = forcedRecord("d").Persists
	for _, c := range []struct {
		hold bool
		says []effects // each is the answer to the one before
		want []string
	}{
		{true, []effects{say("a", 1)}, []string{"[a]"}},
		{true, []effects{say("a", 1), say("b")}, []string{"[a b]"}},
		{true, []effects{say("a", 1), say("b", 2), say("c", 3), say("d", 4), say("e")}, []string{"[a b]", "[c d]", "[e]"}},
		{true, []effects{say("a", 1), {}}, []string{"[a]"}},
		{true, []effects{say("a", 1), forced}, []string{"[a c]", "[after d]"}},
		{false, []effects{say("a", 1), say("b")}, []string{"[a]", "[b]"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var sent []string
			var d *Driver[any, any]
			said := 0
			d = Start(Config[any, any]{
				Machine: &recorder{}, Hold: c.hold, Now: func() machine.Now { return machine.Now{Mono: 1} },
				Persist: func([]any, bool) error { return nil },
				Send: func(envelopes []machine.Envelope) {
					var bodies []any
					for _, e := range envelopes {
						bodies = append(bodies, e.Body)
					}
					sent = append(sent, fmt.Sprint(bodies))
				},
				Outcome: func([]any) {
					if said++; said < len(c.says) {
						d.Step(c.says[said])
					}
				},
			})
			defer d.Stop()
			synctest.Wait() // until both wait: a goroutine that begins late may find the records to be written
			d.Step(c.says[0])
			synctest.Wait()
			if !slices.Equal(sent, c.want) {
				t.Errorf("hold %v: sent %v, want %v", c.hold, sent, c.want)
			}
		})
	}
}

// A turn that leaves something to be written holds nothing: others step meanwhile.
func TestNothingIsHeldDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []int
		durable := make(chan struct{})
		d := Start(Config[any, any]{
			Machine: &recorder{}, Hold: true, Now: func() machine.Now { return machine.Now{Mono: 1} },
			Persist: func([]any, bool) error { <-durable; return nil },
			Send:    func(envelopes []machine.Envelope) { sent = append(sent, len(envelopes)) },
			Outcome: func([]any) {},
		})
		defer d.Stop()
		e := forcedRecord("a")
		e.Sends, e.Outcomes = []machine.Envelope{env(2, "at once")}, []any{"news"}
		d.Gather(optional(func() any {
			d.Step(effects{Sends: []machine.Envelope{env(2, "next")}})
			return e
		}))
		synctest.Wait()
		if want := []int{1, 1}; !slices.Equal(sent, want) {
			t.Errorf("sent %v together during the write, want %v", sent, want)
		}
		close(durable)
		synctest.Wait()
	})
}

// Messages of a turn without outcomes wait for nobody.
func TestNobodyIsWaitedForWhoWasToldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []int
		d := Start(Config[any, any]{
			Machine: &recorder{}, Hold: true, Now: func() machine.Now { return machine.Now{Mono: 1} },
			Send: func(envs []machine.Envelope) { sent = append(sent, len(envs)) },
		})
		defer d.Stop()
		say := effects{Sends: []machine.Envelope{env(2, "x")}}
		d.Gather(optional(func() any { d.Step(say); return say }))
		synctest.Wait()
		if !slices.Equal(sent, []int{1, 1}) {
			t.Errorf("two turns that tell nobody anything send %d, want each its own", sent)
		}
	})
}
