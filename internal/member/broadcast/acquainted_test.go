package broadcast

import (
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
)

// acquaintedOne is member 1 of three in its second life, number 51, with a log of nine records. It has
// noted 2 in its third life, number 30, and listens to it.
func acquaintedOne(t *testing.T) *acquainted {
	t.Helper()
	cfg := Config{ID: 1, Group: 1, Members: map[machine.NodeID]string{1: "a:1", 2: "b:1", 3: "c:1"}, Dir: "x"}
	m, err := abcast.New(cfg.machine(2), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &acquainted{
		Machine: m, self: introduction{Dir: 5, Life: 2, Lives: []birth{{50, 1}, {51, 3}}}, id: 1, every: 2 * time.Second, need: 2,
		others: func() []machine.NodeID { return []machine.NodeID{2, 3} }, mark: func() uint64 { return 9 }, logDropped: func(machine.NodeID, uint64, error) {},
		notes: map[machine.NodeID]note{2: noteOf2}, loose: map[machine.NodeID]bool{}, heard: map[machine.NodeID]uint64{2: 30},
		known: map[machine.NodeID]uint64{2: 30}, met: map[machine.NodeID]noted{},
	}
}

var (
	noteOf2  = note{2, 20, 3, 30, 8}
	noteOf3  = note{3, 60, 1, 70, 4}
	livesOf2 = []birth{{10, 1}, {11, 4}, {30, 6}}
)

// Answers of a member to an introduction, the records that it writes before them, and the member that
// it listens to then.
func TestIntroductions(t *testing.T) {
	present := introduction{To: 51, Dir: 20, Life: 3, Mark: 8, Lives: livesOf2}
	ours := func(to uint64, notes ...note) introduction {
		return introduction{To: to, Dir: 5, Life: 2, Mark: 9, Lives: []birth{{50, 1}, {51, 3}}, Notes: notes}
	}
	answer := func(body any) []machine.Envelope { return []machine.Envelope{{From: 1, To: 2, Body: body}} }
	for what, tt := range map[string]struct {
		change   func(a *acquainted)
		life     uint64
		in       func(in *introduction)
		sends    []any
		persists []machine.Persist
		note     note
		listens  uint64
		refuted  bool
	}{
		"nothing new": {life: 30, persists: []machine.Persist{{Then: answer(met{30, 8})}}, note: noteOf2, listens: 30},
		"it has come further": {
			life: 30, in: func(in *introduction) { in.Mark = 12 },
			persists: []machine.Persist{{Record: note{2, 20, 3, 30, 12}}, {Then: answer(met{30, 12})}}, note: note{2, 20, 3, 30, 12}, listens: 30,
		},
		"what comes late takes nothing back": {
			life: 30, in: func(in *introduction) { in.Mark = 6 },
			persists: []machine.Persist{{Then: answer(met{30, 8})}}, note: noteOf2, listens: 30,
		},
		"a note of it that was not forced": {
			life: 30, change: func(a *acquainted) { a.loose[2] = true },
			persists: []machine.Persist{{Record: noteOf2, Then: answer(met{30, 8})}}, note: noteOf2, listens: 30,
		},
		"it is new": {
			life: 30, change: func(a *acquainted) { delete(a.notes, 2); delete(a.known, 2) },
			persists: []machine.Persist{{Record: noteOf2, Then: answer(met{30, 8})}}, note: noteOf2, listens: 30,
		},
		"its next life": {
			life: 40, in: func(in *introduction) { in.Life, in.Lives, in.Mark = 4, append(in.Lives[:3:3], birth{40, 9}), 9 },
			sends:    []any{ours(40)},
			persists: []machine.Persist{{Record: note{2, 20, 4, 40, 9}, Then: answer(met{40, 9})}}, note: note{2, 20, 4, 40, 9}, listens: 40,
		},
		"its next life, which has not heard of this one": {
			life: 40, in: func(in *introduction) {
				in.To, in.Life, in.Lives, in.Mark = 0, 4, append(in.Lives[:3:3], birth{40, 9}), 9
			},
			sends: []any{ours(40)}, note: noteOf2, listens: 30,
		},
		"to another life of this member": {life: 30, in: func(in *introduction) { in.To = 50 }, note: noteOf2, listens: 30},
		"another directory": {
			life: 90, in: func(in *introduction) { in.Dir, in.Life, in.Lives, in.Mark = 77, 1, []birth{{90, 1}}, 2 },
			sends: []any{ours(90), forgot{Life: 90, Dir: 20, Lives: 3, Mark: 8}}, note: noteOf2, refuted: true,
		},
		"what it has noted of a third": {
			life: 30, in: func(in *introduction) { in.Notes = []note{noteOf3, {1, 5, 2, 51, 9}} },
			persists: []machine.Persist{{Record: noteOf3}, {Then: answer(met{30, 8})}}, note: noteOf2, listens: 30,
		},
	} {
		a := acquaintedOne(t)
		if tt.change != nil {
			tt.change(a)
		}
		in := present
		if tt.in != nil {
			tt.in(&in)
		}
		a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: 2, Body: heard{tt.life, in}})
		rd := a.Ready()
		var sends []any
		for _, e := range rd.Sends {
			if e.To != 2 || e.From != 1 {
				t.Errorf("%s: an answer goes from %d to %d", what, e.From, e.To)
			}
			sends = append(sends, e.Body)
		}
		if !reflect.DeepEqual(sends, tt.sends) {
			t.Errorf("%s: said is %+v, want %+v", what, sends, tt.sends)
		}
		if !reflect.DeepEqual(rd.Persists, tt.persists) {
			t.Errorf("%s: written, and said behind it, is %+v, want %+v", what, rd.Persists, tt.persists)
		}
		if a.notes[2] != tt.note || a.known[2] != tt.listens {
			t.Errorf("%s: noted is %+v, and listened to is life %d; want %+v and %d", what, a.notes[2], a.known[2], tt.note, tt.listens)
		}
		refutes := false
		for _, out := range rd.Outcomes {
			_, is := out.(refuted)
			refutes = refutes || is
		}
		if refutes != tt.refuted {
			t.Errorf("%s: the node is told that it has forgotten something: %v, want %v", what, refutes, tt.refuted)
		}
	}
}

