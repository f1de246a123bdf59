package abcast

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// memberAfter is a member that has delivered n messages, each of an instance of its own.
func memberAfter(t *testing.T, cfg Config, n uint64) *member {
	t.Helper()
	a := start(t, cfg)
	for cn := uint64(1); cn <= n; cn++ {
		a.decide(cn, of(1, cn))
	}
	if a.m.Position() != n || a.m.Instance() != n {
		t.Fatalf("it is at position %d and instance %d, want %d", a.m.Position(), a.m.Instance(), n)
	}
	a.sent()
	a.told()
	return a
}

// state is another member's, of an instance and a position, and of its owner's.
func state(g Group, instance, position, owner uint64) Base {
	return Base{Order: State{Instance: instance, Position: position, Digest: 7, Group: g, Clients: 3}, Position: owner}
}

// A member that asks is told the decisions from there on, and the state under them if it asks
// for one that is forgotten, or for all. The state is not sent again while it may be on its way.
func TestWhoAsksIsTold(t *testing.T) {
	a := memberAfter(t, three(2), 4)
	ask := func(name string, from machine.NodeID, cn uint64, want string) {
		t.Helper()
		a.hear(from, Fetch{cn})
		a.want(name, a.sent(), want)
	}
	ask("from the first on", 1, 1, "4 decisions from 1 on to 1")
	ask("the last", 1, 4, "1 decisions from 4 on to 1")
	ask("what is not decided", 1, 5, "")
	ask("far more than there is", 1, 500, "")
	ask("all, of one that is new", 9, 0, "state 0/0 to 9, 4 decisions from 1 on to 9")
	a.step(Trim{Position: 2})
	ask("the first that is kept", 1, 3, "2 decisions from 3 on to 1")
	ask("the last that is forgotten", 1, 2, "state 2/2 to 1")
	ask("the same again", 1, 1, "")
	ask("a decision meanwhile", 1, 4, "1 decisions from 4 on to 1")
	ask("the same of another", 3, 1, "state 2/2 to 3")
	ask("all, of one that is new, behind a Trim", 9, 0, "state 2/2 to 9, 2 decisions from 3 on to 9")
	a.now.Mono = a.now.Mono.Add(4 * time.Second)
	ask("the same when a Relay has passed", 1, 2, "state 2/2 to 1")

	joins := three(9)
	joins.Join = true
	a = start(t, joins)
	ask("one that knows nothing itself", 1, 0, "")
	ask("one that knows nothing itself, for a decision", 1, 1, "")
}

// An answer has at most 64 decisions, and ends with the first that makes it a megabyte.
func TestHowMuchOneIsTold(t *testing.T) {
	for size, want := range map[int]int{1: fetchCount, 1 << 19: 2, 1<<19 - 1: 3, 2 << 20: 1} {
		a := start(t, three(2))
		for range 100 {
			a.m.keep(make([]byte, size))
		}
		a.hear(1, Fetch{1})
		var got int
		for _, e := range a.sends {
			if d, ok := e.Body.(Decisions); ok {
				got = len(d.Values)
			}
		}
		if got != want {
			t.Errorf("of 100 decisions of %d bytes an answer has %d, want %d", size, got, want)
		}
	}
}

// A full answer is followed by the next question at once, if there was anything new in it.
func TestAFullAnswer(t *testing.T) {
	full := Decisions{From: 1, Values: make([][]byte, fetchCount)}
	a := start(t, three(2))
	a.hear(1, Status{Delivered: 100})
	a.want("behind", a.sent(), "fetch 1 of 1")
	a.hear(1, full)
	if got := a.sent(); !strings.Contains(got, "fetch 65 of 1") {
		t.Errorf("a full answer is not followed by a question: %q", got)
	}
	a.now.Mono = a.now.Mono.Add(time.Minute)
	a.hear(1, full)
	a.want("a full answer in which nothing is new", a.sent(), "")
	a.hear(1, Decisions{From: 65, Values: make([][]byte, 3)})
	a.want("the rest", a.sent(), "")
}

