package abcast

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

var addFour = change(1, 1, Change{Add: []Member{{ID: 4, Address: "d"}}})

// A member tells that it has begun an epoch when that is durable, and the epoch is established
// once a majority of its members has said so, whatever they said before and say late.
func TestWhenAnEpochIsEstablished(t *testing.T) {
	a := start(t, three(2))
	a.told()
	a.decide(1, addFour)
	a.want("a change", a.told(), "1: 1.1, began 2 with [1 2 3 4]")
	told := a.sent()
	for _, want := range []string{"status 1/1/1 to 4", "status 1/2/1 to 1", "status 1/2/1 to 4"} {
		if !strings.Contains(told, want) {
			t.Errorf("behind a change %q is not among what it tells: %q", want, told)
		}
	}
	if strings.Index(told, "status 1/1/1 to 4") > strings.Index(told, "status 1/2/1 to 4") {
		t.Errorf("it tells that it has begun before it tells that it has not: %q", told)
	}
	at := Status{Delivered: 1, Position: 1, Digest: a.m.order.digest}
	begun := at
	begun.Began = 2
	for _, c := range []struct {
		name string
		from machine.NodeID
		s    Status
		want string
	}{
		{"the second of four", 1, begun, ""},
		{"the same", 1, begun, ""},
		{"its word from before", 1, at, ""},
		{"one that has not begun", 3, at, ""},
		{"a stranger", 9, begun, ""},
		{"the third", 4, begun, "established 2"},
		{"the fourth", 3, begun, ""},
	} {
		a.hear(c.from, c.s)
		a.want(c.name, a.told(), c.want)
	}
	var cut []any // its log without the word that it has begun
	for _, r := range a.log {
		if _, begun := r.(Started); !begun {
			cut = append(cut, r)
		}
	}
	for name, c := range map[string]struct {
		log    []any
		before uint64 // what it tells until its records are durable
	}{"its log": {a.log, 2}, "a new log": {a.m.Records(), 2}, "a log that lacks its beginning": {cut, 1}} {
		m, err := New(a.cfg, c.log)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.present().Began; got != c.before {
			t.Errorf("from %s it tells at first that it has begun epoch %d, want %d", name, got, c.before)
		}
		if got := start(t, a.cfg, c.log...).m.present().Began; got != 2 {
			t.Errorf("from %s it tells that it has begun epoch %d, want 2", name, got)
		}
	}
	if b := start(t, a.cfg, a.m.Records()...); b.m.present().Began != 2 || !reflect.DeepEqual(b.m.Group(), a.m.Group()) || b.m.Position() != 1 {
		t.Errorf("from a new log it tells that it has begun epoch %d of %+v at position %d, want 2 of %+v at 1", b.m.present().Began, b.m.Group(), b.m.Position(), a.m.Group())
	}
}

// A member counts itself among those that have begun an epoch once that is durable, and not before: a crash may undo it.
func TestNotEstablishedBeforeItIsDurable(t *testing.T) {
	a := start(t, three(2))
	a.told()
	a.m.Receive(a.now, machine.Envelope{From: 1, To: 2, Body: fastct.Decide{CN: 1, Value: appendMessage(nil, addFour), Whole: true}})
	begun := Status{Delivered: 1, Position: 1, Digest: a.m.order.digest, Began: 2}
	for _, from := range []machine.NodeID{1, 4} {
		a.m.Receive(a.now, machine.Envelope{From: from, To: 2, Body: begun})
	}
	if a.m.epoch.established {
		t.Error("two of four others have begun the epoch, and it is established before this member's own beginning is durable")
	}
	if a.take(); !a.m.epoch.established {
		t.Error("three of four have begun the epoch durably, and it is not established")
	}
}

// A member that is alone is a majority of its group as soon as it has begun.
func TestAloneItIsEstablished(t *testing.T) {
	cfg := three(1)
	cfg.Consensus.Members = []machine.NodeID{1}
	a := start(t, cfg)
	a.told()
	a.decide(1, change(1, 1, Change{Add: []Member{{ID: 1, Address: "here"}}}))
	a.want("moved to an address", a.told(), "1: 1.1, began 2 with [1], established 2")
}

