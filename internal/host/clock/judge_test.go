package clock

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/machine"
)

const ms = time.Millisecond

// clocks are a machine's, which somebody plays with.
type clocks struct {
	Evidence
	judge Judge
	odd   []Oddity
}

// goOn lets time pass in looks of 100 ms, in which the clocks go at rates of their own.
func (c *clocks) goOn(d time.Duration, rate, raw float64) {
	for range d / (100 * ms) {
		step := func(rate float64) time.Duration { return 100*ms + time.Duration(rate*float64(100*ms)) }
		c.Now, c.Running, c.Raw, c.Wall = c.Now.Add(step(rate)), c.Running+step(rate), c.Raw+step(raw), c.Wall+machine.Wall(step(rate))
		c.look()
	}
}

func (c *clocks) look() { c.odd = append(c.odd, c.judge.Look(c.Evidence)...) }

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*clocks)
		want []Kind // of the first look after it, and of none later
	}{
		{"nothing", func(*clocks) {}, nil},
		{"NTP, as it usually corrects", func(c *clocks) { c.goOn(5*time.Second, 0.0005, -0.00005) }, nil},
		{"a crystal that is off", func(c *clocks) { c.goOn(5*time.Second, 0.002, 0.002) }, nil},
		{"looks that took long", func(c *clocks) { c.Within, c.Wall = 80*ms, c.Wall+machine.Wall(80*ms) }, nil},
		{"a look that took long, to which quick ones are compared", func(c *clocks) {
			c.Within, c.Wall = 80*ms, c.Wall+machine.Wall(80*ms)
			c.goOn(100*ms, 0, 0)
			c.Within, c.Wall = ms/10, c.Wall-machine.Wall(80*ms)
		}, nil},
		{"a daemon steps the time of day by little", func(c *clocks) { c.Wall += machine.Wall(4 * ms) }, nil},
		{"a daemon steps the time of day by too much", func(c *clocks) { c.Wall += machine.Wall(6 * ms) }, []Kind{Set}},
		{"the time of day is set by little, at each look", func(c *clocks) {
			c.goOn(500*ms, 0, 0)
			for range 2 {
				c.Wall += machine.Wall(3 * ms)
				c.goOn(100*ms, 0, 0)
			}
		}, []Kind{Set}},
		{"a long look that shows the clock of leases ahead of the other", func(c *clocks) {
			c.Within, c.Now, c.Wall = 20*ms, c.Now.Add(15*ms), c.Wall+machine.Wall(15*ms)
		}, nil},
		{"the time of day is set forward", func(c *clocks) { c.Wall += machine.Wall(20 * ms) }, []Kind{Set}},
		{"the time of day is set back", func(c *clocks) { c.Wall -= machine.Wall(time.Hour) }, []Kind{Set}},
		{"suspended", func(c *clocks) { c.Now, c.Wall = c.Now.Add(time.Hour), c.Wall+machine.Wall(time.Hour) }, []Kind{Slept}},
		{"stopped", func(c *clocks) {
			c.Now, c.Wall, c.Running, c.Raw = c.Now.Add(3*time.Second), c.Wall+machine.Wall(3*time.Second), c.Running+3*time.Second, c.Raw+3*time.Second
		}, []Kind{Paused}},
		{"stopped for less than counts", func(c *clocks) {
			c.Now, c.Wall, c.Running, c.Raw = c.Now.Add(800*ms), c.Wall+machine.Wall(800*ms), c.Running+800*ms, c.Raw+800*ms
		}, nil},
		{"stopped for a little more than counts", func(c *clocks) {
			c.Now, c.Wall, c.Running, c.Raw = c.Now.Add(time.Second), c.Wall+machine.Wall(time.Second), c.Running+time.Second, c.Raw+time.Second
		}, []Kind{Paused}},
		{"stopped for just less than counts, while the clocks moved apart by little", func(c *clocks) {
			c.Now, c.Wall, c.Running, c.Raw = c.Now.Add(898*ms), c.Wall+machine.Wall(898*ms), c.Running+901*ms, c.Raw+901*ms
		}, nil},
		{"suspended for long, which is no standstill", func(c *clocks) {
			c.Now, c.Wall, c.Running, c.Raw = c.Now.Add(3500*ms), c.Wall+machine.Wall(3500*ms), c.Running+500*ms, c.Raw+500*ms
		}, []Kind{Slept}},
		{"a long look that shows the clock of leases behind the other", func(c *clocks) {
			c.Within, c.Running, c.Raw = 20*ms, c.Running+15*ms, c.Raw+15*ms
		}, nil},
		{"suspended for less than counts", func(c *clocks) { c.Now, c.Wall = c.Now.Add(5*ms), c.Wall+machine.Wall(5*ms) }, nil},
		{"suspended for a little more than counts", func(c *clocks) { c.Now, c.Wall = c.Now.Add(6*ms), c.Wall+machine.Wall(6*ms) }, []Kind{Slept}},
		{"frozen with all clocks, and told the time", func(c *clocks) { c.Wall += machine.Wall(10 * time.Second) }, []Kind{Set}},
		{"jumped ahead of all others", func(c *clocks) { c.Now = c.Now.Add(300 * ms) }, []Kind{Slept, Set}}, // in doubt
		{"went back", func(c *clocks) { c.Now = c.Now.Add(-300 * ms) }, []Kind{Back}},
		{"went back by less than passed", func(c *clocks) { c.Now = c.Now.Add(-50 * ms) }, []Kind{Back}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &clocks{Evidence: Evidence{Now: 1e12, Running: 1e12, Raw: 1e12, Wall: 1e18, Within: ms / 10}}
			c.goOn(time.Second, 0, 0)
			tt.do(c)
			c.goOn(3*time.Second, 0, 0)
			var got []Kind
			for _, o := range c.odd {
				got = append(got, o.Kind)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", c.odd, tt.want)
			}
		})
	}
}

