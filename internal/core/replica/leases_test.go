package replica

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
)

// alone is a group of one that starts with many leases. Writes are durable by the next turn. The test
// decides when entries are applied.
type alone struct {
	r       *Replica
	now     machine.Mono
	durable []any // to be stepped
	answers []AnswerLease
	last    *raftpb.Entry // that was committed
}

func newAlone(t testing.TB, leases []leaseChange) *alone {
	r, err := New(Config{
		ID: 1, Boot: 1, Tick: 100 * time.Millisecond, ElectionTicks: 10,
		Log: Genesis([]machine.NodeID{1}), Restored: Restored{Index: 1, Released: 1, Leases: leases},
	}, machine.Now{Mono: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &alone{r: r, now: 1}
}

// turn steps inputs, collects the effects, and returns when the next turn is due.
func (a *alone) turn(inputs ...any) (alarm machine.Mono) {
	inputs = append(a.durable, inputs...)
	a.durable = nil
	for _, in := range inputs {
		labstage.Feed(a.r, machine.Now{Mono: a.now}, in)
	}
	rd := a.r.Ready()
	for _, out := range rd.Outcomes {
		switch out := out.(type) {
		case AnswerLease:
			a.answers = append(a.answers, out)
		case Committed:
			a.last = out.Entries[len(out.Entries)-1]
		}
	}
	for _, p := range rd.Persists {
		for _, env := range p.Then {
			a.durable = append(a.durable, env)
		}
	}
	return rd.Alarm
}

// lead takes turns until this member leads, and its first entry is committed.
func (a *alone) lead() {
	for a.last == nil {
		a.turn(labstage.Wake{})
	}
}

// applied is the report on the entries that were committed.
func (a *alone) applied(changes ...leaseChange) Applied {
	return Applied{Index: a.last.GetIndex(), Term: a.last.GetTerm(), Leases: changes}
}

// A new leader gives leases their time in slices. It takes no decision about leases before the last
// slice. Leases that come and go meanwhile do not disturb that.
func TestLeadersStartInSlices(t *testing.T) {
	var known []leaseChange
	for id := int64(1); id <= 3*slice; id++ {
		known = append(known, leaseChange{ID: id, TTL: 60 - id%7})
	}
	known[0].TTL, known[1].TTL = 1, 1
	known[2].Checkpoint = 3000
	a := newAlone(t, known)
	ls := &a.r.leases
	for a.lead(); len(ls.known) > 0; a.turn(labstage.Wake{}) {
	}
	began := a.now
	for n, inputs := range [][]any{
		{a.applied(), AskLease{ID: 1, Lease: 1, Renew: true}, AskLease{ID: 2, Lease: 3*slice + 1, Renew: true}},
		{a.applied(
			leaseChange{ID: 7, Kind: leaseGone},                      // it has its time, others take its place
			leaseChange{ID: 3 * slice, Kind: leaseGone},              // it has none yet, and is the last
			leaseChange{ID: 2*slice + 1, Kind: leaseGone},            // nor has this one, others take its place
			leaseChange{ID: 3*slice + 1, Kind: leaseGranted, TTL: 9}, // it is last now
		)},
	} {
		if alarm := a.turn(inputs...); alarm != a.now {
			t.Errorf("turn %d: the next slice waits for %v", n, alarm.Sub(a.now))
		}
		if got, most := ls.heap.ordered, (n+1)*slice; got > most || got < most-1 {
			t.Errorf("turn %d: %d leases have their time, want %d, less those that went", n, got, most)
		}
		if len(a.answers) > 0 || ls.ticking {
			t.Errorf("turn %d: %v was answered before all leases had their time", n, a.answers)
		}
		a.now = a.now.Add(700 * time.Millisecond)
	}
	a.turn(labstage.Wake{})
	if !ls.ticking {
		t.Fatal("three turns are not enough for three slices")
	}
	want := []AnswerLease{{ID: 1, Lease: 1, TTL: 1000, Remaining: 1000}, {ID: 2, Lease: 3*slice + 1, TTL: 9000, Remaining: 9000}}
	slices.SortFunc(a.answers, func(x, y AnswerLease) int { return int(x.ID) - int(y.ID) })
	if !slices.Equal(a.answers, want) {
		t.Errorf("answers %v, want %v", a.answers, want)
	}
	if l := ls.table[2]; !l.expiring {
		t.Error("lease 2 of 1 s is not expiring after 1.4 s, and nobody renewed it")
	}
	if got := ls.table[3].deadline; got != began.Add(3*time.Second) {
		t.Errorf("lease 3 ends after %v, want 3 s by its checkpoint", got.Sub(began))
	}
	checkHeap(t, ls, 3*slice-3) // of one more three went, and one is expiring
	for id, turn := range map[int64]time.Duration{slice: 0, slice + 1: 1, 2*slice + 2: 2} {
		l := ls.table[id]
		if got, want := l.deadline.Sub(began), turn*700*time.Millisecond+millis(l.ttl); got != want {
			t.Errorf("lease %d ends after %v, want %v: its TTL from turn %d", id, got, want, turn)
		}
	}
	// A leader that is deposed takes its expiries back.
	ls.stop(a.r.moment)
	if ls.heap.ordered != 0 || len(ls.heap.all) != len(ls.table) || ls.table[2].expiring {
		t.Errorf("after a leadership, %d of %d leases are waiting for the next", len(ls.heap.all), len(ls.table))
	}
}

// The leases of a snapshot are loaded in slices. Later changes of the leases by the log wait for the
// last slice.
func TestLeasesLoadInSlices(t *testing.T) {
	const n = 5 * slice
	var known []leaseChange
	for id := int64(1); id <= n; id++ {
		known = append(known, leaseChange{ID: id, TTL: 60})
	}
	a := newAlone(t, known)
	ls := &a.r.leases
	if alarm := a.turn(); alarm != a.now || len(ls.table) != slice {
		t.Errorf("%d leases are loaded in one turn, and the next is in %v", len(ls.table), alarm.Sub(a.now))
	}
	a.lead()
	if len(ls.known) == 0 {
		t.Fatal("all leases were loaded before anything was applied")
	}
	a.turn(a.applied(
		leaseChange{ID: n, Kind: leaseGone},
		leaseChange{ID: n, Kind: leaseGranted, TTL: 5},
		leaseChange{ID: n - 1, Kind: leaseGone},
		leaseChange{ID: n - 2, Kind: leaseCheckpointed, Checkpoint: 7000},
	), AskLease{ID: 1, Lease: n}, AskLease{ID: 2, Lease: n - 1}, AskLease{ID: 3, Lease: n - 2})
	for range 10 {
		a.turn(labstage.Wake{})
	}
	slices.SortFunc(a.answers, func(x, y AnswerLease) int { return int(x.ID) - int(y.ID) })
	want := []AnswerLease{
		{ID: 1, Lease: n, TTL: 5000, Remaining: 5000},
		{ID: 2, Lease: n - 1},
		{ID: 3, Lease: n - 2, TTL: 60000, Remaining: 7000},
	}
	if !slices.Equal(a.answers, want) {
		t.Errorf("answers %v, want %v", a.answers, want)
	}
	checkHeap(t, ls, n-1)
}

func checkHeap(t *testing.T, ls *leases, want int) {
	t.Helper()
	h := &ls.heap
	if h.ordered != want || len(h.all) != want {
		t.Errorf("%d leases are ordered of %d, want %d", h.ordered, len(h.all), want)
	}
	for i, l := range h.all {
		if int(l.slot) != i || ls.table[l.id] != l {
			t.Fatalf("lease %d in slot %d believes in %d", l.id, i, l.slot)
		}
		if i > 0 && h.Less(i, (i-1)/2) {
			t.Fatalf("lease %d is before the one above it in the heap", l.id)
		}
	}
}

// BenchmarkLeasesStart measures how long a new leader takes to give its leases their time: in total,
// and in the longest turn.
func BenchmarkLeasesStart(b *testing.B) {
	for _, n := range []int{1_000_000, 5_000_000} {
		known := manyLeases(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := newAlone(b, known)
			for a.lead(); len(a.r.leases.known) > 0; a.turn(labstage.Wake{}) {
			}
			var longest time.Duration
			for b.Loop() {
				a.r.leases.stop(a.r.moment)
				a.r.visibleTerm = a.r.term
				for !a.r.leases.ticking {
					began := time.Now()
					a.now++
					a.turn(labstage.Wake{})
					longest = max(longest, time.Since(began))
				}
			}
			b.ReportMetric(float64(longest.Microseconds()), "us/turn-max")
		})
	}
}

// BenchmarkLeasesLoad measures how a member takes in the leases of a snapshot.
func BenchmarkLeasesLoad(b *testing.B) {
	for _, n := range []int{1_000_000, 5_000_000} {
		known := manyLeases(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := newAlone(b, nil)
			var first, longest time.Duration
			for b.Loop() {
				began := time.Now()
				a.r.leases.init(known)
				first = time.Since(began)
				for len(a.r.leases.known) > 0 {
					began := time.Now()
					a.turn(labstage.Wake{})
					longest = max(longest, time.Since(began))
				}
			}
			b.ReportMetric(float64(first.Microseconds()), "us/init")
			b.ReportMetric(float64(longest.Microseconds()), "us/turn-max")
		})
	}
}

