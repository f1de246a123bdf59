package flease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// The paper's counts (section 4 and A1): two round trips and 4(n-1) messages between
// processes for GetLease, renewal or not; one round trip and 2(n-1) for a release and for a
// look.
func TestCosts(t *testing.T) {
	for _, n := range []int{1, 3, 5, 7} {
		c := newCluster(t, n, func(cfg *Config) { cfg.View.Replicas = n })
		c.counted()
		want := func(what string, messages, rounds int) {
			t.Helper()
			if m, r := c.counted(); m != messages || n > 1 && r != rounds {
				t.Errorf("%s among %d: %d messages in %d one-way trips, want %d in %d", what, n, m, r, messages, rounds)
			}
		}
		c.do(1, Acquire{ID: 7, Name: "a"})
		got := last[Acquired](c, 1)
		want("acquire", 4*(n-1), 4)
		c.do(2%machine.NodeID(n)+1, Observe{ID: 8, Name: "a"})
		if s := last[Observed](c, 2%machine.NodeID(n)+1).State; len(s.Holdings) != 1 || uint64(s.Holdings[0].Token) != got.Token || !s.Stable {
			t.Errorf("observed %+v, want the holder with token %d", s, got.Token)
		}
		want("observe", 2*(n-1), 2)
		renewals := 0
		for range 100 {
			c.pass(100 * time.Millisecond)
			if has[Renewed](c, 1) {
				renewals++
				c.out[1] = nil
				want("renew", 4*(n-1), 4)
			}
		}
		if renewals != 2 {
			t.Errorf("%d renewals in t_max, want 2", renewals)
		}
		c.counted()
		c.do(1, Release{ID: 7})
		if !last[Released](c, 1).Confirmed {
			t.Error("the release is not confirmed")
		}
		want("release", 2*(n-1), 2)
	}
}

// TestIdleForAnHour: an hour's allowance for slewing does not cover a step of that size in
// its last moment. Slewing that is looked at every second is no step.
func TestIdleForAnHour(t *testing.T) {
	c := newCluster(t, 1, nil)
	p := c.peers[1]
	jumps := func(mono, wall time.Duration) bool {
		c.now.Mono, c.now.Wall = c.now.Mono.Add(mono), c.now.Wall+machine.Wall(wall)
		p.Wake(c.now)
		return slices.ContainsFunc(p.Ready().Outcomes, func(out Report) bool {
			a, ok := out.(Alarm)
			return ok && a.Kind == Jump
		})
	}
	for range 3600 {
		if jumps(time.Second, time.Second+time.Millisecond) {
			t.Fatal("a clock that is slewed by a thousandth passes for one that was set")
		}
	}
	if !jumps(time.Hour, time.Hour+5*time.Second) {
		t.Error("a step of five seconds after an idle hour passes for slewing")
	}
}

func TestTokensGrowAndTakeoverWaits(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.do(1, Acquire{ID: 1, Name: "a", Holder: "one"})
	first := last[Acquired](c, 1)
	c.do(2, Acquire{ID: 2, Name: "a", Try: true})
	if r := last[Refused](c, 2); r.Err != nil || len(r.State.Holdings) != 1 || r.State.Holdings[0].Holder != "one" {
		t.Fatalf("refused with %+v", r)
	}
	c.do(2, Acquire{ID: 3, Name: "a"})
	if s := last[Waits](c, 2).State; len(s.Holdings) != 1 {
		t.Fatalf("waits for %+v", s)
	}
	// A release is heard of at once.
	c.do(1, Release{ID: 1})
	second := last[Acquired](c, 2)
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
	// The dead are waited out, and ε.
	delete(c.peers, 2)
	c.do(3, Acquire{ID: 4, Name: "a"})
	c.pass(second.Deadline.Sub(c.now.Mono))
	if has[Acquired](c, 3) {
		t.Fatal("acquired while the dead holder might hold")
	}
	c.pass(time.Duration(second.Until-c.now.Wall) + 100*time.Millisecond)
	c.pass(3 * time.Millisecond)
	if third := last[Acquired](c, 3); third.Token <= second.Token {
		t.Errorf("token %d after %d", third.Token, second.Token)
	}
}

