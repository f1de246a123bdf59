package fastct_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

var three = []machine.NodeID{1, 2, 3}

func config() fastct.Config {
	return fastct.Config{ID: 1, Members: three, Lambda: 8, Retry: time.Second}
}

func member(t *testing.T, cfg fastct.Config) *fastct.Machine {
	t.Helper()
	m, err := fastct.New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Ready()
	return m
}

func TestConfig(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*fastct.Config)
		bad    bool
	}{
		"a stranger":                      {func(c *fastct.Config) { c.ID = 4 }, true},
		"nobody":                          {func(c *fastct.Config) { c.Members = []machine.NodeID{1, 0} }, true},
		"somebody twice":                  {func(c *fastct.Config) { c.Members = []machine.NodeID{1, 2, 2} }, true},
		"no lambda":                       {func(c *fastct.Config) { c.Lambda = 0 }, true},
		"no lambda, and no leases":        {func(c *fastct.Config) { c.Lambda, c.Plain = 0, true }, false},
		"the greatest lambda":             {func(c *fastct.Config) { c.Lambda = fastct.LambdaMax }, false},
		"a lambda that is too great":      {func(c *fastct.Config) { c.Lambda = fastct.LambdaMax + 1 }, true},
		"no leases, and such a lambda":    {func(c *fastct.Config) { c.Lambda, c.Plain = fastct.LambdaMax+1, true }, true},
		"no retry":                        {func(c *fastct.Config) { c.Retry = 0 }, true},
		"heartbeats of the past":          {func(c *fastct.Config) { c.Heartbeat, c.Timeout = -1, time.Second }, true},
		"no heartbeats, and no timeout":   {func(c *fastct.Config) { c.Timeout = 0 }, false},
		"no heartbeats, and a long one":   {func(c *fastct.Config) { c.Timeout = 25 * time.Hour }, false},
		"a slow detector":                 {func(c *fastct.Config) { c.Heartbeat, c.Timeout = time.Second, 24*time.Hour+1 }, true},
		"the slowest detector":            {func(c *fastct.Config) { c.Heartbeat, c.Timeout = time.Second, 24*time.Hour }, false},
		"a hurried detector":              {func(c *fastct.Config) { c.Heartbeat, c.Timeout = time.Second, 2*time.Second-1 }, true},
		"the most hurried that there may": {func(c *fastct.Config) { c.Heartbeat, c.Timeout = time.Second, 2*time.Second }, false},
	} {
		cfg := config()
		tt.change(&cfg)
		if m, err := fastct.New(cfg, nil); (err != nil) != tt.bad {
			t.Errorf("%s: got %v, %v; want an error %v", name, m, err, tt.bad)
		}
	}
}

func TestLogsOfOthers(t *testing.T) {
	mine := fastct.Identity{Node: 1, Members: three}
	for name, records := range map[string][]any{
		"another member":        {fastct.Identity{Node: 2, Members: three}},
		"another group":         {fastct.Identity{Node: 1, Members: three[:2]}},
		"another algorithm":     {fastct.Identity{Node: 1, Members: three, Plain: true}},
		"another coordinator":   {fastct.Identity{Node: 1, Members: three, Spread: true}},
		"no beginning":          {fastct.Entered{CN: 1, Round: 3}},
		"two beginnings":        {mine, mine},
		"of another kind":       {mine, 7},
		"decided, adopted none": {mine, fastct.Settled{CN: 1, Adopted: true}},
	} {
		if _, err := fastct.New(config(), records); !errors.Is(err, fastct.ErrLog) {
			t.Errorf("%s: got %v, want ErrLog", name, err)
		}
	}
}