// What was said of the next epoch before it began here counts then, up to a bound; what was
// known of suspicions goes on, and what was proposed in the old epoch is proposed again.
func TestIntoTheNextEpoch(t *testing.T) {
	a := start(t, three(2))
	a.step(Suspect{Node: 3, Suspected: true})
	a.broadcast(of(2, 1))
	early := In{2, fastct.Decide{CN: 2, Value: appendMessage(nil, of(3, 1)), Whole: true}}
	a.told()
	a.hear(1, early)
	for range 2 * earlyMax {
		a.hear(3, In{2, fastct.Ack{CN: 2, Round: 0}})
	}
	a.want("what is decided in an epoch that has not begun here", a.told(), "")
	if n := len(a.m.epoch.early); n != earlyMax {
		t.Errorf("%d messages of a later epoch are kept, want %d", n, earlyMax)
	}
	a.decide(1, addFour)
	a.want("when it has begun", a.told(), "1: 1.1, began 2 with [1 2 3 4], 2: 3.1")
	if got := a.m.Consensus().Suspects(); !slices.Equal(got, []machine.NodeID{3}) {
		t.Errorf("suspected in the next epoch are %v, want 3", got)
	}
	if w := a.m.pending.get(of(2, 1).Client, 1); w == nil || w.in != 3 || a.m.pending.proposed != 1 {
		t.Errorf("a message that was proposed in the old epoch is %+v in the new one, want it proposed to instance 3", w)
	}
	if floor := a.m.Consensus().Floor(); floor != 2 {
		t.Errorf("consensus of the new epoch takes part from instance %d on, want 2", floor)
	}
	if len(a.m.epoch.early) != 0 {
		t.Errorf("%d early messages are kept on", len(a.m.epoch.early))
	}
}

// What was proposed in the old epoch, to any instance, is proposed again in the new one.
func TestProposedInTheOldEpoch(t *testing.T) {
	cfg := three(2)
	cfg.Pipeline = 2
	a := start(t, cfg)
	a.broadcast(of(2, 1))
	a.broadcast(of(3, 1))
	a.decide(1, addFour)
	for _, client := range []byte{2, 3} {
		if w := a.m.pending.get(of(client, 1).Client, 1); w == nil || w.in < 2 || w.tries != 1 {
			t.Errorf("message %d.1 is %+v in the new epoch, want it proposed there, and once in vain before", client, w)
		}
	}
}

// A member tells its owner whom it trusts to lead, whenever that changes.
func TestWhoLeadsIsTold(t *testing.T) {
	a := start(t, three(2))
	a.step(Suspect{Node: 1, Suspected: true})
	a.hear(3, fastct.Counts{Counts: []uint64{1, 5, 0}})
	var leads []machine.NodeID
	for _, out := range a.outs {
		if l, ok := out.(Leader); ok {
			leads = append(leads, l.Node)
		}
	}
	if !slices.Equal(leads, []machine.NodeID{2, 3}) {
		t.Errorf("1 is suspected, and then 2 more often, and its owner is told that %v lead; want 2, and then 3", leads)
	}
}

// A member that is removed keeps nothing that waits, and is told decisions of no later epoch.
func TestOutOfTheGroup(t *testing.T) {
	cfg := three(2)
	cfg.Pipeline = 2
	a := start(t, cfg)
	a.broadcast(of(2, 1))
	a.broadcast(of(4, 1)) // for which instance 2 is begun
	a.told()
	a.decide(1, change(1, 1, Change{Remove: []machine.NodeID{2}}), of(3, 1))
	a.want("removed", a.told(), "1: 1.1, 2: 3.1, began 2 with [1 3]")
	if n := len(a.m.pending.list); n > 0 || a.m.Consensus() != nil {
		t.Errorf("%d messages wait at a member that was removed, and it takes part in consensus: %v", n, a.m.Consensus() != nil)
	}
	a.broadcast(of(2, 1))
	a.want("it broadcasts", a.told(), "refused 2.1")
	if rd := a.m.Ready(); rd.Alarm != machine.Never {
		t.Errorf("it has nothing to do, and wakes at %v", rd.Alarm)
	}
	if b := a.again(); b.m.Position() != 2 || b.m.Consensus() != nil {
		t.Errorf("after a restart it is at position %d, and takes part: %v", b.m.Position(), b.m.Consensus() != nil)
	}
	if b := start(t, a.cfg, a.m.Records()...); b.m.Position() != 2 || b.m.Consensus() != nil {
		t.Errorf("from a new log it is at position %d, and takes part: %v", b.m.Position(), b.m.Consensus() != nil)
	}
}

