package replica

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
)

// led is a cluster of three, of which member 1 leads.
func led(t *testing.T, reads ReadLeases) *stage {
	t.Helper()
	s := newStageOf(t, reads)
	for _, command := range []string{"elect 1", "pass 500ms"} {
		s.do(command)
	}
	for _, m := range s.members {
		m.r.effects.take()
	}
	return s
}

// A member begins with its state and its log: raft applies nothing again that the state has.
func TestWhatAMemberBeginsWith(t *testing.T) {
	log := Genesis([]machine.NodeID{1, 2, 3})
	log.Snapshot.Index, log.Snapshot.Term = new(uint64(9)), new(uint64(3))
	log.HardState = &raftpb.HardState{Term: new(uint64(5)), Commit: new(uint64(11)), Vote: new(uint64(2))}
	log.Entries = []*raftpb.Entry{entryAt(10, 4, 0), entryAt(11, 4, 0), entryAt(12, 4, 0)}
	roster := FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}, {ID: 3}})
	r, err := New(Config{
		ID: 1, Boot: 7, Tick: time.Second, ElectionTicks: 10, MaxTailBytes: 4000, Log: log,
		Restored: Restored{Index: 10, Term: 4, Released: 10, Roster: roster, UsersUsed: true},
	}, machine.Now{Mono: 77})
	if err != nil {
		t.Fatal(err)
	}
	if r.visible != 10 || r.visibleTerm != 3 || r.term != 5 || r.last != 12 || r.least != 12 || r.now != 77 || r.self != 1 {
		t.Errorf("a member begins in term %d at %v as %d, with all up to %d of term %d visible, and a log up to %d, %d at least", r.term, r.now, r.self, r.visible, r.visibleTerm, r.last, r.least)
	}
	rl := &r.reads
	if rl.committed != 11 || rl.received != 11 || rl.durable != 11 || rl.handedOut != 10 {
		t.Errorf("it begins with all up to %d committed, %d received, %d on disk and %d to be applied", rl.committed, rl.received, rl.durable, rl.handedOut)
	}
	if got := r.raft.BasicStatus(); got.Applied != 10 || got.HardState.GetCommit() != 11 || got.HardState.GetVote() != 2 {
		t.Errorf("raft begins with %+v, want all up to 10 applied", got)
	}
	if !r.usersUsed || len(r.roster.Members) != 3 || r.tail.keepBytes != 1000 || r.nextTick != machine.Mono(77).Add(time.Second) || r.rounds.id != 1 {
		t.Errorf("a member begins with users %v, %d members, %d bytes for slow followers, and ticks at %v", r.usersUsed, len(r.roster.Members), r.tail.keepBytes, r.nextTick)
	}
}

// Reads here, and at the leader questions of others, say that a lease is of use. Reads of keys are counted, wherever
// the answer comes from.
func TestWhatCallsForALease(t *testing.T) {
	for _, tt := range []struct {
		name   string
		member int
		do     func(r *Replica, now machine.Now)
		wanted bool
		reads  uint64
	}{
		{"a read", 1, func(r *Replica, now machine.Now) { r.Step(now, Read{Number: 9}) }, true, 0},
		{"a read of a key", 1, func(r *Replica, now machine.Now) { r.Step(now, ReadKeys{ID: 1, Keys: key("k")}) }, true, 1},
		{"a read under the lease", 1, func(r *Replica, now machine.Now) { r.Step(now, Served{Keys: key("k")}) }, true, 1},
		{"a question about a lease", 1, func(r *Replica, now machine.Now) { r.Step(now, AskLease{ID: 1, Lease: 2}) }, false, 0},
		{"a question about a lease, at the leader", 0, func(r *Replica, now machine.Now) { r.Step(now, AskLease{ID: 1, Lease: 2}) }, true, 0},
		{"another's question, at the leader", 0, func(r *Replica, now machine.Now) {
			r.Receive(now, machine.Envelope{From: 3, To: 1, Body: readAsk{Boot: 1, Round: 1}})
		}, true, 0},
		{"another's question", 1, func(r *Replica, now machine.Now) {
			r.Receive(now, machine.Envelope{From: 3, To: 2, Body: readAsk{Boot: 1, Round: 1}})
		}, false, 0},
		{"another's question about a lease, at the leader", 0, func(r *Replica, now machine.Now) {
			r.Receive(now, machine.Envelope{From: 3, To: 1, Body: leaseAsks{Boot: 1, Asks: []leaseAsk{{ID: 1, Lease: 2}}}})
		}, true, 0},
		{"a put", 1, func(r *Replica, now machine.Now) { r.Step(now, Propose{ID: 1, Body: putOf(t, "k")}) }, false, 0},
	} {
		s := led(t, ReadLeases{Policy: quorumlease.All, Idle: time.Second})
		r := s.members[tt.member].r
		r.reads.wanted, r.reads.plans.counter = 0, placement.NewCounter(16)
		tt.do(r, machine.Now{Mono: s.now + 1})
		if wanted := r.reads.wanted == s.now.Add(time.Second+1); wanted != tt.wanted || !wanted && r.reads.wanted != 0 {
			t.Errorf("%s calls for a lease until %v, want one: %v", tt.name, r.reads.wanted, tt.wanted)
		}
		if got := uint64(len(r.reads.plans.counter.Take().Reads)); got != tt.reads {
			t.Errorf("%s is counted as reads in %d buckets, want %d", tt.name, got, tt.reads)
		}
	}
}

