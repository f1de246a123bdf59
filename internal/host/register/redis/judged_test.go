package redis

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// TestWhatIsJudged: Obsolete gets the register as it is by then, without the records that go
// already. It is asked about the note of the data's writer only if the data may go, too.
func TestWhatIsJudged(t *testing.T) {
	note := func(w machine.ID) quorumregister.Note {
		return quorumregister.Note{Writer: w, Seq: 3, Data: []byte("n")}
	}
	noted := func(w ...machine.ID) (all []machine.Noted) {
		for _, w := range w {
			all = append(all, machine.Noted{Writer: w, Data: []byte("n")})
		}
		return all
	}
	version := machine.Version{Seq: 7, Writer: bob}
	seen := shown{State: quorumregister.State{Version: version, Data: []byte("d"), Floor: 5, Notes: []quorumregister.Note{note(eve), note(bob), note(ann)}}}
	whole := machine.Value{Version: version, Data: []byte("d"), Next: 8, Notes: noted(eve, bob, ann)}
	type question struct {
		V machine.Value
		W machine.ID
	}
	head := func(data int) []any { return []any{"seal", "x", encodeVersion(version), data} }
	goes := func(w machine.ID) []any { return []any{w[:], encodeNote(note(w))} }
	for name, tt := range map[string]struct {
		data bool
		want []question
		args []any
	}{
		"data and notes": {true, []question{
			{whole, bob}, {machine.Value{Next: 8, Notes: noted(eve, ann)}, ann},
		}, slices.Concat(head(1), goes(bob), goes(ann))},
		"notes only": {false, []question{{whole, ann}}, slices.Concat(head(0), goes(ann))},
	} {
		var asked []question
		s := &Store{seal: "seal", options: Options{Obsolete: func(v machine.Value, w machine.ID) bool {
			asked = append(asked, question{v, w})
			return true
		}}}
		c := s.forget("x", seen, []machine.ID{bob, ann}, tt.data)
		if diff := cmp.Diff(tt.want, asked); diff != "" {
			t.Errorf("%s: judged is (-want +got)\n%s", name, diff)
		}
		if c == nil || !slices.EqualFunc(c.args, tt.args, func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) || c.script != forgetScript {
			t.Errorf("%s: the server is asked to forget %+v, want %v", name, c, tt.args)
		}
		if len(seen.Notes) != 3 || seen.Version != version {
			t.Errorf("%s: what was seen has changed: %+v", name, seen)
		}
	}
	if c := (&Store{options: Options{Obsolete: func(machine.Value, machine.ID) bool { return false }}}).forget("x", seen, []machine.ID{ann}, true); c != nil {
		t.Errorf("nothing is obsolete, and the server is asked to forget %+v", c)
	}
}

// TestDataOfTheDeadStays: the data of a writer that seems to be gone is not forgotten by the way, nor
// his note beside it, until he leaves.
func TestDataOfTheDeadStays(t *testing.T) {
	s := forgetful(t, ann)
	now := time.Now()
	s.now = func() time.Time { return now }
	do(t, s, put("x", 1, ann, "a"), note("x", 1, ann, "n"))
	for range 3 {
		do(t, s, query("x"))
		now = now.Add(s.age())
	}
	if got, want := show(t, s, "x"), `1 ff01 "a" ff01=1:n floor 1`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	do(t, s, leave("x", ann))
	if got, want := show(t, s, "x"), `0 0000 "" floor 1`; got != want {
		t.Errorf("when it has left: %s, want %s", got, want)
	}
}

