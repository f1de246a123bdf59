package quorumregister

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

const (
	quiet = 10 * time.Second
	retry = time.Second
)

var (
	me, ann, zoe = machine.ID{5}, machine.ID{1}, machine.ID{9}
	errBroken    = errors.New("broken")
)

// stage is a client whose bases the test plays by hand.
type stage struct {
	t     *testing.T
	m     machine.Storing[machine.Access, Outcome]
	now   machine.Mono
	alarm machine.Mono
	open  []machine.Access // begun, by base; nothing has answered them
	done  []machine.Accessed
	told  []any // other outcomes
	took  []time.Duration
	asked int // accesses so far
	ops   uint64
}

func newStage(t *testing.T, n int, atomic bool) *stage {
	s := &stage{t: t, m: Client(Config{Writer: me, Bases: n, Atomic: atomic, Quiet: quiet, Retry: retry})}
	s.step(labstage.Wake{})
	return s
}

func (s *stage) step(input any) {
	labstage.Feed(s.m, machine.Now{Mono: s.now}, input)
	rd := s.m.Ready()
	for _, a := range rd.Accesses {
		s.asked++
		for _, o := range s.open {
			if o.At == a.At {
				s.t.Errorf("base %d is asked %v while it is busy with %v", a.At, a.Op, o.Op)
			}
		}
		s.open = append(s.open, a)
	}
	for _, out := range rd.Outcomes {
		switch event := out.Event.(type) {
		case nil:
			s.done = append(s.done, out.Accessed)
		case Took:
			s.took = append(s.took, event.Time)
		default:
			s.told = append(s.told, event)
		}
	}
	s.alarm = rd.Alarm
}

// do asks for an operation.
func (s *stage) do(op any) {
	s.ops++
	s.step(machine.Access{ID: s.ops, Op: op})
}

// wait lets time pass, and wakes the machine if it wants to be.
func (s *stage) wait(d time.Duration) {
	s.now = s.now.Add(d)
	if s.alarm <= s.now {
		s.step(labstage.Wake{})
	}
}

// answer ends the access of a base, which has to be of the same kind as op.
func (s *stage) answer(base int, op, reply any) {
	s.t.Helper()
	s.end(base, op, machine.Accessed{Reply: reply})
}

func (s *stage) fail(base int) {
	s.t.Helper()
	s.end(base, nil, machine.Accessed{Err: errBroken})
}

func (s *stage) end(base int, op any, a machine.Accessed) {
	s.t.Helper()
	i := slices.IndexFunc(s.open, func(a machine.Access) bool { return a.At == base })
	if i < 0 {
		s.t.Fatalf("base %d is asked nothing; want %T", base, op)
	}
	if op != nil && fmt.Sprintf("%T", s.open[i].Op) != fmt.Sprintf("%T", op) {
		s.t.Fatalf("base %d is asked %T %v; want %T", base, s.open[i].Op, s.open[i].Op, op)
	}
	a.ID = s.open[i].ID
	s.open = slices.Delete(s.open, i, i+1)
	s.step(a)
}

// put returns the Put that a base is asked for.
func (s *stage) put(base int) Put {
	s.t.Helper()
	for _, a := range s.open {
		if p, ok := a.Op.(Put); ok && a.At == base {
			return p
		}
	}
	s.t.Fatalf("base %d is not asked to put anything; open: %v", base, s.open)
	return Put{}
}

// idle wants nothing to be asked of a base.
func (s *stage) idle(base int) {
	s.t.Helper()
	for _, a := range s.open {
		if a.At == base {
			s.t.Errorf("base %d is asked %v, want nothing", base, a.Op)
		}
	}
}

// pending wants no operation to have ended since the last look.
func (s *stage) pending() {
	s.t.Helper()
	if len(s.done) > 0 {
		s.t.Fatalf("ended early: %+v", s.done)
	}
}

// ended wants one operation to have ended since the last look.
func (s *stage) ended() machine.Accessed {
	s.t.Helper()
	if len(s.done) != 1 {
		s.t.Fatalf("ended: %+v, want one; open: %v", s.done, s.open)
	}
	a := s.done[0]
	s.done = nil
	return a
}

// wantRead wants a read to have ended with a version and data.
func (s *stage) wantRead(v machine.Version, data string) machine.Value {
	s.t.Helper()
	a := s.ended()
	got, ok := a.Reply.(machine.Value)
	if a.Err != nil || !ok || got.Version != v || string(got.Data) != data {
		s.t.Errorf("read %v %q, %v; want %v %q", got.Version, got.Data, a.Err, v, data)
	}
	return got
}

// wrote wants a write to have ended under a version.
func (s *stage) wrote(v machine.Version) {
	s.t.Helper()
	if a := s.ended(); a.Err != nil || a.Reply != any(v) {
		s.t.Errorf("the write ended with %v, %v; want %v", a.Reply, a.Err, v)
	}
}

// wantFailed wants an operation to have failed so.
func (s *stage) wantFailed(want error, text string) {
	s.t.Helper()
	if a := s.ended(); !errors.Is(a.Err, want) || !strings.Contains(a.Err.Error(), text) {
		s.t.Errorf("ended with %v, %v; want an error that is %v and says %q", a.Reply, a.Err, want, text)
	}
}

// wantOutcomes wants these outcomes since the last look.
func (s *stage) wantOutcomes(want ...any) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.told, cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })); diff != "" {
		s.t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	s.told = nil
}

func version(seq uint64, w machine.ID) machine.Version { return machine.Version{Seq: seq, Writer: w} }

func state(seq uint64, w machine.ID, data string, notes ...Note) State {
	return State{Version: version(seq, w), Data: []byte(data), Notes: notes}
}
