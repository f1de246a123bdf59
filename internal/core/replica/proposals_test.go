package replica

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A change of the membership that the leader does not take yet is tried again at the next tick. Other
// requests do not wait for it. If the leader refuses a put, it has no room, and other requests wait.
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

// A request that is given up may be in the log, or may reach it later, if it was ever addressed to a
// leader: this member or another. Its age counts from its first sending.
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

// Requests that wait in a lane are not given up while the lane moves. An empty lane is removed.
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

// A batch whose fate is known is finished, or is addressed again if its leader refused it. Batches for
// a term before that of an applied entry are dead, and are addressed again. Batches of that very term
// are still in progress, and would otherwise be in the log twice (P1, P2).
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

// A leader without room is asked about one batch in each tick, and not about all that wait.
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

// A batch that was sent to another member and got no answer within an election timeout is sent again,
// unchanged, to the leader of the same term. It then waits as long again.
func TestBatchesAreSentAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *Replica, b *pending)
		again  bool
	}{
		{"a batch", func(*Replica, *pending) {}, true},
		{"a batch of just now", func(_ *Replica, b *pending) { b.sent++ }, false},
		{"a batch for an earlier term", func(_ *Replica, b *pending) { b.term = 4 }, false},
		{"a batch without a leader", func(r *Replica, _ *pending) { r.leader = 0 }, false},
		{"a leader's batch", func(r *Replica, _ *pending) { r.leader = 1 }, false},
		{"a batch that is in the log here", func(_ *Replica, b *pending) { b.entry = nil }, false},
	} {
		r := keyReader(9)
		r.leader, r.term, r.now = 2, 5, machine.Mono(1000)
		p := &r.proposals
		p.seq = 9
		b := &pending{requests: []Propose{{ID: 1}}, lane: p.lane(""), seq: 3, term: 5, since: r.now, sent: r.now.Add(-r.cfg.electionTimeout() - 1), entry: []byte("e")}
		p.sent = []*pending{b}
		tt.change(r, b)
		sent := b.sent
		p.onTick(r.moment, &r.effects)
		var want []machine.Envelope
		if tt.again {
			want, sent = []machine.Envelope{{From: 1, To: 2, Body: forward{Term: 5, Seq: 3, Entry: []byte("e")}}}, r.now
		}
		if !reflect.DeepEqual(r.sends, want) || b.sent != sent {
			t.Errorf("%s is sent again as %+v at %d, want %+v at %d", tt.name, r.sends, b.sent, want, sent)
		}
	}
}

// A leader's refusal counts only for this life and for the batch with that number in that term. The
// same holds for its statement that a change of the members is invalid.
func TestRefusalsAreOfOneBatch(t *testing.T) {
	for _, tt := range []struct {
		name            string
		boot, term, seq uint64
		of              int // -1: none
	}{
		{"the first", 7, 5, 1, 0}, {"the second", 7, 5, 2, 1}, {"another life's", 6, 5, 1, -1}, {"of another term", 7, 4, 1, -1}, {"of another batch", 7, 5, 3, -1}, {"in another term", 7, 6, 1, 2},
	} {
		begin := func() (*Replica, *proposals) {
			r := keyReader(9)
			r.cfg.Boot = 7
			p := &r.proposals
			for _, b := range []pending{{seq: 1, term: 5}, {seq: 2, term: 5}, {seq: 1, term: 6}} {
				b.requests = []Propose{{ID: uint64(len(p.sent)), Body: putOf(t, "k")}}
				p.sent = append(p.sent, &b)
			}
			return r, p
		}
		r, p := begin()
		p.refused(r.moment, refused{Boot: tt.boot, Term: tt.term, Seq: tt.seq})
		for i, b := range p.sent {
			if b.term == 0 != (i == tt.of) {
				t.Errorf("the refusal of %s is taken for one of batch %d: %v", tt.name, i, b.term == 0)
			}
		}
		if p.refusal != (tt.of >= 0) {
			t.Errorf("after the refusal of %s others wait for the next tick: %v", tt.name, p.refusal)
		}
		r, p = begin()
		p.rejected(r.moment, &r.effects, rejected{Boot: tt.boot, Term: tt.term, Seq: tt.seq, Why: notFound})
		var want []Outcome
		if tt.of >= 0 {
			want = []Outcome{Rejected{ID: uint64(tt.of), Err: notFound.err()}}
		}
		if !reflect.DeepEqual(r.outcomes, want) || len(p.sent) != 3-len(want) {
			t.Errorf("that %s is rejected is told as %+v, and %d batches are left; want %+v", tt.name, r.outcomes, len(p.sent), want)
		}
	}
	r := keyReader(9)
	r.cfg.Boot = 7
	p := &r.proposals
	change, err := EncodeRequest(RemoveMember(3))
	if err != nil {
		t.Fatal(err)
	}
	p.refusal, p.sent = true, []*pending{{seq: 1, term: 5, requests: []Propose{{Body: change}}}}
	if p.refused(r.moment, refused{Boot: 7, Term: 5, Seq: 1}); !p.refusal {
		t.Error("a leader without room that does not take a change is asked again before the next tick")
	}
}