// Messages that make no sense are refused, and the owner learns why: unknown members,
// rounds that are impossible or not the sender's. Instances that are too far away are
// passed over.
func TestMessagesThatMakeNoSense(t *testing.T) {
	m := member(t, config())
	m.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("a")})
	m.Ready()
	const far = 1<<32 + 3 // beyond NORMAL mode's first round; 2's
	for _, tc := range []struct {
		e    machine.Envelope
		want string // in the error; "" if it is passed over
	}{
		{machine.Envelope{From: 9, To: 1, Body: fastct.Estimate{CN: 1, Round: 3}}, "from member 9 to 1"},
		{machine.Envelope{From: 2, To: 3, Body: fastct.Estimate{CN: 1, Round: 3}}, "from member 2 to 3, and this is member 1 of [1 2 3]"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Estimate{CN: 1, Round: 4, TS: -1}}, "round 4 from member 2 to 1, and the coordinator is 2"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Estimate{CN: 1, Round: -1, TS: -1}}, "round -1, and this member is in round 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Estimate{CN: 1, Round: 3, TS: 3}}, "round 3 that was adopted in round 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Estimate{CN: 1, Round: 3, TS: -2}}, "round 3 that was adopted in round -2"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.NewEstimate{CN: 1, Round: 5}}, "the coordinator is 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Abort{CN: 1, Round: 5}}, "the coordinator is 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Ack{CN: 1, Round: 5}}, "the coordinator is 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Nack{CN: 1, Round: 5}}, "the coordinator is 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Call{CN: 1, Round: 5}}, "the coordinator is 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Call{CN: 1, Round: far + 3}}, "this member is in round 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Decide{CN: 1, Round: far + 3}}, "this member is in round 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.NewEstimate{CN: 1, Round: -1}}, "round -1, and this member is in round 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Ack{CN: 1, Round: -1}}, "round -1, and this member is in round 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Nack{CN: 1, Round: -1}}, "round -1, and this member is in round 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Abort{CN: 1, Round: -1}}, "round -1, and this member is in round 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Call{CN: 1, Round: -1}}, "round -1, and this member is in round 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Decide{CN: 1, Round: -1}}, "round -1, and this member is in round 3"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Decide{CN: 0, Whole: true}}, "instance 0"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Counts{Counts: []uint64{1, 2, 3, 4}}}, "4 members are counted, and there are 3"},
		{machine.Envelope{From: 2, To: 1, Body: "hello"}, "a string is not a message of fastct"},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Trimmed{}}, ""},
		{machine.Envelope{From: 2, To: 1, Body: fastct.Estimate{CN: 2 + fastct.Window, Round: 3, TS: -1}}, ""},
	} {
		m.Receive(machine.Now{}, tc.e)
		if rd := m.Ready(); len(rd.Sends)+len(rd.Persists)+len(rd.Outcomes) > 0 {
			t.Errorf("%+v: got %+v, want nothing", tc.e, rd)
		}
		switch got := m.Refusals(); {
		case tc.want == "" && len(got) == 0:
		case tc.want != "" && len(got) == 1 && got[0].From == tc.e.From && got[0].Count == 1 &&
			errors.Is(got[0].Err, fastct.ErrImpossible) && strings.Contains(got[0].Err.Error(), tc.want):
		default:
			t.Errorf("%+v: got the refusals %+v, want one that says %q", tc.e, got, tc.want)
		}
	}
	// A message that is just possible is followed.
	m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: fastct.Call{CN: 1, Round: far}})
	if rd := m.Ready(); len(rd.Persists) != 1 || rd.Persists[0].Record != (fastct.Entered{CN: 1, Round: far}) || len(m.Refusals()) > 0 {
		t.Errorf("called to round %d: got %+v, want to enter it", int64(far), rd)
	}
}

// A member hears of instances up to Window beyond the highest that it has proposed to, knows the decision of, or has
// not forgotten, and passes over those behind: also after a restart.
func TestHowFarAMemberHears(t *testing.T) {
	for name, c := range map[string]struct {
		records []any
		input   fastct.Input
		highest uint64
	}{
		"knows nothing":                {highest: 1},
		"has proposed":                 {input: fastct.Propose{CN: 50, Value: []byte("a")}, highest: 50},
		"has learned a decision":       {input: fastct.Learn{CN: 60, Value: []byte("a")}, highest: 60},
		"has forgotten those before":   {input: fastct.Trim{Below: 70}, highest: 70},
		"had a decision":               {records: []any{fastct.Settled{CN: 80, Value: []byte("a")}}, highest: 80},
		"had forgotten those before":   {records: []any{fastct.Gone{Below: 90}}, highest: 90},
		"had a decision, and one more": {records: []any{fastct.Settled{CN: 80, Value: []byte("a")}, fastct.Settled{CN: 40, Value: []byte("b")}}, highest: 80},
	} {
		for beyond, want := range map[uint64]bool{fastct.Window: true, fastct.Window + 1: false} {
			var log []any
			if len(c.records) > 0 {
				log = append([]any{fastct.Identity{Node: 1, Members: three}}, c.records...)
			}
			m, err := fastct.New(config(), log)
			if err != nil {
				t.Fatal(err)
			}
			if c.input != nil {
				m.Step(machine.Now{}, c.input)
			}
			m.Ready()
			m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: fastct.Call{CN: c.highest + beyond}})
			heard := slices.Contains(m.Ready().Outcomes, fastct.Outcome(fastct.Wanted{CN: c.highest + beyond, From: 2}))
			if heard != want {
				t.Errorf("one that %s is called to the instance %d beyond: it wants that: %v, want %v", name, beyond, heard, want)
			}
		}
	}
}

