package flease

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// want compares the operations of a peer, the same for all others, and its outcomes.
func (c *cluster) want(what string, said map[machine.NodeID][]Op, outcomes []Report, op *Op, reports ...Report) {
	c.t.Helper()
	var all map[machine.NodeID][]Op
	if op != nil {
		all = map[machine.NodeID][]Op{2: {*op}, 3: {*op}}
	}
	if !reflect.DeepEqual(said, all) {
		c.t.Fatalf("%s: the peer says %+v, want %+v", what, said, all)
	}
	if len(outcomes)+len(reports) > 0 && !reflect.DeepEqual(outcomes, reports) {
		c.t.Fatalf("%s: the peer reports %+v, want %+v", what, outcomes, reports)
	}
}

// underWay is how answers name the attempt of a claim of peer 1.
func (c *cluster) underWay(id uint64) uint32 {
	c.t.Helper()
	p := c.peers[1]
	i, known := p.byID[id]
	if !known || p.claims[i].att < 0 {
		c.t.Fatalf("nothing is under way for claim %d (known: %v)", id, known)
	}
	return p.ref(p.claims[i].att)
}

// A tenure from its claim to its release, word for word: the lease counts from before its READ. A
// renewal or a release changes its own holding, and leaves out those that are over.
func TestATenureWordForWord(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	const ttl, delay = 2 * time.Second, time.Second
	t0, m0 := p.c, c.now.Mono
	said, out := c.ask(1, Acquire{ID: 7, Name: "a", Holder: "h", TTL: ttl, LockDelay: delay, Slots: 3})
	k := p.hlc.last
	ref := c.underWay(7)
	c.want("acquire", said, out, &Op{Kind: Read, Ref: ref, Ballot: k, Name: "a", Slots: 3})
	if k.Time() != t0 || k.Member() != 1 {
		t.Errorf("it is asked under %v at %v", k, t0)
	}
	c.later(10 * time.Millisecond)
	mine := Holding{Token: k, Until: t0 + 3000, Holder: "h", Incarnation: 1, Delay: 1000, Slots: 3, Owner: 1}
	other := Holding{Token: k - 1024, Until: t0 + 9000, Holder: "o", Incarnation: 4, Slots: Shared, Owner: 2}
	gone := Holding{Token: k - 2048, Until: t0 - 90, Holder: "g", Incarnation: 1, Slots: 1, Owner: 3, Released: true}
	said, out = c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k, Written: k - 1024, Value: Value{gone, other}})
	c.want("a majority has promised", said, out, &Op{Kind: Write, Ref: ref, Ballot: k, Name: "a", Value: Value{other, mine}})
	c.later(10 * time.Millisecond)
	said, out = c.hear(1, 3, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k})
	c.want("a majority has written", said, out, nil,
		Acquired{ID: 7, Token: uint64(k), Deadline: m0.Add(ttl - ttl/20), Until: (t0 + 2000).Wall()})
	said, out = c.hear(1, 2, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k})
	c.want("one more has written", said, out, nil)

	var t1 Time
	for said = nil; said == nil; said, out = c.ask(1, labstage.Wake{}) {
		if c.later(time.Millisecond); p.c > t0+1001 {
			t.Fatal("it is not renewed when half of it is over")
		}
		t1 = TimeOf(c.now.Wall)
	}
	if early := t0 + 1000 - t1; early > 1000/8+10 {
		t.Errorf("it is renewed %d ms before half of it is over", early)
	}
	m1, k1 := c.now.Mono, p.hlc.last
	ref = c.underWay(7)
	c.want("renew", said, out, &Op{Kind: Read, Ref: ref, Ballot: k1, Name: "a"})
	c.later(10 * time.Millisecond)
	over := Holding{Token: k - 3072, Until: t1 - 91, Incarnation: 1, Slots: Shared, Owner: 3}
	c.later(0)
	old := mine
	said, out = c.hear(1, 3, 1, Op{Kind: AckRead, Ref: ref, Ballot: k1, Written: k + 1024, Value: Value{over, old, other}})
	mine.Until = t1 + 3000
	c.want("a majority has promised the renewal", said, out, &Op{Kind: Write, Ref: ref, Ballot: k1, Name: "a", Value: Value{mine, other}})
	c.later(10 * time.Millisecond)
	said, out = c.hear(1, 3, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k1})
	c.want("a majority has written the renewal", said, out, nil, Renewed{ID: 7, Deadline: m1.Add(ttl - ttl/20), Until: (t1 + 2000).Wall()})
	if old.Until != t0+3000 {
		t.Error("a value that was read is changed")
	}

	c.later(100 * time.Millisecond)
	said, out = c.ask(1, Release{ID: 7})
	ref = c.underWay(7)
	mine.Released = true
	c.want("release", said, out, &Op{Kind: Write, Ref: ref, Ballot: k1, Name: "a", Value: Value{mine, other}})
	said, out = c.hear(1, 2, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k1})
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
		refused bool // by the others, which have written another's lease beside it
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
		said, out := c.ask(1, tt.input)
		ref, k := c.underWay(7), p.claims[p.byID[7]].wrote
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
			c.hear(1, 2, 1, Op{Kind: NackWrite, Ref: ref, Ballot: k, Written: greater})
			said, out = c.hear(1, 3, 1, Op{Kind: NackWrite, Ref: ref, Ballot: k, Written: greater})
			ref = c.underWay(7)
			next := p.hlc.last
			if next <= greater || next.Member() != 1 {
				t.Errorf("%s: under %v it is refused for %v, and tried again under %v", name, k, greater, next)
			}
			c.want(name+", refused", said, out, &Op{Kind: Read, Ref: ref, Ballot: next, Name: "a"})
			said, out = c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: next, Written: greater, Value: Value{unreleased, other}})
			c.want(name+", promised", said, out, &Op{Kind: Write, Ref: ref, Ballot: next, Name: "a", Value: Value{mine, other}})
			k = next
		}
		said, out = c.hear(1, 2, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k})
		c.want(name+", written", said, out, nil, Released{ID: 7, Confirmed: true})
		if p.busy != 0 || p.renewals != 0 || p.looks != 0 || p.returns != 0 {
			t.Errorf("%s: when nothing is under way, %d to acquire, %d to renew, %d to look and %d to release are counted", name, p.busy, p.renewals, p.looks, p.returns)
		}
	}
}

