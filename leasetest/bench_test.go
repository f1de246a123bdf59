package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// said is a lease that says of itself what a test has it say.
type said struct {
	tenure.Lease
	token      uint64
	check, err error
	done       chan struct{}
	ctx        context.Context
	release    func() error
	asked      int // for its context
	deadline   time.Time
}

func (x *said) Token() uint64         { return x.token }
func (x *said) Check() error          { return x.check }
func (x *said) Err() error            { return x.err }
func (x *said) Deadline() time.Time   { return x.deadline }
func (x *said) Done() <-chan struct{} { return x.done }
func (x *said) Context() context.Context {
	x.asked++
	return x.ctx
}
func (x *said) Release(context.Context) error { return x.release() }

// closedNow is a channel that is closed.
func closedNow() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// endedBy is a context that has ended with the cause.
func endedBy(why error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	return ctx
}

// benched returns what a bench with the fixture complains of when f uses it.
func benched(t *testing.T, f Fixture, use func(b *bench)) []string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		use(newBench(r, "n", f))
	}()
	<-done
	for _, c := range slices.Backward(r.cleanups) {
		c()
	}
	return r.found()
}

// An end of a tenure is believed if it is neither missing nor a second past, nor later than a TTL and a second.
func TestPlausibleEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, tc := range []struct {
			until time.Time
			want  int // complaints
		}{
			{time.Time{}, 1}, {now.Add(-time.Second - 1), 1}, {now.Add(-time.Second), 0}, {now, 0}, {now.Add(brokenTTL), 0},
			{now.Add(brokenTTL + time.Second), 0}, {now.Add(brokenTTL + time.Second + 1), 1}, {now.Add(-time.Hour), 1},
		} {
			if got := benched(t, Fixture{TTL: brokenTTL}, func(b *bench) { b.plausible(tc.until, "Until") }); len(got) != tc.want {
				t.Errorf("a tenure of %v that ends in %v: the bench says %q, want %d complaints", brokenTTL, tc.until.Sub(now), got, tc.want)
			}
		}
	})
}

// Each of the four things that tell of an end is judged by itself: of a lease that is held, and of one that has ended.
func TestEachSignOfAnEndIsJudged(t *testing.T) {
	other := errors.New("other")
	held := func() *said { return &said{done: make(chan struct{}), ctx: context.Background()} }
	lost := func() *said {
		return &said{check: tenure.ErrLost, err: tenure.ErrLost, done: closedNow(), ctx: endedBy(tenure.ErrLost)}
	}
	for what, tc := range map[string]struct {
		lease *said
		edit  func(*said)
		ended bool // is what is wanted
		want  string
	}{
		"held":                               {held(), func(*said) {}, false, ""},
		"held, and Check has an error":       {held(), func(x *said) { x.check = other }, false, `now: Check returns "other", want nil`},
		"held, and Err has an error":         {held(), func(x *said) { x.err = other }, false, `now: Err returns "other", want nil`},
		"held, and Done is closed":           {held(), func(x *said) { x.done = closedNow() }, false, "now: Done is closed, want it open"},
		"held, and the context has ended":    {held(), func(x *said) { x.ctx = endedBy(other) }, false, "now: the context has ended: other"},
		"ended":                              {lost(), func(*said) {}, true, ""},
		"ended, and Check has none":          {lost(), func(x *said) { x.check = nil }, true, `now: Check returns <nil>, want "lease lost"`},
		"ended, and Check has another":       {lost(), func(x *said) { x.check = other }, true, `now: Check returns other, want "lease lost"`},
		"ended, and Err has none":            {lost(), func(x *said) { x.err = nil }, true, `now: Err returns <nil>, want "lease lost"`},
		"ended, and Err has another":         {lost(), func(x *said) { x.err = other }, true, `now: Err returns other, want "lease lost"`},
		"ended, and Done is open":            {lost(), func(x *said) { x.done = make(chan struct{}) }, true, "now: Done is open, want it closed"},
		"ended, and the context goes on":     {lost(), func(x *said) { x.ctx = context.Background() }, true, `now: the context has ended: false, with the cause <nil>, want "lease lost"`},
		"ended, and the context has another": {lost(), func(x *said) { x.ctx = endedBy(other) }, true, `now: the context has ended: true, with the cause other, want "lease lost"`},
		"ended, and the context has no cause": {lost(), func(x *said) { x.ctx = endedBy(nil) }, true,
			`now: the context has ended: true, with the cause context canceled, want "lease lost"`},
	} {
		tc.edit(tc.lease)
		got := benched(t, Fixture{TTL: brokenTTL}, func(b *bench) {
			if tc.ended {
				b.ended(tc.lease, tenure.ErrLost, "now")
			} else {
				b.held(tc.lease, "now")
			}
		})
		if strings.Join(got, "\n") != tc.want {
			t.Errorf("a lease that should be %s: the bench says %q, want %q", what, got, tc.want)
		}
	}
}

// answers is a Leaser whose calls return what a test has them return.
type answers struct {
	tenure.Leaser
	lease tenure.Lease
	err   error
	trace *[]string
}