// A member tells the others of its notes on members, but none of the notes on the receiver.
func TestWhatAMemberSaysOfItself(t *testing.T) {
	a := acquaintedOne(t)
	a.notes[3] = noteOf3
	for to, want := range map[machine.NodeID]introduction{
		2: {To: 30, Dir: 5, Life: 2, Mark: 9, Lives: a.self.Lives, Notes: []note{noteOf3}},
		3: {To: 0, Dir: 5, Life: 2, Mark: 9, Lives: a.self.Lives, Notes: []note{noteOf2}},
		4: {To: 0, Dir: 5, Life: 2, Mark: 9, Lives: a.self.Lives, Notes: []note{noteOf2, noteOf3}},
	} {
		a.Step(machine.Now{Mono: 1}, reached{id: to})
		if got := a.Ready().Sends; !reflect.DeepEqual(got, []machine.Envelope{{From: 1, To: to, Body: want}}) {
			t.Errorf("to member %d, which can be reached now, is said %+v, want %+v", to, got, want)
		}
	}
}

// A member introduces itself again and again to those that have not noted it as it is now: not at all, not as
// far, or in a life that is over.
func TestIntroducedUntilItIsNoted(t *testing.T) {
	for _, tt := range []struct {
		what string
		met  map[machine.NodeID]noted
		want []machine.NodeID
	}{
		{"nobody has noted it", nil, []machine.NodeID{2, 3}},
		{"one has", map[machine.NodeID]noted{2: {30, 9}}, []machine.NodeID{3}},
		{"one has, as it was", map[machine.NodeID]noted{2: {30, 8}}, []machine.NodeID{2, 3}},
		{"one had, in a life that is over", map[machine.NodeID]noted{2: {29, 9}}, []machine.NodeID{2, 3}},
		{"both have", map[machine.NodeID]noted{2: {30, 9}, 3: {70, 12}}, nil},
	} {
		a := acquaintedOne(t)
		a.heard[3] = 70
		for id, how := range tt.met {
			a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: id, Body: heard{how.life, met{Life: 51, Mark: how.mark}}})
			if a.met[id] != how {
				t.Errorf("%s: member %d has noted it as %+v, and that is taken for %+v", tt.what, id, how, a.met[id])
			}
		}
		a.Ready()
		const s = machine.Mono(time.Second)
		for _, at := range []machine.Mono{10 * s, 11 * s, 12 * s, 13 * s, 14 * s} { // every two seconds
			a.Wake(machine.Now{Mono: at})
			rd := a.Ready()
			var to []machine.NodeID
			for _, e := range rd.Sends {
				to = append(to, e.To)
			}
			want := tt.want
			if at == 11*s || at == 13*s {
				want = nil
			}
			if !reflect.DeepEqual(to, want) {
				t.Errorf("%s: at %v it introduces itself to %v, want %v", tt.what, time.Duration(at), to, want)
			}
			if next := (at/(2*s) + 1) * (2 * s); rd.Alarm != next {
				t.Errorf("%s: at %v it wants to be woken at %v, want %v", tt.what, time.Duration(at), time.Duration(rd.Alarm), time.Duration(next))
			}
		}
	}
}

