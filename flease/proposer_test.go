package flease

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/machine"
)

// want compares what a peer sends, to all others the same, and what it reports.
func (c *cluster) want(what string, said map[machine.NodeID][]Op, outcomes []any, op *Op, reports ...any) {
	c.t.Helper()
	var all map[machine.NodeID][]Op
	if op != nil {
		all = map[machine.NodeID][]Op{2: {*op}, 3: {*op}}
	}
	if !reflect.DeepEqual(said, all) {
		c.t.Errorf("%s: the peer says %+v, want %+v", what, said, all)
	}
	if len(outcomes)+len(reports) > 0 && !reflect.DeepEqual(outcomes, reports) {
		c.t.Errorf("%s: the peer reports %+v, want %+v", what, outcomes, reports)
	}
}

// A tenure from its claim to its release, word for word: what it asks for counts from before its
// READ, and a renewal or a release changes its own holding, and leaves out what is over.
func TestATenureWordForWord(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	const ttl, delay = 2 * time.Second, time.Second
	t0, m0 := p.c, c.now.Mono
	said, out := c.says(1, Acquire{ID: 7, Name: "a", Holder: "h", TTL: ttl, LockDelay: delay, Slots: 3})
	k := p.hlc.last
	ref := p.ref(p.claims[p.byID[7]].att)
	c.want("acquire", said, out, &Op{Kind: Read, Ref: ref, Ballot: k, Name: "a", Slots: 3})
	if k.Time() != t0 || k.Member() != 1 {
		t.Errorf("it is asked under %v at %v", k, t0)
	}
	c.later(10 * time.Millisecond)
	mine := Holding{Token: k, Until: t0 + 3000, Holder: "h", Incarnation: 1, Delay: 1000, Slots: 3, Owner: 1}
	other := Holding{Token: k - 1024, Until: t0 + 9000, Holder: "o", Incarnation: 4, Slots: Shared, Owner: 2}
	gone := Holding{Token: k - 2048, Until: t0 - 90, Holder: "g", Incarnation: 1, Slots: 1, Owner: 3, Released: true}
	said, out = c.hears(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k, Written: k - 1024, Value: Value{gone, other}})
	c.want("a majority has promised", said, out, &Op{Kind: Write, Ref: ref, Ballot: k, Name: "a", Value: Value{other, mine}})
	c.later(10 * time.Millisecond)
	said, out = c.hears(1, 3, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k})
	c.want("a majority has written", said, out, nil,
		Acquired{ID: 7, Token: uint64(k), Deadline: m0.Add(ttl - ttl/20), Until: (t0 + 2000).Wall()})
	said, out = c.hears(1, 2, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k})
	c.want("one more has written", said, out, nil)

	var t1 Time
	for said = nil; said == nil; said, out = c.says(1, machine.Wake{}) {
		if c.later(time.Millisecond); p.c > t0+1001 {
			t.Fatal("it is not renewed when half of it is over")
		}
		t1 = TimeOf(c.now.Wall)
	}
	if early := t0 + 1000 - t1; early > 1000/8+10 {
		t.Errorf("it is renewed %d ms before half of it is over", early)
	}
	m1, k1 := c.now.Mono, p.hlc.last
	ref = p.ref(p.claims[p.byID[7]].att)
	c.want("renew", said, out, &Op{Kind: Read, Ref: ref, Ballot: k1, Name: "a"})
	c.later(10 * time.Millisecond)
	over := Holding{Token: k - 3072, Until: t1 - 91, Incarnation: 1, Slots: Shared, Owner: 3}
	c.later(0)
	old := mine
	said, out = c.hears(1, 3, 1, Op{Kind: AckRead, Ref: ref, Ballot: k1, Written: k + 1024, Value: Value{over, old, other}})
	mine.Until = t1 + 3000
	c.want("a majority has promised the renewal", said, out, &Op{Kind: Write, Ref: ref, Ballot: k1, Name: "a", Value: Value{mine, other}})
	c.later(10 * time.Millisecond)
	said, out = c.hears(1, 3, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k1})
	c.want("a majority has written the renewal", said, out, nil, Renewed{ID: 7, Deadline: m1.Add(ttl - ttl/20), Until: (t1 + 2000).Wall()})
	if old.Until != t0+3000 {
		t.Error("a value that was read is changed")
	}

	c.later(100 * time.Millisecond)
	said, out = c.says(1, Release{ID: 7})
	ref = p.ref(p.claims[p.byID[7]].att)
	mine.Released = true
	c.want("release", said, out, &Op{Kind: Write, Ref: ref, Ballot: k1, Name: "a", Value: Value{mine, other}})
	said, out = c.hears(1, 2, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k1})
	c.want("a majority has written the release", said, out, nil, Released{ID: 7, Confirmed: true})
	if s := p.Stats(); s.Claims != 0 || s.Attempts != 0 || s.Held != 0 {
		t.Errorf("when it is over there is left %+v", s)
	}
	if p.busy != 0 || p.renewals != 0 || p.looks != 0 || p.returns != 0 {
		t.Errorf("when nothing is under way, %d to acquire, %d to renew, %d to look and %d to release are counted", p.busy, p.renewals, p.looks, p.returns)
	}
}