func (l answers) Acquire(context.Context, tenure.Claim) (tenure.Lease, error) { return l.lease, l.err }
func (l answers) TryAcquire(context.Context, tenure.Claim) (tenure.Lease, error) {
	return l.lease, l.err
}
func (l answers) Close() error { *l.trace = append(*l.trace, "close"); return nil }

// A case learns of each call of its own that fails, and which it was.
func TestABenchTellsWhichCallFails(t *testing.T) {
	broken := errors.New("broken")
	fails := answers{err: broken}
	for what, tc := range map[string]struct {
		use  func(b *bench)
		want []string // then the case is stopped, or goes on
	}{
		"Open":    {func(b *bench) { b.leaser(); b.Errorf("goes on") }, []string{"open another Leaser: broken"}},
		"Acquire": {func(b *bench) { b.acquire(fails, tenure.Claim{Name: "n"}); b.Errorf("goes on") }, []string{`acquire "n": broken`}},
		"TryAcquire of a free name": {func(b *bench) { b.now(fails, tenure.Claim{}, "now"); b.Errorf("goes on") },
			[]string{`now: TryAcquire returns "broken", want a lease`}},
		"Release": {func(b *bench) { b.release(&said{release: func() error { return broken }}); b.Errorf("goes on") },
			[]string{"release of a held lease: broken", "goes on"}},
		"a refusal": {func(b *bench) { b.refused(fails, tenure.Claim{}, "now"); b.Errorf("goes on") },
			[]string{`now: TryAcquire returns "broken", want a HeldError`, "goes on"}},
		"a refusal by a HeldError": {func(b *bench) {
			b.refused(answers{err: fmt.Errorf("no: %w", tenure.HeldError{})}, tenure.Claim{}, "now")
		}, nil},
		"an event that does not come": {func(b *bench) { b.await(make(chan struct{}), time.Second, "an event"); b.Errorf("goes on") },
			[]string{"an event: nothing within 1s"}},
	} {
		bubble.Test(t, func(t *testing.T) {
			got := benched(t, Fixture{TTL: brokenTTL, Open: func() (tenure.Leaser, error) { return nil, broken }}, tc.use)
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s fails: the bench says %q, want %q", what, got, tc.want)
			}
		})
	}
}

// A lease that is granted where a refusal is wanted is complained of and given back.
func TestAnUnwantedLeaseIsGivenBack(t *testing.T) {
	released := 0
	got := benched(t, Fixture{TTL: brokenTTL}, func(b *bench) {
		b.refused(answers{lease: &said{token: 7, release: func() error { released++; return nil }}}, tenure.Claim{}, "now")
	})
	if want := []string{"now: TryAcquire got token 7, want a HeldError"}; !slices.Equal(got, want) || released != 1 {
		t.Errorf("the bench says %q and releases the lease %d times, want %q and once", got, released, want)
	}
}

// The end of a case heals each Leaser before it is closed, where it may be cut off. Each other lease is asked for
// its context before it ends. The context of a case ends long after the case should have, and with it.
func TestWhatABenchLeavesBehind(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, cuts := range []bool{false, true} {
			var trace []string
			l := answers{trace: &trace}
			f := Fixture{TTL: brokenTTL, Open: func() (tenure.Leaser, error) { return l, nil }}
			want := []string{"close"}
			if cuts {
				f.Cut, f.Heal = func(tenure.Leaser) {}, func(tenure.Leaser) { trace = append(trace, "heal") }
				want = []string{"heal", "close"}
			}
			var ctx context.Context
			var asked []int
			got := benched(t, f, func(b *bench) {
				ctx = b.ctx
				b.leaser()
				for range 4 {
					x := &said{}
					b.acquire(answers{lease: x}, b.claim())
					asked = append(asked, x.asked)
				}
			})
			if len(got) > 0 || !slices.Equal(trace, want) {
				t.Errorf("the end of a case that cuts Leasers off (%v) does %q, and says %q; want %q and nothing", cuts, trace, got, want)
			}
			if want := []int{1, 0, 1, 0}; !slices.Equal(asked, want) {
				t.Errorf("the leases of a case are asked for their contexts %v times, want %v", asked, want)
			}
			if end, has := ctx.Deadline(); !has || time.Until(end) != 40*brokenTTL+5*time.Second || ctx.Err() == nil {
				t.Errorf("the context of a case that has ended: %v, with the deadline %v (%v), want that it has ended, and 40 TTLs and 5s from the beginning", ctx.Err(), end, has)
			}
		}
	})
}

