package flease

import (
	"math/rand/v2"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestFairness is section 3.6: with ballots that are readings of clocks alone, "the process
// with the fastest clock will always acquire the lease". Three peers whose clocks are ε
// apart contend for a free resource again and again, within a few milliseconds; all win
// about as often.
func TestFairness(t *testing.T) {
	c := newCluster(t, 3, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	offsets := map[machine.NodeID]time.Duration{1: 0, 2: 0, 3: 0}
	right := c.now
	at := func(id machine.NodeID) machine.Now {
		return machine.Now{Mono: right.Mono, Wall: right.Wall + machine.Wall(offsets[id])}
	}
	// Clocks go to their offsets slowly: a step would be as good as a crash.
	for range 100 {
		right.Mono, right.Wall = right.Mono.Add(500*time.Millisecond), right.Wall+machine.Wall(500*time.Millisecond)
		for id := range machine.NodeID(3) {
			id++
			offsets[id] += time.Duration(int(id)-2) * 500 * time.Microsecond
			c.now = at(id)
			c.step(id, labstage.Wake{})
		}
	}
	c.settle()
	wins := map[machine.NodeID]int{}
	const rounds = 900
	for round := range rounds {
		c.out = map[machine.NodeID][]Report{}
		begins := [3]int{rng.IntN(6), rng.IntN(6), rng.IntN(6)}
		winner := machine.NodeID(0)
		for step := 0; step < 4000 && winner == 0; step++ {
			right.Mono, right.Wall = right.Mono.Add(time.Millisecond), right.Wall+machine.Wall(time.Millisecond)
			wire := c.wire
			c.wire = nil
			rng.Shuffle(len(wire), func(i, j int) { wire[i], wire[j] = wire[j], wire[i] })
			for _, env := range wire {
				c.now = at(env.To)
				c.step(env.To, env)
			}
			for id := range machine.NodeID(3) {
				c.now = at(id + 1)
				if begins[id] == step {
					c.step(id+1, Acquire{ID: uint64(round), Name: "r", Try: true})
				}
				if c.alarm[id+1] <= c.now.Mono {
					c.step(id+1, labstage.Wake{})
				}
				if has[Acquired](c, id+1) {
					winner = id + 1
				}
			}
		}
		if winner == 0 {
			t.Fatal("nobody wins")
		}
		wins[winner]++
		for id := range machine.NodeID(3) {
			c.now = at(id + 1)
			c.step(id+1, Release{ID: uint64(round)})
		}
		c.settleSkewed(at)
		right.Mono, right.Wall = right.Mono.Add(20*time.Millisecond), right.Wall+machine.Wall(20*time.Millisecond)
	}
	t.Logf("wins by offset: -ε/2: %d, 0: %d, +ε/2: %d", wins[1], wins[2], wins[3])
	for id, n := range wins {
		if n < rounds/6 || n > rounds/2 {
			t.Errorf("peer %d, whose clock is %v off, wins %d times of %d", id, offsets[id], n, rounds)
		}
	}
}

// settleSkewed delivers all that is under way, to clocks that differ.
func (c *cluster) settleSkewed(at func(machine.NodeID) machine.Now) {
	for len(c.wire) > 0 {
		wire := c.wire
		c.wire = nil
		for _, env := range wire {
			c.now = at(env.To)
			c.step(env.To, env)
		}
	}
}