// TestWhatAServerTells: a server's answers about itself, missing answers, and refused questions are
// judged.
func TestWhatAServerTells(t *testing.T) {
	h := newHost(t)
	base := map[string]string{
		"run_id": "r", "role": "master", "connected_slaves": "0", "second_repl_offset": "-1", "maxmemory": "0", "maxmemory_policy": "noeviction",
		"aof_enabled": "1", "appendfsync": "always", "no-appendfsync-on-rewrite": "no",
	}
	whole := server{run: "r", appends: true, fsync: "always"}
	with := func(f func(*server)) server { s := whole; f(&s); return s }
	for name, tt := range map[string]struct {
		says  map[string]string
		deny  string
		want  server
		is    error
		keeps bool
	}{
		"all is well":            {nil, "", whole, nil, true},
		"a master with replicas": {map[string]string{"connected_slaves": "2"}, "", with(func(s *server) { s.replicas = true }), nil, true},
		"nothing of replicas":    {map[string]string{"connected_slaves": "", "second_repl_offset": ""}, "", whole, nil, true},
		"it took over":           {map[string]string{"second_repl_offset": "17"}, "", with(func(s *server) { s.promoted = true }), nil, false},
		"a replica":              {map[string]string{"role": "slave"}, "", with(func(s *server) { s.replica = true }), ErrReplica, true},
		"a replica that evicts": {map[string]string{"role": "slave", "maxmemory": "100", "maxmemory_policy": "allkeys-lru"}, "",
			with(func(s *server) { s.replica, s.evicts = true, true }), ErrReplica, true},
		"it evicts any key":         {map[string]string{"maxmemory": "100", "maxmemory_policy": "allkeys-lfu"}, "", with(func(s *server) { s.evicts = true }), ErrEvicts, true},
		"any key, of memory enough": {map[string]string{"maxmemory": "0", "maxmemory_policy": "allkeys-lfu"}, "", whole, nil, true},
		"it evicts what may expire": {map[string]string{"maxmemory": "100", "maxmemory_policy": "volatile-lru"}, "", whole, nil, true},
		"it evicts nothing":         {map[string]string{"maxmemory": "100"}, "", whole, nil, true},
		"no log":                    {map[string]string{"aof_enabled": "0"}, "", with(func(s *server) { s.appends = false }), nil, false},
		"a log, each second":        {map[string]string{"appendfsync": "everysec"}, "", with(func(s *server) { s.fsync = "everysec" }), nil, false},
		"pauses":                    {map[string]string{"no-appendfsync-on-rewrite": "yes"}, "", with(func(s *server) { s.pauses = true }), nil, false},
		"not who it is":             {map[string]string{"run_id": ""}, "", with(func(s *server) { s.run = "" }), nil, false},
		"not how it is set":         {nil, "CONFIG", with(func(s *server) { s.fsync, s.pauses = "", true }), nil, false},
		"nothing":                   {nil, "INFO", server{fsync: "always"}, nil, false},
	} {
		for k, v := range base {
			if other, ok := tt.says[k]; ok {
				v = other
			}
			h.set(k, v)
		}
		h.deny(tt.deny)
		o := h.options()
		c := o.client(o.patience, nil)
		got, err := meet(t.Context(), c)
		c.Close()
		if got != tt.want || !errors.Is(err, tt.is) || got.keeps() != tt.keeps || (got.kept() == "1") != tt.keeps {
			t.Errorf("it says %s: %+v, %v, keeps: %v; want %+v, %v, %v", name, got, err, got.keeps(), tt.want, tt.is, tt.keeps)
		}
	}
}

// TestWhoIsMarked: a writer that leaves is marked so if there is a note or data of it, and
// else leaves nothing.
func TestWhoIsMarked(t *testing.T) {
	_, s := made(t, 0, 1)
	do(t, s, put("x", 1, ann, "a"), note("x", 1, bob, "n"), leave("x", ann), leave("x", bob), leave("x", eve), leave("y", ann))
	fields, err := s.client.HKeys(t.Context(), s.options.keys("x")[1]).Result()
	if slices.Sort(fields); err != nil || !slices.Equal(fields, []string{string(bob[:]), "data", "left:" + string(bob[:]), "left:" + string(ann[:]), "version"}) {
		t.Errorf("there is %q, %v; want the data, the note, and that ann and bob have left", fields, err)
	}
	if n, err := s.client.Exists(t.Context(), s.options.keys("y")[1]).Result(); err != nil || n != 0 {
		t.Errorf("one that had nothing leaves something: %d, %v", n, err)
	}
}

// TestKeepsLessAfterARestart: a process that answers in the place of one that kept all may keep less
// from then on, as long as it runs.
func TestKeepsLessAfterARestart(t *testing.T) {
	h, _ := made(t, 0, 1)
	h.restart(t, "second")
	do(t, opened(t, h.options()), put("x", 1, ann, "a"))
	h.set("appendfsync", "everysec")
	do(t, opened(t, h.options()), query("x"))
}