func TestSharedHolders(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.do(1, Acquire{ID: 1, Name: "a", Slots: Shared})
	c.do(2, Acquire{ID: 2, Name: "a", Slots: Shared})
	c.do(2, Acquire{ID: 3, Name: "a", Slots: 2, Try: true})
	if !has[Acquired](c, 1) || !has[Acquired](c, 2) || !has[Refused](c, 2) {
		t.Fatalf("%+v %+v", c.out[1], c.out[2])
	}
	c.do(3, Acquire{ID: 4, Name: "a"}) // a writer waits
	c.do(1, Acquire{ID: 5, Name: "a", Slots: Shared, Try: true})
	if last[Refused](c, 1).State.Waiting != 1 {
		t.Errorf("a later reader overtakes: %+v", c.out[1])
	}
	c.pass(30 * time.Second) // renewals keep both
	for id := range machine.NodeID(2) {
		if has[Lost](c, id+1) {
			t.Fatalf("%+v", c.out[id+1])
		}
	}
	c.do(1, Release{ID: 1})
	if has[Acquired](c, 3) {
		t.Fatal("the writer holds beside a reader")
	}
	c.do(2, Release{ID: 2})
	if !has[Acquired](c, 3) {
		t.Fatalf("the writer does not hold: %+v", c.out[3])
	}
}

func TestHandover(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.do(1, Acquire{ID: 1, Name: "a"})
	c.do(2, Acquire{ID: 2, Name: "a"})
	c.do(3, Acquire{ID: 3, Name: "a"})
	c.do(1, Handover{ID: 1, To: 3})
	if !has[Acquired](c, 3) || has[Acquired](c, 2) {
		t.Errorf("not the heir holds: %+v, %+v", c.out[2], c.out[3])
	}
	c.do(3, Release{ID: 3})
	if !has[Acquired](c, 2) {
		t.Errorf("the first in the line does not hold: %+v", c.out[2])
	}
}

// A lock delay is waited out, also by the holder's own peer; a release is not delayed.
func TestLockDelay(t *testing.T) {
	c := newCluster(t, 3, nil)
	for _, next := range []machine.NodeID{1, 2} {
		name := fmt.Sprint("to", next)
		c.do(1, Acquire{ID: 1, Name: name, TTL: 2 * time.Second, LockDelay: 3 * time.Second})
		got := last[Acquired](c, 1)
		if d := got.Deadline.Sub(c.now.Mono); d > 2*time.Second {
			t.Fatalf("the holder itself uses its lock delay: %v", d)
		}
		c.cut = func(env machine.Envelope) bool { return env.From == 1 || env.To == 1 }
		c.pass(2 * time.Second)
		last[Lost](c, 1)
		c.cut = nil
		c.out = map[machine.NodeID][]Report{}
		c.do(next, Acquire{ID: 2, Name: name})
		c.pass(2500 * time.Millisecond)
		if has[Acquired](c, next) {
			t.Errorf("peer %d does not wait for the lock delay", next)
		}
		c.pass(time.Second)
		if !has[Acquired](c, next) {
			t.Errorf("peer %d does not acquire after the lock delay: %+v", next, c.out[next])
		}
		c.do(next, Release{ID: 2})
	}
}

// The lock delay of a lease that was renewed is waited out by its own peer, too: from its last renewal.
func TestLockDelayOfARenewedLease(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.do(1, Acquire{ID: 1, Name: "a", TTL: 2 * time.Second, LockDelay: 3 * time.Second})
	c.pass(5 * time.Second)
	renewed := last[Renewed](c, 1)
	c.cut = func(env machine.Envelope) bool { return env.From == 1 || env.To == 1 }
	c.pass(2 * time.Second)
	last[Lost](c, 1)
	c.cut = nil
	c.do(1, Acquire{ID: 2, Name: "a"})
	free := renewed.Until + machine.Wall(3*time.Second+100*time.Millisecond) // behind the lock delay, and ε
	c.pass(time.Duration(free-c.now.Wall) - 5*time.Millisecond)
	if has[Acquired](c, 1) && last[Acquired](c, 1).ID == 2 {
		t.Error("the peer that has lost a lease which it had renewed does not wait for the lock delay")
	}
	c.pass(time.Second)
	if got := last[Acquired](c, 1); got.ID != 2 {
		t.Errorf("behind the lock delay claim %d has acquired last, want 2", got.ID)
	}
}

// An idle resource takes no memory.
func TestIdleResourcesCostNothing(t *testing.T) {
	c := newCluster(t, 3, nil)
	for i := range 200 {
		c.do(1, Acquire{ID: uint64(i), Name: fmt.Sprint(i)})
		if i%2 == 0 {
			c.do(1, Release{ID: uint64(i)})
		}
	}
	if s := c.peers[1].Stats(); s.Cells != 200 || s.Held != 100 || s.Claims != 100 || s.Attempts != 0 {
		t.Fatalf("%+v", s)
	}
	for i := range 200 {
		c.do(1, Release{ID: uint64(i)})
	}
	c.pass(2*c.peers[1].cfg.TMax + c.peers[1].quarantine)
	for id, p := range c.peers {
		if s := p.Stats(); s != (Stats{}) {
			t.Errorf("peer %d keeps %+v of what is idle", id, s)
		}
		if a := c.alarm[id]; a != machine.Never {
			t.Errorf("peer %d wants to be woken in %v, for nothing", id, a.Sub(c.now.Mono))
		}
	}
}

