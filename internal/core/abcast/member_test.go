package abcast

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// member is one of three, alone with what a test tells it. Its records are durable at once.
type member struct {
	t     *testing.T
	m     *Machine
	cfg   Config
	now   machine.Now
	log   []any
	sends []machine.Envelope // since the last call of sent
	outs  []Outcome          // since the last call of told
}

func three(id machine.NodeID) Config {
	return Config{
		Consensus: fastct.Config{ID: id, Members: []machine.NodeID{1, 2, 3}, Retry: time.Second, Lambda: 10},
		Life:      1, BatchCount: 4, BatchBytes: 1000, PendingCount: 10, PendingBytes: 10_000, Pipeline: 1, Relay: 4 * time.Second, Clients: 3,
	}
}

func start(t *testing.T, cfg Config, log ...any) *member {
	t.Helper()
	m, err := New(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	a := &member{t: t, m: m, cfg: cfg, log: log, now: machine.Now{Mono: machine.Mono(time.Hour)}}
	a.take()
	return a
}

// again is the member after a restart.
func (a *member) again() *member { return start(a.t, a.cfg, a.log...) }

// take takes the effects of a step.
func (a *member) take() {
	for more := true; more; {
		rd := a.m.Ready()
		a.sends, a.outs, more = append(a.sends, rd.Sends...), append(a.outs, rd.Outcomes...), false
		for _, p := range rd.Persists {
			if p.Record != nil {
				a.log = append(a.log, p.Record)
			}
			for _, e := range p.Then {
				if e.To == a.cfg.Consensus.ID {
					a.m.Receive(a.now, e)
					more = true
				} else {
					a.sends = append(a.sends, e)
				}
			}
		}
	}
}

func (a *member) step(in Input) { a.m.Step(a.now, in); a.take() }

func (a *member) hear(from machine.NodeID, bodies ...any) {
	for _, body := range bodies {
		a.m.Receive(a.now, machine.Envelope{From: from, To: a.cfg.Consensus.ID, Body: body})
		a.take()
	}
}

func (a *member) wake(after time.Duration) {
	a.now.Mono = a.now.Mono.Add(after)
	a.m.Wake(a.now)
	a.take()
}

// decide has the member hear a decision of its epoch.
func (a *member) decide(cn uint64, messages ...Message) {
	var batch []byte
	for _, m := range messages {
		batch = appendMessage(batch, m)
	}
	var body any = fastct.Decide{CN: cn, Value: batch, Whole: true}
	if a.m.epoch.first > 1 {
		body = In{a.m.epoch.first, body}
	}
	a.hear(1, body)
}

func (a *member) broadcast(m Message) { a.step(Broadcast{m}) }

// sent lists what was sent since the last call, of package abcast's own messages.
func (a *member) sent() string {
	var list []string
	for _, e := range a.sends {
		switch b := e.Body.(type) {
		case Submit:
			var names []string
			for _, m := range b.Messages {
				names = append(names, fmt.Sprintf("%d.%d", m.Client[15], m.Seq))
			}
			list = append(list, fmt.Sprintf("submit %s to %d", strings.Join(names, "+"), e.To))
		case Status:
			list = append(list, fmt.Sprintf("status %d/%d/%d to %d", b.Delivered, b.Began, b.Position, e.To))
		case Fetch:
			list = append(list, fmt.Sprintf("fetch %d of %d", b.From, e.To))
		case Decisions:
			list = append(list, fmt.Sprintf("%d decisions from %d on to %d", len(b.Values), b.From, e.To))
		case Transfer:
			list = append(list, fmt.Sprintf("state %d/%d to %d", b.Base.Order.Instance, b.Base.Position, e.To))
		}
	}
	a.sends = nil
	return strings.Join(list, ", ")
}

// told lists the outcomes since the last call.
func (a *member) told() string {
	var list []string
	for _, out := range a.outs {
		switch o := out.(type) {
		case Delivered:
			list = append(list, fmt.Sprintf("%d: %d.%d", o.Position, o.Client[15], o.Seq))
		case Began:
			list = append(list, fmt.Sprintf("began %d with %v", o.Group.First, o.Group.IDs()))
		case Established:
			list = append(list, fmt.Sprintf("established %d", o.Group.First))
		case Repeated:
			list = append(list, fmt.Sprintf("repeated %d.%d", o.Client[15], o.Seq))
		case Forgotten:
			list = append(list, fmt.Sprintf("forgotten %d.%d", o.Client[15], o.Seq))
		case Refused:
			list = append(list, fmt.Sprintf("refused %d.%d", o.Client[15], o.Seq))
		case Lacks:
			list = append(list, fmt.Sprintf("lacks %d", o.Position))
		case Installed:
			list = append(list, fmt.Sprintf("installed %d", o.Position))
		case Contradicted:
			list = append(list, fmt.Sprintf("contradicted by %d at %d, outvoted %v", o.From, o.Position, o.Outvoted))
		case Impossible:
			list = append(list, fmt.Sprintf("impossible from %d", o.From))
		}
	}
	a.outs = nil
	return strings.Join(list, ", ")
}

func (a *member) want(what, got, want string) {
	a.t.Helper()
	if got != want {
		a.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// of is a message of a client that was made at position 0.
func of(client byte, seq uint64) Message {
	return Message{Client: NewClient(0, uint64(client)), Seq: seq, Payload: []byte("x")}
}

// long is such a message, of so many bytes with what goes with it.
func long(client byte, seq uint64, size int) Message {
	m := of(client, seq)
	m.Payload = make([]byte, size-Message{}.size())
	return m
}

func change(client byte, seq uint64, c Change) Message {
	m := of(client, seq)
	m.Payload, m.Change = c.Payload(), true
	return m
}

// A member takes what is for it, and believes nobody else about itself.
func TestMessagesForOthers(t *testing.T) {
	a := start(t, three(2))
	a.m.Receive(a.now, machine.Envelope{From: 1, To: 3, Body: Submit{[]Message{of(1, 1)}}})
	a.take()
	if n := len(a.m.pending.list); n > 0 {
		t.Errorf("member 2 took a message for member 3: %d wait", n)
	}
	a.hear(1, moved{9})
	if began := a.m.present().Began; began != 1 {
		t.Errorf("member 1 said of member 2 that it has begun epoch 9, and it tells that it has begun %d", began)
	}
}

// What is said in an epoch counts in no other, whichever numbers the two have.
func TestEpochsAreToldApart(t *testing.T) {
	decided := fastct.Decide{CN: 5, Value: appendMessage(nil, of(1, 1)), Whole: true}
	first := start(t, three(2))
	first.m.order.instance = 4 // so that instance 5 is next in either
	first.hear(1, In{5, decided})
	first.want("a decision of epoch 5, in epoch 1", first.told(), "")
	first.want("and it asks for what it lacks", first.sent(), "fetch 5 of 1")

	g := Group{First: 5, Members: []Member{{ID: 1}, {ID: 2}, {ID: 3}}}
	fifth := start(t, three(2), Base{Order: State{Instance: 4, Group: g, Clients: 3}}, Started{5})
	for name, body := range map[string]any{"the first": decided, "epoch 3": In{3, decided}, "epoch 7": In{7, decided}} {
		fifth.hear(1, body)
		fifth.want("a decision of "+name+", in epoch 5", fifth.told(), "")
	}
	fifth.hear(1, In{5, decided})
	fifth.want("a decision of its own epoch", fifth.told(), "1: 1.1")
	fifth.broadcast(of(2, 1))
	fifth.sends = nil
	fifth.hear(1, In{5, fastct.NewEstimate{CN: 6, Value: appendMessage(nil, of(2, 1))}})
	if want := (machine.Envelope{From: 2, To: 1, Body: In{5, fastct.Ack{CN: 6}}}); !slices.Contains(fifth.sends, want) {
		t.Errorf("it acknowledges an estimate of epoch 5 by %v, want %v", fifth.sends, want)
	}
	if r, ok := fifth.log[len(fifth.log)-1].(In); !ok || r.Epoch != 5 {
		t.Errorf("the estimate is in its log as %+v, want it of epoch 5", fifth.log[len(fifth.log)-1])
	}
}

// While instances are undecided, another is begun only if as much waits as they have, and no
// more than Pipeline are.
func TestWhenInstancesAreBegun(t *testing.T) {
	cfg := three(2)
	cfg.Pipeline = 3
	a := start(t, cfg)
	for n, want := range []uint64{1, 2, 2, 3, 3, 3, 3, 3, 3} {
		a.broadcast(of(byte(n), 1))
		if a.m.opened != want {
			t.Errorf("with %d messages %d instances are begun, want %d", n+1, a.m.opened, want)
		}
	}
}

// A member whose instances are not enough for what others take part in asks them.
func TestWhoIsBehindAsks(t *testing.T) {
	cfg := three(2)
	cfg.Pipeline = 2
	for _, c := range []struct {
		name string
		body any
		want string
	}{
		{"an instance that it may begin", fastct.Estimate{CN: 2, Round: 1, TS: -1}, ""},
		{"one that it may not", fastct.Estimate{CN: 3, Round: 1, TS: -1}, "fetch 1 of 3"},
		{"others have forgotten what it lacks", fastct.Trimmed{Below: 2}, "fetch 1 of 3"},
		{"a status with more", Status{Delivered: 1}, "fetch 1 of 3"},
		{"a status with as much", Status{Delivered: 0}, ""},
		{"a message of a later epoch", In{2, fastct.Trimmed{Below: 1}}, "fetch 1 of 3"},
	} {
		a := start(t, cfg)
		a.sent()
		a.hear(3, c.body)
		a.want(c.name, a.sent(), c.want)
	}
}

// It asks again only after half a Retry, or after a Relay if its owner is to get a state; and
// it asks no member that is behind.
func TestHowOftenOneAsks(t *testing.T) {
	a := start(t, three(2))
	ahead := Status{Delivered: 5}
	a.hear(3, ahead, ahead)
	a.hear(1, ahead)
	a.want("at once", a.sent(), "fetch 1 of 3")
	a.now.Mono = a.now.Mono.Add(500*time.Millisecond - 1)
	a.hear(1, ahead)
	a.want("too soon", a.sent(), "")
	a.now.Mono++
	a.hear(1, ahead)
	a.want("after half a Retry", a.sent(), "fetch 1 of 1")
	a.m.lacks = &Base{Order: State{Instance: 4}}
	a.now.Mono = a.now.Mono.Add(4*time.Second - 1)
	a.hear(3, ahead)
	a.want("while its owner gets a state", a.sent(), "")
	a.now.Mono++
	a.hear(3, ahead)
	a.want("while its owner gets a state, after a Relay", a.sent(), "fetch 1 of 3")
}

// Messages leave before those of consensus, and in portions that fit into a batch.
func TestHowMessagesLeave(t *testing.T) {
	a := start(t, three(2))
	a.broadcast(of(1, 1))
	if len(a.sends) < 3 {
		t.Fatalf("a message and an estimate are to leave: %v", a.sends)
	}
	for i, e := range a.sends {
		if _, submit := e.Body.(Submit); submit != (i < 2) {
			t.Errorf("message %d of %d that leave is a %T: those to be ordered leave first", i+1, len(a.sends), e.Body)
		}
	}
	a = start(t, three(2))
	a.hear(1, Submit{[]Message{long(1, 1, 500), long(2, 1, 500), long(3, 1, 501)}})
	a.sent()
	a.wake(4 * time.Second)
	a.want("passed on", a.sent(), "submit 1.1+2.1 to 1, submit 1.1+2.1 to 3, submit 3.1 to 1, submit 3.1 to 3")
}

// With Direct a message goes at first to the leader alone, and to all from when it is
// repeated on; the next message goes to the leader alone again.
func TestToWhomMessagesGo(t *testing.T) {
	cfg := three(2)
	cfg.Direct = true
	a := start(t, cfg)
	a.broadcast(of(1, 1))
	a.want("nothing was decided yet", a.sent(), "submit 1.1 to 1, submit 1.1 to 3")
	a.m.fast = 1 // it has imposed what was decided last
	a.wake(0)
	a.sent()
	a.broadcast(of(2, 1))
	a.want("the leader imposes what it proposes", a.sent(), "submit 2.1 to 1")
	a.wake(500 * time.Millisecond)
	a.want("before it is repeated", a.sent(), "")
	a.wake(500 * time.Millisecond)
	a.want("repeated", a.sent(), "submit 1.1+2.1 to 1, submit 1.1+2.1 to 3")
	a.broadcast(of(3, 1))
	a.want("another one, behind a repeated one", a.sent(), "submit 3.1 to 1")
	a.step(Suspect{Node: 1, Suspected: true})
	a.sent()
	a.wake(0)
	a.want("the leader is suspected", a.sent(), "submit 3.1 to 1, submit 3.1 to 3")
}

// What the leader alone has goes to all at once when it does not impose any more: the leader
// sends what others had sent it, and the others send theirs.
func TestWhenTheLeaderNeedsTheOthers(t *testing.T) {
	cfg := three(1)
	cfg.Direct = true
	a := start(t, cfg)
	a.m.fast = 1
	a.wake(0)
	a.hear(2, Submit{[]Message{of(5, 1)}})
	a.sent()
	a.m.fast = 0
	a.wake(0)
	a.wake(0)
	a.want("the leader, of what it was sent", a.sent(), "submit 5.1 to 2, submit 5.1 to 3")

	cfg = three(2)
	cfg.Direct = true
	a = start(t, cfg)
	a.m.fast = 1
	a.wake(0)
	a.broadcast(of(1, 1))
	a.want("to the leader", a.sent(), "submit 1.1 to 1")
	a.hear(1, fastct.Call{CN: 1, Round: 3})
	a.sent()
	a.wake(0)
	a.want("an instance is in NORMAL mode", a.sent(), "submit 1.1 to 1, submit 1.1 to 3")
}

// A member wakes to repeat what waits, and for nothing else if it has no other work.
func TestWhenAMemberWakes(t *testing.T) {
	a := start(t, three(2))
	a.wake(0)
	if got := a.m.Ready().Alarm; got != machine.Never {
		t.Errorf("with nothing to do it wakes at %v", got)
	}
	a.hear(1, Submit{[]Message{of(9, 2)}}) // out of turn: no instance is begun for it
	a.wake(0)
	if got, want := a.m.Ready().Alarm, a.now.Mono.Add(500*time.Millisecond); got != want {
		t.Errorf("with a message that waits it wakes at %v, want after half a Retry, at %v", got, want)
	}
}

// A member that was removed tells how far it is until the new epoch is established, each
// Heartbeat and no more often. Then it is silent.
func TestARemovedMemberTells(t *testing.T) {
	cfg := three(2)
	cfg.Consensus.Heartbeat, cfg.Consensus.Timeout = 100*time.Millisecond, time.Second
	gone := Group{First: 1, Members: []Member{{ID: 1}, {ID: 3}}, Removed: []Member{{ID: 2}}}
	a := start(t, cfg, Base{Order: State{Group: gone, Clients: 3}})
	a.sent()
	const tells = "status 0/1/0 to 1, status 0/1/0 to 3"
	a.wake(0)
	a.want("at first", a.sent(), tells)
	if got, want := a.m.Ready().Alarm, a.now.Mono.Add(100*time.Millisecond); got != want {
		t.Errorf("it wakes at %v, want after a Heartbeat, at %v", got, want)
	}
	a.wake(100*time.Millisecond - 1)
	a.want("before a Heartbeat has passed", a.sent(), "")
	a.wake(1)
	a.want("after it", a.sent(), tells)
	a.hear(1, Status{Began: 1})
	a.hear(3, Status{Began: 1})
	a.want("both others have begun", a.told(), "established 1")
	a.wake(time.Minute)
	a.want("then", a.sent(), "")
	if got := a.m.Ready().Alarm; got != machine.Never {
		t.Errorf("nobody needs it any more, and it wakes at %v", got)
	}
}

// A message is repeated after Retry by its own member and after Relay by another, then after
// twice and four times that, and no less often.
func TestWhenMessagesAreRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(a *member)
		first time.Duration
	}{
		"its own":   {func(a *member) { a.broadcast(of(1, 1)) }, time.Second},
		"another's": {func(a *member) { a.hear(1, Submit{[]Message{of(1, 1)}}) }, 4 * time.Second},
	} {
		a := start(t, three(2))
		c.begin(a)
		a.sent()
		began := a.now.Mono
		var got []time.Duration
		for len(got) < 4 {
			a.wake(500 * time.Millisecond)
			if a.sent() != "" {
				got = append(got, a.now.Mono.Sub(began)/c.first)
			}
		}
		if want := []time.Duration{1, 3, 7, 11}; !slices.Equal(got, want) {
			t.Errorf("%s: repeated after %v times %v, want %v", name, got, c.first, want)
		}
	}
}

// What others send waits here as far as there is room, and only if it may be ordered.
func TestWhatIsTakenOfOthers(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages []Message
		want     int
	}{
		{"as large as a batch", []Message{long(9, 1, 1000)}, 1},
		{"larger than a batch", []Message{long(9, 1, 1001)}, 0},
		{"of a client's turns to come", []Message{of(9, 2), of(9, 3)}, 2},
		{"twice", []Message{of(9, 1), of(9, 1)}, 1},
		{"ordered before", []Message{of(1, 1)}, 0},
		{"the next of a client", []Message{of(1, 2)}, 1},
		{"of a client that was forgotten", []Message{of(8, 1)}, 0},
	} {
		a := start(t, three(2))
		a.m.order.remember(of(1, 1).Client, 1)
		if strings.Contains(c.name, "forgotten") {
			a.m.order.horizon = 5
		}
		a.hear(1, Submit{c.messages})
		if got := len(a.m.pending.list); got != c.want {
			t.Errorf("%s: %d messages wait, want %d", c.name, got, c.want)
		}
	}
	a := start(t, three(2))
	for n := range byte(30) {
		a.hear(1, Submit{[]Message{of(n, 1)}})
	}
	if got := len(a.m.pending.list); got != 20 {
		t.Errorf("%d messages of others wait, want twice PendingCount", got)
	}
	cfg := three(2)
	cfg.PendingCount = 100
	a = start(t, cfg)
	for n := range byte(19) {
		a.hear(1, Submit{[]Message{long(n, 1, 1000)}})
	}
	a.hear(1, Submit{[]Message{long(50, 1, 900)}}, Submit{[]Message{long(51, 1, 101)}}, Submit{[]Message{long(52, 1, 100)}})
	if got := a.m.pending.bytes; got != 20_000 {
		t.Errorf("messages of others of %d bytes wait, want twice PendingBytes", got)
	}
}

