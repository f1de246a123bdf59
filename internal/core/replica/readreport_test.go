package replica

import (
	"reflect"
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"go.etcd.io/raft/v3/raftpb"
)

// A voter reports to the leader at once that a holder has given its lease back, for the leader waits
// for that holder as long as any member is bound to it.
func TestALeaseGivenBackIsReported(t *testing.T) {
	s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
	for _, command := range []string{"elect 1", "pass 500ms", "lose"} {
		s.do(command)
	}
	voter := s.members[1]
	bound := func() []machine.NodeID {
		var ids []machine.NodeID
		holders, _ := voter.r.reads.promises.Holders(s.now)
		for _, h := range holders {
			ids = append(ids, h.Member)
		}
		return ids
	}
	if got := bound(); !slices.Equal(got, []machine.NodeID{1, 3}) {
		t.Fatalf("member 2 is bound to %d", got)
	}
	s.step(voter, machine.Envelope{From: 3, To: 2, Body: quorumlease.Return{Boot: 1, Seq: 1 << 40}})
	if got := bound(); !slices.Equal(got, []machine.NodeID{1}) {
		t.Fatalf("member 2 is bound to %d, and member 3 has given its lease up", got)
	}
	told := false
	for _, env := range s.wire {
		if report, ok := env.Body.(quorumlease.Report); ok && env.To == 1 {
			told = len(report.Holders) == 1 && report.Holders[0].Member == 1
		}
	}
	if !told {
		t.Errorf("the leader is not told that member 3 has given its lease up: %+v", s.wire)
	}
}

// A voter whose clock may have run ahead is bound again to holders whose promises have run out since
// then. It reports that to the leader at once, for those holders may read. It reads nothing itself
// until the doubt is over.
func TestADoubtBindsAgain(t *testing.T) {
	const ttl = 200 * time.Millisecond
	s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1, TTL: ttl})
	for _, command := range []string{"elect 1", "pass 500ms", "cut 3", "pass 500ms"} {
		s.do(command)
	}
	voter := s.members[1]
	rl := &voter.r.reads
	bound := func(at machine.Mono) bool {
		holders, _ := rl.promises.Holders(at)
		return slices.ContainsFunc(holders, func(l quorumlease.Lifetime) bool { return l.Member == 3 })
	}
	if bound(s.now) || rl.until(voter.r.moment) <= s.now {
		t.Fatalf("bound to member 3: %v; its own lease lasts until %v at %v", bound(s.now), rl.until(voter.r.moment), s.now)
	}
	s.wire = nil
	until := s.now.Add(time.Second)
	s.step(voter, Doubted{Since: s.now.Add(-450 * time.Millisecond), Until: until})
	if end := s.now.Add(quorumlease.Bound(ttl)); !bound(end-1) || bound(end) {
		t.Errorf("after a doubt the promise to member 3 binds for a while: %v, and for longer: %v", bound(end-1), bound(end))
	}
	told := false
	for _, env := range s.wire {
		report, ok := env.Body.(quorumlease.Report)
		told = told || ok && env.To == 1 && slices.ContainsFunc(report.Holders, func(l quorumlease.Lifetime) bool { return l.Member == 3 })
	}
	if !told {
		t.Errorf("the leader is not told that member 2 is bound to member 3 again: %+v", s.wire)
	}
	if got := rl.until(voter.r.moment); got != 0 {
		t.Errorf("a member whose clock is in doubt has a lease until %v", got)
	}
	s.step(voter, Doubted{Since: s.now, Until: s.now}) // an earlier doubt is not over by a later one
	if s.step(voter, labstage.Wake{}); rl.doubted != until || rl.wantsLease(voter.r.moment) {
		t.Errorf("the doubt lasts until %v, want %v; it asks for a lease: %v", rl.doubted, until, rl.wantsLease(voter.r.moment))
	}
	if voter.r.now = until; !rl.wantsLease(voter.r.moment) {
		t.Error("it asks for no lease when the doubt is over")
	}
}

