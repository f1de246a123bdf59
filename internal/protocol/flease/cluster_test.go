package flease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// cluster is some peers with right clocks and a network without delay. Messages between
// them are counted.
type cluster struct {
	t     testing.TB
	now   machine.Now
	peers map[machine.NodeID]*Peer
	wire  []machine.Envelope
	out   map[machine.NodeID][]Report
	ops   map[Kind]int // that went from one peer to another
	round int          // trips of messages since the last time it was looked at
	cut   func(machine.Envelope) bool
	alarm map[machine.NodeID]machine.Mono

	decoder Decoder
	came    Batch // the envelope that is being delivered
}

func testConfig(self machine.NodeID, n int) Config {
	cfg := Config{Self: self, Incarnation: 1, TMax: 10 * time.Second, Epsilon: 100 * time.Millisecond, View: View{Epoch: 1}}
	for i := range n {
		cfg.View.Members = append(cfg.View.Members, machine.NodeID(i+1))
	}
	return cfg
}

// newCluster starts n peers, behind their quarantine.
func newCluster(t testing.TB, n int, edit func(*Config)) *cluster {
	c := &cluster{
		t: t, peers: map[machine.NodeID]*Peer{}, out: map[machine.NodeID][]Report{}, ops: map[Kind]int{}, alarm: map[machine.NodeID]machine.Mono{},
		now: machine.Now{Mono: 1e12, Wall: machine.Wall(1767225600 * int64(time.Second))},
	}
	for i := range n {
		cfg := testConfig(machine.NodeID(i+1), n)
		if edit != nil {
			edit(&cfg)
		}
		c.start(cfg)
	}
	c.pass(c.peers[1].quarantine + time.Millisecond)
	c.out = map[machine.NodeID][]Report{}
	return c
}

func (c *cluster) start(cfg Config) {
	p, err := New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.peers[cfg.Self] = p
	c.step(cfg.Self, labstage.Wake{})
}

func (c *cluster) step(id machine.NodeID, input any) {
	p := c.peers[id]
	labstage.Feed(p, c.now, input)
	c.ready(id, p.Ready())
}

func (c *cluster) ready(id machine.NodeID, rd machine.Ready[Report]) {
	c.out[id] = append(c.out[id], rd.Outcomes...)
	c.wire = append(c.wire, rd.Sends...)
	c.alarm[id] = rd.Alarm
	for _, r := range rd.Persists {
		for _, env := range r.Then {
			if env.To == id {
				c.step(id, env)
			} else {
				c.wire = append(c.wire, env)
			}
		}
	}
}

// settle delivers all that is under way, round after round.
func (c *cluster) settle() {
	for len(c.wire) > 0 {
		wire := c.wire
		c.wire = nil
		c.round++
		for _, env := range wire {
			if c.cut != nil && c.cut(env) {
				continue
			}
			for _, o := range env.Body.(*Batch).Ops {
				c.ops[o.Kind]++
			}
			data, err := env.Body.(*Batch).MarshalBinary()
			if err != nil {
				c.t.Fatal(err)
			}
			if from := c.peers[env.From]; from != nil && c.cut == nil { // else a test may hold it
				from.Reuse(env.Body.(*Batch))
			}
			if err := c.decoder.Decode(data, &c.came); err != nil {
				c.t.Fatal(err)
			}
			if c.peers[env.To] != nil {
				c.step(env.To, machine.Envelope{From: env.From, To: env.To, Body: &c.came})
			}
			c.came.Reset()
		}
	}
}

// do steps an input and lets all answers come.
func (c *cluster) do(id machine.NodeID, input any) {
	c.step(id, input)
	c.settle()
}

// pass lets d pass, and wakes peers when they want it.
func (c *cluster) pass(d time.Duration) {
	for end := c.now.Mono.Add(d); ; {
		next := end
		for _, id := range c.ids() {
			next = min(next, max(c.alarm[id], c.now.Mono))
		}
		c.now.Wall += machine.Wall(next - c.now.Mono)
		c.now.Mono = next
		if next == end {
			break
		}
		for _, id := range c.ids() {
			if c.alarm[id] <= c.now.Mono {
				c.step(id, labstage.Wake{})
			}
		}
		c.settle()
	}
	for _, id := range c.ids() {
		c.do(id, labstage.Wake{})
	}
}

func (c *cluster) ids() (ids []machine.NodeID) {
	for id := range c.peers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// last is the newest outcome of a kind at a peer.
func last[T any](c *cluster, id machine.NodeID) (got T) {
	c.t.Helper()
	for _, out := range slices.Backward(c.out[id]) {
		if got, ok := out.(T); ok {
			return got
		}
	}
	c.t.Fatalf("peer %d reported no %T; but %s", id, got, fmt.Sprintf("%+v", c.out[id]))
	return got
}

func has[T any](c *cluster, id machine.NodeID) bool {
	return slices.ContainsFunc(c.out[id], func(out Report) bool { _, ok := out.(T); return ok })
}

// counted resets the counters and returns what they showed.
func (c *cluster) counted() (messages, rounds int) {
	for _, n := range c.ops {
		messages += n
	}
	rounds = c.round
	c.ops, c.round = map[Kind]int{}, 0
	return messages, rounds
}
