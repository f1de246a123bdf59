package disklease

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"pgregory.net/rapid"
)

var deep = flag.Bool("deep", false, "play the large models of consensus, too: half a minute")

// newAgreement is a model in which each actor has proposed its own value and the first
// so many lead, all at once.
func newAgreement(bases, actors, leaders int) *model {
	var machines []Proposer
	for i := range actors {
		machines = append(machines, NewConsensus(machine.ID{15: byte(i + 1)}, time.Second))
	}
	m := newModel(bases, machines...)
	for i := range actors {
		if i < leaders {
			m.step(i, Leads{Deadline: machine.Never})
		}
		m.step(i, Propose{[]byte{'a' + byte(i)}})
	}
	return m
}

// agreed judges validity, agreement and integrity.
func (m *model) agreed() error {
	decision := ""
	for i, a := range m.actors {
		if len(a.decided) > 1 {
			return fmt.Errorf("integrity: %d decided %q", i, a.decided)
		}
		for _, v := range a.decided {
			if decision != "" && v != decision {
				return fmt.Errorf("agreement: %d decided %q, another %q", i, v, decision)
			}
			if decision = v; len(v) != 1 || v[0] < 'a' || int(v[0]-'a') >= len(m.actors) {
				return fmt.Errorf("validity: %d decided %q", i, v)
			}
		}
	}
	return nil
}

// settle has one actor lead alone from here on, and judges termination: all decide.
func (m *model) settle(leader int) error {
	m = m.clone()
	m.ranks = 1 << 60
	for i := range m.actors {
		if i == leader {
			m.step(i, Leads{Deadline: machine.Never})
		} else {
			m.step(i, Follows{})
		}
	}
	for range 2000 {
		decided := 0
		for _, a := range m.actors {
			decided += len(a.decided)
		}
		if decided == len(m.actors) {
			return m.agreed()
		}
		m.applyFirst()
		for i, a := range m.actors {
			if a.alarm != machine.Never {
				m.apply(move{kind: wake, i: i})
			}
		}
	}
	return fmt.Errorf("termination: %d leads, and not all decide", leader)
}

// TestAgreementInAllCourses plays all interleavings of the accesses of a few proposers
// that all believe they lead, and judges safety in every state. From every state
// one of them, leading alone, comes to an end with all.
func TestAgreementInAllCourses(t *testing.T) {
	tests := []struct {
		name                   string
		bases, actors, leaders int // bases 0: notes
		ranks                  uint64
		deep                   bool
	}{
		{"one base", 1, 2, 2, 3, false},
		{"one base, three proposers", 1, 3, 3, 2, false},
		{"three bases", 3, 2, 2, 1, true},
		{"notes", 0, 2, 2, 4, false},
		{"notes, a follower", 0, 3, 2, 1, false},
		{"notes, three proposers", 0, 3, 3, 1, false},
		{"notes, three proposers, two ranks each", 0, 3, 3, 2, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.deep && !*deep {
				t.Skip("a large model; -deep plays it")
			}
			m := newAgreement(test.bases, test.actors, test.leaders)
			m.ranks = test.ranks
			began := time.Now()
			decisions := map[string]bool{}
			states, ends, err := explore(m, func(m *model, _ bool) error {
				if err := m.agreed(); err != nil {
					return err
				}
				for _, a := range m.actors {
					for _, v := range a.decided {
						decisions[v] = true
					}
				}
				return m.settle(0)
			})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(decisions), test.leaders; got != want {
				t.Errorf("%d values were decided in some course, want %d", got, want)
			}
			t.Logf("%d states, %d ends, %v", states, ends, time.Since(began))
		})
	}
}

// TestAgreementAtRandom has more bases and processes, leaders that come and go, several
// at once, accesses that fail, and a minority of bases that hang.
func TestAgreementAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bases := rapid.SampledFrom([]int{0, 0, 1, 3, 4, 5}).Draw(t, "bases")
		m := newAgreement(bases, rapid.IntRange(2, 5).Draw(t, "processes"), 0)
		if bases > 0 {
			m.dead = rapid.IntRange(0, (bases-1)/2).Draw(t, "dead")
		}
		for range rapid.IntRange(1, 5).Draw(t, "leaderships") {
			i := rapid.IntRange(0, len(m.actors)-1).Draw(t, "who")
			if rapid.Bool().Draw(t, "leads") {
				m.step(i, Leads{Deadline: m.now.Add(time.Minute)})
			} else {
				m.step(i, Follows{})
			}
			m.wander(t)
			if err := m.agreed(); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.settle(rapid.IntRange(0, len(m.actors)-1).Draw(t, "leader")); err != nil {
			t.Fatal(err)
		}
	})
}

// Two processes that stand in each other's way do not try again at once, nor at the same time.
func TestPausesDiffer(t *testing.T) {
	const poll = time.Second
	seen := map[machine.Mono]bool{}
	for _, first := range []byte{0, 1, 100, 255} {
		c := NewConsensus(machine.ID{first}, poll)
		c.op = RRWrite{rank(1, 1), []byte("blue")}
		now := machine.Mono(time.Hour)
		c.wrote(now, RRVerdict{Above: rank(2, 2)})
		if c.alarm <= now || c.alarm > now.Add(poll) || seen[c.alarm] {
			t.Errorf("a process whose id begins with %d waits for %v, want up to %v, and not as long as another", first, c.alarm.Sub(now), poll)
		}
		seen[c.alarm] = true
	}
}

// A process leads up to the deadline that it heard of last, and not at it: a leader reads under a rank of its own,
// and any other looks for a decision.
func TestLeadsUntilTheLastDeadline(t *testing.T) {
	me, leads := machine.ID{15: 1}, any(RRRead{Rank{1, machine.ID{15: 1}}})
	for _, tt := range []struct {
		name  string
		hears []ConsensusInput
		at    machine.Mono
		want  any
	}{
		{"never led", nil, 0, RRRead{}},
		{"before its deadline", []ConsensusInput{Leads{Deadline: 100}}, 99, leads},
		{"at its deadline", []ConsensusInput{Leads{Deadline: 100}}, 100, RRRead{}},
		{"before its later deadline", []ConsensusInput{Leads{Deadline: 100}, Leads{Deadline: 200}}, 199, leads},
		{"at its earlier deadline", []ConsensusInput{Leads{Deadline: 200}, Leads{Deadline: 100}}, 100, RRRead{}},
		{"as a follower", []ConsensusInput{Leads{Deadline: 100}, Follows{}}, 0, RRRead{}},
	} {
		c := NewConsensus(me, time.Second)
		for _, in := range tt.hears {
			c.Step(machine.Now{}, in)
		}
		c.Step(machine.Now{Mono: tt.at}, Propose{[]byte("blue")})
		if got := c.Ready().Accesses; len(got) != 1 || got[0].Op != tt.want {
			t.Errorf("%s: its proposal begins with %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