// A report that accompanies an acknowledgment is about the leader's term. No report accompanies an
// acknowledgment of an earlier term, one to a member that does not lead, or a refusal: these say
// nothing about this leader's log.
func TestWhatAcknowledgmentsReport(t *testing.T) {
	for _, tt := range []struct {
		name     string
		change   func(m *raftpb.Message)
		older    bool
		received uint64 // then; 9 before
	}{
		{"of this term", func(*raftpb.Message) {}, false, 12},
		{"of less", func(m *raftpb.Message) { m.Index = new(uint64(8)) }, false, 9},
		{"by one of an earlier version", func(*raftpb.Message) {}, true, 12},
		{"of an earlier term", func(m *raftpb.Message) { m.Term = new(uint64(4)) }, false, 0},
		{"to another", func(m *raftpb.Message) { m.To = new(uint64(3)) }, false, 0},
		{"that refuses", func(m *raftpb.Message) { m.Reject = new(true) }, false, 0},
		{"of a heartbeat", func(m *raftpb.Message) { m.Type = raftpb.MsgHeartbeatResp.Enum() }, false, 0},
	} {
		r := keyReader(9)
		r.leader, r.term, r.cfg.Older = 2, 5, tt.older
		rl := &r.reads
		rl.promises, rl.received = newAsked(quorumlease.Config{Self: 1}, r.now), 9
		m := &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: new(uint64(5)), To: new(uint64(2)), Index: new(uint64(12))}
		tt.change(m)
		body := rl.attachReport(r.moment, &r.effects, m)
		got, ok := body.(reported)
		if ok != (tt.received > 0) || !ok && (body != any(m) || rl.received != 9 || len(m.GetContext()) > 0) {
			t.Errorf("an acknowledgment %s is sent as %+v, and the log is the leader's up to %d", tt.name, body, rl.received)
		}
		if !ok {
			continue
		}
		if rl.received != tt.received || got.Report.Received != tt.received || got.Report.Durable != m.GetIndex() || got.Report.Term != 5 || got.Message != m {
			t.Errorf("an acknowledgment %s reports %+v; want received %d, durable %d in term 5", tt.name, got.Report, tt.received, m.GetIndex())
		}
		if len(m.GetContext()) == 0 != tt.older {
			t.Errorf("an acknowledgment %s tells of a level: %v", tt.name, len(m.GetContext()) > 0)
		}
	}
}

// Entries that are committed here are durable here, and every later leader has them. A report must say so, even
// if nothing is left to be acknowledged.
func TestWhatIsCommittedIsReported(t *testing.T) {
	for _, tt := range []struct{ received, durable, want, wantDurable uint64 }{{8, 7, 11, 11}, {12, 11, 12, 11}, {14, 13, 14, 13}} {
		r := keyReader(9)
		rl := &r.reads
		rl.received, rl.durable = tt.received, tt.durable
		rl.noteCommitted(r.now, []*raftpb.Entry{entryAt(10, 1, 0), entryAt(11, 1, 0)})
		if rl.received != tt.want || rl.durable != tt.wantDurable || len(rl.held) != 2 {
			t.Errorf("entries up to 11 are committed, and were received up to %d, durable up to %d: now %d and %d, want %d and %d; %d wait to be released",
				tt.received, tt.durable, rl.received, rl.durable, tt.want, tt.wantDurable, len(rl.held))
		}
	}
}

// The durable position never goes back, in whatever order writes are reported. A write of another term
// does not count.
func TestWhatIsFlushed(t *testing.T) {
	r := keyReader(9)
	r.term = 5
	rl := &r.reads
	rl.promises, rl.durable = newAsked(quorumlease.Config{Self: 1}, r.now), 10
	for _, step := range []struct{ term, index, want uint64 }{{5, 12, 12}, {5, 11, 12}, {4, 20, 12}, {6, 20, 12}, {5, 13, 13}} {
		if rl.flushed(r.moment, durable{Term: step.term, Index: step.index}); rl.durable != step.want {
			t.Errorf("a write up to %d of term %d is durable, and the log up to %d; want %d", step.index, step.term, rl.durable, step.want)
		}
	}
}

