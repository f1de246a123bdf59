package redis_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/redis"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/leasetest"
)

func TestMain(m *testing.M) {
	state, err := os.MkdirTemp("", "state")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_STATE_HOME", state)
	code := m.Run()
	os.RemoveAll(state)
	os.Exit(code)
}

// Leases that are as short as may be with a δ that a very busy machine keeps, where it is
// not simulated.
const (
	term  = 4 * time.Second
	delay = 150 * time.Millisecond
)

// servers are stand-ins for Redis, with the stores of one set.
func servers(t testing.TB, n int) (hosts []*miniredis.Miniredis, cfg engine.Config) {
	for range n {
		h := engine.Host(t)
		hosts = append(hosts, h)
		cfg.Addrs = append(cfg.Addrs, h.Addr())
	}
	if _, err := engine.Init(t.Context(), cfg, storage.Spec{Term: term, Delay: delay}); err != nil {
		t.Fatal(err)
	}
	return hosts, cfg
}

// TestConformance has a server outside of the bubbles, whose answers take no time in them.
func TestConformance(t *testing.T) {
	_, cfg := servers(t, 1)
	leasetest.Simulate(t, func(t testing.TB) leasetest.Fixture {
		var mu sync.Mutex
		faults, clocks := map[tenure.Leaser]*register.Faults{}, map[tenure.Leaser]*clock.Simulated{}
		of := func(l tenure.Leaser) *register.Faults {
			mu.Lock()
			defer mu.Unlock()
			return faults[l]
		}
		return leasetest.Fixture{
			TTL: term,
			Open: func() (tenure.Leaser, error) {
				s, err := redis.Open(context.Background(), redis.Options{Addr: cfg.Addrs[0], Obsolete: storage.Obsolete})
				if err != nil {
					return nil, err
				}
				f := &register.Faults{Store: s}
				c := clock.NewSimulated(machine.Mono(time.Now().UnixNano()))
				set, err := register.NewSetBy(c.Now, []register.Store{f})
				if err != nil {
					return nil, err
				}
				l := storage.New(set, storage.Options{Clock: c})
				mu.Lock()
				defer mu.Unlock()
				faults[l], clocks[l] = f, c
				return l, nil
			},
			Cut:  func(l tenure.Leaser) { of(l).Hang() },
			Heal: func(l tenure.Leaser) { of(l).Heal() },
			Suspend: func(l tenure.Leaser, d time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				clocks[l].Jump(d)
			},
		}
	})
}

// TestOneOfThreeIsDown: before the set is opened, and while it is in use.
func TestOneOfThreeIsDown(t *testing.T) {
	t.Parallel()
	hosts, cfg := servers(t, 3)
	hosts[1].Close()
	l, err := engine.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	health, err := l.Health(t.Context(), "x")
	if err != nil || len(health) != 3 {
		t.Fatalf("%+v, %v", health, err)
	}
	for i, h := range health {
		if h.Addr != cfg.Addrs[i] || (h.Err == nil) != (i != 1) || h.Err != nil && !strings.Contains(h.Err.Error(), h.Addr) {
			t.Errorf("store %d: %+v", i, h)
		}
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	hosts[2].Close()
	if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); !errors.Is(err, tenure.ErrUnavailable) {
		t.Errorf("with one of three: %v, want %v", err, tenure.ErrUnavailable)
	}
	if _, err := engine.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "1 of 3 servers can be used") {
		t.Errorf("with one of three: %v", err)
	}
}

