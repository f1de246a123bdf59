package quorumregister

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestWhatShowsThatABaseWentBack(t *testing.T) {
	note := func(w machine.ID, seq uint64) Note { return Note{Writer: w, Seq: seq} }
	for _, c := range []struct {
		name string
		then State // before: version 5 of ann's, floor 7, notes ann 3 and me 2
		want bool
	}{
		{"nothing changed", State{Version: version(5, ann), Floor: 7, Notes: []Note{note(ann, 3), note(me, 2)}}, false},
		{"all went on", State{Version: version(9, zoe), Floor: 9, Notes: []Note{note(ann, 4), note(me, 2), note(zoe, 1)}}, false},
		{"the floor may be the version's", State{Version: version(8, zoe), Notes: []Note{note(me, 2)}}, false},
		{"a smaller version", State{Version: version(4, ann), Floor: 7, Notes: []Note{note(ann, 3), note(me, 2)}}, true},
		{"a smaller writer", State{Version: version(5, machine.ID{}), Floor: 7, Notes: []Note{note(ann, 3), note(me, 2)}}, true},
		{"a smaller floor", State{Version: version(5, ann), Floor: 6, Notes: []Note{note(ann, 3), note(me, 2)}}, true},
		{"a smaller note", State{Version: version(5, ann), Floor: 7, Notes: []Note{note(ann, 2), note(me, 2)}}, true},
		{"another's note forgotten", State{Version: version(5, ann), Floor: 7, Notes: []Note{note(me, 2)}}, false},
		{"my note forgotten", State{Version: version(5, ann), Floor: 7, Notes: []Note{note(ann, 3)}}, true},
		{"another's version forgotten", State{Floor: 7, Notes: []Note{note(me, 2)}}, false},
		{"all forgotten", State{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &base{}
			b.showed(State{Version: version(5, ann), Floor: 7, Notes: []Note{note(ann, 3), note(me, 2)}}, me)
			if got := b.showed(c.then, me); got != c.want {
				t.Errorf("went back: %v, want %v", got, c.want)
			}
			if b.showed(c.then, me) {
				t.Error("went back again though it shows the same")
			}
		})
	}
	b := &base{}
	b.noteHeld(version(5, me))
	if b.showed(State{Floor: 5}, me) {
		t.Error("what I wrote may have lost to another's, which was forgotten")
	}
	b.showed(State{Version: version(6, me), Floor: 6}, me)
	if !b.showed(State{Floor: 6}, me) {
		t.Error("a base may not forget what I wrote and it has shown")
	}
	b = &base{}
	b.showed(State{Version: version(5, me), Floor: 5}, me)
	b.noteHeld(version(6, me))
	if b.showed(State{Floor: 6}, me) {
		t.Error("what I wrote last was not shown, and may have lost to another's, which was forgotten")
	}
	b.noteHeld(version(9, me))
	if !b.showed(State{Floor: 8}, me) {
		t.Error("a base has acknowledged version 9, and its floor is 8: it went back")
	}
	b = &base{}
	b.showed(State{Notes: []Note{note(ann, 3), note(me, 2), note(zoe, 7)}}, me)
	if b.showed(State{Notes: []Note{note(me, 2), note(zoe, 7)}}, me) {
		t.Error("a base may forget another's note")
	}
	b.showed(State{Notes: []Note{note(ann, 3), note(me, 2), note(zoe, 7)}}, me)
	if !b.showed(State{Notes: []Note{note(me, 2), note(zoe, 6)}}, me) {
		t.Error("a note went back behind one that was forgotten: the base did, too")
	}
}

// A base that went back is given the newest that any base has shown, whoever wrote it, before
// it counts.
func TestAStaleBaseIsGivenWhatOthersWrote(t *testing.T) {
	s := newStage(t, 3, false)
	s.do(machine.Read{})
	s.answer(0, Query{}, state(2, ann, "old"))
	s.answer(1, Query{}, state(2, ann, "old"))
	s.wantRead(version(2, ann), "old")
	s.do(machine.Read{})
	s.answer(0, Query{}, state(1, ann, "older"))
	s.wantOutcomes(Stale{0})
	s.answer(2, Query{}, state(2, ann, "old"))
	s.answer(2, Query{}, state(5, zoe, "new"))
	if got := s.put(0); got.Version != version(2, ann) && got.Version != version(5, zoe) {
		t.Errorf("base 0, which went back, is given %v", got.Version)
	}
	s.answer(0, Put{}, nil)
	if got := s.put(0); got.Version != version(5, zoe) || string(got.Data) != "new" {
		t.Errorf("base 0, which went back, is given %v %q, want what base 2 has shown", got.Version, got.Data)
	}
	s.wait(quiet)
	s.wantOutcomes()
	s.answer(0, Put{}, nil)
	s.wantOutcomes(Counted{0})
}

