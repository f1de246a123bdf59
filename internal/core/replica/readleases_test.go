package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A voter that follows a leader promises only to members that this leader has not given up (R21, R23).
func TestWhoGetsAPromise(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *Replica)
		want   bool
	}{
		{"a member", func(*Replica) {}, true},
		{"of a voter that knows no leader", func(r *Replica) { r.leader = 0 }, false},
		{"of a learner", func(r *Replica) {
			r.reads.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 3}, Learners: []machine.NodeID{2}}})
		}, false},
		{"one that learns", func(r *Replica) {
			r.reads.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2}, Learners: []machine.NodeID{3}}})
		}, true},
		{"one that is no member", func(r *Replica) {
			r.reads.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2}}})
		}, false},
		{"one that is leaving", func(r *Replica) {
			r.reads.count(r.reads.memberships.With(quorumlease.Membership{Index: 9, Voters: []machine.NodeID{1, 2}}))
		}, false},
		{"one that was given up", func(r *Replica) { r.reads.stalled, r.reads.stalledTerm = []machine.NodeID{3}, r.term }, false},
		{"beside one that was given up", func(r *Replica) { r.reads.stalled, r.reads.stalledTerm = []machine.NodeID{1}, r.term }, true},
		{"one that was given up in another term", func(r *Replica) { r.reads.stalled, r.reads.stalledTerm = []machine.NodeID{3}, r.term-1 }, true},
	} {
		s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		for _, command := range []string{"elect 1", "pass 500ms", "lose"} {
			s.do(command)
		}
		r := s.members[1].r
		tt.change(r)
		r.sends = nil
		r.reads.receive(r.moment, &r.effects, 3, quorumlease.Request{Boot: 1, Seq: 1 << 40})
		if got := len(r.sends) == 1; got != tt.want {
			t.Errorf("%s gets a promise: %v, want %v", tt.name, got, tt.want)
		}
		for _, env := range r.sends {
			if p, ok := env.Body.(quorumlease.Promise); !ok || env.To != 3 || p.Seq != 1<<40 || p.TTL != 200*time.Millisecond {
				t.Errorf("%s gets %+v", tt.name, env)
			}
		}
	}
}

// A leader's list of members that are given up counts until it, or a later leader, sends another. A
// released entry stays released, even if older news say less.
func TestNewsOfAnEarlierTerm(t *testing.T) {
	r := keyReader(9)
	rl := &r.reads
	three, four := []machine.NodeID{3}, []machine.NodeID{4}
	for _, step := range []struct {
		news     quorumlease.News
		released uint64
		stalled  []machine.NodeID
		term     uint64
	}{
		{quorumlease.News{Term: 5, Released: 20, Stalled: three}, 20, three, 5},
		{quorumlease.News{Term: 4, Released: 12, Stalled: four}, 20, three, 5},
		{quorumlease.News{Term: 4, Released: 22}, 22, three, 5},
		{quorumlease.News{Term: 5, Released: 21, Stalled: four}, 22, four, 5},
		{quorumlease.News{Term: 6, Released: 22}, 22, nil, 6},
	} {
		rl.receive(r.moment, &r.effects, 1, step.news)
		if rl.released != step.released || !slices.Equal(rl.stalled, step.stalled) || rl.stalledTerm != step.term {
			t.Errorf("after %+v: released up to %d, given up in term %d are %d; want %d, %d, %d",
				step.news, rl.released, rl.stalledTerm, rl.stalled, step.released, step.term, step.stalled)
		}
	}
}