// On a tick, and not before, a member makes up for what was lost: rounds, questions, reports, and news that nothing
// waits for.
func TestWhatATickMakesUpFor(t *testing.T) {
	for _, early := range []machine.Mono{1, 0} {
		s := led(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		r := s.members[1].r
		r.writes.news = &raftpb.HardState{Term: new(r.term), Commit: new(uint64(9))}
		r.rounds.flying = []round{{id: 7, since: s.now.Add(-time.Minute)}}
		r.reads.held = []*raftpb.Entry{entryAt(9, 1, 0)}
		r.proposals.refusal, r.asks.away = true, true
		r.nextTick = s.now + 5
		r.Wake(machine.Now{Mono: r.nextTick - early})
		reports := 0
		for _, env := range r.sends {
			if _, ok := env.Body.(quorumlease.Report); ok && env.To == 1 {
				reports++
			}
		}
		made := early == 0
		if (len(r.persists) == 1) != made || (len(r.rounds.flying) == 0) != made || (reports == 1) != made || r.proposals.refusal == made || r.asks.away == made || (r.nextTick > s.now+5) != made {
			t.Errorf("%d before a tick: %d records, %d rounds go on, %d reports, batches wait %v, asks wait %v; want that it is made up for: %v",
				early, len(r.persists), len(r.rounds.flying), reports, r.proposals.refusal, r.asks.away, made)
		}
	}
}

// Nobody listens to a former member. It may give its lease back: then nobody waits for it.
func TestAFormerMemberIsNotHeard(t *testing.T) {
	for _, removed := range []bool{false, true} {
		s := led(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		r := s.members[1].r
		if removed {
			r.roster.Removed = []uint64{3}
		}
		delete(r.heard, 3)
		r.Receive(machine.Now{Mono: s.now}, machine.Envelope{From: 3, To: 2, Body: quorumlease.News{Term: r.term, Released: 50}})
		if heard := r.reads.released == 50; heard == removed || (r.heard[3] == s.now) == removed {
			t.Errorf("a member that was removed %v is heard: %v, at %v", removed, heard, r.heard[3])
		}
		r.Receive(machine.Now{Mono: s.now}, machine.Envelope{From: 3, To: 2, Body: quorumlease.Return{Boot: 1, Seq: 1 << 40}})
		holders, _ := r.reads.promises.Holders(s.now)
		if slices.ContainsFunc(holders, func(l quorumlease.Lifetime) bool { return l.Member == 3 }) {
			t.Errorf("a member that was removed %v gives its lease back, and is waited for: %+v", removed, holders)
		}
	}
}

// The reports of the Applier are visible as far as they are released: its members, and the leases for which asks wait. All that
// is released is shown at once. Users and a removal, once known, stay known.
func TestWhatIsShown(t *testing.T) {
	r := keyReader(9)
	r.raft, r.tail = newStage(t).members[0].r.raft, newTail(nil, snapshotAt(4, 1), nil, 1000)
	r.cfg.Boot, r.leader, r.visible = 7, 1, 9
	ls := &r.leases
	ls.init(nil)
	ls.ticking, ls.inFlight, ls.parked = true, map[uint64][]int64{5: {1}}, map[int64][]parkedAsk{}
	r.reads.keys.through = 9
	roster := func(removed ...uint64) Roster {
		ro := FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}})
		ro.Removed = removed
		return ro
	}
	r.asks.confirmed = []askBatch{{asker: asker{2, 8}, index: 11, asks: []leaseAsk{{ID: 1, Lease: 4}}}, {asker: asker{2, 8}, index: 12, asks: []leaseAsk{{ID: 2, Lease: 4}}}}
	r.onApplied(Applied{Index: 10, Term: 2, Batches: []batchFate{{Seq: 5}}, ReadPolicy: quorumlease.AllByKey, UsersUsed: true, Roster: roster()})
	r.onApplied(Applied{Index: 11, Term: 2, ReadPolicy: quorumlease.AllByKey, Roster: roster(1)})
	r.onApplied(Applied{Index: 12, Term: 3, ReadPolicy: quorumlease.AllByKey, Roster: roster(1, 9)})
	if r.visible != 9 || len(r.outcomes) > 0 || len(ls.inFlight) > 0 || !r.usersUsed {
		t.Errorf("before anything is released, %d is visible, the owner is told %+v, %d expiries are open, and users are known: %v", r.visible, r.outcomes, len(ls.inFlight), r.usersUsed)
	}
	r.reads.keys.through = 11
	r.show()
	if r.visible != 11 || r.visibleTerm != 2 || !r.roster.WasRemoved(1) || r.roster.WasRemoved(9) || len(r.unreleased) != 1 {
		t.Errorf("released up to 11, %d of term %d is visible, members that left are %d, and %d reports wait", r.visible, r.visibleTerm, r.roster.Removed, len(r.unreleased))
	}
	if want := []answers{{asker{2, 8}, []AnswerLease{{ID: 1, Lease: 4}}}}; !reflect.DeepEqual(r.asks.outbox, want) || len(r.asks.confirmed) != 1 {
		t.Errorf("released up to 11, asks are answered %+v, want %+v", r.asks.outbox, want)
	}
	r.reads.keys.through = 12
	r.show()
	if want := []Outcome{Removed{}}; !reflect.DeepEqual(r.outcomes, want) || r.visibleTerm != 3 || len(r.asks.confirmed) > 0 {
		t.Errorf("the owner is told %+v, want %+v once; of term %d is what is visible, and %d asks wait", r.outcomes, want, r.visibleTerm, len(r.asks.confirmed))
	}
	r.unreleased = []Applied{{Index: 13}}
	r.usersUsed = false
	r.onRestored(Restored{Index: 20, Term: 4, Released: 20, ReadPolicy: quorumlease.AllByKey, Roster: roster(1), UsersUsed: true})
	if r.visible != 20 || r.visibleTerm != 4 || len(r.unreleased) > 0 || !r.usersUsed || len(r.roster.Removed) != 1 {
		t.Errorf("a snapshot of 20 is loaded: %d of term %d is visible, %d reports wait, users are known: %v", r.visible, r.visibleTerm, len(r.unreleased), r.usersUsed)
	}
}