func manyLeases(n int) []leaseChange {
	list := make([]leaseChange, n)
	for i := range list {
		list[i] = leaseChange{ID: int64(i)*7919 + 1, TTL: int64(10 + i%50)}
	}
	return list
}

// A renewal that waits for a revocation is tried again when the revocation is applied, even if that
// ended nothing. The test covers a renewal after the revocation and one together with it.
func TestRenewalBehindARevocationThatEndedNothing(t *testing.T) {
	for _, together := range []bool{false, true} {
		a := newAlone(t, []leaseChange{{ID: 1, TTL: 60, Checkpoint: 3000}})
		a.lead()
		for a.turn(a.applied()); !a.r.leases.ticking; a.turn(labstage.Wake{}) {
		}
		first := a.last.GetIndex()
		revoke, renew := Propose{ID: 9, Body: bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 1})}, AskLease{ID: 5, Lease: 1, Renew: true}
		if together {
			a.turn(revoke, renew)
		} else {
			a.turn(revoke)
		}
		for a.last.GetIndex() == first {
			a.turn(labstage.Wake{})
		}
		if !together {
			a.turn(renew)
		}
		revocation := a.last.GetIndex()
		for range 5 {
			if a.turn(labstage.Wake{}); len(a.answers) > 0 || a.last.GetIndex() != revocation {
				t.Fatalf("together %v: before the revocation was applied: answers %v, entry %d", together, a.answers, a.last.GetIndex())
			}
		}
		a.turn(a.applied())
		for range 5 {
			a.turn(labstage.Wake{})
		}
		if a.last.GetIndex() == revocation {
			t.Fatalf("together %v: the renewal is not looked at again: nothing removes the checkpoint", together)
		}
		a.turn(a.applied(leaseChange{ID: 1, Kind: leaseCheckpointed}))
		if len(a.answers) != 1 || a.answers[0].TTL != 60_000 {
			t.Errorf("together %v: answers %v, want that the renewal has 60 s", together, a.answers)
		}
	}
}