// A term begins with the committed entries: a member does not know whether the rest of its log is the
// new leader's. Within a term, the received and durable positions never go back.
func TestATermBeginsWithWhatIsCommitted(t *testing.T) {
	for _, tt := range []struct {
		fresh                           bool
		durable                         uint64
		wantReceived, wantDurable, told uint64
	}{{true, 13, 10, 10, 0}, {true, 7, 10, 7, 0}, {false, 13, 15, 13, 1}} {
		r := keyReader(9)
		r.leader, r.term = 2, 5
		rl := &r.reads
		rl.stalls = quorumlease.NewStalls(quorumlease.Config{TTL: time.Second})
		rl.ledger.Begin(4, rl.memberships)
		rl.ledger.Report(2, quorumlease.Report{Boot: 1, Term: 4, Durable: 5, Holders: []quorumlease.Lifetime{{Member: 3, Boot: 1}}})
		rl.stalls.Look(r.now, 10, &rl.ledger) // member 3 lacks something
		rl.committed, rl.received, rl.durable = 10, 15, tt.durable
		rl.stalled, rl.far, rl.told = []machine.NodeID{3}, true, map[machine.NodeID]uint64{2: 1}
		rl.newLeader(r.moment, tt.fresh)
		if rl.received != tt.wantReceived || rl.durable != tt.wantDurable {
			t.Errorf("another term %v: the log is the leader's up to %d, durable up to %d; want %d, %d", tt.fresh, rl.received, rl.durable, tt.wantReceived, tt.wantDurable)
		}
		if rl.far == tt.fresh || len(rl.stalled) == 0 != tt.fresh || uint64(len(rl.told)) != tt.told || rl.ledger.Term() != 5 {
			t.Errorf("another term %v: others judged by themselves %v, given up are %d, told were %v, reports are of term %d", tt.fresh, rl.far, rl.stalled, rl.told, rl.ledger.Term())
		}
		if waits := rl.stalls.Due() != machine.Never; waits == tt.fresh {
			t.Errorf("another term %v: a holder that was slow before is judged by that time: %v", tt.fresh, waits)
		}
	}
}

// A member begins at the positions that its log and its state give. Committed entries are durable and no
// leader lacks them, the Applier has the state, and the disk has the released index. Promises of an earlier
// life may have gone to any member, so all members count as holding one.
func TestWhereAMemberBegins(t *testing.T) {
	for _, tt := range []struct {
		name     string
		commit   uint64
		released uint64
		want     positions
	}{
		{"that knows of a commit", 4, 3, positions{received: 4, durable: 4, committed: 4, released: 3, handedOut: 2, applied: 2, recorded: 3}},
		{"that knows of no commit behind it", 2, 0, positions{received: 2, durable: 2, committed: 2, released: 2, handedOut: 2, applied: 2, recorded: 0}},
	} {
		log := Genesis([]machine.NodeID{1, 2, 3})
		log.Snapshot.Index, log.HardState.Commit, log.Released = new(uint64(2)), &tt.commit, tt.released
		log.Entries = []*raftpb.Entry{entryAt(3, 1, 0), entryAt(4, 1, 0), entryAt(5, 1, 0)}
		now := machine.Now{Mono: machine.Mono(time.Hour)}
		r, err := New(Config{ID: 1, Boot: 2, Tick: 100 * time.Millisecond, ElectionTicks: 10, Log: log, Restored: Restored{Index: 2, Released: 2},
			ReadLeases: ReadLeases{EarlierTTL: 5 * time.Second, Idle: -1}}, now)
		if err != nil {
			t.Fatal(err)
		}
		rl := &r.reads
		if rl.positions != tt.want || len(rl.tail) != 3 || r.last != 5 || !rl.accounted(5) {
			t.Errorf("a member %s begins at %+v with %d entries up to %d, want %+v with 3 up to 5", tt.name, rl.positions, len(rl.tail), r.last, tt.want)
		}
		log.Entries[0] = nil
		if rl.tail[0] == nil {
			t.Error("the owner's log is the member's own")
		}
		_, soon := rl.promises.Holders(now.Mono.Add(4 * time.Second))
		_, late := rl.promises.Holders(now.Mono.Add(quorumlease.MaxTTL))
		if !soon || late || rl.wanted != machine.Never {
			t.Errorf("with promises of 5 s in an earlier life, it is bound to everyone after 4 s: %v, and for ever: %v; it wants a lease until %v", soon, late, rl.wanted)
		}
	}
}