// A wait is over with its event, one at the very end of its time included, and with its time.
func TestWithin(t *testing.T) {
	for _, tc := range []struct {
		event, limit time.Duration
		want         bool
		took         time.Duration
	}{
		{0, time.Second, true, 0},
		{25 * time.Millisecond, 70 * time.Millisecond, true, 25 * time.Millisecond},
		{70 * time.Millisecond, 70 * time.Millisecond, true, 70*time.Millisecond + 1},
		{75 * time.Millisecond, 75 * time.Millisecond, true, 75*time.Millisecond + 1},
		{80 * time.Millisecond, 70 * time.Millisecond, false, 70*time.Millisecond + 1},
		{0, -time.Second, true, 1},
		{time.Second, 0, false, 1},
	} {
		bubble.Test(t, func(t *testing.T) {
			c := closedNow()
			if tc.event > 0 {
				c = make(chan struct{})
				time.AfterFunc(tc.event, func() { close(c) })
			}
			began := time.Now()
			got := within(c, tc.limit)
			took := time.Since(began)
			// The event and the end of a turn may come at one moment: then either is seen first.
			if got != tc.want || took != tc.took && took != tc.event {
				t.Errorf("an event after %v, and %v to wait for it: seen is %v after %v, want %v after %v", tc.event, tc.limit, got, took, tc.want, tc.took)
			}
			time.Sleep(time.Minute)
		})
	}
}

// The judge knows how many may be inside by all of them, and the tokens of exclusive ones grow over all before.
func TestJudgeCountsAllHolders(t *testing.T) {
	type holder struct {
		token uint64
		slots int
		lost  bool
		left  bool
	}
	for _, tc := range []struct {
		what   string
		before []holder
		token  uint64
		slots  int
		want   []string
	}{
		{"alone", nil, 1, 1, nil},
		{"the second of two", []holder{{token: 1, slots: 2}}, 2, 2, nil},
		{"the third of three", []holder{{token: 1, slots: 3}, {token: 2, slots: 3}}, 3, 3, nil},
		{"the third of two", []holder{{token: 1, slots: 3}, {token: 2, slots: 3}}, 3, 2, []string{"token 3 makes 3 holders where 2 are allowed: Check of the others returns nil"}},
		{"a reader behind a writer and a reader", []holder{{token: 1, slots: 1}, {token: 2, slots: tenure.Shared}}, 3, tenure.Shared,
			[]string{"token 2 makes 2 holders where 1 are allowed: Check of the others returns nil", "token 3 makes 3 holders where 1 are allowed: Check of the others returns nil"}},
		{"a reader behind a reader and one of two", []holder{{token: 1, slots: tenure.Shared}, {token: 2, slots: 2}}, 3, tenure.Shared,
			[]string{"token 3 makes 3 holders where 2 are allowed: Check of the others returns nil"}},
		{"behind one that has left", []holder{{token: 1, slots: 1, left: true}}, 2, 1, nil},
		{"behind one that is lost", []holder{{token: 1, slots: 1, lost: true}}, 2, 1, nil},
		{"with the token of the one before", []holder{{token: 4, slots: 1, left: true}}, 4, 1, []string{"token 4 was admitted after token 4"}},
		{"with a token between those before", []holder{{token: 5, slots: 2, left: true}, {token: 3, slots: 2, left: true}}, 4, 1, []string{"token 4 was admitted after token 5"}},
		{"a reader with a token of before", []holder{{token: 5, slots: tenure.Shared, left: true}}, 4, tenure.Shared, nil},
	} {
		for range 20 { // holders are visited in no order
			bubble.Test(t, func(t *testing.T) {
				got := benched(t, Fixture{TTL: brokenTTL}, func(b *bench) {
					j := b.judge()
					for _, h := range tc.before {
						x := &said{token: h.token, done: make(chan struct{})}
						j.enter(x, h.slots)
						if h.lost {
							x.check = tenure.ErrLost
							close(x.done)
						}
						if h.left {
							j.leave(x)
						}
					}
					j.enter(&said{token: tc.token, done: make(chan struct{})}, tc.slots)
					j.late.Wait()
					if n := len(tc.before) + 1; !j.had(n) || j.had(n+1) {
						t.Errorf("%s: %d were inside, and the judge says that %d were: %v, and %d: %v", tc.what, n, n, j.had(n), n+1, j.had(n+1))
					}
				})
				if !slices.Equal(got, tc.want) {
					t.Errorf("%s: the judge says %q, want %q", tc.what, got, tc.want)
				}
			})
		}
	}
}

// A holder that is lost has closed Done within the grace after the next one was admitted. It is judged once.
func TestJudgeWaitsForDone(t *testing.T) {
	for after, want := range map[time.Duration][]string{
		grace - time.Millisecond:   nil,
		grace + 2*time.Millisecond: {"Done of token 1 is open 100ms after token 2 was admitted in its place"},
	} {
		bubble.Test(t, func(t *testing.T) {
			got := benched(t, Fixture{TTL: brokenTTL}, func(b *bench) {
				j := b.judge()
				lost := &said{token: 1, done: make(chan struct{})}
				j.enter(lost, 1)
				lost.check = tenure.ErrLost
				time.AfterFunc(after, func() { close(lost.done) })
				next := &said{token: 2, done: make(chan struct{})}
				j.enter(next, 1)
				j.leave(next)
				j.enter(&said{token: 3, done: make(chan struct{})}, 1)
				j.late.Wait()
			})
			if !slices.Equal(got, want) {
				t.Errorf("Done is closed %v after the next holder was admitted: the judge says %q, want %q", after, got, want)
			}
			time.Sleep(time.Second)
		})
	}
}
