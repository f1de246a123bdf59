package replica

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// Each figure of a status is the member's own: the committed, applied and last index differ here, and
// so do the numbers of proposals and questions.
func TestStatus(t *testing.T) {
	const ttl = 300 * time.Millisecond
	s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1, TTL: ttl})
	for _, command := range []string{
		"elect 1", "grant 1 7 60", "pass 500ms",
		"cut 3", "put 1 a b", "deliver", "pass 20ms", // it is committed, and held: member 3 may be read from
		"stall 1", "look 2 7", "look 2 7", "look 2 7", "put 2 a b", "put 2 a b", "put 1 a b",
	} {
		s.do(command)
	}
	life := func(id machine.NodeID) quorumlease.Lifetime { return quorumlease.Lifetime{Member: id, Boot: 1} }
	for i, want := range []Status{
		{Leader: 1, Term: 2, Commit: 5, Applied: 4, Last: 6, Leases: 1, PendingProposals: 2,
			Progress: map[machine.NodeID]uint64{1: 6, 2: 5, 3: 4},
			ReadLeases: ReadLeaseStatus{Policy: quorumlease.All, TTL: ttl, Released: 4, Held: 1, HeldFor: 20 * time.Millisecond,
				WaitsFor: []machine.NodeID{3}, Bound: []quorumlease.Lifetime{life(2), life(3)},
				Holdings: []quorumlease.Holding{
					{Lifetime: life(1), Has: 6, Grantors: []machine.NodeID{2, 3}},
					{Lifetime: life(2), Has: 5, Grantors: []machine.NodeID{1, 3}},
					{Lifetime: life(3), Has: 4, Grantors: []machine.NodeID{1, 2}},
				}}},
		{Leader: 1, Term: 2, Commit: 5, Applied: 4, Last: 5, Leases: 1, PendingProposals: 2, UnansweredLeaseAsk: 3,
			ReadLeases: ReadLeaseStatus{Policy: quorumlease.All, TTL: ttl, Released: 4, Held: 1, HeldFor: 20 * time.Millisecond,
				Bound: []quorumlease.Lifetime{life(1), life(3)}}},
		{Leader: 1, Term: 2, Commit: 4, Applied: 4, Last: 4, Leases: 1,
			ReadLeases: ReadLeaseStatus{Policy: quorumlease.All, TTL: ttl, Released: 4,
				Bound: []quorumlease.Lifetime{life(1), life(2)}}},
	} {
		r := s.members[i].r
		got := r.Status()
		if voters := got.ConfState.GetVoters(); !slices.Equal(voters, []uint64{1, 2, 3}) || got.TailBytes != r.tail.bytes || got.TailBytes == 0 {
			t.Errorf("member %d: voters %d, a tail of %d bytes", i+1, voters, got.TailBytes)
		}
		if left := got.ReadLeases.Left; left <= ttl/2 || left > ttl {
			t.Errorf("member %d: its lease lasts for %v, want less than %v", i+1, left, ttl)
		}
		got.ConfState, got.TailBytes, got.ReadLeases.Left = nil, 0, 0
		if len(got.ReadLeases.Stalled) == 0 {
			got.ReadLeases.Stalled = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("member %d:\n%+v, want\n%+v", i+1, got, want)
		}
	}

	s.do("pass 200ms")
	if got := s.members[0].r.Status().ReadLeases; !slices.Equal(got.Stalled, []machine.NodeID{3}) || got.Held != 4 || got.HeldFor != 220*time.Millisecond {
		t.Errorf("the member that holds the leader up is to get no more promises, and the first of four entries waits for 220 ms: %+v", got)
	}
	s.members[0].r.Status().ReadLeases.Stalled[0] = 9
	if got := s.members[0].r.Status().ReadLeases.Stalled; !slices.Equal(got, []machine.NodeID{3}) {
		t.Errorf("the receiver of a status has changed for which members the leader waits no more: %d", got)
	}
	s.do("pass 800ms")
	if got := s.members[2].r.Status().ReadLeases; got.Left != 0 || len(got.Bound) > 0 {
		t.Errorf("a member that hears nothing has a lease of %v, and is bound to %v", got.Left, got.Bound)
	}
}

