package replica

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
)

// plannerOfThree is member 1, which leads three.
func plannerOfThree() (*Replica, *plans) {
	r := &Replica{
		moment: moment{
			cfg: &Config{ID: 1, Boot: 1, ReadLeases: ReadLeases{
				PlanEvery: time.Second, Planner: placement.Settings{Buckets: 16},
			}},
			leader: 1, term: 1, visibleTerm: 1,
		},
		effects: effects{self: 1},
	}
	r.reads.promises = newAsked(quorumlease.Config{Self: 1, TTL: time.Second}, r.now)
	r.reads.cfg, r.reads.voters = r.cfg.ReadLeases, []machine.NodeID{1, 2, 3}
	r.reads.setting = readSetting{policy: quorumlease.Quorum}
	r.reads.plans.follow(r.moment, r.reads.setting)
	return r, &r.reads.plans
}

// readsOf are the counts of a member that read a key.
func readsOf(key string, n int) []byte {
	c := placement.NewCounter(16)
	for range n {
		c.Read([]byte(key))
	}
	return c.Take().Encode()
}

func TestCountsAreTakenOnce(t *testing.T) {
	r, p := plannerOfThree()
	for _, tt := range []struct {
		from      machine.NodeID
		boot, seq uint64
		taken     bool
	}{
		{2, 5, 2, true},
		{2, 5, 2, false}, // again
		{2, 5, 1, false}, // late
		{3, 5, 1, true},
		{2, 4, 9, false}, // of an earlier life
		{2, 6, 1, true},
		{9, 1, 1, false}, // of nobody
	} {
		before := len(p.observed)
		p.told(r.moment, &r.reads.electorate, tt.from, counts{Boot: tt.boot, Seq: tt.seq})
		if got := len(p.observed) > before; got != tt.taken {
			t.Errorf("counts %d of boot %d of member %d: taken is %v, want %v", tt.seq, tt.boot, tt.from, got, tt.taken)
		}
	}
	for seq := range uint64(100) {
		p.told(r.moment, &r.reads.electorate, 2, counts{Boot: 7, Seq: seq + 1})
	}
	if got := len(p.observed); got > 8 {
		t.Errorf("%d counts of two members are kept for a plan that is not made", got)
	}
	r.leader = 2
	p.told(r.moment, &r.reads.electorate, 3, counts{Boot: 8, Seq: 1})
	if at := p.observed[len(p.observed)-1]; at.from == 3 {
		t.Error("a member that does not lead takes counts")
	}
}

// A plan is made of the counts that members have sent and of the local reads. A member that sends no
// counts is given up. A plan that is finished late counts, but not one of an earlier leadership.
func TestPlan(t *testing.T) {
	r, p := plannerOfThree()
	next := func() *Plan {
		r.now = r.now.Add(time.Second)
		r.outcomes = nil
		p.ready = nil // as if it had been proposed: there is no log here
		p.turn(r.moment, &r.effects, r.reads.planning(r.moment))
		i := slices.IndexFunc(r.outcomes, func(out Outcome) bool { _, ok := out.(*Plan); return ok })
		if i < 0 {
			return nil
		}
		return r.outcomes[i].(*Plan)
	}
	var plan *Plan
	for seq := range uint64(5) {
		p.read(keyspan.Set{{Key: []byte("here")}})
		p.told(r.moment, &r.reads.electorate, 2, counts{Boot: 1, Seq: seq + 1, Body: readsOf("k", 50)})
		p.told(r.moment, &r.reads.electorate, 3, counts{Boot: 1, Seq: seq + 1, Body: []byte("nonsense")})
		if plan = next(); plan == nil {
			t.Fatalf("after %v nothing is to be planned", r.now)
		}
		if seq < 4 {
			p.planned(plan.Make())
		}
	}
	if again := next(); again != nil {
		t.Error("a second plan is wanted before the first is made")
	}
	p.planned(plan.Make())
	if holders := p.ready.Holders([]byte("k")); holders != placement.SetOf(0, 1) {
		t.Errorf("members %b hold what member 2 reads, want the leader and it", holders)
	}
	if len(plan.down) != 0 {
		t.Errorf("members %d are given up", plan.down)
	}

	for seq := range uint64(6) {
		p.told(r.moment, &r.reads.electorate, 3, counts{Boot: 1, Seq: seq + 10})
		plan = next()
		p.planned(plan.Make())
	}
	if !slices.Equal(plan.down, []machine.NodeID{2}) {
		t.Errorf("members %d are given up, want the one that is silent", plan.down)
	}
	if holders := p.ready.Holders([]byte("k")); holders.Has(1) {
		t.Errorf("members %b hold what a silent one had read", holders)
	}

	plan = next()
	p.restart()
	if p.planned(plan.Make()); p.ready != nil {
		t.Error("a plan of an earlier leadership is taken")
	}
}

