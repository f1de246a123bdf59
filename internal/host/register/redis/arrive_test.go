package redis

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// TestRestart has another process answer behind the same address.
func TestRestart(t *testing.T) {
	for _, c := range []struct {
		what          string
		before, after map[string]string // the server's answers about itself
		want          error
	}{
		{"all is kept", nil, nil, nil},
		{"a second may be lost", map[string]string{"appendfsync": "everysec"}, nil, register.ErrGone},
		{"no sync during a rewrite", map[string]string{"no-appendfsync-on-rewrite": "yes"}, nil, register.ErrGone},
		{"no sync during a rewrite, as of now", nil, map[string]string{"no-appendfsync-on-rewrite": "yes"}, register.ErrGone},
		{"no log", map[string]string{"aof_enabled": "0"}, nil, register.ErrGone},
		{"a log was asked for too late", map[string]string{"appendfsync": "no"}, map[string]string{"appendfsync": "always"}, register.ErrGone},
		{"started without a log", nil, map[string]string{"aof_enabled": "0"}, register.ErrGone},
		{"a replica took over", nil, map[string]string{"second_repl_offset": "17"}, register.ErrGone},
		{"a replica answers", nil, map[string]string{"role": "slave"}, ErrReplica},
		{"it evicts now", nil, map[string]string{"maxmemory": "100", "maxmemory_policy": "allkeys-lru"}, ErrEvicts},
		{"it never told", map[string]string{"run_id": ""}, nil, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := newHost(t)
			for k, v := range c.before {
				h.set(k, v)
			}
			if err := Init(t.Context(), h.options(), header(1, 3)); err != nil {
				t.Fatal(err)
			}
			s := opened(t, h.options())
			do(t, s, put("x", 1, ann, "a"))
			for k, v := range c.after {
				h.set(k, v)
			}
			h.restart(t, "second")
			var err error
			for range 3 { // the first may meet the broken connection
				err = s.Do([]register.Op{query("x")})[0].Err
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if c.want != register.ErrGone {
				return
			}
			// It stays so, for everybody, and says why.
			h.restart(t, "first")
			_, err = Open(t.Context(), h.options())
			why := "another process than before answers (run_id second)"
			if c.what == "a replica took over" {
				why = "a replica (run_id second) has taken over from its master"
			}
			if !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), why) {
				t.Errorf("open: %v, want %v, for %s", err, ErrStale, why)
			}
			if got, err := Find(t.Context(), h.options()); got != header(1, 3) || !errors.Is(err, ErrStale) {
				t.Errorf("find: %+v, %v; want the header and %v", got, err, ErrStale)
			}
			if err := Init(t.Context(), h.options(), header(1, 3)); !errors.Is(err, ErrExists) {
				t.Errorf("init: %v, want %v", err, ErrExists)
			}
		})
	}
}

func TestWarning(t *testing.T) {
	for _, c := range []struct {
		what, field, value string
		of                 int
		want               string
	}{
		{"durable", "", "", 1, ""},
		{"loses a second", "appendfsync", "everysec", 1, "appendfsync always"},
		{"loses a second, one of three", "appendfsync", "everysec", 3, ""},
		{"no sync during a rewrite", "no-appendfsync-on-rewrite", "yes", 1, "no-appendfsync-on-rewrite no"},
		{"no log", "aof_enabled", "0", 2, "appendonly yes"},
		{"has a replica", "connected_slaves", "1", 3, "has replicas"},
		{"does not tell", "run_id", "", 3, "run_id"},
	} {
		h := newHost(t)
		if c.field != "" {
			h.set(c.field, c.value)
		}
		if err := Init(t.Context(), h.options(), header(0, c.of)); err != nil {
			t.Fatal(err)
		}
		got := opened(t, h.options()).Warning()
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", c.what, got, c.want)
		}
	}
}

// TestKeepsLess has a server keep less for a while, which one connection sees, and all again before
// it restarts: nobody can know the losses meanwhile.
func TestKeepsLess(t *testing.T) {
	h, _ := made(t, 0, 1)
	h.set("appendfsync", "everysec")
	do(t, opened(t, h.options()), put("x", 1, ann, "a"))
	h.set("appendfsync", "always")
	h.restart(t, "second")
	if _, err := Open(t.Context(), h.options()); !errors.Is(err, ErrStale) {
		t.Errorf("open: %v, want %v", err, ErrStale)
	}
}

// TestAWarningIsOfTheLatestConnection: a server that has been set as it should be is warned of no
// more once it is met again.
func TestAWarningIsOfTheLatestConnection(t *testing.T) {
	h, s := made(t, 0, 1)
	for _, sync := range []string{"everysec", "always"} {
		h.set("appendfsync", sync)
		c := s.options.client(s.options.patience, s.arrive)
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if w := s.Warning(); (w == "") != (sync == "always") || w != "" && !strings.HasPrefix(w, "redis "+h.Addr()+": ") {
			t.Errorf("met with appendfsync %s, the warning is %q", sync, w)
		}
	}
}