// The status of a learner says that it is one. A lease that needs no other grantor never ends.
func TestStatusOfOtherMembers(t *testing.T) {
	log := Genesis([]machine.NodeID{2})
	log.Snapshot.ConfState.Learners = []uint64{1}
	for id, want := range map[machine.NodeID]bool{1: true, 2: false} {
		r, err := New(Config{ID: id, Boot: 1, Tick: 1, ElectionTicks: 10, Log: log, Restored: Restored{Index: 1}}, machine.Now{Mono: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Status(); got.Learner != want || got.ReadLeases.Left != 0 || len(r.reads.learners) != 1 {
			t.Errorf("member %d learns: %v, and so do %d; it has a lease of %v", id, got.Learner, r.reads.learners, got.ReadLeases.Left)
		}
	}
	r := keyReader(9)
	rl := &r.reads
	rl.promises = newAsked(quorumlease.Config{Self: 1, Boot: 1, TTL: time.Second}, r.now)
	for index := range uint64(2) {
		rl.keys.appended(entryOfPuts(t, 3, 10+index, "k"))
	}
	rl.committed, rl.released, rl.setting.cells = 10, 5, division(t)
	if got := rl.status(r.moment); got.Left >= 0 || got.Released != 9 || got.Held != 1 || got.Cells != rl.setting.cells {
		t.Errorf("in key order, with one entry committed behind what is released: %+v", got)
	}
}

// The applied index of a status is that of the visible state, not of what the Applier has behind it.
func TestAStatusTellsWhatIsVisible(t *testing.T) {
	r := newStage(t).members[0].r
	r.visible, r.reads.applied = 7, 9
	if got := r.Status().Applied; got != 7 {
		t.Errorf("with a visible state of 7 and an applied one of 9, a status tells %d", got)
	}
}

// An unset field of the configuration has its documented default, and senseless values are refused.
func TestConfigDefaultsAndLimits(t *testing.T) {
	fresh := func() Config {
		log := Genesis([]machine.NodeID{1, 2})
		log.Snapshot.ConfState.Learners = []uint64{3}
		return Config{ID: 1, Boot: 1, Tick: time.Second, ElectionTicks: 3, Log: log, Restored: Restored{Index: 1}}
	}
	c := fresh()
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	if c.MaxEntryBytes != 1<<20 || c.MaxTailBytes != 128<<20 || c.MaxLearners != 1 || c.patience() != 24*time.Second {
		t.Errorf("by default: entries of %d bytes, a tail of %d, %d learners, requests are kept for %v", c.MaxEntryBytes, c.MaxTailBytes, c.MaxLearners, c.patience())
	}
	if l := c.ReadLeases; l.TTL != 200*time.Millisecond || l.Idle != 10*time.Second || l.PlanEvery != 5*time.Second {
		t.Errorf("by default: %+v", l)
	}
	given := fresh()
	given.MaxEntryBytes, given.MaxTailBytes, given.MaxLearners = 3, 5, 7
	given.ReadLeases.TTL, given.ReadLeases.Idle, given.ReadLeases.PlanEvery = time.Second, time.Minute, time.Hour
	given.Restored.Roster.Memberships = quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{4}}}
	if err := given.validate(); err != nil {
		t.Fatal(err)
	}
	if l := given.ReadLeases; given.MaxEntryBytes != 3 || given.MaxTailBytes != 5 || given.MaxLearners != 7 || l.TTL != time.Second || l.Idle != time.Minute ||
		l.PlanEvery != time.Hour || given.Restored.Roster.Memberships[0].Voters[0] != 4 {
		t.Errorf("of what is set, this is left: %+v", given)
	}
	m := c.Restored.Roster.Memberships
	if len(m) != 1 || m[0].Index != 1 || !slices.Equal(m[0].Voters, []machine.NodeID{1, 2}) || !slices.Equal(m[0].Learners, []machine.NodeID{3}) {
		t.Errorf("the members of a cluster without URLs: %+v", m)
	}
	for name, c := range map[string]struct {
		change func(c *Config)
		ok     bool
	}{
		"a log from nowhere":       {func(c *Config) { c.Log.Snapshot = &raftpb.SnapshotMetadata{} }, false},
		"two ticks":                {func(c *Config) { c.ElectionTicks = 2 }, false},
		"a tick of no time":        {func(c *Config) { c.Tick = 0 }, false},
		"a snapshot that is older": {func(c *Config) { c.Restored.Index = 0 }, false},
		"a state that is newer":    {func(c *Config) { c.Restored.Index = 2 }, true},
		"a policy":                 {func(c *Config) { c.ReadLeases.Policy = quorumlease.Cost }, true},
		"no policy that there is":  {func(c *Config) { c.ReadLeases.Policy = "some" }, false},
		"plans in the past":        {func(c *Config) { c.ReadLeases.PlanEvery = -1 }, false},
		"plans of many buckets":    {func(c *Config) { c.ReadLeases.Planner.Buckets = 1 << 30 }, false},
		"as short promises":        {func(c *Config) { c.ReadLeases.TTL = quorumlease.MinTTL }, true},
		"too short promises":       {func(c *Config) { c.ReadLeases.TTL = quorumlease.MinTTL - 1 }, false},
		"too long promises":        {func(c *Config) { c.ReadLeases.TTL = quorumlease.MaxTTL + 1 }, false},
		"no boot":                  {func(c *Config) { c.Boot = 0 }, false},
	} {
		cfg := fresh()
		c.change(&cfg)
		if err := cfg.validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v, it may be so: %v", name, err, c.ok)
		}
	}
}

