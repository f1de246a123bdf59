package readtorture

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/core/placement"
)

var first = [together]bool{true, false, false}

// good returns a history that every judge accepts, and the events that watches showed of
// it.
func good() ([]operation, []event) {
	all := [together]bool{true, true, true}
	return []operation{
			{Kind: kindPut, Object: "o", Writes: first, Value: "1", Start: 10, End: 20, Known: true, Revision: 2},
			{Kind: kindGet, Object: "o", Looks: first, Start: 30, End: 40, Known: true, Revision: 2, Saw: [3]string{"1"}, Mods: [3]int64{2}},
			{Kind: kindCAS, Object: "o", Looks: first, Writes: first, Old: "1", Value: "2", Start: 50, End: 80, Known: true, Swapped: true, Revision: 3},
			{Kind: kindTxn, Object: "o", Looks: all, Writes: [3]bool{true, true}, Value: "3", Start: 90, End: 100, Known: true, Revision: 4,
				Saw: [3]string{"2"}, Mods: [3]int64{3}},
			{Kind: kindPut, Object: "p", Writes: first, Value: "4", Start: 90, End: 190}, // no answer
			{Kind: kindSerial, Object: "o", Looks: first, Start: 110, End: 120, Known: true, Revision: 2, Saw: [3]string{"1"}, Mods: [3]int64{2}},
			{Kind: kindCAS, Object: "o", Looks: first, Writes: first, Old: "1", Value: "5", Start: 120, End: 130, Known: true, Revision: 5,
				Saw: [3]string{"3"}, Mods: [3]int64{4}},
			{Kind: kindClear, Object: "o", Looks: all, Writes: all, Start: 140, End: 150, Known: true, Revision: 6,
				Saw: [3]string{"3", "3"}, Mods: [3]int64{4, 4}},
			{Kind: kindRange, Object: "o", Looks: all, Start: 160, End: 170, Known: true, Revision: 6},
			{Kind: kindDelete, Object: "p", Looks: first, Writes: first, Start: 180, End: 190}, // no answer
			{Kind: kindGet, Object: "p", Looks: first, Start: 250, End: 260, Known: true, Revision: 7},
		}, []event{
			{"o/0", "1", 2, 25}, {"o/0", "2", 3, 85}, {"o/0", "3", 4, 105}, {"o/1", "3", 4, 105}, {"p/0", "4", 5, 125},
			{"o/0", "", 6, 155}, {"o/1", "", 6, 155}, {"p/0", "", 7, 200},
		}
}

// verdict has the judges that accept a history.
type verdict struct{ porcupine, audit, strict, byKey, asked bool }

func judge(history []operation, events []event) verdict {
	v := newVersions(events)
	return verdict{
		len(linearizable(history, v, 10*time.Second)) == 0, len(audit(history, v)) == 0,
		len(strictFloors(history, events)) == 0, len(keyFloors(history, events, v)) == 0, len(unasked(history, v)) == 0,
	}
}