// A release for which others have promised or written something else since takes a ballot of its own,
// and says the same; one that goes to an heir names it.
func TestReleasesWordForWord(t *testing.T) {
	for name, tt := range map[string]struct {
		input   any
		until   Time // of the released holding, behind now; 0 for its own
		heir    uint16
		refused bool // by the others, who have written another's lease beside it
	}{
		"one round":                    {Release{ID: 7}, 0, 0, false},
		"two rounds":                   {Release{ID: 7}, 0, 0, true},
		"to an heir":                   {Handover{ID: 7, To: 3}, 500, 3, false},
		"to an heir, in two rounds":    {Handover{ID: 7, To: 3}, 500, 3, true},
		"to the peer's own next claim": {Handover{ID: 7, To: 1}, 500, 1, false},
	} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		c.do(1, Acquire{ID: 7, Name: "a", Holder: "h", Slots: Shared})
		got := last[Acquired](c, 1)
		mine := p.claims[p.byID[7]].value[0]
		c.later(100 * time.Millisecond)
		said, out := c.says(1, tt.input)
		ref, k := p.ref(p.claims[p.byID[7]].att), p.claims[p.byID[7]].wrote
		mine.Released, mine.Heir = true, tt.heir
		if tt.until > 0 {
			mine.Until = p.c + tt.until
		}
		c.want(name, said, out, &Op{Kind: Write, Ref: ref, Ballot: k, Name: "a", Value: Value{mine}})
		if tt.refused {
			greater := BallotOf(p.c+20, 3, 3)
			other := Holding{Token: greater, Until: p.c + 9000, Incarnation: 1, Slots: Shared, Owner: 3}
			unreleased := mine
			unreleased.Released, unreleased.Heir, unreleased.Until = false, 0, TimeOf(got.Until)
			c.hears(1, 2, 1, Op{Kind: NackWrite, Ref: ref, Ballot: k, Written: greater})
			said, out = c.hears(1, 3, 1, Op{Kind: NackWrite, Ref: ref, Ballot: k, Written: greater})
			ref = p.ref(p.claims[p.byID[7]].att)
			next := p.hlc.last
			if next <= greater || next.Member() != 1 {
				t.Errorf("%s: under %v it is refused for %v, and tried again under %v", name, k, greater, next)
			}
			c.want(name+", refused", said, out, &Op{Kind: Read, Ref: ref, Ballot: next, Name: "a"})
			said, out = c.hears(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: next, Written: greater, Value: Value{unreleased, other}})
			c.want(name+", promised", said, out, &Op{Kind: Write, Ref: ref, Ballot: next, Name: "a", Value: Value{mine, other}})
			k = next
		}
		said, out = c.hears(1, 2, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k})
		c.want(name+", written", said, out, nil, Released{ID: 7, Confirmed: true})
		if p.busy != 0 || p.renewals != 0 || p.looks != 0 || p.returns != 0 {
			t.Errorf("%s: when nothing is under way, %d to acquire, %d to renew, %d to look and %d to release are counted", name, p.busy, p.renewals, p.looks, p.returns)
		}
	}
}