// TestJudgeRates: a rate that leases do not allow for is seen at the next look, as long
// as it lasts, and one that is allowed is not.
func TestJudgeRates(t *testing.T) {
	for _, tt := range []struct {
		rate float64
		odd  bool
	}{{0.083, true}, {-0.083, true}, {0.01, true}, {-0.007, true}, {0.003, false}, {-0.003, false}} {
		t.Run(fmt.Sprint(tt.rate), func(t *testing.T) {
			c := &clocks{Evidence: Evidence{Within: ms / 100}}
			c.goOn(2*time.Second, 0, 0)
			c.goOn(100*ms, tt.rate, 0)
			if first := len(c.odd) > 0; first != tt.odd {
				t.Fatalf("after 100 ms: %v", c.odd)
			}
			c.goOn(2*time.Second, tt.rate, 0)
			for _, o := range c.odd {
				if o.Kind != Fast || !o.Kind.Doubtful() || (o.By > 0) != (tt.rate > 0) {
					t.Fatalf("%v", o)
				}
			}
			if n := len(c.odd); tt.odd && n != 21 {
				t.Errorf("it was odd for %d looks of 21", n)
			}
			n := len(c.odd)
			c.goOn(2*time.Second, 0, 0)
			if len(c.odd) != n {
				t.Errorf("it is right again, and yet: %v", c.odd[n:])
			}
		})
	}
}

// TestWhatIsComparedTo: what is odd is told against a look that is a second old by the raw clock, and
// no older, and not told again.
func TestWhatIsComparedTo(t *testing.T) {
	var j Judge
	at := func(raw, running time.Duration, now machine.Mono) Evidence {
		return Evidence{Now: now, Running: running, Raw: raw, Wall: machine.Wall(now), Within: ms}
	}
	const s = machine.Mono(time.Second)
	for _, tt := range []struct {
		e     Evidence
		since machine.Mono
		odd   int
	}{
		{at(0, 0, 10*s), 10 * s, 0},
		{at(500*ms, 500*ms, 10*s+s/2), 10 * s, 0},
		{at(999*ms, 1001*ms, 11*s+s/1000), 10 * s, 0},
		{at(1000*ms, 1001*ms, 11*s+s/1000), 11*s + s/1000, 0},
		{at(1100*ms, 1101*ms, 12*s), 12 * s, 1}, // slept
		{at(1200*ms, 1201*ms, 12*s+s/10), 12 * s, 0},
	} {
		if odd := j.Look(tt.e); len(odd) != tt.odd || j.Since() != tt.since {
			t.Errorf("a look at %v of the raw clock: odd is %v, and the next is compared to the one at %v; want %d oddities, and %v", tt.e.Raw, odd, time.Duration(j.Since()), tt.odd, time.Duration(tt.since))
		}
	}
}