// There is room for PendingCount messages and PendingBytes of its own clients, to the last.
func TestRoom(t *testing.T) {
	a := start(t, three(2))
	for n := range byte(11) {
		a.broadcast(of(n, 1))
	}
	a.want("of 11 small messages", a.told(), "refused 10.1")
	cfg := three(2)
	cfg.PendingCount = 100
	a = start(t, cfg)
	for n := range byte(9) {
		a.broadcast(long(n, 1, 1000))
	}
	a.broadcast(long(20, 1, 900))
	a.broadcast(long(21, 1, 101))
	a.broadcast(long(22, 1, 100))
	a.want("of 10,001 bytes and then 10,000", a.told(), "refused 21.1")
}

// What was ordered or dropped takes no room any more, and its client goes on.
func TestRoomIsGivenBack(t *testing.T) {
	a := start(t, three(2))
	for n := range byte(3) {
		a.broadcast(of(n, 1))
	}
	a.hear(1, Submit{[]Message{of(7, 2)}}) // whose first message nobody has
	a.decide(1, of(0, 1), of(1, 1), of(2, 1))
	a.wake(4 * time.Second)
	if p := a.m.pending; len(p.list) != 0 || len(p.byKey) != 0 || p.bytes != 0 || p.proposed != 0 {
		t.Errorf("all is ordered or lost, and %d messages, known as %d, of %d bytes, %d of them proposed, wait", len(p.list), len(p.byKey), p.bytes, p.proposed)
	}
}

