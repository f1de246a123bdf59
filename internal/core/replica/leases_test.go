package replica

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
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
	known[3].Checkpoint = 1
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
	), AskLease{ID: 1, Lease: n}, AskLease{ID: 2, Lease: n - 1}, AskLease{ID: 3, Lease: n - 2}, AskLease{ID: 4, Lease: 4})
	for range 10 {
		a.turn(labstage.Wake{})
	}
	slices.SortFunc(a.answers, func(x, y AnswerLease) int { return int(x.ID) - int(y.ID) })
	want := []AnswerLease{
		{ID: 1, Lease: n, TTL: 5000, Remaining: 5000},
		{ID: 2, Lease: n - 1},
		{ID: 3, Lease: n - 2, TTL: 60000, Remaining: 7000},
		{ID: 4, Lease: 4, TTL: 60000, Remaining: 1},
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

// A lease may be over while the removal of its checkpoint is on its way. The removal moves nothing then.
func TestACheckpointRemovedFromALeaseThatIsOver(t *testing.T) {
	const start = machine.Mono(time.Hour)
	ls := countingLeases(start, 1, 2)
	l := ls.table[1]
	l.mark, l.clearing = &mark{6000, 6000}, true
	ls.heap.remove(l)
	l.expiring = true
	ls.changed(start, []leaseChange{{ID: 1, Kind: leaseCheckpointed}})
	if l.clearing || l.mark != nil || !l.expiring || l.slot >= 0 || ls.heap.Len() != 1 {
		t.Errorf("a lease that is being ended is %+v, and %d leases wait for their time, want 1", *l, ls.heap.Len())
	}
}

// A snapshot takes the place of all that was known of leases, what came while they were loaded included.
func TestLeasesOfASnapshotReplaceOthers(t *testing.T) {
	var ls leases
	ls.init([]leaseChange{{ID: 1, TTL: 60}})
	ls.changed(0, []leaseChange{{ID: 2, Kind: leaseGranted, TTL: 60}})
	ls.init([]leaseChange{{ID: 3, TTL: 60}})
	if ls.load(0); len(ls.table) != 1 || ls.table[3] == nil {
		t.Errorf("a snapshot has the lease 3 only, and behind it there are the leases %v", slices.Sorted(maps.Keys(ls.table)))
	}
}
