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

// Of five answers a majority decides: one refusal among them aborts, the highest rank's lease counts,
// and answers that come later, or are another stage's, change nothing.
func TestAnswersOfGetLease(t *testing.T) {
	const now, tmax, eps = 1000, 100, 10
	type answer func(g *GetLease)
	ack := func(at Time, l Lambda) answer {
		return func(g *GetLease) { g.AckRead(Strict, &Rank{Time: at}, &l, func() Time { return now }) }
	}
	nothing := func(g *GetLease) { g.AckRead(Strict, nil, nil, func() Time { return now }) }
	nack, ackWrite, nackWrite := (*GetLease).NackRead, (*GetLease).AckWrite, (*GetLease).NackWrite
	own := Lambda{1, now + tmax}
	theirs, older, oldest := Lambda{2, now + 50}, Lambda{3, now + 60}, Lambda{4, now + 70}
	read := []answer{nothing, nothing, nothing}
	after := func(more ...answer) []answer { return append(read[:3:3], more...) }
	for name, tt := range map[string]struct {
		answers []answer
		writes  *Lambda
		outcome Outcome
	}{
		"two of five have nothing":                  {read[:2], nil, Pending},
		"three of five have nothing":                {read, &own, Pending},
		"the highest rank comes first":              {[]answer{ack(9, theirs), ack(7, older), ack(5, oldest)}, &theirs, Pending},
		"the highest rank comes last":               {[]answer{ack(5, oldest), ack(7, older), ack(9, theirs)}, &theirs, Pending},
		"the highest rank comes between":            {[]answer{ack(5, oldest), ack(9, theirs), nothing}, &theirs, Pending},
		"its own lease is extended":                 {[]answer{nothing, ack(9, Lambda{1, now + 1}), nothing}, &own, Pending},
		"the lease ends this moment":                {[]answer{ack(9, Lambda{2, now}), nothing, nothing}, &Lambda{2, now}, Pending},
		"the lease was over a moment ago":           {[]answer{ack(9, Lambda{2, now - 1}), nothing, nothing}, nil, Again},
		"the lease is over at nearly all clocks":    {[]answer{ack(9, Lambda{2, now - eps + 1}), nothing, nothing}, nil, Again},
		"the lease is over at all clocks":           {[]answer{ack(9, Lambda{2, now - eps}), nothing, nothing}, &own, Pending},
		"two refuse":                                {[]answer{nack, nack}, nil, Pending},
		"one refuses first":                         {[]answer{nack, nothing, nothing}, nil, Aborted},
		"one refuses last":                          {[]answer{nothing, nothing, nack}, nil, Aborted},
		"three refuse":                              {[]answer{nack, nack, nack}, nil, Aborted},
		"it was refused, and more answer":           {[]answer{nack, nothing, nothing, ack(9, theirs), nothing}, nil, Aborted},
		"a higher rank comes behind the majority":   {after(ack(9, theirs)), &own, Pending},
		"two have written":                          {after(ackWrite, ackWrite), &own, Pending},
		"three have written":                        {after(ackWrite, ackWrite, ackWrite), &own, Committed},
		"the read is refused behind the majority":   {after(nack, ackWrite, ackWrite, ackWrite), &own, Committed},
		"the read is granted behind the majority":   {after(nothing, ackWrite, ackWrite), &own, Pending},
		"one refuses to write first":                {after(nackWrite, ackWrite, ackWrite), &own, Aborted},
		"one refuses to write last":                 {after(ackWrite, ackWrite, nackWrite), &own, Aborted},
		"one refuses to write behind the majority":  {after(ackWrite, ackWrite, ackWrite, nackWrite), &own, Committed},
		"one writes behind a refusal":               {after(nackWrite, nackWrite, nackWrite, ackWrite, ackWrite), &own, Aborted},
		"answers to a write that was not yet asked": {[]answer{nothing, ackWrite, nackWrite, nothing, nothing, ackWrite, ackWrite, ackWrite}, &own, Committed},
	} {
		g := NewGetLease(Loose, 1, 5, Rank{Time: now, Proc: 1}, tmax, eps)
		for _, a := range tt.answers {
			a(g)
		}
		v, ok := g.Writes()
		if ok != (tt.writes != nil) || ok && *v != *tt.writes {
			t.Errorf("%s: it writes %v (%+v), want %+v", name, ok, v, tt.writes)
		}
		var decided Lambda
		if tt.outcome == Committed {
			decided = *tt.writes
		}
		if outcome, l := g.Result(); outcome != tt.outcome || l != decided {
			t.Errorf("%s: it is %v with %+v, want %v with %+v", name, outcome, l, tt.outcome, decided)
		}
	}
}

// A GetLease of nobody, for no time, or with clocks that differ by less than nothing is a bug of the caller.
func TestGetLeasesThatCannotBe(t *testing.T) {
	for what, begins := range map[string]func(){
		"of no process": func() { NewGetLease(Loose, 1, 0, Rank{}, 100, 10) },
		"for no time":   func() { NewGetLease(Loose, 1, 3, Rank{}, 0, 10) },
		"with clocks that differ by less than nothing": func() { NewGetLease(Loose, 1, 3, Rank{}, 100, -1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a GetLease %s begins", what)
				}
			}()
			begins()
		}()
	}
}
