package sim

import (
	"fmt"
	"slices"
	"time"
)

// Kind says what a Mark shows.
type Kind int

const (
	Holds     Kind = iota // a right that nobody else may have meanwhile
	Shares                // a right that others may share, but nobody may hold meanwhile
	Writes                // an operation that changes something
	Reads                 // an operation that does not
	Fault                 // something is amiss: a crash, a pause, a slow disk
	Remark                // a word
	Violation             // a broken rule
)

var kindNames = [...]string{"holds", "shares", "writes", "reads", "fault", "", "VIOLATION"}

func (k Kind) String() string { return kindNames[k] }

// Timeline is a world's history for the eye: the events of each host and client, with their
// beginnings and ends. World.Mark adds to it.
type Timeline struct {
	Title string

	lanes []string // in the order in which they are drawn
	marks []*Mark  // in the order in which they begin
	end   time.Duration
	clues []string // the world's notes up to the first violation
}

// Mark is an entry of a timeline. A nil Mark, which World.Mark returns when
// nothing is recorded, takes all its methods and does nothing.
type Mark struct {
	Kind     Kind
	Lane     string // whom it is about
	Text     string
	Right    string        // of Holds and Shares: to what
	From, To time.Duration // true time; equal for a moment

	w    *World
	open bool // To is the end of the timeline
}

// recording reports whether marks are kept. Only a replay keeps them.
func (w *World) recording() bool { return w.timeline != nil }

// Timeline returns what was recorded, or nil.
func (w *World) Timeline() *Timeline { return w.timeline }

// Mark marks the present moment in a lane; an empty lane means the whole world. The event
// of a mark may go on: see Begin, End and Until.
func (w *World) Mark(kind Kind, lane, format string, args ...any) *Mark {
	if w.timeline == nil {
		return nil
	}
	m := &Mark{Kind: kind, Lane: lane, Text: fmt.Sprintf(format, args...), From: w.now, To: w.now, w: w}
	if kind == Violation && w.timeline.clues == nil {
		w.timeline.clues = slices.Clone(w.recent)
	}
	w.timeline.lane(lane)
	w.timeline.marks = append(w.timeline.marks, m)
	return m
}

// Begin is Mark for what goes on until its End.
func (w *World) Begin(kind Kind, lane, format string, args ...any) *Mark {
	m := w.Mark(kind, lane, format, args...)
	if m != nil {
		m.open = true
	}
	return m
}

// Of says to what a right is, so that its holders are compared with each other only.
func (m *Mark) Of(right string) *Mark {
	if m != nil {
		m.Right = right
	}
	return m
}

// End says that what the mark shows is over now, if not earlier.
func (m *Mark) End() {
	if m != nil && (m.open || m.To > m.w.now) {
		m.Until(m.w.now)
	}
}

// Until says when, in true time, what the mark shows is over, as far as is known now.
func (m *Mark) Until(t time.Duration) {
	if m != nil {
		m.To, m.open = max(t, m.From), false
	}
}

// Note adds to what the mark says.
func (m *Mark) Note(format string, args ...any) {
	if m != nil {
		m.Text += fmt.Sprintf(format, args...)
	}
}

func (t *Timeline) lane(name string) {
	if name != "" && !slices.Contains(t.lanes, name) {
		t.lanes = append(t.lanes, name)
	}
}

func (t *Timeline) has(kind Kind) bool {
	return slices.ContainsFunc(t.marks, func(m *Mark) bool { return m.Kind == kind })
}
