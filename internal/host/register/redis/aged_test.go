package redis

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// TestAgedNotes: a note is old when it was the same at a look a long time ago. A note that has come
// since, with any number, is not, nor is one that has changed. A name without notes is not
// remembered.
func TestAgedNotes(t *testing.T) {
	now := time.Unix(1e9, 0)
	if h := header(0, 1); (&Store{header: h}).age() != 100*h.Quiet() {
		t.Errorf("a note is old after %v, want a hundred times %v: a live writer changes it within the term", (&Store{header: h}).age(), h.Quiet())
	}
	s := &Store{header: header(0, 1), now: func() time.Time { return now }, samples: map[string]sample{}}
	shows := func(notes ...quorumregister.Note) shown { return shown{State: quorumregister.State{Notes: notes}} }
	note := func(w machine.ID, seq uint64) quorumregister.Note { return quorumregister.Note{Writer: w, Seq: seq} }
	for i, step := range []struct {
		after time.Duration
		name  string
		seen  shown
		want  []machine.ID
	}{
		{0, "x", shows(note(ann, 1), note(bob, 1)), nil},
		{0, "y", shows(note(ann, 1)), nil},
		{s.age() - 1, "x", shows(note(ann, 1), note(bob, 1)), nil},
		{1, "x", shows(note(ann, 1), note(bob, 2), note(eve, 0)), []machine.ID{ann}},
		{0, "x", shows(note(ann, 1), note(bob, 2), note(eve, 0)), nil}, // no sooner than that again
		{s.age() - 1, "x", shows(note(bob, 2)), nil},
		{1, "x", shows(note(bob, 2), note(eve, 0)), []machine.ID{bob, eve}},
		{s.age(), "x", shows(), nil},
		{0, "x", shows(note(bob, 2)), nil}, // come back
		{s.age(), "x", shows(note(bob, 2)), []machine.ID{bob}},
	} {
		now = now.Add(step.after)
		if got := s.aged(step.name, step.seen); !slices.Equal(got, step.want) {
			t.Errorf("look %d: old are the notes of %v, want %v", i, got, step.want)
		}
		if len(step.seen.Notes) == 0 && len(s.samples) != 1 {
			t.Errorf("look %d: %d names are remembered, want the one that has notes", i, len(s.samples))
		}
	}
	s.dropSamples()
	if len(s.samples) != 1 {
		t.Errorf("%d names are remembered, want the one that was looked at", len(s.samples))
	}
}

// TestOpenThatFailsStaysNotConnected: a server that refuses to answer is left without a connection.
func TestOpenThatFailsStaysNotConnected(t *testing.T) {
	h, s := made(t, 0, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	h.deny("PING")
	if s, err := Open(t.Context(), h.options()); err == nil {
		s.Close()
		t.Fatal("opened, on a server that refuses to answer")
	} else if named := new(serverError); !errors.As(err, &named) {
		t.Errorf("the error does not say which server: %v", err)
	}
	for end := time.Now().Add(5 * time.Second); h.CurrentConnectionCount() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections are left open", h.CurrentConnectionCount())
		}
	}
}

// TestSamplesAreDropped: a name that is looked at less often than notes age is remembered for three
// times as long, and no longer; whether there are such names is looked at once while notes age.
func TestSamplesAreDropped(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := &Store{header: header(0, 1), now: func() time.Time { return now }, samples: map[string]sample{}}
	seen := shown{State: quorumregister.State{Notes: []quorumregister.Note{{Writer: ann, Seq: 1}}}}
	s.aged("x", seen)
	for i, step := range []struct {
		after time.Duration
		known int
	}{{0, 1}, {s.age(), 1}, {s.age(), 1}, {s.age(), 1}, {s.age() - 1, 1}, {1, 0}} {
		now = now.Add(step.after)
		if s.dropSamples(); len(s.samples) != step.known {
			t.Errorf("look %d, %v after the sample: %d names are remembered, want %d", i, now.Sub(time.Unix(1e9, 0)), len(s.samples), step.known)
		}
	}
}