// A leader gives each member time to send counts before it gives any up, however long its clock has
// run. Observations of one plan are not used for the next.
func TestALeadershipBeginsWithEverybody(t *testing.T) {
	r, p := plannerOfThree()
	r.now = r.now.Add(time.Hour)
	p.next = r.now.Add(time.Second)
	p.turn(r.moment, &r.effects, r.reads.planning(r.moment))
	p.read(keyspan.Set{{Key: []byte("here")}, {Key: []byte("here")}, {Key: []byte("here")}, {Key: []byte("here")}})
	r.now = r.now.Add(time.Second)
	p.ready = nil // as if it had been proposed
	p.turn(r.moment, &r.effects, r.reads.planning(r.moment))
	if p.underWay == nil || len(p.underWay.down) > 0 || !slices.Equal(p.underWay.members, []machine.NodeID{1, 2, 3}) {
		t.Fatalf("the first plan of a leadership: %+v, want one with all members and nobody given up", p.underWay)
	}
	if len(p.underWay.observed) != 1 || len(p.observed) > 0 {
		t.Errorf("a plan is made of %d counts, and the next of %d of them, too", len(p.underWay.observed), len(p.observed))
	}
	if !p.readHere(keyspan.Set{{Key: []byte("there")}, {Key: []byte("here")}}) || p.readHere(keyspan.Set{{Key: []byte("there")}}) {
		t.Error("what was counted last is not what is known to be read here")
	}
	r.now = r.now.Add(time.Minute)
	p.turn(r.moment, &r.effects, r.reads.planning(r.moment))
	if got := p.next.Sub(r.now); got != time.Second {
		t.Errorf("after a minute the next counts are due in %v, want %v", got, time.Second)
	}
	planner := p.planner
	r.reads.setting.policy = quorumlease.Cost
	if p.turn(r.moment, &r.effects, r.reads.planning(r.moment)); p.planner == planner || p.policy != quorumlease.Cost {
		t.Errorf("under another policy it plans for %q", p.policy)
	}
}

// The distance to a voter is smoothed: one slow answer hardly changes it.
func TestRoundTripsAreSmoothed(t *testing.T) {
	var p plans
	p.answered(3, 80*time.Millisecond)
	p.answered(2, 10*time.Millisecond)
	p.answered(3, 160*time.Millisecond)
	if want := []roundTrip{{2, 10 * time.Millisecond}, {3, 90 * time.Millisecond}}; !slices.Equal(p.trips, want) {
		t.Errorf("round trips %v, want %v", p.trips, want)
	}
}