// A report without an acknowledgment goes to the leader, and in key order once to each other member.
// The member's own ledger gets it, too. It is remembered, so that a changed report is sent again.
func TestToWhomAMemberReports(t *testing.T) {
	bound := []quorumlease.Lifetime{{Member: 3, Boot: 5}}
	for _, tt := range []struct {
		name     string
		leader   machine.NodeID
		keyOrder bool
		want     []machine.NodeID
	}{
		{"a follower", 2, false, []machine.NodeID{2}},
		{"a follower in key order", 2, true, []machine.NodeID{2, 3}},
		{"the leader", 1, false, nil},
		{"the leader in key order", 1, true, []machine.NodeID{2, 3}},
		{"one without a leader", 0, false, nil},
		{"one without a leader, in key order", 0, true, []machine.NodeID{2, 3}},
	} {
		r := keyReader(9)
		r.leader, r.term, r.now, r.cfg.Boot = tt.leader, 5, machine.Mono(time.Hour), 7
		rl := &r.reads
		rl.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}})
		if !tt.keyOrder {
			rl.keys.stop()
		}
		p := newAsked(quorumlease.Config{Self: 1, TTL: time.Second}, 0)
		p.Grant(r.now, 3, quorumlease.Request{Boot: 5, Seq: 1}, quorumlease.Log{Term: 5, Last: 9, Received: 9})
		rl.promises, rl.durable, rl.received = p, 12, 14
		rl.ledger.Begin(5, rl.memberships)
		rl.tell(r.moment, &r.effects)
		report := quorumlease.Report{Boot: 7, Term: 5, Durable: 12, Received: 14, Holders: bound}
		var to []machine.NodeID
		for _, env := range r.sends {
			to = append(to, env.To)
			if env.From != 1 || !reflect.DeepEqual(env.Body, report) {
				t.Errorf("%s tells %+v, want %+v", tt.name, env, report)
			}
		}
		if !slices.Equal(to, tt.want) {
			t.Errorf("%s tells members %d, want %d", tt.name, to, tt.want)
		}
		if want := (lastReport{bound, false, p.Due(r.now)}); !reflect.DeepEqual(rl.reported, want) {
			t.Errorf("%s remembers to have told %+v, want %+v", tt.name, rl.reported, want)
		}
		if got := rl.ledger.Holdings(); len(got) != 1 || got[0].Member != 3 {
			t.Errorf("%s takes its own report into account: %+v", tt.name, got)
		}
	}
}

// In key order, the leader's own acknowledgment reports at once to all members what it has received,
// synced or not (R31). A report that accompanies any acknowledgment is remembered as sent.
func TestTheLeadersOwnAcknowledgment(t *testing.T) {
	r := keyReader(9)
	r.leader, r.term = 1, 5
	rl := &r.reads
	rl.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}})
	rl.durable, rl.reported = 10, lastReport{everyone: true, lapse: 1}
	m := &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: new(uint64(5)), To: new(uint64(1)), Index: new(uint64(12))}
	got, ok := rl.attachReport(r.moment, &r.effects, m).(reported)
	if !ok || got.Report.Durable != 12 || got.Report.Received != 12 || len(r.sends) != 2 {
		t.Errorf("the leader acknowledges 12 with %+v, and %d messages go at once, want 2", got, len(r.sends))
	}
	for _, env := range r.sends {
		if report, ok := env.Body.(quorumlease.Report); !ok || report.Received != 12 || report.Durable != 10 {
			t.Errorf("the leader tells %+v before it has flushed, want that it has received up to 12, and has 10 on its disk", env)
		}
	}
	for _, leader := range []machine.NodeID{1, 2} {
		rl.reported = lastReport{everyone: true, lapse: 1}
		r.leader, m.To = leader, new(uint64(leader))
		if rl.attachReport(r.moment, &r.effects, m); rl.reported.everyone || rl.reported.lapse != machine.Never {
			t.Errorf("with an acknowledgment to %d, what was told is remembered as %+v", leader, rl.reported)
		}
	}
}

