package tenure_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/leasetest"
)

var errBackup = errors.New("the disk is full")

// nightly is the work of a host, with a Leaser of its own.
func nightly(m *leasetest.Memory, host string) tenure.Periodic {
	return tenure.Periodic{Leaser: m.Open(), Claim: tenure.Claim{Name: "nightly", Holder: host}, Every: 20 * time.Hour}
}

// The host that comes first does the work, and no other does until the period is over.
func TestOnceAPeriod(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := leasetest.NewMemory()
		a, b := nightly(m, "a"), nightly(m, "b")
		defer a.Leaser.Close()
		defer b.Leaser.Close()
		runs := map[string]int{}
		try := func(p tenure.Periodic, takes time.Duration, failure error) error {
			return p.Do(t.Context(), func(_ context.Context, lease tenure.Lease) error {
				runs[lease.Holder()]++
				time.Sleep(takes)
				return failure
			})
		}
		want := func(err, kind error, as, bs int, when string) {
			t.Helper()
			if kind == nil && err != nil || !errors.Is(err, kind) {
				t.Errorf("%s: Do returns %v, want %v", when, err, kind)
			}
			if runs["a"] != as || runs["b"] != bs {
				t.Errorf("%s: a has run %d times and b %d times, want %d and %d", when, runs["a"], runs["b"], as, bs)
			}
		}
		began := time.Now()
		want(try(a, time.Hour, nil), nil, 1, 0, "first")
		want(try(b, time.Hour, nil), tenure.ErrDone, 1, 0, "another, after the first has ended")
		want(try(a, time.Hour, nil), tenure.ErrDone, 1, 0, "the same once more")
		time.Sleep(time.Until(began.Add(20*time.Hour - 1)))
		want(try(b, time.Hour, nil), tenure.ErrDone, 1, 0, "a moment before the end of the period, which counts from the beginning of the run")
		time.Sleep(time.Nanosecond)
		want(try(b, time.Hour, errBackup), errBackup, 1, 1, "in the next period")
		want(try(a, time.Hour, nil), tenure.ErrDone, 1, 1, "after a run that failed")
		a.Retry = true
		want(try(a, time.Hour, nil), nil, 2, 1, "after a run that failed, with Retry")
		want(try(a, time.Hour, nil), tenure.ErrDone, 2, 1, "after the retry")
	})
}

// A host that comes while the work is under way leaves at once; with Retry it waits for the end, and leaves
// when that was a good one.
func TestWhileTheWorkIsUnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			what    string
			retry   bool
			failure error
			want    error
			after   time.Duration
		}{
			{"without Retry", false, errBackup, tenure.ErrDone, time.Minute},
			{"with Retry, and the run under way succeeds", true, nil, tenure.ErrDone, time.Hour},
			{"with Retry, and the run under way fails", true, errBackup, nil, time.Hour},
		} {
			m := leasetest.NewMemory()
			a, b := nightly(m, "a"), nightly(m, "b")
			b.Retry = tt.retry
			began := time.Now()
			ended := make(chan error, 1)
			go func() {
				ended <- a.Do(t.Context(), func(context.Context, tenure.Lease) error {
					time.Sleep(time.Hour)
					return tt.failure
				})
			}()
			time.Sleep(time.Minute)
			err := b.Do(t.Context(), func(context.Context, tenure.Lease) error { return nil })
			if tt.want == nil && err != nil || !errors.Is(err, tt.want) {
				t.Errorf("%s: Do returns %v, want %v", tt.what, err, tt.want)
			}
			if took := time.Since(began); took < tt.after || took > tt.after+time.Minute {
				t.Errorf("%s: Do returns after %v, want %v", tt.what, took, tt.after)
			}
			if err := <-ended; !errors.Is(err, tt.failure) {
				t.Errorf("%s: the run returns %v, want %v", tt.what, err, tt.failure)
			}
			_ = a.Leaser.Close()
			_ = b.Leaser.Close()
		}
	})
}

