package redis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// inScripts are commands that scripts use and that write; those that are true need memory.
var inScripts = map[string]bool{"HSET": true, "HSETNX": true, "ZADD": true, "HDEL": false, "DEL": false, "ZREM": false, "PERSIST": false}

// full has the server refuse commands that need memory, as Redis does: in a script before its first
// write only.
func (h *host) full() {
	wrote := false
	h.fail(func(cmd string, _ []string) bool {
		if cmd == "EVAL" || cmd == "EVALSHA" {
			wrote = false
		}
		grows, writes := inScripts[cmd]
		refused := grows && !wrote
		wrote = wrote || writes
		return refused
	})
}

// A server whose memory is full lets the leases that exist go on, with all that belongs to them, and
// takes nothing new.
func TestWhatAFullServerTakes(t *testing.T) {
	h, _ := made(t, 0, 1)
	o := h.options()
	gone := ann
	o.Obsolete = func(_ machine.Value, w machine.ID) bool { return w == gone }
	s := opened(t, o)
	do(t, s, put("x", 1, ann, "a"), note("x", 1, ann, "n"), note("x", 1, bob, "n"), put("z", 1, ann, "a"), note("w", 1, bob, "n"))
	h.full()
	for _, step := range []struct {
		what  string
		op    register.Op
		taken bool
	}{
		{"a look", query("x"), true},
		{"another version of what is there", put("x", 9, bob, "b"), true},
		{"an older version of what is there", put("x", 8, bob, "b"), true},
		{"another note of a writer", note("x", 2, ann, "m"), true},
		{"the first note of a writer", note("x", 1, eve, "e"), false},
		{"a name", put("y", 1, ann, "a"), false},
		{"a name by a note", note("y", 1, ann, "a"), false},
		{"the first version of a name with notes only", put("w", 1, ann, "a"), false},
		{"that a needed writer leaves", leave("x", bob), true},
		{"that an unneeded writer leaves", leave("x", ann), true},
		{"that the only writer leaves", leave("z", ann), true},
	} {
		err := s.Do([]register.Op{step.op})[0].Err
		if step.taken && err != nil || !step.taken && (err == nil || !strings.Contains(err.Error(), "OOM")) {
			t.Errorf("%s: a server without memory says %v, taken must be %v", step.what, err, step.taken)
		}
	}
	h.set("run_id", "second")
	if other, err := Open(t.Context(), o); err != nil {
		t.Errorf("a process that has kept all, without memory: %v", err)
	} else {
		other.Close()
	}
	h.fail(nil)
	if got, want := show(t, s, "x"), `9 0200 "b" 0200=1:n floor 9`; got != want {
		t.Errorf("what is there has become %s, want %s", got, want)
	}
	if names, err := s.index(t.Context(), "0", "1"); err != nil || !slices.Equal(names, []string{"w", "x"}) {
		t.Errorf("the names are %q, %v; want w and x", names, err)
	}
	if kept, err := s.client.HMGet(t.Context(), o.storeKey(), "run", "kept").Result(); err != nil || fmt.Sprint(kept) != "[second 1]" {
		t.Errorf("the process that answers, and whether it keeps all, is noted as %v, %v; want second, and 1", kept, err)
	}
}

