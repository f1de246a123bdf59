package flease

import (
	"reflect"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A durable peer persists each change, and its greatest ballot, before it answers. Answers that change nothing
// wait for the disk as well.
func TestWhatIsPersisted(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.Durable = true })
	p := c.peers[1]
	k := func(n uint16) Ballot { return BallotOf(p.c, n, 2) }
	lease := Value{{Token: k(3), Until: p.c + 500, Incarnation: 1, Slots: 1, Owner: 2}}
	back := Value{lease[0]}
	back[0].Released = true
	for _, tt := range []struct {
		name    string
		ops     []Op
		record  []CellRecord // nil for none
		answers []Kind
	}{
		{"a promise", []Op{{Kind: Read, Name: "a", Ballot: k(1)}}, []CellRecord{{Name: "a", Promised: k(1)}}, []Kind{AckRead}},
		{"a greater promise", []Op{{Kind: Read, Name: "a", Ballot: k(2)}}, []CellRecord{{Name: "a", Promised: k(2)}}, []Kind{AckRead}},
		{"a refusal", []Op{{Kind: Read, Name: "a", Ballot: k(1)}}, nil, []Kind{NackRead}},
		{"a write", []Op{{Kind: Write, Name: "a", Ballot: k(3), Value: lease}}, []CellRecord{{Name: "a", Promised: k(3), Written: k(3), Value: lease}}, []Kind{AckWrite}},
		{"a look", []Op{{Kind: Peek, Name: "a", Ballot: k(9)}}, nil, []Kind{Peeked}},
		{"two registers", []Op{{Kind: Read, Name: "b", Ballot: k(4)}, {Kind: Read, Name: "a", Ballot: k(5)}, {Kind: Write, Name: "b", Ballot: k(6)}},
			[]CellRecord{{Name: "b", Promised: k(6), Written: k(6)}, {Name: "a", Promised: k(5), Written: k(3), Value: lease}}, []Kind{AckRead, AckRead, AckWrite}},
		{"a value given back under the same ballot", []Op{{Kind: Write, Name: "a", Ballot: k(5), Value: lease}, {Kind: Write, Name: "a", Ballot: k(5), Value: back}},
			[]CellRecord{{Name: "a", Promised: k(5), Written: k(5), Value: back}}, []Kind{AckWrite, AckWrite}},
		{"that again", []Op{{Kind: Write, Name: "a", Ballot: k(5), Value: lease}, {Kind: Write, Name: "a", Ballot: k(5), Value: back}}, nil, []Kind{AckWrite, AckWrite}},
		{"a lease", []Op{{Kind: Write, Name: "a", Ballot: k(6), Value: lease}}, []CellRecord{{Name: "a", Promised: k(6), Written: k(6), Value: lease}}, []Kind{AckWrite}},
		{"that it is given back", []Op{{Kind: Write, Name: "a", Ballot: k(6), Value: back}}, []CellRecord{{Name: "a", Promised: k(6), Written: k(6), Value: back}}, []Kind{AckWrite}},
		{"one of them again", []Op{{Kind: Write, Name: "a", Ballot: k(7)}}, []CellRecord{{Name: "a", Promised: k(7), Written: k(7)}}, []Kind{AckWrite}},
	} {
		p.Receive(c.now, machine.Envelope{From: 2, To: 1, Body: &Batch{Incarnation: 1, Epoch: 1, Digest: p.lay.digest, Ops: tt.ops}})
		rd := p.Ready()
		if len(rd.Sends) > 0 || len(rd.Persists) != 1 || len(rd.Persists[0].Then) != 1 {
			t.Fatalf("%s: it sends %+v at once, and behind what it persists %+v; want its answers behind", tt.name, rd.Sends, rd.Persists)
		}
		var kinds []Kind
		for _, o := range rd.Persists[0].Then[0].Body.(*Batch).Ops {
			kinds = append(kinds, o.Kind)
		}
		if to := rd.Persists[0].Then[0].To; to != 2 || !reflect.DeepEqual(kinds, tt.answers) {
			t.Errorf("%s: peer %d is answered %v, want %v", tt.name, to, kinds, tt.answers)
		}
		var want any
		if tt.record != nil {
			want = &Record{Floor: p.floor, Highest: p.hlc.last, Cells: tt.record}
		}
		if got := rd.Persists[0].Record; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: it persists %+v, want %+v", tt.name, got, want)
		}
	}
}

// A durable peer counts its own promise when that is persisted, and not before.
func TestOwnPromisesArePersisted(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.Durable = true })
	p := c.peers[1]
	p.Step(c.now, Acquire{ID: 7, Name: "a"})
	rd := p.Ready()
	at := &p.attempts[p.claims[p.byID[7]].att]
	if at.acks != 0 || len(rd.Persists) != 1 || len(rd.Sends) > 0 {
		t.Fatalf("before anything is persisted %b have promised; it persists %+v, and says %+v", at.acks, rd.Persists, rd.Sends)
	}
	own := 0
	for _, env := range rd.Persists[0].Then {
		if env.To == 1 {
			own++
			p.Receive(c.now, env)
		}
	}
	if own != 1 || at.acks != 1 {
		t.Errorf("when it is persisted %d answers are its own, and %b have promised", own, at.acks)
	}
}
