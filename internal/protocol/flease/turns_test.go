package flease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// asked are the names that a peer asks another one for, in their order.
func asked(said map[machine.NodeID][]Op) (names []string) {
	for _, o := range said[2] {
		if o.Kind == Read {
			names = append(names, o.Name)
		}
	}
	return names
}

// Claims have their turns in the order in which they came, each once, however many there were before. One that
// was given up has none, nor has the next in its place.
func TestTurnsAreInOrder(t *testing.T) {
	const most, all = 1100, 2000
	c := newCluster(t, 3, func(cfg *Config) { cfg.MaxAttempts = most })
	p := c.peers[1]
	var want []string
	for i := range uint64(all) {
		p.Step(c.now, Acquire{ID: i, Name: fmt.Sprint(i)})
		want = append(want, fmt.Sprint(i))
	}
	said, _ := c.ask(1, labstage.Wake{})
	got := asked(said)
	for _, next := range []uint64{all, all + 1} { // which has what is over left out of the list
		p.Step(c.now, Acquire{ID: next, Name: fmt.Sprint(next)})
		want = append(want, fmt.Sprint(next))
	}
	if s := p.Stats(); s.Queued != all+2-most || s.Attempts != most {
		t.Errorf("of %d claims %d wait for their turn, and %d attempts are under way; want %d and %d", all+2, s.Queued, s.Attempts, all+2-most, most)
	}
	p.Step(c.now, Release{ID: 1500})
	want = slices.DeleteFunc(want, func(name string) bool { return name == "1500" })
	p.Step(c.now, Acquire{ID: 3000, Name: "the last"}) // in its place
	want = append(want, "the last")
	p.busy = 0 // as if all had come to an end
	said, _ = c.ask(1, labstage.Wake{})
	if got = append(got, asked(said)...); !slices.Equal(got, want) {
		t.Errorf("%d claims have turns, want %d in their order; the last ones are %q, want %q", len(got), len(want), got[max(0, len(got)-3):], want[len(want)-3:])
	}
	if s := p.Stats(); s.Queued != 0 {
		t.Errorf("all have had their turn, and %d wait", s.Queued)
	}
	// Where nobody has come in its place, there is nothing to begin.
	p.busy = most
	p.Step(c.now, Acquire{ID: 4000, Name: "given up"})
	p.Ready()
	p.Step(c.now, Release{ID: 4000})
	p.busy = 0
	if said, _ := c.ask(1, labstage.Wake{}); len(asked(said)) > 0 || p.busy != 0 {
		t.Errorf("a claim that was given up before its turn asks %+v", said)
	}
}

// A lease that was lost keeps nobody of its own peer out, unless it has a lock delay: only that peer could hold it.
// Nor does one that is being given back. One of an earlier life of the peer does.
func TestOwnLeasesThatAreOver(t *testing.T) {
	away := func(c *cluster) { c.cut = func(env machine.Envelope) bool { return env.From == 1 || env.To == 1 } }
	for name, tt := range map[string]struct {
		ends func(c *cluster)
		free bool
	}{
		"lost": {func(c *cluster) {
			away(c)
			c.pass(1995 * time.Millisecond)
			last[Lost](c, 1)
			c.cut = nil
		}, true},
		"being given back": {func(c *cluster) {
			away(c)
			for p := c.peers[1]; p.renewals == 0; {
				c.pass(time.Millisecond)
			}
			c.do(1, Release{ID: 1}) // its renewal goes on first, and has no answers
			c.cut = nil
		}, true},
		"of the life before": {func(c *cluster) {
			c.do(1, Shutdown{})
			cfg := testConfig(1, 3)
			cfg.Incarnation, cfg.Restore = 2, []*Record{last[Snapshot](c, 1).Record}
			c.start(cfg)
			c.pass(200 * time.Millisecond)
		}, false},
	} {
		c := newCluster(t, 3, nil)
		c.do(1, Acquire{ID: 1, Name: "a", TTL: 2 * time.Second})
		tt.ends(c)
		c.out[1] = nil
		c.do(1, Acquire{ID: 2, Name: "a", Try: true})
		if free := has[Acquired](c, 1); free != tt.free {
			t.Errorf("a lease of its own that is %s: the same peer acquires %v, want %v: %+v", name, free, tt.free, c.out[1])
		}
	}
}

// A renewal that fails is tried again before the lease ends, or its end is told when it comes.
func TestTheEndOfALeaseIsNotMissed(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.do(1, Acquire{ID: 7, Name: "a", TTL: 2 * time.Second})
	i := p.byID[7]
	claim := &p.claims[i]
	for range 20 {
		claim.deadline = c.now.Mono.Add(2 * time.Millisecond)
		p.failed(i, true) // to be tried again within a quarter of a second
		if late := p.rings(i).Sub(claim.deadline); late > 1<<tickBits {
			t.Errorf("a lease that ends in 2 ms is looked at %v behind its end", late)
		}
	}
}