// An attempt is over when a majority cannot agree any more, whatever the refusals are. It goes on
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
		c.ask(1, Acquire{ID: 7, Name: "a"})
		a := p.claims[p.byID[7]].att
		k, ref := p.attempts[a].k, p.ref(a)
		if tt.writes {
			c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k})
		}
		begun := p.hlc.last
		says := func(from machine.NodeID) []Report {
			o := tt.refuses(p, k)
			o.Ref, o.Ballot = ref, k
			_, out := c.hear(1, from, 1, o)
			return out
		}
		var alarms []Report
		if tt.alarm != nil {
			alarms = []Report{*tt.alarm(p, k)}
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

// A claim that some acceptors keep out asks for promises at once, if together they know better. If not,
// it waits, or is refused.
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
		said, out := c.ask(1, Acquire{ID: 7, Name: "a", Try: tt.try})
		k, ref := p.hlc.last, c.underWay(7)
		c.want(name, said, out, &Op{Kind: Read, Ref: ref, Ballot: k, Name: "a", Slots: 1})
		lease.Released = tt.released
		answer := Op{Kind: Peeked, Ref: ref, Ballot: k, Written: lease.Token, Value: Value{lease}}
		said, out = c.hear(1, 2, 1, answer)
		switch {
		case tt.insists:
			next := p.hlc.last
			ref = c.underWay(7)
			c.want(name, said, out, &Op{Kind: Read, Ref: ref, Ballot: next, Name: "a"})
			// With one promise more, and only released leases, it writes.
			said, out = c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: next, Written: lease.Token, Value: Value{lease}})
			mine := Holding{Token: next, Until: p.c + 10_000, Incarnation: 1, Slots: 1, Owner: 1}
			c.want(name+", promised", said, out, &Op{Kind: Write, Ref: ref, Ballot: next, Name: "a", Value: Value{mine}})
			// It does not insist the next time: that would have renewals refused.
			for _, from := range []machine.NodeID{2, 3} {
				c.hear(1, from, 1, Op{Kind: NackWrite, Ref: ref, Ballot: next, Written: next + 1024})
			}
			for said = nil; said == nil && p.Stats().Attempts == 0; said, _ = c.ask(1, labstage.Wake{}) {
				c.later(time.Millisecond)
			}
			if len(said[2]) != 1 || said[2][0].Kind != Read || said[2][0].Slots != 1 {
				t.Errorf("%s, and refused: it goes on with %+v, want a READ that promises nothing while it is kept out", name, said)
			}
		case tt.refused:
			c.want(name, said, out, nil, Refused{ID: 7, State: State{Name: "a", Holdings: Value{lease}, Stable: true}})
		default:
			ref = c.underWay(7)
			c.want(name, said, out, &Op{Kind: Peek, Ref: ref, Ballot: p.hlc.last, Name: "a", Ticket: k, Slots: 1},
				Waits{ID: 7, State: State{Name: "a", Holdings: Value{lease}, Stable: true}})
		}
	}
}

