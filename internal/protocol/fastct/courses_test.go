package fastct

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

var rewriteCourses = flag.Bool("rewrite-courses", false, "write testdata/courses.txt with the courses as they are")

const ms = time.Millisecond

// course is what a group does when its members are told this and that, and some messages are
// late or lost. Records take a millisecond to be durable, and so do messages to arrive.
type course struct {
	name   string
	config func(c *Config)
	told   []word
	net    func(nth int, e machine.Envelope) (late time.Duration, lost bool) // nth of all, from 1
	until  time.Duration
}

// word is an input of a member; one of Dies and Comes in its place is of the course.
type word struct {
	at     time.Duration
	member machine.NodeID
	in     any
}

type (
	dies  struct{}
	comes struct{}
	hears machine.Envelope // whatever it says
)

func propose(cn uint64, v string) Propose { return Propose{CN: cn, Value: []byte(v)} }

func all(at time.Duration, cn uint64) []word {
	return []word{{at, 1, propose(cn, "a")}, {at, 2, propose(cn, "b")}, {at, 3, propose(cn, "c")}}
}

func losing(lost func(e machine.Envelope) bool) func(int, machine.Envelope) (time.Duration, bool) {
	return func(_ int, e machine.Envelope) (time.Duration, bool) { return 0, lost(e) }
}

func is[B any](e machine.Envelope) bool { _, ok := e.Body.(B); return ok }