// A snapshot is asked for once, until one is durable. The alarm is for the first thing that is due, reads of keys
// that wait for a round too.
func TestWhatIsAskedOfTheOwner(t *testing.T) {
	s := led(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
	r := s.members[1].r
	r.snapshotWanted = true
	r.Step(machine.Now{Mono: s.now}, Snapshotted{Index: 2, Term: r.term, ConfState: r.tail.conf})
	if r.snapshotWanted {
		t.Error("a snapshot is durable, and the member waits for one")
	}
	r.nextTick = machine.Never
	r.reads.wanted, r.reads.promises = 0, newAsked(quorumlease.Config{Self: 2}, s.now)
	r.reads.reported.lapse = machine.Never
	r.rounds.flying = []round{{since: s.now}, {since: s.now}}
	if got := r.alarm(); got <= s.now.Add(spacing) {
		t.Fatalf("with nothing that waits, the alarm is at %v", got)
	}
	r.reads.keys.reads = []*keyRead{{}}
	if got := r.alarm(); got != s.now.Add(spacing) {
		t.Errorf("with a read of a key that waits for a round, the alarm is in %v, want %v", got.Sub(s.now), spacing)
	}
	r.bereaved, r.campaignAt = true, s.now+3
	if got := r.alarm(); got != s.now+3 {
		t.Errorf("with a campaign in 3, the alarm is in %d", got.Sub(s.now))
	}
}

// A leader numbers its own batches on. It does not remove itself: it hands over first.
func TestALeadersOwnEntries(t *testing.T) {
	s := led(t, ReadLeases{})
	r := s.members[0].r
	first, ok := r.proposeOwn(kindExpire, listOf([]int64{1}))
	second, also := r.proposeOwn(kindExpire, listOf([]int64{2}))
	if !ok || !also || second != first+1 || r.proposals.seq != second {
		t.Errorf("two batches of a leader's own are number %d and %d", first, second)
	}
	s = led(t, ReadLeases{})
	r = s.members[0].r
	body, err := EncodeRequest(RemoveMember(1))
	if err != nil {
		t.Fatal(err)
	}
	requests := []Propose{{ID: 1, Body: body}}
	entry := (&batch{Term: r.term, From: 1, Boot: 1, Seq: 1, Requests: requests}).encode()
	last := r.last
	if v := r.admit(r.term, entry, requests); v != notNow || r.last != last || r.raft.BasicStatus().LeadTransferee == 0 {
		t.Errorf("a leader that is to be removed says %v, has a log to %d, want %d, and hands over to %d", v, r.last, last, r.raft.BasicStatus().LeadTransferee)
	}
}

// Of a member's batches the oldest verdicts are forgotten, and what is not later than a forgotten one is not decided
// about again, in whatever order they came.
func TestForgottenVerdicts(t *testing.T) {
	var f fates
	f.add(5, accepted)
	f.add(3, accepted)
	for seq := range uint64(rememberedFates) {
		f.add(10+seq, notNow)
	}
	if len(f.order) != rememberedFates || len(f.verdicts) != rememberedFates || f.floor != 5 {
		t.Errorf("%d verdicts are remembered, in an order of %d, and none up to %d, want 5", len(f.verdicts), len(f.order), f.floor)
	}
	for seq, want := range map[uint64]verdict{4: accepted, 5: accepted, 10: notNow} {
		if v, known := f.find(seq); v != want || !known {
			t.Errorf("batch %d is %v, known: %v; want %v", seq, v, known, want)
		}
	}
	if _, known := f.find(6); known {
		t.Error("a batch that never came is known")
	}
}

// Asks that wait for different entries are answered in their turn, each once, and none is lost when others are confirmed.
// An ask that is repeated waits to be sent once.
func TestAsksWaitForTheirEntries(t *testing.T) {
	var a asks
	a.confirm([]askBatch{{index: 5}, {index: 9}})
	a.confirm([]askBatch{{index: 7}})
	for _, step := range []struct {
		visible uint64
		want    []uint64
	}{{4, nil}, {6, []uint64{5}}, {6, nil}, {8, []uint64{7}}, {9, []uint64{9}}, {10, nil}} {
		var got []uint64
		for _, b := range a.due(step.visible) {
			got = append(got, b.index)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("visible up to %d, the asks for %d are answered, want %d", step.visible, got, step.want)
		}
	}
	r := keyReader(9)
	r.now = machine.Mono(time.Hour)
	long := r.cfg.electionTimeout()
	f := &ownAsk{ask: leaseAsk{ID: 1}, since: r.now.Add(-long), sent: r.now.Add(-long - 1)}
	a.own = map[uint64]*ownAsk{1: f}
	a.onTick(r.moment)
	if a.onTick(r.moment); len(a.fresh) != 1 {
		t.Errorf("an ask that is repeated waits %d times", len(a.fresh))
	}
}
