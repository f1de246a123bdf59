package flease

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// shown is the line that an acceptor tells of: by ticket, and how many there are.
func (c *cluster) shown(name string) ([]Waiter, uint32) {
	c.t.Helper()
	said, _ := c.hear(1, 2, 1, Op{Kind: Peek, Name: name, Ballot: BallotOf(c.peers[1].c, 1, 2)})
	if len(said[2]) != 1 || said[2][0].Kind != Peeked {
		c.t.Fatalf("a look is answered by %+v", said)
	}
	return said[2][0].Queue, said[2][0].Waiting
}

// A waiter is remembered in the order of tickets, for three polls after it was last heard of, and
// until it leaves or its claim is written.
func TestWhoIsInTheLine(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	poll := p.cfg.poll()
	ticket := func(n uint16, of machine.NodeID) Ballot { return BallotOf(p.c, n, of) }
	first, second, third := ticket(1, 3), ticket(2, 2), ticket(3, 2)
	waits := func(tk Ballot, slots int32) {
		from := tk.Member()
		c.hear(1, from, 1, Op{Kind: Peek, Name: "a", Ballot: BallotOf(p.c, 9, from), Ticket: tk, Slots: slots})
	}
	want := func(when string, line ...Waiter) {
		t.Helper()
		if got, n := c.shown("a"); !reflect.DeepEqual(got, line) || int(n) != len(line) {
			t.Errorf("%s there wait %+v, and %d are told; want %+v", when, got, n, line)
		}
	}
	waits(third, 1)
	waits(first, 5)
	waits(second, Shared)
	whole := []Waiter{{first, 5}, {second, Shared}, {third, 1}}
	want("in the order of their tickets", whole...)
	waits(third, 1)
	want("when the last is heard of again", whole...)
	c.hear(1, 2, 1, Op{Kind: Peek, Name: "a", Ballot: BallotOf(p.c, 9, 2), Ticket: ticket(0, 3), Slots: 1},
		Op{Kind: Peek, Name: "a", Ballot: BallotOf(p.c, 9, 2), Ticket: ticket(0, 2)}, Op{Kind: Peek, Name: "a", Ballot: BallotOf(p.c, 9, 2), Slots: 1})
	want("beside those with another's ticket, with none, and for no slot", whole...)
	pass := func(d time.Duration) {
		c.later(d)
		c.ask(1, labstage.Wake{})
	}
	pass(poll)
	waits(second, Shared)
	pass(2 * poll)
	want("three polls later", whole...)
	pass(1)
	want("a moment later, but for a waiter that was heard of since", Waiter{second, Shared})
	pass(poll - 1)
	want("three polls after that", Waiter{second, Shared})
	pass(1)
	want("a moment later")
	waits(first, 1)
	waits(second, 1)
	waits(third, 1)
	c.hear(1, 3, 1, Op{Kind: Quit, Name: "a", Ticket: second})
	want("when the second has left", Waiter{first, 1}, Waiter{third, 1})
	c.hear(1, 3, 1, Op{Kind: Write, Name: "a", Ballot: BallotOf(p.c, 1, 3), Ticket: first})
	want("when the first has written", Waiter{third, 1})
	for i := range maxLine + 5 {
		waits(ticket(uint16(100+i), 2), 1)
	}
	line, n := c.shown("a")
	if len(line) != maxQueue || n != maxLine || line[0].Ticket != third || line[maxQueue-1].Ticket != ticket(100+maxQueue-2, 2) {
		t.Errorf("of many that wait %d are shown, the first %v and the last %v, and %d are told", len(line), line[0], line[len(line)-1], n)
	}
}

