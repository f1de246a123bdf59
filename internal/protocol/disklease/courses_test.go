package disklease

import (
	"errors"
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

const (
	courseTerm  = 1200 * time.Millisecond
	courseDelay = 10 * time.Millisecond
)

// course is what some claims do to one register when they are told this and that.
type course struct {
	name   string
	config func(i int, c *Config) // of claim i, from 0
	told   []word
	// access says how long the nth access of a claim takes, and whether it fails, or never
	// ends. Nil: 3 ms.
	access func(i, n int, op any) (took time.Duration, err error, hangs bool)
	until  time.Duration
}

// word is an input of a claim.
type word struct {
	at    time.Duration
	claim int
	in    LeaseInput
}

var errCourse = errors.New("the store is on fire")

// with has an access of a claim be different from the others.
func with(claim, nth int, took time.Duration, err error, hangs bool) func(i, n int, op any) (time.Duration, error, bool) {
	return func(i, n int, _ any) (time.Duration, error, bool) {
		if i == claim && n == nth {
			return took, err, hangs
		}
		return 3 * time.Millisecond, nil, false
	}
}

func slots(n ...int) func(i int, c *Config) { return func(i int, c *Config) { c.Slots = n[i] } }

const ms = time.Millisecond

var courses = []course{
	{name: "free, renewed, left", told: []word{{0, 0, Acquire{}}, {1300 * ms, 0, Leave{}}}, until: 2 * time.Second},
	{name: "two at once", told: []word{{0, 0, Acquire{}}, {1 * ms, 1, Acquire{}}, {700 * ms, 0, Leave{}}, {1000 * ms, 1, Leave{}}}, until: 1500 * ms},
	{name: "three in a queue", told: []word{{0, 0, Acquire{}}, {100 * ms, 2, Acquire{}}, {200 * ms, 1, Acquire{}}, {500 * ms, 0, Leave{}}, {900 * ms, 2, Leave{}}, {1200 * ms, 1, Leave{}}}, until: 1400 * ms},
	{name: "the holder dies", told: []word{{0, 0, Acquire{}}, {300 * ms, 1, Acquire{}}}, until: 2400 * ms,
		access: func(i, n int, _ any) (time.Duration, error, bool) { return 3 * ms, nil, i == 0 && n > 6 }},
	{name: "a lock delay", config: func(i int, c *Config) { c.LockDelay = time.Duration(1-i) * 300 * ms }, told: []word{{0, 0, Acquire{}}, {100 * ms, 1, Acquire{}}, {2000 * ms, 0, Leave{}}}, until: 2500 * ms,
		access: func(i, n int, _ any) (time.Duration, error, bool) { return 3 * ms, nil, i == 0 && n > 3 }},
	{name: "left while it contends", told: []word{{0, 0, Acquire{}}, {50 * ms, 1, Acquire{}}, {300 * ms, 1, Leave{}}}, until: 800 * ms},
	{name: "left while it looks", told: []word{{0, 0, Acquire{}}, {1 * ms, 0, Leave{}}}, until: 200 * ms},
	{name: "left while it settles", told: []word{{0, 0, Acquire{}}, {10 * ms, 0, Leave{}}}, until: 200 * ms},
	{name: "left while it renews", told: []word{{0, 0, Acquire{}}, {402 * ms, 0, Leave{}}}, until: 600 * ms},
	{name: "tries", told: []word{{0, 0, TryAcquire{}}, {100 * ms, 1, TryAcquire{}}, {1000 * ms, 0, Leave{}}, {1000 * ms, 2, TryAcquire{}}, {1100 * ms, 3, TryAcquire{}}}, until: 1300 * ms},
	{name: "tries at once", told: []word{{0, 0, TryAcquire{}}, {1 * ms, 1, TryAcquire{}}}, until: 300 * ms},
	{name: "a try that leaves", told: []word{{0, 0, Acquire{}}, {100 * ms, 1, TryAcquire{}}, {101 * ms, 1, Leave{}}}, until: 300 * ms},
	{name: "readers and a writer", config: slots(Shared, Shared, 1, Shared),
		told: []word{{0, 0, Acquire{}}, {50 * ms, 1, Acquire{}}, {100 * ms, 2, Acquire{}}, {150 * ms, 3, Acquire{}}, {700 * ms, 0, Leave{}}, {750 * ms, 1, Leave{}}, {1000 * ms, 2, Leave{}}}, until: 1400 * ms},
	{name: "two may hold, and a third waits", config: slots(2, 2, 2), told: []word{{0, 0, Acquire{}}, {50 * ms, 1, Acquire{}}, {100 * ms, 2, Acquire{}}, {500 * ms, 1, Leave{}}}, until: 900 * ms},
	{name: "a reader dies", config: slots(Shared, Shared, 1), told: []word{{0, 0, Acquire{}}, {50 * ms, 1, Acquire{}}, {100 * ms, 2, Acquire{}}, {600 * ms, 1, Leave{}}}, until: 1800 * ms,
		access: func(i, n int, _ any) (time.Duration, error, bool) { return 3 * ms, nil, i == 0 && n > 7 }},
	{name: "a reader's beat fails", config: slots(Shared), told: []word{{0, 0, Acquire{}}}, until: 1000 * ms, access: with(0, 6, 3*ms, errCourse, false)},
	{name: "the first look fails", told: []word{{0, 0, Acquire{}}}, until: 300 * ms, access: with(0, 1, 5*ms, errCourse, false)},
	{name: "the first write fails", told: []word{{0, 0, Acquire{}}}, until: 300 * ms, access: with(0, 2, 5*ms, errCourse, false)},
	{name: "the read-back fails", told: []word{{0, 0, Acquire{}}}, until: 2000 * ms, access: with(0, 3, 5*ms, errCourse, false)},
	{name: "a renewal's look fails", told: []word{{0, 0, Acquire{}}}, until: 700 * ms, access: with(0, 4, 5*ms, errCourse, false)},
	{name: "a renewal's write fails", told: []word{{0, 0, Acquire{}}, {600 * ms, 0, Leave{}}}, until: 700 * ms, access: with(0, 5, 5*ms, errCourse, false)},
	{name: "a renewal's read-back fails", told: []word{{0, 0, Acquire{}}, {600 * ms, 0, Leave{}}}, until: 700 * ms, access: with(0, 6, 5*ms, errCourse, false)},
	{name: "all renewals fail", told: []word{{0, 0, Acquire{}}, {1400 * ms, 0, Leave{}}}, until: 1600 * ms,
		access: func(i, n int, _ any) (time.Duration, error, bool) {
			if n > 3 && n < 15 {
				return 3 * ms, errCourse, false
			}
			return 3 * ms, nil, false
		}},
	{name: "two renewals fail, far apart", told: []word{{0, 0, Acquire{}}}, until: 1700 * ms,
		access: func(i, n int, _ any) (time.Duration, error, bool) {
			if n == 4 || n == 8 {
				return 3 * ms, errCourse, false
			}
			return 3 * ms, nil, false
		}},
	{name: "a try fails", told: []word{{0, 0, TryAcquire{}}}, until: 200 * ms, access: with(0, 2, 5*ms, errCourse, false)},
	{name: "a release fails for good", told: []word{{0, 0, Acquire{}}, {100 * ms, 0, Leave{}}}, until: 1500 * ms,
		access: func(i, n int, _ any) (time.Duration, error, bool) {
			if n > 3 {
				return 3 * ms, errCourse, false
			}
			return 3 * ms, nil, false
		}},
	{name: "a slow look", told: []word{{0, 0, Acquire{}}}, until: 300 * ms, access: with(0, 1, 21*ms, nil, false)},
	{name: "a slow write", told: []word{{0, 0, Acquire{}}}, until: 1700 * ms, access: with(0, 2, 18*ms, nil, false)},
	{name: "a slow read-back", told: []word{{0, 0, Acquire{}}}, until: 500 * ms, access: with(0, 3, 300*ms, nil, false)},
	{name: "slow looks again and again", told: []word{{0, 0, Acquire{}}, {10 * ms, 1, Acquire{}}}, until: 1800 * ms,
		access: func(i, n int, op any) (time.Duration, error, bool) {
			if _, read := op.(machine.Read); read && n < 12 {
				return 25 * ms, nil, false
			}
			return 3 * ms, nil, false
		}},
	{name: "a slow renewal", told: []word{{0, 0, Acquire{}}, {1500 * ms, 0, Leave{}}}, until: 1700 * ms, access: with(0, 5, 900*ms, nil, false)},
	{name: "left during a slow renewal", told: []word{{0, 0, Acquire{}}, {500 * ms, 0, Leave{}}}, until: 1700 * ms, access: with(0, 5, 400*ms, nil, false)},
	{name: "left during a renewal that is too slow", told: []word{{0, 0, Acquire{}}, {500 * ms, 0, Leave{}}}, until: 1700 * ms, access: with(0, 5, 1000*ms, nil, false)},
	{name: "another's δ", told: []word{{0, 0, Acquire{}}, {20 * ms, 0, Measured{30 * ms}}, {500 * ms, 1, Measured{90 * ms}}, {600 * ms, 1, Acquire{}}, {900 * ms, 0, Leave{}}, {1300 * ms, 1, Measured{time.Hour}}}, until: 2000 * ms},
	{name: "measured up and down", told: []word{{0, 0, Measured{40 * ms}}, {1 * ms, 0, Measured{20 * ms}}, {2 * ms, 0, Acquire{}}, {500 * ms, 0, Measured{5 * ms}}}, until: 900 * ms},
	{name: "clocks that drift", config: func(i int, c *Config) { c.Drift = 10_000 }, told: []word{{0, 0, Acquire{}}, {100 * ms, 1, Acquire{}}}, until: 1800 * ms,
		access: func(i, n int, _ any) (time.Duration, error, bool) { return 3 * ms, nil, i == 0 && n > 3 }},
	{name: "as the paper has it", config: func(i int, c *Config) { c.Plain, c.Trusting = true, true }, told: []word{{0, 0, Acquire{}}, {100 * ms, 1, Acquire{}}}, until: 3200 * ms},
	{name: "renewed blindly", config: func(i int, c *Config) { c.Renewal = KnownDelay }, told: []word{{0, 0, Acquire{}}, {100 * ms, 1, Acquire{}}, {900 * ms, 0, Leave{}}}, until: 1200 * ms},
	{name: "waits and polls of its own", config: func(i int, c *Config) { c.Wait, c.ReadBack, c.Poll, c.RenewAfter = 80, 30, 200*ms, 500*ms }, told: []word{{0, 0, Acquire{}}, {100 * ms, 1, Acquire{}}}, until: 1900 * ms,
		access: func(i, n int, _ any) (time.Duration, error, bool) { return 3 * ms, nil, i == 0 && n > 9 }},
	{name: "the holder ends, and one that waits is told", told: []word{{0, 0, Acquire{}}, {300 * ms, 1, Acquire{}}, {340 * ms, 1, Ended{machine.ID{1, 15: 7}, 1}}}, until: 600 * ms,
		access: func(i, n int, _ any) (time.Duration, error, bool) { return 3 * ms, nil, i == 0 && n > 3 }},
	{name: "the holder ends, and a try is told", told: []word{{0, 0, Acquire{}}, {300 * ms, 1, Ended{machine.ID{1, 15: 7}, 1}}, {300 * ms, 1, TryAcquire{}}}, until: 600 * ms,
		access: func(i, n int, _ any) (time.Duration, error, bool) { return 3 * ms, nil, i == 0 && n > 3 }},
	{name: "one of those in the queue is told while it notes", told: []word{{0, 0, Acquire{}}, {300 * ms, 1, Acquire{}}, {304 * ms, 1, Ended{machine.ID{1, 15: 7}, 1}}}, until: 600 * ms,
		access: func(i, n int, _ any) (time.Duration, error, bool) { return 3 * ms, nil, i == 0 && n > 3 }},
}

// Claims do what they always did, to the nanosecond: what they read, write and note and when,
// what they report, and what they tell of the register. A course that differs is no fault by
// itself. But that it does should be meant, and testdata/courses.txt written anew.
func TestCoursesAreAsTheyWere(t *testing.T) {
	const path = "testdata/courses.txt"
	var all strings.Builder
	for _, c := range courses {
		fmt.Fprintf(&all, "# %s\n%s", c.name, c.play(t))
	}
	if *rewriteCourses {
		if err := os.WriteFile(path, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(all.String(), "\n"), strings.Split(string(raw), "\n")
	name := ""
	for i := range min(len(got), len(want)) {
		if strings.HasPrefix(want[i], "# ") {
			name = want[i][2:]
		}
		if got[i] != want[i] {
			t.Fatalf("%s:%d: in the course %q a claim now does\n%s, and did\n%s", path, i+1, name, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("the courses have %d lines, and had %d", len(got), len(want))
	}
}

// ended is an access that ends.
type ended struct {
	at    machine.Mono
	claim int
	id    uint64
	op    any
	err   error
}

func (c *course) play(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	claims := 0
	for _, w := range c.told {
		claims = max(claims, w.claim+1)
	}
	leases, alarms, counts, seen := make([]*Lease, claims), make([]machine.Mono, claims), make([]int, claims), make([]string, claims)
	begin := machine.Mono(time.Hour)
	for i := range leases {
		cfg := Config{ID: machine.ID{byte(i + 1), 15: 7}, Holder: fmt.Sprint(i), Term: courseTerm, Delay: courseDelay}
		if c.config != nil {
			c.config(i, &cfg)
		}
		l, err := New(cfg)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		leases[i], alarms[i] = l, machine.Never
	}
	told := slices.Clone(c.told)
	var open []ended
	register := machine.Value{Next: 1}
	say := func(now machine.Mono, i int, format string, args ...any) {
		fmt.Fprintf(&out, "%v %d: %s\n", now.Sub(begin), i, fmt.Sprintf(format, args...))
	}
	take := func(now machine.Mono, i int) {
		rd := leases[i].Ready()
		for _, o := range rd.Outcomes {
			say(now, i, "%s", tellOutcome(o, begin))
		}
		for _, a := range rd.Accesses {
			counts[i]++
			took, err, hangs := 3*ms, error(nil), false
			if c.access != nil {
				took, err, hangs = c.access(i, counts[i], a.Op)
			}
			say(now, i, "%s", tellOp(a.Op))
			if !hangs {
				open = append(open, ended{now.Add(took), i, a.ID, a.Op, err})
			}
		}
		alarms[i] = rd.Alarm
	}
	for range 5000 {
		// What is first: the end of an access, a word, or an alarm.
		now, what, which := begin.Add(c.until), 0, 0
		for k, e := range open {
			if e.at < now {
				now, what, which = e.at, 1, k
			}
		}
		if len(told) > 0 && begin.Add(told[0].at) < now {
			now, what = begin.Add(told[0].at), 2
		}
		for i, at := range alarms {
			if at < now {
				now, what, which = at, 3, i
			}
		}
		switch what {
		case 0:
			for i, l := range leases {
				say(now, i, "sees %s; stuck %v", tellState(l.State(), begin), l.Stuck(now))
			}
			return out.String()
		case 1:
			e := open[which]
			open = slices.Delete(open, which, which+1)
			reply := serve(&register, leases[e.claim].cfg.ID, e)
			leases[e.claim].Accessed(machine.Now{Mono: now}, machine.Accessed{ID: e.id, Reply: reply, Err: e.err})
			if sees := tellState(leases[e.claim].State(), begin); sees != seen[e.claim] {
				say(now, e.claim, "sees %s", sees)
				seen[e.claim] = sees
			}
			take(now, e.claim)
		case 2:
			w := told[0]
			told = told[1:]
			say(now, w.claim, "is told %T", w.in)
			leases[w.claim].Step(machine.Now{Mono: now}, w.in)
			take(now, w.claim)
		case 3:
			leases[which].Wake(machine.Now{Mono: now})
			take(now, which)
		}
	}
	t.Fatalf("%s: it has no end:\n%s", c.name, out.String())
	return ""
}

// serve does an operation to an atomic register, unless it fails.
func serve(r *machine.Value, writer machine.ID, e ended) any {
	if e.err != nil {
		return nil
	}
	switch op := e.op.(type) {
	case machine.Write:
		v := machine.Version{Seq: op.Seq, Writer: writer}
		if op.Seq == 0 {
			v.Seq = r.Next
		}
		if r.Version.Compare(v) < 0 {
			r.Version, r.Data = v, op.Data
		}
		r.Next = max(r.Next, v.Seq+1)
		return v
	case machine.Note:
		i, there := slices.BinarySearchFunc(r.Notes, writer, func(n machine.Noted, id machine.ID) int { return n.Writer.Compare(id) })
		r.Notes = slices.Clone(r.Notes)
		if there {
			r.Notes[i].Data = op.Data
		} else {
			r.Notes = slices.Insert(r.Notes, i, machine.Noted{Writer: writer, Data: op.Data})
		}
		return nil
	}
	return *r
}

func tellOp(op any) string {
	switch op := op.(type) {
	case machine.Write:
		rec, err := decodeRecord(machine.Value{Version: machine.Version{Writer: machine.ID{1}}, Data: op.Data}, courseDelay)
		s := fmt.Sprintf("writes under %d δ %v", op.Seq, rec.delay)
		for _, e := range rec.entries {
			s += fmt.Sprintf(" [%d.%d slots %d token %d lock %v %q]", e.id[0], e.stamp, e.slots, e.token, e.lockDelay, e.holder)
		}
		if err != nil {
			s += " " + err.Error()
		}
		return s
	case machine.Note:
		n, err := decodeNote(op.Data)
		if err != nil {
			return "notes " + err.Error()
		}
		return fmt.Sprintf("notes ticket %d slots %d heartbeat %d stamp %d beat %d released %d", n.ticket, n.slots, n.heartbeat, n.stamp, n.beat, n.released)
	}
	return "reads"
}

func tellOutcome(o Outcome, begin machine.Mono) string {
	switch o := o.(type) {
	case Acquired:
		return fmt.Sprintf("has acquired it with token %d until %v", o.Token, o.Deadline.Sub(begin))
	case Renewed:
		return fmt.Sprintf("has renewed it until %v", o.Deadline.Sub(begin))
	case Lost:
		return "has lost it: " + o.Why
	case Refused:
		return fmt.Sprintf("is refused by %s, err %v", tellState(o.State, begin), o.Err)
	case Left:
		return fmt.Sprintf("has left, err %v", o.Err)
	case Trouble:
		return fmt.Sprintf("has trouble: %v", o.Err)
	}
	return fmt.Sprintf("%T", o)
}

func tellState(s State, begin machine.Mono) string {
	text := fmt.Sprintf("%d waiting", s.Waiting)
	for _, m := range s.Members {
		text += fmt.Sprintf(" [%d slots %d token %d released %v dead %v since %v]", m.ID[0], m.Slots, m.Token, m.Released, m.Dead, m.Since.Sub(begin))
	}
	return text
}