// TestJudges shows each fault to the judges that must see it.
func TestJudges(t *testing.T) {
	for _, tt := range []struct {
		name string
		lie  func([]operation, []event) ([]operation, []event)
		want verdict
	}{
		{"the truth", func(h []operation, e []event) ([]operation, []event) { return h, e },
			verdict{true, true, true, true, true}},
		{"a stale read", func(h []operation, e []event) ([]operation, []event) {
			h[8].Saw, h[8].Mods = h[7].Saw, h[7].Mods
			return h, e
		}, verdict{false, false, true, true, true}},
		{"a stale read from a stale state", func(h []operation, e []event) ([]operation, []event) {
			h[8].Saw, h[8].Mods, h[8].Revision = h[7].Saw, h[7].Mods, 5
			return h, e
		}, verdict{false, true, false, false, true}},
		{"a state that is stale elsewhere only", func(h []operation, e []event) ([]operation, []event) {
			return append(h, operation{Kind: kindGet, Object: "o", Looks: first, Start: 270, End: 280, Known: true, Revision: 6}), e
		}, verdict{true, true, false, true, true}},
		{"a read of what was shown, and then not there", func(h []operation, e []event) ([]operation, []event) {
			h[10] = operation{Kind: kindGet, Object: "p", Looks: first, Start: 210, End: 220, Known: true, Revision: 6, Saw: [3]string{"4"}, Mods: [3]int64{5}}
			return h, e
		}, verdict{false, true, false, false, true}},
		{"a range that tears a transaction", func(h []operation, e []event) ([]operation, []event) {
			return append(h, operation{Kind: kindRange, Object: "o", Looks: [3]bool{true, true, true}, Start: 95, End: 139, Known: true, Revision: 4,
				Saw: [3]string{"2", "3"}, Mods: [3]int64{3, 4}}), e
		}, verdict{false, false, true, true, true}},
		{"a serializable read of what is not released", func(h []operation, e []event) ([]operation, []event) {
			h[5] = operation{Kind: kindSerial, Object: "o", Looks: first, Start: 82, End: 83, Known: true, Revision: 4, Saw: [3]string{"3"}, Mods: [3]int64{4}}
			h[6].Kind, h[6].Writes, h[6].Start, h[6].End, h[6].Revision = kindGet, [3]bool{}, 86, 89, 3
			h[6].Saw, h[6].Mods = [3]string{"2"}, [3]int64{3}
			return h, e
		}, verdict{true, true, false, false, true}},
		{"a lost write", func(h []operation, e []event) ([]operation, []event) {
			return append(h, operation{Kind: kindPut, Object: "q", Writes: first, Value: "9", Start: 270, End: 280, Known: true, Revision: 8}), e
		}, verdict{true, false, true, true, true}},
		{"a write that came twice", func(h []operation, e []event) ([]operation, []event) {
			return h, append(e, event{"p/0", "4", 8, 300})
		}, verdict{true, false, true, true, true}},
		{"half of a transaction", func(h []operation, e []event) ([]operation, []event) {
			h[7].Saw[1], h[7].Mods[1] = "", 0
			return h, slices.DeleteFunc(e, func(e event) bool { return e.Key == "o/1" })
		}, verdict{false, false, true, true, true}},
		{"a swap that could not be", func(h []operation, e []event) ([]operation, []event) {
			h[2].Old = "7"
			return h, e
		}, verdict{true, false, true, true, true}},
		{"a swap that was none", func(h []operation, e []event) ([]operation, []event) {
			h[6].Old = "3"
			return h, e
		}, verdict{true, false, true, true, true}},
		{"a write at an old revision", func(h []operation, e []event) ([]operation, []event) {
			h = append(h, operation{Kind: kindPut, Object: "q", Writes: first, Value: "9", Start: 110, End: 120, Known: true, Revision: 4})
			return h, append(e, event{"q/0", "9", 4, 130})
		}, verdict{true, false, false, true, true}},
		{"a deletion that nobody asked for", func(h []operation, e []event) ([]operation, []event) {
			return slices.Delete(h, 9, 10), e
		}, verdict{true, true, true, true, false}},
	} {
		if got := judge(tt.lie(good())); got != tt.want {
			t.Errorf("%s: accepted by %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestJudgesOfWatches(t *testing.T) {
	_, events := good()
	for _, tt := range []struct {
		name string
		lie  func([]event) []event
		fair bool
	}{
		{"the truth", func(e []event) []event { return e }, true},
		{"a gap", func(e []event) []event { return slices.Delete(e, 2, 3) }, false},
		{"an end too early", func(e []event) []event { return e[:5] }, false},
		{"a repetition", func(e []event) []event { return slices.Insert(e, 3, e[2]) }, false},
		{"another order", func(e []event) []event { e[1], e[2] = e[2], e[1]; return e }, false},
		{"another value", func(e []event) []event { e[4].Value = "5"; return e }, false},
	} {
		_, faults := agree([][]event{events, tt.lie(slices.Clone(events))})
		if fair := len(faults) == 0; fair != tt.fair {
			t.Errorf("%s: %v", tt.name, faults)
		}
	}
	late := slices.Clone(events)
	late[0].At = 1
	if got, _ := agree([][]event{events, late}); got[0].At != 1 {
		t.Errorf("shown first at %d, want 1", got[0].At)
	}
}

func TestJudgeOfTheEnd(t *testing.T) {
	_, events := good()
	v := newVersions(append(events, event{"q/0", "9", 8, 300}))
	kv := func(key, value string, revision int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), ModRevision: revision}
	}
	for _, tt := range []struct {
		name string
		kvs  []*mvccpb.KeyValue
		fair bool
	}{
		{"the truth", []*mvccpb.KeyValue{kv("q/0", "9", 8)}, true},
		{"nothing", nil, false},
		{"another revision", []*mvccpb.KeyValue{kv("q/0", "9", 7)}, false},
		{"a deleted version", []*mvccpb.KeyValue{kv("q/0", "9", 8), kv("p/0", "4", 5)}, false},
		{"a version that never was", []*mvccpb.KeyValue{kv("q/0", "9", 8), kv("r/0", "4", 5)}, false},
	} {
		if faults := adds(0, &clientv3.GetResponse{Kvs: tt.kvs}, v); (len(faults) == 0) != tt.fair {
			t.Errorf("%s: %v", tt.name, faults)
		}
	}
}

// TestFewerReads wants reads merged, and none that says more than the others.
func TestFewerReads(t *testing.T) {
	get := func(start, end time.Duration, version int64) step {
		return step{operation: &operation{Object: "o"}, looks: [together]int64{version, nothing, nothing}, start: start, end: end}
	}
	for _, tt := range []struct {
		name string
		in   []step
		want [][2]time.Duration
	}{
		{"one within another", []step{get(1, 9, 2), get(3, 4, 2)}, [][2]time.Duration{{3, 4}}},
		{"two within another", []step{get(1, 9, 2), get(3, 4, 2), get(5, 6, 2)}, [][2]time.Duration{{3, 4}, {5, 6}}},
		{"an overlap", []step{get(1, 5, 2), get(3, 9, 2)}, [][2]time.Duration{{3, 5}}},
		{"one after another", []step{get(1, 2, 2), get(3, 9, 2)}, [][2]time.Duration{{1, 2}, {3, 9}}},
		{"other versions", []step{get(1, 5, 2), get(3, 4, 0)}, [][2]time.Duration{{1, 5}, {3, 4}}},
		{"a chain", []step{get(1, 5, 2), get(3, 9, 2), get(6, 12, 2)}, [][2]time.Duration{{3, 5}, {6, 12}}},
	} {
		var got [][2]time.Duration
		for _, s := range fewerReads(tt.in) {
			got = append(got, [2]time.Duration{s.start, s.end})
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestKept wants a history that was kept to be judged as it was.
func TestKept(t *testing.T) {
	history, events := good()
	history[8].Revision = 5 // stale
	p := NewPlan(12, "", 0, time.Minute)
	path := filepath.Join(t.TempDir(), "history.json")
	if err := keep(path, &p, history, [][]event{events, events}); err != nil {
		t.Fatal(err)
	}
	var want Outcome
	want.judge(&p, history, [][]event{events, events}, nil)
	got, err := Rejudge(path)
	if err != nil || len(want.Violations) == 0 || got.String() != want.String() || len(got.Violations) != len(want.Violations) {
		t.Errorf("%v, %v %v, want %v", err, got, got.Violations, want)
	}
}

func TestPlanRepeats(t *testing.T) {
	const seeds = 20
	seen := map[string]map[string]bool{}
	note := func(what string, which any) {
		if seen[what] == nil {
			seen[what] = map[string]bool{}
		}
		seen[what][fmt.Sprint(which)] = true
	}
	for seed := range uint64(seeds) {
		p := NewPlan(seed, "", 0, time.Minute)
		if !reflect.DeepEqual(p, NewPlan(seed, "", 0, time.Minute)) {
			t.Errorf("seed %d has two plans", seed)
		}
		for _, a := range p.Processes {
			note("faults of processes", a.Fault)
		}
		for _, a := range p.Links {
			note("faults of links", a.Fault)
		}
		for _, a := range p.Insides {
			note("faults within", a.Fault)
		}
		for _, c := range p.Changes {
			note("changes", c.Leaving)
		}
		note("first policies", p.Policies[0])
		note("sizes", p.Members)
	}
	for what, want := range map[string]int{
		"faults of processes": int(staccato) + 1, "faults of links": int(slow) + 1, "faults within": int(pauses) + 1,
		"changes": int(dead) + 1, "first policies": 7, "sizes": 2,
	} {
		if got := len(seen[what]); got != want {
			t.Errorf("%d plans have %d %s, want %d", seeds, got, what, want)
		}
	}
}

// TestCells wants the cells that are given by hand to be such, and to divide keys that are
// read and written together.
func TestCells(t *testing.T) {
	members := []*server.Member{{Name: "m0"}, {Name: "m1"}, {Name: "m2"}}
	named := []placement.Member{{ID: 1, Name: "m0"}, {ID: 2, Name: "m1"}, {ID: 3, Name: "m2"}}
	random := rand.New(rand.NewPCG(1, 1))
	divided := 0
	for range 100 {
		text := cells(random, members)
		conf, err := placement.Parse(text, named)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for n := range objects {
			object := fmt.Sprintf("%s%d/1", root, n)
			if conf.Holders([]byte(key(object, 0))) != conf.Holders([]byte(key(object, 1))) {
				divided++
			}
		}
	}
	if divided < 50 {
		t.Errorf("of %d objects %d are divided", 100*objects, divided)
	}
}