// A follower finds out by itself what is released only in key order, in its leader's term, if that
// leader knows that followers do so, while raft still follows that leader, and while no snapshot is
// being loaded.
func TestWhoForesees(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *Replica)
		lead   uint64
		want   bool
	}{
		{"a follower", func(*Replica) {}, 2, true},
		{"in strict order", func(r *Replica) { r.reads.keys.on = false }, 2, false},
		{"while it loads a snapshot", func(r *Replica) { r.reads.loading = 20 }, 2, false},
		{"without a leader", func(r *Replica) { r.leader = 0 }, 0, false},
		{"the leader", func(r *Replica) { r.leader = 1 }, 1, false},
		{"whose leader raft has forgotten", func(*Replica) {}, 0, false},
		{"whom raft has another leader for", func(*Replica) {}, 3, false},
		{"with reports of an earlier term", func(r *Replica) { r.reads.ledger.Begin(4, r.reads.memberships) }, 2, false},
		{"with news of an earlier term", func(r *Replica) { r.reads.keys.news.Term = 4 }, 2, false},
		{"with news without a horizon", func(r *Replica) { r.reads.keys.news.Horizon = 0 }, 2, false},
	} {
		r := keyReader(9)
		r.leader, r.term = 2, 5
		r.reads.ledger.Begin(5, r.reads.memberships)
		r.reads.keys.news = quorumlease.News{Term: 5, Horizon: 9}
		tt.change(r)
		if got := r.reads.canForesee(r.moment, tt.lead); got != tt.want {
			t.Errorf("one %s foresees: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// The foreseen commit index is the one that a majority has acknowledged. It passes neither the part of
// the log that is the leader's, nor the end of the log, nor the present term. An index that is already
// committed is not foreseen.
func TestWhatIsForeseen(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *Replica)
		want   uint64 // 0: nothing
	}{
		{"what is acknowledged", func(*Replica) {}, 14},
		{"what was received", func(r *Replica) { r.reads.received = 13 }, 13},
		{"up to the end of the log", func(r *Replica) { r.last = 12 }, 12},
		{"what is committed already", func(r *Replica) { r.reads.committed = 14 }, 0},
		{"of an earlier term", func(r *Replica) { r.reads.received = 11 }, 0},
		{"what is not in the log", func(r *Replica) { r.reads.tail = nil }, 0},
		{"in strict order", func(r *Replica) { r.reads.keys.on = false }, 0},
	} {
		s := newStage(t)
		for _, command := range []string{"elect 1", "pass 200ms"} {
			s.do(command)
		}
		r := s.members[1].r
		rl := &r.reads
		rl.keys.start(9, 9, readSetting{policy: quorumlease.AllByKey}, nil)
		rl.keys.news = quorumlease.News{Term: r.term, Horizon: 9}
		rl.ledger.Begin(r.term, rl.memberships)
		for id := machine.NodeID(1); id <= 2; id++ {
			rl.ledger.Report(id, quorumlease.Report{Boot: 1, Term: r.term, Durable: 14, Received: 14})
		}
		rl.tail = []*raftpb.Entry{entryAt(10, r.term-1, 0), entryAt(11, r.term-1, 0), entryAt(12, r.term, 0), entryAt(13, r.term, 0), entryAt(14, r.term, 0)}
		rl.committed, rl.received, r.last = 10, 14, 14
		tt.change(r)
		m := rl.foresee(r.moment, r.raft)
		if (m != nil) != (tt.want > 0) || m != nil && (m.GetCommit() != tt.want || m.GetFrom() != 1 || m.GetTo() != 2 || m.GetTerm() != r.term) {
			t.Errorf("%s: foreseen is %v, want a commit of %d", tt.name, m, tt.want)
		}
	}
}

// If followers have decided on releases for themselves in this leadership, the leader's readers wait
// for its whole log. Readers of some keys wait for the entries that touch their keys, in the log or in
// a state that readers may have. Other readers wait for the commit index.
func TestUpToWhereReadersWait(t *testing.T) {
	for _, tt := range []struct {
		name            string
		far, leads, on  bool
		all, some, none uint64
	}{
		{"the leader", false, true, true, 11, 11, 11},
		{"a leader in whose leadership others judge", true, true, true, 13, 12, 10},
		{"one that has gone to strict order", true, true, false, 13, 13, 13},
		{"a follower", false, false, true, 11, 11, 11},
		{"one that has led", true, false, true, 11, 12, 10},
	} {
		r := keyReader(9)
		r.term, r.last = 2, 13
		if r.leader = 2; tt.leads {
			r.leader = 1
		}
		rl := &r.reads
		rl.far = tt.far
		for i, key := range []string{"a", "b", "k", "c"} {
			rl.keys.log.Add(entryOfPuts(t, 2, 10+uint64(i), key), nil)
		}
		rl.keys.log.releaseThrough(10)
		rl.keys.log.forget(10)
		rl.keys.on = tt.on
		b := rl.bound(r.moment, 11)
		some, none := b.of(keyspan.Set{{Key: []byte("k")}}), b.of(keyspan.Set{{Key: []byte("z")}})
		if b.all() != tt.all || some != tt.some || none != tt.none || b.committed != 9 {
			t.Errorf("%s: readers wait for %d, those of a key of entry 12 for %d, and those of a key that the log has not for %d; want %d, %d, %d", tt.name, b.all(), some, none, tt.all, tt.some, tt.none)
		}
	}
}

// The time of a flush is smoothed, and measured only for records with entries. A member reports
// received entries at once only if it holds a lease and its disk is slow.
func TestReceiptsOfSlowDisks(t *testing.T) {
	r := keyReader(9)
	r.leader, r.term, r.now = 2, 5, machine.Mono(time.Hour)
	rl := &r.reads
	rec := Record{Entries: []*raftpb.Entry{entryAt(10, 5, 0)}}
	for _, step := range []struct {
		rec  Record
		took time.Duration
		want time.Duration
	}{{rec, 16 * time.Millisecond, 2 * time.Millisecond}, {Record{}, time.Second, 2 * time.Millisecond}, {rec, 10 * time.Millisecond, 3 * time.Millisecond}} {
		if rl.flushed(r.moment, durable{Record: step.rec, Term: 5, Since: r.now.Add(-step.took)}); rl.flush != step.want {
			t.Errorf("a flush of %d entries took %v: a flush takes %v, want %v", len(step.rec.Entries), step.took, rl.flush, step.want)
		}
	}
	for _, tt := range []struct {
		name  string
		flush time.Duration
		reads bool
		want  bool
	}{{"a slow disk", slowFlush + 1, true, true}, {"a fast disk", slowFlush, true, false}, {"a slow disk without a lease", slowFlush + 1, false, false}} {
		rl.keys.stop()
		rl.flush, r.sends = tt.flush, nil
		if rl.wanted = 0; tt.reads {
			rl.wanted = machine.Never
		}
		if rl.receipt(r.moment, &r.effects); len(r.sends) == 1 != tt.want {
			t.Errorf("with %s the leader is told at once: %v, want %v", tt.name, r.sends, tt.want)
		}
	}
}

// While an entry is held, a member reports with each tick, for a report may have been lost.
func TestReportsAreMadeUpFor(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(rl *readLeases)
		want int
	}{
		{"nothing is held", func(*readLeases) {}, 0},
		{"an entry is not given to the Applier", func(rl *readLeases) { rl.held = []*raftpb.Entry{entryAt(10, 5, 0)} }, 1},
		{"an entry is not to be seen", func(rl *readLeases) { rl.handedOut = 10 }, 1},
	} {
		r := keyReader(9)
		r.leader, r.term = 2, 5
		rl := &r.reads
		rl.handedOut = 9
		tt.set(rl)
		if rl.onTick(r.moment, &r.effects); len(r.sends) != tt.want {
			t.Errorf("%s: %d reports go with a tick, want %d", tt.name, len(r.sends), tt.want)
		}
	}
}

// A doubt holds for the present moment at least, and an earlier one as long as it was said to.
func TestHowLongADoubtLasts(t *testing.T) {
	for _, tt := range []struct{ until, ends machine.Mono }{{0, 101}, {99, 101}, {100, 101}, {101, 101}, {150, 150}} {
		d := demand{wanted: machine.Never}
		d.doubt(100, tt.until)
		if d.live(tt.ends-1) || !d.live(tt.ends) {
			t.Errorf("a doubt at 100 that lasts until %d: a lease may be trusted at %d: %v, and at %d: %v", tt.until, tt.ends-1, d.live(tt.ends-1), tt.ends, d.live(tt.ends))
		}
		if d.doubt(10, 20); d.live(tt.ends - 1) {
			t.Errorf("a doubt until %d ends with a shorter one", tt.ends)
		}
	}
}