// A caller that gives up ends the work, and the end of the run is recorded all the same.
func TestAnEndBehindTheCallers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := nightly(leasetest.NewMemory(), "a")
		defer p.Leaser.Close()
		ctx, cancel := context.WithCancel(t.Context())
		err := p.Do(ctx, func(ctx context.Context, _ tenure.Lease) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "record that") {
			t.Errorf("the caller gave up, and Do returns %v, want %v and nothing about the record", err, context.Canceled)
		}
		if r, err := p.Last(t.Context()); err != nil || r.Ended.IsZero() || !r.Failed {
			t.Errorf("the caller gave up, and the last run is %v, %v: want one that failed", r, err)
		}
	})
}

// A run whose host dies counts from its beginning, unless others may retry.
func TestARunWhoseHostDies(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := leasetest.NewMemory()
		f := m.Fixture(15 * time.Second)
		a, b := nightly(m, "a"), nightly(m, "b")
		defer b.Leaser.Close()
		lease, err := a.Leaser.Acquire(t.Context(), a.Claim)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r, err := a.Begin(t.Context(), lease)
		want := tenure.Run{Holder: "a", Token: lease.Token(), Started: began}
		if err != nil || r.Holder != want.Holder || r.Token != want.Token || !r.Started.Equal(began) || !r.Ended.IsZero() || r.Failed {
			t.Errorf("Begin returns %+v, %v, want %+v", r, err, want)
		}
		f.Cut(a.Leaser)
		<-lease.Done()
		if err := a.End(t.Context(), lease, r, nil); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("End after the loss returns %v, want %q", err, tenure.ErrLost)
		}
		time.Sleep(time.Minute)
		if err := b.Due(t.Context()); !errors.Is(err, tenure.ErrDone) || !strings.Contains(err.Error(), "by a, has not ended; the next run may begin at ") {
			t.Errorf("without Retry the work is due: %v, want %q and what became of the run", err, tenure.ErrDone)
		}
		b.Retry = true
		if err := b.Due(t.Context()); err != nil {
			t.Errorf("with Retry the work is not due: %v", err)
		}
		ran := false
		if err := b.Do(t.Context(), func(context.Context, tenure.Lease) error { ran = true; return nil }); err != nil || !ran {
			t.Errorf("with Retry Do runs the work: %v, %v, want true", ran, err)
		}
		f.Heal(a.Leaser)
		_ = a.Leaser.Close()
	})
}

// What Last shows is the run as it was.
func TestLastRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := leasetest.NewMemory()
		a := nightly(m, "a")
		defer a.Leaser.Close()
		if r, err := a.Last(t.Context()); err != nil || r != (tenure.Run{}) {
			t.Errorf("before any run the last one is %+v, %v", r, err)
		}
		began := time.Now()
		var token uint64
		for _, failure := range []error{nil, errBackup} {
			_ = a.Do(t.Context(), func(_ context.Context, lease tenure.Lease) error {
				token = lease.Token()
				if r, err := a.Last(t.Context()); err != nil || !r.Started.Equal(began) || r.Token != token || !r.Ended.IsZero() || r.Failed {
					t.Errorf("while it is under way the last run is %+v, %v", r, err)
				}
				time.Sleep(90 * time.Second)
				return failure
			})
			r, err := a.Last(t.Context())
			if err != nil || r.Holder != "a" || r.Token != token || !r.Started.Equal(began) || !r.Ended.Equal(began.Add(90*time.Second)) || r.Failed != (failure != nil) {
				t.Errorf("after a run that returned %v the last one is %+v, %v; it began at %v", failure, r, err, began)
			}
			text := "ended after 1m30s"
			if failure != nil {
				text = "failed after 1m30s"
			}
			if want := "begun at " + began.Format(time.RFC3339) + " by a, " + text; r.String() != want {
				t.Errorf("the run in words is %q, want %q", r, want)
			}
			time.Sleep(24 * time.Hour)
			began = time.Now()
		}
	})
}