// A member that is told the decisions of a group which it has not joined yet keeps them, in a
// new log, too.
func TestDecisionsOfOthers(t *testing.T) {
	cfg := three(9)
	cfg.Join = true
	a := start(t, cfg)
	g := Group{First: 1, Members: []Member{{ID: 1}, {ID: 3}}}
	a.hear(1, Status{Delivered: 3})
	a.hear(1, Transfer{state(g, 1, 1, 1)})
	a.step(Restored{1})
	a.hear(1, Decisions{From: 2, Values: [][]byte{appendMessage(nil, of(1, 1)), appendMessage(nil, of(1, 2))}})
	a.want("told of them", a.told(), "lacks 1, installed 1, began 1 with [1 3], 2: 1.1, 3: 1.2")
	a.hear(1, Decisions{From: 3, Values: [][]byte{appendMessage(nil, of(1, 3))}}, Decisions{From: 5, Values: [][]byte{appendMessage(nil, of(1, 3))}})
	a.want("told of what it has, and of what does not follow", a.told(), "")
	for name, log := range map[string][]any{"its log": a.log, "a new log": a.m.Records()} {
		if b := start(t, cfg, log...); b.m.Position() != 3 || b.m.Instance() != 3 {
			t.Errorf("from %s it is at position %d and instance %d, want 3", name, b.m.Position(), b.m.Instance())
		}
	}
}

// Of several changes in a batch each counts on the one before, and those that change nothing
// take nothing back. The next instance is the first of the new epoch.
func TestChangesInABatch(t *testing.T) {
	o := newOrder(State{Instance: 6, Position: 10, Clients: 3, Group: Group{First: 1, Members: []Member{{ID: 1}, {ID: 2}}}})
	var batch []byte
	for seq, c := range []Change{{Add: []Member{{ID: 4, Address: "d"}}}, {}, {Remove: []machine.NodeID{1, 2, 4}}, {Remove: []machine.NodeID{1}}, {Add: []Member{{ID: 1}}}} {
		batch = appendMessage(batch, change(1, uint64(seq)+1, c))
	}
	before := o.digest
	var members [][]machine.NodeID
	var fails []bool
	for i, d := range o.next(batch) {
		members, fails = append(members, Group{Members: d.Members}.IDs()), append(fails, d.Err != nil)
		if d.Position != 11+uint64(i) || d.Digest == before || i == 4 && d.Digest != o.digest {
			t.Errorf("change %d is at position %d with the digest %#x, before it %#x, in the end %#x", i, d.Position, d.Digest, before, o.digest)
		}
		before = d.Digest
	}
	if want := [][]machine.NodeID{{1, 2, 4}, {1, 2, 4}, {1, 2, 4}, {2, 4}, {2, 4}}; !reflect.DeepEqual(members, want) || !slices.Equal(fails, []bool{false, false, true, false, true}) {
		t.Errorf("the members after each change are %v, and those that failed %v; want %v, and the third and last", members, fails, want)
	}
	if !slices.Equal(o.group.IDs(), []machine.NodeID{2, 4}) || o.group.First != 8 || !o.group.Gone(1) {
		t.Errorf("the group is %+v, want 2 and 4 from instance 8 on, without 1 for good", o.group)
	}
	o.next(appendMessage(nil, change(1, 6, Change{})))
	if o.group.First != 8 {
		t.Errorf("a change of nothing begins an epoch: %+v", o.group)
	}
}

// A batch that is damaged at its end orders nothing at all.
func TestABatchThatIsCutOff(t *testing.T) {
	o := newOrder(State{Clients: 3})
	whole := appendMessage(nil, of(1, 1))
	if got := o.next(append(whole, whole[:20]...)); len(got) > 0 || o.position > 0 {
		t.Errorf("a batch that is cut off orders %d messages, up to position %d", len(got), o.position)
	}
}

