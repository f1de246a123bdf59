package asynclease_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
)

func TestOverlaps(t *testing.T) {
	in := func(first, last uint64) asynclease.Interval { return asynclease.Interval{First: first, Last: last} }
	for _, tc := range []struct {
		a, b asynclease.Interval
		want bool
	}{
		{in(1, 10), in(5, 15), true},
		{in(1, 10), in(5, 6), true}, // contained: as printed, section 2 misses one direction
		{in(1, 10), in(10, 10), true},
		{in(1, 10), in(11, 20), false},
		{in(7, math.MaxUint64), in(math.MaxUint64, math.MaxUint64), true},
	} {
		if tc.a.Overlaps(tc.b) != tc.want || tc.b.Overlaps(tc.a) != tc.want {
			t.Errorf("%v and %v: got %v and %v, want %v both ways", tc.a, tc.b, tc.a.Overlaps(tc.b), tc.b.Overlaps(tc.a), tc.want)
		}
	}
}

func TestIntervalsThatAreNone(t *testing.T) {
	for _, tc := range []struct{ first, n uint64 }{{1, 0}, {0, 1}, {math.MaxUint64, 2}, {2, math.MaxUint64}} {
		if in, err := asynclease.Length(tc.first, tc.n); !errors.Is(err, asynclease.ErrInterval) {
			t.Errorf("%d integers from %d on: got %v, %v; want ErrInterval", tc.n, tc.first, in, err)
		}
	}
	if in, err := asynclease.Length(math.MaxUint64, 1); err != nil || in.Last != math.MaxUint64 {
		t.Errorf("the last integer of all: got %v, %v", in, err)
	}
	m := member(t, 1)
	m.Ready()
	for _, in := range []asynclease.Interval{{First: 10, Last: 1}, {First: 0, Last: 3}} {
		m.Step(machine.Now{}, asynclease.Ask{ID: 1, Interval: in})
		rd := m.Ready()
		v := rd.Outcomes[0]
		if !errors.Is(v.Err, asynclease.ErrInterval) || v.Granted || len(rd.Sends)+len(rd.Persists) > 0 {
			t.Errorf("%v: got %+v, want ErrInterval and nothing else", in, rd)
		}
	}
}

// Messages that no member sends are recognized.
func TestCheck(t *testing.T) {
	in := asynclease.Interval{First: 3, Last: 4}
	of := func(node machine.NodeID, seq uint64) asynclease.Request {
		return asynclease.Request{Node: node, Life: 1, Seq: seq}
	}
	for _, tc := range []struct {
		body any // from 2 to 1
		want string
	}{
		{asynclease.Lease{Request: of(2, 5), Interval: in, Open: 5}, ""},
		{asynclease.Ack{Request: of(1, 5)}, ""},
		{asynclease.Nack{Request: of(1, 5)}, ""},
		{asynclease.Give{Request: of(2, 5), From: 4}, ""},
		{asynclease.Lease{Request: of(3, 5), Interval: in}, "from member 2 to 1 about request 3.1.5"},
		{asynclease.Lease{Request: of(2, 0), Interval: in}, "about request 2.1.0"},
		{asynclease.Lease{Request: of(2, 5), Interval: in, Open: 6}, "all before 6 are over"},
		{asynclease.Lease{Request: of(2, 5), Interval: asynclease.Interval{First: 4, Last: 3}}, "[4,3]"},
		{asynclease.Lease{Request: of(2, 5), Interval: asynclease.Interval{First: 0, Last: 3}}, "[0,3]"},
		{asynclease.Ack{Request: of(2, 5)}, "about request 2.1.5"},
		{asynclease.Nack{Request: of(2, 5)}, "about request 2.1.5"},
		{asynclease.Give{Request: of(1, 5), From: 4}, "about request 1.1.5"},
		{asynclease.Give{Request: of(2, 5)}, "[0,"},
		{"hello", "string is not a message"},
	} {
		err := asynclease.Check(machine.Envelope{From: 2, To: 1, Body: tc.body})
		if (err == nil) != (tc.want == "") || err != nil && (!errors.Is(err, asynclease.ErrImpossible) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%+v: got %v, want %q", tc.body, err, tc.want)
		}
	}
}

