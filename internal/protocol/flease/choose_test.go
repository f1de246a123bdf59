package flease

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A claim that is to be decided (Property L2) asks for promises whatever is there, and
// writes another's lease back as it was read. Then it is refused, or given up with nothing
// to take back: its WRITE is not its own.
func TestADecisionWordForWord(t *testing.T) {
	for _, released := range []bool{false, true} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		gone := Holding{Token: BallotOf(p.c-9, 0, 2), Until: p.c + 9000, Incarnation: 1, Slots: 1, Owner: 2, Released: true}
		lease := Holding{Token: BallotOf(p.c-5, 0, 3), Until: p.c + 5000, Holder: "h", Incarnation: 1, Slots: 1, Owner: 3}
		said, out := c.ask(1, Acquire{ID: 7, Name: "a", Try: true, Decide: true})
		k, ref := p.hlc.last, c.underWay(7)
		c.want("it asks", said, out, &Op{Kind: Read, Ref: ref, Ballot: k, Name: "a"})
		said, out = c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k, Written: lease.Token, Value: Value{gone, lease}, Waiting: 3})
		c.want("a majority has promised", said, out, &Op{Kind: Write, Ref: ref, Ballot: k, Name: "a", Value: Value{gone, lease}})
		if released {
			said, out = c.ask(1, Release{ID: 7})
			c.want("it is given up", said, out, nil, Released{ID: 7, Confirmed: true})
		} else {
			said, out = c.hear(1, 3, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k})
			c.want("a majority has written", said, out, nil, Refused{ID: 7, State: State{Name: "a", Holdings: Value{lease}}})
		}
		if s := p.Stats(); s.Claims != 0 || s.Attempts != 0 || p.busy != 0 || p.returns != 0 {
			t.Errorf("when it is decided there is left %+v", s)
		}
	}
	// If nobody holds, it acquires as any other does; only one that tries can be decided.
	c := newCluster(t, 3, nil)
	c.do(1, Acquire{ID: 7, Name: "a", Try: true, Decide: true})
	if got := last[Acquired](c, 1); got.ID != 7 {
		t.Errorf("a decision where nobody holds: claim %d acquires, want 7", got.ID)
	}
	c.do(2, Acquire{ID: 8, Name: "a", Decide: true})
	if got := last[Waits](c, 2); got.ID != 8 || has[Refused](c, 2) {
		t.Errorf("a decision that does not try: claim %d waits, want 8: %+v", got.ID, c.out[2])
	}
}

// A claim that waits goes on when an acceptor says that its turn may have come: for its ticket, under its name.
func TestWhomAHintIsFor(t *testing.T) {
	for name, tt := range map[string]struct {
		hint func(o *Op)
		goes bool
	}{
		"for it":                   {func(*Op) {}, true},
		"for another ticket":       {func(o *Op) { o.Ticket++ }, false},
		"for no ticket":            {func(o *Op) { o.Ticket = 0 }, false},
		"under a name of another":  {func(o *Op) { o.Name = "b" }, false},
		"under a name of nobody's": {func(o *Op) { o.Name = "c" }, false},
	} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		c.do(2, Acquire{ID: 1, Name: "a"})
		c.do(1, Acquire{ID: 7, Name: "a"})
		c.do(1, Acquire{ID: 8, Name: "b"})
		hint := Op{Kind: Learn, Name: "a", Ticket: p.claims[p.byID[7]].ticket}
		tt.hint(&hint)
		said, _ := c.hear(1, 3, 1, hint)
		if goes := len(said) > 0; goes != tt.goes || goes && said[2][0].Kind != Read {
			t.Errorf("a hint %s: it says %+v, want that it asks for the lease: %v", name, said, tt.goes)
		}
	}
}

// A look that finds room gives its turn back, and the claim tries. Nothing is left under way then.
func TestALookThatFindsRoom(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.do(2, Acquire{ID: 1, Name: "a"})
	c.do(1, Acquire{ID: 7, Name: "a"})
	c.cut = func(env machine.Envelope) bool { // nobody calls it
		for _, o := range env.Body.(*Batch).Ops {
			if o.Kind == Learn {
				return true
			}
		}
		return false
	}
	c.do(2, Release{ID: 1})
	p.lines = map[int32][]waiter{} // its own acceptor does not, either
	c.pass(3 * p.cfg.poll())
	if got := last[Acquired](c, 1); got.ID != 7 {
		t.Errorf("claim %d has acquired, want 7", got.ID)
	}
	if s := p.Stats(); s.Attempts != 0 || p.looks != 0 || p.busy != 0 {
		t.Errorf("nothing is under way, and there are %d attempts, of which %d look and %d are to acquire", s.Attempts, p.looks, p.busy)
	}
}