// A lease whose expiry did not get into the log is tried again at the next tick. Otherwise it would
// never end. The same holds for a lease whose expiry is undecided when a leadership ends. All
// questions and reports of that leadership are forgotten.
func TestExpiriesThatDidNotHappen(t *testing.T) {
	begin := func() (*Replica, *leases) {
		r := keyReader(9)
		ls := &r.leases
		ls.init(nil)
		ls.ticking, ls.inFlight, ls.parked = true, map[uint64][]int64{7: {1, 2, 9}}, map[int64][]parkedAsk{}
		for id := range int64(4) { // 9 is gone by now
			ls.table[id] = &lease{id: id, ttl: 60_000, slot: -1, expiring: id == 1 || id == 2}
		}
		for _, id := range []int64{0, 3} {
			ls.table[id].due = machine.Never
			ls.heap.add(ls.table[id])
			ls.heap.order()
		}
		return r, ls
	}
	revived := func(r *Replica, ls *leases) (n int) {
		for _, l := range ls.table {
			if !l.expiring && l.slot >= 0 && l.due == r.now.Add(r.cfg.Tick) {
				n++
			}
		}
		return n
	}
	for _, tt := range []struct {
		name string
		do   func(r *Replica, ls *leases)
		want int
		open int
	}{
		{"refused", func(r *Replica, ls *leases) { ls.settled(r.moment, batchFate{Seq: 7, Refused: true}) }, 2, 0},
		{"taken", func(r *Replica, ls *leases) { ls.settled(r.moment, batchFate{Seq: 7}) }, 0, 0},
		{"of another batch", func(r *Replica, ls *leases) { ls.settled(r.moment, batchFate{Seq: 8, Refused: true}) }, 0, 1},
		{"of a leadership that has ended", func(r *Replica, ls *leases) { ls.stop(r.moment) }, 2, 0},
	} {
		r, ls := begin()
		tt.do(r, ls)
		if got := revived(r, ls); got != tt.want || len(ls.inFlight) != tt.open || len(ls.heap.all) != 2+tt.want {
			t.Errorf("an expiry %s: %d leases are looked at again, among %d, and %d expiries are open; want %d, %d, %d", tt.name, got, len(ls.heap.all), len(ls.inFlight), tt.want, 2+tt.want, tt.open)
		}
	}
	r, ls := begin()
	ls.renewed, ls.revoking, ls.revocations = []int64{1}, map[int64]uint64{1: 12}, []revocation{{12, 1}}
	if ls.stop(r.moment); ls.ticking || ls.parked != nil || len(ls.renewed)+len(ls.revoking)+len(ls.revocations) > 0 || ls.heap.ordered != 0 {
		t.Errorf("of a leadership that has ended: time is counted %v, renewals %d, revocations %v and %v, and %d leases are in order", ls.ticking, ls.renewed, ls.revoking, ls.revocations, ls.heap.ordered)
	}
}