// A member wants a lease while it is read from, if the policy allows it one, if it holds keys, and if
// it is a member. A leader without keys still has clients' leases to answer for.
func TestWhoWantsALease(t *testing.T) {
	cells := division(t) // member 3 holds nothing
	for _, tt := range []struct {
		name   string
		change func(r *Replica)
		want   bool
	}{
		{"a follower", func(*Replica) {}, true},
		{"one where nobody reads", func(r *Replica) { r.reads.wanted = r.now }, false},
		{"one that doubts its clock", func(r *Replica) { r.reads.doubted = r.now + 1 }, false},
		{"a follower under the leader's policy", func(r *Replica) { r.reads.set(r.moment, readSetting{policy: quorumlease.Leader}) }, false},
		{"the leader under its policy", func(r *Replica) { r.leader = 3; r.reads.set(r.moment, readSetting{policy: quorumlease.Leader}) }, true},
		{"one that holds nothing", func(r *Replica) { r.reads.set(r.moment, readSetting{quorumlease.Static, cells}) }, false},
		{"a leader that holds nothing", func(r *Replica) { r.leader = 3; r.reads.set(r.moment, readSetting{quorumlease.Static, cells}) }, true},
		{"one that holds all again", func(r *Replica) {
			r.reads.set(r.moment, readSetting{quorumlease.Static, cells})
			r.reads.set(r.moment, readSetting{policy: quorumlease.All})
		}, true},
		{"one that was removed", func(r *Replica) { r.reads.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2}}}) }, false},
	} {
		r := keyReader(9)
		r.cfg.ID, r.leader, r.term, r.now = 3, 2, 5, machine.Mono(time.Hour)
		rl := &r.reads
		rl.promises = newAsked(quorumlease.Config{Self: 3}, r.now)
		rl.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}})
		tt.change(r)
		if got := rl.wantsLease(r.moment); got != tt.want || !tt.want && rl.until(r.moment) != 0 {
			t.Errorf("%s wants a lease: %v, want %v; its lease lasts until %v", tt.name, got, tt.want, rl.until(r.moment))
		}
	}
	// It wants one for a while after a read; the leader also when others ask it, and then only the leader.
	for _, leader := range []machine.NodeID{1, 2} {
		r := keyReader(9)
		r.leader, r.term, r.visibleTerm, r.now = leader, 5, 4, machine.Mono(time.Hour) // no entry of the term is released yet
		r.reads.cfg.Idle, r.reads.wanted = time.Second, 0
		if r.reads.asked(r.moment); r.reads.wanted == r.now.Add(time.Second) != (leader == 1) {
			t.Errorf("member 1 is asked, and %d leads: it wants a lease until %v", leader, r.reads.wanted)
		}
		r.reads.served(r.now)
		if r.reads.yield(); r.reads.wanted != 0 {
			t.Errorf("a lease that is given up is wanted until %v", r.reads.wanted)
		}
		r.reads.cfg.Idle, r.reads.wanted = -1, machine.Never
		if r.reads.yield(); r.reads.wanted != machine.Never {
			t.Error("a lease that is wanted for ever is given up")
		}
	}
}

// Messages that promises call for go to the voters of each membership that counts, to the sender, and
// to the members that are named. The member itself and learners get none. A report that is due sooner
// is not postponed.
func TestWhatPromisesCallForIsDone(t *testing.T) {
	r := keyReader(9)
	r.now, r.leader = machine.Mono(time.Hour), 2
	rl := &r.reads
	rl.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}}.With(quorumlease.Membership{Index: 5, Voters: []machine.NodeID{1, 2}, Learners: []machine.NodeID{4}}))
	rl.reported.lapse = r.now.Add(time.Second)
	rl.plans.next = machine.Never
	rl.calledFor(r.moment, &r.effects, 3, PromiseEffects{
		ToVoters: "all", Reply: "one", Sends: []Addressed{{To: 4, Body: "another"}}, Answered: true, Took: 8 * time.Millisecond,
		Report: true, ReportAt: r.now.Add(2 * time.Second), Plan: true,
	})
	want := []machine.Envelope{{From: 1, To: 2, Body: "all"}, {From: 1, To: 3, Body: "all"}, {From: 1, To: 3, Body: "one"}, {From: 1, To: 4, Body: "another"}}
	if !slices.Equal(r.sends, want) {
		t.Errorf("promises call for %+v, want %+v", r.sends, want)
	}
	if !slices.Equal(rl.plans.trips, []roundTrip{{3, 8 * time.Millisecond}}) || rl.plans.next != r.now {
		t.Errorf("the trips are %+v, and the next plan is at %v", rl.plans.trips, rl.plans.next)
	}
	if rl.reported.lapse != r.now.Add(time.Second) {
		t.Errorf("a report that is due in 1 s is due in %v since one was called for in 2 s", rl.reported.lapse.Sub(r.now))
	}
	rl.calledFor(r.moment, &r.effects, 3, PromiseEffects{Report: true, ReportAt: r.now})
	if rl.reported.lapse != r.now {
		t.Errorf("a report that is called for now is due in %v", rl.reported.lapse.Sub(r.now))
	}
	r.sends = nil
	if rl.calledFor(r.moment, &r.effects, 3, PromiseEffects{}); len(r.sends) > 0 {
		t.Errorf("nothing is called for, and %+v is sent", r.sends)
	}
}