func TestBadClaims(t *testing.T) {
	c := newCluster(t, 1, nil)
	for what, in := range map[string]Acquire{
		"no name":       {},
		"a long name":   {Name: strings.Repeat("x", maxName+1)},
		"a long holder": {Name: "a", Holder: strings.Repeat("x", maxHolder+1)},
		"a short TTL":   {Name: "a", TTL: time.Millisecond},
		"a long TTL":    {Name: "a", TTL: 11 * time.Second},
		"a long delay":  {Name: "a", TTL: 6 * time.Second, LockDelay: 5 * time.Second},
		"bad slots":     {Name: "a", Slots: -1},
	} {
		in.ID = 9
		c.out[1] = nil
		c.do(1, in)
		if err := last[Refused](c, 1).Err; !errors.Is(err, ErrClaim) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestBadConfigs(t *testing.T) {
	for what, edit := range map[string]func(*Config){
		"t_max for ε":          func(c *Config) { c.TMax = 400 * time.Millisecond },
		"t_max for timeouts":   func(c *Config) { c.RoundTimeout = 3 * time.Second },
		"no ε":                 func(c *Config) { c.Epsilon = 0 },
		"index 0":              func(c *Config) { c.Self = 0 },
		"a great index":        func(c *Config) { c.Self = MaxMember + 1 },
		"no incarnation":       func(c *Config) { c.Incarnation = 0 },
		"one index twice":      func(c *Config) { c.View.Members = []machine.NodeID{1, 2, 2} },
		"no members":           func(c *Config) { c.View.Members = nil },
		"epoch 0":              func(c *Config) { c.View.Epoch = 0 },
		"fractions of t_max":   func(c *Config) { c.TMax += time.Microsecond },
		"a guard of all":       func(c *Config) { c.Guard = c.TMax },
		"more than a word has": func(c *Config) { c.TMax = 10000 * time.Hour },
		"no claims":            func(c *Config) { c.MaxClaims = -1 },
		"too many claims":      func(c *Config) { c.MaxClaims = 1<<attemptBits + 1 },
		"no attempts":          func(c *Config) { c.MaxAttempts = -1 },
		"no queue":             func(c *Config) { c.MaxQueued = -1 },
	} {
		cfg := testConfig(1, 3)
		edit(&cfg)
		if _, err := New(cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), ";") && !strings.Contains(err.Error(), ":") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDurableRestartsAtOnce(t *testing.T) {
	c := newCluster(t, 3, nil)
	_ = c
	var log []*Record
	cfg := testConfig(1, 1)
	cfg.Durable, cfg.Restore = true, []*Record{{}}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	now := c.now
	pump := func(input any) (out []Report) {
		inputs := []any{input}
		for len(inputs) > 0 {
			labstage.Feed(p, now, inputs[0])
			inputs = inputs[1:]
			rd := p.Ready()
			out = append(out, rd.Outcomes...)
			for _, r := range rd.Persists {
				if r.Record != nil {
					log = append(log, r.Record.(*Record))
				}
				for _, env := range r.Then {
					inputs = append(inputs, env)
				}
			}
		}
		return out
	}
	pass := func(d time.Duration) {
		now.Mono, now.Wall = now.Mono.Add(d), now.Wall+machine.Wall(d)
	}
	pump(labstage.Wake{})
	pass(cfg.Epsilon + time.Millisecond)
	got, ok := pump(Acquire{ID: 1, Name: "a"})[1].(Acquired)
	if !ok || len(log) == 0 {
		t.Fatal("not acquired, or nothing persisted")
	}
	cfg.Incarnation, cfg.Restore = 2, log
	if p, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	pump(labstage.Wake{})
	pass(cfg.Epsilon + time.Millisecond)
	out := pump(Acquire{ID: 1, Name: "a", Try: true})
	if r, ok := out[len(out)-1].(Refused); !ok || len(r.State.Holdings) != 1 || uint64(r.State.Holdings[0].Token) != got.Token {
		t.Errorf("the next life has forgotten the lease: %+v", out)
	}
}