// TestMissingServersInAnyOrder: Health returns each server's own error beside its address, in any
// order of the addresses.
func TestMissingServersInAnyOrder(t *testing.T) {
	t.Parallel()
	_, cfg := servers(t, 5)
	a := cfg.Addrs
	gone := []string{a[0], a[3]}
	cfg.Addrs = []string{a[4], a[3], a[1], a[0], a[2]}
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if slices.Contains(gone, addr) {
			return nil, errors.New("nobody is at " + addr)
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	l, err := engine.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addrs, absent := l.Missing()
	for i, addr := range addrs {
		switch missing := i == 0 || i == 3; {
		case missing != (absent[i] != nil):
			t.Fatalf("store %d, at %s, is missing: %t, for the reason %v", i, addr, missing, absent[i])
		case missing && (!slices.Contains(gone, addr) || !strings.Contains(absent[i].Error(), "nobody is at "+addr)):
			t.Errorf("store %d, at %s, is missing for the reason %v", i, addr, absent[i])
		case !missing && addr != a[i]:
			t.Errorf("store %d is at %s, want %s", i, addr, a[i])
		}
	}
	health, err := l.Health(t.Context(), "x")
	if err != nil || len(health) != 5 {
		t.Fatalf("%+v, %v", health, err)
	}
	for i, h := range health {
		if h.Addr != addrs[i] || absent[i] != nil && !errors.Is(h.Err, absent[i]) || absent[i] == nil && (h.Err != nil || h.Warning == "") {
			t.Errorf("store %d: %+v; want %s, %v", i, h, addrs[i], absent[i])
		}
	}
}

// TestStoresAreMadeOnce, and not by Open.
func TestStoresAreMadeOnce(t *testing.T) {
	t.Parallel()
	cfg := engine.Config{Addrs: []string{engine.Host(t).Addr()}}
	if _, err := engine.Open(t.Context(), cfg); !errors.Is(err, register.ErrForeign) {
		t.Errorf("open what was not made: %v, want %v", err, register.ErrForeign)
	}
	h, err := engine.Init(t.Context(), cfg, storage.Spec{})
	if err != nil || h.Term != tenure.DefaultTTL || h.Delay < storage.LeastDelay {
		t.Fatalf("%+v, %v", h, err)
	}
	if _, err := engine.Init(t.Context(), cfg, storage.Spec{}); !errors.Is(err, redis.ErrExists) {
		t.Errorf("a second time: %v, want %v", err, redis.ErrExists)
	}
	l, err := engine.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Header() != h {
		t.Errorf("opened %+v, want %+v", l.Header(), h)
	}
	_, two := servers(t, 3)
	two.Addrs = two.Addrs[:2]
	if l, err := engine.Open(t.Context(), two); !errors.Is(err, register.ErrMismatch) {
		t.Errorf("two servers of a set of three: %v, want %v", err, register.ErrMismatch)
		if err == nil {
			l.Close() // or the servers would wait for its connections to end
		}
	}
}

// TestASetIsMadeWhole, or not at all: servers are looked at before any is written to.
func TestASetIsMadeWhole(t *testing.T) {
	t.Parallel()
	blank, used := engine.Host(t), engine.Host(t)
	spec := storage.Spec{Term: term, Delay: delay}
	if _, err := engine.Init(t.Context(), engine.Config{Addrs: []string{used.Addr()}}, spec); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Init(t.Context(), engine.Config{Addrs: []string{blank.Addr(), used.Addr()}}, spec); !errors.Is(err, redis.ErrExists) {
		t.Errorf("made where one of two servers has a store: %v, want %v", err, redis.ErrExists)
	}
	if keys := blank.Keys(); len(keys) > 0 {
		t.Errorf("half of a set was made: %q", keys)
	}
}

// TestDelayIsMeasured: δ is chosen for a server that is far away, whichever it is.
func TestDelayIsMeasured(t *testing.T) {
	t.Parallel()
	near, far := engine.Host(t).Addr(), engine.Host(t).Addr()
	const away = 20 * time.Millisecond
	cfg := engine.Config{Addrs: []string{far, near}, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == far {
			time.Sleep(away)
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
	if h, err := engine.Init(t.Context(), cfg, storage.Spec{}); err != nil || h.Delay < 2*away {
		t.Errorf("δ = %v, %v; want %v at least, where to connect takes %v", h.Delay, err, 2*away, away)
	}
	cfg.Prefix = "another"
	if h, err := engine.Init(t.Context(), cfg, storage.Spec{Delay: away}); err != nil || h.Delay != away {
		t.Errorf("δ = %v, %v; want %v, which was asked for", h.Delay, err, away)
	}
}

// TestSetsOfOneServer: each has a prefix or a database of its own, and the password is asked for.
func TestSetsOfOneServer(t *testing.T) {
	t.Parallel()
	server := engine.Host(t)
	server.RequireAuth("secret")
	spec := storage.Spec{Term: term, Delay: delay}
	base := engine.Config{Addrs: []string{server.Addr()}, Password: "secret"}
	other, another := base, base
	other.Prefix, another.DB = "other", 3
	for _, cfg := range []engine.Config{base, other, another} {
		if _, err := engine.Init(t.Context(), cfg, spec); err != nil {
			t.Fatalf("prefix %q, database %d: %v", cfg.Prefix, cfg.DB, err)
		}
		l, err := engine.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); err != nil {
			t.Errorf("prefix %q, database %d: %v, want the name free in each set", cfg.Prefix, cfg.DB, err)
		}
	}
	base.Password = ""
	if l, err := engine.Open(t.Context(), base); err == nil {
		l.Close()
		t.Error("opened without the password")
	}
}

func TestAddrs(t *testing.T) {
	for _, addrs := range [][]string{nil, {"a:1", "a:1"}, {"a:1", "b:1", "b:1"}, {"a:1", "b:1", "a:1"}} {
		if engine.CheckAddrs(addrs) == nil {
			t.Errorf("%q: no error", addrs)
		}
		if _, err := engine.Open(t.Context(), engine.Config{Addrs: addrs}); err == nil {
			t.Errorf("open %q: no error", addrs)
		}
	}
	if err := engine.CheckAddrs([]string{"a:1", "b:1", "a:2"}); err != nil {
		t.Error(err)
	}
}

// TestWarnings: Health warns of the losses that each server allows. The stand-ins do not say how
// they are configured.
func TestWarnings(t *testing.T) {
	t.Parallel()
	_, cfg := servers(t, 1)
	l, err := engine.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	health, err := l.Health(t.Context(), "x")
	if err != nil || len(health) != 1 || !strings.Contains(health[0].Warning, "run_id") {
		t.Errorf("%+v, %v; want a warning that the server does not tell when it restarts", health, err)
	}
}

// TestOpenLetsGo: an Open that fails leaves no connection behind, which the end of a host checks.
func TestOpenLetsGo(t *testing.T) {
	t.Parallel()
	hosts, cfg := servers(t, 3)
	hosts[0].Close()
	hosts[1].Close()
	if _, err := engine.Open(t.Context(), cfg); err == nil {
		t.Fatal("opened, with one of three")
	} else if text := err.Error(); !strings.Contains(text, cfg.Addrs[0]) || !strings.Contains(text, cfg.Addrs[1]) {
		t.Errorf("two of three servers are missing, and Open says %v; want what is the matter with each", err)
	}
	if _, err := engine.Open(t.Context(), engine.Config{Addrs: []string{cfg.Addrs[2], cfg.Addrs[2]}}); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("a server is given twice: %v", err)
	}
}

// hasty is a clock on which two minutes pass with each reading.
type hasty struct{ *clock.Simulated }

func (c hasty) Now() machine.Mono {
	c.Jump(2 * time.Minute)
	return c.Simulated.Now()
}

// TestOneClock: the registers go by the clock that the leases go by.
func TestOneClock(t *testing.T) {
	cfg := engine.Config{Addrs: []string{engine.Host(t).Addr()}, Clock: hasty{clock.NewSimulated(1)}}
	spec := storage.Spec{Term: time.Hour, Delay: time.Minute}
	if _, err := engine.Init(t.Context(), cfg, spec); err != nil {
		t.Fatal(err)
	}
	l, err := engine.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Observe(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if l.Delay() <= spec.Delay {
		t.Errorf("an access took minutes by the clock of the leases, and δ is measured as %v", l.Delay())
	}
}