// One that knows of no group, and one that was removed, apply no decisions. A removed one asks
// for nothing, and goes on from no state.
func TestOutsideNothingIsApplied(t *testing.T) {
	decisions := Decisions{From: 1, Values: [][]byte{appendMessage(nil, of(1, 1))}}
	cfg := three(9)
	cfg.Join = true
	a := start(t, cfg)
	a.hear(1, Status{Delivered: 3})
	a.want("one that joins asks for all", a.sent(), "fetch 0 of 1")
	a.hear(1, decisions)
	a.want("one that joins is told decisions, and no state", a.told(), "")

	gone := Group{First: 1, Members: []Member{{ID: 1}, {ID: 3}}, Removed: []Member{{ID: 2}}}
	removed := func(of Group) *member {
		return start(t, three(2), Base{Order: State{Group: of, Clients: 3}})
	}
	a = removed(gone)
	a.hear(1, decisions, Status{Delivered: 3})
	a.want("a removed one that hears decisions", a.told(), "")
	a.want("a removed one that hears of more", a.sent(), "")
	a.hear(1, Transfer{state(gone, 5, 5, 5)})
	a.want("a removed one that is given a state", a.told(), "")
	a.m.lacks = &Base{Order: state(gone, 5, 5, 5).Order, Position: 5}
	a.step(Restored{5})
	a.want("a removed one whose owner got a state", a.told(), "")
	a.hear(9, Status{Delivered: 0})
	a.want("a removed one that a stranger speaks to", a.sent(), "")
}

// A member goes on from another's state once its owner has what led there, and then all that
// it does rests on that state.
func TestOnFromAState(t *testing.T) {
	a := memberAfter(t, three(2), 3)
	g := a.m.Group()
	a.hear(1, fastct.Decide{CN: 9, Value: appendMessage(nil, of(3, 1)), Whole: true})
	a.sent()
	a.hear(1, Transfer{state(g, 3, 3, 30)})
	a.want("a state of where it is", a.told(), "")
	a.hear(1, Transfer{state(g, 8, 20, 22)})
	a.want("a state with more", a.told(), "lacks 22")
	a.step(Restored{21})
	a.want("its owner has too little", a.told(), "")
	a.step(Restored{22})
	a.want("its owner has it; instance 9 is known, whose message is in what the owner has", a.told(), "installed 22")
	if a.m.Instance() != 9 || a.m.Position() != 22 || a.m.Base().Order.Instance != 8 {
		t.Errorf("it is at instance %d and position %d, on the state of instance %d; want 9, 22 and 8", a.m.Instance(), a.m.Position(), a.m.Base().Order.Instance)
	}
	if floor := a.m.Consensus().Floor(); floor != 9 {
		t.Errorf("consensus takes part from instance %d on, want 9", floor)
	}
	a.sent()
	a.hear(3, Fetch{9})
	a.want("a decision behind the state", a.sent(), "1 decisions from 9 on to 3")
	a.hear(3, Fetch{3})
	a.want("a decision that was passed over", a.sent(), "state 8/22 to 3")
	records := len(a.log)
	a.step(Restored{22})
	a.want("its owner says so again", a.told(), "")
	if len(a.log) != records || a.m.lacks != nil {
		t.Error("its owner says so again, and it goes on from the state again")
	}
	a.hear(1, Status{Delivered: 9, Position: 21, Digest: a.m.order.digest}, Status{Delivered: 8, Position: 20, Digest: 7}, Status{Delivered: 4, Position: 4, Digest: 99})
	a.want("others agree, or speak of what is not known here", a.told(), "")
	a.hear(3, Status{Delivered: 8, Position: 20, Digest: 8})
	a.want("another has another order up to the state", a.told(), "contradicted by 3 at 20, outvoted false")

	b := a.again()
	if b.m.Instance() != 9 || b.m.Position() != 22 {
		t.Errorf("after a restart it is at instance %d and position %d, want 9 and 22", b.m.Instance(), b.m.Position())
	}
}

// What its owner has is not undone by a state that has less, but more instances; and a state of
// an epoch that is over here is none to go on from.
func TestStatesThatHaveLess(t *testing.T) {
	a := memberAfter(t, three(2), 3)
	g := a.m.Group()
	a.hear(1, Transfer{state(g, 8, 20, 22)})
	a.step(Restored{30})
	a.told()
	a.hear(1, Transfer{state(g, 12, 25, 25)})
	if a.m.Instance() != 12 || a.m.Position() != 30 || a.m.Base().Position != 30 {
		t.Errorf("its owner has all up to 30, and with a state of position 25 and instance 12 it is at %d and %d", a.m.Position(), a.m.Instance())
	}
	a.want("and its owner hears nothing", a.told(), "")

	fifth := Group{First: 5, Members: []Member{{ID: 1}, {ID: 2}, {ID: 3}}}
	a = start(t, three(2), Base{Order: State{Instance: 4, Group: fifth, Clients: 3}}, Started{5})
	a.told()
	a.hear(1, Transfer{state(g, 9, 5, 5)})
	a.want("a state of epoch 1, in epoch 5", a.told(), "impossible from 1")
}

