package quorumregister

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestAWriteGoesBeyondEverythingSeen(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b State
		want uint64
	}{
		{"nothing there", State{}, State{}, 1},
		{"versions", state(3, ann, "x"), state(7, zoe, "y"), 8},
		{"a floor above", state(3, ann, "x"), State{Floor: 20}, 21},
		{"a floor below", state(3, ann, "x"), State{Floor: 2}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, 3, true)
			s.do(machine.Write{Data: []byte("new")})
			s.answer(0, Query{}, c.a)
			s.pending()
			s.answer(1, Query{}, c.b)
			if got := s.put(0); got.Version != version(c.want, me) || string(got.Data) != "new" {
				t.Errorf("put %v %q", got.Version, got.Data)
			}
			s.answer(0, Put{}, nil)
			s.pending()
			s.answer(1, Put{}, nil)
			s.wrote(version(c.want, me))
			if s.asked != 5 {
				t.Errorf("%d accesses, want 5: base 2 has not answered its first", s.asked)
			}
		})
	}
}

func TestAWriteUnderASeqPutsAtOnce(t *testing.T) {
	s := newStage(t, 3, true)
	s.do(machine.Read{})
	s.answer(0, Query{}, state(3, ann, "x"))
	s.answer(1, Query{}, state(3, ann, "x"))
	next := s.wantRead(version(3, ann), "x").Next
	if next != 4 {
		t.Errorf("Next = %d, want 4", next)
	}
	s.do(machine.Write{Data: []byte("new"), Seq: next})
	s.answer(0, Put{}, nil)
	s.answer(1, Put{}, nil)
	s.wrote(version(4, me))

	s.do(machine.Write{Data: []byte("other"), Seq: next})
	s.wantFailed(errVersion, "read the register again")
}

func TestTheVersionOfAFailedWriteIsNotUsedAgain(t *testing.T) {
	s := newStage(t, 1, true)
	s.do(machine.Write{Data: []byte("stuck")})
	s.answer(0, Query{}, State{})
	s.fail(0)
	s.wantFailed(ErrMinority, "store 0: broken")

	s.do(machine.Read{})
	s.answer(0, Query{}, State{})
	if got := s.wantRead(machine.Version{}, "").Next; got != 2 {
		t.Errorf("Next = %d after the write under 1 failed, want 2", got)
	}
	s.do(machine.Write{Data: []byte("second")})
	s.answer(0, Query{}, State{})
	s.answer(0, Put{}, nil)
	s.wrote(version(2, me))
}

func TestNoVersionAfterTheLast(t *testing.T) {
	s := newStage(t, 1, true)
	s.do(machine.Write{})
	s.answer(0, Query{}, State{Floor: math.MaxUint64})
	s.wantFailed(ErrExhausted, "damaged")
	s.do(machine.Read{})
	s.answer(0, Query{}, State{Floor: math.MaxUint64})
	s.wantRead(machine.Version{}, "")
}

func TestReads(t *testing.T) {
	for _, c := range []struct {
		name         string
		atomic       bool
		before, a, b State // before: what base 0 and 2 showed to an earlier read
		want         string
		back         []int // who is asked to hold it
	}{
		{name: "regular, disagreeing", a: state(3, ann, "old"), b: state(4, zoe, "new"), want: "new"},
		{name: "atomic, agreeing", atomic: true, a: state(4, zoe, "new"), b: state(4, zoe, "new"), want: "new"},
		{name: "atomic, empty", atomic: true},
		{name: "atomic, disagreeing", atomic: true, a: state(3, ann, "old"), b: state(4, zoe, "new"), want: "new", back: []int{0}},
		{name: "ties go by the writer", atomic: true, a: state(4, ann, "old"), b: state(4, zoe, "new"), want: "new", back: []int{0}},
		{name: "atomic, disagreeing, but the third is known to hold it", atomic: true, before: state(3, ann, "new"),
			a: state(3, ann, "new"), b: state(2, zoe, "old"), want: "new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, 3, c.atomic)
			if c.before.Version.Seq > 0 {
				s.do(machine.Read{})
				s.answer(0, Query{}, c.before)
				s.answer(2, Query{}, c.before)
				s.ended()
				s.answer(1, Query{}, State{})
			}
			s.do(machine.Read{})
			s.answer(0, Query{}, c.a)
			s.pending()
			s.answer(1, Query{}, c.b)
			for _, base := range c.back {
				s.pending()
				s.answer(base, Put{}, nil)
			}
			s.wantRead(max2(c.a, c.b).Version, c.want)
			s.idle(1)
		})
	}
}

func max2(a, b State) State {
	if a.Version.Compare(b.Version) > 0 {
		return a
	}
	return b
}