// A tenure that was decided too late, by either clock, is none, and the claim is tried again.
func TestDecidedTooLate(t *testing.T) {
	const ttl, delay = time.Second, 2 * time.Second
	for name, tt := range map[string]struct {
		mono, wall time.Duration
		renews     bool
		report     Report
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
		c.ask(1, Acquire{ID: 7, Name: "a", TTL: ttl, LockDelay: delay})
		i := p.byID[7]
		a := p.claims[i].att
		if tt.renews {
			p.claims[i].phase, p.claims[i].deadline, p.claims[i].until = held, machine.Never, 1<<40
		}
		p.attempts[a].stage = writing
		p.claims[i].token, p.claims[i].lined, p.claims[i].tries = 77, true, 3
		t0, m0, k := p.c, c.now.Mono, p.attempts[a].k
		c.now.Mono, c.now.Wall = c.now.Mono.Add(tt.mono), c.now.Wall+machine.Wall(tt.wall)
		p.now, p.c = c.now, TimeOf(c.now.Wall)
		p.committed(a)
		out := p.outcomes
		p.outcomes = nil
		want := []Report{tt.report}
		deadline, until := m0.Add(ttl-ttl/20), (t0 + 1000).Wall()
		switch r := tt.report.(type) {
		case nil:
			want = []Report{Waits{ID: 7, State: State{Name: "a"}, Err: ErrNoMajority}}
			if x := p.claims[i]; x.token != 0 || x.phase != trying || x.tries != 1 || p.rings(i) > c.now.Mono.Add(ttl/4+5*time.Millisecond) {
				t.Errorf("%s: it goes on as %+v, at %v", name, x, p.rings(i))
			}
		case Lost:
			r.ID = 7
			want = []Report{r}
		case Acquired:
			want = []Report{Acquired{ID: 7, Token: 77, Deadline: deadline, Until: until}}
		case Renewed:
			want = []Report{Renewed{ID: 7, Deadline: deadline, Until: until}}
		}
		if !reflect.DeepEqual(out, want) {
			t.Errorf("%s: under %v the peer reports %+v, want %+v", name, k, out, want)
		}
		if x := p.claims[i]; x.phase == held && (x.lined || x.tries != 0 || x.until != t0+3000 || x.deadline != deadline || p.rings(i) > min(x.renewAt, x.deadline).Add(2<<tickBits)) {
			t.Errorf("%s: it is held as %+v, and its alarm rings at %v", name, x, p.rings(i))
		}
		if x := p.claims[i]; x.phase == held && (x.renewAt > m0.Add(ttl/2) || x.renewAt < m0.Add(ttl/2-ttl/16-p.cfg.TMax/1024)) {
			t.Errorf("%s: it is renewed %v after it was asked for, want when a half of %v has passed, or a little less", name, x.renewAt.Sub(m0), ttl)
		}
		if p.attempts[a].stage != idle {
			t.Errorf("%s: its attempt goes on", name)
		}
	}
}

