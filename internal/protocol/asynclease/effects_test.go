package asynclease_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
)

// effects says what a machine is to do, and forgets it: messages, records and verdicts. All
// records are durable at once, and what it says to itself arrives.
func effects(m *asynclease.Machine, now machine.Now) string {
	var list []string
	for {
		rd := m.Ready()
		then := rd.Sends
		for _, p := range rd.Persists {
			if p.Record != nil {
				list = append(list, fmt.Sprintf("record %T%v", p.Record, p.Record))
			}
			then = append(then, p.Then...)
		}
		for _, v := range rd.Outcomes {
			list = append(list, fmt.Sprintf("%d: %v granted %v until %d", v.ID, v.Interval, v.Granted, v.Until))
		}
		self := 0
		for _, e := range then {
			if e.To == e.From {
				self++
				m.Receive(now, e)
				continue
			}
			switch b := e.Body.(type) {
			case asynclease.Ack:
				list = append(list, fmt.Sprintf("%d to %d: ack %v", e.From, e.To, b.Request))
			case asynclease.Nack:
				list = append(list, fmt.Sprintf("%d to %d: nack %v until %d", e.From, e.To, b.Request, b.Until))
			case asynclease.Lease:
				list = append(list, fmt.Sprintf("%d to %d: lease %v%v open %d", e.From, e.To, b.Request, b.Interval, b.Open))
			case asynclease.Give:
				list = append(list, fmt.Sprintf("%d to %d: give %v from %d", e.From, e.To, b.Request, b.From))
			}
		}
		if self == 0 {
			return strings.ReplaceAll(strings.Join(list, ", "), "asynclease.", "")
		}
	}
}

func request(node machine.NodeID, life, seq uint64) asynclease.Request {
	return asynclease.Request{Node: node, Life: life, Seq: seq}
}

func marks(m *asynclease.Machine) string {
	var list []string
	for _, p := range m.Permitted() {
		list = append(list, fmt.Sprintf("%v%v", p.Request, p.Interval))
	}
	return strings.Join(list, " ")
}