// A member with a new directory reports which others it waits for: first after a while, then once a minute, and
// not any more when its directory counts.
func TestWhomANewDirectoryWaitsFor(t *testing.T) {
	a := acquaintedOne(t) // it introduces itself every two seconds
	const s = machine.Mono(time.Second)
	said := map[machine.Mono][]machine.NodeID{}
	for at := 10 * s; at <= 300*s; at += s {
		switch at {
		case 60 * s:
			a.Receive(machine.Now{Mono: at}, machine.Envelope{From: 2, Body: heard{30, met{Life: 51, Mark: 9}}})
		case 200 * s:
			a.Receive(machine.Now{Mono: at}, machine.Envelope{From: 3, Body: heard{70, met{Life: 51, Mark: 9}}}) // enough: it counts when that is on disk
		}
		a.Wake(machine.Now{Mono: at})
		for _, out := range a.Ready().Outcomes {
			if out, ok := out.(awaits); ok {
				said[at] = out.whom
			}
		}
	}
	want := map[machine.Mono][]machine.NodeID{30 * s: {2, 3}, 90 * s: {3}, 150 * s: {3}}
	if !reflect.DeepEqual(said, want) {
		t.Errorf("at which time it says that it waits for whom is %v, want %v", said, want)
	}
	a = acquaintedOne(t)
	a.counts = true
	for at := 10 * s; at <= 100*s; at += s {
		a.Wake(machine.Now{Mono: at})
		for _, out := range a.Ready().Outcomes {
			if out, ok := out.(awaits); ok {
				t.Errorf("a member that takes part says at %v that it waits for %v", time.Duration(at), out.whom)
			}
		}
	}
}

// A member that counts is woken for the earlier of two times: its protocol's and that of the
// next introduction.
func TestAlarmOfWhatComesFirst(t *testing.T) {
	a := acquaintedOne(t)
	a.counts, a.every = true, time.Hour
	a.Wake(machine.Now{Mono: 1})
	if rd := a.Ready(); rd.Alarm > machine.Mono(time.Second) {
		t.Errorf("a member that tells the others five times a second that it lives is woken after %v", time.Duration(rd.Alarm))
	}
	a = acquaintedOne(t)
	a.counts, a.every = true, time.Millisecond
	a.Wake(machine.Now{Mono: 1})
	if rd := a.Ready(); rd.Alarm != 1+machine.Mono(time.Millisecond) {
		t.Errorf("a member that introduces itself each millisecond is woken at %v", time.Duration(rd.Alarm))
	}
}

