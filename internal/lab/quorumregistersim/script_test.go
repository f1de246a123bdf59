package quorumregistersim

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestScripts(t *testing.T) {
	for _, sc := range scripts {
		t.Run(sc.name, func(t *testing.T) {
			n := sc.bases
			if n == 0 {
				n = 3
			}
			s := newStage(t, n, !sc.regular)
			sc.play(s)
			s.judge()
		})
	}
}

// scripts are courses of events in which one rule each is needed. A register has
// three bases and is atomic unless the script says otherwise.
var scripts = []struct {
	name    string
	bases   int
	regular bool
	play    func(s *stage)
}{
	{name: "new-then-old", play: func(s *stage) {
		w, r, q := s.enter("w"), s.enter("r"), s.enter("q")
		w.write("old")
		w.rounds(0, 1, 2)
		w.write("new")
		w.served(0, 1)
		w.served(0) // one base holds it
		r.read()
		r.served(0, 1)
		r.wantUnanswered() // it must not show the new one before a majority holds it
		r.served(1)
		r.wantRead("new")
		q.read()
		q.rounds(1, 2)
		q.wantRead("new")
		w.served(1)
	}},
	{name: "new-then-old-is-regular", regular: true, play: func(s *stage) {
		w, r := s.enter("w"), s.enter("r")
		w.write("old")
		w.rounds(0, 1, 2)
		w.write("new")
		w.served(0, 1)
		w.served(0)
		r.read()
		r.served(0, 1)
		r.wantRead("new")
		r.read()
		r.served(2) // which it was asked the first time
		r.served(1, 2)
		r.wantRead("old") // allowed, while the write lasts
	}},
	{name: "what-agrees-is-not-written-back", play: func(s *stage) {
		w, r := s.enter("w"), s.enter("r")
		w.write("x")
		w.rounds(0, 1, 2)
		r.read()
		r.served(0, 1)
		r.wantRead("x") // at once
		r.read()        // base 2 has not answered
		r.served(0, 1)
		r.wantRead("x")
	}},
	{name: "one-writer-after-another", play: func(s *stage) {
		a, b, r := s.enter("a"), s.enter("b"), s.enter("r")
		b.write("first")
		b.rounds(0, 1)
		a.write("second")
		a.rounds(1, 2)
		r.read()
		r.rounds(0, 2)
		r.wantRead("second")
	}},
	{name: "a-write-meets-every-read", bases: 4, play: func(s *stage) {
		w, r := s.enter("w"), s.enter("r")
		w.write("x")
		w.rounds(0, 1, 2)
		r.read()
		r.served(3, 2)
		r.wantUnanswered()
		r.rounds(1, 2, 3)
		r.wantRead("x")
	}},
	{name: "a-failed-write-lands-after-the-next", play: func(s *stage) {
		w, r := s.enter("w"), s.enter("r")
		w.write("stuck")
		w.served(0, 1)
		w.stick(0, 1)
		w.write("next")
		w.served(0, 1, 0, 1)
		w.done()
		w.stuck[0].At, w.stuck[1].At = 2, 2 // it had gone to the third as well
		w.land(2)
		for _, pair := range [][]int{{1, 2}, {2, 0}, {0, 1}} {
			r.read()
			r.rounds(pair...)
			r.wantRead("next")
		}
	}},
	{name: "a-seq-is-used-once", play: func(s *stage) {
		w := s.enter("w")
		w.read()
		w.served(0, 1)
		next := w.saw().Next
		w.ask(machine.Write{Data: []byte("a"), Seq: next}, true, "a")
		w.served(0, 1)
		w.done()
		w.ask(machine.Write{Data: []byte("b"), Seq: next}, true, "b")
		if w.ended != 1 || w.last.Err == nil {
			w.t.Errorf("a second write under %d: %v, %v", next, w.last.Reply, w.last.Err)
		}
	}},
	{name: "a-floor-is-exceeded", play: func(s *stage) {
		w := s.enter("w")
		s.bases[1].Floor = 9 // it has forgotten a register that went so far
		w.write("x")
		w.rounds(0, 1)
		if v := w.last.Reply.(machine.Version); v.Seq <= 9 {
			w.t.Errorf("the token is %d, and 9 was given before", v.Seq)
		}
	}},
	{name: "a-late-answer-does-not-count", play: func(s *stage) {
		w, r := s.enter("w"), s.enter("r")
		r.read()
		r.unanswered(1) // before the write, heard of after it
		r.served(0, 2)
		r.wantRead("")
		w.write("x")
		w.rounds(0, 1)
		r.read()
		r.answered(1)
		r.served(2)
		r.wantUnanswered()
		r.served(1)
		if r.op != nil {
			r.rounds(2, 0)
		}
		r.wantRead("x")
	}},
	{name: "a-failure-is-no-answer", play: func(s *stage) {
		w, r := s.enter("w"), s.enter("r")
		w.write("x")
		w.rounds(0, 1)
		r.read()
		r.served(2)
		r.fail(1)
		r.wantUnanswered()
		r.wait(retry)
		r.rounds(1, 2)
		r.wantRead("x")
	}},
	{name: "a-failure-is-tried-again", play: func(s *stage) {
		w := s.enter("w")
		w.write("x") // base 2 hangs
		w.fail(0)
		w.served(1)
		w.wait(retry - 2*time.Millisecond)
		if len(w.asked) > 1 {
			w.t.Error("tried again at once: a store that is down would be asked all the time")
		}
		w.wait(2 * time.Millisecond)
		w.served(0)
		w.fail(1)
		w.served(0)
		w.wait(retry)
		w.served(1)
		w.done()
	}},
	{name: "a-majority-that-fails-is-told", play: func(s *stage) {
		w := s.enter("w")
		w.write("x")
		w.fail(0)
		w.wantUnanswered()
		w.fail(1)
		if w.ended != 1 || w.last.Err == nil {
			w.t.Errorf("two of three have failed, and the third hangs: %v, %v", w.ended, w.last.Err)
		}
	}},
	{name: "nobody-waits-for-a-minority", bases: 5, play: func(s *stage) {
		w, r := s.enter("w"), s.enter("r")
		for range 3 {
			w.write(string(rune('a' + len(s.history))))
			w.rounds(1, 2, 4)
			r.read()
			r.rounds(1, 2, 4)
			w.setNote("n")
			w.rounds(1, 2, 4)
		}
	}},
	{name: "a-hung-base-piles-nothing-up", play: func(s *stage) {
		w := s.enter("w")
		for _, data := range []string{"a", "b", "c"} {
			w.write(data)
			w.rounds(0, 1) // the stage fails if base 2 is asked again
		}
		w.write("d")
		w.served(2) // now it answers, and learns the newest
		w.served(0, 1)
		w.served(2, 2, 0)
		w.done()
		if got := s.bases[2]; string(got.Data) != "d" {
			w.t.Errorf("base 2 holds %q, want the newest", got.Data)
		}
	}},
	{name: "a-base-goes-back", play: func(s *stage) {
		w := s.enter("w")
		w.write("old")
		w.rounds(0, 1, 2)
		s.bases[1].save()
		w.write("new")
		w.rounds(0, 1)
		s.bases[1].restore()
		w.read() // base 0 hangs; 2 does not know
		w.served(1)
		if len(w.stale) != 1 || w.stale[0] != 1 {
			w.t.Errorf("stale: %v, want base 1", w.stale)
		}
		w.wantUnanswered()
		w.answerAll(2)
		w.wantUnanswered()
		w.wait(quiet)
		w.answerAll(1, 2)
		w.wantRead("new")
	}},
	{name: "a-base-that-went-back-is-not-counted-before-it-is-up-to-date", play: func(s *stage) {
		w := s.enter("w")
		w.write("new")
		w.rounds(0, 1)
		s.bases[1].restore()
		w.read()
		w.served(1)
		w.wait(2 * quiet)
		w.fail(1) // it does not take the value that it gets
		w.wait(retry)
		w.answerAll(2)
		w.wantUnanswered()
		w.answerAll(1, 2)
		w.wantRead("new")
	}},
	{name: "a-base-that-went-back-is-quiet", bases: 1, play: func(s *stage) {
		w := s.enter("w")
		w.write("new")
		w.rounds(0)
		s.bases[0].restore()
		w.read()
		w.answerAll(0)
		w.wantUnanswered() // the forgotten part may hold still
		w.wait(quiet - 20*time.Millisecond)
		w.answerAll(0)
		w.wantUnanswered()
		w.wait(20 * time.Millisecond)
		w.answerAll(0)
		w.wantRead("new")
	}},
	{name: "a-base-may-not-forget-what-i-wrote", bases: 1, play: func(s *stage) {
		w := s.enter("w")
		w.write("mine")
		w.rounds(0)
		w.read()
		w.rounds(0)
		w.wantRead("mine")
		s.bases[0].restore()
		s.bases[0].Floor = 100 // for others have written other names since
		w.read()
		w.served(0)
		if len(w.stale) != 1 {
			w.t.Errorf("stale: %v, want base 0", w.stale)
		}
		w.wait(quiet)
		w.answerAll(0)
		w.wantRead("mine")
	}},
	{name: "a-base-may-forget-what-nobody-needs", bases: 1, play: func(s *stage) {
		w, r := s.enter("w"), s.enter("r")
		w.write("another's")
		w.rounds(0)
		r.read()
		r.rounds(0)
		s.bases[0].restore()
		s.bases[0].Floor = 1
		s.history = nil // there is nothing to compare it with
		r.read()
		r.rounds(0)
		r.wantRead("")
		if len(r.stale) > 0 {
			r.t.Errorf("stale: %v", r.stale)
		}
	}},
	{name: "a-note-that-went-back", bases: 1, play: func(s *stage) {
		w := s.enter("w")
		w.setNote("one")
		w.rounds(0)
		s.bases[0].save()
		w.setNote("two")
		w.rounds(0)
		s.bases[0].restore()
		w.read()
		w.served(0)
		if len(w.stale) != 1 {
			w.t.Errorf("stale: %v, want base 0", w.stale)
		}
		w.wait(quiet)
		w.answerAll(0)
		w.wantNote("two")
	}},
	{name: "another's-note-went-back", bases: 1, play: func(s *stage) {
		w, r := s.enter("w"), s.enter("r")
		w.setNote("one")
		w.rounds(0)
		s.bases[0].save()
		w.setNote("two")
		w.rounds(0)
		r.read()
		r.rounds(0)
		s.bases[0].restore()
		r.read()
		r.served(0)
		if len(r.stale) != 1 {
			r.t.Errorf("stale: %v, want base 0", r.stale)
		}
	}},
	{name: "the-newer-note-is-shown", play: func(s *stage) {
		w, r := s.enter("w"), s.enter("r")
		w.setNote("one")
		w.served(0, 1, 2)
		w.done()
		w.setNote("two")
		w.served(0, 1)
		w.done()
		for _, order := range [][]int{{0, 2}, {2, 0}} {
			r.read()
			r.rounds(order...)
			r.wantNote("two")
			r.answerAll(1)
		}
	}},
	{name: "a-failed-note-lands-after-the-next", play: func(s *stage) {
		w, r := s.enter("w"), s.enter("r")
		w.setNote("stuck")
		w.stick(0, 1)
		w.setNote("next")
		w.served(0, 1)
		w.done()
		w.stuck[0].At = 2 // it had gone to the third as well
		w.land(2)
		for _, order := range [][]int{{0, 2}, {2, 0}} {
			r.read()
			r.rounds(order...)
			r.wantNote("next")
			r.answerAll(1)
		}
	}},
}

// answerAll lets bases do whatever is asked of them, until nothing is.
func (a *actor) answerAll(bases ...int) {
	a.t.Helper()
	for again := true; again; {
		again = false
		for _, b := range bases {
			for _, x := range a.asked {
				if x.At == b {
					a.served(b)
					again = true
					break
				}
			}
		}
	}
}

// wantNote wants the read to have shown one note.
func (a *actor) wantNote(note string) {
	a.t.Helper()
	a.done()
	if notes := a.saw().Notes; len(notes) != 1 || string(notes[0].Data) != note {
		a.t.Errorf("%s reads notes %q, want %q", a.name, notes, note)
	}
}