// A master that has become a replica since it was met refuses all operations, also those that would
// change nothing: its answers are old.
func TestAMasterThatBecameAReplicaAnswersNothing(t *testing.T) {
	h, s := made(t, 0, 1)
	do(t, s, put("x", 2, ann, "a"), note("x", 2, ann, "n"))
	before := h.Dump()
	h.Server().SetPreHook(func(c *miniserver.Peer, cmd string, args ...string) bool {
		if _, writes := inScripts[cmd]; writes {
			c.WriteError("READONLY You can't write against a read only replica.")
			return true
		}
		if cmd == "INFO" { // as it was
			c.WriteBulk("run_id:first\r\nrole:master\r\nmaxmemory:0\r\n")
			return true
		}
		return false
	})
	for what, op := range map[string]register.Op{
		"a look": query("x"), "a look at nothing": query("y"), "a writer that enters": {Name: "x", Writer: bob, Op: register.Enter{}},
		"a version": put("x", 3, bob, "b"), "an older version": put("x", 1, bob, "b"), "a name": put("y", 1, bob, "b"),
		"a note": note("x", 3, ann, "m"), "an older note": note("x", 1, ann, "m"), "a first note": note("x", 1, bob, "m"),
		"a writer that leaves": leave("x", ann), "one that leaves nothing": leave("x", eve),
	} {
		if err := s.Do([]register.Op{op})[0].Err; !errors.Is(err, ErrReplica) {
			t.Errorf("%s: a replica says %v, want %v", what, err, ErrReplica)
		}
	}
	if other, err := Open(t.Context(), h.options()); !errors.Is(err, ErrReplica) {
		if err == nil {
			other.Close()
		}
		t.Errorf("a store is opened on a server that has just become a replica: %v, want %v", err, ErrReplica)
	}
	if after := h.Dump(); after != before {
		t.Errorf("a replica was changed from\n%sto\n%s", before, after)
	}
}

// A process counts as one that keeps all only if it did so from its beginning, as far as anybody
// can know. If the process kept less, or did not name itself, the store is lost with that process,
// even if it keeps all later. Until a process names itself, nobody can know that it is another one.
func TestWhatIsKeptCountsFromTheBeginOfAProcess(t *testing.T) {
	type says map[string]string
	for name, tt := range map[string]struct {
		made, met says // at Init, and when the same process is met again
		then      says // of the process after it
		lost      bool
	}{
		"all is kept":                      {nil, nil, nil, false},
		"less, and later all":              {says{"appendfsync": "everysec"}, says{"appendfsync": "always"}, nil, true},
		"it told late who it is":           {says{"run_id": ""}, says{"run_id": "first"}, nil, true},
		"it never told, and keeps less":    {says{"run_id": "", "appendfsync": "everysec"}, nil, nil, false},
		"all, and the next keeps less":     {nil, nil, says{"appendfsync": "everysec"}, true},
		"all, and the next does not tell":  {nil, nil, says{"run_id": ""}, false},
		"less for a while, and then again": {nil, says{"appendfsync": "everysec"}, says{"appendfsync": "always"}, true},
	} {
		h := newHost(t)
		tell := func(s says) {
			for k, v := range s {
				h.set(k, v)
			}
		}
		tell(tt.made)
		if err := Init(t.Context(), h.options(), header(0, 1)); err != nil {
			t.Fatal(err)
		}
		tell(tt.met)
		do(t, opened(t, h.options()), put("x", 1, ann, "a"))
		h.set("run_id", "second")
		tell(tt.then)
		s, err := Open(t.Context(), h.options())
		if err == nil {
			s.Close()
		}
		if errors.Is(err, ErrStale) != tt.lost || !tt.lost && err != nil {
			t.Errorf("%s: the store is opened on the next process: %v, must be lost: %v", name, err, tt.lost)
		}
	}
}

// A client with an older store open learns that its writes are lost, also while the store
// is being restored, when it has a seal again.
func TestARestoreUnderWaySaysSo(t *testing.T) {
	h, s := made(t, 0, 1)
	h.HSet("{tenure}:store", "seal", "another", "lost", "it is being restored")
	wantFailure(t, s, query("x"), ErrStale)
	if _, err := Find(t.Context(), h.options()); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "it is being restored") {
		t.Errorf("find: %v, want %v, and why", err, ErrStale)
	}
}