// Messages that make no sense are ignored.
func TestMessagesOfStrangers(t *testing.T) {
	m := member(t, 1)
	m.Ready()
	ask := asynclease.Lease{Request: asynclease.Request{Node: 9, Life: 1, Seq: 1}, Interval: asynclease.Interval{First: 1, Last: 2}}
	upside := asynclease.Lease{Request: asynclease.Request{Node: 2, Life: 1, Seq: 1}, Interval: asynclease.Interval{First: 2, Last: 1}}
	for _, e := range []machine.Envelope{
		{From: 9, To: 1, Body: ask}, {From: 2, To: 1, Body: ask}, {From: 2, To: 3, Body: ask}, {From: 2, To: 1, Body: upside},
		{From: 2, To: 1, Body: asynclease.Give{Request: asynclease.Request{Node: 3, Life: 1, Seq: 1}, From: 1}},
		{From: 2, To: 1, Body: asynclease.Ack{Request: asynclease.Request{Node: 1, Life: 1, Seq: 4}}}, {From: 2, To: 1, Body: "hello"},
	} {
		m.Receive(machine.Now{}, e)
		if rd := m.Ready(); len(rd.Sends)+len(rd.Persists)+len(rd.Outcomes) > 0 || len(m.Permitted()) > 0 {
			t.Errorf("%+v: got %+v, want nothing", e, rd)
		}
	}
}

func TestLogsOfOthers(t *testing.T) {
	cfg := asynclease.Config{ID: 1, Members: []machine.NodeID{3, 1, 2}, Life: 2, Retry: time.Second}
	mine := asynclease.Identity{Node: 1, Members: []machine.NodeID{1, 2, 3}}
	mark := asynclease.Permitted{Interval: asynclease.Interval{First: 1, Last: 2}}
	for name, records := range map[string][]any{
		"another member":  {asynclease.Identity{Node: 2, Members: mine.Members}},
		"another group":   {asynclease.Identity{Node: 1, Members: []machine.NodeID{1, 2}}},
		"no beginning":    {mark},
		"two beginnings":  {mine, mine},
		"of another kind": {mine, "?"},
	} {
		if _, err := asynclease.New(cfg, records); !errors.Is(err, asynclease.ErrLog) {
			t.Errorf("%s: got %v, want ErrLog", name, err)
		}
	}
	if _, err := asynclease.New(cfg, []any{mine, mark}); err != nil {
		t.Error(err)
	}
	cfg.ID = 4
	if _, err := asynclease.New(cfg, nil); err == nil {
		t.Error("a member that is not of the group was made")
	}
}

// A log that was written anew says the same as the old one.
func TestRecords(t *testing.T) {
	s := stageOf(t)
	s.Step(1, asynclease.Ask{ID: 1, Interval: asynclease.Interval{First: 11, Last: 20}})
	s.Step(2, asynclease.Ask{ID: 1, Interval: asynclease.Interval{First: 1, Last: 5}})
	s.Settle()
	s.Step(1, asynclease.Return{ID: 1, From: 16})
	s.Settle()
	s.Step(3, asynclease.Forget{Below: 6})
	cfg := asynclease.Config{ID: 3, Members: []machine.NodeID{1, 2, 3}, Life: 2, Retry: time.Second}
	long, err := asynclease.New(cfg, s.Durable(3))
	if err != nil {
		t.Fatal(err)
	}
	short, err := asynclease.New(cfg, long.Records())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(long.Permitted(), short.Permitted()) || len(short.Permitted()) != 1 || short.Permitted()[0].Interval.Last != 15 {
		t.Errorf("got %v from the short log, %v from the long one; want [11,15] alone", short.Permitted(), long.Permitted())
	}
}

// stageOf has three members.
func stageOf(t *testing.T) *stage.Stage[asynclease.Input, asynclease.Verdict] {
	s := stage.New[asynclease.Input, asynclease.Verdict](t)
	for id := range machine.NodeID(3) {
		s.Start(id+1, member(t, id+1))
	}
	return s
}