// A client's ID may be of any position that the owner has, though the order here is not that far yet.
func TestClientsOfWhatTheOwnerHas(t *testing.T) {
	a := memberAfter(t, three(2), 3)
	a.hear(1, Transfer{state(a.m.Group(), 8, 20, 20)})
	a.step(Restored{30})
	a.told()
	a.broadcast(Message{Client: NewClient(31, 1), Seq: 1, Payload: []byte("x")})
	a.want("a client of a position that the owner does not have", a.told(), "refused 1.1")
	a.broadcast(Message{Client: NewClient(30, 1), Seq: 1, Payload: []byte("x")})
	a.want("a client of the owner's position", a.told(), "")
}

// What was proposed to an instance that a state passes over is proposed again.
func TestProposedToWhatIsPassedOver(t *testing.T) {
	a := memberAfter(t, three(2), 3)
	a.broadcast(of(2, 1))
	a.hear(1, Transfer{state(a.m.Group(), 8, 20, 20)})
	a.step(Restored{20})
	if w := a.m.pending.get(of(2, 1).Client, 1); w == nil || w.in != 9 || a.m.pending.proposed != 1 {
		t.Errorf("a message that was proposed to instance 4 is %+v after a state of instance 8, want it proposed to 9", w)
	}
}

// A state that its decisions have caught up with is needed no more.
func TestCaughtUpWithAState(t *testing.T) {
	a := memberAfter(t, three(2), 3)
	a.hear(1, Transfer{state(a.m.Group(), 5, 5, 5)})
	a.want("a state with more", a.told(), "lacks 5")
	a.decide(4, of(1, 4))
	a.decide(5, of(1, 5))
	a.told()
	a.step(Restored{5})
	a.want("its owner got the state that the decisions led to", a.told(), "")
	if got := a.m.Base().Order.Instance; got != 0 {
		t.Errorf("the decisions up to instance %d are given up for a state that they led to", got)
	}
}

// What its owner has on disk is forgotten, and no more than that.
func TestTrims(t *testing.T) {
	a := memberAfter(t, three(2), 4)
	for _, c := range []struct{ position, instance uint64 }{{0, 0}, {5, 0}, {100, 0}, {2, 2}, {1, 2}, {2, 2}, {4, 4}} {
		a.step(Trim{c.position})
		b := a.m.Base()
		if b.Order.Instance != c.instance || b.Position != c.instance || b.Order.Position != c.instance {
			t.Errorf("trimmed to %d: decisions follow instance %d and position %d, want %d", c.position, b.Order.Instance, b.Position, c.instance)
		}
		if floor := a.m.Consensus().Floor(); floor != c.instance+1 && c.instance > 0 {
			t.Errorf("trimmed to %d: consensus keeps decisions from instance %d on, want %d", c.position, floor, c.instance+1)
		}
		if messages, ok := a.m.Messages(c.instance, 10); !ok || len(messages) != 4-int(c.instance) {
			t.Errorf("trimmed to %d: %d messages are kept (%v), want %d", c.position, len(messages), ok, 4-c.instance)
		}
		if b := a.again(); b.m.Base().Order.Instance != c.instance || b.m.Instance() != 4 {
			t.Errorf("trimmed to %d, and started again: decisions follow instance %d, up to %d; want %d and 4", c.position, b.m.Base().Order.Instance, b.m.Instance(), c.instance)
		}
	}
}

// Messages are those behind a position, so many of them, and looking at them changes nothing.
func TestMessagesOfABatch(t *testing.T) {
	a := start(t, three(2))
	a.decide(1, of(1, 1), of(1, 2), of(2, 1))
	a.decide(2, of(1, 3))
	for _, c := range []struct {
		after uint64
		n     int
		want  []uint64
	}{{0, 10, []uint64{1, 2, 3, 4}}, {0, 2, []uint64{1, 2}}, {1, 1, []uint64{2}}, {2, 10, []uint64{3, 4}}, {4, 10, nil}, {0, 0, nil}} {
		var got []uint64
		messages, ok := a.m.Messages(c.after, c.n)
		for _, d := range messages {
			got = append(got, d.Position)
		}
		if !ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d messages behind %d are those at %v (%v), want %v", c.n, c.after, got, ok, c.want)
		}
	}
	a.step(Trim{3})
	if _, ok := a.m.Messages(2, 1); ok {
		t.Error("the messages behind position 2 are there, though one was forgotten")
	}
	if _, ok := a.m.Messages(3, 1); !ok {
		t.Error("the messages behind position 3 are not there, and none was forgotten")
	}
}