// Refusals are kept in bounds until the owner asks.
func TestRefusalsAreCounted(t *testing.T) {
	m := member(t, config())
	for from := range machine.NodeID(10_000) {
		m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: from})
		m.Receive(machine.Now{}, machine.Envelope{From: 4 + from, To: 1, Body: from})
	}
	got := m.Refusals()
	if len(got) != 64 || got[0].From != 2 || got[0].Count != 10_000 || got[1].From != 4 || got[1].Count != 1 {
		t.Errorf("got %d, the first of them %+v", len(got), got[:2])
	}
	if again := m.Refusals(); len(again) > 0 {
		t.Errorf("told again: %+v", again)
	}
}

// A member that hears of a decision which it cannot know wants the instance, once.
func TestADecisionIsWantedOnce(t *testing.T) {
	m := member(t, config())
	for range 3 {
		m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: fastct.Decide{CN: 1, Round: 3}})
	}
	wanted := 0
	for _, out := range m.Ready().Outcomes {
		if w, ok := out.(fastct.Wanted); ok && w.CN == 1 {
			wanted++
		}
	}
	if wanted != 1 {
		t.Errorf("the instance is wanted %d times, want once", wanted)
	}
}

// A member that has adopted an estimate says so again when it is asked again, and knows the
// decision when it hears that this round has decided. The log has the value once.
func TestADecisionOfWhatWasAdopted(t *testing.T) {
	m := member(t, config())
	m.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("a")})
	hears := func(body any) machine.Ready[fastct.Outcome] {
		m.Ready()
		m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: body})
		return m.Ready()
	}
	const round = 4 // 2's
	for i, want := range []any{fastct.Adopted{CN: 1, Round: round, Value: []byte("b")}, nil} {
		rd := hears(fastct.NewEstimate{CN: 1, Round: round, Value: []byte("b")})
		ack := machine.Persist{Record: want, Then: []machine.Envelope{{From: 1, To: 2, Body: fastct.Ack{CN: 1, Round: round}}}}
		if diff := cmp.Diff([]machine.Persist{ack}, rd.Persists); diff != "" {
			t.Errorf("it is told the estimate, time %d: %s", i+1, diff)
		}
	}
	rd := hears(fastct.Decide{CN: 1, Round: round})
	if want := []fastct.Outcome{fastct.Decided{CN: 1, Value: []byte("b"), Round: round}}; !cmp.Equal(rd.Outcomes, want) {
		t.Errorf("the round has decided, and what it had acknowledged in it is not the decision: %+v", rd.Outcomes)
	}
	if want := []machine.Persist{{Record: fastct.Settled{CN: 1, Adopted: true}}}; !cmp.Equal(rd.Persists, want) {
		t.Errorf("the log gets %+v, want what was adopted to be named in it, and not written again", rd.Persists)
	}
}

// A message of a round that is over does not end a later one of the same coordinator.
func TestALateAbort(t *testing.T) {
	m := member(t, config())
	m.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("a")})
	for _, tc := range []struct {
		body any
		want []any // records
	}{
		{fastct.Call{CN: 1, Round: 7}, []any{fastct.Entered{CN: 1, Round: 7}}},
		{fastct.Abort{CN: 1, Round: 4}, nil},
		{fastct.Abort{CN: 1, Round: 7}, []any{fastct.Entered{CN: 1, Round: 8}}},
	} {
		m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: tc.body})
		var got []any
		for _, p := range m.Ready().Persists {
			got = append(got, p.Record)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("after %+v the rounds that are entered differ: %s", tc.body, diff)
		}
	}
}

