package replica

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// A change of the leader or the term ends what was said, asked and counted before. The member's own
// questions are asked again. Only a change of the term ends the knowledge that this log is the
// leader's. The owner is informed, even that there is no leader.
func TestAnotherLeadership(t *testing.T) {
	for _, tt := range []struct {
		name     string
		leader   machine.NodeID
		term     uint64
		received uint64
		bereaved bool
	}{
		{"another leader in the same term", 3, 5, 15, false},
		{"no leader", 0, 5, 15, true},
		{"the same leader in another term", 2, 6, 10, false},
		{"another leader in another term", 3, 6, 10, false},
		{"this member", 1, 6, 10, false},
	} {
		r := keyReader(9)
		r.leader, r.term, r.begun, r.bereaved = 2, 5, 8, true
		rl := &r.reads
		rl.stalls = quorumlease.NewStalls(quorumlease.Config{})
		rl.committed, rl.received = 10, 15
		r.forwards, r.levels = map[asker]*fates{{2, 1}: {}}, levels{2: 1}
		r.proposals.refusal = true
		r.leases.ticking = true
		r.now, r.leadership.since = 77, 33
		r.rounds = rounds{id: 4, flying: []round{{id: 3}}, inbox: []question{{round: 1}}, late: []lateRounds{{index: 11}}, wait: 1}
		waits := &keyRead{ReadKeys: ReadKeys{ID: 1}, known: true, asked: true, committed: true, need: 12}
		rl.keys.reads = []*keyRead{waits}
		r.asks.add(r.now, AskLease{ID: 6, Lease: 1})
		r.asks.fresh, r.asks.away, r.asks.inbox, r.asks.confirmed = nil, true, []askBatch{{}}, []askBatch{{}}
		r.follow(tt.leader, tt.term)
		if r.leader != tt.leader || r.term != tt.term || r.begun != 0 || rl.received != tt.received || r.bereaved != tt.bereaved {
			t.Errorf("%s: it follows %d in term %d; raft has begun %d rounds, the log is the leader's up to %d, bereaved: %v; want 0 rounds, %d, %v", tt.name, r.leader, r.term, r.begun, rl.received, r.bereaved, tt.received, tt.bereaved)
		}
		if len(r.forwards)+len(r.levels) > 0 || r.levels == nil || r.proposals.refusal || r.leases.ticking {
			t.Errorf("%s: of the leadership before there are %d fates and the levels %v; batches wait: %v; time is counted: %v", tt.name, len(r.forwards), r.levels, r.proposals.refusal, r.leases.ticking)
		}
		if r.leadership.since != 77 {
			t.Errorf("%s: it counts from %v, want 77", tt.name, r.leadership.since)
		}
		if want := (rounds{id: 4}); !reflect.DeepEqual(r.rounds, want) || waits.known || waits.asked {
			t.Errorf("%s: rounds go on as %+v, want %+v; a read that waits for what another leader had is %+v", tt.name, r.rounds, want, *waits)
		}
		if a := &r.asks; len(a.fresh) != 1 || a.away || len(a.inbox)+len(a.confirmed) > 0 {
			t.Errorf("%s: %d questions are asked anew, want 1; %d wait for a round, %d for an entry", tt.name, len(a.fresh), len(a.inbox), len(a.confirmed))
		}
		if want := []Outcome{LeaderChanged{Leader: tt.leader, Term: tt.term}}; !reflect.DeepEqual(r.outcomes, want) {
			t.Errorf("%s: the owner is told %+v, want %+v", tt.name, r.outcomes, want)
		}
	}
}

