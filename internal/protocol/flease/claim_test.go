package flease

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A claim is refused at once, with the reason, at each limit and not before it.
func TestWhatIsAskedWithinLimits(t *testing.T) {
	const tmax, least = 10 * time.Second, time.Second
	long := strings.Repeat("x", maxName)
	queuedOnly := func(n uint64) func(*cluster) {
		return func(c *cluster) {
			for range n {
				c.peers[1].Step(c.now, Acquire{ID: 100 + uint64(len(c.peers[1].byID)), Name: "q"})
			}
		}
	}
	queued := func(some ...uint64) func(*cluster) { // whose turn comes
		return func(c *cluster) {
			for _, n := range some {
				queuedOnly(n)(c)
				c.ask(1, labstage.Wake{})
			}
		}
	}
	silent := func(c *cluster) { c.ask(1, ClockFault{Why: "a test"}) }
	for name, tt := range map[string]struct {
		before func(*cluster)
		ask    Acquire
		is     error // nil if it is taken
		says   string
		ttl    uint32 // in milliseconds, of what is taken
	}{
		"all defaults":             {nil, Acquire{Name: "a"}, nil, "", 10_000},
		"no TTL and a lock delay":  {nil, Acquire{Name: "a", LockDelay: 3 * time.Second}, nil, "", 7000},
		"the longest words":        {nil, Acquire{Name: long, Holder: long, Slots: Shared}, nil, "", 10_000},
		"no name":                  {nil, Acquire{}, ErrClaim, "a name of 0 bytes; want 1 to 512", 0},
		"a longer name":            {nil, Acquire{Name: long + "x"}, ErrClaim, "a name of 513 bytes; want 1 to 512", 0},
		"a longer holder":          {nil, Acquire{Name: "a", Holder: long + "x"}, ErrClaim, "a holder of 513 bytes; at most 512", 0},
		"no slots":                 {nil, Acquire{Name: "a", Slots: -1}, ErrClaim, "-1 slots; want 1", 0},
		"too many slots":           {nil, Acquire{Name: "a", Slots: Shared + 1}, ErrClaim, "2147483648 slots", 0},
		"the shortest TTL":         {nil, Acquire{Name: "a", TTL: least}, nil, "", 1000},
		"a shorter TTL":            {nil, Acquire{Name: "a", TTL: least - 1}, ErrClaim, "want at least 1s", 0},
		"a lock delay below none":  {nil, Acquire{Name: "a", TTL: 2 * least, LockDelay: -1}, ErrClaim, "a TTL of 2s", 0},
		"all of t_max":             {nil, Acquire{Name: "a", TTL: 6 * time.Second, LockDelay: 4 * time.Second}, nil, "", 6000},
		"more than t_max":          {nil, Acquire{Name: "a", TTL: 6*time.Second + 1, LockDelay: 4 * time.Second}, ErrClaim, "together longer than t_max = 10s", 0},
		"more lock delay than all": {nil, Acquire{Name: "a", TTL: 1<<63 - 1, LockDelay: tmax + 1}, ErrClaim, "together longer than t_max = 10s", 0},
		"an id that is in use":     {func(c *cluster) { c.ask(1, Observe{ID: 9, Name: "a"}) }, Acquire{Name: "b"}, ErrClaim, "ID 9 is in use", 0},
		"the last place":           {queued(2, 2), Acquire{Name: "a"}, nil, "", 10_000},
		"one claim too many":       {queued(3, 2), Acquire{Name: "a"}, ErrBusy, "", 0},
		"the last turn":            {queuedOnly(2), Acquire{Name: "a"}, nil, "", 10_000},
		"one turn too many":        {queuedOnly(3), Acquire{Name: "a"}, ErrBusy, "", 0},
		"when turns were taken": {func(c *cluster) {
			c.peers[1].cfg.MaxAttempts = 2
			queued(3)(c)
			c.ask(1, labstage.Wake{})
			c.peers[1].Step(c.now, Acquire{ID: 200, Name: "q"})
		}, Acquire{Name: "a"}, nil, "", 10_000},
		"while renewals are late": {func(c *cluster) { c.peers[1].lateUntil = c.now.Mono + 1 }, Acquire{Name: "a"}, ErrBusy, "", 0},
		"when they are not":       {func(c *cluster) { c.peers[1].lateUntil = c.now.Mono }, Acquire{Name: "a"}, nil, "", 10_000},
		"in a quarantine":         {silent, Acquire{Name: "a"}, nil, "", 10_000},
		"a try in a quarantine":   {silent, Acquire{Name: "a", Try: true}, ErrQuarantine, "", 0},
	} {
		for what, in := range map[string]any{"a claim": tt.ask, "a look": Observe{ID: 9, Name: tt.ask.Name}} {
			is, says := tt.is, tt.says
			if a, ok := in.(Acquire); ok {
				a.ID = 9
				in = a
			} else if tt.ask.Holder != "" || tt.ask.Slots != 0 || tt.ask.TTL != 0 || tt.ask.LockDelay != 0 {
				continue
			} else if name == "in a quarantine" || name == "a try in a quarantine" {
				is = ErrQuarantine
			} else if name == "while renewals are late" {
				is = nil
			}
			c := newCluster(t, 3, func(cfg *Config) { cfg.RoundTimeout, cfg.MaxClaims, cfg.MaxQueued = least/4, 5, 3 })
			if tt.before != nil {
				tt.before(c)
			}
			p := c.peers[1]
			labstage.Feed(p, c.now, in)
			var err error
			out := p.outcomes
			p.outcomes = nil
			for _, o := range out {
				switch o := o.(type) {
				case Refused:
					err = o.Err
					if o.ID != 9 || !reflect.DeepEqual(o.State, State{Name: tt.ask.Name}) {
						t.Errorf("%s: %+v", name, o)
					}
				case Observed:
					err = o.Err
					if o.ID != 9 || !reflect.DeepEqual(o.State, State{Name: tt.ask.Name}) {
						t.Errorf("%s: %+v", name, o)
					}
				}
			}
			if (err == nil) != (is == nil) || is != nil && (!errors.Is(err, is) || !strings.Contains(err.Error(), says)) {
				t.Errorf("%s, %s: %v, want %v, %q", what, name, err, is, says)
			}
			if is != nil || err != nil || len(p.byID) == 0 {
				continue
			}
			x := &p.claims[p.byID[9]]
			if a, ok := in.(Acquire); ok {
				if x.ttl != tt.ttl || x.delay != uint32(a.LockDelay.Milliseconds()) || x.slots != int32(max(a.Slots, 1)) || x.holder != a.Holder || x.try != a.Try || x.watches {
					t.Errorf("%s, %s: it is taken as %+v", what, name, *x)
				}
			} else if !x.watches {
				t.Errorf("%s, %s: it is taken as %+v", what, name, *x)
			}
		}
	}
}