// A lease counts as being revoked as long as an entry that revokes it is in progress. If there are two
// such entries, that lasts until the second.
func TestRevocationsOfOneLease(t *testing.T) {
	r := keyReader(9)
	ls := &r.leases
	revoke := func(index uint64, ids ...int64) {
		var requests []Propose
		for _, id := range ids {
			requests = append(requests, Propose{Body: bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: id})})
		}
		ls.appended(index, append(requests, Propose{Body: bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 9, TTL: 60})}))
	}
	revoke(10, 1, 2)
	revoke(12, 1)
	for _, step := range []struct {
		applied uint64
		want    map[int64]uint64
	}{
		{9, map[int64]uint64{1: 12, 2: 10}},
		{10, map[int64]uint64{1: 12}},
		{11, map[int64]uint64{1: 12}},
		{12, map[int64]uint64{}},
	} {
		if ls.applied(r.now, step.applied); !maps.Equal(ls.revoking, step.want) {
			t.Errorf("applied up to %d, leases are about to be revoked by entries %v, want %v", step.applied, ls.revoking, step.want)
		}
	}
}

// A lease that is being revoked may be granted again under its ID. An expiry that was decided for the
// former lease does not end the new one (L6).
func TestNoExpiryBehindARevocation(t *testing.T) {
	a := newAlone(t, []leaseChange{{ID: 1, TTL: 10}, {ID: 2, TTL: 10}})
	a.lead()
	for a.turn(a.applied()); !a.r.leases.ticking; a.turn(labstage.Wake{}) {
	}
	revoke, grant := bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 1}), bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 1, TTL: 60})
	a.turn(Propose{ID: 9, Body: revoke}, Propose{ID: 10, Body: grant})
	for range 5 {
		a.turn(labstage.Wake{})
	}
	a.now = a.now.Add(11 * time.Second)
	for range 10 {
		a.now = a.now.Add(a.r.cfg.Tick)
		a.turn(labstage.Wake{})
	}
	if got := entryText(a.last); got != "from 1: expire 2" {
		t.Errorf("the last entry is %q, want that the lease that nobody revokes expires", got)
	}
	a.turn(a.applied(leaseChange{ID: 1, Kind: leaseGone}, leaseChange{ID: 1, Kind: leaseGranted, TTL: 60}, leaseChange{ID: 2, Kind: leaseGone}))
	a.turn(AskLease{ID: 5, Lease: 1})
	for range 5 {
		a.turn(labstage.Wake{})
	}
	if want := []AnswerLease{{ID: 5, Lease: 1, TTL: 60_000, Remaining: 60_000}}; !slices.Equal(a.answers, want) {
		t.Errorf("answers %+v, want the lease that was granted last, whole", a.answers)
	}
}

// A leadership uses the checkpoints in the log, not those that were proposed in an earlier leadership.
// Those may not have reached the log, and the lease would end early.
func TestALeadershipGoesByTheLog(t *testing.T) {
	a := newAlone(t, []leaseChange{{ID: 1, TTL: 60, Checkpoint: 3000}, {ID: 2, TTL: 60}, {ID: 3, TTL: 2, Checkpoint: 3000}})
	a.lead()
	for a.turn(a.applied()); !a.r.leases.ticking; a.turn(labstage.Wake{}) {
	}
	ls := &a.r.leases
	ls.stop(a.r.moment)
	ls.table[1].mark.proposed, ls.table[2].mark, ls.table[1].clearing = 1000, &mark{proposed: 1000}, true
	a.now = a.now.Add(time.Second)
	a.r.now = a.now
	ls.start(a.r.moment)
	for id, want := range map[int64]time.Duration{1: 3 * time.Second, 2: time.Minute, 3: 2 * time.Second} {
		l := ls.table[id]
		if got := l.deadline.Sub(a.now); got != want {
			t.Errorf("lease %d ends %v after a leadership began, want %v", id, got, want)
		}
		if l.clearing || id != 2 && l.mark.proposed != 3000 || id == 2 && l.mark != nil {
			t.Errorf("lease %d begins a leadership with %+v, %+v", id, *l, l.mark)
		}
	}
}