// Consensus hands each record to the machine that wrote it, and its own log has those of both.
func TestRecordsOfConsensus(t *testing.T) {
	cfg := fastct.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Retry: 1000, Lambda: 10}
	mine := asynclease.Request{Node: 1, Life: 1, Seq: 1}
	other := asynclease.Request{Node: 2, Life: 1, Seq: 1}
	log := []any{
		fastct.Identity{Node: 1, Members: cfg.Members}, asynclease.Identity{Node: 1, Members: cfg.Members},
		asynclease.Permitted{Request: mine, Interval: asynclease.Interval{First: 11, Last: 20}},
		asynclease.Cut{Request: mine, From: 15}, fastct.Settled{CN: 6, Value: []byte("v")},
		asynclease.Permitted{Request: other, Interval: asynclease.Interval{First: 3, Last: 4}},
		asynclease.Floor{Below: 5}, fastct.Gone{Below: 5}, fastct.Entered{CN: 7, Round: 5},
	}
	c, err := NewConsensus(cfg, 2, log)
	if err != nil {
		t.Fatal(err)
	}
	want := []any{
		fastct.Identity{Node: 1, Members: cfg.Members}, fastct.Gone{Below: 5}, fastct.Settled{CN: 6, Value: []byte("v")}, fastct.Entered{CN: 7, Round: 5},
		asynclease.Identity{Node: 1, Members: cfg.Members}, asynclease.Floor{Below: 5},
		asynclease.Permitted{Request: mine, Interval: asynclease.Interval{First: 11, Last: 14}},
	}
	if got := c.Records(); !reflect.DeepEqual(got, want) {
		t.Errorf("the new log is\n%+v, want\n%+v", got, want)
	}
	c.Step(machine.Now{}, fastct.Trim{Below: 12})
	want = []any{
		fastct.Identity{Node: 1, Members: cfg.Members}, fastct.Gone{Below: 12}, asynclease.Identity{Node: 1, Members: cfg.Members}, asynclease.Floor{Below: 12},
		asynclease.Permitted{Request: mine, Interval: asynclease.Interval{First: 11, Last: 14}},
	}
	if got := c.Records(); !reflect.DeepEqual(got, want) {
		t.Errorf("behind a Trim the new log is\n%+v, want\n%+v", got, want)
	}
}

// A new log begins with the identities of consensus and of leases, before the first step; in crash-stop mode there is none.
func TestANewLogOfConsensus(t *testing.T) {
	cfg := fastct.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Retry: 1000, Lambda: 10}
	lease, fast := asynclease.Identity{Node: 1, Members: cfg.Members}, fastct.Identity{Node: 1, Members: cfg.Members}
	plain, volatile := cfg, cfg
	plain.Plain, volatile.Volatile = true, true
	for _, c := range []struct {
		name string
		cfg  fastct.Config
		want []any
	}{
		{"with leases", cfg, []any{fast, lease}},
		{"without leases", plain, []any{fastct.Identity{Node: 1, Members: cfg.Members, Plain: true}}},
		{"in crash-stop mode", volatile, nil},
	} {
		m, err := NewConsensus(c.cfg, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []any
		for _, p := range m.Ready().Persists {
			got = append(got, p.Record)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s the log begins with %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A request for a lease that nobody answers is repeated, and consensus wakes for it; leases
// are counted, and refusals among them.
func TestLeasesOfConsensus(t *testing.T) {
	cfg := fastct.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Retry: 1000, Lambda: 10}
	c, err := NewConsensus(cfg, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	asked := func() (n int) {
		rd := c.Ready()
		for _, e := range rd.Sends {
			if _, ok := e.Body.(asynclease.Lease); ok {
				n++
			}
		}
		for now, more := rd.Alarm, rd.Persists; len(more) > 0; more = nil {
			for _, p := range more {
				for _, e := range p.Then {
					if e.To == 1 {
						c.Receive(machine.Now{Mono: now - 1000}, e)
					}
				}
			}
		}
		return n
	}
	c.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("v")})
	if got := asked(); got != 2 || c.Leases != 1 || c.Refused != 0 {
		t.Errorf("%d members are asked for a lease, which is counted as %d with %d refused; want 2, 1 and 0", got, c.Leases, c.Refused)
	}
	c.Step(machine.Now{}, fastct.Learn{CN: 1, Value: []byte("v")}) // nothing else is to be repeated
	if rd := c.Ready(); rd.Alarm != 1000 {
		t.Errorf("it wakes at %d, want a Retry after it asked, at 1000", rd.Alarm)
	}
	c.Wake(machine.Now{Mono: 1000})
	if got := asked(); got != 2 {
		t.Errorf("%d members are asked again, want 2", got)
	}
	c.Receive(machine.Now{Mono: 1000}, machine.Envelope{From: 2, To: 1, Body: asynclease.Nack{Request: asynclease.Request{Node: 1, Life: 1, Seq: 1}, Until: 3}})
	if c.Leases != 1 || c.Refused != 1 {
		t.Errorf("%d leases, %d of them refused; want 1 and 1", c.Leases, c.Refused)
	}
}

// A refusal tells up to where another has the lease. No other is asked for up to there, and the next one is from behind it.
func TestARefusalTellsHowFar(t *testing.T) {
	const until = 5
	for cn, want := range map[uint64]uint64{2: 1, until: 1, until + 1: 2} {
		cfg := fastct.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Retry: 1000, Lambda: 10, Volatile: true}
		c, err := NewConsensus(cfg, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("v")})
		c.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: asynclease.Nack{Request: asynclease.Request{Node: 1, Life: 1, Seq: 1}, Until: until}})
		if c.Refused != 1 {
			t.Fatalf("%d leases are refused, want 1", c.Refused)
		}
		c.Step(machine.Now{}, fastct.Propose{CN: cn, Value: []byte("w")})
		if c.Leases != want {
			t.Errorf("another has the lease up to %d, and for instance %d the leases that are asked for are %d in all, want %d", until, cn, c.Leases, want)
		}
	}
}