// What is out of turn waits for a Relay, and is proposed to nothing. Nothing follows on it.
func TestOutOfTurn(t *testing.T) {
	a := start(t, three(2))
	a.hear(1, Submit{[]Message{of(9, 2)}})
	if a.m.opened != 0 || a.m.pending.proposed != 0 {
		t.Errorf("for a message out of turn %d instances are begun, and it is proposed: %d", a.m.opened, a.m.pending.proposed)
	}
	if a.m.InTurn(of(9, 1).Client, 3) || !a.m.InTurn(of(9, 1).Client, 1) || a.m.InTurn(of(9, 1).Client, 0) {
		t.Error("of a client whose message 2 waits, and 1 is not here, 3 or 0 is in turn, or 1 is not")
	}
	a.wake(4*time.Second - 1)
	if len(a.m.pending.list) != 1 {
		t.Error("a message out of turn is given up before a Relay has passed")
	}
	a.wake(time.Second)
	if len(a.m.pending.list) != 0 {
		t.Error("a message out of turn waits for longer than a Relay")
	}
	a.m.order.horizon = 5
	if a.m.InTurn(of(9, 1).Client, 0) || a.m.InTurn(of(9, 1).Client, 1) {
		t.Error("a message of a client that was forgotten is in turn")
	}
	a.broadcast(of(9, 0))
	a.want("number 0 of a client that was forgotten", a.told(), "refused 9.0")
}