// A checkpoint gives a lease no less time than it has left.
func TestCheckpointsAreRoundedUp(t *testing.T) {
	a := newAlone(t, []leaseChange{{ID: 1, TTL: 10}})
	a.lead()
	for a.turn(a.applied()); !a.r.leases.ticking; a.turn(labstage.Wake{}) {
	}
	first, l := a.last.GetIndex(), a.r.leases.table[1]
	a.now = l.due
	for range 5 {
		a.turn(labstage.Wake{})
	}
	if a.last.GetIndex() != first+1 {
		t.Fatalf("entry %d is the last, want a checkpoint behind %d", a.last.GetIndex(), first)
	}
	left := l.deadline.Sub(a.now)
	want := fmt.Sprintf("from 1: checkpoint 1 at %d ms", left/time.Millisecond+1)
	if got := entryText(a.last); left%time.Millisecond == 0 || got != want {
		t.Errorf("with %v left: %q, want %q", left, got, want)
	}
}

// The answer to a look has the remaining time of the lease, not the time of the leader's next check.
func TestALookSaysWhatIsLeft(t *testing.T) {
	a := newAlone(t, []leaseChange{{ID: 1, TTL: 10}})
	a.lead()
	for a.turn(a.applied()); !a.r.leases.ticking; a.turn(labstage.Wake{}) {
	}
	a.now = a.now.Add(2 * time.Second)
	a.turn(AskLease{ID: 5, Lease: 1}, AskLease{ID: 6, Lease: 2})
	for range 5 {
		a.turn(labstage.Wake{})
	}
	if want := []AnswerLease{{ID: 5, Lease: 1, TTL: 10_000, Remaining: 8000}, {ID: 6, Lease: 2}}; !slices.Equal(a.answers, want) {
		t.Errorf("answers %+v, want %+v", a.answers, want)
	}
}

// All checkpoints and expiries that are due are proposed, in entries of at most a thousand.
func TestAllThatIsDueIsProposed(t *testing.T) {
	const n = 2*maxExpiries + 500
	list := make([]leaseChange, n)
	for i := range list {
		list[i] = leaseChange{ID: int64(i + 1), TTL: 10}
	}
	a := newAlone(t, list)
	a.lead()
	for a.turn(a.applied()); !a.r.leases.ticking; a.turn(labstage.Wake{}) {
	}
	for _, after := range []time.Duration{6 * time.Second, 10 * time.Second} {
		began := a.r.last
		a.now = max(a.now, machine.Mono(after))
		a.turn(labstage.Wake{})
		a.now = a.r.leases.table[1].deadline
		if got := a.r.last - began; got != 3 {
			t.Errorf("%d leases want attention after %v, and %d entries are proposed, want 3", n, after, got)
		}
	}
}

// countingLeases are the leases of a leader that counts time: one of 10 s for each ID.
func countingLeases(now machine.Mono, ids ...int64) *leases {
	ls := new(leases)
	ls.init(nil)
	ls.ticking, ls.grain = true, machine.Mono(100*time.Millisecond)
	ls.inFlight, ls.parked = map[uint64][]int64{}, map[int64][]parkedAsk{}
	for _, id := range ids {
		ls.changed(now, []leaseChange{{ID: id, Kind: leaseGranted, TTL: 10}})
	}
	return ls
}