// restored is a stage on which 0 and 1 hold version 2 and 1 was restored to hold 1.
func restored(t *testing.T) *stage {
	s := newStage(t, 3, true)
	s.do(machine.Write{Data: []byte("new"), Seq: 2})
	s.answer(0, Put{}, nil)
	s.answer(1, Put{}, nil)
	s.wrote(version(2, me))
	s.do(machine.Read{})
	s.answer(1, Query{}, state(1, ann, "old"))
	s.wantOutcomes(Stale{1})
	return s
}

func TestAStaleBaseIsNotCounted(t *testing.T) {
	s := restored(t)
	if got := s.put(1); got.Version != version(2, me) || string(got.Data) != "new" {
		t.Errorf("it is given %v %q, want what it lost", got.Version, got.Data)
	}
	s.answer(1, Put{}, nil)
	s.answer(2, Put{}, nil) // which it was asked for first
	s.answer(2, Query{}, state(2, me, "new"))
	s.pending()
	s.answer(0, Query{}, state(2, me, "new"))
	s.wantRead(version(2, me), "new") // without it
}

func TestAStaleBaseCountsAgainAfterQuiet(t *testing.T) {
	s := restored(t)
	s.answer(2, Put{}, nil)
	s.answer(2, Query{}, state(2, me, "new"))
	s.answer(1, Put{}, nil)
	if want := s.now.Add(quiet); s.alarm != want {
		t.Errorf("it wakes at %v, want when the base has been quiet for long enough, at %v", s.alarm, want)
	}
	s.wait(quiet - time.Nanosecond)
	s.idle(1)
	s.wantOutcomes()
	s.wait(time.Nanosecond)
	s.wantOutcomes(Counted{1})
	s.answer(1, Query{}, state(2, me, "new"))
	s.wantRead(version(2, me), "new")
}

func TestAStaleBaseDoesNotCountBeforeItIsUpToDate(t *testing.T) {
	s := restored(t)
	s.answer(2, Put{}, nil)
	s.answer(2, Query{}, state(2, me, "new"))
	s.wait(2 * quiet)
	s.pending()
	s.answer(1, Put{}, nil)
	s.answer(1, Query{}, state(2, me, "new"))
	s.wantRead(version(2, me), "new")
}

func TestAStaleBaseGetsMyNoteAgain(t *testing.T) {
	s := newStage(t, 1, true)
	s.do(machine.Note{Data: []byte("n")})
	s.answer(0, PutNote{}, nil)
	s.ended()
	s.do(machine.Read{})
	s.answer(0, Query{}, State{})
	s.wantOutcomes(Stale{0})
	s.answer(0, PutNote{}, nil)
	s.wait(quiet)
	s.answer(0, Query{}, State{Notes: []Note{{me, 1, []byte("n")}}})
	if got := s.wantRead(machine.Version{}, "").Notes; len(got) != 1 {
		t.Errorf("notes %v, want mine", got)
	}
}

func TestAStaleBaseDoesNotCountBeforeItHasMyNote(t *testing.T) {
	s := newStage(t, 1, true)
	s.do(machine.Note{Data: []byte("n")})
	s.answer(0, PutNote{}, nil)
	s.ended()
	s.do(machine.Read{})
	s.answer(0, Query{}, State{})
	s.wantOutcomes(Stale{0})
	s.wait(2 * quiet)
	s.wantOutcomes()
	s.answer(0, PutNote{}, nil)
	s.wantOutcomes(Counted{0})
}

func TestTheOnlyBaseWentBack(t *testing.T) {
	s := newStage(t, 1, true)
	s.do(machine.Write{Data: []byte("x")})
	s.answer(0, Query{}, state(6, ann, "before"))
	s.answer(0, Put{}, nil)
	s.wrote(version(7, me))
	s.do(machine.Write{Data: []byte("y")})
	s.answer(0, Query{}, State{})
	s.wantOutcomes(Stale{0})
	s.answer(0, Put{}, nil)
	s.wait(quiet)
	s.answer(0, Query{}, state(7, me, "x"))
	if got := s.put(0).Version; got != version(8, me) {
		t.Errorf("the next write is %v, want tokens to go on from 7", got)
	}
	s.fail(0)
	s.wantFailed(ErrMinority, "broken")
	if s.alarm != machine.Never {
		t.Error("an alarm though there is nothing to do")
	}
}