// A sent batch is remembered so that it can be sent again, and is marked if it is kept. A leader that
// does not take a change goes on with the batches behind it.
func TestHowABatchIsAddressed(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	r := s.members[1].r
	p := &r.proposals
	p.sent = []*pending{{requests: []Propose{{ID: 4, Body: putOf(t, "k")}}, lane: &lane{}, since: r.now}}
	r.sends, p.seq = nil, 6
	r.turnProposals()
	entry := (&batch{Term: r.term, From: 2, Boot: 1, Seq: 7, Requests: p.sent[0].requests}).encode()
	if want := []machine.Envelope{{From: 2, To: 1, Body: forward{Term: r.term, Seq: 7, Entry: entry}}}; !reflect.DeepEqual(r.sends, want) {
		t.Errorf("a batch is sent as %+v, want %+v", r.sends, want)
	}
	if b := p.sent[0]; b.term != r.term || b.seq != 7 || b.sent != r.now || !slices.Equal(b.entry, entry) {
		t.Errorf("a batch was sent, and remembered as %+v", *b)
	}

	lead := s.members[0].r
	change, err := EncodeRequest(AddMember(9, []string{"z"}, true))
	if err != nil {
		t.Fatal(err)
	}
	lead.reads.memberships = lead.reads.memberships.With(lead.reads.memberships.Newest()) // one is not released yet
	lead.proposals.sent = nil
	for _, body := range [][]byte{change, putOf(t, "k")} {
		lead.proposals.sent = append(lead.proposals.sent, &pending{requests: []Propose{{Body: body}}, lane: &lane{}, since: lead.now})
	}
	last := lead.last
	for range 2 {
		lead.turnProposals()
		if sent := lead.proposals.sent; lead.last != last+1 || sent[0].term != 0 || !sent[0].waits || sent[1].term != lead.term || lead.proposals.refusal {
			t.Errorf("a change waits for the one before: %v, and a put behind it is in the log: %v; others wait: %v", sent[0].waits, sent[1].term != 0, lead.proposals.refusal)
		}
	}

	lead.reads.keys.start(9, 9, readSetting{policy: quorumlease.AllByKey}, nil)
	lead.levels = levels{2: keepsLevel, 3: keepsLevel}
	lead.proposals.sent = []*pending{{requests: []Propose{{Body: putOf(t, "k")}}, lane: &lane{}, since: lead.now}}
	lead.turnProposals()
	entries := lead.raft.Ready().Entries
	if len(entries) == 0 || !isKept(entries[len(entries)-1].GetData()) {
		t.Errorf("a batch that the leader keeps is not marked: %v", entries)
	}
}

// A lane sends one more batch in a turn if its earlier batches have been in progress for long. The
// number of batches in progress is bounded. The alarm covers the next one. A lane whose time has not
// come keeps its waiting requests.
func TestHowManyBatchesSetOut(t *testing.T) {
	const now = machine.Mono(time.Hour)
	for _, tt := range []struct {
		name      string
		flying    int
		since     time.Duration
		sets, due int // due: when another may go, in spacings; -1: never
	}{
		{"none on their way", 0, 0, 2, 1},
		{"one on its way", 1, 0, 1, 1},
		{"two on their way", 2, spacing - 1, 0, 1},
		{"two on their way for long", 2, spacing, 1, 1},
		{"as many on their way as may be", maxFlying, 10 * spacing, 0, -1},
	} {
		p := &proposals{}
		l := p.lane("")
		for range tt.flying {
			p.sent = append(p.sent, &pending{lane: l, since: now.Add(-tt.since)})
		}
		for id := range uint64(5) { // each is a batch
			p.file(now, Propose{ID: id, Body: make([]byte, 100)}, "")
		}
		p.depart(now, 100)
		due := now.Add(spacing)
		if tt.sets == 0 {
			due = now.Add(spacing - tt.since)
		}
		if tt.due < 0 {
			due = machine.Never
		}
		if got := len(p.sent) - tt.flying; got != tt.sets || len(l.open) != 5-tt.sets || p.due(now) != due || l.flying != len(p.sent) {
			t.Errorf("with %s %d set out, %d are on their way, and the next may go at %v; want %d, at %v", tt.name, got, l.flying, p.due(now), tt.sets, due)
		}
	}
	p := &proposals{}
	for range maxApart {
		p.sent = append(p.sent, &pending{lane: p.lane(apart)})
	}
	p.file(now, Propose{ID: 1}, "w")
	p.depart(now, 100)
	if l := p.lane("w"); len(l.open) != 1 {
		t.Errorf("as many batches are on their way as may be, and of a request that waits %d are left", len(l.open))
	}
	// What waits in a lane was never addressed: to give it up is no riddle.
	r := keyReader(9)
	r.proposals.file(0, Propose{ID: 8}, "w")
	r.now = machine.Mono(r.cfg.patience() + 1)
	for range 2 {
		r.proposals.onTick(r.moment, &r.effects)
	}
	if want := []Outcome{Dropped{IDs: []uint64{8}}}; !reflect.DeepEqual(r.outcomes, want) {
		t.Errorf("what has waited for a leader for too long is given up as %+v, want %+v", r.outcomes, want)
	}
	// All that are given up are gone.
	r.outcomes, r.proposals.sent = nil, []*pending{{lane: &lane{}, requests: []Propose{{ID: 4}}}}
	if r.proposals.abandon(&r.effects, func(*pending) bool { return true }); len(r.proposals.sent) > 0 {
		t.Errorf("%d batches are left, and all were given up", len(r.proposals.sent))
	}
	// Each request is filed once.
	r.proposals.add(Propose{ID: 5})
	if got, again := r.proposals.arrived(), r.proposals.arrived(); len(got) != 1 || len(again) > 0 {
		t.Errorf("one request has come: %d are filed, and %d once more", len(got), len(again))
	}
}
