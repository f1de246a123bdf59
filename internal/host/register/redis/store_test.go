package redis

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/google/go-cmp/cmp"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

var ann, bob, eve = machine.ID{0xff, 1}, machine.ID{2}, machine.ID{0, 3}

func query(name string) register.Op { return register.Op{Name: name, Op: quorumregister.Query{}} }

func put(name string, seq uint64, w machine.ID, data string) register.Op {
	return register.Op{Name: name, Writer: w, Op: quorumregister.Put{Version: machine.Version{Seq: seq, Writer: w}, Data: []byte(data)}}
}

func note(name string, seq uint64, w machine.ID, data string) register.Op {
	return register.Op{Name: name, Writer: w, Op: quorumregister.PutNote{Writer: w, Seq: seq, Data: []byte(data)}}
}

func leave(name string, w machine.ID) register.Op {
	return register.Op{Name: name, Writer: w, Op: register.Leave{}}
}

// do performs operations of which none may fail, and returns the last reply.
func do(t *testing.T, s *Store, ops ...register.Op) any {
	t.Helper()
	replies := s.Do(ops)
	for i, r := range replies {
		if r.Err != nil {
			t.Fatalf("operation %d: %v", i, r.Err)
		}
	}
	return replies[len(replies)-1].Value
}

// wantFailure performs an operation, which has to fail with an error that wraps another.
func wantFailure(t *testing.T, s *Store, op register.Op, want error) {
	t.Helper()
	if err := s.Do([]register.Op{op})[0].Err; !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// show is a register in a line: version, data, notes, floor.
func show(t *testing.T, s *Store, name string) string {
	t.Helper()
	state := do(t, s, query(name)).(quorumregister.State)
	text := fmt.Sprintf("%d %x %q", state.Version.Seq, state.Version.Writer[:2], state.Data)
	for _, n := range state.Notes {
		text += fmt.Sprintf(" %x=%d:%s", n.Writer[:2], n.Seq, n.Data)
	}
	return text + fmt.Sprintf(" floor %d", state.Floor)
}

func TestGreaterVersionWins(t *testing.T) {
	_, s := made(t, 0, 1)
	const huge = math.MaxUint64 - 1
	for _, step := range []struct {
		op   register.Op
		want string
	}{
		{query("x"), `0 0000 "" floor 0`},
		{note("x", 1, ann, "n"), `0 0000 "" ff01=1:n floor 0`},
		{put("x", 3, bob, "b"), `3 0200 "b" ff01=1:n floor 3`},
		{put("x", 2, ann, "late"), `3 0200 "b" ff01=1:n floor 3`},
		{put("x", 3, eve, "tie, lost"), `3 0200 "b" ff01=1:n floor 3`},
		{put("x", 3, ann, "tie, won"), `3 ff01 "tie, won" ff01=1:n floor 3`},
		{put("x", 0x100, eve, "bytes\x00\r\n"), `256 0003 "bytes\x00\r\n" ff01=1:n floor 256`},
		{put("x", 0xff, ann, "as a string it would be later"), `256 0003 "bytes\x00\r\n" ff01=1:n floor 256`},
		{put("y", 0x1ff, ann, "raises the floor"), `256 0003 "bytes\x00\r\n" ff01=1:n floor 511`},
		{put("x", 0x101, ann, "below the floor"), `257 ff01 "below the floor" ff01=1:n floor 511`},
		{put("x", huge, eve, "e"), fmt.Sprintf(`%d 0003 "e" ff01=1:n floor %[1]d`, uint64(huge))},
		{put("x", huge-1, ann, "equal as a float"), fmt.Sprintf(`%d 0003 "e" ff01=1:n floor %[1]d`, uint64(huge))},
		{note("x", 3, eve, "e3"), fmt.Sprintf(`%d 0003 "e" 0003=3:e3 ff01=1:n floor %[1]d`, uint64(huge))},
		{note("x", 2, eve, "e2"), fmt.Sprintf(`%d 0003 "e" 0003=3:e3 ff01=1:n floor %[1]d`, uint64(huge))},
		{note("x", 4, eve, ""), fmt.Sprintf(`%d 0003 "e" 0003=4: ff01=1:n floor %[1]d`, uint64(huge))},
	} {
		do(t, s, step.op)
		if got := show(t, s, "x"); got != step.want {
			t.Errorf("after %+v: %s, want %s", step.op.Op, got, step.want)
		}
	}
}

func TestOneRoundTripForMany(t *testing.T) {
	h, s := made(t, 0, 1)
	var ops []register.Op
	for i := range 3 * batch / 2 {
		ops = append(ops, put(fmt.Sprint("name ", i), 1, ann, "x"))
	}
	do(t, s, ops...)
	names, err := s.Names()
	if err != nil || len(names) != len(ops) || !slices.IsSorted(names) {
		t.Errorf("%d names, sorted %t, %v; want %d, sorted", len(names), slices.IsSorted(names), err, len(ops))
	}
	if got := h.count("EVALSHA"); got != len(ops) || h.count("EVAL") > 2 {
		t.Errorf("%d scripts called by their hash and %d otherwise, want %d and 2 (init, arrive)", got, h.count("EVAL"), len(ops))
	}
}

// TestNothingIsAskedTwice: a connection that ends before the answer leaves open whether the
// operation was done. The client library must not try again: the machine that asked may have given
// up by then, and others gone on.
func TestNothingIsAskedTwice(t *testing.T) {
	h, s := made(t, 0, 1)
	do(t, s, query("x"))
	asked := 0
	h.Server().SetPreHook(func(c *miniserver.Peer, cmd string, _ ...string) bool {
		if strings.HasPrefix(strings.ToUpper(cmd), "EVAL") {
			h.mu.Lock()
			defer h.mu.Unlock()
			asked++
			c.Close()
			return true
		}
		return false
	})
	err := s.Do([]register.Op{put("x", 1, ann, "a")})[0].Err
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil || asked != 1 {
		t.Errorf("a write whose answer was lost is sent %d times, and ends with %v: want once, and an error", asked, err)
	}
}

func TestNames(t *testing.T) {
	_, s := made(t, 0, 1)
	do(t, s, put("b", 1, ann, "x"), put("a{}:*", 1, ann, "x"), note("only a note", 1, ann, "x"), query("asked for"))
	got, err := s.Names()
	if want := []string{"a{}:*", "b"}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestNamesOfManyPages: a server may show a name more than once while it looks through them, and
// those of which there are only notes between others.
func TestNamesOfManyPages(t *testing.T) {
	h, s := made(t, 0, 1)
	do(t, s, query("x"))
	pages := map[string][]string{"0": {"7", "c", "1", "a", "1"}, "7": {"9"}, "9": {"0", "d", "1", "b", "0", "a", "1", "half a pair"}}
	h.Server().SetPreHook(func(c *miniserver.Peer, cmd string, args ...string) bool {
		if cmd != "ZSCAN" {
			return false
		}
		page := pages[args[1]]
		c.WriteLen(2)
		c.WriteBulk(page[0])
		c.WriteStrings(page[1:])
		return true
	})
	if got, err := s.Names(); err != nil || !slices.Equal(got, []string{"a", "c", "d"}) {
		t.Errorf("the names are %q, %v; want a, c and d, once each", got, err)
	}
}

// TestStoresDoNotMix has two sets on one server, beside other people's keys.
func TestStoresDoNotMix(t *testing.T) {
	h, s := made(t, 0, 1)
	h.Set("tenure:other", "people's")
	o := h.options()
	o.Prefix = "tenure:2"
	if err := Init(t.Context(), o, header(0, 1)); err != nil {
		t.Fatal(err)
	}
	other := opened(t, o)
	do(t, s, put("x", 5, ann, "one"))
	do(t, other, put("x", 1, bob, "two"))
	if got, want := show(t, s, "x")+show(t, other, "x"), `5 ff01 "one" floor 51 0200 "two" floor 1`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestScriptsAreLoadedAgain(t *testing.T) {
	_, s := made(t, 0, 1)
	if err := s.client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	do(t, s, put("x", 1, ann, "a"), put("x", 2, ann, "b"), note("x", 1, bob, "n"))
	if got, want := show(t, s, "x"), `2 ff01 "b" 0200=1:n floor 2`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUsersWithFewRights(t *testing.T) {
	h, _ := made(t, 0, 1)
	h.deny("INFO", "CONFIG", "SCRIPT")
	s := opened(t, h.options())
	do(t, s, put("x", 1, ann, "a"))
	if w := s.Warning(); !strings.Contains(w, "permit INFO") {
		t.Errorf("the warning is %q", w)
	}
}

func TestEmptiedServer(t *testing.T) {
	h, s := made(t, 0, 1)
	do(t, s, put("x", 1, ann, "a"))
	h.FlushAll()
	for _, op := range []register.Op{query("x"), put("x", 2, ann, "b"), note("x", 1, ann, "n"), leave("x", ann)} {
		wantFailure(t, s, op, register.ErrGone)
		wantFailure(t, s, op, register.ErrForeign)
	}
	if _, err := s.Names(); !errors.Is(err, register.ErrForeign) {
		t.Errorf("names: %v, want %v", err, register.ErrForeign)
	}
	if keys := h.Keys(); len(keys) > 0 {
		t.Errorf("there is %q now, want nothing", keys)
	}
	if _, err := Find(t.Context(), h.options()); !errors.Is(err, register.ErrForeign) {
		t.Errorf("find: %v, want %v", err, register.ErrForeign)
	}
	// Made anew, it is another store for a process that had the old one open.
	if err := Init(t.Context(), h.options(), header(0, 1)); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, s, query("x"), register.ErrGone)
}

// TestHangingServer wants an error in time, and nothing sent a second time.
func TestHangingServer(t *testing.T) {
	h, header := newHost(t), header(0, 1)
	header.Term, header.Delay = 2*time.Second, 100*time.Millisecond
	if err := Init(t.Context(), h.options(), header); err != nil {
		t.Fatal(err)
	}
	s := opened(t, Options{Addr: h.Addr()})
	do(t, s, put("x", 1, ann, "a"))
	before := h.count("EVALSHA")
	h.mu.Lock() // the hook waits
	start := time.Now()
	err := s.Do([]register.Op{put("x", 2, ann, "b")})[0].Err
	took := time.Since(start)
	h.mu.Unlock()
	if err == nil {
		t.Error("a server that hangs acknowledged something")
	}
	if p := patience(s.header); took < p {
		t.Errorf("it took %v, want %v at least", took, p)
	}
	do(t, s, query("x"))
	if got := h.count("EVALSHA") - before; got != 2 {
		t.Errorf("%d scripts reached the server, want 2: the put once, and the query", got)
	}
}

func TestPatience(t *testing.T) {
	for _, c := range []struct{ term, delay, want time.Duration }{
		{10 * time.Second, 5 * time.Millisecond, 1250 * time.Millisecond},
		{10 * time.Second, 200 * time.Millisecond, 2 * time.Second},
		{10 * time.Second, 2 * time.Second, 5 * time.Second},
	} {
		if got := patience(register.Header{Term: c.term, Delay: c.delay}); got != c.want {
			t.Errorf("term %v, delay %v: %v, want %v", c.term, c.delay, got, c.want)
		}
	}
}
