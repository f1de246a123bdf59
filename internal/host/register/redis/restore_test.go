package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// hasty is a header with which restoring waits for three seconds, and stores 400 ms
// for an answer, which a busy machine keeps.
func hasty(index, of int) register.Header {
	h := header(index, of)
	h.Term, h.Delay = time.Second, 40*time.Millisecond
	return h
}

func set(t *testing.T, of int) (hosts []*host, stores []*Store) {
	t.Helper()
	for i := range of {
		h := newHost(t)
		if err := Init(t.Context(), h.options(), hasty(i, of)); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
		stores = append(stores, opened(t, h.options()))
	}
	return hosts, stores
}

// TestRestore loses the second of three, which with the first held all that is
// newest, and wants the second and third to know it again.
func TestRestore(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(t *testing.T, h *host){
		"emptied": func(_ *testing.T, h *host) { h.FlushAll() },
		"restarted": func(t *testing.T, h *host) {
			h.set("appendfsync", "everysec")
			h.restart(t, "second")
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			hosts, stores := set(t, 3)
			for i, s := range stores {
				do(t, s, put("x", 1, ann, "old"), note("x", 1, bob, "old"))
				if i < 2 {
					do(t, s, put("x", 2, bob, "new"), note("x", 2, bob, "new"), note("waits", 1, ann, "wish"))
				}
			}
			do(t, stores[1], put("only there, so never complete", 9, ann, "a"))
			hosts[0].HSet("{tenure}:store", "floor", string(encodeSeq(17)))

			lose(t, hosts[1])
			for range 2 {
				if err := stores[1].Do([]register.Op{query("x")})[0].Err; err == nil {
					t.Error("a server that lost everything answers")
				}
			}
			start := time.Now()
			if err := Restore(t.Context(), hosts[1].options(), hasty(1, 3), stores[0], stores[2]); err != nil {
				t.Fatal(err)
			}
			if took, want := time.Since(start), 2*(hasty(1, 3).Term+6*hasty(1, 3).Delay); took < want {
				t.Errorf("it took %v, want %v at least", took, want)
			}
			wantFailure(t, stores[1], query("x"), register.ErrGone) // a process that had it open opens it again
			s := opened(t, hosts[1].options())
			if s.Header() != hasty(1, 3) {
				t.Errorf("the header is %+v", s.Header())
			}
			got := show(t, s, "x") + " | " + show(t, s, "waits") + " | " + show(t, s, "only there, so never complete")
			if want := `2 0200 "new" 0200=2:new floor 17 | 0 0000 "" ff01=1:wish floor 17 | 0 0000 "" floor 17`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if names, err := s.Names(); err != nil || fmt.Sprint(names) != "[x]" {
				t.Errorf("names %q, %v; want x", names, err)
			}
		})
	}
}

func TestRestoreTheOnlyOne(t *testing.T) {
	t.Parallel()
	hosts, stores := set(t, 1)
	do(t, stores[0], put("x", 5, ann, "a"))
	hosts[0].FlushAll()
	before := uint64(time.Now().UnixMilli())
	if err := Restore(t.Context(), hosts[0].options(), hasty(0, 1)); err != nil {
		t.Fatal(err)
	}
	s := opened(t, hosts[0].options())
	calls := []*call{s.call(query("x"))}
	run(t.Context(), s.client, calls)
	reply, err := calls[0].reply()
	if err != nil {
		t.Fatal(err)
	}
	seen, err := decodeShown(reply)
	if err != nil || seen.Floor < before || seen.Version.Seq != 0 {
		t.Errorf("got %+v, %v; want nothing but a floor of %d or more", seen, err, before)
	}
}

// TestRestoreKeepsTokens: the wiped records have raised the floor.
func TestRestoreKeepsTokens(t *testing.T) {
	t.Parallel()
	hosts, stores := set(t, 3)
	do(t, stores[1], put("x", 5, ann, "a"))
	for i := range 250 {
		do(t, stores[1], put(fmt.Sprint(i), uint64(i+1), ann, "a"))
	}
	hosts[1].set("aof_enabled", "0")
	hosts[1].restart(t, "second")
	if err := Restore(t.Context(), hosts[1].options(), hasty(1, 3), stores[0], stores[2]); err == nil {
		t.Fatal("restored what nobody has missed")
	}
	for range 2 {
		stores[1].Do([]register.Op{query("x")}) // somebody notices
	}
	if err := Restore(t.Context(), hosts[1].options(), hasty(1, 3), stores[0], stores[2]); err != nil {
		t.Fatal(err)
	}
	if got, want := show(t, opened(t, hosts[1].options()), "x"), `0 0000 "" floor 250`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if keys := hosts[1].Keys(); len(keys) != 1 {
		t.Errorf("there are %d keys, want the store's own only", len(keys))
	}
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	hosts, stores := set(t, 5)
	hosts[4].FlushAll()
	for _, c := range []struct {
		what   string
		header register.Header
		others []*Store
		want   string
	}{
		{"too few others", hasty(4, 5), stores[:2], "3 other stores"},
		{"one of them twice", hasty(4, 5), []*Store{stores[0], stores[1], stores[1]}, "not another store"},
		{"itself", hasty(4, 5), []*Store{stores[0], stores[1], stores[4]}, "not another store"},
		{"another term", header(4, 5), stores[:3], "not another store"},
		{"bad header", hasty(5, 5), stores[:3], "does not exist"},
	} {
		err := Restore(t.Context(), hosts[4].options(), c.header, c.others...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.what, err, c.want)
		}
	}
	if keys := hosts[4].Keys(); len(keys) > 0 {
		t.Errorf("it left %q", keys)
	}
	err := Restore(t.Context(), hosts[0].options(), hasty(4, 5), stores[1:4]...)
	if !errors.Is(err, ErrExists) {
		t.Errorf("in another's place: %v, want %v", err, ErrExists)
	}
}

