package holder

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

var errTrouble = errors.New("trouble")

// held is a lease that lasts until the deadline.
func held(c clock.Clock, deadline machine.Mono) *Lease {
	l := Make(&Clocks{Mono: c}, "name", "holder", nil)
	l.Begin(1, deadline, 0)
	return &l
}

func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(s *Lease, c *clock.Fake)
		want []error
	}{
		"in time":              {func(s *Lease, c *clock.Fake) { c.Advance(59) }, nil},
		"late":                 {func(s *Lease, c *clock.Fake) { c.Advance(60) }, []error{tenure.ErrLost}},
		"trouble in time":      {func(s *Lease, c *clock.Fake) { s.Trouble(errTrouble); c.Advance(59) }, nil},
		"late, with a reason":  {func(s *Lease, c *clock.Fake) { s.Trouble(errTrouble); c.Advance(60) }, []error{tenure.ErrLost, errTrouble}},
		"extended":             {func(s *Lease, c *clock.Fake) { c.Advance(59); s.Extend(61, 0); c.Advance(1) }, nil},
		"extended too late":    {func(s *Lease, c *clock.Fake) { c.Advance(60); s.Extend(99, 0) }, []error{tenure.ErrLost}},
		"never shortened":      {func(s *Lease, c *clock.Fake) { s.Extend(10, 0); c.Advance(59) }, nil},
		"given up":             {func(s *Lease, c *clock.Fake) { s.End(tenure.ErrReleased) }, []error{tenure.ErrReleased}},
		"given up too late":    {func(s *Lease, c *clock.Fake) { c.Advance(60); s.End(tenure.ErrReleased) }, []error{tenure.ErrLost}},
		"given up, then lost":  {func(s *Lease, c *clock.Fake) { s.End(tenure.ErrReleased); c.Advance(60) }, []error{tenure.ErrReleased}},
		"taken away":           {func(s *Lease, c *clock.Fake) { s.Lose(errTrouble) }, []error{tenure.ErrLost, errTrouble}},
		"trouble that is over": {func(s *Lease, c *clock.Fake) { s.Trouble(errTrouble); s.Extend(61, 0); c.Advance(60) }, nil},
	} {
		var clk clock.Fake
		s := held(&clk, 60)
		done, early := s.Done(), s.Context()
		c.do(s, &clk)
		err := s.Check()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: Check returns %v, want %v", name, err, c.want)
		}
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: Check returns %v, want it to be %v", name, err, want)
			}
		}
		select {
		case <-done:
			if err == nil || s.Err() != err {
				t.Errorf("%s: Done is closed, Check returns %v and Err %v", name, err, s.Err())
			}
		default:
			if err != nil || s.Err() != nil {
				t.Errorf("%s: Done is open, Check returns %v and Err %v", name, err, s.Err())
			}
		}
		if cause := context.Cause(early); cause != s.Err() {
			t.Errorf("%s: its context has ended with %v, want %v", name, cause, s.Err())
		}
	}
}

// TestWatch: the deadline ends the tenure though nobody asks.
func TestWatch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var c clock.Fake
		s := held(&c, 60)
		ended := make(chan error, 1)
		go func() { ended <- s.Watch() }()
		synctest.Wait()
		s.Extend(100, 0)
		c.Advance(99 * time.Nanosecond)
		synctest.Wait()
		if len(ended) != 0 || s.Err() != nil {
			t.Fatalf("it ended before its deadline: %v", s.Err())
		}
		c.Advance(1)
		if err := <-ended; !errors.Is(err, tenure.ErrLost) {
			t.Errorf("Watch returns %v, want %v", err, tenure.ErrLost)
		}
	})
}

// TestWatchLeavesNoAlarm: a tenure that has ended, for any reason, leaves no alarm that would ring.
func TestWatchLeavesNoAlarm(t *testing.T) {
	for name, end := range map[string]func(s *Lease, c *clock.Fake){
		"given up":           func(s *Lease, _ *clock.Fake) { s.End(tenure.ErrReleased) },
		"taken away":         func(s *Lease, _ *clock.Fake) { s.Lose(errTrouble) },
		"late":               func(_ *Lease, c *clock.Fake) { c.Advance(60) },
		"extended, and late": func(s *Lease, c *clock.Fake) { s.Extend(61, 0); c.Advance(60); synctest.Wait(); c.Advance(1) },
	} {
		bubble.Test(t, func(t *testing.T) {
			var c clock.Fake
			s := held(&c, 60)
			ended := make(chan error, 1)
			go func() { ended <- s.Watch() }()
			synctest.Wait()
			if n := c.Waiting(); n != 1 {
				t.Errorf("%s: %d alarms wait for the deadline", name, n)
			}
			end(s, &c)
			<-ended
			if n := c.Waiting(); n != 0 {
				t.Errorf("%s: %d alarms are left behind", name, n)
			}
		})
	}
}

