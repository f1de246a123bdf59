package disklease

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// claimed is a claim that reports what the test tells it to, and keeps its inputs.
type claimed struct {
	id     machine.ID
	inputs []any
	rd     machine.Ready[Outcome]
}

func (c *claimed) Step(_ machine.Now, input LeaseInput) { c.inputs = append(c.inputs, input) }
func (c *claimed) Wake(machine.Now)                     { c.inputs = append(c.inputs, stage.Wake{}) }
func (c *claimed) Accessed(_ machine.Now, a machine.Accessed) {
	c.inputs = append(c.inputs, a)
}

func (c *claimed) Ready() machine.Ready[Outcome] {
	rd := c.rd
	c.rd = machine.Ready[Outcome]{Alarm: rd.Alarm}
	return rd
}

// stand is an oracle with all the claims that it has made.
type stand struct {
	t      *testing.T
	o      *Oracle
	claims []*claimed
}

func newStand(t *testing.T) *stand {
	s := &stand{t: t}
	s.o = NewOracle(machine.ID{7}, func(id machine.ID) Claim {
		s.claims = append(s.claims, &claimed{id: id, rd: machine.Ready[Outcome]{Alarm: machine.Never}})
		return s.claims[len(s.claims)-1]
	}, machine.Now{})
	return s
}

// report has the latest claim report something, and returns what the oracle reports.
func (s *stand) report(at machine.Mono, outcomes ...Outcome) []Outcome {
	c := s.claims[len(s.claims)-1]
	c.rd.Outcomes = outcomes
	s.o.Wake(machine.Now{Mono: at})
	return s.o.Ready().Outcomes
}

func (s *stand) want(after string, got any, want ...any) {
	s.t.Helper()
	if fmt.Sprintf("%v", got) != fmt.Sprintf("%v", want) {
		s.t.Errorf("%s: got %v, want %v", after, got, want)
	}
}

func TestOracle(t *testing.T) {
	s := newStand(t)
	if s.o.IsLeader(0) {
		t.Error("it leads from the start")
	}
	trouble := Trouble{errors.New("the store failed")}
	s.want("trouble is passed on", s.report(1, trouble), trouble)
	s.want("acquired", s.report(1, Acquired{Token: 5, Deadline: 100}), Leads{5, 100})
	s.want("renewed", s.report(50, Renewed{Deadline: 150}), Leads{5, 150})
	for at, want := range map[machine.Mono]bool{50: true, 149: true, 150: false, 1000: false} {
		if got := s.o.IsLeader(at); got != want {
			t.Errorf("IsLeader(%d) = %t, want %t", at, got, want)
		}
	}
	s.want("lost", s.report(120, Lost{"why"}), Follows{"why"})
	if s.o.IsLeader(120) {
		t.Error("it leads though the lease is lost")
	}

	s.want("the old claim is over", s.report(121, Left{}))
	if len(s.claims) != 2 {
		t.Fatalf("%d claims, want a second one", len(s.claims))
	}
	first, second := s.claims[0], s.claims[1]
	s.want("the outcomes of the first claim", first.inputs, Acquire{}, stage.Wake{}, stage.Wake{}, stage.Wake{}, stage.Wake{}, Leave{}, stage.Wake{})
	s.want("the outcomes of the second claim", second.inputs, Acquire{})
	if first.id == second.id {
		t.Error("two claims have one ID")
	}
	if s.o.Writer() != second.id {
		t.Errorf("the writer is %v, want %v", s.o.Writer(), second.id)
	}
	s.want("acquired again", s.report(130, Acquired{Token: 9, Deadline: 300}), Leads{9, 300})
}

// An oracle begins at once: its first effects are there when it is made.
func TestAnOracleBegins(t *testing.T) {
	first := machine.Access{ID: 1, Op: machine.Read{}}
	o := NewOracle(machine.ID{7}, func(machine.ID) Claim {
		return &claimed{rd: machine.Ready[Outcome]{Accesses: []machine.Access{first}, Alarm: 50}}
	}, machine.Now{})
	if rd := o.Ready(); len(rd.Accesses) != 1 || rd.Accesses[0] != first || rd.Alarm != 50 {
		t.Errorf("a new oracle has %+v to do, want the look of its claim and the alarm of that", rd)
	}
}

func TestOracleLeaves(t *testing.T) {
	s := newStand(t)
	s.report(1, Acquired{Token: 5, Deadline: 100})
	s.o.Step(machine.Now{Mono: 2}, Leave{})
	s.want("told to leave", s.o.Ready().Outcomes, Follows{"it was told to leave"})
	s.want("a renewal that ends late", s.report(3, Renewed{Deadline: 200}))
	if s.o.IsLeader(3) {
		t.Error("it leads though it was told to leave")
	}
	s.want("left", s.report(4, Left{}), Left{})
	if len(s.claims) != 1 {
		t.Errorf("%d claims, want no other", len(s.claims))
	}
	s.o.Wake(machine.Now{Mono: 5}) // with no claim
	if alarm := s.o.Ready().Alarm; alarm != machine.Never {
		t.Errorf("the alarm is at %d, want Never", alarm)
	}

	s.o.Step(machine.Now{Mono: 6}, Acquire{})
	s.want("acquired again", s.report(7, Acquired{Token: 6, Deadline: 300}), Leads{6, 300})
	if len(s.claims) != 2 {
		t.Errorf("%d claims, want 2", len(s.claims))
	}
}

