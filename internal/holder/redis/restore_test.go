package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
	"github.com/tenure-lease/tenure/internal/machine"
)

// madeSet is a set of so many servers, with leases as short as may be.
func madeSet(t *testing.T, n int) (servers []*miniredis.Miniredis, cfg Config) {
	t.Helper()
	for range n {
		h := Host(t)
		servers, cfg.Addrs = append(servers, h), append(cfg.Addrs, h.Addr())
	}
	if _, err := Init(t.Context(), cfg, storage.Spec{Term: time.Second, Delay: 40 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return servers, cfg
}

// ofAnother makes a server one of another set, which has lost writes.
func ofAnother(t *testing.T, h *miniredis.Miniredis, header register.Header) {
	t.Helper()
	h.FlushAll()
	header.Set, header.Term, header.Delay, header.Drift = machine.ID{1}, time.Second, 40*time.Millisecond, 1
	if err := redis.Init(t.Context(), redis.Options{Addr: h.Addr()}, header); err != nil {
		t.Fatal(err)
	}
	h.HSet("{tenure}:store", "lost", "it was restarted")
}

// An empty server gets the place in its set that no other has, and none while that cannot be told.
func TestThePlaceOfARestoredServer(t *testing.T) {
	loses := func(h *miniredis.Miniredis) { h.HSet("{tenure}:store", "lost", "it was restarted") }
	for _, tt := range []struct {
		what   string
		change func(s []*miniredis.Miniredis, cfg *Config)
		server int
		index  int
		err    string
	}{
		{"the last one is empty", func(s []*miniredis.Miniredis, _ *Config) { s[4].FlushAll() }, 4, 4, ""},
		{"the second one is empty", func(s []*miniredis.Miniredis, _ *Config) { s[1].FlushAll() }, 1, 1, ""},
		{"the servers are named in another order", func(s []*miniredis.Miniredis, cfg *Config) {
			s[1].FlushAll()
			cfg.Addrs[0], cfg.Addrs[1] = cfg.Addrs[1], cfg.Addrs[0]
		}, 0, 1, ""},
		{"one has lost writes, and knows its place", func(s []*miniredis.Miniredis, _ *Config) { loses(s[3]) }, 3, 3, ""},
		{"one before it has lost writes, and knows its place", func(s []*miniredis.Miniredis, _ *Config) { loses(s[0]); s[2].FlushAll() }, 2, 2, ""},
		{"one before it is empty as well", func(s []*miniredis.Miniredis, _ *Config) { s[0].FlushAll(); s[2].FlushAll() }, 2, 0, ""},
		{"one that does not answer may have the place", func(s []*miniredis.Miniredis, _ *Config) { s[0].Close(); s[2].FlushAll() }, 2, 0, "its place in the set may be that of"},
		{"one that does not answer, and it knows its own", func(s []*miniredis.Miniredis, _ *Config) { s[0].Close(); loses(s[2]) }, 2, 2, ""},
		{"one of a larger set may stand where the server of the place should", func(s []*miniredis.Miniredis, _ *Config) {
			ofAnother(t, s[0], register.Header{Of: 7, Index: 6})
			s[2].FlushAll()
		}, 2, 0, "is one of another set"},
		{"one of another set may stand where the server of the place should", func(s []*miniredis.Miniredis, _ *Config) {
			ofAnother(t, s[0], register.Header{Of: 5, Index: 2})
			s[2].FlushAll()
		}, 2, 0, "is one of another set"},
		{"the server does not answer", func(s []*miniredis.Miniredis, _ *Config) { s[2].Close() }, 2, 0, "connection refused"},
		{"not all are named", func(s []*miniredis.Miniredis, cfg *Config) { s[2].FlushAll(); cfg.Addrs = cfg.Addrs[:3] }, 2, 0, "the set has 5 servers, and 3 are given"},
		{"all are empty", func(s []*miniredis.Miniredis, _ *Config) {
			for _, h := range s {
				h.FlushAll()
			}
		}, 2, 0, "no other server of the set is in order"},
	} {
		servers, cfg := madeSet(t, 5)
		tt.change(servers, &cfg)
		m := meet(t.Context(), cfg, cfg.Addrs[tt.server])
		h, err := m.header()
		m.close()
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %+v, %v; want an error that has %q", tt.what, h, err, tt.err)
			}
			continue
		}
		if err != nil || h.Index != tt.index || h.Of != 5 || h.Term != time.Second {
			t.Errorf("%s: %+v, %v; want place %d of 5", tt.what, h, err, tt.index)
		}
	}
}

// A server more than the set has, one that is in order, one too few to restore from, and a single
// one that is empty: nothing is restored.
func TestWhatIsNotRestored(t *testing.T) {
	for _, tt := range []struct {
		what   string
		of     int
		change func(s []*miniredis.Miniredis, cfg *Config) (addr string)
		err    string
	}{
		{"one that is in order", 3, func(_ []*miniredis.Miniredis, cfg *Config) string { return cfg.Addrs[1] }, "is in order and needs no restoring"},
		{"one of no set", 3, func(_ []*miniredis.Miniredis, _ *Config) string { return "elsewhere:6379" }, "is none of the set"},
		{"one too few to restore from", 3, func(s []*miniredis.Miniredis, cfg *Config) string {
			s[0].FlushAll()
			s[1].FlushAll()
			return cfg.Addrs[1]
		}, "a restore needs 2 other stores of its set, and 1 are given"},
		{"a single one that is empty", 1, func(s []*miniredis.Miniredis, cfg *Config) string { s[0].FlushAll(); return cfg.Addrs[0] }, "stop the processes that use it"},
		{"one named twice", 3, func(_ []*miniredis.Miniredis, cfg *Config) string { cfg.Addrs[0] = cfg.Addrs[1]; return cfg.Addrs[1] }, "is given twice"},
	} {
		servers, cfg := madeSet(t, tt.of)
		addr := tt.change(servers, &cfg)
		if err := Restore(t.Context(), cfg, addr, nil); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want an error that has %q", tt.what, err, tt.err)
		}
	}
}

// Restore tells how long it waits, and stops when it is to. The server stays left out then.
func TestARestoreThatIsInterrupted(t *testing.T) {
	servers, cfg := madeSet(t, 3)
	servers[1].FlushAll()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told time.Duration
	err := Restore(ctx, cfg, cfg.Addrs[1], func(d time.Duration) { told = d; cancel() })
	if want := 3300 * time.Millisecond; !errors.Is(err, context.Canceled) || told.Round(time.Millisecond) != want {
		t.Errorf("Restore said that it waits for %v, and ended with %v; want %v and %v", told, err, want, context.Canceled)
	}
	if _, err := redis.Open(t.Context(), cfg.options(cfg.Addrs[1])); !errors.Is(err, register.ErrForeign) && !errors.Is(err, redis.ErrStale) {
		t.Errorf("opened behind that: %v", err)
	}
}
