package disklease

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

var rewrite = flag.Bool("rewrite-scripts", false, "rewrite the expected output in testdata/consensus")

// TestConsensusScripts tells the main stories. A line that begins with "> " is a command
// (see chamber.do); the lines behind it, up to a blank line or the next command, are the
// result. Everything else is explanation.
func TestConsensusScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/consensus/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(raw))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(raw) {
				t.Errorf("got\n%s\nwant\n%s\nIf that is as it should be, run with -rewrite-scripts, and say why in the commit", got, raw)
			}
		})
	}
}

// play runs a script and returns it with the output in its place.
func play(t *testing.T, script string) string {
	t.Helper()
	c := &chamber{t: t, seats: map[string]*seat{}}
	var out strings.Builder
	output := false // what follows is old output
	for line := range strings.Lines(script) {
		switch command, is := strings.CutPrefix(line, "> "); {
		case is:
			output = true
			out.WriteString(line)
			c.said = nil
			c.do(strings.Fields(command))
			for _, l := range c.said {
				out.WriteString(l + "\n")
			}
		case output && strings.TrimSpace(line) != "":
		default:
			output = false
			out.WriteString(line)
		}
	}
	return out.String()
}

// chamber is where processes meet over one register, or over three bases. An access
// waits until the script says that it is done.
type chamber struct {
	t     *testing.T
	now   machine.Mono
	bases []Ranked // nil: the register
	value machine.Value
	seats map[string]*seat
	said  []string
}

type seat struct {
	name    string
	id      machine.ID
	m       Proposer
	pending []machine.Access
	alarm   machine.Mono
}

func (c *chamber) do(args []string) {
	of := func(name string) *seat {
		s := c.seats[name]
		if s == nil {
			c.t.Fatalf("nobody is called %q", name)
		}
		return s
	}
	switch args[0] {
	case "bases": // three of them, instead of a register
		c.bases = make([]Ranked, 3)
	case "propose": // name value
		if c.seats[args[1]] == nil {
			c.sit(args[1])
		}
		c.step(of(args[1]), Propose{[]byte(args[2])})
	case "lead": // name
		c.step(of(args[1]), Leads{Deadline: c.now.Add(time.Minute)})
	case "follow": // name
		c.step(of(args[1]), Follows{})
	case "do": // name [base]: its access that waits longest, or that to the base
		s := of(args[1])
		a := c.take(s, args[2:])
		c.end(s, a, c.perform(s, a), nil)
	case "fail": // name [base]: the same, but its reply is lost
		s := of(args[1])
		a := c.take(s, args[2:])
		c.perform(s, a)
		c.end(s, a, nil, errFailed)
	case "run": // name: do, until it waits for nothing
		for s := of(args[1]); len(s.pending) > 0; {
			a := c.take(s, nil)
			c.end(s, a, c.perform(s, a), nil)
		}
	case "crash": // name
		delete(c.seats, args[1])
	case "pass": // time
		d, err := time.ParseDuration(args[1])
		if err != nil {
			c.t.Fatal(err)
		}
		c.now = c.now.Add(d)
		for _, name := range []string{"ann", "bob", "cem"} {
			if s := c.seats[name]; s != nil && s.alarm <= c.now {
				c.step(s, stage.Wake{})
			}
		}
	default:
		c.t.Fatalf("no command %q", args[0])
	}
}

func (c *chamber) sit(name string) {
	s := &seat{name: name, id: machine.ID{0: name[0]}}
	consensus := NewConsensus(s.id, 100*time.Millisecond)
	if s.m = RankedOverNotes(consensus, s.id, 0); c.bases != nil {
		s.m = RankedOverBases(consensus, len(c.bases), 10*time.Millisecond)
	}
	c.seats[name] = s
}

func (c *chamber) step(s *seat, input any) {
	stage.Feed(s.m, machine.Now{Mono: c.now}, input)
	rd := s.m.Ready()
	s.alarm = rd.Alarm
	for _, a := range rd.Accesses {
		s.pending = append(s.pending, a)
		c.say("%s begins: %s", s.name, c.tell(a))
	}
	for _, out := range rd.Outcomes {
		switch out := out.(type) {
		case Decided:
			c.say("%s: decided %s", s.name, out.Value)
		case Trouble:
			c.say("%s: trouble: %v", s.name, out.Err)
		}
	}
}

func (c *chamber) take(s *seat, base []string) machine.Access {
	i := slices.IndexFunc(s.pending, func(a machine.Access) bool { return len(base) == 0 || fmt.Sprint(a.At) == base[0] })
	if i < 0 {
		c.t.Fatalf("%s waits for nothing", s.name)
	}
	a := s.pending[i]
	s.pending = slices.Delete(s.pending, i, i+1)
	return a
}

func (c *chamber) end(s *seat, a machine.Access, reply any, err error) {
	switch reply := reply.(type) {
	case RRSeen:
		c.say("base %d shows %s to %s", a.At, seen(reply.Rank, reply.Value), s.name)
	case RRVerdict:
		if reply.Commit {
			c.say("base %d accepts it from %s", a.At, s.name)
		} else {
			c.say("base %d refuses %s, for %s", a.At, s.name, short(reply.Above))
		}
	}
	c.step(s, machine.Accessed{ID: a.ID, Reply: reply, Err: err})
}

func (c *chamber) perform(s *seat, a machine.Access) any {
	switch op := a.Op.(type) {
	case machine.Read:
		v := c.value
		v.Notes = slices.Clone(v.Notes)
		v.Next = v.Version.Seq + 1
		return v
	case machine.Note:
		i, found := slices.BinarySearchFunc(c.value.Notes, s.id, func(n machine.Noted, id machine.ID) int { return n.Writer.Compare(id) })
		if !found {
			c.value.Notes = slices.Insert(c.value.Notes, i, machine.Noted{Writer: s.id})
		}
		c.value.Notes[i].Data = op.Data
		return nil
	case machine.Write:
		c.value.Version, c.value.Data = machine.Version{Seq: c.value.Version.Seq + 1, Writer: s.id}, op.Data
		return c.value.Version
	}
	return c.bases[a.At].Do(a.Op)
}

// tell describes an access.
func (c *chamber) tell(a machine.Access) string {
	switch op := a.Op.(type) {
	case machine.Read:
		return "read all"
	case machine.Note:
		b, err := decodeBlock(op.Data)
		if err != nil {
			c.t.Fatal(err)
		}
		return fmt.Sprintf("note mbal %s, %s", short(b.mbal), seen(b.bal, b.value))
	case machine.Write:
		return fmt.Sprintf("write the decision %s", op.Data[1:])
	case RRRead:
		return fmt.Sprintf("base %d, read under %s", a.At, short(op.Rank))
	case RRWrite:
		return fmt.Sprintf("base %d, write %s", a.At, seen(op.Rank, op.Value))
	}
	return fmt.Sprintf("%T", a.Op)
}

func (c *chamber) say(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

func short(r Rank) string {
	switch r {
	case Rank{}:
		return "0"
	case last:
		return "last"
	}
	return fmt.Sprintf("%d%c", r.Counter, r.ID[0])
}

func seen(r Rank, value []byte) string {
	if r == (Rank{}) {
		return "nothing"
	}
	return fmt.Sprintf("%s under %s", value, short(r))
}