// A member that leaves a round tells those that may wait for it in that round.
func TestWhoLeavesARoundSaysSo(t *testing.T) {
	m := member(t, config())
	says := func(what string, want ...machine.Envelope) {
		t.Helper()
		sends := m.Ready().Sends
		for _, w := range want {
			if !slices.ContainsFunc(sends, func(e machine.Envelope) bool { return cmp.Equal(e, w) }) {
				t.Errorf("%s: it sends %+v, want %+v among them", what, sends, w)
			}
		}
	}
	hears := func(from machine.NodeID, body any) {
		m.Receive(machine.Now{}, machine.Envelope{From: from, To: 1, Body: body})
	}
	m.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("a")})
	m.Step(machine.Now{}, fastct.Leased{ID: 1}) // not granted: it coordinates round 3
	hears(2, fastct.Estimate{CN: 1, Round: 3, TS: -1, Value: []byte("b")})
	hears(3, fastct.Estimate{CN: 1, Round: 3, TS: -1, Value: []byte("c")})
	m.Ready()
	hears(2, fastct.Nack{CN: 1, Round: 3})
	hears(3, fastct.Nack{CN: 1, Round: 3})
	abort := fastct.Abort{CN: 1, Round: 3}
	says("a coordinator that a majority has refused", machine.Envelope{From: 1, To: 2, Body: abort}, machine.Envelope{From: 1, To: 3, Body: abort})
	m.Step(machine.Now{}, fastct.Suspect{Node: 2, Suspected: true}) // of round 4
	says("a member that waits for an estimate and suspects its coordinator", machine.Envelope{From: 1, To: 2, Body: fastct.Nack{CN: 1, Round: 4}})
}

// A member that is not trusted any more gives back what it has not used of each of its leases,
// once, whatever lies beside it.
func TestLeasesAreGivenBack(t *testing.T) {
	cfg := config()
	cfg.Lambda, cfg.Fixed = 5, true
	m := member(t, cfg)
	leases := func(id, cn uint64) {
		m.Step(machine.Now{}, fastct.Propose{CN: cn})
		m.Step(machine.Now{}, fastct.Learn{CN: cn}) // so that it is of no use for cn
		m.Step(machine.Now{}, fastct.Leased{ID: id, Granted: true})
	}
	gives := func(counts []uint64, want ...fastct.Outcome) {
		t.Helper()
		m.Ready()
		m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: fastct.Counts{Counts: counts}})
		if diff := cmp.Diff(append([]fastct.Outcome{fastct.Leader{Node: 2}}, want...), m.Ready().Outcomes); diff != "" {
			t.Errorf("the leases that are given back differ: %s", diff)
		}
		m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: fastct.Counts{Counts: []uint64{counts[0], counts[0] + 1, counts[0] + 1}}})
	}
	leases(1, 7) // [7,11]
	leases(2, 2) // [2,6]
	gives([]uint64{1, 0, 0}, fastct.GiveLease{ID: 1, From: 7}, fastct.GiveLease{ID: 2, From: 2})
	leases(3, 8) // [8,12]
	gives([]uint64{3, 2, 2}, fastct.GiveLease{ID: 3, From: 8})
}

// A member asks for no instance twice: neither for one that it knows the lease of, nor for one that it has asked for.
func TestNothingIsAskedForTwice(t *testing.T) {
	cfg := config()
	cfg.Fixed = true // by eight instances
	for name, first := range map[string]func(m *fastct.Machine){
		"asked for": func(*fastct.Machine) {},
		"granted":   func(m *fastct.Machine) { m.Step(machine.Now{}, fastct.Leased{ID: 1, Granted: true}) },
		"refused":   func(m *fastct.Machine) { m.Step(machine.Now{}, fastct.Leased{ID: 1, Until: 14}) },
	} {
		m := member(t, cfg)
		m.Step(machine.Now{}, fastct.Propose{CN: 7, Value: []byte("a")})
		first(m)
		m.Step(machine.Now{}, fastct.Propose{CN: 9, Value: []byte("b")})
		m.Step(machine.Now{}, fastct.Propose{CN: 2, Value: []byte("c")})
		var wants []fastct.Outcome
		for _, out := range m.Ready().Outcomes {
			if _, ok := out.(fastct.WantLease); ok {
				wants = append(wants, out)
			}
		}
		if diff := cmp.Diff([]fastct.Outcome{fastct.WantLease{ID: 1, First: 7, Last: 14}, fastct.WantLease{ID: 2, First: 2, Last: 6}}, wants); diff != "" {
			t.Errorf("with the instances 7 to 14 %s, what is asked for in all differs for 7, 9 and 2: %s", name, diff)
		}
	}
}