// A plan is proposed if it changes anything, and only under the policy that it was made for. It waits
// until all of the log is accounted for and the previous division is released.
func TestWhenAPlanIsProposed(t *testing.T) {
	cells := division(t)
	for _, tt := range []struct {
		name           string
		change         func(r *Replica)
		proposed, kept bool
	}{
		{"at a leader that has all", func(*Replica) {}, true, false},
		{"before an entry of the term is released", func(r *Replica) { r.visibleTerm-- }, false, true},
		{"before all of the log is accounted for", func(r *Replica) { r.reads.applied-- }, false, true},
		{"before the division before it is released", func(r *Replica) {
			r.reads.keys.confs = append(r.reads.keys.confs, conf{index: r.last, setting: readSetting{policy: quorumlease.Cost}})
		}, false, true},
		{"when the keys are divided like that", func(r *Replica) { r.reads.keys.confs[0].setting.cells = division(t) }, false, false},
		{"under another policy", func(r *Replica) { r.reads.keys.confs[0].setting.policy = quorumlease.AllByKey }, false, false},
	} {
		s := newStage(t)
		for _, command := range []string{"elect 1", "pass 200ms"} {
			s.do(command)
		}
		r := s.members[0].r
		rl := &r.reads
		rl.keys.start(r.last, r.last, readSetting{policy: quorumlease.Cost}, nil)
		rl.plans.policy, rl.plans.ready = quorumlease.Cost, cells
		tt.change(r)
		if got := rl.plans.propose(r.moment, rl.planning(r.moment)) != nil; got != tt.proposed || (rl.plans.ready != nil) != tt.kept {
			t.Errorf("%s: a plan is proposed: %v, and waits: %v; want %v, %v", tt.name, got, rl.plans.ready != nil, tt.proposed, tt.kept)
		}
	}
}

// Members number their counts on when nothing is planned for a while: a leader takes no number twice.
func TestCountsAreNumberedOn(t *testing.T) {
	r, p := plannerOfThree()
	trips := []roundTrip{{2, time.Second}}
	p.seq, p.trips, p.ready = 7, trips, division(t)
	p.follow(r.moment, readSetting{policy: quorumlease.AllByKey})
	if p.seq != 7 || !slices.Equal(p.trips, trips) || p.counter != nil || p.ready != nil {
		t.Errorf("under a policy that plans nothing, the last counts are number %d and members are %v away; it counts: %v, it proposes: %v", p.seq, p.trips, p.counter != nil, p.ready != nil)
	}
	r.now = r.now.Add(time.Minute)
	p.follow(r.moment, r.reads.setting)
	if p.seq != 7 || p.counter == nil || p.next != r.now.Add(time.Second) {
		t.Errorf("under a policy that plans again, the last counts are number %d, want 7; it counts: %v, and tells in %v", p.seq, p.counter != nil, p.next.Sub(r.now))
	}
}

// What a member counts while it knows no leader is told to the next one, with what it counts then.
func TestCountsWaitForALeader(t *testing.T) {
	r, p := plannerOfThree()
	r.leader = 0
	turn := func() {
		p.counter.Read([]byte("k"))
		r.now = r.now.Add(time.Second)
		p.turn(r.moment, &r.effects, r.reads.planning(r.moment))
	}
	if turn(); len(r.sends) > 0 || p.seq != 0 {
		t.Fatalf("without a leader %+v is sent", r.sends)
	}
	r.leader = 2
	turn()
	if len(r.sends) != 1 || r.sends[0].To != 2 {
		t.Fatalf("the next leader is sent %+v, want what was counted", r.sends)
	}
	m := r.sends[0].Body.(counts)
	got, err := placement.DecodeCounts(m.Body)
	if err != nil || m.Boot != 1 || m.Seq != 1 || len(got.Reads) != 1 || got.Reads[0].N != 2 {
		t.Errorf("the next leader is told counts %d of life %d with the reads %+v, %v, want the first of life 1 with both reads", m.Seq, m.Boot, got.Reads, err)
	}
}

// suspects are promises that suspect a member.
type suspects struct {
	*asked
	member machine.NodeID
}

func (s *suspects) Suspected(_ machine.Mono, m machine.NodeID) bool { return m == s.member }