// A member that starts knows that a change in its log is committed if another change follows it.
func TestAStartKnowsWhichChangesAreSettled(t *testing.T) {
	change := func(index uint64) *raftpb.Entry {
		return &raftpb.Entry{Index: &index, Term: new(uint64(1)), Type: raftpb.EntryConfChange.Enum()}
	}
	log := Genesis([]machine.NodeID{1, 2, 3})
	log.Entries = []*raftpb.Entry{change(2), change(3)}
	c := Config{ID: 1, Boot: 1, Tick: time.Second, ElectionTicks: 3, Log: log, Restored: Restored{Index: 1}}
	if err := c.validate(); err != nil || c.Log.HardState.GetCommit() != 2 {
		t.Errorf("of two changes those up to %d are committed: %v", c.Log.HardState.GetCommit(), err)
	}
}

// Everybody starts from the same log, which nothing has been added to.
func TestGenesis(t *testing.T) {
	log := Genesis([]machine.NodeID{2, 5})
	conf := log.Snapshot.GetConfState()
	if log.HardState.GetTerm() != 1 || log.HardState.GetCommit() != 1 || log.HardState.GetVote() != 0 ||
		log.Snapshot.GetIndex() != 1 || log.Snapshot.GetTerm() != 1 || !slices.Equal(conf.GetVoters(), []uint64{2, 5}) || len(conf.GetLearners()) > 0 ||
		len(log.Entries) > 0 {
		t.Errorf("a cluster begins with %+v", log)
	}
}

// Where nothing is held, nothing waits.
func TestNothingHeldWaitsForNoTime(t *testing.T) {
	r := keyReader(9)
	r.now, r.leader = machine.Mono(time.Hour), 1
	r.reads.waits.committed(12, 1)
	if got := r.reads.status(r.moment); got.Held != 0 || got.HeldFor != 0 || len(got.WaitsFor) > 0 {
		t.Errorf("nothing is held, and %d entries wait for %v, for members %d", got.Held, got.HeldFor, got.WaitsFor)
	}
}