// A batch that another member sends is appended once, in the term that it is for. Once it was refused,
// it is refused each time that it arrives. Each life of a member numbers its batches anew. A batch
// from a stranger gets no answer.
func TestForwardedBatches(t *testing.T) {
	lead := func() *Replica {
		s := newStage(t)
		for _, command := range []string{"elect 1", "pass 200ms"} {
			s.do(command)
		}
		r := s.members[0].r
		r.sends = nil
		return r
	}
	made := func(term uint64, from machine.NodeID, boot, seq uint64, body []byte) forward {
		b := &batch{Term: term, From: from, Boot: boot, Seq: seq, Requests: []Propose{{ID: 1, Body: body}}}
		return forward{Term: term, Seq: seq, Entry: b.encode()}
	}
	change := func(r *Replica) []byte {
		body, err := EncodeRequest(RemoveMember(9))
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	for _, tt := range []struct {
		name   string
		come   func(r *Replica) []forward
		before func(r *Replica)
		grows  uint64
		want   func(r *Replica) []any
	}{
		{"a batch", func(r *Replica) []forward { return []forward{made(r.term, 2, 7, 1, putOf(t, "k"))} }, nil, 1, nil},
		{"a batch twice", func(r *Replica) []forward {
			m := made(r.term, 2, 7, 1, putOf(t, "k"))
			return []forward{m, m}
		}, nil, 1, nil},
		{"batches of two lives", func(r *Replica) []forward {
			return []forward{made(r.term, 2, 7, 1, putOf(t, "k")), made(r.term, 2, 8, 1, putOf(t, "k"))}
		}, nil, 2, nil},
		{"a batch of another member's", func(r *Replica) []forward { return []forward{made(r.term, 3, 7, 1, putOf(t, "k"))} }, nil, 0, nil},
		{"a batch of another term", func(r *Replica) []forward { return []forward{made(r.term-1, 2, 7, 1, putOf(t, "k"))} }, nil, 0, nil},
		{"a batch of a later term", func(r *Replica) []forward { return []forward{made(r.term+1, 2, 7, 1, putOf(t, "k"))} }, nil, 0, nil},
		{"a batch in another term's envelope", func(r *Replica) []forward {
			m := made(r.term-1, 2, 7, 1, putOf(t, "k"))
			m.Term = r.term
			return []forward{m}
		}, nil, 0, nil},
		{"a batch in another's envelope", func(r *Replica) []forward {
			m := made(r.term, 2, 7, 1, putOf(t, "k"))
			m.Seq = 2
			return []forward{m}
		}, nil, 0, nil},
		{"a batch for one that leads no more", func(r *Replica) []forward { return []forward{made(r.term, 2, 7, 1, putOf(t, "k"))} }, func(r *Replica) { r.leader = 3 }, 0, nil},
		{"a batch without room", func(r *Replica) []forward { return []forward{made(r.term, 2, 7, 1, putOf(t, "k"))} }, func(r *Replica) { r.tail.bytes = 2 * r.cfg.MaxTailBytes }, 0,
			func(r *Replica) []any { return []any{refused{Boot: 7, Term: r.term, Seq: 1}} }},
		{"a change that makes no sense", func(r *Replica) []forward { return []forward{made(r.term, 2, 7, 1, change(r))} }, nil, 0,
			func(r *Replica) []any { return []any{rejected{Boot: 7, Term: r.term, Seq: 1, Why: notFound}} }},
	} {
		r := lead()
		if tt.before != nil {
			tt.before(r)
		}
		last := r.last
		for _, m := range tt.come(r) {
			r.onForward(2, m)
		}
		var got, want []any
		for _, env := range r.sends {
			if got = append(got, env.Body); env.To != 2 {
				t.Errorf("%s is answered to %d", tt.name, env.To)
			}
		}
		if tt.want != nil {
			want = tt.want(r)
		}
		if r.last-last != tt.grows || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the log grows by %d, and the answer is %+v; want %d, %+v", tt.name, r.last-last, got, tt.grows, want)
		}
	}
	// Its sender addresses it anew as another batch, so that a refusal is for good: otherwise its requests could get into the log twice.
	r := lead()
	m := made(r.term, 2, 7, 1, putOf(t, "k"))
	had := r.tail.bytes
	r.tail.bytes = 2 * r.cfg.MaxTailBytes
	r.onForward(2, m)
	r.tail.bytes = had
	last := r.last
	if r.onForward(2, m); r.last != last || len(r.sends) != 2 {
		t.Errorf("a batch that was refused for want of room comes again, and the log grows by %d; %d refusals are sent, want 2", r.last-last, len(r.sends))
	}
}