// A renewal moves the deadline to a whole TTL from now. It is answered at once unless it has to wait:
// for the removal of a checkpoint, or for the outcome of an expiry. The removal is proposed once, and
// not after a revocation. A renewal that waits for an expiry moves nothing. A look never waits. The
// remaining time is never negative.
func TestWhatAnAskIsAnswered(t *testing.T) {
	const start = machine.Mono(time.Hour)
	for _, tt := range []struct {
		name     string
		change   func(ls *leases, l *lease)
		lease    int64
		renew    bool
		want     AnswerLease
		waits    bool
		deadline time.Duration // from start
		renewed  []int64
		clearing bool
	}{
		{"a renewal", nil, 1, true, AnswerLease{TTL: 10_000, Remaining: 10_000}, false, 12 * time.Second, nil, false},
		{"a look", nil, 1, false, AnswerLease{TTL: 10_000, Remaining: 8000}, false, 10 * time.Second, nil, false},
		{"a look at one that is over", func(_ *leases, l *lease) { l.deadline = start }, 1, false, AnswerLease{TTL: 10_000}, false, 0, nil, false},
		{"a renewal of none", nil, 5, true, AnswerLease{}, false, 10 * time.Second, nil, false},
		{"a look at none", nil, 5, false, AnswerLease{}, false, 10 * time.Second, nil, false},
		{"a renewal behind a checkpoint", func(_ *leases, l *lease) { l.mark = &mark{6000, 6000} }, 1, true, AnswerLease{}, true, 12 * time.Second, []int64{1}, true},
		{"a look behind a checkpoint", func(_ *leases, l *lease) { l.mark = &mark{6000, 6000} }, 1, false, AnswerLease{TTL: 10_000, Remaining: 8000}, false, 10 * time.Second, nil, false},
		{"a renewal with the removal on its way", func(_ *leases, l *lease) { l.mark, l.clearing = &mark{6000, 6000}, true }, 1, true, AnswerLease{}, true, 12 * time.Second, nil, true},
		{"a renewal of a checkpoint behind a revocation", func(ls *leases, l *lease) {
			l.mark, ls.revoking = &mark{6000, 6000}, map[int64]uint64{1: 7}
		}, 1, true, AnswerLease{}, true, 12 * time.Second, nil, false},
		{"a renewal during an expiry", func(_ *leases, l *lease) { l.expiring = true }, 1, true, AnswerLease{}, true, 10 * time.Second, nil, false},
		{"a look during an expiry", func(_ *leases, l *lease) { l.expiring = true }, 1, false, AnswerLease{TTL: 10_000, Remaining: 8000}, false, 10 * time.Second, nil, false},
	} {
		ls := countingLeases(start, 1)
		l := ls.table[1]
		if tt.change != nil {
			tt.change(ls, l)
		}
		tt.want.ID, tt.want.Lease = 4, tt.lease
		got, ok := ls.ask(start.Add(2*time.Second), asker{2, 1}, leaseAsk{ID: 4, Lease: tt.lease, Renew: tt.renew})
		if ok == tt.waits || ok && got != tt.want || len(ls.parked[1]) > 0 != tt.waits {
			t.Errorf("%s is answered %+v, %v, and %d asks wait; want %+v, and that it waits: %v", tt.name, got, ok, len(ls.parked[1]), tt.want, tt.waits)
		}
		if l.deadline != start.Add(tt.deadline) || !slices.Equal(ls.renewed, tt.renewed) || l.clearing != tt.clearing {
			t.Errorf("%s: the lease ends after %v, checkpoints to be removed are of %d, on its way: %v; want %v, %d, %v",
				tt.name, l.deadline.Sub(start), ls.renewed, l.clearing, tt.deadline, tt.renewed, tt.clearing)
		}
	}
}

// A waiting question is answered once for each asker, and only after the event that it waits for: the
// end of the lease, or the removal of its checkpoint by the entry that was proposed for that.
func TestAsksThatWaitAreAnsweredOnce(t *testing.T) {
	const start = machine.Mono(time.Hour)
	now := start.Add(2 * time.Second)
	first, second := asker{2, 1}, asker{3, 5}
	for _, tt := range []struct {
		name    string
		change  leaseChange
		prepare func(l *lease)
		want    AnswerLease // of both
		waits   bool
		mark    *mark
	}{
		{"the removal of its checkpoint", leaseChange{ID: 1, Kind: leaseCheckpointed}, func(l *lease) { l.mark = &mark{6000, 6000} }, AnswerLease{TTL: 10_000, Remaining: 10_000}, false, nil},
		{"another checkpoint", leaseChange{ID: 1, Kind: leaseCheckpointed, Checkpoint: 4000}, func(l *lease) { l.mark = &mark{6000, 6000} }, AnswerLease{}, true, &mark{4000, 6000}},
		{"its end", leaseChange{ID: 1, Kind: leaseGone}, func(l *lease) { l.expiring = true }, AnswerLease{}, false, nil},
		{"the end of another", leaseChange{ID: 2, Kind: leaseGone}, func(l *lease) { l.mark = &mark{6000, 6000} }, AnswerLease{}, true, &mark{6000, 6000}},
	} {
		ls := countingLeases(start, 1, 2)
		l := ls.table[1]
		tt.prepare(l)
		for i, from := range []asker{first, second} {
			if _, ok := ls.ask(now, from, leaseAsk{ID: uint64(20 + i), Lease: 1, Renew: true}); ok {
				t.Errorf("%s: an ask does not wait", tt.name)
			}
		}
		got := ls.changed(now, []leaseChange{{ID: 7, Kind: leaseCheckpointed, Checkpoint: 1000}, tt.change})
		want := []parkedAnswer{{first, tt.want}, {second, tt.want}}
		for i := range want {
			want[i].answer.ID, want[i].answer.Lease = uint64(20+i), 1
		}
		if tt.waits {
			want = nil
		}
		if !slices.Equal(got, want) || len(ls.parked[1]) > 0 != tt.waits {
			t.Errorf("%s: answers %+v, and %d asks wait; want %+v", tt.name, got, len(ls.parked[1]), want)
		}
		if (l.mark == nil) != (tt.mark == nil) || l.mark != nil && *l.mark != *tt.mark || l.clearing != (tt.mark != nil) {
			t.Errorf("%s: the lease has the checkpoint %+v, and its removal is on its way: %v", tt.name, l.mark, l.clearing)
		}
		if tt.mark == nil && ls.table[1] != nil && (l.due != ls.nextDue(l) || l.due >= l.deadline) {
			t.Errorf("%s: the lease is looked at after %v, want %v", tt.name, l.due.Sub(start), ls.nextDue(l).Sub(start))
		}
		checkHeap(t, ls, len(ls.table))
	}
	// A removal that was proposed in an earlier leadership answers nobody.
	ls := countingLeases(start, 1)
	ls.table[1].mark = &mark{6000, 6000}
	ls.revoking = map[int64]uint64{1: 9}
	ls.ask(now, first, leaseAsk{ID: 20, Lease: 1, Renew: true})
	if got := ls.changed(now, []leaseChange{{ID: 1, Kind: leaseCheckpointed}}); len(got) > 0 || ls.table[1].mark == nil || len(ls.parked[1]) != 1 {
		t.Errorf("a checkpoint is removed, as nobody in this leadership has proposed: answers %+v, %d asks wait", got, len(ls.parked[1]))
	}
	if ls.init(nil); ls.parked != nil || ls.ticking || len(ls.table)+len(ls.heap.all)+len(ls.revoking) > 0 {
		t.Errorf("a state from a snapshot begins with what was before: %+v", ls)
	}
}

