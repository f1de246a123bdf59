package replica

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

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