// TestOracleTellsClaimsApart has a base answer an earlier claim.
func TestOracleTellsClaimsApart(t *testing.T) {
	s := newStand(t)
	s.claims[0].rd.Accesses = []machine.Access{{ID: 1, Op: machine.Read{}}, {ID: 2, Op: machine.Read{}}}
	s.report(1, Lost{"why"})
	s.claims[0].rd.Outcomes = []Outcome{Left{}}
	s.o.Wake(machine.Now{})
	s.claims[1].rd.Accesses = []machine.Access{{ID: 1, At: 3, Op: machine.Read{}}}
	s.o.Wake(machine.Now{})
	begun := s.o.Ready().Accesses
	if len(begun) != 1 || begun[0].ID != 3 || begun[0].At != 3 {
		t.Fatalf("the second claim begins %v, want one access with ID 3", begun)
	}
	s.claims[1].inputs = nil
	s.o.Accessed(machine.Now{}, machine.Accessed{ID: 1, Reply: "for the first claim"})
	s.o.Accessed(machine.Now{}, machine.Accessed{ID: 3, Reply: "for the second"})
	s.want("the second claim", s.claims[1].inputs, machine.Accessed{ID: 1, Reply: "for the second"})

	s.report(1, Lost{"why"})
	s.report(1, Left{})
	s.claims[2].rd.Accesses = []machine.Access{{ID: 1, Op: machine.Read{}}}
	s.o.Wake(machine.Now{})
	if begun := s.o.Ready().Accesses; len(begun) != 1 || begun[0].ID != 4 {
		t.Errorf("the third claim begins %v, want one access with ID 4, which neither of the first two has had", begun)
	}
}

// led is a consensus that notes when it is told to lead.
type led struct {
	Proposer
	at []machine.Mono
}

func (l *led) Step(now machine.Now, input ConsensusInput) {
	if _, leads := input.(Leads); leads {
		l.at = append(l.at, now.Mono)
	}
	l.Proposer.Step(now, input)
}

// The consensus is told that it leads at the time of the step that the oracle learned it in, whatever step that is.
// Else it would begin with a look for a decision, or its alarm would be long over.
func TestWhenAConsensusIsTold(t *testing.T) {
	oracle, consensus := &claimed{}, &led{Proposer: NewConsensus(machine.ID{7}, time.Second)}
	e := NewElected(oracle, consensus, 1)
	for at, step := range []func(now machine.Now){
		func(now machine.Now) { e.Step(now, Acquire{}) },
		func(now machine.Now) { e.Wake(now) },
		func(now machine.Now) { e.Accessed(now, machine.Accessed{ID: 2}) },
		func(now machine.Now) { e.Wake(now) },
	} {
		oracle.rd.Outcomes = []Outcome{Leads{Token: 5, Deadline: 100}}
		step(machine.Now{Mono: machine.Mono(at + 1)})
		e.Ready()
	}
	if want := []machine.Mono{1, 2, 3, 4}; !slices.Equal(consensus.at, want) {
		t.Errorf("the consensus is told that it leads at %v, want %v", consensus.at, want)
	}
}

// TestElected has a process acquire a real lease, decide, and go on leading.
func TestElected(t *testing.T) {
	id := machine.ID{7}
	var now machine.Mono
	o := NewOracle(id, func(id machine.ID) Claim {
		lease, err := New(Config{ID: id, Term: time.Second, Delay: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}, machine.Now{})
	e := NewElected(o, RankedOverNotes(NewConsensus(id, 10*time.Millisecond), id, 0), 1)
	e.Step(machine.Now{}, Propose{[]byte("blue")})

	var registers [2]machine.Value
	serve := func(a machine.Access) any {
		v := &registers[a.At]
		switch op := a.Op.(type) {
		case machine.Write:
			v.Version.Seq, v.Version.Writer, v.Data = v.Version.Seq+1, id, op.Data
			return v.Version
		case machine.Note:
			writer := id
			if a.At == 0 {
				writer = o.Writer()
			}
			v.Notes = []machine.Noted{{Writer: writer, Data: op.Data}}
			return nil
		}
		shown := *v
		shown.Next = v.Version.Seq + 1
		return shown
	}
	leads, decided := 0, []string{}
	for now < machine.Mono(2*time.Second) {
		rd := e.Ready()
		for _, out := range rd.Outcomes {
			switch out := out.(type) {
			case Leads:
				leads++
			case Decided:
				decided = append(decided, string(out.Value))
			case Trouble, Follows:
				t.Errorf("%T: %v", out, out)
			}
		}
		if len(rd.Accesses) == 0 {
			now = rd.Alarm
			e.Wake(machine.Now{Mono: now})
		}
		for _, a := range rd.Accesses {
			e.Accessed(machine.Now{Mono: now}, machine.Accessed{ID: a.ID, Reply: serve(a)})
		}
	}
	if want := []string{"blue"}; !slices.Equal(decided, want) {
		t.Errorf("decided %q, want %q", decided, want)
	}
	if leads < 4 || !o.IsLeader(now) {
		t.Errorf("after two terms it was told %d times that it leads, and IsLeader says %t", leads, o.IsLeader(now))
	}
	if got, ok, err := Decision(registers[1]); string(got) != "blue" || !ok || err != nil {
		t.Errorf("the register shows %q, %t, %v; want the decision", got, ok, err)
	}
}