// A lease is checked at 0.6 TTL, then each 0.2 TTL below the last checkpoint, on a tick, and at its
// end at the latest. No checkpoint is made while an earlier one is being removed.
func TestWhenALeaseWantsAttention(t *testing.T) {
	const start = machine.Mono(time.Hour)
	for _, tt := range []struct {
		name  string
		ttl   int64
		set   func(ls *leases, l *lease)
		after time.Duration
	}{
		{"a new one", 10, nil, 4 * time.Second},
		{"one with a checkpoint", 10, func(_ *leases, l *lease) { l.mark = &mark{proposed: 6000} }, 6 * time.Second},
		{"one with a checkpoint to the log's account", 10, func(_ *leases, l *lease) { l.mark = &mark{logged: 6000} }, 4 * time.Second},
		{"one with the last checkpoint", 10, func(_ *leases, l *lease) { l.mark = &mark{proposed: 2000} }, 10 * time.Second},
		{"one whose checkpoint is being removed", 10, func(_ *leases, l *lease) { l.mark, l.clearing = &mark{proposed: 6000}, true }, 10 * time.Second},
		{"one between two ticks", 10, func(ls *leases, _ *lease) { ls.grain = machine.Mono(700 * time.Millisecond) }, 4300 * time.Millisecond},
		{"one shorter than a tick", 1, func(ls *leases, _ *lease) { ls.grain = machine.Mono(7 * time.Second) }, time.Second},
	} {
		ls := countingLeases(start)
		ls.changed(start, []leaseChange{{ID: 1, Kind: leaseGranted, TTL: tt.ttl}})
		l := ls.table[1]
		if tt.set != nil {
			tt.set(ls, l)
		}
		if got := ls.nextDue(l).Sub(start); got != tt.after {
			t.Errorf("%s wants attention after %v, want %v", tt.name, got, tt.after)
		}
	}
}

// An expiry entry has a bounded number of leases. No more leases are taken while the log has enough
// expiry entries to apply, and the alarm does not go off for them.
func TestExpiriesAreBounded(t *testing.T) {
	const start = machine.Mono(time.Hour)
	ids := make([]int64, maxExpiries+3)
	for i := range ids {
		ids[i] = int64(i + 1)
	}
	at := moment{cfg: &Config{ID: 1, Tick: 100 * time.Millisecond}, now: start.Add(11 * time.Second), leader: 1}
	ls := countingLeases(start, ids...)
	for n := range uint64(maxExpiryEntries) {
		ls.inFlight[n] = nil
	}
	if got := ls.expire(at); len(got) > 0 || ls.due(at) != machine.Never {
		t.Errorf("with %d expiries on their way another takes %d leases, and the alarm is for %v", len(ls.inFlight), len(got), ls.due(at))
	}
	delete(ls.inFlight, 0)
	if due := ls.due(at); due > at.now {
		t.Errorf("leases are over, and the alarm is in %v", due.Sub(at.now))
	}
	for _, want := range []int{maxExpiries, 3, 0} {
		got := ls.expire(at)
		if len(got) != want {
			t.Errorf("%d leases share an expiry, want %d", len(got), want)
		}
		for _, id := range got {
			if l := ls.table[id]; !l.expiring || l.slot != -1 {
				t.Errorf("lease %d is in an expiry, and is looked at again: %+v", id, *l)
			}
		}
	}
}

