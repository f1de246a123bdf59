package disklease

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestWhatNotesMustNotShow has a register show what cannot be, and wants the operation to
// fail, and to succeed once that is over.
func TestWhatNotesMustNotShow(t *testing.T) {
	me, other := machine.ID{15: 1}, machine.ID{15: 2}
	own := block{rank(1, 1), Rank{}, nil}.encode()
	good := machine.Value{Notes: []machine.Noted{{Writer: me, Data: own}}}
	tests := []struct {
		name  string
		shows machine.Value
	}{
		{"our note is gone", machine.Value{}},
		{"our note is an older one", machine.Value{Notes: []machine.Noted{{Writer: me, Data: block{}.encode()}}}},
		{"our note is of another bal", machine.Value{Notes: []machine.Noted{{Writer: me, Data: block{rank(1, 1), rank(1, 1), nil}.encode()}}}},
		{"our note has another's name", machine.Value{Notes: []machine.Noted{{Writer: other, Data: own}}}},
		{"a note is no block", machine.Value{Notes: []machine.Noted{{Writer: me, Data: own}, {Writer: other, Data: []byte("a wish")}}}},
		{"a bal above its mbal", machine.Value{Notes: []machine.Noted{{Writer: me, Data: own}, {Writer: other, Data: block{rank(1, 2), rank(2, 2), nil}.encode()}}}},
		{"data that is no decision", machine.Value{Version: machine.Version{Seq: 1}, Data: []byte("a record"), Notes: good.Notes}},
		{"empty data", machine.Value{Version: machine.Version{Seq: 1}, Notes: good.Notes}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := &probe{ops: []any{RRRead{rank(1, 1)}, RRRead{rank(1, 1)}}}
			m := RankedOverNotes(c, me, 0)
			shows := test.shows
			for len(c.ends) < 2 {
				for _, a := range m.Ready().Accesses {
					var reply any
					if _, ok := a.Op.(machine.Read); ok {
						reply, shows = shows, good
					}
					m.Accessed(machine.Now{}, machine.Accessed{ID: a.ID, Reply: reply})
				}
			}
			if err := c.ends[0].Err; !errors.Is(err, ErrBlock) {
				t.Errorf("the first read: %v, want %v", err, ErrBlock)
			}
			if got, want := c.ends[1].Reply, any(RRSeen{}); c.ends[1].Err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("the second read: %v, %v; want %v", got, c.ends[1].Err, want)
			}
		})
	}
}

// The decision is written under the Seq that the read before has shown, which spares the store
// a look; and never twice under the same, for the first write may still come in.
func TestTheSeqOfADecision(t *testing.T) {
	me, value := machine.ID{15: 1}, []byte("blue")
	c := &probe{ops: []any{RRWrite{rank(1, 1), value}, RRWrite{last, value}, RRWrite{last, value}}}
	m := RankedOverNotes(c, me, 0)
	var seqs []uint64
	var notes []machine.Noted
	for len(c.ends) < 3 {
		for _, a := range m.Ready().Accesses {
			var reply any
			switch op := a.Op.(type) {
			case machine.Note:
				notes = []machine.Noted{{Writer: me, Data: op.Data}}
			case machine.Read:
				reply = machine.Value{Next: 7, Notes: notes}
			case machine.Write:
				seqs = append(seqs, op.Seq)
			}
			m.Accessed(machine.Now{}, machine.Accessed{ID: a.ID, Reply: reply})
		}
	}
	if want := []uint64{7, 0}; !slices.Equal(seqs, want) {
		t.Errorf("the decision is written under %d, want %d", seqs, want)
	}
}