// A leader whose followers take nothing refuses entries beyond a quarter of the tail, so that a follower that comes back
// has little to take in.
func TestHowMuchALeaderAppendsUncommitted(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	r := s.members[0].r
	entry := (&batch{Term: r.term, From: 1, Boot: 1, Seq: 9, Requests: []Propose{{ID: 1, Body: bytes.Repeat([]byte("x"), 1<<20)}}}).encode()
	taken := 0
	for r.append(r.term, entry, nil) {
		taken += len(entry)
	}
	if quarter := r.cfg.MaxTailBytes / 4; taken < quarter-len(entry) || taken > quarter {
		t.Errorf("a leader takes %d bytes that nobody has confirmed, want a quarter of %d", taken, r.cfg.MaxTailBytes)
	}
}

// An entry is appended in the term that it is for, under the next index, and its revocations are
// noted. The leader's own entries record its ID, the term and its life.
func TestHowALeaderAppends(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	r := s.members[0].r
	revoke := bodyOf(t, kindRevoke, listOf([]int64{0}).Checkpoints[0]) // field 1 is the ID of either
	revoke = append(revoke[:1:1], 1<<3, 7)
	last := r.last
	requests := []Propose{{ID: 1, Body: revoke}}
	entry := (&batch{Term: r.term, From: 1, Boot: 1, Seq: 9, Requests: requests}).encode()
	if r.append(r.term-1, entry, requests) || r.append(r.term+1, entry, requests) || r.last != last || len(r.leases.revoking) > 0 {
		t.Errorf("an entry for another term is appended: the log ends at %d, %d before", r.last, last)
	}
	if !r.append(r.term, entry, requests) || r.last != last+1 || !maps.Equal(r.leases.revoking, map[int64]uint64{7: last + 1}) {
		t.Errorf("an entry that revokes lease 7 is appended: the log ends at %d, %d before, and leases are about to be revoked by %v", r.last, last, r.leases.revoking)
	}
	r.cfg.Boot, r.visibleTerm = 77, 0
	seq, ok := r.proposeOwn(kindExpire, listOf([]int64{5}))
	entries := r.raft.Ready().Entries
	b, err := decodeBatch(entries[len(entries)-1].GetData())
	if err != nil || !ok || b.From != 1 || b.Boot != 77 || b.Term != r.term || b.Seq != seq || len(b.Requests) != 1 || b.Requests[0].ID != 0 {
		t.Errorf("the leader's own entry is %+v, %v, want one of member 1's life 77, for term %d, with number %d", b, err, r.term, seq)
	}
}

// The level of a member is the last one that it reported with an acknowledgment, and none if that
// acknowledgment had no level. A level counts as reached if all other members report it or a higher
// one.
func TestLevelsAreLearnt(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    *raftpb.Message
		want byte
	}{
		{"an acknowledgment", &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Context: []byte{1}}, 1},
		{"an acknowledgment of a later version", &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Context: []byte{9, 9}}, 9},
		{"an acknowledgment without a level", &raftpb.Message{Type: raftpb.MsgAppResp.Enum()}, 0},
		{"a refusal", &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Reject: new(true)}, 5},
		{"a heartbeat's", &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Context: []byte{8}}, 5},
	} {
		ls := levels{2: 5}
		if ls.learn(2, tt.m); ls[2] != tt.want {
			t.Errorf("by %s the level of a member is %d, want %d", tt.name, ls[2], tt.want)
		}
	}
	members := []machine.NodeID{1, 2, 3}
	for _, tt := range []struct {
		known levels
		want  bool
	}{{levels{2: 3, 3: 3}, true}, {levels{2: 4, 3: 3}, true}, {levels{2: 3, 3: 2}, false}, {levels{2: 3}, false}, {levels{1: 3, 2: 3}, false}} {
		if got := tt.known.all(members, 1, 3); got != tt.want {
			t.Errorf("with %v, all others of %d have level 3: %v, want %v", tt.known, members, got, tt.want)
		}
	}
}

