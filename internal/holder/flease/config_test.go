package flease

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestConfigsThatCannotBe: a peer does not start with a bad Config. The error names the change, and
// nothing is left behind.
func TestConfigsThatCannotBe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	one := Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: addr}}
	asked := false
	for name, tt := range map[string]struct {
		edit func(*Config)
		says string
		own  bool // the error is no fault of the configuration
	}{
		"no Self":       {func(c *Config) { c.Self = "" }, "Self is empty", false},
		"no Membership": {func(c *Config) { c.Membership = nil }, "Membership is missing", false},
		"no list": {func(c *Config) {
			c.Membership = func(context.Context, Members) (Members, error) { return one, io.ErrNoProgress }
		}, io.ErrNoProgress.Error(), true},
		"an empty list":     {func(c *Config) { c.Membership = Fixed(Members{Epoch: 1}) }, "there are no members", false},
		"no member":         {func(c *Config) { c.Self = "127.0.0.1:1" }, "this peer, 127.0.0.1:1, is not among the members (epoch 1: 1=" + addr + ")", false},
		"a t_max too short": {func(c *Config) { c.TMax = time.Millisecond }, "is too short", false},
		"no numbers":        {func(c *Config) { c.Rand = iotest.ErrReader(io.ErrNoProgress) }, "draw an incarnation: " + io.ErrNoProgress.Error(), true},
		"a kernel that doubts": {func(c *Config) {
			c.CheckClock = true
			c.kernel = func(limit time.Duration) error {
				if asked = true; limit != 10*time.Millisecond {
					t.Errorf("the kernel is asked whether the clock is right to %v, want half of ε", limit)
				}
				return errors.New("it may be wrong by a day")
			}
		}, "it may be wrong by a day", false},
		"a port that is taken": {func(c *Config) { c.Listen = taken.Addr().String() }, "listen for peers", true},
	} {
		cfg := Config{
			Self: addr, Membership: Fixed(one), TMax: 4 * time.Second, Epsilon: 20 * time.Millisecond,
			Logger: slog.New(slog.DiscardHandler), fresh: true,
		}
		tt.edit(&cfg)
		p, err := Start(t.Context(), cfg)
		if err == nil {
			p.Close()
			t.Errorf("%s: it starts", name)
			continue
		}
		if !strings.Contains(err.Error(), tt.says) || errors.Is(err, ErrConfig) == tt.own {
			t.Errorf("%s: %v; want %q, and that the configuration is bad: %v", name, err, tt.says, !tt.own)
		}
		again, err := net.Listen("tcp", addr)
		if err != nil {
			t.Errorf("%s: a start that failed has left a listener: %v", name, err)
			continue
		}
		again.Close()
	}
	if !asked {
		t.Error("the kernel is not asked about its clock")
	}
}

// TestDefaultsOfAConfig: missing options get the documented values, and given ones stay.
func TestDefaultsOfAConfig(t *testing.T) {
	given := Config{Self: "a:1", Membership: Fixed(Members{})}
	c, err := given.complete()
	if err != nil {
		t.Fatal(err)
	}
	if c.TMax != DefaultTMax || c.Epsilon != DefaultEpsilon || c.Listen != "a:1" || c.Clock != clock.System || c.FS != (wal.OS{}) || c.Logger != slog.Default() {
		t.Errorf("defaults: %+v", c)
	}
	if c.Rand == nil || c.kernel == nil || c.Wall == nil || time.Since(c.Wall()).Abs() > time.Minute {
		t.Errorf("no default for Rand, the kernel's clock or Wall: %+v", c)
	}
	given.Listen, given.TMax, given.Epsilon, given.Logger = "0.0.0.0:1", time.Minute, time.Second, slog.New(slog.DiscardHandler)
	if c, err = given.complete(); err != nil || c.Listen != "0.0.0.0:1" || c.TMax != time.Minute || c.Epsilon != time.Second || c.Logger != given.Logger {
		t.Errorf("what was given: %+v, %v", c, err)
	}
}

// TestIncarnations: the incarnation of a peer is the number that was drawn, and never 0.
func TestIncarnations(t *testing.T) {
	for drawn, want := range map[string]uint32{"\x01\x02\x03\x04": 0x04030201, "\x00\x00\x00\x00": 1, "\xff\xff\xff\xff": 1<<32 - 1} {
		if got, err := incarnation(strings.NewReader(drawn)); err != nil || got != want {
			t.Errorf("of %q comes %#x, %v; want %#x", drawn, got, err, want)
		}
	}
	if got, err := incarnation(strings.NewReader("\x01\x02\x03")); err == nil {
		t.Errorf("of three bytes comes %#x", got)
	}
}

// TestUnwise: an allowed but unwise configuration is logged.
func TestUnwise(t *testing.T) {
	for _, wise := range []bool{true, false} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		addr := l.Addr().String()
		cfg := Config{
			Self: addr, Listener: l, Membership: Fixed(Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: addr}}),
			TMax: 4 * time.Second, Epsilon: 20 * time.Millisecond, fresh: true,
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		}
		if !wise {
			cfg.Epsilon = 500 * time.Millisecond
		}
		p, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		if told := strings.Contains(log.String(), "less than ten times"); told == wise {
			t.Errorf("t_max is %v and ε %v, and the log says %q", cfg.TMax, cfg.Epsilon, log.String())
		}
	}
}
