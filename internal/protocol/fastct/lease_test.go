package fastct_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// asked are the leases that a machine asks for.
func asked(m *fastct.Machine) (wants []fastct.WantLease) {
	for _, out := range m.Ready().Outcomes {
		if w, ok := out.(fastct.WantLease); ok {
			wants = append(wants, w)
		}
	}
	return wants
}

// leadsFast proposes to an instance, and reports whether the machine imposes its value in FAST mode.
func leadsFast(m *fastct.Machine, cn uint64) bool {
	m.Ready()
	m.Step(machine.Now{}, fastct.Propose{CN: cn, Value: []byte("a")})
	return slices.ContainsFunc(m.Ready().Sends, func(e machine.Envelope) bool {
		b, ok := e.Body.(fastct.NewEstimate)
		return ok && b.CN == cn && b.Round == 0
	})
}

// F10: a lease that is granted says nothing of instances that were given up before, by the hint of another's refusal.
func TestAStatusThatIsKnownStays(t *testing.T) {
	cfg := config()
	cfg.Fixed = true // by eight instances
	m := member(t, cfg)
	m.Step(machine.Now{}, fastct.Propose{CN: 7, Value: []byte("a")})
	m.Step(machine.Now{}, fastct.Propose{CN: 2, Value: []byte("b")})
	if diff := cmp.Diff([]fastct.WantLease{{ID: 1, First: 7, Last: 14}, {ID: 2, First: 2, Last: 6}}, asked(m)); diff != "" {
		t.Fatalf("what is asked for differs: %s", diff)
	}
	m.Step(machine.Now{}, fastct.Leased{ID: 2, Until: 9})
	m.Step(machine.Now{}, fastct.Leased{ID: 1, Granted: true})
	for cn, want := range map[uint64]bool{8: false, 9: false, 10: true, 14: true} {
		if got := leadsFast(m, cn); got != want {
			t.Errorf("instances up to 9 were given up, those from 7 to 14 granted then: instance %d is led in FAST mode %v, want %v", cn, got, want)
		}
	}
}

// A hint gives up λ instances at most, however far it reaches.
func TestAHintIsBounded(t *testing.T) {
	cfg := config()
	cfg.Fixed = true // by eight instances
	m := member(t, cfg)
	m.Step(machine.Now{}, fastct.Propose{CN: 7, Value: []byte("a")})
	m.Step(machine.Now{}, fastct.Leased{ID: 1, Until: 100})
	m.Ready()
	m.Step(machine.Now{}, fastct.Propose{CN: 15, Value: []byte("b")})
	if got := asked(m); len(got) > 0 {
		t.Errorf("for the last instance that a hint gave up %+v is asked for", got)
	}
	m.Step(machine.Now{}, fastct.Propose{CN: 16, Value: []byte("c")})
	if diff := cmp.Diff([]fastct.WantLease{{ID: 2, First: 16, Last: 23}}, asked(m)); diff != "" {
		t.Errorf("behind eight instances that a hint gave up, what is asked for differs: %s", diff)
	}
}

// A lease of which a part is forgotten is still held, and its rest goes back when another is trusted.
func TestTheRestOfALeaseThatIsTrimmed(t *testing.T) {
	cfg := config()
	cfg.Fixed = true // by eight instances
	m := member(t, cfg)
	m.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("a")})
	m.Step(machine.Now{}, fastct.Leased{ID: 1, Granted: true}) // of 1 to 8
	m.Step(machine.Now{}, fastct.Learn{CN: 1, Value: []byte("a")})
	m.Step(machine.Now{}, fastct.Trim{Below: 3})
	m.Ready()
	m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: fastct.Counts{Counts: []uint64{1, 0, 0}}})
	if diff := cmp.Diff([]fastct.Outcome{fastct.Leader{Node: 2}, fastct.GiveLease{ID: 1, From: 3}}, m.Ready().Outcomes); diff != "" {
		t.Errorf("what is given back of the instances 1 to 8, of which those below 3 are forgotten, differs: %s", diff)
	}
}