// A claim that waits is told each time that another one holds, and when nobody does and an heir comes first.
func TestWhoWaitsIsToldForWhom(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	told := func() (tokens []string) {
		for _, out := range c.out[1] {
			if w, ok := out.(Waits); ok && w.Err == nil {
				owners := []uint16{}
				for _, h := range w.State.Holdings {
					owners = append(owners, h.Owner)
				}
				tokens = append(tokens, fmt.Sprintf("%d %d %s", w.ID, owners, w.State.Name))
			}
		}
		c.out[1] = nil
		return tokens
	}
	want := func(when string, with ...string) {
		t.Helper()
		if got := told(); !reflect.DeepEqual(got, with) {
			t.Errorf("%s it is told that it waits for %q, want %q", when, got, with)
		}
	}
	c.do(2, Acquire{ID: 1, Name: "a", TTL: 5 * time.Second})
	c.do(3, Acquire{ID: 2, Name: "a", TTL: 5 * time.Second})
	c.do(1, Acquire{ID: 7, Name: "a"})
	want("while 2 holds", "7 [2] a")
	c.do(2, Release{ID: 1})
	if !has[Acquired](c, 3) {
		t.Fatal("the first in the line does not hold")
	}
	c.pass(2 * p.cfg.poll())
	want("when 3 holds", "7 [3] a")
	c.pass(2 * p.cfg.poll())
	want("when 3 goes on holding")
	c.do(2, Acquire{ID: 3, Name: "a"})
	c.cut = func(env machine.Envelope) bool { return env.To == 2 } // the heir does not hear of it
	c.do(3, Handover{ID: 2, To: 2})
	c.pass(p.cfg.RoundTimeout)
	want("when 2 comes first, and nobody holds", "7 [] a")
}

// A renewal whose answers come when its lease is over, by the synchronized clock, extends nothing.
func TestAnswersToARenewalThatIsOver(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.do(1, Acquire{ID: 7, Name: "a", TTL: 2 * time.Second})
	var said map[machine.NodeID][]Op
	for said == nil {
		c.later(time.Millisecond)
		said, _ = c.ask(1, labstage.Wake{})
	}
	k, ref := p.hlc.last, c.underWay(7)
	claim := &p.claims[p.byID[7]]
	claim.until = p.c // as if that clock had gone faster
	mine := p.cells[p.names["a"]].value
	said, out := c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k, Written: claim.token, Value: mine})
	c.want("the renewal is promised when its lease is over", said, out, nil, Lost{ID: 7, Why: "it was not renewed in time"})
}

// A claim that is given up while its peer is silent takes back its place in the line later, or never: a silent
// peer sends nothing.
func TestGivenUpWhileSilent(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.do(2, Acquire{ID: 1, Name: "a"})
	c.do(1, Acquire{ID: 7, Name: "a"})
	if said, _ := c.ask(1, ClockFault{Why: "a test"}); said != nil || !p.silent() {
		t.Fatalf("a peer whose clock is wrong says %+v", said)
	}
	claim := p.claims[p.byID[7]]
	if !claim.lined {
		t.Fatal("the claim does not wait in the line")
	}
	said, out := c.ask(1, Release{ID: 7})
	c.want("a claim is given up", said, out, nil, Released{ID: 7, Confirmed: true})
}

// A peer traces its operations on registers, with the values read and written. A look is no operation.
func TestWhatIsTraced(t *testing.T) {
	var events []Event
	c := newCluster(t, 3, func(cfg *Config) {
		if cfg.Self == 1 {
			cfg.Trace = func(e Event) { events = append(events, e) }
		}
	})
	p := c.peers[1]
	c.do(1, Acquire{ID: 7, Name: "a", Holder: "h"})
	k := p.hlc.last
	mine := Value{{Token: k, Until: p.c + 10_000, Holder: "h", Incarnation: 1, Slots: 1, Owner: 1}}
	want := []Event{
		{Kind: ReadInvoke, Name: "a", Ballot: k}, {Kind: ReadCommit, Name: "a", Ballot: k},
		{Kind: WriteInvoke, Name: "a", Ballot: k, Value: mine}, {Kind: WriteCommit, Name: "a", Ballot: k, Value: mine},
	}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("a claim is traced as %+v, want %+v", events, want)
	}
	events = nil
	c.do(1, Observe{ID: 8, Name: "a"})
	if got := last[Observed](c, 1); len(got.State.Holdings) != 1 || len(events) > 0 {
		t.Errorf("a look shows %+v and is traced as %+v", got, events)
	}
	c.do(1, Release{ID: 7})
	c.do(2, Acquire{ID: 9, Name: "a"})
	events = nil
	c.do(1, Acquire{ID: 10, Name: "a", Try: true, Decide: true})
	theirs := c.peers[2].cells[c.peers[2].names["a"]]
	from := Ballot(theirs.value[0].Token)
	k = p.hlc.last
	want = []Event{
		{Kind: ReadInvoke, Name: "a", Ballot: k}, {Kind: ReadCommit, Name: "a", Ballot: k, From: from, Value: theirs.value},
		{Kind: WriteInvoke, Name: "a", Ballot: k, Value: theirs.value}, {Kind: WriteCommit, Name: "a", Ballot: k, Value: theirs.value},
	}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("a decision is traced as %+v, want %+v", events, want)
	}
}