// An acceptor gives each request one answer, for as long as somebody may ask for it, and keeps
// marks of what it has permitted and was not given back.
func TestAnAcceptor(t *testing.T) {
	m := member(t, 1)
	m.Ready()
	lease := func(r asynclease.Request, first, last, open uint64) any {
		return asynclease.Lease{Request: r, Interval: asynclease.Interval{First: first, Last: last}, Open: open}
	}
	give := func(r asynclease.Request, from uint64) any { return asynclease.Give{Request: r, From: from} }
	for _, c := range []struct {
		name         string
		body         any // a Forget is its owner's
		answer, have string
	}{
		{"free", lease(request(2, 1, 1), 11, 20, 1), "ack 2.1.1", "2.1.1[11,20]"},
		{"repeated", lease(request(2, 1, 1), 11, 20, 1), "ack 2.1.1", "2.1.1[11,20]"},
		{"taken", lease(request(3, 1, 1), 15, 25, 1), "nack 3.1.1 until 20", "2.1.1[11,20]"},
		{"in front", lease(request(3, 1, 2), 5, 10, 1), "ack 3.1.2", "3.1.2[5,10] 2.1.1[11,20]"},
		{"taken behind a free one", lease(request(2, 1, 2), 1, 30, 1), "nack 2.1.2 until 0", "3.1.2[5,10] 2.1.1[11,20]"},
		{"taken without a gap", lease(request(2, 1, 3), 5, 6, 1), "nack 2.1.3 until 20", "3.1.2[5,10] 2.1.1[11,20]"},
		{"taken in the middle", lease(request(2, 1, 4), 12, 13, 1), "nack 2.1.4 until 20", "3.1.2[5,10] 2.1.1[11,20]"},
		{"a tail goes back", give(request(3, 1, 2), 8), "record Cut{3.1.2 8}", "3.1.2[5,7] 2.1.1[11,20]"},
		{"and again", give(request(3, 1, 2), 8), "", "3.1.2[5,7] 2.1.1[11,20]"},
		{"asked for late", lease(request(3, 1, 2), 5, 10, 1), "nack 3.1.2 until 0", "3.1.2[5,7] 2.1.1[11,20]"},
		{"the head goes back", give(request(3, 1, 2), 5), "record Cut{3.1.2 5}", "2.1.1[11,20]"},
		{"refused before, and free by now", lease(request(2, 1, 3), 5, 6, 1), "nack 2.1.3 until 20", "2.1.1[11,20]"},
		{"those before 3 are over", lease(request(2, 1, 5), 30, 40, 3), "ack 2.1.5", "2.1.1[11,20] 2.1.5[30,40]"},
		{"the first that is not over", lease(request(2, 1, 3), 5, 6, 3), "nack 2.1.3 until 20", "2.1.1[11,20] 2.1.5[30,40]"},
		{"one that is over", lease(request(2, 1, 2), 1, 4, 1), "", "2.1.1[11,20] 2.1.5[30,40]"},
		{"a later life", lease(request(2, 2, 1), 100, 110, 1), "ack 2.2.1", "2.1.1[11,20] 2.1.5[30,40] 2.2.1[100,110]"},
		{"an earlier life", lease(request(2, 1, 6), 200, 210, 3), "", "2.1.1[11,20] 2.1.5[30,40] 2.2.1[100,110]"},
		{"below 35", asynclease.Forget{Below: 35}, "record Floor{35}", "2.1.5[30,40] 2.2.1[100,110]"},
		{"below less", asynclease.Forget{Below: 20}, "", "2.1.5[30,40] 2.2.1[100,110]"},
		{"below the floor", lease(request(3, 1, 3), 25, 26, 1), "nack 3.1.3 until 34", "2.1.5[30,40] 2.2.1[100,110]"},
		{"from below the floor", lease(request(3, 1, 4), 34, 50, 1), "nack 3.1.4 until 34", "2.1.5[30,40] 2.2.1[100,110]"},
		{"behind the floor, and taken", lease(request(3, 1, 5), 36, 50, 1), "nack 3.1.5 until 40", "2.1.5[30,40] 2.2.1[100,110]"},
	} {
		var from machine.NodeID
		switch b := c.body.(type) {
		case asynclease.Forget:
			m.Step(machine.Now{}, b)
		case asynclease.Lease:
			from = b.Request.Node
		case asynclease.Give:
			from = b.Request.Node
		}
		if from != 0 {
			m.Receive(machine.Now{}, machine.Envelope{From: from, To: 3, Body: c.body}) // for another one
			if got := effects(m, machine.Now{}); got != "" {
				t.Errorf("%s: a message for member 3 did something at member 1: %s", c.name, got)
			}
			m.Receive(machine.Now{}, machine.Envelope{From: from, To: 1, Body: c.body})
		}
		got := effects(m, machine.Now{})
		if i := strings.LastIndex(got, ": "); i >= 0 {
			got = got[i+2:]
		}
		if got != c.answer || marks(m) != c.have {
			t.Errorf("%s: %q, with the marks %s; want %q and %s", c.name, got, marks(m), c.answer, c.have)
		}
	}
	again, err := asynclease.New(asynclease.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Life: 2, Retry: time.Second}, m.Records())
	if err != nil {
		t.Fatal(err)
	}
	again.Receive(machine.Now{}, machine.Envelope{From: 3, To: 1, Body: lease(request(3, 2, 1), 31, 32, 1)})
	if got := effects(again, machine.Now{}); got != "1 to 3: nack 3.2.1 until 34" || marks(again) != marks(m) {
		t.Errorf("from a new log, below the floor: %q, with the marks %s", got, marks(again))
	}
}