// rings is when a claim's alarm rings, rounded up to ticks; Never if it has none.
func (p *Peer) rings(i int32) machine.Mono {
	if l := p.wheel.link(i); l.level >= 0 {
		return machine.Mono(l.at << tickBits)
	}
	return machine.Never
}

// An attempt that failed is tried again after a while, or its caller is told.
func TestAttemptsThatFailed(t *testing.T) {
	const round, ttl = 256 * time.Millisecond, 4096 * time.Millisecond
	tick := time.Duration(1 << tickBits)
	for name, tt := range map[string]struct {
		claim    claim // deadline and until are behind now
		timedOut bool
		report   Report        // but for its id
		soonest  time.Duration // when it is tried again at the soonest and at the latest; both 0 if never
		latest   time.Duration
		late     bool // nothing new is begun for a while
		token    bool // it keeps its token
	}{
		"a renewal is refused once":             {claim{phase: held, deadline: 9e9, until: 9000}, false, nil, time.Millisecond, round/16 + time.Millisecond, false, true},
		"a renewal is refused often":            {claim{phase: held, deadline: 9e9, until: 9000, tries: 9}, false, nil, time.Millisecond, round + time.Millisecond, false, true},
		"a renewal has no answer":               {claim{phase: held, deadline: 9e9, until: 9000}, true, nil, 0, ttl / 8, true, true},
		"a renewal is refused near the end":     {claim{phase: held, deadline: 500_000, until: 9000}, false, nil, 500_000, 500_000, false, true},
		"a renewal is refused behind the end":   {claim{phase: held, deadline: 0, until: 9000}, false, Lost{Why: "it was not renewed in time"}, 0, 0, false, false},
		"and behind that by the other clock":    {claim{phase: held, deadline: 9e9, until: 0}, true, Lost{Why: "it was not renewed in time"}, 0, 0, false, false},
		"a release is refused":                  {claim{phase: releasing, until: -99}, false, nil, time.Millisecond, round/16 + time.Millisecond, false, true},
		"a release of what is over":             {claim{phase: releasing, until: -100}, true, Released{}, 0, 0, false, false},
		"a claim is refused":                    {claim{phase: trying}, false, nil, time.Millisecond, round/16 + time.Millisecond, false, false},
		"a claim has no answer":                 {claim{phase: trying}, true, Waits{Err: ErrNoMajority}, time.Millisecond, round + time.Millisecond, false, false},
		"a claim has no answer again":           {claim{phase: trying, alone: true, tries: 200}, true, nil, time.Millisecond, round + time.Millisecond, false, false},
		"a waiter has no answer":                {claim{phase: waiting}, true, Waits{Err: ErrNoMajority}, 0, 313 * time.Millisecond, false, false},
		"a waiter is refused":                   {claim{phase: waiting}, false, nil, 0, 313 * time.Millisecond, false, false},
		"a try has no answer":                   {claim{phase: trying, try: true}, true, nil, time.Millisecond, round + time.Millisecond, false, false},
		"a try has no answer again":             {claim{phase: trying, try: true, tries: 1}, true, Refused{Err: ErrNoMajority}, 0, 0, false, false},
		"a try is refused":                      {claim{phase: trying, try: true, tries: mostTries - 2}, false, nil, time.Millisecond, round + time.Millisecond, false, false},
		"a try is refused again and again":      {claim{phase: trying, try: true, tries: mostTries - 1}, false, Refused{Err: ErrNoMajority}, 0, 0, false, false},
		"a look has no answer":                  {claim{phase: observing, watches: true}, true, nil, time.Millisecond, round + time.Millisecond, false, false},
		"a look has no answer again":            {claim{phase: observing, watches: true, tries: 1}, true, Observed{Err: ErrNoMajority}, 0, 0, false, false},
		"a look is refused again and again":     {claim{phase: observing, watches: true, tries: mostTries - 1}, false, Observed{Err: ErrNoMajority}, 0, 0, false, false},
		"a claim is refused again and again":    {claim{phase: trying, tries: mostTries - 1}, false, nil, time.Millisecond, round + time.Millisecond, false, false},
		"a claim is refused as often as can be": {claim{phase: trying, tries: 255}, false, nil, time.Millisecond, round + time.Millisecond, false, false},
	} {
		var first, last time.Duration = 1 << 60, -1
		c := newCluster(t, 1, func(cfg *Config) { cfg.RoundTimeout = round })
		p := c.peers[1]
		for seed := range 300 {
			p.lateUntil = 0
			i := p.newClaim(9, "a")
			x := tt.claim
			x.id, x.cell, x.next, x.att, x.life, x.token, x.ttl = 9, p.claims[i].cell, p.claims[i].next, -1, p.claims[i].life, 77, uint32(ttl.Milliseconds())
			x.deadline += c.now.Mono
			x.until += p.c
			p.claims[i] = x
			p.failed(i, tt.timedOut)
			out := p.outcomes
			p.outcomes = nil
			if seed == 0 {
				var got Report
				if len(out) > 0 {
					got = out[0]
				}
				ok := len(out) < 2
				switch want := tt.report.(type) {
				case nil:
					ok = ok && got == nil
				case Lost:
					want.ID = 9
					ok = ok && got == want
				case Released:
					want.ID = 9
					ok = ok && got == want
				case Refused:
					r, is := got.(Refused)
					ok = ok && is && r.ID == 9 && r.State.Name == "a" && errors.Is(r.Err, want.Err)
				case Observed:
					r, is := got.(Observed)
					ok = ok && is && r.ID == 9 && r.State.Name == "a" && errors.Is(r.Err, want.Err)
				case Waits:
					r, is := got.(Waits)
					ok = ok && is && r.ID == 9 && r.State.Name == "a" && errors.Is(r.Err, want.Err)
				}
				if !ok {
					t.Errorf("%s: its caller is told %+v, want %+v", name, out, tt.report)
				}
				if over := tt.soonest+tt.latest == 0; over != (len(p.byID) == 0) {
					t.Errorf("%s: %d claims are left", name, len(p.byID))
				}
				if late := p.lateUntil == c.now.Mono.Add(round); late != tt.late {
					t.Errorf("%s: nothing new is begun until %v from now", name, p.lateUntil.Sub(c.now.Mono))
				}
				if kept := p.claims[i].token == 77; kept != tt.token {
					t.Errorf("%s: it keeps the token of its last WRITE: %v", name, kept)
				}
				if tt.claim.phase == held && tt.token && p.rings(i) > max(min(p.claims[i].renewAt, p.claims[i].deadline).Add(tick), c.now.Mono.Add(2*tick)) {
					t.Errorf("%s: it is renewed at %v, and its alarm rings at %v", name, p.claims[i].renewAt, p.rings(i))
				}
			}
			if tt.soonest+tt.latest > 0 && len(p.byID) > 0 {
				d := p.rings(i).Sub(c.now.Mono)
				first, last = min(first, d), max(last, d)
				p.drop(i)
			}
		}
		if tt.soonest+tt.latest == 0 {
			continue
		}
		// A tick is lost to rounding up, and one more by what is set for this moment.
		if first < tt.soonest || first > tt.soonest+tt.latest/20+2*tick || last > tt.latest+2*tick || last < tt.latest*9/10 {
			t.Errorf("%s: it is tried again between %v and %v later, want %v and %v", name, first, last, tt.soonest, tt.latest)
		}
	}
}

