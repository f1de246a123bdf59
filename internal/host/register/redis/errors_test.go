package redis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// refusal is an error reply of a server.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// TestWordsOfServers: a server's error is reported in our words, and is no error of the
// client library's any more.
func TestWordsOfServers(t *testing.T) {
	for said, want := range map[string]error{
		"GONE no store, or another":                             register.ErrGone,
		"EXISTS something else":                                 ErrExists,
		"RESTORING by another":                                  errRestoring,
		"STALE for a reason":                                    ErrStale,
		"MOVED 3999 127.0.0.1:6381":                             errCluster,
		"ASK 3999 127.0.0.1:6381":                               errCluster,
		"CROSSSLOT Keys in request don't hash to the same slot": errCluster,
		"WRONGTYPE Operation against a key":                     register.ErrForeign,
		"ERR user_script:3: WRONGTYPE Operation against a key":  register.ErrForeign,
		"READONLY You can't write against a read only replica.": ErrReplica,
		"ERR user_script:3: -READONLY You can't write":          ErrReplica,
		"OOM command not allowed":                               nil,
	} {
		o := Options{Addr: "host:1", Prefix: "p"}
		err := o.trouble(fmt.Errorf("%w", refusal(said)))
		if want != nil && !errors.Is(err, want) || want == nil && !strings.Contains(err.Error(), said) {
			t.Errorf("the server says %q, and we %v; want %v", said, err, want)
		}
		if errors.As(err, new(refusal)) {
			t.Errorf("%q is still a reply of the server", said)
		}
		if !strings.HasPrefix(err.Error(), "redis host:1, prefix p: ") || o.trouble(err) != err {
			t.Errorf("%v, and again %v: want once which server it is", err, o.trouble(err))
		}
		if want == ErrStale && (!errors.Is(err, register.ErrGone) || !strings.Contains(err.Error(), "for a reason")) {
			t.Errorf("%q is told as %v", said, err)
		}
	}
	if err := (&Options{}).trouble(nil); err != nil {
		t.Error(err)
	}
	if err := (&Options{Addr: "host:1"}).trouble(errors.New("lost")); err.Error() != "redis host:1, prefix tenure: lost" {
		t.Errorf("with the default prefix: %v", err)
	}
}

// TestRepliesThatMakeNoSense are told, and taken for nothing.
func TestRepliesThatMakeNoSense(t *testing.T) {
	floor, id := string(encodeSeq(5)), strings.Repeat("i", 16)
	version := string(encodeVersion(machine.Version{Seq: 3, Writer: machine.ID{7}}))
	fields := func(f ...any) any { return []any{floor, f} }
	for name, reply := range map[string]any{
		"nothing":             nil,
		"a number":            int64(1),
		"a floor alone":       []any{floor},
		"a short floor":       []any{"1234567", []any{}},
		"a long floor":        []any{"123456789", []any{}},
		"one thing too many":  []any{floor, []any{}, "x"},
		"half a field":        fields("version"),
		"no text":             fields("data", int64(1)),
		"a short version":     fields("version", version[1:]),
		"a long version":      fields("version", version+"x"),
		"a short note":        fields(id, "1234567"),
		"a short writer":      fields(id[1:], floor),
		"one that left, half": fields("left:"+id[1:], ""),
		"something else":      fields("other", "x"),
	} {
		if s, err := decodeShown(reply); !errors.Is(err, errReply) {
			t.Errorf("%s: %+v, %v; want %v", name, s, err, errReply)
		}
	}
	s, err := decodeShown(fields("version", version, "data", "d", id, floor+"note", "left:"+id, ""))
	if err != nil || s.Floor != 5 || s.Version.Seq != 3 || string(s.Data) != "d" || len(s.Notes) != 1 || s.Notes[0].Seq != 5 || string(s.Notes[0].Data) != "note" || len(s.left) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestEachOperationHasItsOwnError: of operations that are done together, the one that fails says
// so, and no other.
func TestEachOperationHasItsOwnError(t *testing.T) {
	h, _ := made(t, 0, 1)
	o := h.options()
	o.Obsolete = func(machine.Value, machine.ID) bool { return true }
	s := opened(t, o)
	do(t, s, put("x", 1, ann, "a"), put("y", 1, ann, "a"))
	for name, tt := range map[string]struct {
		script string
		fails  []int
	}{
		"query":  {queryScript.hash, []int{0, 5}},
		"put":    {putScript.hash, []int{3}},
		"note":   {noteScript.hash, []int{1}},
		"leave":  {leaveScript.hash, []int{2, 4}},
		"forget": {forgetScript.hash, []int{2, 4}},
		"none":   {"", nil},
	} {
		do(t, s, put("x", 7, ann, "a"), put("y", 7, ann, "a"))
		h.fail(func(_ string, args []string) bool { return len(args) > 0 && args[0] == tt.script })
		var failed []int
		for i, r := range s.Do([]register.Op{query("z"), note("z", 1, bob, "n"), leave("x", ann), put("z", 1, bob, "b"), leave("y", ann), query("x")}) {
			if r.Err != nil {
				failed = append(failed, i)
			}
			if _, shown := r.Value.(quorumregister.State); shown != (r.Err == nil && (i == 0 || i == 5)) {
				t.Errorf("%s fails: operation %d returns %+v", name, i, r)
			}
		}
		if !slices.Equal(failed, tt.fails) {
			t.Errorf("%s fails: the operations that say so are %v, want %v", name, failed, tt.fails)
		}
		h.fail(nil)
	}
}

// TestNamesThatCannotBeRead are not told in part, and the store does not pass for lost.
func TestNamesThatCannotBeRead(t *testing.T) {
	h, s := made(t, 0, 1)
	do(t, s, put("x", 1, ann, "a"))
	for _, command := range []string{"ZSCAN", "HGET"} {
		h.deny(command)
		if names, err := s.Names(); err == nil || names != nil || errors.Is(err, register.ErrGone) || !strings.Contains(err.Error(), "redis "+h.Addr()) {
			t.Errorf("without the right to %s the names are %q, %v", command, names, err)
		}
		h.deny()
	}
}