// TestExtendTellsWhetherItDid: Extend returns false when the tenure has ended, for any reason, and
// the deadline stays.
func TestExtendTellsWhetherItDid(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(s *Lease, c *clock.Fake)
		want bool
	}{
		"in time":    {func(_ *Lease, c *clock.Fake) { c.Advance(59) }, true},
		"late":       {func(_ *Lease, c *clock.Fake) { c.Advance(60) }, false},
		"given up":   {func(s *Lease, _ *clock.Fake) { s.End(tenure.ErrReleased) }, false},
		"taken away": {func(s *Lease, _ *clock.Fake) { s.Lose(errTrouble) }, false},
	} {
		var clk clock.Fake
		s := held(&clk, 60)
		c.end(s, &clk)
		if got := s.Extend(99, 0); got != c.want || (s.Left() == time.Duration(99-clk.Now())) != c.want {
			t.Errorf("%s: Extend returns %v, and %v is left; want %v", name, got, s.Left(), c.want)
		}
	}
}

// TestTheFirstEndCounts: End returns why the tenure ended, which is not always its argument.
func TestTheFirstEndCounts(t *testing.T) {
	var c clock.Fake
	s := held(&c, 60)
	if err := s.End(tenure.ErrReleased); err != tenure.ErrReleased {
		t.Errorf("given up: End returns %v, want %v", err, tenure.ErrReleased)
	}
	s.Lose(errTrouble)
	c.Advance(60)
	if err := s.End(errTrouble); err != tenure.ErrReleased || s.Err() != tenure.ErrReleased || s.Check() != tenure.ErrReleased {
		t.Errorf("given up, and ended again: End returns %v, Err %v and Check %v; want %v", err, s.Err(), s.Check(), tenure.ErrReleased)
	}
	late := held(&c, 60)
	if err := late.End(tenure.ErrReleased); !errors.Is(err, tenure.ErrLost) || late.Check() != err {
		t.Errorf("given up too late: End returns %v and Check %v; want %v", err, late.Check(), tenure.ErrLost)
	}
}

// TestTroubleThatIsOver: a loss is not blamed on the trouble of an earlier renewal.
func TestTroubleThatIsOver(t *testing.T) {
	var c clock.Fake
	s := held(&c, 60)
	s.Trouble(errTrouble)
	s.Extend(70, 0)
	c.Advance(70)
	if err := s.Check(); !errors.Is(err, tenure.ErrLost) || errors.Is(err, errTrouble) {
		t.Errorf("Check returns %v; want %v, and not %v, for there was a renewal since", err, tenure.ErrLost, errTrouble)
	}
}

// TestLeft: the time left counts down, and goes on below zero.
func TestLeft(t *testing.T) {
	var c clock.Fake
	s := held(&c, 60)
	for _, want := range []time.Duration{60, 0, -60} {
		if got := s.Left(); got != want {
			t.Errorf("at %d of 60: %v is left, want %v", c.Now(), got, want)
		}
		c.Advance(60)
	}
	if s.Err() != nil {
		t.Error("it has ended, though nobody has looked")
	}
	if s.Check() == nil || s.Err() == nil {
		t.Error("a look at the clock past the deadline does not end it")
	}
}

// TestLostLateForAReason: an engine that learns why the lease is lost says so, although the
// deadline has passed meanwhile.
func TestLostLateForAReason(t *testing.T) {
	var c clock.Fake
	s := held(&c, 60)
	c.Advance(60)
	s.Lose(errTrouble)
	if err := s.Check(); !errors.Is(err, tenure.ErrLost) || !errors.Is(err, errTrouble) {
		t.Errorf("lost after the deadline: %v; want %v because of %v", err, tenure.ErrLost, errTrouble)
	}
}

// TestTheEarlierClockCounts: a tenure that ends by two clocks is over when the first of them says so.
// A renewal replaces the end by the synchronized clock, which may go back.
func TestTheEarlierClockCounts(t *testing.T) {
	const begun = 1_000_000
	for name, c := range map[string]struct {
		wall   time.Duration // how far the synchronized clock advances; the other one advances by 10
		extend machine.Wall  // 0: it is not extended
		want   time.Duration
	}{
		"the synchronized clock is ahead":  {30, 0, 20},
		"the synchronized clock is behind": {0, 0, 40},
		"a later end":                      {10, begun + 70, 50},
		"an earlier end":                   {10, begun + 30, 20},
		"over by the synchronized clock":   {50, 0, 0},
	} {
		var clk clock.Fake
		wall := time.Unix(0, begun)
		l := Make(&Clocks{Mono: &clk, Wall: func() time.Time { return wall }}, "name", "holder", nil)
		l.Begin(1, 50, begun+50)
		clk.Advance(10)
		wall = wall.Add(c.wall)
		if c.extend != 0 && !l.Extend(60, c.extend) {
			t.Errorf("%s: Extend returns false", name)
		}
		if left, err := l.Left(), l.Check(); left != c.want || (err != nil) != (c.want <= 0) {
			t.Errorf("%s: %d is left, want %d; Check returns %v", name, left, c.want, err)
		}
	}
}