// Waiters are called when their turn has come, once for each value, in the order of the line and as far
// as they fit beside the holders.
func TestWhoIsCalled(t *testing.T) {
	for name, tt := range map[string]struct {
		line  []int32 // slots of those who wait: 1 and 3 at peer 2, 2 and 4 at peer 3
		value func(p *Peer) Value
		quits int   // the waiter that leaves in the place of a write
		want  []int // the waiters that are called
		later []int // and when the last of those has left
	}{
		"released, one waits":             {[]int32{1}, func(p *Peer) Value { return Value{{Until: p.c + 99, Slots: 1, Released: true}} }, 0, []int{1}, nil},
		"released, and two wait":          {[]int32{1, 1}, func(p *Peer) Value { return Value{{Until: p.c + 99, Slots: 1, Released: true}} }, 0, []int{1}, []int{2}},
		"over at all clocks":              {[]int32{1, 1}, func(p *Peer) Value { return Value{{Until: p.c - p.eps, Slots: 1}} }, 0, []int{1}, []int{2}},
		"not over at the slowest":         {[]int32{1, 1}, func(p *Peer) Value { return Value{{Until: p.c - p.eps + 1, Slots: 1}} }, 0, nil, nil},
		"many may share it":               {[]int32{Shared, Shared, 1, Shared}, func(p *Peer) Value { return nil }, 0, []int{1, 2}, nil},
		"two may share it":                {[]int32{2, Shared, Shared}, func(p *Peer) Value { return nil }, 0, []int{1, 2}, []int{3}},
		"one beside the holder":           {[]int32{2, 2}, func(p *Peer) Value { return Value{{Until: p.c + 99, Slots: 2}} }, 0, []int{1}, []int{2}},
		"the holder has room for one":     {[]int32{2, 2}, func(p *Peer) Value { return Value{{Until: p.c + 99, Slots: 1}} }, 0, nil, nil},
		"an exclusive one keeps others":   {[]int32{1, Shared}, func(p *Peer) Value { return Value{{Until: p.c + 99, Slots: Shared}} }, 0, nil, nil},
		"an heir is called before others": {[]int32{1, 1}, func(p *Peer) Value { return Value{{Until: p.c + 99, Slots: 1, Released: true, Heir: 3}} }, 0, []int{2}, nil},
		"an heir that has not come":       {[]int32{1, 1}, func(p *Peer) Value { return Value{{Until: p.c, Slots: 1, Released: true, Heir: 3}} }, 0, []int{1}, []int{2}},
		"the first leaves, nobody holds":  {[]int32{1, 1}, nil, 1, []int{2}, nil},
		"the first leaves, and two share": {[]int32{1, 2, 2}, nil, 1, []int{2, 3}, nil},
		"the second leaves, nobody minds": {[]int32{1, 1}, nil, 2, []int{1}, nil},
		"somebody holds it":               {[]int32{1, 1}, func(p *Peer) Value { return Value{{Until: p.c + 99, Slots: 1}} }, 0, nil, nil},
	} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		ticket := func(n int) Ballot { return BallotOf(p.c, uint16(n), machine.NodeID(2+(n+1)%2)) }
		for i, slots := range tt.line {
			from := ticket(i + 1).Member()
			c.hear(1, from, 1, Op{Kind: Peek, Name: "a", Ballot: BallotOf(p.c, 9, from), Ticket: ticket(i + 1), Slots: slots})
		}
		written := BallotOf(p.c, 50, 2)
		var value Value
		if tt.value != nil {
			value = tt.value(p)
			for i := range value {
				value[i].Owner, value[i].Incarnation, value[i].Token = 2, 1, written
			}
		}
		ask := Op{Kind: Write, Name: "a", Ballot: written, Value: value}
		if tt.quits > 0 {
			ask, written = Op{Kind: Quit, Name: "a", Ticket: ticket(tt.quits)}, 0
		}
		check := func(when string, said map[machine.NodeID][]Op, who []int) {
			t.Helper()
			want := map[machine.NodeID][]Op{}
			for _, n := range who {
				to := ticket(n).Member()
				want[to] = append(want[to], Op{Kind: Learn, Name: "a", Written: written, Value: value, Ticket: ticket(n)})
			}
			got := map[machine.NodeID][]Op{}
			for to, ops := range said {
				for _, o := range ops {
					if o.Kind == Learn {
						got[to] = append(got[to], o)
					}
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s%s, there are called %v, want %v", name, when, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
			}
		}
		said, _ := c.hear(1, 2, 1, ask)
		check("", said, tt.want)
		if tt.quits > 0 {
			continue // while nothing is written they are called with each that leaves
		}
		said, _ = c.hear(1, 2, 1, ask)
		check(" and the same is written again", said, nil)
		if tt.later != nil {
			last := tt.want[len(tt.want)-1]
			said, _ = c.hear(1, 2, 1, Op{Kind: Quit, Name: "a", Ticket: ticket(last)})
			check(" and the last of them has left", said, tt.later)
		}
	}
}