// A change that finds no room in the log is tried again: an expiry at the next tick and not sooner,
// and the removal of a checkpoint at the next renewal.
func TestLeasesOfALogWithoutRoom(t *testing.T) {
	a := newAlone(t, []leaseChange{{ID: 1, TTL: 10}, {ID: 2, TTL: 60, Checkpoint: 30_000}})
	a.lead()
	for a.turn(a.applied()); !a.r.leases.ticking; a.turn(labstage.Wake{}) {
	}
	ls := &a.r.leases
	last := a.r.last
	had := a.r.tail.bytes
	a.r.tail.bytes = 2 * a.r.cfg.MaxTailBytes
	a.now = a.now.Add(11 * time.Second)
	a.turn(AskLease{ID: 5, Lease: 2, Renew: true})
	for range 3 {
		a.turn(labstage.Wake{})
	}
	if l := ls.table[1]; a.r.last != last || l.expiring || l.slot < 0 || l.due != a.now.Add(a.r.cfg.Tick) || len(ls.inFlight) > 0 {
		t.Errorf("entry %d is the last, %d before: a lease whose expiry has no room is looked at in %v, want a tick; expiries on their way: %d", a.r.last, last, l.due.Sub(a.now), len(ls.inFlight))
	}
	if l := ls.table[2]; l.clearing || len(ls.parked[2]) != 1 {
		t.Errorf("the removal of a checkpoint has no room, and is taken to be on its way: %v; %d renewals wait", l.clearing, len(ls.parked[2]))
	}
	a.r.tail.bytes = had
	a.now = a.now.Add(a.r.cfg.Tick)
	a.turn(AskLease{ID: 6, Lease: 2, Renew: true})
	for range 3 {
		a.turn(labstage.Wake{})
	}
	if !ls.table[1].expiring || !ls.table[2].clearing || a.r.last != last+2 {
		t.Errorf("with room again, a lease that is over expires: %v; the removal of a checkpoint is on its way: %v; entry %d is the last, want %d", ls.table[1].expiring, ls.table[2].clearing, a.r.last, last+2)
	}
	a.turn(a.applied(leaseChange{ID: 1, Kind: leaseGone}, leaseChange{ID: 2, Kind: leaseCheckpointed}))
	for range 3 {
		a.turn(labstage.Wake{})
	}
	want := []AnswerLease{{ID: 5, Lease: 2, TTL: 60_000, Remaining: 60_000}, {ID: 6, Lease: 2, TTL: 60_000, Remaining: 60_000}}
	if !slices.Equal(a.answers, want) {
		t.Errorf("both renewals are answered %+v, want %+v", a.answers, want)
	}
}

// However many renewed leases have checkpoints, and however many checkpoints are due, all are
// proposed. An entry has a thousand at most.
func TestEntriesAboutLeasesAreBounded(t *testing.T) {
	const n = 2*maxExpiries + 3
	ls := countingLeases(machine.Mono(time.Hour))
	for id := range int64(n) {
		ls.renewed = append(ls.renewed, id)
		ls.marks = append(ls.marks, &pb.LeaseCheckpoint{ID: id})
	}
	var renewed, marked []int64
	for _, want := range []int{maxExpiries, maxExpiries, 3, 0} {
		ids, marks := ls.nextRenewed(), ls.nextMarks()
		if len(ids) != want || len(marks) != want {
			t.Errorf("an entry removes %d checkpoints, and another makes %d; want %d", len(ids), len(marks), want)
		}
		renewed = append(renewed, ids...)
		for _, c := range marks {
			marked = append(marked, c.ID)
		}
	}
	for id := range int64(min(n, len(renewed), len(marked))) {
		if renewed[id] != id || marked[id] != id {
			t.Fatalf("of lease %d a checkpoint is removed, and of %d one is made; want lease %d", renewed[id], marked[id], id)
		}
	}
}

// A leader that loads its leases from a snapshot gives no lease its time before all are loaded. Leases
// that are loaded later would get none.
func TestNoTimeBeforeAllAreLoaded(t *testing.T) {
	known := manyLeases(2*slice + 1)
	r := keyReader(9)
	r.leases.init(known)
	r.leader, r.term, r.visibleTerm = 1, 2, 2
	for n, want := range []int{slice, 2 * slice, 2*slice + 1} {
		if r.turnLeases(); len(r.leases.table) != want || r.leases.heap.ordered > 0 && n < 2 {
			t.Errorf("in turn %d %d leases are loaded, and %d have their time; want %d loaded, and no time before the last", n, len(r.leases.table), r.leases.heap.ordered, want)
		}
	}
	// An expiry that was refused is none of a lease that was granted since under its ID.
	ls := countingLeases(machine.Mono(time.Hour), 1, 2)
	ls.revive(machine.Mono(time.Hour), []int64{1, 9})
	checkHeap(t, ls, 2)
}