// A refusal says up to where the integers are taken, so that the next try can begin behind.
func TestRefusalsSayUntilWhere(t *testing.T) {
	s := stageOf(t)
	var last asynclease.Verdict
	s.Outcome = func(_ machine.NodeID, v asynclease.Verdict) { last = v }
	s.Step(1, asynclease.Ask{ID: 1, Interval: asynclease.Interval{First: 11, Last: 20}})
	s.Settle()
	s.Step(2, asynclease.Ask{ID: 1, Interval: asynclease.Interval{First: 15, Last: 30}})
	s.Settle()
	if last.Granted || last.Until != 20 {
		t.Errorf("beside [11,20]: %+v, want a refusal until 20", last)
	}
	for id := range machine.NodeID(3) {
		s.Step(id+1, asynclease.Forget{Below: 51})
	}
	s.Step(2, asynclease.Ask{ID: 2, Interval: asynclease.Interval{First: 31, Last: 60}})
	s.Settle()
	if last.Granted || last.Until != 50 {
		t.Errorf("below the floor of 51: %+v, want a refusal until 50", last)
	}
}

// A lease given back in part can be given back whole later.
func TestReturnsInParts(t *testing.T) {
	s := stageOf(t)
	s.Step(1, asynclease.Ask{ID: 1, Interval: asynclease.Interval{First: 11, Last: 20}})
	s.Settle()
	s.Step(1, asynclease.Return{ID: 1, From: 16})
	s.Settle()
	s.Step(1, asynclease.Return{ID: 1, From: 11})
	s.Settle()
	var last asynclease.Verdict
	s.Outcome = func(_ machine.NodeID, v asynclease.Verdict) { last = v }
	s.Step(2, asynclease.Ask{ID: 1, Interval: asynclease.Interval{First: 11, Last: 12}})
	s.Settle()
	if !last.Granted {
		t.Errorf("what member 1 gave back in two parts was refused to member 2: %+v", last)
	}
}

// A lease that is given back is announced to the others once, and no further than it goes.
func TestReturnsAreToldOnce(t *testing.T) {
	s := stageOf(t)
	s.Step(1, asynclease.Ask{ID: 1, Interval: asynclease.Interval{First: 11, Last: 20}})
	s.Settle()
	for _, tt := range []struct {
		from uint64
		told bool
	}{{21, false}, {16, true}, {16, false}, {17, false}, {15, true}, {11, true}, {11, false}, {5, false}} {
		s.Step(1, asynclease.Return{ID: 1, From: tt.from})
		told := 0
		for _, e := range s.Wire {
			if g, ok := e.Body.(asynclease.Give); ok && g.From == tt.from {
				told++
			}
		}
		if want := map[bool]int{true: 2}[tt.told]; told != want {
			t.Errorf("of 11 to 20 what follows from %d on is given back: %d others are told, want %d", tt.from, told, want)
		}
		s.Settle()
	}
}

// A request that is repeated behind an acceptor's crash is permitted again, not twice.
func TestPermittedOnceOverACrash(t *testing.T) {
	cfg := asynclease.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Life: 2, Retry: time.Second}
	lease := asynclease.Lease{Request: asynclease.Request{Node: 2, Life: 1, Seq: 1}, Interval: asynclease.Interval{First: 1, Last: 5}}
	m, err := asynclease.New(cfg, []any{
		asynclease.Identity{Node: 1, Members: cfg.Members}, asynclease.Permitted{Request: lease.Request, Interval: lease.Interval},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: lease})
	rd := m.Ready()
	if len(rd.Persists) != 1 || len(rd.Persists[0].Then) != 1 || rd.Persists[0].Then[0].Body != any(asynclease.Ack{Request: lease.Request}) {
		t.Errorf("got %+v, want one Ack", rd)
	}
	if got := m.Permitted(); len(got) != 1 {
		t.Errorf("it is marked %d times: %v", len(got), got)
	}
}