// A plan leaves a member out that has told nothing for three intervals, that was stalled at the last plan and
// is again, or that is suspected by the promises.
func TestWhoIsLeftOutOfAPlan(t *testing.T) {
	const every = time.Second
	for _, tt := range []struct {
		name   string
		change func(r *Replica, p *plans, by *planning)
		want   []machine.NodeID
	}{
		{"all have told", func(*Replica, *plans, *planning) {}, nil},
		{"one told three intervals ago", func(r *Replica, p *plans, _ *planning) { p.heard[1].at = r.now.Add(-silence * every) }, nil},
		{"one told longer ago", func(r *Replica, p *plans, _ *planning) { p.heard[1].at = r.now.Add(-silence*every - 1) }, []machine.NodeID{2}},
		{"one has never told", func(_ *Replica, p *plans, _ *planning) { p.heard = p.heard[:2] }, []machine.NodeID{3}},
		{"one has not told yet", func(r *Replica, p *plans, _ *planning) { p.heard, p.since = p.heard[:2], r.now.Add(-silence*every) }, nil},
		{"one is stalled", func(_ *Replica, _ *plans, by *planning) { by.stalled = []machine.NodeID{2} }, nil},
		{"one was stalled", func(_ *Replica, p *plans, _ *planning) { p.stalled = []machine.NodeID{2} }, nil},
		{"one is stalled again", func(_ *Replica, p *plans, by *planning) {
			p.stalled, by.stalled = []machine.NodeID{2, 3}, []machine.NodeID{3}
		}, []machine.NodeID{3}},
		{"one is suspected", func(_ *Replica, _ *plans, by *planning) { by.promises = &suspects{member: 3} }, []machine.NodeID{3}},
	} {
		r, p := plannerOfThree()
		r.now = machine.Mono(time.Hour)
		for _, m := range []machine.NodeID{1, 2, 3} {
			p.heard = append(p.heard, teller{Member: m, at: r.now})
		}
		by := r.reads.planning(r.moment)
		tt.change(r, p, &by)
		p.plan(r.moment, &r.effects, by)
		if plan := r.outcomes[0].(*Plan); !slices.Equal(plan.down, tt.want) || plan != p.underWay || !slices.Equal(p.stalled, by.stalled) {
			t.Errorf("where %s, a plan leaves %d out, want %d; the next goes by the stalled %d", tt.name, plan.down, tt.want, p.stalled)
		}
	}
}

// A planner plans by the policy, for this leader, with all members, of which learners have no vote. The rest are the
// settings of this member.
func TestTheSettingsOfAPlanner(t *testing.T) {
	c := &Config{ID: 2, ReadLeases: ReadLeases{Planner: placement.Settings{Buckets: 16, Leader: 9, Policy: placement.Cost, Members: []placement.Member{{ID: 9}}}}}
	for policy, want := range map[quorumlease.Policy]placement.Policy{quorumlease.Quorum: placement.Quorum, quorumlease.Cost: placement.Cost} {
		s := c.planner(policy, []machine.NodeID{1, 2}, []machine.NodeID{3})
		if s.Policy != want || s.Leader != 2 || s.Buckets != 16 || !slices.Equal(s.Members, []placement.Member{{ID: 1}, {ID: 2}, {ID: 3, Learner: true}}) {
			t.Errorf("under policy %s a planner has the settings %+v", policy, s)
		}
	}
	if len(c.ReadLeases.Planner.Members) != 1 {
		t.Errorf("the member's own settings became %+v", c.ReadLeases.Planner)
	}
}