// Clocks may be minutes apart. A run that lies further in the future is no evidence of anything.
func TestClocksOfHostsDiffer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			ahead time.Duration // of the host of the last run
			want  error
		}{
			{0, tenure.ErrDone},
			{15 * time.Minute, tenure.ErrDone},
			{15*time.Minute + 1, tenure.ErrClock},
			{365 * 24 * time.Hour, tenure.ErrClock},
			{-20*time.Hour + 1, tenure.ErrDone},
			{-20 * time.Hour, nil},
		} {
			m := leasetest.NewMemory()
			a, b := nightly(m, "a"), nightly(m, "b")
			lease, err := a.Leaser.Acquire(t.Context(), a.Claim)
			if err != nil {
				t.Fatal(err)
			}
			began := `{"holder":"a","token":1,"started":"` + time.Now().Add(tt.ahead).Format(time.RFC3339Nano) + `"}`
			if err := a.Leaser.(tenure.Recorder).SetRecord(t.Context(), lease, []byte(began)); err != nil {
				t.Fatal(err)
			}
			if err := b.Due(t.Context()); tt.want == nil && err != nil || !errors.Is(err, tt.want) {
				t.Errorf("the last run began %v ahead of this host's clock: Due returns %v, want %v", tt.ahead, err, tt.want)
			}
			b.Retry = true
			if err := b.Due(t.Context()); !errors.Is(err, tt.want) && tt.want == tenure.ErrClock {
				t.Errorf("the last run began %v ahead of this host's clock: with Retry Due returns %v, want %v", tt.ahead, err, tt.want)
			}
			_ = a.Leaser.Close()
			_ = b.Leaser.Close()
		}
	})
}

// keepsNone is a Leaser without records.
type keepsNone struct{ tenure.Leaser }

func TestPeriodicsThatMakeNoSense(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := leasetest.NewMemory()
		for _, tt := range []struct {
			what string
			edit func(*tenure.Periodic)
			says string
		}{
			{"an engine without records", func(p *tenure.Periodic) { p.Leaser = keepsNone{p.Leaser} }, "keeps no records"},
			{"no period", func(p *tenure.Periodic) { p.Every = 0 }, "a period of 0s; give a positive time"},
			{"a negative period", func(p *tenure.Periodic) { p.Every = -1 }, "a period of -1ns; give a positive time"},
			{"several slots", func(p *tenure.Periodic) { p.Claim.Slots = 2 }, "2 slots for work that is done once a period"},
			{"a bad name", func(p *tenure.Periodic) { p.Claim.Name = "" }, "the name is empty"},
		} {
			p := nightly(m, "a")
			l := p.Leaser
			tt.edit(&p)
			err := p.Do(t.Context(), func(context.Context, tenure.Lease) error { t.Errorf("%s: the work runs", tt.what); return nil })
			if !errors.Is(err, tenure.ErrClaim) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: Do returns %v, want %q and %q", tt.what, err, tenure.ErrClaim, tt.says)
			}
			_ = l.Close()
		}
		p := nightly(m, "a")
		defer p.Leaser.Close()
		p.Claim.Slots = 1
		if err := p.Do(t.Context(), func(_ context.Context, lease tenure.Lease) error {
			return p.Leaser.(tenure.Recorder).SetRecord(t.Context(), lease, []byte("mine"))
		}); err != nil {
			t.Error(err)
		}
		lease, err := p.Leaser.Acquire(t.Context(), p.Claim)
		if err != nil {
			t.Fatal(err)
		}
		for _, foreign := range []string{"mine", `{"holder":"a"}`} {
			if err := p.Leaser.(tenure.Recorder).SetRecord(t.Context(), lease, []byte(foreign)); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Last(t.Context()); !errors.Is(err, tenure.ErrClaim) || !strings.Contains(err.Error(), "which no Periodic has written") {
				t.Errorf("with the record %q Last returns %v, want %q", foreign, err, tenure.ErrClaim)
			}
		}
	})
}

// silent is a Leaser whose store does not answer reads of records.
type silent struct{ tenure.Leaser }