// An acknowledgment counts, although a refusal of the same member comes after it.
func TestAcknowledgedAndThenRefused(t *testing.T) {
	cfg := config()
	cfg.Members, cfg.Volatile = []machine.NodeID{1, 2, 3, 4, 5}, true
	m := member(t, cfg)
	hears := func(from machine.NodeID, body any) {
		m.Receive(machine.Now{}, machine.Envelope{From: from, To: 1, Body: body})
	}
	m.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("a")})
	m.Step(machine.Now{}, fastct.Leased{ID: 1, Granted: true}) // it coordinates round 0, and acknowledges that itself
	hears(2, fastct.Ack{CN: 1})
	hears(2, fastct.Nack{CN: 1})
	m.Ready()
	hears(3, fastct.Ack{CN: 1})
	if out := m.Ready().Outcomes; !cmp.Equal(out, []fastct.Outcome{fastct.Decided{CN: 1, Value: []byte("a")}}) {
		t.Errorf("three of five have acknowledged, one of them refused later, and it reports %+v, want the decision", out)
	}
}

// A lease that comes when another is trusted goes back at once, whoever that is: the first of the members, too.
func TestALeaseThatComesTooLate(t *testing.T) {
	for _, leader := range []machine.NodeID{1, 3} {
		cfg := config()
		cfg.ID, cfg.Lambda, cfg.Fixed = 2, 5, true
		m := member(t, cfg)
		counts := func(c ...uint64) {
			m.Receive(machine.Now{}, machine.Envelope{From: 1, To: 2, Body: fastct.Counts{Counts: c}})
		}
		counts(1, 0, 1) // it is trusted itself
		m.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("a")})
		if leader == 1 {
			counts(1, 2, 2)
		} else {
			counts(2, 2, 1)
		}
		m.Ready()
		m.Step(machine.Now{}, fastct.Leased{ID: 1, Granted: true})
		var gives []fastct.Outcome
		for _, out := range m.Ready().Outcomes {
			if _, ok := out.(fastct.GiveLease); ok {
				gives = append(gives, out)
			}
		}
		if want := []fastct.Outcome{fastct.GiveLease{ID: 1, From: 2}}; !cmp.Equal(gives, want) {
			t.Errorf("a lease of the instances 1 to 5 comes while member %d is trusted, and there goes back %+v, want %+v", leader, gives, want)
		}
	}
}

// The rounds that a log tells of only grow, in whatever order they are in it.
func TestRoundsOfALog(t *testing.T) {
	m, err := fastct.New(config(), []any{
		fastct.Identity{Node: 1, Members: three}, fastct.Entered{CN: 1, Round: 9}, fastct.Adopted{CN: 1, Round: 6, Value: []byte("a")}, fastct.Entered{CN: 1, Round: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []any{fastct.Identity{Node: 1, Members: three}, fastct.Gone{Below: 1}, fastct.Adopted{CN: 1, Round: 6, Value: []byte("a")}, fastct.Entered{CN: 1, Round: 9}}
	if diff := cmp.Diff(want, m.Records()); diff != "" {
		t.Errorf("a member that had entered round 9 begins a new log otherwise: %s", diff)
	}
}

// A member that is sent much before it takes part keeps eight messages of each sender.
func TestBufferIsBounded(t *testing.T) {
	m := member(t, config())
	for r := range int64(10_000) {
		for _, from := range []machine.NodeID{2, 3} {
			m.Receive(machine.Now{}, machine.Envelope{From: from, To: 1, Body: fastct.Estimate{CN: 1, Round: 3 * (r + 1), TS: -1, Value: make([]byte, 10)}})
		}
	}
	if rd := m.Ready(); len(rd.Outcomes) != 2 { // Leader, and Wanted once
		t.Errorf("got %v, want Wanted once", rd.Outcomes)
	}
	m.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("a")})
	m.Step(machine.Now{}, fastct.Leased{ID: 1})
	entered := map[int64]bool{}
	for _, p := range m.Ready().Persists {
		if e, ok := p.Record.(fastct.Entered); ok {
			entered[e.Round] = true
		}
	}
	if len(entered) != 8 || !entered[3*8] { // each is of a round of its own
		t.Errorf("it has been in the rounds %v, want the first eight that it was sent estimates of", entered)
	}
}

// Section 5: half of the greatest at first, halved by a refusal, a quarter more with
// each lease.
func TestLambdaAdapts(t *testing.T) {
	asks := func(cfg fastct.Config, granted ...bool) (lengths []uint64) {
		m := member(t, cfg)
		cn := uint64(1)
		for _, g := range granted {
			m.Step(machine.Now{}, fastct.Propose{CN: cn, Value: []byte("a")})
			for _, out := range m.Ready().Outcomes {
				if w, ok := out.(fastct.WantLease); ok {
					lengths = append(lengths, w.Last-w.First+1)
					m.Step(machine.Now{}, fastct.Leased{ID: w.ID, Granted: g})
					cn = w.Last + 1
				}
			}
		}
		return lengths
	}
	cfg := config()
	cfg.Lambda = 20
	for _, tc := range []struct {
		fixed, optimistic bool
		granted           []bool
		want              []uint64
	}{
		{granted: []bool{true, true, true, true, true}, want: []uint64{10, 12, 15, 18, 20}},
		{granted: []bool{false, false, false, false, false, true, true}, want: []uint64{10, 5, 2, 1, 1, 1, 2}},
		{optimistic: true, granted: []bool{true, false, true}, want: []uint64{20, 20, 10}},
		{fixed: true, granted: []bool{false, true, false}, want: []uint64{20, 20, 20}},
	} {
		cfg.Fixed, cfg.Optimistic = tc.fixed, tc.optimistic
		got := asks(cfg, tc.granted...)
		if len(got) != len(tc.want) {
			t.Errorf("%+v: got %v", tc, got)
			continue
		}
		for i := range got {
			if got[i] != tc.want[i] {
				t.Errorf("%+v: got %v", tc, got)
				break
			}
		}
	}
}

// Trimmed instances are gone, for this member and for others that ask it.
func TestTrim(t *testing.T) {
	m := member(t, config())
	m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: fastct.Decide{CN: 1, Value: []byte("x"), Whole: true}})
	m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: fastct.Decide{CN: 2, Value: []byte("y"), Whole: true}})
	if v, ok := m.Decision(1); !ok || string(v) != "x" {
		t.Fatalf("instance 1 has decided %q (%v), want x", v, ok)
	}
	m.Step(machine.Now{}, fastct.Trim{Below: 2})
	m.Ready()
	if _, ok := m.Decision(1); ok {
		t.Error("instance 1 is still there")
	}
	m.Receive(machine.Now{}, machine.Envelope{From: 3, To: 1, Body: fastct.Call{CN: 1}})
	if rd := m.Ready(); len(rd.Sends) != 1 || rd.Sends[0].Body != (fastct.Trimmed{Below: 2}) {
		t.Errorf("got %+v, want Trimmed", rd.Sends)
	}
	again, err := fastct.New(config(), m.Records())
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := again.Decision(2); !ok || string(v) != "y" || again.Floor() != 2 {
		t.Errorf("from a new log: %q (%v), floor %d; want y, floor 2", v, ok, again.Floor())
	}
}