// A leader leads beyond doubt while its lease lasts, an entry of its term is released, and raft has it
// lead in that term. The index that it returns then is the commit index.
func TestWhoLeadsBeyondDoubt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		member int
		change func(r *Replica)
		want   bool
	}{
		{"the leader", 0, func(*Replica) {}, true},
		{"a follower", 1, func(*Replica) {}, false},
		{"a follower that takes itself for the leader", 1, func(r *Replica) { r.leader = 2 }, false},
		{"a leader without an entry of its term", 0, func(r *Replica) { r.visibleTerm-- }, false},
		{"a leader at the end of its lease", 0, func(r *Replica) { r.now = r.reads.until(r.moment) }, false},
		{"a leader just before the end of its lease", 0, func(r *Replica) { r.now = r.reads.until(r.moment) - 1 }, true},
		{"a leader that has no use for a lease", 0, func(r *Replica) { r.reads.wanted = 0 }, false},
		{"a leader that was reported to lead in an earlier term", 0, func(r *Replica) { r.term, r.visibleTerm = r.term-1, r.visibleTerm-1 }, false},
	} {
		s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
		for _, command := range []string{"elect 1", "pass 500ms"} {
			s.do(command)
		}
		r := s.members[tt.member].r
		tt.change(r)
		if index, ok := r.reads.assured(r.moment, r.raft); ok != tt.want || index != r.Status().Commit {
			t.Errorf("%s leads beyond doubt: %v up to %d, want %v up to %d", tt.name, ok, index, tt.want, r.Status().Commit)
		}
	}
}

// A leader proposes the initial policy once in a term, when all of its log is accounted for and no
// entry sets a policy. A report is made only when the holders that this member is bound to have
// changed.
func TestWhatATurnOfReadLeasesDoes(t *testing.T) {
	policy := entryOf(10, bodyOf(t, kindReadPolicy, wrapperspb.String("off")))
	for _, tt := range []struct {
		name   string
		change func(r *Replica)
		want   quorumlease.Policy
	}{
		{"a leader", func(*Replica) {}, quorumlease.All},
		{"a follower", func(r *Replica) { r.leader = 2 }, ""},
		{"a leader without an entry of its term", func(r *Replica) { r.visibleTerm = 4 }, ""},
		{"a cluster that has a policy", func(r *Replica) { r.reads.setting.policy = quorumlease.Off }, ""},
		{"a cluster that begins without", func(r *Replica) { r.reads.cfg.Policy = "" }, ""},
		{"a leader that has proposed one", func(r *Replica) { r.reads.proposed = 5 }, ""},
		{"a leader that has proposed one in an earlier term", func(r *Replica) { r.reads.proposed = 4 }, quorumlease.All},
		{"a log of which a part is not accounted for", func(r *Replica) { r.last = 10 }, ""},
		{"a log with a policy in it", func(r *Replica) { r.last = 10; r.reads.tail = []*raftpb.Entry{policy} }, ""},
		{"a log with a put in it", func(r *Replica) { r.last = 10; r.reads.tail = []*raftpb.Entry{entryOf(10, putOf(t, "k"))} }, quorumlease.All},
	} {
		r := keyReader(9)
		r.leader, r.term, r.visibleTerm, r.last = 1, 5, 5, 9
		rl := &r.reads
		rl.keys.stop()
		rl.stalls = quorumlease.NewStalls(quorumlease.Config{TTL: time.Second})
		rl.setting, rl.cfg.Policy, rl.applied, rl.reported.lapse = readSetting{}, quorumlease.All, 9, machine.Never
		tt.change(r)
		got, again := rl.turn(r.moment, &r.effects), rl.turn(r.moment, &r.effects)
		if got != tt.want || again != "" {
			t.Errorf("%s: the policy %q is proposed, and then %q; want %q, once", tt.name, got, again, tt.want)
		}
	}
	bound := []quorumlease.Lifetime{{Member: 3, Boot: 5}}
	for _, tt := range []struct {
		name  string
		last  lastReport
		tells bool
	}{
		{"all that was reported", lastReport{holders: bound}, false},
		{"another life of the holder", lastReport{holders: []quorumlease.Lifetime{{Member: 3, Boot: 4}}}, true},
		{"fewer", lastReport{}, true},
		{"everyone beside", lastReport{holders: bound, everyone: true}, true},
	} {
		r := keyReader(9)
		r.leader, r.term, r.now = 2, 5, machine.Mono(time.Hour)
		rl := &r.reads
		rl.keys.stop()
		p := newAsked(quorumlease.Config{Self: 1, TTL: time.Second}, 0)
		p.Grant(r.now, 3, quorumlease.Request{Boot: 5, Seq: 1}, quorumlease.Log{Term: 5, Last: 9, Received: 9})
		rl.promises, rl.wanted = p, 0
		tt.last.lapse = r.now + 1
		for _, due := range []bool{false, true} {
			if rl.reported = tt.last; due {
				rl.reported.lapse = r.now
			}
			r.sends = nil
			rl.turn(r.moment, &r.effects)
			if tells := len(r.sends) > 0; tells != (due && tt.tells) || due && rl.reported.lapse != p.Due(r.now) {
				t.Errorf("%s, looked at: %v: the leader is told %v; it is looked at again at %v, want %v", tt.name, due, tells, rl.reported.lapse, p.Due(r.now))
			}
		}
	}
}