// TestRestoreBrokenOff leaves the server shut out, and can be repeated.
func TestRestoreBrokenOff(t *testing.T) {
	t.Parallel()
	hosts, stores := set(t, 3)
	do(t, stores[0], put("x", 1, ann, "a"))
	hosts[1].FlushAll()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for len(hosts[1].Keys()) == 0 && t.Context().Err() == nil { // until it is shut out
			time.Sleep(time.Millisecond)
		}
	}()
	if err := Restore(ctx, hosts[1].options(), hasty(1, 3), stores[0], stores[2]); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	if _, err := Open(t.Context(), hosts[1].options()); !errors.Is(err, ErrStale) {
		t.Errorf("open: %v, want %v", err, ErrStale)
	}
	if err := Init(t.Context(), hosts[1].options(), hasty(1, 3)); !errors.Is(err, ErrExists) {
		t.Errorf("init: %v, want %v", err, ErrExists)
	}
	if err := Restore(t.Context(), hosts[1].options(), hasty(1, 3), stores[0], stores[2]); err != nil {
		t.Fatal(err)
	}
	if got, want := show(t, opened(t, hosts[1].options()), "x"), `1 ff01 "a" floor 1`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRestoreIsWholeOrNone: after any failure on the way the store stays shut out, and a
// later Restore makes up for it.
func TestRestoreIsWholeOrNone(t *testing.T) {
	t.Parallel()
	brief := func(index, of int) register.Header {
		h := header(index, of)
		h.Term, h.Delay = 30*time.Millisecond, time.Millisecond
		return h
	}
	var hosts []*host
	var stores []*Store
	for i := range 3 {
		h := newHost(t)
		if err := Init(t.Context(), h.options(), brief(i, 3)); err != nil {
			t.Fatal(err)
		}
		hosts, stores = append(hosts, h), append(stores, opened(t, h.options()))
		do(t, stores[i], put("x", 3, ann, "a"), note("x", 1, bob, "n"))
	}
	lost, other := hosts[1], hosts[0]
	lost.FlushAll()
	restore := func() error {
		return Restore(t.Context(), lost.options(), brief(1, 3), stores[0], stores[2])
	}
	for name, tt := range map[string]struct {
		at      *host
		command string
		nth     int
	}{
		"the first step":                     {lost, "EVAL", 1},
		"wiping":                             {lost, "EVAL", 2},
		"sealing":                            {lost, "EVAL", 3},
		"arriving":                           {lost, "EVAL", 4},
		"writing what is copied":             {lost, "EVALSHA", 1},
		"writing the last of what is copied": {lost, "EVALSHA", 2},
		"the last step":                      {lost, "EVAL", 5},
		"the names of another":               {other, "ZSCAN", 1},
		"whether another is what it was":     {other, "HGET", 1},
		"what another has":                   {other, "EVALSHA", 2},
	} {
		count := 0
		tt.at.fail(func(cmd string, _ []string) bool {
			if cmd == tt.command {
				count++
			}
			return cmd == tt.command && count == tt.nth
		})
		if err := restore(); err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("%s fails, and Restore says %v", name, err)
		}
		tt.at.fail(nil)
		if s, err := Open(t.Context(), lost.options()); err == nil {
			s.Close()
			t.Errorf("%s fails, and the store counts again", name)
		}
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if got, want := show(t, opened(t, lost.options()), "x"), `3 ff01 "a" 0200=1:n floor 3`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := map[string]string{"header": "true", "seal": "true", "run": "first", "kept": "1", "floor": string(encodeSeq(3))}
	if got := fieldsOf(lost); !maps.Equal(got, want) {
		t.Errorf("a restored store has %q, want what one in order has and nothing of the restore: %q", got, want)
	}
}

// TestTheFloorIsCopiedWithoutData: how far the tokens went is taken over from a store that has
// forgotten all data, too.
func TestTheFloorIsCopiedWithoutData(t *testing.T) {
	for what, ops := range map[string][]register.Op{"nothing": nil, "a note": {note("x", 1, ann, "wish")}, "data": {put("x", 2, ann, "a")}} {
		h, from := made(t, 0, 1)
		_, to := made(t, 0, 1)
		if len(ops) > 0 {
			do(t, from, ops...)
		}
		h.HSet("{tenure}:store", "floor", string(encodeSeq(17)))
		if floor, err := to.copyFrom(t.Context(), from); floor != 17 || err != nil {
			t.Errorf("of a store that holds %s the floor %d is taken over, %v; want 17", what, floor, err)
		}
	}
}