func (silent) Record(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s silent) SetRecord(ctx context.Context, l tenure.Lease, record []byte) error {
	return s.Leaser.(tenure.Recorder).SetRecord(ctx, l, record)
}

// A look at the record under a lease lasts no longer than the lease.
func TestBeginEndsWithTheLease(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := leasetest.NewMemory()
		p := nightly(m, "a")
		inner := p.Leaser
		defer inner.Close()
		lease, err := inner.Acquire(t.Context(), p.Claim)
		if err != nil {
			t.Fatal(err)
		}
		m.Fixture(ttl).Cut(inner)
		p.Leaser = silent{inner}
		deadline := lease.Deadline()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := p.Begin(ctx, lease); !errors.Is(err, tenure.ErrLost) || time.Since(deadline) > time.Second {
			t.Errorf("Begin returns %v, %v after the deadline of its lease, want %q at once", err, time.Since(deadline), tenure.ErrLost)
		}
		m.Fixture(ttl).Heal(inner)
	})
}

// unrecorded is a Leaser whose store takes no record any more.
type unrecorded struct {
	tenure.Leaser
	fails error
}

func (u unrecorded) Record(ctx context.Context, name string) ([]byte, error) {
	return u.Leaser.(tenure.Recorder).Record(ctx, name)
}

func (u unrecorded) SetRecord(context.Context, tenure.Lease, []byte) error { return u.fails }

// Work whose beginning cannot be recorded does not begin.
func TestWorkThatCannotBeRecorded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := nightly(leasetest.NewMemory(), "a")
		defer p.Leaser.Close()
		inner := p.Leaser
		p.Leaser = unrecorded{inner, tenure.ErrUnavailable}
		err := p.Do(t.Context(), func(context.Context, tenure.Lease) error { t.Error("the work runs"); return nil })
		if !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), `record that "nightly" begins`) {
			t.Errorf("the beginning is not recorded: Do returns %v, want %q", err, tenure.ErrUnavailable)
		}
		if s, err := inner.Observe(t.Context(), "nightly"); err != nil || len(s.Holders) > 0 {
			t.Errorf("the beginning is not recorded: held by %+v, %v, want by nobody", s, err)
		}
		lease, err := inner.Acquire(t.Context(), p.Claim)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.End(t.Context(), lease, tenure.Run{}, nil); !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), `record that "nightly" has ended`) {
			t.Errorf("the end is not recorded: End returns %v, want %q", err, tenure.ErrUnavailable)
		}
		// A lease that ends while its beginning is recorded has no time left for the work.
		p.Leaser = unrecorded{inner, nil}
		_ = lease.Release(t.Context())
		if _, err := p.Begin(t.Context(), lease); !errors.Is(err, tenure.ErrReleased) {
			t.Errorf("the lease ends meanwhile: Begin returns %v, want %q", err, tenure.ErrReleased)
		}
	})
}

// unread is a Leaser whose records cannot be read.
type unread struct {
	silent
	fails error
}

func (u unread) Record(context.Context, string) ([]byte, error) { return nil, u.fails }

// Work does not begin where the record of its last run cannot be read, and the error says why.
func TestAnUnreadRecord(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := nightly(leasetest.NewMemory(), "a")
		inner := p.Leaser
		defer inner.Close()
		lease, err := inner.Acquire(t.Context(), p.Claim)
		if err != nil {
			t.Fatal(err)
		}
		p.Leaser = unread{silent{inner}, errBackup}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, last := p.Last(t.Context())
		_, begun := p.Begin(t.Context(), lease)
		done := p.Do(ctx, func(context.Context, tenure.Lease) error { t.Error("the work runs"); return nil })
		for call, err := range map[string]error{"Last": last, "Due": p.Due(t.Context()), "Begin": begun, "Do": done} {
			if !errors.Is(err, errBackup) || !strings.Contains(err.Error(), `look for the last run of "nightly": `) {
				t.Errorf("without an answer %s returns %v, want %q and the name", call, err, errBackup)
			}
		}
	})
}