// The lock delay of a lost lease is remembered until it is over at all clocks, and no longer.
func TestHowLongALockDelayIsRemembered(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	p.cells[p.cellOf("a")].promised = BallotOf(p.c+9000, 0, 2) // as long as something is remembered
	until := p.c + 1000
	p.delays[5] = until
	for _, tt := range []struct {
		now  Time
		kept bool
	}{{until - p.eps, true}, {until, true}, {until + p.eps - 1, true}, {until + p.eps, false}} {
		p.c, p.sweepAt = tt.now, 0
		if p.sweep(); (p.delays[5] != 0) != tt.kept {
			t.Errorf("%d ms behind its end a lock delay is remembered: %v, want %v", tt.now-until, p.delays[5] != 0, tt.kept)
		}
	}
}

// An alarm begins the next step of its claim, which depends on the phase.
func TestWhatAnAlarmBegins(t *testing.T) {
	const round, ttl = 256 * time.Millisecond, 4096 * time.Millisecond
	const tick = time.Duration(1 << tickBits)
	late := func(by time.Duration) []Report {
		return []Report{Alarm{Kind: Late, By: by, Why: "renewals are late: this peer has too much to do, or was stopped"}}
	}
	for name, tt := range map[string]struct {
		claim  claim // renewAt, deadline and until are behind now
		full   bool  // as many renewals are under way as may be
		stage  stage // of what it begins; idle for nothing
		aim    aim
		queued bool
		rings  time.Duration // when it is looked at again, without a tick or two; 0 for nothing that is wanted
		report []Report
	}{
		"its renewal is due":                 {claim{phase: held, deadline: 9e9, until: 9000}, false, reading, renewing, false, 2 * round, nil},
		"its renewal was due":                {claim{phase: held, renewAt: -machine.Mono(ttl / 16), deadline: 9e9, until: 9000}, false, reading, renewing, false, 2 * round, nil},
		"its renewal was due long ago":       {claim{phase: held, renewAt: -machine.Mono(ttl/16) - 1, deadline: 9e9, until: 9000}, false, reading, renewing, false, 2 * round, late(ttl/16 + 1)},
		"its next try was due long ago":      {claim{phase: held, renewAt: -machine.Mono(ttl), deadline: 9e9, until: 9000, tries: 1}, false, reading, renewing, false, 2 * round, nil},
		"its renewal, near its end":          {claim{phase: held, deadline: machine.Mono(round), until: 9000}, false, reading, renewing, false, round, nil},
		"its renewal, behind many":           {claim{phase: held, deadline: 9e9, until: 9000}, true, idle, 0, false, round / 32, nil},
		"it is not due":                      {claim{phase: held, renewAt: machine.Mono(round), deadline: 9e9, until: 9000}, false, idle, 0, false, round, nil},
		"it is over":                         {claim{phase: held, deadline: 0, until: 9000}, false, idle, 0, false, 0, []Report{Lost{ID: 9, Why: "it was not renewed in time"}}},
		"its release is to be tried":         {claim{phase: releasing, until: 9000, wrote: 77}, false, writing, returning, false, 2 * round, nil},
		"its release, under a new one":       {claim{phase: releasing, until: 9000}, false, reading, returning, false, 2 * round, nil},
		"the lease that it releases is over": {claim{phase: releasing, until: -100, wrote: 77}, false, idle, 0, false, 0, []Report{Released{ID: 9}}},
		"it waits":                           {claim{phase: waiting, ticket: 5}, false, peeking, looking, false, 2 * round, nil},
		"it is to be tried again":            {claim{phase: trying}, false, idle, 0, true, 0, nil},
		"it is to be looked at again":        {claim{phase: observing, watches: true}, false, idle, 0, true, 0, nil},
		"its turn has not come":              {claim{phase: queued}, false, idle, 0, false, 0, nil},
	} {
		c := newCluster(t, 3, func(cfg *Config) { cfg.RoundTimeout = round })
		p := c.peers[1]
		i := p.newClaim(9, "a")
		x := tt.claim
		x.id, x.cell, x.next, x.att, x.life, x.ttl = 9, p.claims[i].cell, p.claims[i].next, -1, p.claims[i].life, uint32(ttl.Milliseconds())
		x.deadline += c.now.Mono
		x.renewAt += c.now.Mono
		x.until += p.c
		p.claims[i] = x
		if tt.full {
			p.renewals = p.cfg.MaxAttempts
		}
		p.rang(i)
		out := p.outcomes
		p.outcomes = nil
		if len(out)+len(tt.report) > 0 && !reflect.DeepEqual(out, tt.report) {
			t.Errorf("%s: the peer reports %+v, want %+v", name, out, tt.report)
		}
		if isLate := p.lateUntil > 0; isLate != (len(tt.report) == 1 && reflect.TypeOf(tt.report[0]) == reflect.TypeFor[Alarm]()) || isLate && p.lateUntil != c.now.Mono.Add(round) {
			t.Errorf("%s: nothing new is begun until %v", name, p.lateUntil)
		}
		got := &p.claims[i]
		st, why := idle, aim(0)
		if got.att >= 0 {
			st, why = p.attempts[got.att].stage, p.attempts[got.att].aim
		}
		if st != tt.stage || why != tt.aim {
			t.Errorf("%s: it begins %d for %d, want %d for %d", name, st, why, tt.stage, tt.aim)
		}
		if n := len(p.turns) - p.turn; (n == 1) != tt.queued || tt.queued && got.phase != queued {
			t.Errorf("%s: it waits for its turn: %v, want %v", name, n == 1, tt.queued)
		}
		if d := p.rings(i).Sub(c.now.Mono); tt.rings > 0 && (d < tt.rings || d > tt.rings+2*tick) {
			t.Errorf("%s: its alarm rings %v later, want %v", name, d, tt.rings)
		}
		if tt.stage == idle || got.att < 0 {
			continue
		}
		a := got.att
		c.later(2*round - 1)
		p.now, p.c = c.now, TimeOf(c.now.Wall)
		got.deadline, got.until = machine.Never, 1<<40
		if p.rang(i); got.att != a || p.rings(i) < c.now.Mono+1 || p.rings(i) > (c.now.Mono+1).Add(2*tick) {
			t.Errorf("%s: before its time is over an attempt ends, or its alarm rings at %v", name, p.rings(i).Sub(c.now.Mono))
		}
		c.later(1)
		p.now, p.c = c.now, TimeOf(c.now.Wall)
		if p.rang(i); got.att == a && p.attempts[a].stage == tt.stage {
			t.Errorf("%s: when its time is over an attempt goes on", name)
		}
	}
}