// A planner is told all that members have told since the plan before: how far they are from others, what was
// read and written there, and which of them are given up or back. Counts that cannot be read tell it nothing.
func TestWhatAPlannerIsTold(t *testing.T) {
	r, p := plannerOfThree()
	by := r.reads.planning(r.moment)
	planner := func() *placement.Planner {
		t.Helper()
		pl, err := placement.NewPlanner(r.cfg.planner(by.policy, by.voters, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		return pl
	}
	of := func(from machine.NodeID, body []byte, trips ...roundTrip) observation {
		return observation{from, counts{Trips: trips, Body: body}}
	}
	other := placement.NewCounter(32)
	other.Read([]byte("k"))
	p.planner = planner()
	want := planner()
	for round, step := range []struct {
		observed []observation
		down     []machine.NodeID
	}{
		{[]observation{of(2, readsOf("k", 30), roundTrip{1, 30 * time.Millisecond}, roundTrip{3, 50 * time.Millisecond}), of(3, readsOf("k", 20), roundTrip{1, 10 * time.Millisecond})}, []machine.NodeID{2}},
		{[]observation{of(1, readsOf("m", 40)), of(1, readsOf("k", 40)), of(2, []byte("nonsense"), roundTrip{1, 90 * time.Millisecond}), of(3, other.Take().Encode())}, []machine.NodeID{3}},
		{nil, nil},
	} {
		now := machine.Mono(time.Duration(round+1) * time.Minute)
		plan := &Plan{planner: p.planner, now: now, observed: step.observed, members: []machine.NodeID{1, 2, 3}, down: step.down}
		made := plan.Make()
		for _, o := range step.observed {
			for _, trip := range o.Trips {
				want.RTT(o.from, trip.Member, trip.Time)
			}
			if c, err := placement.DecodeCounts(o.Body); err == nil && c.Buckets == 16 {
				if err := want.Observe(o.from, c); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, m := range plan.members {
			want.Down(m, slices.Contains(step.down, m))
		}
		cells, _ := want.Plan(now)
		if !reflect.DeepEqual(p.planner, want) || !made.cells.Equal(cells) || made.plan != plan {
			t.Errorf("at plan %d the planner knows %+v and plans %v, want %+v and %v", round+1, p.planner, made.cells, want, cells)
		}
	}
}

// Single keys and ranges are counted as such, and by the division in force. Of writes single keys are, together
// and for the member that they came from. No range was read here much of late, whatever is known of the key that
// it begins with.
func TestWhatIsCounted(t *testing.T) {
	r, p := plannerOfThree()
	reads := keyspan.Set{{Key: []byte("a")}, {Key: []byte("c"), End: []byte("k")}}
	writes := keyspan.Set{{Key: []byte("a")}, {Key: []byte("f"), End: []byte("g")}, {Key: []byte("b")}}
	want := placement.NewCounter(16)
	p.follow(r.moment, readSetting{policy: quorumlease.Quorum, cells: division(t)})
	want.Follow(division(t))
	for range 4 {
		p.read(reads)
		p.wrote(2, writes)
		want.ReadRange([]byte("a"), nil)
		want.ReadRange([]byte("c"), []byte("k"))
		want.Write(2, []byte("a"), []byte("b"))
	}
	p.read(keyspan.Set{{Key: []byte("z")}}) // in a cell of the division
	want.Read([]byte("z"))
	p.counted = p.counter.Take()
	if want := want.Take(); !reflect.DeepEqual(p.counted, want) {
		t.Errorf("reads of %v and writes of %v are counted as\n%+v, want\n%+v", reads, writes, p.counted, want)
	}
	for _, tt := range []struct {
		keys keyspan.Set
		want bool
	}{
		{key("a"), true},
		{key("b"), false}, // it was written only
		{keyspan.Set{{Key: []byte("a"), End: []byte("b")}}, false},
		{keyspan.Set{{Key: []byte("a"), End: []byte("b")}, {Key: []byte("a")}}, true},
		{nil, false},
	} {
		if got := p.readHere(tt.keys); got != tt.want {
			t.Errorf("%v was read here much: %v, want %v", tt.keys, got, tt.want)
		}
	}
	p.counter = nil
	p.read(reads)
	if p.wrote(2, writes); !p.readHere(key("b")) {
		t.Error("while nothing is counted, some keys are known not to be read here")
	}
}

// A leadership begins once an entry of it is released. It begins with the division that the log has last, to which
// the leader itself is added at once, and with nothing else of the leadership before. The counts of this member
// outlast it.
func TestWhatALeadershipPlansFrom(t *testing.T) {
	r, p := plannerOfThree()
	r.now = machine.Mono(time.Hour)
	stale := func() {
		p.planner, p.policy, p.since, p.stalled = new(placement.Planner), quorumlease.Cost, 7, []machine.NodeID{3}
		p.heard, p.observed, p.underWay, p.ready = []teller{{Member: 2}}, []observation{{from: 2}}, new(Plan), division(t)
	}
	p.seq, p.trips, p.counted, p.next = 5, []roundTrip{{2, 1}}, placement.Counts{Buckets: 16}, machine.Never
	stale()
	counter := p.counter
	p.restart()
	if p.planner != nil || p.underWay != nil || p.ready != nil || len(p.observed)+len(p.heard) > 0 {
		t.Errorf("under another leader there is a planner %v, a plan on its way %v and one that is ready %v, %d counts, and %d members were heard",
			p.planner != nil, p.underWay != nil, p.ready != nil, len(p.observed), len(p.heard))
	}
	if p.seq != 5 || len(p.trips) != 1 || p.counted.Buckets != 16 || p.next != machine.Never || p.counter != counter {
		t.Errorf("under another leader a member has forgotten what it counts itself: %+v", p)
	}
	for _, tt := range []struct {
		name   string
		change func(by *planning)
		begins bool
		ready  bool
		counts bool
	}{
		{"with a division", func(by *planning) { by.latest.cells = division(t) }, true, true, true},
		{"without a division", func(*planning) {}, true, false, true},
		{"before an entry of it is released", func(*planning) { r.visibleTerm-- }, false, false, true},
		{"at a follower", func(*planning) { r.leader = 2 }, false, false, true},
		{"with more members than a division may name", func(by *planning) {
			e := *by.electorate
			for id := machine.NodeID(100); len(e.voters) <= 64; id++ {
				e.voters = append(e.voters, id)
			}
			by.electorate = &e
		}, false, false, false},
	} {
		had := r.moment
		p.counter = counter
		stale()
		p.planner = nil
		by := r.reads.planning(r.moment)
		by.settled = false // so that what is ready waits
		tt.change(&by)
		p.turn(r.moment, &r.effects, by)
		if begins := p.planner != nil; begins != tt.begins || (p.counter != nil) != tt.counts {
			t.Errorf("a leadership %s begins to plan: %v, and reads are counted: %v; want %v, %v", tt.name, begins, p.counter != nil, tt.begins, tt.counts)
		}
		if r.moment = had; !tt.begins {
			continue
		}
		if p.policy != quorumlease.Quorum || p.since != r.now || len(p.stalled)+len(p.observed)+len(p.heard) > 0 || p.underWay != nil {
			t.Errorf("a leadership %s plans for %s from %v on, with %d that were stalled, %d counts, %d that were heard, and a plan on its way: %v",
				tt.name, p.policy, p.since, len(p.stalled), len(p.observed), len(p.heard), p.underWay != nil)
		}
		if (p.ready != nil) != tt.ready || tt.ready && !slices.Equal(p.ready.Members(), []machine.NodeID{1, 2, 3}) {
			t.Errorf("a leadership %s proposes %v at once, want a division: %v", tt.name, p.ready, tt.ready)
		}
	}
}

// Learners tell counts and hold keys as voters do. Of counts for a plan that is not made, the latest are kept.
// A report that was made does not change with later measurements.
func TestCountsOfAllMembers(t *testing.T) {
	r, p := plannerOfThree()
	r.reads.voters, r.reads.learners = []machine.NodeID{1, 2}, []machine.NodeID{3}
	for seq := range uint64(20) {
		p.told(r.moment, &r.reads.electorate, 3, counts{Boot: 1, Seq: seq + 1})
	}
	if n := len(p.observed); n == 0 || n > 3 || p.observed[n-1].Seq != 20 || p.observed[n-1].from != 3 {
		t.Fatalf("a learner has told its counts 20 times, and of them are kept: %+v", p.observed)
	}
	p.plan(r.moment, &r.effects, r.reads.planning(r.moment))
	if plan := p.underWay; plan == nil || !slices.Equal(plan.members, []machine.NodeID{1, 2, 3}) {
		t.Errorf("a plan is made of %+v, want one for all members", plan)
	}
	r.leader = 2
	p.answered(2, 80)
	p.turn(r.moment, &r.effects, r.reads.planning(r.moment))
	p.next = r.now
	p.turn(r.moment, &r.effects, r.reads.planning(r.moment))
	p.answered(2, 8)
	if m := r.sends[len(r.sends)-1].Body.(counts); !slices.Equal(m.Trips, []roundTrip{{2, 80}}) || !slices.Equal(p.trips, []roundTrip{{2, 71}}) {
		t.Errorf("the leader was told trips %v, and by now they are %v", m.Trips, p.trips)
	}
	if p.due() != p.next {
		t.Errorf("counts are to be told at %v, and the alarm is at %v", p.next, p.due())
	}
	if p.counter = nil; p.due() != machine.Never {
		t.Errorf("nothing is counted, and the alarm is at %v", p.due())
	}
}
