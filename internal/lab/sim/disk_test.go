package sim

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// then are messages that wait for a record.
var then = []machine.Envelope{{From: 1, To: 2, Body: "durable"}}

// A record for which messages wait is forced, with all before it; one for which none waits may be lost. Messages
// that wait for no record force nothing.
func TestWhatIsForced(t *testing.T) {
	for name, tt := range map[string]struct {
		queue []machine.Persist
		want  string // durable records, and how many of them are forced
	}{
		"a record":                    {[]machine.Persist{{Record: "r"}}, "[a b r] 1"},
		"a record with messages":      {[]machine.Persist{{Record: "r", Then: then}}, "[a b r] 3"},
		"messages without a record":   {[]machine.Persist{{Then: then}}, "[a b] 1"},
		"one behind another":          {[]machine.Persist{{Record: "r", Then: then}, {Record: "s"}}, "[a b r s] 4"},
		"one before messages":         {[]machine.Persist{{Record: "r"}, {Then: then}}, "[a b r] 1"},
		"a rewriting":                 {[]machine.Persist{{Record: Rewrite{Records: []any{"x"}}}}, "[x] 1"},
		"a record, and a rewriting":   {[]machine.Persist{{Record: "r"}, {Record: Rewrite{Records: []any{"x", "y"}}}}, "[x y] 2"},
		"a record behind a rewriting": {[]machine.Persist{{Record: Rewrite{Records: []any{"x"}}}, {Record: "r"}}, "[x r] 2"},
	} {
		d := Disk{Durable: []any{"a", "b"}, Forced: 1, Queue: append(tt.queue, machine.Persist{Record: "next"}), w: NewWorld(1)}
		done := d.sync(len(tt.queue))
		if got := fmt.Sprint(d.Durable, d.Forced); got != tt.want || len(done) != len(tt.queue) || len(d.Queue) != 1 {
			t.Errorf("%s: durable are %s, %d are done, and %d wait; want %s, %d and 1", name, got, len(done), len(d.Queue), tt.want, len(tt.queue))
		}
	}
}

// A crash keeps what was forced, and of all else any prefix. A rewriting that was under way has come to its end or
// not begun, and no record behind it is there without it.
func TestWhatACrashLeaves(t *testing.T) {
	for name, tt := range map[string]struct {
		forced int
		queue  []machine.Persist
		want   []string
	}{
		"all was forced":                    {2, nil, []string{"[a b]"}},
		"one was forced":                    {1, nil, []string{"[a]", "[a b]"}},
		"none was forced":                   {0, nil, []string{"[]", "[a]", "[a b]"}},
		"records were on their way":         {2, []machine.Persist{{Record: "r"}, {Record: "s", Then: then}}, []string{"[a b]", "[a b r]", "[a b r s]"}},
		"a rewriting was on its way":        {2, []machine.Persist{{Record: Rewrite{Records: []any{"x"}}}}, []string{"[a b]", "[x]"}},
		"a rewriting, and a record behind":  {2, []machine.Persist{{Record: Rewrite{Records: []any{"x"}}}, {Record: "r"}}, []string{"[a b]", "[x r]", "[x]"}},
		"a rewriting, and a record before":  {2, []machine.Persist{{Record: "r"}, {Record: Rewrite{Records: []any{"x"}}}}, []string{"[a b r]", "[a b]", "[x]"}},
		"a script has cut what was forced":  {9, nil, []string{"[a b]"}},
		"messages waited, without a record": {1, []machine.Persist{{Then: then}}, []string{"[a]", "[a b]"}},
	} {
		left := map[string]bool{}
		for seed := range uint64(200) {
			h, _ := newProbe(NewWorld(seed), nil, 1, 0)
			h.Disk.Durable, h.Disk.Forced, h.Disk.Queue = []any{"a", "b"}, tt.forced, slices.Clone(tt.queue)
			h.Crash()
			left[fmt.Sprint(h.Disk.Durable)] = true
			if h.Disk.Forced != len(h.Disk.Durable) || len(h.Disk.Queue) > 0 {
				t.Errorf("%s: of %v %d are forced, and %d wait, when the host has crashed", name, h.Disk.Durable, h.Disk.Forced, len(h.Disk.Queue))
			}
		}
		if got := slices.Sorted(maps.Keys(left)); !slices.Equal(got, slices.Sorted(slices.Values(tt.want))) {
			t.Errorf("%s: crashes leave %q, want %q", name, got, tt.want)
		}
	}
}

// Records are written once each, in their order, and messages leave when theirs is there.
func TestRecordsAreWrittenOnce(t *testing.T) {
	w := NewWorld(1)
	net := NewNetwork(w, same)
	h, p := newProbe(w, net, 1, 0)
	_, other := newProbe(w, net, 2, 0)
	h.Disk.Slow = time.Second
	for i, record := range []any{"a", "b", "c"} {
		h.Step(func(rd *machine.Ready[string]) {
			rd.Persists = append(rd.Persists, machine.Persist{Record: record, Then: []machine.Envelope{{From: 1, To: machine.NodeID(1 + i%2), Body: record}}})
		})
		w.Run(10 * time.Millisecond) // the second and the third are written together
	}
	if got := fmt.Sprint(h.Disk.Durable, p.inputs(), other.inputs()); got != "[] [] []" {
		t.Errorf("nothing is written yet: got %s", got)
	}
	w.Run(time.Minute)
	if got, want := fmt.Sprint(h.Disk.Durable, h.Disk.Forced, p.inputs(), other.inputs()), "[a b c] 3 [{1 1 a} {1 1 c}] [{1 2 b}]"; got != want {
		t.Errorf("in the end: got %s, want %s", got, want)
	}
}
