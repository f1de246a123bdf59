package replica

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// others are promises of another protocol, which note what they are told.
type others struct {
	*asked
	at            Standing
	turns         int
	before, after []*placement.Configuration
}

func (o *others) Patience() time.Duration { return 7 * time.Second }

func (o *others) Turn(at Standing) PromiseEffects {
	o.at, o.turns = at, o.turns+1
	return PromiseEffects{}
}

func (o *others) Next(at Standing) machine.Mono { return at.Now + 5 }

func (o *others) Replaced(at Standing, before, after *placement.Configuration) {
	o.at, o.before, o.after = at, append(o.before, before), append(o.after, after)
}

// A member's settings are those that it is given, or the defaults. Another protocol of promises takes the place of the
// product's, and sets the patience with holders.
func TestPromisesOfTheConfig(t *testing.T) {
	for _, tt := range []struct{ given, want ReadLeases }{
		{ReadLeases{}, ReadLeases{TTL: 200 * time.Millisecond, Idle: 10 * time.Second, PlanEvery: 5 * time.Second, Planner: placement.Settings{Buckets: placement.MaxBuckets}}},
		{ReadLeases{TTL: 1, Idle: -1, PlanEvery: 2, EarlierTTL: 3, Planner: placement.Settings{Buckets: 4}}, ReadLeases{TTL: 1, Idle: -1, PlanEvery: 2, EarlierTTL: 3, Planner: placement.Settings{Buckets: 4}}},
	} {
		got := tt.given
		if got.setDefaults(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("the settings %+v mean %+v, want %+v", tt.given, got, tt.want)
		}
	}
	var given quorumlease.Config
	var theirs *others
	r, err := New(Config{
		ID: 1, Boot: 3, Tick: 100 * time.Millisecond, ElectionTicks: 10, Log: Genesis([]machine.NodeID{1, 2, 3}), Restored: Restored{Index: 1, Released: 1},
		ReadLeases: ReadLeases{TTL: time.Second, EarlierTTL: 2 * time.Second},
		Promises: func(c quorumlease.Config, now machine.Mono) Promises {
			given, theirs = c, &others{asked: newAsked(c, now)}
			return theirs
		},
	}, machine.Now{Mono: 77})
	if err != nil {
		t.Fatal(err)
	}
	if r.reads.promises != Promises(theirs) || given != (quorumlease.Config{Self: 1, Boot: 3, TTL: time.Second, EarlierTTL: 2 * time.Second}) {
		t.Errorf("a member goes by %T, made for %+v", r.reads.promises, given)
	}
	if want := quorumlease.NewStalls(quorumlease.Config{TTL: 7 * time.Second}); !reflect.DeepEqual(r.reads.stalls, want) {
		t.Errorf("a leader has patience with holders by %+v, want %+v", r.reads.stalls, want)
	}
}

// Promises are told how the member stands: by its log, by what the cluster has decided, and by who reads here. They are
// told of each division that takes another's place, but not of the one with which a cluster begins.
func TestWhatPromisesAreTold(t *testing.T) {
	r := keyReader(9)
	r.now, r.leader, r.term, r.last = machine.Mono(time.Hour), 2, 5, 14
	rl := &r.reads
	o := &others{asked: newAsked(quorumlease.Config{Self: 1}, r.now)}
	rl.promises, rl.received, rl.wanted, rl.cfg.Policy, rl.reported.lapse = o, 12, r.now.Add(time.Second), quorumlease.Off, machine.Never
	rl.turn(r.moment, &r.effects)
	want := Standing{
		Now: r.now, Leader: 2, Log: quorumlease.Log{Term: 5, Last: 14, Received: 12, Commit: 9}, Members: rl.memberships,
		Policy: quorumlease.AllByKey, Wants: true, Wanted: r.now.Add(time.Second),
	}
	if !reflect.DeepEqual(o.at, want) || o.turns != 1 {
		t.Errorf("promises are told %+v, %d times, want %+v", o.at, o.turns, want)
	}
	if got := rl.due(r.moment); got != r.now+5 {
		t.Errorf("promises need a turn in 5, and the next is in %d", got.Sub(r.now))
	}
	first, second := division(t), holdersAre(t, []machine.NodeID{1, 2}, 0).cells
	rl.setting = readSetting{}
	for _, cells := range []*placement.Configuration{first, second, nil} {
		rl.set(r.moment, readSetting{quorumlease.Static, cells})
	}
	if !slices.Equal(o.before, []*placement.Configuration{first, second}) || !slices.Equal(o.after, []*placement.Configuration{second, nil}) {
		t.Errorf("of three divisions promises are told that %v take the place of %v", o.after, o.before)
	}
}