// A note that a third member passes on counts if it is news of the same directory, or of a directory
// that is not known yet.
func TestWhatAThirdMemberSays(t *testing.T) {
	for _, tt := range []struct {
		what string
		said note
		want note
	}{
		{"a later life", note{2, 20, 4, 40, 9}, note{2, 20, 4, 40, 9}},
		{"the same life, further", note{2, 20, 3, 30, 99}, noteOf2},
		{"an earlier life", note{2, 20, 2, 11, 5}, noteOf2},
		{"a later life of another directory", note{2, 21, 9, 40, 9}, noteOf2},
	} {
		a := acquaintedOne(t)
		a.learn([]note{tt.said, noteOf3, {1, 7, 7, 7, 7}})
		news := tt.want != noteOf2
		if a.notes[2] != tt.want || a.loose[2] != news {
			t.Errorf("%s: noted of member 2 is %+v, not forced %v; want %+v, %v", tt.what, a.notes[2], a.loose[2], tt.want, news)
		}
		if a.notes[3] != noteOf3 || !a.loose[3] {
			t.Errorf("%s: noted of member 3 is %+v, not forced %v; want what was said", tt.what, a.notes[3], a.loose[3])
		}
		if n, any := a.notes[1]; any {
			t.Errorf("%s: a member has noted of itself what another says: %+v", tt.what, n)
		}
		want := []machine.Persist{{Record: noteOf3}}
		if news {
			want = append([]machine.Persist{{Record: tt.said}}, want...)
		}
		if got := a.Ready().Persists; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: written is %+v, want %+v", tt.what, got, want)
		}
	}
}

// News of a member's directory is handled before the protocol's results of the same turn: a member that
// learns that it has forgotten its promises acknowledges nothing more.
func TestForgottenBeforeAnythingIsAcknowledged(t *testing.T) {
	a := acquaintedOne(t)
	a.counts = true
	m := abcast.Message{Client: abcast.NewClient(0, 1), Seq: 1, Payload: make([]byte, MessageBytesMax+batchBytes)}
	a.Step(machine.Now{Mono: 1}, abcast.Broadcast{Message: m}) // the protocol refuses it at once
	a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: 2, Body: heard{30, forgot{Life: 51, Dir: 6}}})
	var got []string
	for _, out := range a.Ready().Outcomes {
		switch out.(type) {
		case forgotten, abcast.Refused:
			got = append(got, reflect.TypeOf(out).String())
		}
	}
	if want := []string{"broadcast.forgotten", "abcast.Refused"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the node is told %v, want %v", got, want)
	}
}

// A member hears others when it takes part, and only in the life that it listens to.
func TestWhoIsHeard(t *testing.T) {
	for _, tt := range []struct {
		counts bool
		from   machine.NodeID
		life   uint64
		heard  bool
	}{
		{true, 2, 30, true},
		{false, 2, 30, false},
		{true, 2, 11, false},
		{true, 2, 0, false},
		{true, 3, 70, false},
		{true, 3, 0, false},
	} {
		a := acquaintedOne(t)
		a.counts = tt.counts
		a.Wake(machine.Now{Mono: 1})
		a.Ready()
		a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: tt.from, Body: heard{tt.life, want{5}}})
		wants := []abcast.Outcome{wanted{from: tt.from, want: want{5}}}
		if !tt.heard {
			wants = nil
		}
		if got := a.Ready().Outcomes; !reflect.DeepEqual(got, wants) {
			t.Errorf("a member that takes part: %v, which listens to life 30 of member 2, is told by %d in life %d what that wants: got %+v, want %+v", tt.counts, tt.from, tt.life, got, wants)
		}
	}
}