// Who refuses an attempt, and why: it is over when a majority can not agree any more, and goes on
// under a greater ballot than it was refused for, unless that is from ahead of all clocks.
func TestRefusalsWordForWord(t *testing.T) {
	for name, tt := range map[string]struct {
		writes  bool // it has been promised, and is refused its WRITE
		refuses func(p *Peer, k Ballot) Op
		alarm   func(p *Peer, k Ballot) *Alarm
		moves   bool // our own ballots
		over    bool
	}{
		"a greater ballot was promised": {false, func(p *Peer, k Ballot) Op { return Op{Kind: NackRead, Written: k + 1<<20} }, nil, true, true},
		"a greater ballot was written":  {true, func(p *Peer, k Ballot) Op { return Op{Kind: NackWrite, Written: k + 1<<20} }, nil, true, true},
		"for the fastest clock":         {false, func(p *Peer, k Ballot) Op { return Op{Kind: NackRead, Written: BallotOf(p.c+p.eps, 0, 3)} }, nil, true, true},
		"for a clock that is ahead": {false, func(p *Peer, k Ballot) Op { return Op{Kind: NackRead, Written: BallotOf(p.c+p.eps+7, 0, 9)} },
			func(*Peer, Ballot) *Alarm { return &Alarm{Kind: Skew, Peer: 9, By: 7 * time.Millisecond} }, false, true},
		"for its own WRITE": {false, func(p *Peer, k Ballot) Op { return Op{Kind: NackRead, Written: k} }, nil, false, false},
		"it is ahead itself": {false, func(p *Peer, k Ballot) Op { return Op{Kind: Skewed, Written: ballotAt(p.c - p.eps - 30)} },
			func(*Peer, Ballot) *Alarm { return &Alarm{Kind: Skew, Peer: 2, By: 30 * time.Millisecond} }, false, true},
		"of another view":                   {false, func(p *Peer, k Ballot) Op { return Op{Kind: WrongView} }, nil, false, true},
		"of another view, behind a promise": {true, func(p *Peer, k Ballot) Op { return Op{Kind: WrongView} }, nil, false, true},
		"a WRITE that it has not sent":      {false, func(p *Peer, k Ballot) Op { return Op{Kind: NackWrite, Written: k + 1<<20} }, nil, false, false},
		"a READ that was answered":          {true, func(p *Peer, k Ballot) Op { return Op{Kind: NackRead, Written: k + 1<<20} }, nil, false, false},
	} {
		var events []EventKind
		c := newCluster(t, 3, func(cfg *Config) {
			if cfg.Self == 1 {
				cfg.Trace = func(e Event) { events = append(events, e.Kind) }
			}
		})
		p := c.peers[1]
		c.says(1, Acquire{ID: 7, Name: "a"})
		a := p.claims[p.byID[7]].att
		k, ref := p.attempts[a].k, p.ref(a)
		if tt.writes {
			c.hears(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k})
		}
		begun := p.hlc.last
		says := func(from machine.NodeID) []any {
			o := tt.refuses(p, k)
			o.Ref, o.Ballot = ref, k
			_, out := c.hears(1, from, 1, o)
			return out
		}
		var alarms []any
		if tt.alarm != nil {
			alarms = []any{*tt.alarm(p, k)}
		}
		if out := says(2); len(out)+len(alarms) > 0 && !reflect.DeepEqual(out, alarms) {
			t.Errorf("refused %s: people hear %+v, want %+v", name, out, alarms)
		}
		if p.attempts[a].stage == idle {
			t.Errorf("refused %s: one of three has refused, and the attempt is over", name)
		}
		says(2)
		if p.attempts[a].stage == idle {
			t.Errorf("refused %s: one of three has refused twice, and the attempt is over", name)
		}
		says(3)
		if over := p.attempts[a].stage == idle; over != tt.over {
			t.Errorf("refused %s: it is over: %v, want %v", name, over, tt.over)
		}
		if moved := p.hlc.last != begun; moved != tt.moves {
			t.Errorf("refused %s: our own ballots are moved: %v, want %v", name, moved, tt.moves)
		}
		want := []EventKind{ReadInvoke}
		if tt.writes {
			want = append(want, ReadCommit, WriteInvoke)
		}
		if tt.moves || name == "for a clock that is ahead" {
			want = append(want, map[bool]EventKind{true: WriteAbort, false: ReadAbort}[tt.writes])
		}
		if !reflect.DeepEqual(events, want) {
			t.Errorf("refused %s: it is traced as %v, want %v", name, events, want)
		}
		if tt.over {
			if c.pass(p.cfg.RoundTimeout); !has[Acquired](c, 1) {
				t.Errorf("refused %s: when nobody refuses any more, it is not tried again: %s", name, fmt.Sprintf("%+v", c.out[1]))
			}
		}
	}
}