// What was written for longer than the patience counts for nothing, and is written again: a base that
// acknowledged it may have been restored since.
func TestLateWritesAreWrittenAgain(t *testing.T) {
	const patience = time.Minute
	me, value := machine.ID{15: 1}, []byte("blue")
	for _, late := range []bool{false, true} {
		c := &probe{ops: []any{RRRead{rank(1, 1)}, RRRead{rank(1, 1)}, RRWrite{rank(1, 1), value}, RRWrite{rank(1, 1), value}, RRWrite{last, value}}}
		m := RankedOverNotes(c, me, patience)
		now := machine.Now{Mono: 1}
		m.Wake(now)
		var notes []machine.Noted
		var done []string
		writes := 0
		for len(c.ends) < len(c.ops) {
			for _, a := range m.Ready().Accesses {
				var reply any
				took := time.Hour // reads may take any time
				switch op := a.Op.(type) {
				case machine.Note:
					notes = []machine.Noted{{Writer: me, Data: op.Data}}
					done = append(done, "note")
				case machine.Read:
					reply = machine.Value{Next: 7, Notes: notes}
					done = append(done, "read")
				case machine.Write:
					done = append(done, "write")
				}
				if _, read := a.Op.(machine.Read); !read {
					writes++
					if took = patience; late && writes%2 == 1 {
						took++
					}
				}
				now.Mono = now.Mono.Add(took)
				m.Accessed(now, machine.Accessed{ID: a.ID, Reply: reply})
			}
		}
		want := "note read read note read read write"
		if late {
			want = "note note read note note read write"
		}
		for i, end := range c.ends {
			if wrong := late && i%2 == 0; (end.Err != nil) != wrong {
				t.Errorf("late %v: operation %d ends with %v, %v", late, i, end.Reply, end.Err)
			}
		}
		if got := strings.Join(done, " "); got != want {
			t.Errorf("late %v: the accesses are %s, want %s", late, got, want)
		}
	}
}

// probe asks one operation after the other, whether they fail or not.
type probe struct {
	ops  []any
	ends []machine.Accessed
	sent int
}

func (p *probe) Step(machine.Now, ConsensusInput) {}
func (p *probe) Wake(machine.Now)                 {}
func (p *probe) Accessed(_ machine.Now, a machine.Accessed) {
	p.ends = append(p.ends, a)
}

func (p *probe) Ready() machine.Ready[Outcome] {
	rd := machine.Ready[Outcome]{Alarm: machine.Never}
	if p.sent == len(p.ends) && p.sent < len(p.ops) {
		p.sent++
		rd.Accesses = []machine.Access{{ID: uint64(p.sent), Op: p.ops[p.sent-1]}}
	}
	return rd
}

// TestObsoleteBlock wants that a base keeps every block until it shows the decision, and
// keeps that.
func TestObsoleteBlock(t *testing.T) {
	a, b := machine.ID{15: 1}, machine.ID{15: 2}
	decided := machine.Value{Version: machine.Version{Seq: 1, Writer: a}, Data: encodeDecision([]byte("blue"))}
	tests := []struct {
		name   string
		shows  machine.Value
		writer machine.ID
		want   bool
	}{
		{"nothing decided", machine.Value{}, a, false},
		{"somebody else's block", decided, b, true},
		{"the writer of the decision", decided, a, false},
		{"a lease's record", machine.Value{Version: machine.Version{Seq: 1, Writer: a}, Data: record{delay: 1}.encode(1)}, b, false},
	}
	for _, test := range tests {
		if got := ObsoleteBlock(test.shows, test.writer); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
	// Leases take such a register for nothing that a store may forget.
	blocks := machine.Value{Notes: []machine.Noted{{Writer: b, Data: block{rank(1, 2), rank(1, 2), []byte("x")}.encode()}}}
	for _, v := range []machine.Value{blocks, decided} {
		if Obsolete(v, b) {
			t.Errorf("a store for leases forgets %v", v)
		}
	}
}

func FuzzBlock(f *testing.F) {
	f.Add(block{rank(2, 1), rank(1, 1), []byte("blue")}.encode())
	f.Add(block{}.encode())
	f.Add([]byte("no block"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeBlock(data)
		if err != nil {
			if !errors.Is(err, ErrBlock) {
				t.Fatalf("%v is not ErrBlock", err)
			}
			return
		}
		again, err := decodeBlock(b.encode())
		if err != nil || !reflect.DeepEqual(again, b) || string(b.encode()) != string(data) {
			t.Fatalf("%+v became %+v, %v", b, again, err)
		}
	})
}