// Plans are made by the latest setting in the log, of the members of the log and without those that are stalled, once
// nothing in the log is open.
func TestWhatPlansAreMadeBy(t *testing.T) {
	r, _ := plannerOfThree()
	rl := &r.reads
	rl.keys.confs = []conf{{9, readSetting{quorumlease.Quorum, division(t)}}}
	rl.stalled = []machine.NodeID{3}
	got := rl.planning(r.moment)
	if got.electorate != &rl.electorate || got.policy != quorumlease.Quorum || got.every != time.Second || got.promises != rl.promises || !slices.Equal(got.stalled, rl.stalled) || got.latest != rl.keys.confs[0].setting || !got.settled {
		t.Errorf("plans are made by %+v", got)
	}
	rl.keys.confs = append(rl.keys.confs, conf{10, readSetting{policy: quorumlease.Quorum}})
	if got := rl.planning(r.moment); got.settled || got.latest.cells != nil {
		t.Errorf("with a division that is not released, plans are made by %+v", got)
	}
}

// Another membership counts at once for reports and plans. Another term begins with no reports, and the same term keeps
// them; while no leader is known, none begins. Plans begin anew with each leader.
func TestWhatBeginsWithALeadership(t *testing.T) {
	r := keyReader(9)
	rl := &r.reads
	rl.stalls = quorumlease.NewStalls(quorumlease.Config{})
	three := quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}}
	planned := func() bool {
		was := rl.plans.ready == nil
		rl.plans.ready = division(t)
		return was
	}
	planned()
	rl.count(three)
	if !planned() {
		t.Error("a plan for another membership goes on")
	}
	if rl.count(three); planned() {
		t.Error("a plan for the same membership does not go on")
	}
	vouched := func() uint64 { return rl.ledger.Acknowledged(20) }
	for _, step := range []struct {
		name   string
		leader machine.NodeID
		fresh  bool
		term   uint64 // of the reports
		has    uint64
	}{
		{"a leader", 2, true, 5, 0},
		{"the same leader", 2, false, 5, 12},
		{"no leader in another term", 0, true, 5, 12},
		{"a leader in that term", 3, true, 6, 0},
	} {
		r.leader = step.leader
		if r.term = step.term; step.leader == 0 {
			r.term++
		}
		rl.newLeader(r.moment, step.fresh)
		if rl.ledger.Term() != step.term || vouched() != step.has || !planned() {
			t.Errorf("under %s reports are of term %d, and a majority has the log up to %d, want %d and %d; plans begin anew: %v", step.name, rl.ledger.Term(), vouched(), step.term, step.has, rl.plans.ready == nil)
		}
		for _, m := range []machine.NodeID{1, 2} {
			rl.ledger.Report(m, quorumlease.Report{Boot: 1, Term: step.term, Durable: 12})
		}
	}
	rl.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3, 4, 5}}})
	rl.ledger.Report(1, quorumlease.Report{Boot: 1, Term: 6, Durable: 12})
	rl.ledger.Report(2, quorumlease.Report{Boot: 1, Term: 6, Durable: 12})
	if got := vouched(); got != 0 {
		t.Errorf("two of five voters are a majority that has the log up to %d", got)
	}
}

// A change of the membership is settled once it is released, and not while a snapshot is loaded. A leader that has left
// is not told by itself.
func TestWhenAMembershipIsSettled(t *testing.T) {
	for _, loading := range []uint64{0, 20} {
		r := keyReader(9)
		r.leader = 1
		rl := &r.reads
		rl.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2}}}.With(quorumlease.Membership{Index: 9, Voters: []machine.NodeID{2}}))
		rl.loading = loading
		rl.settle(r.moment, &r.effects)
		if settled := len(rl.memberships) == 1; settled != (loading == 0) || len(r.sends) > 0 {
			t.Errorf("while a snapshot of %d is loaded, a change is settled: %v, and %+v is sent", loading, settled, r.sends)
		}
	}
}