// Who is kept out by what some acceptors know asks for promises at once, if together they know better;
// and waits, or is refused, if not.
func TestWhoIsKeptOut(t *testing.T) {
	for name, tt := range map[string]struct {
		try      bool
		released bool // as one of the two acceptors knows
		insists  bool
		refused  bool
	}{
		"a claim, by a lease":               {false, false, false, false},
		"a try, by a lease":                 {true, false, false, true},
		"a claim, by one that was released": {false, true, true, false},
		"a try, by one that was released":   {true, true, true, false},
	} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		lease := Holding{Token: BallotOf(p.c-5, 0, 3), Until: p.c + 5000, Holder: "h", Incarnation: 1, Slots: 1, Owner: 3}
		at := &p.cells[p.cellOf("a")]
		at.promised, at.written, at.value = lease.Token, lease.Token, Value{lease}
		said, out := c.says(1, Acquire{ID: 7, Name: "a", Try: tt.try})
		k, ref := p.hlc.last, p.ref(p.claims[p.byID[7]].att)
		c.want(name, said, out, &Op{Kind: Read, Ref: ref, Ballot: k, Name: "a", Slots: 1})
		lease.Released = tt.released
		answer := Op{Kind: Peeked, Ref: ref, Ballot: k, Written: lease.Token, Value: Value{lease}}
		said, out = c.hears(1, 2, 1, answer)
		switch {
		case tt.insists:
			next := p.hlc.last
			ref = p.ref(p.claims[p.byID[7]].att)
			c.want(name, said, out, &Op{Kind: Read, Ref: ref, Ballot: next, Name: "a"})
			// With one promise more, and what is released, it writes.
			said, out = c.hears(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: next, Written: lease.Token, Value: Value{lease}})
			mine := Holding{Token: next, Until: p.c + 10_000, Incarnation: 1, Slots: 1, Owner: 1}
			c.want(name+", promised", said, out, &Op{Kind: Write, Ref: ref, Ballot: next, Name: "a", Value: Value{mine}})
		case tt.refused:
			c.want(name, said, out, nil, Refused{ID: 7, State: State{Name: "a", Holdings: Value{lease}, Stable: true}})
		default:
			ref = p.ref(p.claims[p.byID[7]].att)
			c.want(name, said, out, &Op{Kind: Peek, Ref: ref, Ballot: p.hlc.last, Name: "a", Ticket: k, Slots: 1},
				Waits{ID: 7, State: State{Name: "a", Holdings: Value{lease}, Stable: true}})
		}
	}
}

// A tenure that was decided too late, by either clock, is none; what was written for it keeps nobody
// from trying again.
func TestDecidedTooLate(t *testing.T) {
	const ttl, delay = time.Second, 2 * time.Second
	for name, tt := range map[string]struct {
		mono, wall time.Duration
		renews     bool
		report     any
	}{
		"in time":                          {ttl - ttl/20 - 1, ttl - time.Millisecond, false, Acquired{}},
		"late by the monotonic clock":      {ttl - ttl/20, 0, false, nil},
		"late by the synchronized one":     {0, ttl, false, nil},
		"a renewal in time":                {ttl - ttl/20 - 1, ttl - time.Millisecond, true, Renewed{}},
		"a renewal that is late":           {ttl - ttl/20, 0, true, Lost{Why: "its renewal took too long"}},
		"a renewal that is late otherwise": {0, ttl, true, Lost{Why: "its renewal took too long"}},
	} {
		c := newCluster(t, 3, func(cfg *Config) { cfg.RoundTimeout = ttl / 4 })
		p := c.peers[1]
		c.says(1, Acquire{ID: 7, Name: "a", TTL: ttl, LockDelay: delay})
		i := p.byID[7]
		a := p.claims[i].att
		if tt.renews {
			p.claims[i].phase, p.claims[i].deadline, p.claims[i].until = held, machine.Never, 1<<40
		}
		p.attempts[a].stage = writing
		p.claims[i].token, p.claims[i].lined = 77, true
		t0, m0, k := p.c, c.now.Mono, p.attempts[a].k
		c.now.Mono, c.now.Wall = c.now.Mono.Add(tt.mono), c.now.Wall+machine.Wall(tt.wall)
		p.now, p.c = c.now, TimeOf(c.now.Wall)
		p.committed(a)
		out := p.outcomes
		p.outcomes = nil
		want := []any{tt.report}
		deadline, until := m0.Add(ttl-ttl/20), (t0 + 1000).Wall()
		switch r := tt.report.(type) {
		case nil:
			want = []any{Waits{ID: 7, State: State{Name: "a"}, Err: ErrNoMajority}}
			if x := p.claims[i]; x.token != 0 || x.phase != trying || x.tries != 1 || p.rings(i) > c.now.Mono.Add(ttl/4+5*time.Millisecond) {
				t.Errorf("%s: it goes on as %+v, at %v", name, x, p.rings(i))
			}
		case Lost:
			r.ID = 7
			want = []any{r}
		case Acquired:
			want = []any{Acquired{ID: 7, Token: 77, Deadline: deadline, Until: until}}
		case Renewed:
			want = []any{Renewed{ID: 7, Deadline: deadline, Until: until}}
		}
		if !reflect.DeepEqual(out, want) {
			t.Errorf("%s: under %v the peer reports %+v, want %+v", name, k, out, want)
		}
		if x := p.claims[i]; x.phase == held && (x.lined || x.tries != 0 || x.until != t0+3000 || x.deadline != deadline || p.rings(i) > min(x.renewAt, x.deadline).Add(2<<tickBits)) {
			t.Errorf("%s: it is held as %+v, and its alarm rings at %v", name, x, p.rings(i))
		}
		if p.attempts[a].stage != idle {
			t.Errorf("%s: its attempt goes on", name)
		}
	}
}