// TestEachClockIsRead: what a look shows is read from the clock that is meant, and where there is
// no raw clock the other one stands for it.
func TestEachClockIsRead(t *testing.T) {
	shows := map[int32]time.Duration{unix.CLOCK_MONOTONIC: 5 * time.Second, unix.CLOCK_MONOTONIC_RAW: 7 * time.Second}
	for hidden, want := range map[int32]time.Duration{-1: 7 * time.Second, unix.CLOCK_MONOTONIC_RAW: 5 * time.Second} {
		var first, last machine.Mono // when another clock was read
		e := readAllBy(func(id int32) (time.Duration, error) {
			if last = Now(); first == 0 {
				first = last
			}
			for Now() == last { // until a moment has passed
			}
			if id == hidden {
				return time.Hour, unix.EINVAL
			}
			return shows[id], nil
		})
		if e.Running != 5*time.Second || e.Raw != want {
			t.Errorf("the clock that stands still in suspend shows 5s and the raw one 7s, without clock %d: a look has %v and %v, want 5s and %v", hidden, e.Running, e.Raw, want)
		}
		if e.Now > first || e.Now.Add(e.Within) <= last {
			t.Errorf("a look says that it took from %v to %v, and clocks were read from %v to %v", e.Now, e.Now.Add(e.Within), first, last)
		}
	}
}

// TestLook: this machine's clocks show the same time, and what they show grows.
func TestLook(t *testing.T) {
	before, a := Now(), Look()
	b, after := Look(), Now()
	if a.Now < before || b.Now < a.Now || b.Now > after {
		t.Errorf("looks at %v and %v, between %v and %v", a.Now, b.Now, before, after)
	}
	if b.Running < a.Running || b.Raw < a.Raw || a.Running <= 0 || a.Raw <= 0 || a.Wall <= 0 || a.Within <= 0 {
		t.Errorf("looks %+v, %+v", a, b)
	}
}

// TestLookTakesTheRawClock: Look shows the clock without NTP's corrections, wherever there is
// one, or a rate that is wrong would not show.
func TestLookTakesTheRawClock(t *testing.T) {
	before, err := read(unix.CLOCK_MONOTONIC_RAW)
	if err != nil {
		t.Skip("this machine has no raw clock:", err)
	}
	raw := Look().Raw
	if after, err := read(unix.CLOCK_MONOTONIC_RAW); err != nil || raw < before || raw > after {
		t.Errorf("Look shows %v, and the raw clock showed %v before and %v after (%v)", raw, before, after, err)
	}
}

// TestBestLook: of several looks the quickest counts, and none is made after one that was quick
// enough.
func TestBestLook(t *testing.T) {
	for _, tt := range []struct {
		within []time.Duration // of each look; the last goes on
		want   time.Duration
		looks  int
	}{
		{[]time.Duration{moment - 1, 1}, moment - 1, 1},
		{[]time.Duration{3 * ms, moment, moment - 1, 1}, moment - 1, 3},
		{[]time.Duration{3 * ms, ms, 5 * ms}, ms, 16},
	} {
		looks := 0
		got := best(func() Evidence {
			e := Evidence{Within: tt.within[min(looks, len(tt.within)-1)]}
			looks++
			return e
		})
		if got.Within != tt.want || looks != tt.looks {
			t.Errorf("looks that took %v: the one of %v counts after %d, want the one of %v after %d", tt.within, got.Within, looks, tt.want, tt.looks)
		}
	}
}

// TestOddityText: an operator is told by how much, and in which time.
func TestOddityText(t *testing.T) {
	for _, tt := range []struct {
		do   func(*clocks)
		want string
	}{
		{func(c *clocks) { c.goOn(2*time.Second, 0, 0) }, ""},
		{func(c *clocks) {
			c.Now, c.Wall, c.Running, c.Raw = c.Now.Add(3*time.Second), c.Wall+machine.Wall(3*time.Second), c.Running+3*time.Second, c.Raw+3*time.Second
		}, "this process stood still for 3.1s"},
		{func(c *clocks) { c.Now, c.Wall = c.Now.Add(time.Hour), c.Wall+machine.Wall(time.Hour) }, "this machine was suspended for 1h0m0s"},
		{func(c *clocks) { c.Wall += machine.Wall(20 * ms) }, "the time of day went 1.02s while the clock of leases went 1s: it was set, or this machine was frozen"},
		{func(c *clocks) { c.Wall -= machine.Wall(20 * ms) }, "the time of day went 980ms while the clock of leases went 1s: it was set, or this machine was frozen"},
		{func(c *clocks) { c.goOn(100*ms, 0.08, 0) }, "the clock of leases goes at a wrong rate: 108ms in 100ms"},
		{func(c *clocks) { c.goOn(100*ms, -0.08, 0) }, "the clock of leases goes at a wrong rate: 92ms in 100ms"},
		{func(c *clocks) { c.Now = c.Now.Add(-300 * ms) }, "the clock of leases went back by 200ms"},
		{func(c *clocks) { c.Now = c.Now.Add(-50 * ms) }, "the clock of leases went back by 50ms"},
	} {
		c := &clocks{Evidence: Evidence{Now: 1e12, Running: 1e12, Raw: 1e12, Wall: 1e18, Within: ms / 100}}
		c.goOn(time.Second, 0, 0)
		tt.do(c)
		c.goOn(100*ms, 0, 0)
		got := ""
		if len(c.odd) > 0 {
			got = c.odd[0].String()
		}
		if got != tt.want {
			t.Errorf("it is told that %q, want %q", got, tt.want)
		}
	}
	if got := (Oddity{Kind: 77, By: ms, Over: time.Second}).String(); got != "clock: odd: {Kind:77 By:1ms Over:1s}" {
		t.Errorf("a kind that there is not: %q", got)
	}
}

