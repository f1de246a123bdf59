package flease

import (
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A claim may be given up at each of its stages. A lease that it may have written is released under the same ballot, and at once,
// except during the read of a renewal: the renewal goes on, and writes the release (F-4). A second Release does nothing.
func TestGivenUpAtEachStage(t *testing.T) {
	const ttl = 2 * time.Second
	for name, stage := range map[string]int{"reads": 0, "writes": 1, "holds": 2, "reads to renew": 3, "writes to renew": 4} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		c.ask(1, Acquire{ID: 7, Name: "a", TTL: ttl})
		ref, k := c.underWay(7), p.hlc.last
		until := p.c + 2000
		token := k
		if stage > 0 {
			c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k})
		}
		if stage > 1 {
			c.hear(1, 2, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k})
		}
		if stage > 2 {
			for p.renewals == 0 {
				c.later(time.Millisecond)
				c.ask(1, labstage.Wake{})
			}
			ref, k = c.underWay(7), p.hlc.last
		}
		held := Holding{Token: token, Until: until, Incarnation: 1, Slots: 1, Owner: 1}
		if stage > 3 {
			until = p.attempts[p.claims[p.byID[7]].att].exp
			c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k, Written: token, Value: Value{held}})
			held.Until = until
		}
		back := held
		back.Released = true

		said, out := c.ask(1, Release{ID: 7})
		if stage == 0 {
			c.want("a claim that reads is given up", said, out, nil, Released{ID: 7, Confirmed: true})
			if said, out = c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k}); said != nil || out != nil || p.busy != 0 {
				t.Errorf("a claim that was given up is promised, and its peer says %+v and reports %+v", said, out)
			}
			continue
		}
		if stage == 3 {
			c.want("a lease is given up whose renewal reads", said, out, nil)
			said, out = c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k, Written: token, Value: Value{held}})
		}
		before := ref
		ref = c.underWay(7)
		if same := ref == before; same != (stage == 3) {
			t.Errorf("a claim that %s is given up in the same attempt: %v", name, same)
		}
		c.want("a claim that "+name+" is given up", said, out, &Op{Kind: Write, Ref: ref, Ballot: k, Name: "a", Value: Value{back}})
		said, out = c.ask(1, Handover{ID: 7, To: 3})
		c.want("a claim that "+name+" is given up again", said, out, nil)
		if stage != 3 {
			said, out = c.hear(1, 2, 1, Op{Kind: AckWrite, Ref: before, Ballot: k})
			c.want("a claim that "+name+" is given up, and what it did before is answered", said, out, nil)
		}
		said, out = c.hear(1, 3, 1, Op{Kind: AckWrite, Ref: ref, Ballot: k})
		c.want("a claim that "+name+" is given up, and that is written", said, out, nil, Released{ID: 7, Confirmed: true})
		if p.busy != 0 || p.renewals != 0 || p.looks != 0 || p.returns != 0 || p.Stats().Claims != 0 {
			t.Errorf("a claim that %s is given up: %d to acquire, %d to renew, %d to look and %d to release are counted", name, p.busy, p.renewals, p.looks, p.returns)
		}
	}
}

// Of two claims of one peer that share a resource the one that is given up takes back its own holding alone.
func TestGivenUpBesideAnotherOfTheSamePeer(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	for id := uint64(7); id <= 8; id++ {
		c.do(1, Acquire{ID: id, Name: "a", Slots: Shared})
	}
	value := p.claims[p.byID[8]].value
	said, _ := c.ask(1, Release{ID: 8})
	if len(value) != 2 || len(said[2]) != 1 || len(said[2][0].Value) != 2 {
		t.Fatalf("two share the resource, and when one is given up the peer says %+v", said)
	}
	for j, h := range said[2][0].Value {
		if h.Released != (h.Token == p.claims[p.byID[8]].token) {
			t.Errorf("claim 8 is given up, and of holding %d, of %v, it is said that this is released: %v", j, h.Token, h.Released)
		}
		if value[j].Released {
			t.Error("the value that was written before is changed")
		}
	}
}

// A waiter that had its turn, and is given up while it writes, leaves the line at once, and not only when its release is
// written: others may go first. The release is tried again as soon as any first try.
func TestGivenUpByAWaiter(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.ask(1, Acquire{ID: 7, Name: "a"})
	ref, k := c.underWay(7), p.hlc.last
	c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k})
	x := &p.claims[p.byID[7]]
	x.lined, x.tries = true, 6 // it has waited, and was refused again and again since
	said, _ := c.ask(1, Release{ID: 7})
	for to := machine.NodeID(2); to <= 3; to++ {
		if !slices.ContainsFunc(said[to], func(o Op) bool { return o.Kind == Quit && o.Name == "a" && o.Ticket == x.ticket }) {
			t.Errorf("a waiter is given up while it writes, and peer %d is not told that it leaves the line: %+v", to, said[to])
		}
	}
	if x.phase != releasing || x.tries != 0 {
		t.Errorf("a claim in phase %d that was tried %d times before is given up; want one that releases, and was not tried for that", x.phase, x.tries)
	}
}
