package flease_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestClockJumps: a peer whose wall clock is set counts as crashed. Its leases are lost, it is silent
// for a quarantine, and others go on.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"ahead": 15 * time.Millisecond, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var offset atomic.Int64
			cfg := brief
			cfg.Wall = setWall(&offset)
			c := newCluster(t, 1, cfg) // alone, so that no other clock is in question
			c.ready()
			l := c.peers[0].Leaser()
			defer l.Close()
			lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			offset.Store(int64(by))
			select {
			case <-lease.Done():
			case <-time.After(1200 * time.Millisecond): // a renewal is due after one second
				t.Fatal("the lease is held by a clock that was set")
			}
			if err := lease.Err(); !errors.Is(err, tenure.ErrLost) {
				t.Errorf("it ended with %v", err)
			}
			s := c.peers[0].Status()
			for end := time.Now().Add(3 * time.Second); s.Serving && time.Now().Before(end); s = c.peers[0].Status() {
				time.Sleep(time.Millisecond) // holders are told first
			}
			if s.Serving || s.SilentMS == 0 {
				t.Errorf("the peer serves on: %+v", s)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := l.TryAcquire(ctx, tenure.Claim{Name: "y", TTL: 2 * time.Second}); !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), "the peer is silent after its start, for another") {
				t.Errorf("acquire while it is silent: %v", err)
			}
		})
	}
}

// setWall is the right time plus an offset.
func setWall(offset *atomic.Int64) func() time.Time {
	return func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
}

// TestIdleClockJumps: an idle peer notices that its clock was set, though it gets no request.
func TestIdleClockJumps(t *testing.T) {
	t.Parallel()
	var offset atomic.Int64
	var log lockedBuffer
	cfg := brief
	cfg.Wall = setWall(&offset)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c := newCluster(t, 1, cfg)
	c.ready()
	offset.Store(int64(time.Second))
	for end := time.Now().Add(30 * time.Second); !strings.Contains(log.String(), "flease: jump"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nothing is noticed: %+v\n%s", c.peers[0].Status(), log.String())
		}
	}
}

// TestEitherClockEndsALease: a holder stops when either clock has reached the end.
func TestEitherClockEndsALease(t *testing.T) {
	t.Parallel()
	cfg := brief
	cfg.TMax = time.Hour
	c := newCluster(t, 1, cfg)
	c.ready()
	l := c.peers[0].Leaser()
	defer l.Close()
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: 50 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	now := machine.Now{Mono: clock.Now(), Wall: machine.Wall(time.Now().UnixNano())}
	late := now
	late.Mono = late.Mono.Add(50 * time.Minute)
	set := now
	set.Wall += machine.Wall(50 * time.Minute)
	for what, c := range map[string]struct {
		now  machine.Now
		held bool
	}{
		"now": {now, true}, "late by the monotonic clock": {late, false}, "late by the synchronized clock": {set, false},
	} {
		if left := engine.Left(lease, c.now); left > 0 != c.held {
			t.Errorf("%s: %v are left", what, left)
		}
	}
}

// TestJudgeClock: an answer of the kernel about its clock is judged, with advice.
func TestJudgeClock(t *testing.T) {
	for _, c := range []struct {
		unsynchronized bool
		wrong          time.Duration
		want           string
	}{
		{false, time.Millisecond, ""},
		{false, 2 * time.Millisecond, ""},
		{false, 2001 * time.Microsecond, "may be wrong by 2.001ms, and ε/2 is 2ms: give all peers a greater ε"},
		{true, 0, "is not synchronized"},
	} {
		err := engine.JudgeClock(c.unsynchronized, c.wrong, 2*time.Millisecond)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestBusy: a claim beyond the limit is refused at once by TryAcquire, and waits in Acquire.
func TestBusy(t *testing.T) {
	t.Parallel()
	cfg := brief
	cfg.MaxClaims = 1
	c := newCluster(t, 1, cfg)
	c.ready()
	l := c.peers[0].Leaser()
	defer l.Close()
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "y", TTL: time.Second}); !errors.Is(err, engine.ErrBusy) || !errors.Is(err, tenure.ErrUnavailable) {
		t.Errorf("one too many: %v, want %v", err, engine.ErrBusy)
	}
	later := make(chan error, 1)
	go func() {
		_, err := l.Acquire(t.Context(), tenure.Claim{Name: "y", TTL: time.Second})
		later <- err
	}()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-later; err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

// TestKernelDoubtsItsClock: a peer is silent for as long as its kernel does not vouch for its clock,
// and for a quarantine more.
func TestKernelDoubtsItsClock(t *testing.T) {
	var doubt atomic.Bool
	var asked atomic.Int64
	cfg := engine.Kernel(brief, func(limit time.Duration) error {
		asked.Store(int64(limit))
		if doubt.Load() {
			return errors.New("nobody knows")
		}
		return nil
	})
	inLab(t, 1, cfg, func(l *lab) {
		p := l.peers[0]
		serves := func(within time.Duration) bool {
			for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if p.Status().Serving {
					return true
				}
			}
			return false
		}
		quarantine := brief.TMax + 3*brief.Epsilon
		from := p.Leaser()
		defer from.Close()
		lease := l.acquire(from, time.Second, tenure.Claim{Name: "x", TTL: time.Second})
		if limit := time.Duration(asked.Load()); limit != brief.Epsilon/2 {
			t.Errorf("the kernel is asked whether the clock is right to %v, want half of ε, %v", limit, brief.Epsilon/2)
		}
		doubt.Store(true)
		time.Sleep(brief.TMax/10 + time.Second)
		if err := lease.Check(); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("what was held by a clock that nobody vouches for: %v", err)
		}
		if serves(3 * quarantine) {
			t.Errorf("a peer serves by a clock that the kernel does not vouch for: %+v", p.Status())
		}
		if why := p.Status().Clock; why != "nobody knows" {
			t.Errorf("the status says %q of the clock", why)
		}
		doubt.Store(false)
		if !serves(quarantine + time.Second) {
			t.Errorf("the kernel vouches for the clock again, and the peer is silent: %+v", p.Status())
		}
	})
}
