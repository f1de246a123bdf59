package redis

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

func TestHeaderIsMadeOnce(t *testing.T) {
	h := newHost(t)
	o, want := h.options(), header(2, 5)
	for range 2 {
		if err := Init(t.Context(), o, want); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fieldsOf(h), (map[string]string{"header": "true", "seal": "true", "run": "first", "kept": "1"}); !maps.Equal(got, want) {
		t.Errorf("a new store has %q, want %q", got, want)
	}
	if got, err := Find(t.Context(), o); got != want || err != nil {
		t.Errorf("find: %+v, %v; want %+v", got, err, want)
	}
	if got := opened(t, o).Header(); got != want {
		t.Errorf("opened: %+v, want %+v", got, want)
	}
	other := want
	other.Term++
	if err := Init(t.Context(), o, other); !errors.Is(err, ErrExists) {
		t.Errorf("another header: %v, want %v", err, ErrExists)
	}
}

func TestBadHeaders(t *testing.T) {
	for what, change := range map[string]func(*register.Header){
		"set":    func(h *register.Header) { h.Set = machine.ID{} },
		"of":     func(h *register.Header) { h.Of = 0 },
		"index":  func(h *register.Header) { h.Index = 3 },
		"before": func(h *register.Header) { h.Index = -1 },
		"term":   func(h *register.Header) { h.Term = 0 },
		"delay":  func(h *register.Header) { h.Delay = -1 },
		"drift":  func(h *register.Header) { h.Drift = register.MaxDrift + 1 },
	} {
		h, host := header(0, 3), newHost(t)
		change(&h)
		if err := Init(t.Context(), host.options(), h); err == nil {
			t.Errorf("%s: accepted", what)
		}
		if keys := host.Keys(); len(keys) > 0 {
			t.Errorf("%s: left %q", what, keys)
		}
	}
}

// TestNotOurs: foreign data on the server is refused and left alone.
func TestNotOurs(t *testing.T) {
	const key = "{tenure}:store"
	field := func(value string) func(*host) { return func(h *host) { h.HSet(key, "header", value, "seal", "s") } }
	for _, c := range []struct {
		what string
		put  func(*host)
		want error
	}{
		{"nothing", func(*host) {}, register.ErrForeign},
		{"another type", func(h *host) { h.Set(key, "x") }, register.ErrForeign},
		{"another hash", func(h *host) { h.HSet(key, "x", "y") }, register.ErrForeign},
		{"names alone", func(h *host) { h.ZAdd("{tenure}:names", 1, "x") }, register.ErrForeign},
		{"an unsealed header", func(h *host) { h.HSet(key, "header", encodeHeader(header(0, 3))) }, register.ErrForeign},
		{"no JSON", field("x"), register.ErrForeign},
		{"other JSON", field(`{"format":1}`), register.ErrForeign},
		{"newer", field(strings.Replace(encodeHeader(header(0, 1)), `"format":1`, `"format":2,"more":true`, 1)), register.ErrNewer},
		{"no set", field(strings.Replace(encodeHeader(header(0, 1)), `"set":"07`, `"set":"`, 1)), register.ErrDamaged},
		{"no duration", field(strings.Replace(encodeHeader(header(0, 1)), `"term":"40s"`, `"term":"40"`, 1)), register.ErrDamaged},
		{"no sense", field(strings.Replace(encodeHeader(header(0, 1)), `"of":1`, `"of":0`, 1)), register.ErrDamaged},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := newHost(t)
			c.put(h)
			before := h.Dump()
			if _, err := Find(t.Context(), h.options()); !errors.Is(err, c.want) {
				t.Errorf("find: %v, want %v", err, c.want)
			}
			if _, err := Open(t.Context(), h.options()); !errors.Is(err, c.want) {
				t.Errorf("open: %v, want %v", err, c.want)
			}
			if c.what == "nothing" {
				return
			}
			if err := Init(t.Context(), h.options(), header(0, 1)); err == nil {
				t.Error("init: no error")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // it would wait for leases
			defer cancel()
			if err := Restore(ctx, h.options(), header(0, 1)); err == nil {
				t.Error("restore: no error")
			}
			if after := h.Dump(); after != before {
				t.Errorf("it was changed from\n%sto\n%s", before, after)
			}
		})
	}
}

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "no address"},
		{Options{Addr: "localhost", Prefix: "a{b}"}, "braces"},
		{Options{Addr: "localhost:1"}, "refused"},
		{Options{Addr: "/no/such/socket"}, "no such file"},
	} {
		if _, err := Open(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q in it", c.o, err, c.want)
		}
	}
}

func TestPassword(t *testing.T) {
	h := newHost(t)
	h.RequireUserAuth("ann", "secret")
	o := h.options()
	if err := Init(t.Context(), o, header(0, 1)); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without: %v, want NOAUTH", err)
	}
	o.Username, o.Password = "ann", "secret"
	if err := Init(t.Context(), o, header(0, 1)); err != nil {
		t.Fatal(err)
	}
	do(t, opened(t, o), put("x", 1, ann, "a"))
}