// A member asks until a majority has answered, each that has not, and says which of its
// requests are open. It gives back whole each lease that it does not get or need.
func TestARequest(t *testing.T) {
	cfg := asynclease.Config{ID: 1, Members: []machine.NodeID{1, 2, 3, 4, 5}, Life: 7, Retry: time.Second}
	m, err := asynclease.New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Ready()
	var now machine.Now
	ask := func(id, first, last uint64) func() {
		return func() { m.Step(now, asynclease.Ask{ID: id, Interval: asynclease.Interval{First: first, Last: last}}) }
	}
	hears := func(from machine.NodeID, body any) func() {
		return func() { m.Receive(now, machine.Envelope{From: from, To: 1, Body: body}) }
	}
	wakes := func(at time.Duration) func() {
		return func() { now.Mono = machine.Mono(at); m.Wake(now) }
	}
	to := func(format string, ids ...machine.NodeID) string {
		var list []string
		for _, id := range ids {
			list = append(list, fmt.Sprintf("1 to %d: ", id)+format)
		}
		return strings.Join(list, ", ")
	}
	for _, c := range []struct {
		name string
		do   func()
		want string
	}{
		{"asks all", ask(1, 11, 20), "record Permitted{1.7.1 [11,20]}, " + to("lease 1.7.1[11,20] open 1", 2, 3, 4, 5)},
		{"another request", ask(2, 30, 40), "record Permitted{1.7.2 [30,40]}, " + to("lease 1.7.2[30,40] open 1", 2, 3, 4, 5)},
		{"an answer", hears(2, asynclease.Ack{Request: request(1, 7, 1)}), ""},
		{"an answer to an earlier life", hears(3, asynclease.Ack{Request: request(1, 6, 1)}), ""},
		{"before its time", wakes(time.Second - 1), ""},
		{"repeated to those that have not answered", wakes(time.Second), to("lease 1.7.1[11,20] open 1", 3, 4, 5) + ", " + to("lease 1.7.2[30,40] open 1", 2, 3, 4, 5)},
		{"a majority", hears(4, asynclease.Ack{Request: request(1, 7, 1)}), "1: [11,20] granted true until 0"},
		{"a refusal behind it", hears(5, asynclease.Nack{Request: request(1, 7, 1), Until: 99}), ""},
		{"a refusal of the other", hears(5, asynclease.Nack{Request: request(1, 7, 2), Until: 44}), ""},
		{"a majority, with another that is free for less", hears(3, asynclease.Nack{Request: request(1, 7, 2), Until: 33}),
			"record Cut{1.7.2 30}, 2: [30,40] granted false until 44, " + to("give 1.7.2 from 30", 2, 3, 4, 5)},
		{"the next, with none open before it", ask(3, 50, 50), "record Permitted{1.7.3 [50,50]}, " + to("lease 1.7.3[50,50] open 3", 2, 3, 4, 5)},
		{"a part is needed no more", func() { m.Step(now, asynclease.Forget{Below: 15}) }, "record Floor{15}"},
		{"its tail goes back", func() { m.Step(now, asynclease.Return{ID: 1, From: 17}) }, "record Cut{1.7.1 17}, " + to("give 1.7.1 from 17", 2, 3, 4, 5)},
		{"all but its last is needed no more", func() { m.Step(now, asynclease.Forget{Below: 16}) }, "record Floor{16}"},
		{"its last goes back", func() { m.Step(now, asynclease.Return{ID: 1, From: 16}) }, "record Cut{1.7.1 16}, " + to("give 1.7.1 from 16", 2, 3, 4, 5)},
		{"none of it is needed any more", func() { m.Step(now, asynclease.Forget{Below: 17}) }, "record Floor{17}"},
		{"and goes back", func() { m.Step(now, asynclease.Return{ID: 1, From: 11}) }, ""},
	} {
		c.do()
		if got := effects(m, now); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

// In crash-stop mode nothing is written, and a member answers itself without a message.
func TestNothingIsWrittenInCrashStopMode(t *testing.T) {
	m, err := asynclease.New(asynclease.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Life: 1, Retry: time.Second, Volatile: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Step(machine.Now{}, asynclease.Ask{ID: 1, Interval: asynclease.Interval{First: 1, Last: 5}})
	rd := m.Ready()
	if len(rd.Persists) > 0 || slices.ContainsFunc(rd.Sends, func(e machine.Envelope) bool { return e.To == 1 }) {
		t.Errorf("it writes %v and sends %v", rd.Persists, rd.Sends)
	}
	m.Receive(machine.Now{}, machine.Envelope{From: 3, To: 1, Body: asynclease.Ack{Request: request(1, 1, 1)}})
	m.Step(machine.Now{}, asynclease.Forget{Below: 3})
	m.Step(machine.Now{}, asynclease.Return{ID: 1, From: 4})
	if rd := m.Ready(); len(rd.Outcomes) != 1 || !rd.Outcomes[0].Granted || len(rd.Persists) > 0 {
		t.Errorf("with the answers of itself and another one: %+v", rd)
	}
}

// With MarkRefused what is refused is marked, too, and durable.
func TestRefusedAndMarked(t *testing.T) {
	cfg := asynclease.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Life: 1, Retry: time.Second, MarkRefused: true}
	m, err := asynclease.New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Ready()
	for i, want := range []string{
		"record Permitted{2.1.1 [1,5]}, 1 to 2: ack 2.1.1", "record Permitted{2.1.2 [3,7]}, 1 to 2: nack 2.1.2 until 5", "record Permitted{2.1.3 [7,9]}, 1 to 2: nack 2.1.3 until 7",
	} {
		first := []uint64{1, 3, 7}[i]
		m.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: asynclease.Lease{
			Request: request(2, 1, uint64(i)+1), Interval: asynclease.Interval{First: first, Last: []uint64{5, 7, 9}[i]}, Open: 1,
		}})
		if got := effects(m, machine.Now{}); got != want {
			t.Errorf("request %d: %q, want %q", i+1, got, want)
		}
	}
}