// While renewals are late the peer wants to be woken when they are not, if somebody waits for a turn; and looks of claims
// that wait have a limit of their own.
func TestTurnsThatWait(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	p.Step(c.now, Acquire{ID: 7, Name: "a"})
	p.lateUntil = c.now.Mono.Add(100 * time.Millisecond)
	if rd := p.Ready(); len(rd.Sends) > 0 || rd.Alarm != p.lateUntil {
		t.Errorf("while renewals are late the peer says %+v, and wants to be woken %v from then", rd.Sends, rd.Alarm.Sub(p.lateUntil))
	}
	c.later(100 * time.Millisecond)
	if said, _ := c.ask(1, labstage.Wake{}); len(said[2]) != 1 {
		t.Errorf("when they are not, it says %+v", said)
	}
	i := p.newClaim(9, "b")
	for _, tt := range []struct {
		busy, looks int
		begins      bool
	}{{0, p.cfg.MaxAttempts, false}, {p.cfg.MaxAttempts, p.cfg.MaxAttempts - 1, true}} {
		p.busy, p.looks, p.claims[i].phase = tt.busy, tt.looks, waiting
		p.look(i)
		if begins := p.claims[i].att >= 0; begins != tt.begins {
			t.Errorf("with %d attempts and %d looks under way, a claim looks: %v, want %v", tt.busy, tt.looks, begins, tt.begins)
		}
		if d := p.rings(i).Sub(c.now.Mono); !tt.begins && (d < time.Millisecond || d > p.cfg.poll()+4*time.Millisecond) {
			t.Errorf("for a look there is no room, and it is tried again %v later", d)
		}
	}
}