// TestSince: what is odd has happened since then, so what ran out later may not be over (R11).
func TestSince(t *testing.T) {
	c := &clocks{Evidence: Evidence{Now: 1e12, Running: 1e12, Raw: 1e12, Wall: 1e18, Within: ms / 100}}
	c.goOn(3*time.Second, 0, 0)
	before := c.Now
	c.Now = c.Now.Add(6 * time.Second)
	since := c.judge.Since()
	c.look()
	if len(c.odd) == 0 || since > before || before.Sub(since) > 1100*ms {
		t.Errorf("%v since %v, want a jump since %v or little before", c.odd, since, before)
	}
	if got := c.judge.Since(); got != c.Now {
		t.Errorf("after that it compares from %v on, want %v", got, c.Now)
	}
}

// TestDoubtful: what may have moved the clock of leases is a doubt; what stopped this process or
// the machine with all its clocks is none.
func TestDoubtful(t *testing.T) {
	for kind, want := range map[Kind]bool{Paused: false, Slept: false, Set: true, Fast: true, Back: true} {
		if kind.Doubtful() != want {
			t.Errorf("kind %d: doubtful is %v, want it in doubt: %v", kind, !want, want)
		}
	}
}

// TestSmallErrorsAddUp: a wrong rate that does not show from one look to the next, for looks take
// long, shows over a second, and one that leases allow for does not.
func TestSmallErrorsAddUp(t *testing.T) {
	for rate, odd := range map[float64]bool{0.01: true, -0.01: true, 0.003: false, -0.003: false} {
		c := &clocks{Evidence: Evidence{Within: ms}}
		c.goOn(2*time.Second, 0, 0)
		c.goOn(2*time.Second, rate, 0)
		if got := len(c.odd) > 0; got != odd {
			t.Errorf("a rate that is off by %v for two seconds: %v, want it seen: %v", rate, c.odd, odd)
		}
		for _, o := range c.odd {
			if o.Kind != Fast || (o.By > 0) != (rate > 0) || o.Over > time.Second {
				t.Errorf("a rate that is off by %v is told as %v", rate, o)
			}
		}
	}
}

// TestRatesAndTheTimeOfALook: how long either look took may account for a difference, and no more than that.
func TestRatesAndTheTimeOfALook(t *testing.T) {
	const raw = 100 * ms // of which a two-hundredth is allowed anyway
	for _, tt := range []struct {
		before, after, by time.Duration
		odd               bool
	}{
		{0, 0, ms / 2, false},
		{0, 0, ms/2 + 1, true},
		{0, 0, -ms / 2, false},
		{0, 0, -ms/2 - 1, true},
		{3 * ms, 0, ms/2 + 3*ms, false},
		{3 * ms, 0, ms/2 + 3*ms + 1, true},
		{0, 4 * ms, -ms/2 - 4*ms, false},
		{0, 4 * ms, -ms/2 - 4*ms - 1, true},
		{3 * ms, 4 * ms, ms/2 + 7*ms, false},
		{3 * ms, 4 * ms, ms/2 + 7*ms + 1, true},
	} {
		before := Evidence{Running: time.Second, Raw: 2 * time.Second, Within: tt.before}
		after := Evidence{Running: time.Second + raw + tt.by, Raw: 2*time.Second + raw, Within: tt.after}
		if o, odd := after.rate(before); odd != tt.odd || odd && o != (Oddity{Fast, tt.by, raw}) {
			t.Errorf("looks that took %v and %v, and %v too much in %v: %+v, odd: %v, want %v", tt.before, tt.after, tt.by, raw, o, odd, tt.odd)
		}
	}
}