// The next turn of read leases is due when a report may change, when counts of reads are to be sent,
// and, at the leader, when a holder may have stalled.
func TestWhenReadLeasesNeedATurn(t *testing.T) {
	r := keyReader(9)
	r.leader, r.term, r.now = 2, 5, machine.Mono(time.Hour)
	rl := &r.reads
	rl.wanted, rl.reported.lapse, rl.stalls = 0, machine.Never, quorumlease.NewStalls(quorumlease.Config{TTL: time.Second})
	if got := rl.due(r.moment); got != machine.Never {
		t.Errorf("with nothing to do the next turn is at %v", got)
	}
	if rl.reported.lapse = r.now + 3; rl.due(r.moment) != r.now+3 {
		t.Errorf("a promise runs out in 3, and the next turn is in %d", rl.due(r.moment).Sub(r.now))
	}
	rl.plans.counter, rl.plans.next = placement.NewCounter(16), r.now+2
	if rl.due(r.moment) != r.now+2 {
		t.Errorf("counts are to be told in 2, and the next turn is in %d", rl.due(r.moment).Sub(r.now))
	}
	rl.plans.counter, rl.reported.lapse = nil, machine.Never
	three := quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}}
	rl.ledger.Begin(5, three)
	rl.ledger.Report(2, quorumlease.Report{Boot: 1, Term: 5, Durable: 9, Received: 9, Holders: []quorumlease.Lifetime{{Member: 3, Boot: 1}}})
	rl.stalls.Look(r.now, 9, &rl.ledger)
	stall := rl.stalls.Due()
	if stall == machine.Never || rl.due(r.moment) != machine.Never {
		t.Fatalf("a holder may have stalled by %v, and a follower's next turn is at %v", stall, rl.due(r.moment))
	}
	if r.leader = 1; rl.due(r.moment) != stall {
		t.Errorf("a holder may have stalled by %v, and the leader's next turn is at %v", stall, rl.due(r.moment))
	}
	if got, want := rl.log(moment{term: 7, last: 12}), (quorumlease.Log{Term: 7, Last: 12, Received: rl.received, Commit: 9}); got != want {
		t.Errorf("of the log promises hear %+v, want %+v", got, want)
	}
}

// The others are told at once which holders are given up, and which no longer are.
func TestTheStalledAreTold(t *testing.T) {
	r := keyReader(9)
	r.leader, r.term, r.visibleTerm, r.last, r.now = 1, 5, 5, 9, machine.Mono(time.Hour)
	rl := &r.reads
	rl.keys.stop()
	rl.stalls = quorumlease.NewStalls(quorumlease.Config{TTL: time.Second})
	rl.ledger.Begin(5, rl.memberships)
	rl.ledger.Report(2, quorumlease.Report{Boot: 1, Term: 5, Durable: 9, Holders: []quorumlease.Lifetime{{Member: 3, Boot: 1}}})
	for _, step := range []struct {
		name    string
		do      func()
		stalled []machine.NodeID
		version uint64
	}{
		{"at first", func() {}, nil, 0},
		{"when a holder lacks something for long", func() { r.now = r.now.Add(time.Minute) }, []machine.NodeID{3}, 1},
		{"later", func() { r.now = r.now.Add(time.Minute) }, []machine.NodeID{3}, 1},
		{"when it has caught up", func() { rl.ledger.Report(3, quorumlease.Report{Boot: 1, Term: 5, Durable: 9}) }, nil, 2},
		{"later", func() { r.now = r.now.Add(time.Minute) }, nil, 2},
	} {
		step.do()
		rl.turn(r.moment, &r.effects)
		if !slices.Equal(rl.stalled, step.stalled) || rl.version != step.version || rl.stalledTerm != 5 {
			t.Errorf("%s: of term %d, %d are given up, and the news have changed %d times; want term 5, %d, %d times", step.name, rl.stalledTerm, rl.stalled, rl.version, step.stalled, step.version)
		}
	}
}