// A restore that another one has overtaken touches nothing any more.
func TestARestoreThatWasOvertakenTouchesNothing(t *testing.T) {
	h, s := made(t, 0, 1)
	do(t, s, put("x", 1, ann, "a"))
	o, ctx := h.options(), t.Context()
	eval := func(lua string, args ...any) error { return s.client.Eval(ctx, lua, o.keys(""), args...).Err() }
	if err := eval(unsealLua, "one", encodeHeader(header(0, 1))); err != nil {
		t.Fatal(err)
	}
	if err := eval(unsealLua, "two", encodeHeader(header(0, 1))); err != nil {
		t.Fatal(err)
	}
	before := h.Dump()
	for what, call := range map[string]func() error{
		"wipes": func() error { return eval(wipeLua, "one") },
		"seals": func() error { return eval(resealLua, "one", "first", "1") },
	} {
		if err := call(); err == nil || !strings.HasPrefix(err.Error(), "RESTORING ") {
			t.Errorf("a restore that was overtaken %s: %v, want that another one has begun", what, err)
		}
	}
	if after := h.Dump(); after != before {
		t.Errorf("a restore that was overtaken has changed\n%sto\n%s", before, after)
	}
	if err := eval(resealLua, "two", "first", "0"); err != nil {
		t.Fatal(err)
	}
	if got := h.HGet(o.storeKey(), "run") + " " + h.HGet(o.storeKey(), "kept") + " " + h.HGet(o.storeKey(), "seal"); got != "first 0 two" {
		t.Errorf("the store is sealed for %q, want the process, that it does not keep all, and the seal", got)
	}
	if err := Init(ctx, o, header(0, 1)); !errors.Is(err, ErrExists) {
		t.Errorf("a store that is being restored is made anew: %v, want %v", err, ErrExists)
	}
	two := newStore(o, header(0, 1), "two")
	defer two.Close()
	do(t, two, put("y", 1, ann, "copied"))
	if err := eval(unsealLua, "three", encodeHeader(header(0, 1))); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, two, put("y", 2, ann, "copied"), ErrStale)
}

// fieldsOf are the fields of a store's own hash, without the header and the seal.
func fieldsOf(h *host) map[string]string {
	all := map[string]string{}
	names, _ := h.HKeys("{tenure}:store")
	for _, name := range names {
		if all[name] = h.HGet("{tenure}:store", name); name == "header" || name == "seal" {
			all[name] = fmt.Sprint(len(all[name]) > 0)
		}
	}
	return all
}

// An operation's writes are all there, and nothing else.
func TestWhatScriptsWrite(t *testing.T) {
	_, s := made(t, 0, 1)
	do(t, s, put("x", 1, ann, "a"), note("x", 1, bob, "n"))
	do(t, s, leave("x", bob))
	do(t, s, note("x", 2, bob, "comes late"))
	if left, err := s.client.HExists(t.Context(), s.options.keys("x")[1], "left:"+string(bob[:])).Result(); err != nil || !left {
		t.Errorf("that a writer left is noted: %v, %v; want it, or its late note is never removed", left, err)
	}
	do(t, s, put("x", 1, ann, "the same version"))
	if got, want := show(t, s, "x"), `1 ff01 "a" 0200=2:comes late floor 1`; got != want {
		t.Errorf("the same version again: %s, want %s", got, want)
	}
	do(t, s, note("y", 7, bob, "n")) // a note's number is no version's
	if got, want := show(t, s, "y"), `0 0000 "" 0200=7:n floor 1`; got != want {
		t.Errorf("a note alone: %s, want %s", got, want)
	}
	do(t, s, note("y", 7, bob, "zz")) // the same number, though the data is later
	if got, want := show(t, s, "y"), `0 0000 "" 0200=7:n floor 1`; got != want {
		t.Errorf("a note of the same number: %s, want %s", got, want)
	}
	do(t, s, put("y", 1, ann, "a"), note("y", 1, eve, "n"))
	if names, err := s.Names(); err != nil || !slices.Equal(names, []string{"x", "y"}) {
		t.Errorf("the names with data are %q, %v; want x and y, whose notes came before and after", names, err)
	}
	for _, q := range []string{"never written", "x"} {
		if state := do(t, s, query(q)).(quorumregister.State); state.Floor != 1 {
			t.Errorf("the floor that %s shows is %d, want 1", q, state.Floor)
		}
	}
}
