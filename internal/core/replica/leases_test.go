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

// alone is a group of one that starts with many leases. Writes are durable by
// the next turn; what is applied is up to the test.
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

// turn steps inputs and takes the effects, and tells when the next turn is due.
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

// A new leader gives leases their time in slices, and waits for the last of them
// with what it does about leases. Those that come and go meanwhile are no matter.
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

// Leases of a snapshot are loaded in slices. What the log did to them since then
// waits for the last one.
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

// BenchmarkLeasesStart measures how a new leader gives its leases their time, in all and in one
// turn at most.
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

// A renewal that waits for a revocation is looked at again when that was applied, though it
// ended nothing.
func TestRenewalBehindARevocationThatEndedNothing(t *testing.T) {
	a := newAlone(t, []leaseChange{{ID: 1, TTL: 60, Checkpoint: 3000}})
	a.lead()
	for a.turn(a.applied()); !a.r.leases.ticking; a.turn(labstage.Wake{}) {
	}
	first := a.last.GetIndex()
	for a.turn(Propose{ID: 9, Body: bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 1})}); a.last.GetIndex() == first; a.turn(labstage.Wake{}) {
	}
	a.turn(AskLease{ID: 5, Lease: 1, Renew: true})
	revocation := a.last.GetIndex()
	for range 5 {
		if a.turn(labstage.Wake{}); len(a.answers) > 0 || a.last.GetIndex() != revocation {
			t.Fatalf("before the revocation was applied: answers %v, entry %d", a.answers, a.last.GetIndex())
		}
	}
	a.turn(a.applied())
	for range 5 {
		a.turn(labstage.Wake{})
	}
	if a.last.GetIndex() == revocation {
		t.Fatal("the renewal is not looked at again: nothing removes the checkpoint")
	}
	a.turn(a.applied(leaseChange{ID: 1, Kind: leaseCheckpointed}))
	if len(a.answers) != 1 || a.answers[0].TTL != 60_000 {
		t.Errorf("answers %v, want that the renewal has 60 s", a.answers)
	}
}

// A lease whose expiry did not get into the log is looked at again with the next tick, or it would never end.
// So is a lease whose expiry is open when a leadership ends, and all questions and reports of that leadership
// are forgotten.
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

// A lease is about to end as long as an entry that revokes it is on its way, and the first of two is
// not the last.
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

// A lease that is about to be revoked, and granted again under its ID, is not ended by an expiry
// that was decided about the one before (L6).
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

// A leadership goes by the checkpoints in the log, and not by what was proposed in an earlier one: that
// may never have got there, and its lease would end early.
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

// A checkpoint leaves a lease no less time than it has.
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

// The answer to a look says what is left of a lease, and not when the leader looks at it next.
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

// However many checkpoints and expiries are due at once, each is in an entry, of a thousand at most.
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