// An introduction may have the greatest number of lives and notes. No member sends more, and none keeps
// more notes that others pass on.
func TestHowMuchIsSaidOfOthers(t *testing.T) {
	full := introduction{Dir: 5, Life: livesKept, Notes: make([]note, notesMax)}
	for i := range uint64(livesKept) {
		full.Lives = append(full.Lives, birth{i + 1, i + 1})
	}
	if !full.possible() {
		t.Errorf("an introduction with %d lives and %d notes is not possible", livesKept, notesMax)
	}
	for what, change := range map[string]func(in *introduction){
		"one note more":              func(in *introduction) { in.Notes = make([]note, notesMax+1) },
		"one life more":              func(in *introduction) { in.Life++; in.Lives = append(in.Lives[:livesKept:livesKept], birth{999, 999}) },
		"more lives than there were": func(in *introduction) { in.Life-- },
		"no directory":               func(in *introduction) { in.Dir = 0 },
		"no life":                    func(in *introduction) { in.Lives = nil },
	} {
		in := full
		if change(&in); in.possible() {
			t.Errorf("an introduction with %s is possible", what)
		}
	}
	a := acquaintedOne(t)
	for i := range notesMax - 2 {
		id := machine.NodeID(100 + i)
		a.notes[id] = note{id, 7, 1, 7, 7}
	}
	later := note{100, 7, 2, 8, 9}
	a.learn([]note{{5000, 7, 1, 7, 7}, {5001, 7, 1, 7, 7}, later}) // there is room for one
	if _, any := a.notes[5001]; any || len(a.notes) != notesMax || a.notes[5000].Node != 5000 || a.notes[100] != later {
		t.Errorf("of %d members something is noted, of 5001 %v; want %d, without 5001, and what is newer of those that are noted", len(a.notes), any, notesMax)
	}
	a.notes[6000] = note{6000, 7, 1, 7, 7}
	a.Step(machine.Now{Mono: 1}, reached{id: 9})
	if in := a.Ready().Sends[0].Body.(introduction); len(in.Notes) != notesMax {
		t.Errorf("a member that has noted %d others says so of %d, want %d", len(a.notes), len(in.Notes), notesMax)
	}
}

// A member's answer that it has noted this one, or that this one has forgotten something, counts if it
// is about this life. A fact that counts already is not written again.
func TestWordsAboutAnotherLife(t *testing.T) {
	for _, life := range []uint64{51, 50, 0} {
		a := acquaintedOne(t)
		a.need = 1
		a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: 2, Body: heard{30, met{Life: life, Mark: 9}}})
		a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: 2, Body: heard{30, forgot{Life: life, Dir: 6}}})
		rd := a.Ready()
		ours := life == 51
		if _, met := a.met[2]; met != ours || (len(rd.Persists) == 1) != ours || (len(rd.Outcomes) == 1) != ours {
			t.Errorf("about life %d of a member in life 51: it is noted %v, and that leads to %+v; want %v", life, met, rd, ours)
		}
		if !ours || len(rd.Persists) == 0 {
			continue
		}
		if want := (machine.Persist{Record: counted{}, Then: []machine.Envelope{{From: 1, To: 1, Body: counted{}}}}); !reflect.DeepEqual(rd.Persists[0], want) {
			t.Errorf("a member that enough have noted writes %+v, want %+v", rd.Persists[0], want)
		}
		a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: 1, To: 1, Body: counted{}})
		begun := 0
		for _, out := range a.Ready().Outcomes {
			if _, ok := out.(counts); ok {
				begun++
			}
		}
		a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: 3, Body: heard{70, met{Life: 51, Mark: 9}}})
		a.Receive(machine.Now{Mono: 1}, machine.Envelope{From: 1, To: 1, Body: counted{}})
		rd = a.Ready()
		for _, out := range rd.Outcomes {
			if _, ok := out.(counts); ok {
				begun++
			}
		}
		for _, p := range rd.Persists {
			if p.Record == (counted{}) {
				t.Error("a member that counts already writes again that it does")
			}
		}
		if begun != 1 || a.met[3] != (noted{70, 9}) {
			t.Errorf("a member has begun %d times, and member 3 has noted it as %+v; want once, and as it said", begun, a.met[3])
		}
	}
}