// The acceptors of a majority together show the value of the newest WRITE, and of one WRITE the released
// value. A waiter counts if all of them know it. The value is stable if all show the same.
func TestWhatAMajorityShows(t *testing.T) {
	lease, back := Value{{Token: 5, Until: 99, Slots: 1, Owner: 2}}, Value{{Token: 5, Until: 99, Slots: 1, Owner: 2, Released: true}}
	x, y, z := Waiter{1, 1}, Waiter{2, 1}, Waiter{3, Shared}
	for name, tt := range map[string]struct {
		shown   []Op
		best    Ballot
		value   Value
		queue   []Waiter
		waiting uint32
		agree   bool
	}{
		"one":                          {[]Op{{Written: 7, Value: lease, Queue: []Waiter{x}, Waiting: 1}}, 7, lease, []Waiter{x}, 1, true},
		"nothing":                      {[]Op{{}, {}}, 0, nil, nil, 0, true},
		"the same":                     {[]Op{{Written: 7, Value: lease, Queue: []Waiter{x, y}, Waiting: 2}, {Written: 7, Value: lease, Queue: []Waiter{x, y}, Waiting: 2}}, 7, lease, []Waiter{x, y}, 2, true},
		"the newer last":               {[]Op{{Written: 6, Value: lease}, {Written: 7, Value: back}}, 7, back, nil, 0, false},
		"the newer first":              {[]Op{{Written: 7, Value: back}, {Written: 6, Value: lease}}, 7, back, nil, 0, false},
		"older ones, given back, last": {[]Op{{Written: 7, Value: lease}, {Written: 6, Value: append(back, back...)}}, 7, lease, nil, 0, false},
		"nothing, and then a lease":    {[]Op{{}, {Written: 6, Value: lease}}, 6, lease, nil, 0, false},
		"a lease, and released":        {[]Op{{Written: 7, Value: lease}, {Written: 7, Value: back}}, 7, back, nil, 0, false},
		"released, and the lease":      {[]Op{{Written: 7, Value: back}, {Written: 7, Value: lease}}, 7, back, nil, 0, false},
		"two differ, and a third":      {[]Op{{Written: 7, Value: back}, {Written: 6, Value: lease}, {Written: 7, Value: back}}, 7, back, nil, 0, false},
		"waiters whom one knows":       {[]Op{{Queue: []Waiter{x, y}, Waiting: 2}, {Queue: []Waiter{y, z}, Waiting: 3}}, 0, nil, []Waiter{y}, 2, true},
		"waiters whom nobody knows":    {[]Op{{Queue: []Waiter{x, y}, Waiting: 2}, {}}, 0, nil, nil, 0, true},
		"a waiter with other slots":    {[]Op{{Queue: []Waiter{x}, Waiting: 1}, {Queue: []Waiter{{1, 2}}, Waiting: 1}}, 0, nil, nil, 1, true},
		"more wait than are told, of3": {[]Op{{Waiting: 30}, {Waiting: 20}, {Waiting: 40}}, 0, nil, nil, 20, true},
	} {
		at := &attempt{agree: true}
		for i, o := range tt.shown {
			at.gather(&o)
			if i%2 == 0 {
				at.acks |= 1 << i
			} else {
				at.shown |= 1 << i
			}
		}
		if at.best != tt.best || !reflect.DeepEqual(at.value, tt.value) || !reflect.DeepEqual(at.queue, tt.queue) || at.waiting != tt.waiting || at.agree != tt.agree {
			t.Errorf("%s: together they show %v under %v, %v wait (%d), the same: %v; want %v under %v, %v (%d), %v",
				name, at.value, at.best, at.queue, at.waiting, at.agree, tt.value, tt.best, tt.queue, tt.waiting, tt.agree)
		}
	}
}

// An acceptor that has refused the READ may take the WRITE: refusals of the READ do not count then.
func TestRefusalsOfTheReadAreOver(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.ask(1, Acquire{ID: 7, Name: "a"})
	k, ref := p.hlc.last, c.underWay(7)
	c.hear(1, 3, 1, Op{Kind: NackRead, Ref: ref, Ballot: k, Written: k - 1024})
	c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k})
	c.hear(1, 2, 1, Op{Kind: NackWrite, Ref: ref, Ballot: k, Written: k + 1024})
	_, out := c.hear(1, 3, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k})
	if c.out[1] = out; !has[Acquired](c, 1) {
		t.Errorf("two of three have written, and the peer reports %+v", out)
	}
}

// A late answer to the WRITE of a lease is none to that of its release, though both have one ballot.
func TestLateAnswersConfirmNoRelease(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.ask(1, Acquire{ID: 7, Name: "a"})
	k, ref := p.hlc.last, c.underWay(7)
	c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k})
	c.hear(1, 2, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k})
	c.ask(1, Release{ID: 7})
	if _, out := c.hear(1, 3, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k}); len(out) > 0 {
		t.Fatalf("the third has written the lease, and the peer reports %+v of its release", out)
	}
	ref = c.underWay(7)
	if _, out := c.hear(1, 3, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k}); len(out) != 1 || out[0] != (Released{ID: 7, Confirmed: true}) {
		t.Errorf("a majority has written the release, and the peer reports %+v", out)
	}
}