// What the leader alone was sent is left to it: no instance is begun for it.
func TestLeftToTheLeader(t *testing.T) {
	cfg := three(2)
	cfg.Direct = true
	a := start(t, cfg)
	a.m.fast = 1
	a.wake(0)
	a.broadcast(of(1, 1))
	if a.m.opened != 0 {
		t.Errorf("%d instances are begun for a message that only the leader has", a.m.opened)
	}
	a.hear(1, Submit{[]Message{of(2, 1)}})
	if w := a.m.pending.get(of(1, 1).Client, 1); a.m.opened != 1 || w == nil || w.in != 0 || a.m.pending.proposed != 1 {
		t.Errorf("for a message that all have %d instances are begun, and %d messages proposed: %+v", a.m.opened, a.m.pending.proposed, w)
	}
}

// An owner is told of what was broadcast here, and of nothing else that waits.
func TestOnlyOnesOwnAreAnswered(t *testing.T) {
	for name, begin := range map[string]func(a *member){
		"its own":             func(a *member) { a.broadcast(of(9, 1)) },
		"another's":           func(a *member) { a.hear(3, Submit{[]Message{of(9, 1)}}) },
		"another's, then own": func(a *member) { a.hear(3, Submit{[]Message{of(9, 1)}}); a.broadcast(of(9, 1)) },
	} {
		a := start(t, three(2))
		begin(a)
		a.told()
		for n := range byte(4) { // the fourth forgets the first, which was made before this position
			a.decide(uint64(n)+1, of(n, 1))
		}
		want := ""
		if strings.Contains(name, "own") {
			want = "refused 9.1"
		}
		var got []string
		for s := range strings.SplitSeq(a.told(), ", ") {
			if strings.Contains(s, "9.1") {
				got = append(got, s)
			}
		}
		a.want(name+", whose client may have been forgotten", strings.Join(got, ", "), want)
	}
}