// A claim that writes is in the line no more, and is not called itself. A waiter that was
// called for a WRITE is not called for it again, despite any promise since.
func TestNobodyIsCalledTwice(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	waits := func(n uint16, from machine.NodeID) Ballot {
		tk := BallotOf(p.c, n, from)
		c.hear(1, from, 1, Op{Kind: Peek, Name: "a", Ballot: BallotOf(p.c, 90, from), Ticket: tk, Slots: Shared})
		return tk
	}
	called := func(said map[machine.NodeID][]Op) (who []Ballot) {
		for _, to := range []machine.NodeID{2, 3} {
			for _, o := range said[to] {
				if o.Kind == Learn {
					who = append(who, o.Ticket)
				}
			}
		}
		return who
	}
	first, second := waits(1, 2), waits(2, 3)
	third, fourth := waits(3, 3), waits(4, 2)
	k := BallotOf(p.c, 50, 2)
	write := Op{Kind: Write, Name: "a", Ballot: k, Ticket: first, Value: Value{{Token: k, Until: p.c + 5000, Slots: Shared, Owner: 2, Incarnation: 1}}}
	said, _ := c.hear(1, 2, 1, write)
	if got := called(said); !reflect.DeepEqual(got, []Ballot{fourth, second, third}) {
		t.Errorf("when the first writes there are called %v, want the other three", got)
	}
	write.Ballot, write.Ticket = BallotOf(p.c, 60, 2), 0
	write.Value = Value{{Token: k, Until: p.c + 5000, Slots: 1, Owner: 2, Incarnation: 1}}
	if said, _ = c.hear(1, 2, 1, write); len(called(said)) > 0 {
		t.Errorf("beside an exclusive lease there are called %v", called(said))
	}
	c.hear(1, 3, 1, Op{Kind: Read, Name: "a", Ballot: BallotOf(p.c, 70, 3)})
	write.Value = Value{write.Value[0]}
	write.Value[0].Released = true
	said, _ = c.hear(1, 2, 1, write)
	if got := called(said); !reflect.DeepEqual(got, []Ballot{fourth, second, third}) {
		t.Errorf("when it is released there are called %v, want three", got)
	}
	if said, _ = c.hear(1, 3, 1, Op{Kind: Quit, Name: "a", Ticket: second}); len(called(said)) > 0 {
		t.Errorf("when one of them leaves there are called %v again", called(said))
	}
}

// A claim that is called while it looks gives the look up, and tries at once. A call for another's ticket, or none, is none.
func TestCalledWhileItLooks(t *testing.T) {
	for name, tt := range map[string]struct {
		ticket func(own Ballot) Ballot
		tries  bool
	}{
		"its own":      {func(own Ballot) Ballot { return own }, true},
		"another's":    {func(own Ballot) Ballot { return own + 1 }, false},
		"of no waiter": {func(Ballot) Ballot { return 0 }, false},
	} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		c.do(2, Acquire{ID: 1, Name: "a"})
		c.do(1, Acquire{ID: 7, Name: "a"})
		x := &p.claims[p.byID[7]]
		p.look(p.byID[7])
		if p.looks != 1 || x.phase != waiting || x.att < 0 {
			t.Fatalf("it does not look: %+v", *x)
		}
		p.Ready()
		said, _ := c.hear(1, 2, 1, Op{Kind: Learn, Name: "a", Ticket: tt.ticket(x.ticket)})
		tries := len(said[2]) == 1 && said[2][0].Kind == Read
		if tries != tt.tries || tries && (x.phase != trying || p.looks != 0 || p.busy != 1) || !tries && (x.phase != waiting || p.looks != 1 || p.busy != 0) {
			t.Errorf("with %s ticket it is called, and says %+v; %d looks and %d attempts are under way for %+v", name, said, p.looks, p.busy, *x)
		}
		if n := p.Stats().Attempts; n != 1 {
			t.Errorf("with %s ticket it is called, and %d attempts are under way", name, n)
		}
	}
}