// A leader that is to be removed hands over and does not append the removal itself. A change is
// appended only in the term that it is for.
func TestALeaderIsRemovedByTheNext(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 500ms"} {
		s.do(command)
	}
	r := s.members[0].r
	for _, id := range []machine.NodeID{2, 3} {
		r.heard[id] = r.now
	}
	body, err := EncodeRequest(RemoveMember(1))
	if err != nil {
		t.Fatal(err)
	}
	requests := []Propose{{ID: 1, Body: body}}
	last := r.last
	v := r.admit(r.term, (&batch{Term: r.term, From: 1, Boot: 1, Seq: 7, Requests: requests}).encode(), requests)
	if v != notNow || r.last != last || r.raft.BasicStatus().LeadTransferee == 0 {
		t.Errorf("a leader that is to be removed: verdict %d, the log grows by %d, it hands over to %d; want that the next leader does it", v, r.last-last, r.raft.BasicStatus().LeadTransferee)
	}
	other := newStage(t)
	for _, command := range []string{"elect 1", "pass 500ms"} {
		other.do(command)
	}
	r = other.members[0].r
	last = r.last
	if v := r.appendChange(r.term-1, RemoveMember(3)); v != notNow || r.last != last {
		t.Errorf("a change for an earlier term: verdict %d, and the log grows by %d", v, r.last-last)
	}
	if asksChange([]Propose{{Body: bodyOf(t, kindMember, &raftpb.ConfChange{})}}) || !asksChange(requests) || asksChange(nil) {
		t.Error("what a member tells of itself is taken for a change of the members, or a change for none")
	}
}

// Leadership is not handed to dead members or learners, however much of the log they have.
func TestLeadershipGoesToAVoterThatIsAlive(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 500ms", "cut 3", "pass 1200ms"} {
		s.do(command)
	}
	r := s.members[0].r
	if !slices.Equal(r.tail.conf.GetVoters(), []uint64{1, 2, 3}) {
		t.Fatalf("the voters are %d", r.tail.conf.GetVoters())
	}
	s.do("cut 2")
	s.do("put 1 k v")
	r.handOver(0)
	if got := r.raft.BasicStatus().LeadTransferee; got != 2 {
		t.Errorf("leadership goes to %d, want 2: nobody has heard of 3", got)
	}
}

// The sender of a batch is told of each refusal: that there is no room for now, or the reason why the
// batch is refused for good. Nothing is said of one that was appended.
func TestEachRefusalIsTold(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	r := s.members[0].r
	for v := notNow; v < pastVerdicts; v++ {
		seq := 100 + uint64(v)
		r.forwards = map[asker]*fates{{2, 9}: {}}
		r.forwards[asker{2, 9}].add(seq, v)
		r.sends = nil
		r.onForward(2, forward{Term: r.term, Seq: seq, Entry: encodedPut(t, 2, seq, r.term)})
		want := []machine.Envelope{{From: 1, To: 2, Body: rejected{Boot: 9, Term: r.term, Seq: seq, Why: v}}}
		switch v {
		case notNow:
			want[0].Body = refused{Boot: 9, Term: r.term, Seq: seq}
		case accepted:
			want = nil
		}
		if !reflect.DeepEqual(r.sends, want) {
			t.Errorf("the verdict %d is told as %+v, want %+v", v, r.sends, want)
		}
		if v >= refusals && v.err() == nil {
			t.Errorf("the verdict %d has no reason", v)
		}
	}
}