// A lease that consensus gives back goes back to the other members.
func TestALeaseGoesBack(t *testing.T) {
	cfg := fastct.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Retry: 1000, Lambda: 10, Volatile: true, Fixed: true}
	c, err := NewConsensus(cfg, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Step(machine.Now{}, fastct.Propose{CN: 1, Value: []byte("v")})
	c.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: asynclease.Ack{Request: asynclease.Request{Node: 1, Life: 1, Seq: 1}}})
	c.Ready()
	c.Receive(machine.Now{}, machine.Envelope{From: 2, To: 1, Body: fastct.Counts{Counts: []uint64{5, 0, 0}}})
	var got []machine.Envelope
	for _, e := range c.Ready().Sends {
		if _, ok := e.Body.(asynclease.Give); ok {
			got = append(got, e)
		}
	}
	give := asynclease.Give{Request: asynclease.Request{Node: 1, Life: 1, Seq: 1}, From: 2}
	want := []machine.Envelope{{From: 1, To: 2, Body: give}, {From: 1, To: 3, Body: give}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("another one leads, and of the lease %+v goes back, want %+v", got, want)
	}
}

// In crash-stop mode nothing is written, by consensus or leases either.
func TestVolatile(t *testing.T) {
	cfg := three(1)
	cfg.Consensus.Volatile = true
	a := start(t, cfg)
	a.broadcast(of(1, 1))
	a.hear(2, asynclease.Ack{Request: asynclease.Request{Node: 1, Life: 1, Seq: 1}})
	a.hear(2, fastct.Ack{CN: 1, Round: 0})
	a.want("ordered", a.told(), "1: 1.1")
	a.decide(2, change(1, 2, Change{Add: []Member{{ID: 4}}}))
	a.step(Trim{1})
	if len(a.log) > 0 {
		t.Errorf("a member that writes nothing has written %+v", a.log)
	}
	if began := a.m.present().Began; began != 3 {
		t.Errorf("it tells that it has begun epoch %d, want 3", began)
	}
}

// A lease that another member gives back is free for the next.
func TestALeaseComesBack(t *testing.T) {
	cfg := fastct.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Retry: 1000, Lambda: 10, Volatile: true, Fixed: true}
	c, err := NewConsensus(cfg, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Ready()
	hears := func(from machine.NodeID, body any) any {
		c.Receive(machine.Now{}, machine.Envelope{From: from, To: 1, Body: body})
		if sends := c.Ready().Sends; len(sends) > 0 {
			return sends[0].Body
		}
		return nil
	}
	of := func(node machine.NodeID, seq uint64) asynclease.Request {
		return asynclease.Request{Node: node, Life: 1, Seq: seq}
	}
	in := asynclease.Interval{First: 1, Last: 10}
	if got, want := hears(2, asynclease.Lease{Request: of(2, 1), Interval: in}), any(asynclease.Ack{Request: of(2, 1)}); got != want {
		t.Fatalf("member 2 asks and hears %+v, want %+v", got, want)
	}
	if got, refused := hears(3, asynclease.Lease{Request: of(3, 1), Interval: in}).(asynclease.Nack); !refused {
		t.Fatalf("member 3 asks for the same and hears %+v, want that it is refused", got)
	}
	hears(2, asynclease.Give{Request: of(2, 1), From: 1})
	if got, want := hears(3, asynclease.Lease{Request: of(3, 2), Interval: in}), any(asynclease.Ack{Request: of(3, 2)}); got != want {
		t.Errorf("member 2 has given its lease back, and member 3 hears %+v, want %+v", got, want)
	}
}
