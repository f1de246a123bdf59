package replica

import (
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A change of the membership that the leader does not take yet is tried again at the next tick,
// and other requests do not wait for that. A put that it does not take tells that it has no
// room, and they do.
func TestARefusedChangeHoldsUpNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		asked  proto.Message
		change bool
	}{
		{"a put", &pb.PutRequest{Key: []byte("k")}, false},
		{"a change", AddMember(9, []string{"http://9:1"}, false), true},
	} {
		body, err := EncodeRequest(tc.asked)
		if err != nil {
			t.Fatal(err)
		}
		r := newStage(t).members[0].r
		p := &r.proposals
		b := &pending{requests: []Propose{{ID: 1, Body: body}}, term: 5, seq: 1}
		p.sent = []*pending{b}
		p.refused(r.moment, refused{Boot: r.cfg.Boot, Term: 5, Seq: 1})
		if b.term != 0 || b.waits != tc.change || p.refusal == tc.change {
			t.Errorf("%s is refused: it waits for the next tick %v, and so do others %v", tc.name, b.waits, p.refusal)
		}
		if p.onTick(r.moment, &r.effects); b.waits || p.refusal {
			t.Errorf("%s was refused, and after a tick it waits %v, and others %v", tc.name, b.waits, p.refusal)
		}
	}
}

// What is given up after a while may be in the log, or get there, if it was addressed to a leader
// at all, to this member as to another. How long that takes is counted from when it set out
// first.
func TestWhatWasAddressedIsGivenUpAsAmbiguous(t *testing.T) {
	r := keyReader(9)
	p := &r.proposals
	r.now = r.now.Add(r.cfg.patience() + 1)
	l := p.lane("")
	p.sent = []*pending{
		{lane: l, requests: []Propose{{ID: 1}, {ID: 2}}, term: 2, sent: r.now},
		{lane: l, requests: []Propose{{ID: 3}}, term: 2, sent: r.now, entry: []byte("e")},
		{lane: l, requests: []Propose{{ID: 4}}},
		{lane: l, requests: []Propose{{ID: 5}}, term: 2, since: 1, sent: 1},
	}
	p.onTick(r.moment, &r.effects)
	want := []Outcome{Dropped{IDs: []uint64{1, 2}, Ambiguous: true}, Dropped{IDs: []uint64{3}, Ambiguous: true}, Dropped{IDs: []uint64{4}}}
	if !reflect.DeepEqual(r.outcomes, want) || len(p.sent) != 1 {
		t.Errorf("given up: %+v, and %d batches are kept; want %+v, and 1", r.outcomes, len(p.sent), want)
	}
}

// Requests that wait in a lane are not given up while it moves, and a lane that is empty is gone.
func TestALaneThatMovesGivesNothingUp(t *testing.T) {
	r := keyReader(9)
	r.reads.keys.stop() // one lane has all
	p := &r.proposals
	for id := range uint64(6) {
		p.add(Propose{ID: id, Body: make([]byte, r.cfg.MaxEntryBytes-100)})
	}
	for range 3 { // two batches at once
		r.turnProposals()
		r.now = r.now.Add(r.cfg.patience() - 1)
		p.onTick(r.moment, &r.effects)
		if len(r.outcomes) > 0 {
			t.Fatalf("a lane that has moved %v before: %+v", r.cfg.patience()-1, r.outcomes)
		}
		p.sent = nil // they were applied
	}
	if r.turnProposals(); len(p.lanes) > 0 {
		t.Errorf("%d lanes are left of requests that are done", len(p.lanes))
	}
}

// A batch whose fate is known is done, or addressed anew if its leader refused it. Batches that were
// addressed to a leader of an earlier term than that of an applied entry are dead, and addressed anew.
// Those of that term are on their way still, and would be in the log twice (P1, P2).
func TestWhatBecomesOfBatches(t *testing.T) {
	begin := func() (*Replica, *proposals) {
		r := keyReader(9)
		p := &r.proposals
		p.appliedTerm = 2
		for _, b := range []pending{{seq: 1, term: 2}, {seq: 2, term: 3}, {seq: 3, term: 3}, {seq: 4, term: 4}, {}} {
			p.sent = append(p.sent, &b)
		}
		return r, p
	}
	for _, tt := range []struct {
		name string
		in   Applied
		want []uint64 // the terms of those that are left
	}{
		{"nothing", Applied{Term: 2}, []uint64{2, 3, 3, 4, 0}},
		{"that one is done", Applied{Term: 2, Batches: []batchFate{{Seq: 1}}}, []uint64{3, 3, 4, 0}},
		{"that one was refused", Applied{Term: 2, Batches: []batchFate{{Seq: 1, Refused: true}}}, []uint64{0, 3, 3, 4, 0}},
		{"of an unknown one", Applied{Term: 2, Batches: []batchFate{{Seq: 9}, {Seq: 0}}}, []uint64{2, 3, 3, 4, 0}},
		{"of a later term", Applied{Term: 3}, []uint64{0, 3, 3, 4, 0}},
		{"of a later term, and that one is done", Applied{Term: 3, Batches: []batchFate{{Seq: 2}}}, []uint64{0, 3, 4, 0}},
		{"of two terms later", Applied{Term: 4}, []uint64{0, 0, 0, 4, 0}},
		{"of an earlier term", Applied{Term: 1}, []uint64{2, 3, 3, 4, 0}},
	} {
		_, p := begin()
		p.settled(tt.in)
		var got []uint64
		for _, b := range p.sent {
			got = append(got, b.term)
		}
		if !slices.Equal(got, tt.want) || p.appliedTerm != max(2, tt.in.Term) {
			t.Errorf("told %s: the batches that are left are for terms %d, want %d; dead ones were looked for up to term %d", tt.name, got, tt.want, p.appliedTerm)
		}
	}
}

// A leader without room is asked about one batch, once in a tick, and not about all that wait behind it.
func TestALeaderWithoutRoomIsAskedOnce(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	r := s.members[0].r
	p := &r.proposals
	r.tail.bytes = 2 * r.cfg.MaxTailBytes
	for range 3 {
		p.sent = append(p.sent, &pending{requests: []Propose{{Body: putOf(t, "k")}}, lane: &lane{}, since: r.now})
	}
	for tick := range uint64(2) {
		before := p.seq
		for range 3 {
			if r.turnProposals(); p.seq != before+1 || !p.refusal {
				t.Errorf("in tick %d a leader without room is asked %d times, want once; others wait: %v", tick, p.seq-before, p.refusal)
			}
		}
		p.onTick(r.moment, &r.effects)
	}
	r.tail.bytes = 0
	if r.turnProposals(); slices.ContainsFunc(p.sent, func(b *pending) bool { return b.term != r.term }) || p.refusal {
		t.Error("a leader that has room again is not asked about all that wait")
	}
}