func TestNotesAreMergedByTheirNumber(t *testing.T) {
	note := func(w machine.ID, seq uint64, data string) Note { return Note{w, seq, []byte(data)} }
	s := newStage(t, 3, true)
	s.do(machine.Note{Data: []byte("mine")})
	s.answer(0, PutNote{}, nil)
	s.pending()
	s.answer(2, PutNote{}, nil)
	if a := s.ended(); a.Err != nil || a.Reply != nil {
		t.Errorf("the note ended with %+v", a)
	}
	s.do(machine.Read{})
	s.answer(0, Query{}, State{Notes: []Note{note(zoe, 2, "old"), note(me, 1, "mine"), note(ann, 1, "ann's")}})
	s.answer(2, Query{}, State{Notes: []Note{note(zoe, 10, "new"), note(me, 1, "mine")}})
	want := []machine.Noted{{Writer: ann, Data: []byte("ann's")}, {Writer: me, Data: []byte("mine")}, {Writer: zoe, Data: []byte("new")}}
	if diff := cmp.Diff(want, s.wantRead(machine.Version{}, "").Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	s.wantOutcomes()
}

// A version that one base alone has shown is written back before a read returns it, the first
// version, too.
func TestTheFirstVersionIsWrittenBack(t *testing.T) {
	s := newStage(t, 3, true)
	s.do(machine.Read{})
	s.answer(0, Query{}, state(1, ann, "x"))
	s.answer(1, Query{}, State{})
	s.pending()
	if got := s.put(1); got.Version != version(1, ann) || string(got.Data) != "x" {
		t.Errorf("base 1 is given %v %q, want what base 0 has shown", got.Version, got.Data)
	}
	s.answer(1, Put{}, nil)
	s.wantRead(version(1, ann), "x")
}

// Of two bases one may have notes of writers that come behind all that the other knows. What
// a base has shown is left as it is.
func TestNotesOfOneBaseAlone(t *testing.T) {
	for _, first := range []int{0, 1} {
		s := newStage(t, 3, true)
		s.do(machine.Read{})
		states := []State{{Notes: []Note{{ann, 1, []byte("a")}}}, {Notes: []Note{{zoe, 2, []byte("z")}, {me, 3, []byte("m")}}}}
		s.answer(first, Query{}, states[first])
		s.answer(1-first, Query{}, states[1-first])
		want := []machine.Noted{{Writer: ann, Data: []byte("a")}, {Writer: me, Data: []byte("m")}, {Writer: zoe, Data: []byte("z")}}
		if diff := cmp.Diff(want, s.wantRead(machine.Version{}, "").Notes); diff != "" {
			t.Errorf("base %d first: notes (-want +got):\n%s", first, diff)
		}
		if states[1].Notes[0].Writer != zoe {
			t.Error("the notes that a base has shown were put in order in its own memory")
		}
	}
}

// The time of an operation counts from when it was asked for, and is told if it succeeded.
func TestHowLongAnOperationTook(t *testing.T) {
	s := newStage(t, 1, true)
	s.now = machine.Mono(time.Hour)
	s.do(machine.Read{})
	s.do(machine.Note{Data: []byte("n")}) // it waits
	s.wait(2 * time.Second)
	s.answer(0, Query{}, State{})
	s.wait(time.Second)
	s.answer(0, PutNote{}, nil)
	s.do(machine.Read{})
	s.fail(0)
	if diff := cmp.Diff([]time.Duration{2 * time.Second, 3 * time.Second}, s.took); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
}

// The end of no access says nothing of any base.
func TestTheEndOfNoAccess(t *testing.T) {
	s := newStage(t, 3, true)
	s.step(machine.Accessed{Err: errBroken})
	s.wantOutcomes()
	s.do(machine.Read{})
	s.answer(0, Query{}, State{})
	s.step(machine.Accessed{Err: errBroken})
	s.wantOutcomes()
	s.answer(1, Query{}, State{})
	s.wantRead(machine.Version{}, "")
}

// A failure counts for the round in which a base was asked, until the base succeeds in it.
func TestWhatAFailureCountsFor(t *testing.T) {
	s := newStage(t, 3, true)
	s.do(machine.Read{})
	s.answer(0, Query{}, State{})
	s.answer(1, Query{}, State{})
	s.wantRead(machine.Version{}, "")
	s.do(machine.Read{})
	s.fail(2)                     // at last; it was asked for the first
	s.answer(2, Query{}, State{}) // and is asked for the second at once
	s.wantOutcomes(Failing{2, errBroken}, Failing{2, nil})
	s.fail(0)
	s.wantOutcomes(Failing{0, errBroken})
	s.wait(retry)
	s.answer(1, Query{}, State{})
	s.wantRead(machine.Version{}, "")
	s.answer(0, Query{}, State{})
	s.wantOutcomes(Failing{0, nil})

	s.do(machine.Note{})
	s.fail(0)
	s.wait(retry)
	s.answer(0, PutNote{}, nil)
	s.fail(1)
	s.pending() // two have failed, and one of them has succeeded since
	s.answer(2, PutNote{}, nil)
	if a := s.ended(); a.Err != nil {
		t.Errorf("two stores of three have taken a note: %v", a.Err)
	}
	s.wantOutcomes(Failing{0, errBroken}, Failing{0, nil}, Failing{1, errBroken})
	s.do(machine.Note{})
	s.fail(0)
	s.wantOutcomes(Failing{0, errBroken})
}

// Of four bases two that fail leave no majority.
func TestHalfOfTheBasesFail(t *testing.T) {
	s := newStage(t, 4, true)
	s.do(machine.Read{})
	s.fail(0)
	s.pending()
	s.fail(3)
	s.wantFailed(ErrMinority, "store 0: broken; store 3: broken")
}

func TestAHungBaseGetsNothingMoreAndThenTheNewest(t *testing.T) {
	s := newStage(t, 3, true)
	s.do(machine.Read{})
	s.answer(0, Query{}, state(1, ann, "x"))
	s.answer(1, Query{}, state(1, ann, "x"))
	s.wantRead(version(1, ann), "x")
	for seq := uint64(2); seq < 5; seq++ { // base 2 hangs: stage fails if it is asked again
		s.do(machine.Write{Data: []byte("y")})
		for _, base := range []int{0, 1} {
			s.answer(base, Query{}, state(seq-1, me, "y"))
		}
		for _, base := range []int{0, 1} {
			s.answer(base, Put{}, nil)
		}
		s.wrote(version(seq, me))
	}
	s.do(machine.Write{Data: []byte("z")})
	s.answer(0, Query{}, state(4, me, "y"))
	s.answer(1, Query{}, state(4, me, "y"))
	s.answer(2, Query{}, state(1, ann, "x")) // the answer to the first, at last
	if got := s.put(2).Version; got != version(5, me) {
		t.Errorf("base 2 is asked to put %v, want the newest", got)
	}
	s.wantOutcomes()
}

func TestALateAnswerDoesNotCount(t *testing.T) {
	s := newStage(t, 3, false)
	s.do(machine.Read{})
	s.answer(0, Query{}, State{})
	s.answer(1, Query{}, State{})
	s.wantRead(machine.Version{}, "")
	s.do(machine.Read{})
	s.answer(0, Query{}, State{})
	s.answer(2, Query{}, State{}) // it may have looked before this read began
	s.pending()
	s.answer(2, Query{}, state(1, ann, "x"))
	s.wantRead(version(1, ann), "x")
}

func TestFailuresAreTriedAgainUntilTheyAreTooMany(t *testing.T) {
	s := newStage(t, 3, true)
	s.do(machine.Read{})
	s.fail(1)
	s.wantOutcomes(Failing{1, errBroken})
	s.answer(0, Query{}, State{})
	s.wait(retry - 1)
	s.idle(1)
	s.wait(1)
	s.fail(1)
	s.wait(retry)
	s.wantOutcomes()
	s.answer(1, Query{}, State{})
	s.wantRead(machine.Version{}, "")
	s.wantOutcomes(Failing{1, nil})

	s.do(machine.Read{}) // 2 still hangs
	s.fail(0)
	s.pending()
	s.fail(1)
	s.wantFailed(ErrMinority, "store 0: broken; store 1: broken")
	if s.alarm != machine.Never {
		t.Error("an alarm though there is nothing to do")
	}
	s.do(machine.Note{}) // a new operation asks at once
	s.answer(0, PutNote{}, nil)
	s.answer(1, PutNote{}, nil)
	s.ended()
}

func TestOperationsQueue(t *testing.T) {
	s := newStage(t, 1, true)
	s.do(machine.Write{Data: []byte("a")})
	s.do(machine.Read{})
	s.answer(0, Query{}, State{})
	s.answer(0, Put{}, nil)
	s.wrote(version(1, me))
	s.answer(0, Query{}, state(1, me, "a"))
	s.wantRead(version(1, me), "a")
}

func TestWhatItCannotServeIsABug(t *testing.T) {
	for name, a := range map[string]machine.Access{
		"another register": {ID: 1, At: 1, Op: machine.Read{}},
		"another op":       {ID: 1, Op: Query{}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was served")
				}
			}()
			newStage(t, 1, true).step(a)
		})
	}
}

// An error tells how each store failed in this operation, though it failed in another way before.
func TestTheErrorThatIsTold(t *testing.T) {
	s := newStage(t, 1, true)
	errFull := errors.New("full")
	for _, want := range []error{errBroken, errFull} {
		s.do(machine.Read{})
		s.end(0, Query{}, machine.Accessed{Err: want})
		s.wantFailed(want, "store 0: "+want.Error())
		s.wait(retry)
	}
	s.wantOutcomes(Failing{0, errBroken}) // it is told once that it fails
}
