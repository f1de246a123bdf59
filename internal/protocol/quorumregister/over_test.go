package quorumregister

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// sleeper is a machine that only waits for its alarm.
type sleeper struct {
	alarm machine.Mono
	woken []machine.Mono
}

func (s *sleeper) Step(machine.Now, struct{})             {}
func (s *sleeper) Accessed(machine.Now, machine.Accessed) {}
func (s *sleeper) Wake(now machine.Now)                   { s.woken = append(s.woken, now.Mono) }
func (s *sleeper) Ready() machine.Ready[Event]            { return machine.Ready[Event]{Alarm: s.alarm} }

func itself(e Event) Event { return e }

func TestTheInnerMachineIsWokenWhenItWantsToBe(t *testing.T) {
	inner := &sleeper{alarm: 10}
	m := Over(inner, Config{Writer: me, Bases: 3, Quiet: quiet, Retry: retry}, itself)
	if got := m.Ready().Alarm; got != 10 {
		t.Errorf("the alarm is at %d, want the inner machine's, at 10", got)
	}
	m.Wake(machine.Now{Mono: 9}) // for the register's own sake
	m.Wake(machine.Now{Mono: 10})
	if len(inner.woken) != 1 || inner.woken[0] != 10 {
		t.Errorf("the inner machine was woken at %v, want at its alarm only, 10", inner.woken)
	}
}

func TestConfigsThatMakeNoRegister(t *testing.T) {
	good := Config{Writer: me, Bases: 3, Quiet: quiet, Retry: retry}
	for name, change := range map[string]func(*Config){
		"no writer":   func(c *Config) { c.Writer = machine.ID{} },
		"no bases":    func(c *Config) { c.Bases = 0 },
		"no retry":    func(c *Config) { c.Retry = 0 },
		"no patience": func(c *Config) { c.Quiet = -1 },
	} {
		cfg := good
		change(&cfg)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: a register was made of %+v", name, cfg)
				}
			}()
			Over(&sleeper{}, cfg, itself)
		}()
	}
	Over(&sleeper{}, good, itself)
}

// A client of a register hands each access on once, and tells of its end.
func TestRelay(t *testing.T) {
	r := &relay{}
	r.Step(machine.Now{}, machine.Access{ID: 5, Op: machine.Read{}})
	for i, want := range []int{1, 0} {
		if rd := r.Ready(); len(rd.Accesses) != want || rd.Alarm != machine.Never || want > 0 && rd.Accesses[0].ID != 5 {
			t.Errorf("look %d: %+v, want %d accesses and no alarm", i, rd, want)
		}
	}
	r.Accessed(machine.Now{}, machine.Accessed{ID: 5, Reply: "x"})
	if rd := r.Ready(); len(rd.Outcomes) != 1 || rd.Outcomes[0].Reply != "x" {
		t.Errorf("the outcomes are %+v, want the reply", rd.Outcomes)
	}
}
