package flease

import "testing"

// paperCell is three processes of the paper, whose messages move as a test says.
type paperCell struct {
	t     *testing.T
	order Order
	regs  [3]Register
	now   Time
	off   [4]Time // of each proposer's clock
}

func newPaperCell(t *testing.T, order Order) *paperCell {
	c := &paperCell{t: t, order: order, now: 1000}
	for i := range c.regs {
		c.regs[i].Order = order
	}
	return c
}

func (c *paperCell) clock(g *GetLease) func() Time {
	return func() Time { return c.now + c.off[g.Proc] }
}

func (c *paperCell) begin(form Form, proc int, tmax, eps Time) *GetLease {
	return NewGetLease(form, proc, 3, Rank{Time: c.now + c.off[proc], Proc: proc}, tmax, eps)
}

func (c *paperCell) read(g *GetLease, at ...int) {
	for _, i := range at {
		if ack, k, v := c.regs[i].Read(g.K); ack {
			g.AckRead(c.order, k, v, c.clock(g))
		} else {
			g.NackRead()
		}
	}
}

func (c *paperCell) write(g *GetLease, at ...int) {
	v, ok := g.Writes()
	for _, i := range at {
		if !ok {
			return
		}
		if c.regs[i].Write(g.K, v) {
			g.AckWrite()
		} else {
			g.NackWrite()
		}
	}
}

func (c *paperCell) all(form Form, proc int, tmax, eps Time) (Outcome, Lambda) {
	g := c.begin(form, proc, tmax, eps)
	c.read(g, 0, 1)
	c.write(g, 1, 2)
	return g.Result()
}

func (c *paperCell) want(what string, g *GetLease, want Outcome) {
	c.t.Helper()
	if got, l := g.Result(); got != want {
		c.t.Errorf("%s: %v, %+v, want %v", what, got, l, want)
	}
}

// The three forms, side by side, with the addition of each.
func TestFormsOfGetLease(t *testing.T) {
	for _, form := range []Form{Basic, Renewing, Loose} {
		c := newPaperCell(t, Strict)
		_, first := c.all(form, 1, 100, 10)
		c.now += 50
		out, l := c.all(form, 2, 100, 10)
		if out != Committed || l != first {
			t.Errorf("%v: another decides %v %+v, want %+v", form, out, l, first)
		}
		c.now++
		if _, l = c.all(form, 1, 100, 10); (l.Until > first.Until) != (form != Basic) {
			t.Errorf("%v: the owner decides %+v after %+v", form, l, first)
		}
		c.now = l.Until + 5 // within the safety period
		out, _ = c.all(form, 2, 100, 10)
		if (out == Again) != (form == Loose) {
			t.Errorf("%v: within ε of the end another gets %v", form, out)
		}
		c.now += 6
		if _, l := c.all(form, 2, 100, 10); l.Proc != 2 {
			t.Errorf("%v: after the end another decides %+v", form, l)
		}
	}
}

// A lease is its owner's up to the last moment that its record names.
func TestTheEndOfALease(t *testing.T) {
	for _, form := range []Form{Basic, Renewing, Loose} {
		c := newPaperCell(t, Strict)
		_, first := c.all(form, 1, 100, 10)
		c.now = first.Until
		if _, l := c.all(form, 2, 100, 10); l != first {
			t.Errorf("%v: at its end another decides %+v, want %+v", form, l, first)
		}
	}
}

// A lease that one of three has written is nobody's yet.
func TestAMinorityDecidesNothing(t *testing.T) {
	c := newPaperCell(t, Strict)
	g := c.begin(Loose, 1, 100, 10)
	c.read(g, 0)
	if _, ok := g.Writes(); ok {
		t.Error("it writes by one answer")
	}
	c.read(g, 1)
	c.write(g, 0)
	c.want("one has written", g, Pending)
	c.write(g, 1)
	c.want("two have written", g, Committed)
}

// E1: the fuzzy comparison gives two leases with no failure at all.
func TestFuzzyOrderIsNone(t *testing.T) {
	for _, fuzzy := range []bool{true, false} {
		order := Order(Strict)
		if fuzzy {
			order = Fuzzy(10)
		}
		c := newPaperCell(t, order)
		a, b, d := c.begin(Loose, 3, 100, 10), c.begin(Loose, 2, 100, 10), c.begin(Loose, 1, 100, 10)
		a.K.Time, b.K.Time, d.K.Time = 1000, 1008, 1016
		for _, g := range []*GetLease{d, b, a} {
			c.read(g, 0, 1)
		}
		c.write(a, 0, 1)
		c.write(d, 0, 1)
		one, _ := a.Result()
		two, _ := d.Result()
		if both := one == Committed && two == Committed; both != fuzzy {
			t.Errorf("fuzzy %v: both hold: %v", fuzzy, both)
		}
	}
}

// E2 and 3.5: the written lease counts from after the read, and an acceptor that comes back
// after t_max has forgotten its promise.
func TestPaperRecovery(t *testing.T) {
	c := newPaperCell(t, Strict)
	a := c.begin(Loose, 1, 100, 10)
	c.read(a, 0, 1)
	c.now++
	b := c.begin(Loose, 2, 100, 10)
	c.read(b, 2)
	c.read(b, 1)
	// Both stall between the read and the write.
	c.now += 101
	c.regs[1] = Register{Order: Strict} // crashed, waited for t_max, and is back
	c.write(a, 0, 1)
	c.write(b, 1, 2)
	c.want("a", a, Committed)
	c.want("b: two leases, as E2 says", b, Committed)
}

// E6: t_now is read three times. If it passes λ.t between two of them the safety period is
// skipped.
func TestSafetyPeriodSkipped(t *testing.T) {
	c := newPaperCell(t, Strict)
	c.all(Loose, 1, 100, 10)
	g := c.begin(Loose, 2, 100, 10)
	readings := []Time{1100, 1101, 1101, 1101} // λ.t is 1100
	clock := func() Time { now := readings[0]; readings = readings[1:]; return now }
	for _, i := range []int{0, 1} {
		if g.K.Time = 1100; true {
			ack, k, v := c.regs[i].Read(g.K)
			if !ack {
				t.Fatal("refused")
			}
			g.AckRead(Strict, k, v, clock)
		}
	}
	if v, ok := g.Writes(); !ok || v.Proc != 2 {
		t.Errorf("it writes %+v, %v; E6 says that it takes over", v, ok)
	}
}

// Algorithm 3 where clocks differ has two holders; Algorithm 4 has not.
func TestLooseClocksNeedTheSafetyPeriod(t *testing.T) {
	for _, form := range []Form{Renewing, Loose} {
		c := newPaperCell(t, Strict)
		c.off = [4]Time{0, -5, 5}
		_, l := c.all(form, 1, 100, 10)
		c.now = l.Until + 1 // on a right clock; the owner's shows four less than the end
		_, m := c.all(form, 2, 100, 10)
		if both := m.Proc == 2 && c.now+c.off[1] < l.Until; both != (form == Renewing) {
			t.Errorf("%v: the owner believes, and another decides %+v", form, m)
		}
	}
}