// A member compares its order with those of others wherever it knows it: after a restart, at
// each position that its log has or that its state is of.
func TestOrdersAreComparedWhereTheyAreKnown(t *testing.T) {
	a := memberAfter(t, three(2), 4)
	a.step(Trim{2})
	digests := map[uint64]uint64{}
	messages, _ := a.m.Messages(2, 10)
	for _, d := range messages {
		digests[d.Position] = d.Digest
	}
	digests[2] = a.m.Base().Order.Digest
	for position := range uint64(5) {
		digest, known := digests[position]
		b := a.again()
		b.told()
		if known {
			b.hear(1, Status{Delivered: position, Position: position, Digest: digest})
			b.want("others agree", b.told(), "")
		}
		b.hear(1, Status{Delivered: position, Position: position, Digest: digest + 1})
		if got := b.told(); strings.Contains(got, "contradicted") != known {
			t.Errorf("after a restart another order at position %d is told as %q; known here: %v", position, got, known)
		}
	}
}

// What a member says of a position that is not delivered here yet is compared there, once.
func TestAContradictionAheadIsToldOnce(t *testing.T) {
	a := memberAfter(t, three(2), 1)
	a.hear(1, Status{Delivered: 2, Position: 2, Digest: 99})
	a.want("ahead", a.told(), "")
	a.hear(3, fastct.Decide{CN: 2, Value: appendMessage(nil, of(1, 2)), Whole: true})
	a.want("there", a.told(), "2: 1.2, contradicted by 1 at 2, outvoted false")
	for cn := uint64(3); cn < 6; cn++ {
		a.hear(3, fastct.Decide{CN: cn, Value: appendMessage(nil, of(1, cn)), Whole: true})
	}
	a.want("behind it", a.told(), "3: 1.3, 4: 1.4, 5: 1.5")
	a.hear(3, Status{Delivered: 5, Position: 5, Digest: 99})
	a.want("the other one contradicts, too", a.told(), "contradicted by 3 at 5, outvoted true")
}

// Half of the others are not more than half of them, and a member is none of the others.
func TestOutvotedByMoreThanHalf(t *testing.T) {
	for members, enough := range map[int]int{3: 2, 4: 2, 5: 3} {
		cfg := three(2)
		cfg.Consensus.Members = []machine.NodeID{1, 2, 3, 4, 5}[:members]
		a := memberAfter(t, cfg, 1)
		for i, from := range []machine.NodeID{1, 3, 4, 5}[:members-1] {
			a.hear(from, Status{Delivered: 1, Position: 1, Digest: 99})
			if got := a.told(); strings.Contains(got, "outvoted true") != (i+1 >= enough) || got == "" {
				t.Errorf("contradicted by %d of %d others: %q", i+1, members-1, got)
			}
		}
	}
}

// As many digests are known as are kept, and none of a position that another has taken the
// place of.
func TestDigestsThatAreKept(t *testing.T) {
	a := newAgreement()
	last := uint64(3 * digestsKept)
	for p := range last + 1 {
		a.note(p, p)
	}
	for _, c := range []struct {
		position uint64
		known    bool
	}{{last, true}, {last + 1, false}, {last - digestsKept + 1, true}, {last - digestsKept, false}, {0, false}} {
		if a.contradicts(Status{Position: c.position, Digest: c.position}) {
			t.Errorf("behind %d the digest at %d contradicts itself", last, c.position)
		}
		if got := a.contradicts(Status{Position: c.position, Digest: 1 << 60}); got != c.known {
			t.Errorf("behind %d the digest at %d is known: %v, want %v", last, c.position, got, c.known)
		}
	}
	a.note(last+10, 5) // of a state that was installed
	for p, known := range map[uint64]bool{last + 10: true, last + 9: false, last: false} {
		if got := a.contradicts(Status{Position: p, Digest: 1 << 60}); got != known {
			t.Errorf("with nothing known before %d the digest at %d is known: %v", last+10, p, got)
		}
	}
}

// A digest tells orders apart by all that they have in them, and is the same in each version.
func TestDigestsSeeEverything(t *testing.T) {
	m := Message{Client: NewClient(5, 6), Seq: 7, Payload: []byte("payload")}
	const want = 0xc3fc05a1a90bf5e3
	got := digest(1, m)
	if got != want {
		t.Errorf("the digest of a message is %#x, want %#x as in other versions", got, uint64(want))
	}
	seen := map[uint64]string{got: "as it is"}
	for name, other := range map[string]uint64{
		"another order before": digest(2, m),
		"another client":       digest(1, Message{NewClient(5, 7), 7, m.Payload, false}),
		"another number":       digest(1, Message{m.Client, 8, m.Payload, false}),
		"another payload":      digest(1, Message{m.Client, 7, []byte("payloae"), false}),
		"no payload":           digest(1, Message{m.Client, 7, nil, false}),
		"a change":             digest(1, Message{m.Client, 7, m.Payload, true}),
	} {
		if same, there := seen[other]; there {
			t.Errorf("%s and %s have one digest", name, same)
		}
		seen[other] = name
	}
}