func TestConfigsThatMakeNoMember(t *testing.T) {
	good := asynclease.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Life: 1, Retry: time.Second}
	if _, err := asynclease.New(good, nil); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *asynclease.Config){
		"nobody":          func(c *asynclease.Config) { c.ID = 0 },
		"a stranger":      func(c *asynclease.Config) { c.ID = 4 },
		"never repeated":  func(c *asynclease.Config) { c.Retry = 0 },
		"a member twice":  func(c *asynclease.Config) { c.Members = []machine.NodeID{1, 2, 2} },
		"a member 0":      func(c *asynclease.Config) { c.Members = []machine.NodeID{1, 2, 0} },
		"a member 0 only": func(c *asynclease.Config) { c.ID, c.Members = 0, []machine.NodeID{0} },
	} {
		c := good
		change(&c)
		if _, err := asynclease.New(c, nil); err == nil {
			t.Errorf("%s: a member was made of %+v", name, c)
		}
	}
}

// The alarm is for the request that was sent first, however many were sent after it.
func TestTheAlarmIsForTheFirst(t *testing.T) {
	m, err := asynclease.New(asynclease.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Life: 7, Retry: time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Ready().Alarm != machine.Never {
		t.Error("an alarm without a request")
	}
	for i := range machine.Mono(3) {
		m.Step(machine.Now{Mono: i}, asynclease.Ask{ID: uint64(i + 1), Interval: asynclease.Interval{First: 10*uint64(i) + 1, Last: 10*uint64(i) + 5}})
		if got, want := m.Ready().Alarm, machine.Mono(time.Second); got != want {
			t.Errorf("with %d requests the alarm is at %d, want %d", i+1, got, want)
		}
	}
}

// A request is repeated after a Retry, after two, and then after four again and again.
func TestHowOftenARequestIsRepeated(t *testing.T) {
	m := member(t, 1)
	m.Ready()
	m.Step(machine.Now{}, asynclease.Ask{ID: 1, Interval: asynclease.Interval{First: 1, Last: 5}})
	retry := m.Ready().Alarm
	at := retry
	for i, pause := range []machine.Mono{2, 4, 4, 4} {
		m.Wake(machine.Now{Mono: at})
		rd := m.Ready()
		if len(rd.Sends) != 2 || rd.Alarm != at+pause*retry {
			t.Errorf("repetition %d goes to %d members, and the next is due %d after it; want 2 and %d", i+1, len(rd.Sends), rd.Alarm-at, pause*retry)
		}
		at = rd.Alarm
	}
}