// TestAClaimIsNotATenure: a claim that ends before it was admitted has lost nothing, and is never
// admitted; a tenure that is given up after its deadline was lost.
func TestAClaimIsNotATenure(t *testing.T) {
	for name, c := range map[string]struct {
		begun bool
		end   func(l *Lease)
		want  error
		lost  bool
	}{
		"refused":              {false, func(l *Lease) { l.End(errTrouble) }, errTrouble, false},
		"given up":             {false, (*Lease).GiveUp, errGaveUp, false},
		"given up as a tenure": {true, (*Lease).GiveUp, tenure.ErrLost, true},
		"released too late":    {true, func(l *Lease) { l.End(errTrouble) }, tenure.ErrLost, true},
	} {
		var clk clock.Fake
		stopped := 0
		l := Make(&Clocks{Mono: &clk}, "name", "holder", func() { stopped++ })
		if c.begun {
			l.Begin(7, 60, 0)
		}
		clk.Advance(60)
		if stopped != 0 {
			t.Errorf("%s: it was stopped before its end", name)
		}
		c.end(&l)
		if err := l.Err(); !errors.Is(err, c.want) || errors.Is(err, tenure.ErrLost) != c.lost {
			t.Errorf("%s: it ended with %v, want %v", name, err, c.want)
		}
		why := l.Err()
		l.Trouble(errors.New("trouble afterwards"))
		if again := l.End(errors.New("again")); again != why || l.Err() != why || l.Check() != why {
			t.Errorf("%s: it ended with %v, and later says %v, %v and %v", name, why, again, l.Err(), l.Check())
		}
		if l.Begin(9, 99, 0) || l.Token() == 9 || l.Begun() != c.begun || l.Check() != why {
			t.Errorf("%s: it has ended, and begins", name)
		}
		if cause := context.Cause(l.Context()); cause != why {
			t.Errorf("%s: the context that is asked for at last has ended with %v, want %v", name, cause, why)
		}
		if stopped != 1 {
			t.Errorf("%s: it was stopped %d times, want once", name, stopped)
		}
		select {
		case <-l.Done():
		default:
			t.Errorf("%s: it has ended, and Done is open to a caller that asks late", name)
		}
	}
}

// TestWhatALeaseSays: its name, its holder, its token and its deadline are those it was given.
func TestWhatALeaseSays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var clk clock.Fake
		l := Make(&Clocks{Mono: &clk}, "the name", "the holder", nil)
		if l.Begun() {
			t.Error("it has begun before it was admitted")
		}
		if !l.Begin(7, machine.Mono(time.Minute), 0) || !l.Begun() {
			t.Error("it does not begin")
		}
		clk.Advance(20 * time.Second)
		if l.Name() != "the name" || l.Holder() != "the holder" || l.Token() != 7 {
			t.Errorf("it says %q, %q and %d", l.Name(), l.Holder(), l.Token())
		}
		if want := time.Now().Add(40 * time.Second); !l.Deadline().Equal(want) {
			t.Errorf("its deadline is %v, want %v", l.Deadline(), want)
		}
		now := machine.Now{Mono: machine.Mono(50 * time.Second)}
		if got := l.LeftAt(now); got != 10*time.Second {
			t.Errorf("at 50 s of a minute, %v are left", got)
		}
		if l.ExtendAt(machine.Now{Mono: machine.Mono(time.Minute)}, machine.Mono(time.Hour), 0) {
			t.Error("it is extended at a time that is its deadline")
		}
	})
}

// TestVerdict: the first decision reaches the caller that waits; later ones, and those for which
// nobody waits, hold nobody up.
func TestVerdict(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := held(new(clock.Fake), 60)
		l.Decide(errTrouble) // nobody waits
		verdict := l.Verdict()
		decided := false
		go func() {
			l.Decide(nil)
			l.Decide(errTrouble)
			decided = true
		}()
		if synctest.Wait(); !decided {
			t.Error("a second decision waits for the caller")
		}
		if err := <-verdict; err != nil {
			t.Errorf("the caller gets %v, want the first decision", err)
		}
		synctest.Wait()
		if len(verdict) != 0 {
			t.Error("the caller is told twice")
		}
	})
}