// An answer comes too late when only the lock delay of the lease is left: nothing is written.
func TestAnswersWithinTheLockDelay(t *testing.T) {
	const ttl, delay = time.Second, 5 * time.Second
	for _, late := range []bool{false, true} {
		c := newCluster(t, 3, func(cfg *Config) { cfg.Epsilon, cfg.RoundTimeout = 2*time.Second, ttl/4 })
		p := c.peers[1]
		c.ask(1, Acquire{ID: 7, Name: "a", TTL: ttl, LockDelay: delay})
		k, ref := p.hlc.last, c.underWay(7)
		passed := ttl - time.Millisecond
		if late {
			passed = ttl
		}
		c.now.Mono, c.now.Wall = c.now.Mono.Add(ttl/2), c.now.Wall+machine.Wall(passed) // clocks of this ε may do so
		said, _ := c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k})
		if writes := len(said[2]) == 1 && said[2][0].Kind == Write; writes == late {
			t.Errorf("%v of a TTL of %v have passed when it is promised, and the peer says %+v", passed, ttl, said)
		}
	}
}

// A renewal goes on with the lease as the register shows it, and ends it if that does not: it may be
// given back, or another's.
func TestWhatARenewalFinds(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(h *Holding)
		goesOn bool
	}{
		"it":                        {func(*Holding) {}, true},
		"it, with another end":      {func(h *Holding) { h.Until -= 5 }, true},
		"it released":               {func(h *Holding) { h.Released = true }, false},
		"that of another life":      {func(h *Holding) { h.Incarnation++ }, false},
		"that of another peer":      {func(h *Holding) { h.Owner++ }, false},
		"that of an earlier tenure": {func(h *Holding) { h.Token-- }, false},
	} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		c.do(1, Acquire{ID: 7, Name: "a", Slots: Shared})
		i := p.byID[7]
		h, wrote := p.claims[i].value[0], p.claims[i].wrote
		tt.change(&h)
		at := &p.cells[p.claims[i].cell]
		at.value = Value{h}
		c.now.Mono, c.now.Wall = p.claims[i].renewAt.Add(time.Millisecond), c.now.Wall+machine.Wall(p.claims[i].renewAt.Add(time.Millisecond)-c.now.Mono)
		c.ask(1, labstage.Wake{})
		k, ref := p.hlc.last, p.ref(p.claims[i].att)
		said, out := c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k, Written: wrote, Value: Value{h}})
		if tt.goesOn {
			h.Until = p.c + 10_000
			c.want(name, said, out, &Op{Kind: Write, Ref: ref, Ballot: k, Name: "a", Value: Value{h}})
		} else {
			c.want(name, said, out, nil, Lost{ID: 7, Why: "the register does not show it any more"})
		}
	}
}

// A claim that waits is told for whom when that changes, and each time that nobody can tell. A claim that
// is given up takes its ticket back from the whole cell.
func TestWhoWaitsIsTold(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.do(2, Acquire{ID: 1, Name: "a"})
	c.do(1, Acquire{ID: 7, Name: "a"})
	told := func() (with []error) {
		for _, out := range c.out[1] {
			if w, ok := out.(Waits); ok {
				with = append(with, w.Err)
			}
		}
		c.out[1] = nil
		return with
	}
	want := func(when string, with ...error) {
		t.Helper()
		if got := told(); !reflect.DeepEqual(got, with) {
			t.Errorf("%s: the waiter is told %v, want %v", when, got, with)
		}
	}
	want("at first", nil)
	c.pass(2 * p.cfg.poll())
	want("while the same one holds")
	for range 2 {
		c.cut = func(env machine.Envelope) bool { return env.To == 1 }
		c.pass(4 * p.cfg.poll())
		want("when nobody can tell", ErrNoMajority)
		c.cut = nil
		c.pass(3 * p.cfg.poll())
		want("when they can again", nil)
	}
	ticket := p.claims[p.byID[7]].ticket
	said, out := c.ask(1, Release{ID: 7})
	quit := Op{Kind: Quit, Name: "a", Ticket: ticket}
	for _, m := range []machine.NodeID{2, 3} {
		found := false
		for _, o := range said[m] {
			found = found || reflect.DeepEqual(o, quit)
		}
		if !found {
			t.Errorf("a peer that waits no more says %+v to peer %d, want %+v", said[m], m, quit)
		}
	}
	if len(p.lines) > 0 || len(out) != 1 || out[0] != (Released{ID: 7, Confirmed: true}) {
		t.Errorf("a claim that waits no more is remembered by its own peer: %v, and told %+v", p.lines, out)
	}
}