var courses = []course{
	{name: "stable", told: slices.Concat(all(0, 1), all(20*ms, 2), all(40*ms, 3), all(60*ms, 9)), until: 100 * ms},
	{name: "plain", config: func(c *Config) { c.Plain = true }, told: slices.Concat(all(0, 1), all(20*ms, 2)), until: 100 * ms},
	{name: "spread", config: func(c *Config) { c.Plain, c.Spread = true, true }, told: slices.Concat(all(0, 1), all(20*ms, 2), all(40*ms, 3)), until: 100 * ms},
	{name: "prefetched, of a fixed length", config: func(c *Config) { c.Prefetch, c.Fixed = true, true }, told: slices.Concat(all(0, 1), all(20*ms, 4), all(40*ms, 6), all(60*ms, 7), all(80*ms, 9)), until: 120 * ms},
	{name: "lambda grows", config: func(c *Config) { c.Lambda = 4 }, told: slices.Concat(all(0, 1), all(20*ms, 3), all(40*ms, 6), all(60*ms, 10), all(80*ms, 15)), until: 120 * ms},
	{name: "optimistic", config: func(c *Config) { c.Optimistic = true }, told: all(0, 1), until: 50 * ms},
	{name: "the leader dies", told: slices.Concat(all(0, 1), []word{{11 * ms, 1, dies{}}}, all(20*ms, 2)[1:], []word{{30 * ms, 2, Suspect{1, true}}, {31 * ms, 3, Suspect{1, true}}}, all(60*ms, 12)[1:]), until: 200 * ms},
	{name: "the leader dies and comes back", told: slices.Concat(all(0, 1), []word{{3 * ms, 1, dies{}}, {50 * ms, 2, Suspect{1, true}}, {50 * ms, 3, Suspect{1, true}}, {200 * ms, 1, comes{}}, {210 * ms, 1, propose(1, "again")}, {220 * ms, 2, Suspect{1, false}}}), until: 700 * ms},
	{name: "a follower dies and comes back", told: slices.Concat(all(0, 1), []word{{4 * ms, 3, dies{}}}, all(20*ms, 2)[:2], []word{{100 * ms, 3, comes{}}, {110 * ms, 3, propose(1, "x")}, {120 * ms, 3, propose(2, "y")}}), until: 500 * ms},
	{name: "nobody trusts the leader", told: slices.Concat([]word{{0, 2, Suspect{1, true}}, {0, 3, Suspect{1, true}}}, all(0, 1)), until: 300 * ms},
	{name: "one suspects the leader", told: slices.Concat(all(0, 1), []word{{1 * ms, 2, Suspect{1, true}}}, all(20*ms, 2)), until: 400 * ms},
	{name: "a lease is refused", told: slices.Concat(all(0, 1), []word{{30 * ms, 1, Suspect{1, true}}, {30 * ms, 2, Suspect{1, true}}, {30 * ms, 3, Suspect{1, true}}}, all(40*ms, 3)), until: 500 * ms},
	{name: "estimates are lost", net: losing(is[Estimate]), told: all(0, 1), until: 100 * ms},
	{name: "the first new estimates are lost", net: func(n int, e machine.Envelope) (time.Duration, bool) { return 0, is[NewEstimate](e) && n < 8 }, told: all(0, 1), until: 600 * ms},
	{name: "acknowledgments are lost", net: func(n int, e machine.Envelope) (time.Duration, bool) { return 0, is[Ack](e) && n < 12 }, told: all(0, 1), until: 900 * ms},
	{name: "decisions are lost", net: losing(func(e machine.Envelope) bool { return is[Decide](e) && !e.Body.(Decide).Whole }), told: all(0, 1), until: 600 * ms},
	{name: "all is lost for a while", net: func(n int, e machine.Envelope) (time.Duration, bool) { return 0, n < 20 }, told: all(0, 1), until: 3000 * ms},
	{name: "a decision overtakes", net: func(n int, e machine.Envelope) (time.Duration, bool) {
		return map[bool]time.Duration{true: 30 * ms}[is[NewEstimate](e) && e.To == 3], false
	}, told: all(0, 1), until: 200 * ms},
	{name: "one proposes late", told: []word{{0, 1, propose(1, "a")}, {30 * ms, 2, propose(1, "b")}, {60 * ms, 3, propose(1, "c")}}, until: 200 * ms},
	{name: "the leader proposes last", told: []word{{0, 2, propose(1, "b")}, {10 * ms, 3, propose(1, "c")}, {40 * ms, 1, propose(1, "a")}}, until: 300 * ms},
	{name: "two rounds of NORMAL mode", config: func(c *Config) { c.Plain = true }, told: slices.Concat(all(0, 1), []word{{1 * ms, 2, Suspect{1, true}}, {1 * ms, 3, Suspect{1, true}}, {3 * ms, 3, Suspect{2, true}}, {3 * ms, 1, Suspect{2, true}}}), until: 800 * ms},
	{name: "learned, trimmed, and asked for", told: slices.Concat(all(0, 1), []word{{20 * ms, 2, Learn{2, []byte("w")}}, {21 * ms, 2, Learn{1, []byte("no")}}, {22 * ms, 2, Trim{2}}, {23 * ms, 2, Trim{1}}, {25 * ms, 2, Learn{1, []byte("no")}}, {26 * ms, 3, propose(2, "c")}, {40 * ms, 1, propose(2, "a")}, {100 * ms, 2, propose(1, "b")}, {110 * ms, 2, hears{From: 3, To: 2, Body: Call{CN: 1}}}}), until: 300 * ms},
	{name: "messages out of place", told: slices.Concat(all(0, 1), []word{
		{20 * ms, 2, hears{1, 2, Trimmed{9}}}, {21 * ms, 2, hears{1, 2, Trimmed{1}}}, {22 * ms, 2, hears{9, 2, Counts{[]uint64{9, 9, 9}}}}, {23 * ms, 2, hears{1, 3, Counts{[]uint64{9, 0, 0}}}},
		{24 * ms, 2, hears{1, 2, Counts{[]uint64{0, 0, 0, 0}}}}, {25 * ms, 2, hears{1, 2, Abort{0, 0}}}, {26 * ms, 2, hears{1, 2, Call{CN: 3, Round: 3}}}, {27 * ms, 2, hears{3, 2, NewEstimate{CN: 3, Round: 1, Value: []byte("n")}}},
		{28 * ms, 2, hears{1, 2, Nack{CN: 3, Round: 1}}}, {29 * ms, 2, hears{3, 2, Nack{CN: 1, Round: 1}}}, {30 * ms, 2, hears{3, 2, Call{CN: 1}}}, {31 * ms, 2, hears{3, 2, Ack{CN: 1, Round: 1, Again: true}}}, {32 * ms, 2, hears{3, 2, Ack{CN: 1, Round: 1}}},
		{33 * ms, 2, hears{1, 2, Estimate{CN: 2000, Round: 1, TS: -1}}}, {34 * ms, 2, hears{1, 2, Estimate{CN: 1025, Round: 1, TS: -1}}}, {35 * ms, 2, hears{1, 2, Estimate{CN: 1026, Round: 1, TS: -1}}},
		{36 * ms, 2, hears{3, 2, Decide{CN: 5, Round: 0}}}, {37 * ms, 2, propose(5, "five")}, {60 * ms, 2, hears{1, 2, NewEstimate{CN: 5, Round: 0, Value: []byte("imposed")}}},
		{70 * ms, 2, hears{1, 2, NewEstimate{CN: 6, Round: 0, Value: []byte("early")}}}, {71 * ms, 2, hears{1, 2, Decide{CN: 6, Round: 0}}}, {72 * ms, 2, hears{1, 2, Decide{CN: 6, Round: 0}}},
	}), until: 300 * ms},
	{name: "heartbeats", config: func(c *Config) { c.Heartbeat, c.Timeout = 40*ms, 100*ms }, told: slices.Concat(all(0, 1), []word{{90 * ms, 1, dies{}}}, all(300*ms, 20)[1:], []word{{400 * ms, 1, comes{}}, {420 * ms, 1, propose(20, "back")}}), until: 600 * ms},
}