// The highest instance that a log knows of is that of any of its records.
func TestWhatALogBegan(t *testing.T) {
	mine := fastct.Identity{Node: 1, Members: three}
	for name, records := range map[string][]any{
		"entered": {fastct.Entered{CN: 9, Round: 3}, fastct.Settled{CN: 4, Value: []byte("a")}},
		"adopted": {fastct.Adopted{CN: 9, Round: 3}, fastct.Entered{CN: 4, Round: 3}},
		"settled": {fastct.Settled{CN: 9, Value: []byte("a")}, fastct.Adopted{CN: 4, Round: 3}},
	} {
		m, err := fastct.New(config(), append([]any{mine}, records...))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Begun(); got != 9 {
			t.Errorf("a log in which 9 is %s begins up to %d, want 9", name, got)
		}
	}
}

// Members are in one order, however a configuration names them: the coordinators follow from it.
func TestTheOrderOfMembers(t *testing.T) {
	cfg := config()
	cfg.Members = []machine.NodeID{3, 1, 2}
	m := member(t, cfg)
	if leader, _ := m.Leader(); leader != 1 || m.FastLeader(1) != 2 || m.FastLeader(2) != 3 || m.FastLeader(3) != 0 || m.FastLeader(-1) != 0 {
		t.Errorf("of 3, 1 and 2 the leader is %d, and FAST rounds are led by %d, %d, %d; want 1, and 1, 2, 3", leader, m.FastLeader(0), m.FastLeader(1), m.FastLeader(2))
	}
	if _, err := fastct.New(cfg, m.Records()); err != nil {
		t.Errorf("its own log is refused: %v", err)
	}
}

// An instance that is forgotten before it was decided here waits for nothing any more.
func TestTrimOfAnOpenInstance(t *testing.T) {
	m := member(t, config())
	m.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("a")})
	if m.Ready().Alarm == machine.Never {
		t.Fatal("an instance that is open has no alarm")
	}
	m.Step(machine.Now{}, fastct.Trim{Below: 2})
	if at := m.Ready().Alarm; at != machine.Never {
		t.Errorf("behind the trim an alarm is set for %v", at)
	}
}