// Members do what they always did: what they send and write and when, what they report and what
// for they wait. A course that differs is no fault by itself. But that it does should be meant,
// and testdata/courses.txt written anew.
func TestCoursesAreAsTheyWere(t *testing.T) {
	const path = "testdata/courses.txt"
	var text strings.Builder
	for _, c := range courses {
		fmt.Fprintf(&text, "# %s\n%s", c.name, c.play(t))
	}
	if *rewriteCourses {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(text.String(), "\n"), strings.Split(string(raw), "\n")
	name := ""
	for i := range min(len(got), len(want)) {
		if strings.HasPrefix(want[i], "# ") {
			name = want[i][2:]
		}
		if got[i] != want[i] {
			t.Fatalf("%s:%d: in the course %q a member now does\n%s, and did\n%s", path, i+1, name, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("the courses have %d lines, and had %d", len(got), len(want))
	}
}

// event is a message that arrives, or a record that becomes durable.
type event struct {
	at     machine.Mono
	life   int // of its member, for records
	member machine.NodeID
	record any
	e      *machine.Envelope
	then   []machine.Envelope
}

func (c *course) play(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	begin := machine.Mono(time.Hour)
	members := map[machine.NodeID]*Machine{}
	logs, lives, alarms := map[machine.NodeID][]any{}, map[machine.NodeID]int{}, map[machine.NodeID]machine.Mono{}
	var open []event
	var granted [][2]uint64
	sent := 0
	ids := []machine.NodeID{1, 2, 3}
	say := func(now machine.Mono, id machine.NodeID, format string, args ...any) {
		fmt.Fprintf(&out, "%v %d: %s\n", now.Sub(begin), id, fmt.Sprintf(format, args...))
	}
	send := func(now machine.Mono, e machine.Envelope) {
		sent++
		late, lost := time.Duration(0), false
		if c.net != nil {
			late, lost = c.net(sent, e)
		}
		note := map[bool]string{true: " (lost)"}[lost]
		say(now, e.From, "%s to %d%s", tell(e.Body), e.To, note)
		if !lost {
			open = append(open, event{at: now.Add(ms + late), member: e.To, e: &e})
		}
	}
	take := func(now machine.Mono, id machine.NodeID) {
		m := members[id]
		for more := true; more; {
			rd := m.Ready()
			more = false
			for _, e := range rd.Sends {
				send(now, e)
			}
			for _, p := range rd.Persists {
				if p.Record != nil {
					say(now, id, "writes %s", tell(p.Record))
				}
				open = append(open, event{at: now.Add(ms), life: lives[id], member: id, record: p.Record, then: p.Then})
			}
			for _, o := range rd.Outcomes {
				say(now, id, "reports %s", tell(o))
				switch o := o.(type) {
				case WantLease:
					v := Leased{ID: o.ID, Granted: true}
					for _, g := range granted {
						if g[0] <= o.Last && o.First <= g[1] {
							v.Granted, v.Until = false, g[1]
						}
					}
					if v.Granted {
						granted = append(granted, [2]uint64{o.First, o.Last})
					}
					m.Step(machine.Now{Mono: now}, v)
					more = true
				case GiveLease:
					for i, g := range granted {
						if g[0] <= o.From && o.From <= g[1] {
							granted[i][1] = o.From - 1
						}
					}
				}
			}
			alarms[id] = rd.Alarm
		}
	}
	start := func(now machine.Mono, id machine.NodeID) {
		cfg := Config{ID: id, Members: ids, Lambda: 8, Retry: 100 * ms}
		if c.config != nil {
			c.config(&cfg)
		}
		m, err := New(cfg, logs[id])
		if err != nil {
			t.Fatalf("%s: member %d: %v", c.name, id, err)
		}
		members[id], alarms[id] = m, machine.Never
		lives[id]++
		take(now, id)
		if cfg.Heartbeat > 0 {
			m.Wake(machine.Now{Mono: now})
			take(now, id)
		}
	}
	for _, id := range ids {
		start(begin, id)
	}
	told := slices.Clone(c.told)
	slices.SortStableFunc(told, func(a, b word) int { return int(a.at - b.at) })
	for range 20_000 {
		now, what, which := begin.Add(c.until), 0, 0
		for k, e := range open {
			if e.at < now {
				now, what, which = e.at, 1, k
			}
		}
		if len(told) > 0 && begin.Add(told[0].at) < now {
			now, what = begin.Add(told[0].at), 2
		}
		for _, id := range ids {
			if at, ok := alarms[id]; ok && members[id] != nil && at < now {
				now, what, which = at, 3, int(id)
			}
		}
		switch what {
		case 0:
			for _, id := range ids {
				if m := members[id]; m != nil {
					leader, suspected := m.Leader()
					say(now, id, "trusts %d (suspected %v), suspects %v, normal %v, begun %d, floor %d, refused %v", leader, suspected, m.Suspects(), m.Normal(), m.Begun(), m.Floor(), m.Refusals())
					say(now, id, "a new log is %s", tell(m.Records()))
				}
			}
			return out.String()
		case 1:
			e := open[which]
			open = slices.Delete(open, which, which+1)
			m := members[e.member]
			switch {
			case m == nil:
			case e.e != nil:
				m.Receive(machine.Now{Mono: now}, *e.e)
				take(now, e.member)
			case e.life == lives[e.member]:
				if e.record != nil {
					logs[e.member] = append(logs[e.member], e.record)
				}
				for _, then := range e.then {
					if then.To == e.member {
						m.Receive(machine.Now{Mono: now}, then)
					} else {
						send(now, then)
					}
				}
				take(now, e.member)
			}
		case 2:
			w := told[0]
			told = told[1:]
			say(now, w.member, "is told %s", tell(w.in))
			switch in := w.in.(type) {
			case dies:
				members[w.member] = nil
			case comes:
				start(now, w.member)
			case hears:
				members[w.member].Receive(machine.Now{Mono: now}, machine.Envelope(in))
				take(now, w.member)
			default:
				members[w.member].Step(machine.Now{Mono: now}, in.(Input))
				take(now, w.member)
			}
		case 3:
			id := machine.NodeID(which)
			members[id].Wake(machine.Now{Mono: now})
			take(now, id)
		}
	}
	t.Fatalf("%s: it has no end:\n%.5000s", c.name, out.String())
	return ""
}

// tell is a message, record, input or outcome in words: its type and fields.
func tell(x any) string {
	if list, ok := x.([]any); ok {
		parts := make([]string, len(list))
		for i, r := range list {
			parts[i] = tell(r)
		}
		return strings.Join(parts, " ")
	}
	return strings.ReplaceAll(fmt.Sprintf("%T%+v", x, x), "fastct.", "")
}
