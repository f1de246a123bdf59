package flease

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/machine"
)

// TestAnswersToWhatIsOver: an attempt is over at its time, although its alarm rings with the
// next tick of the wheel; and once its lease would be over by the synchronized clock.
func TestAnswersToWhatIsOver(t *testing.T) {
	const round, ttl = 50 * time.Millisecond, 200 * time.Millisecond
	for name, passed := range map[string]struct{ mono, wall time.Duration }{
		"its-time":  {2*round + 1, 2*round + 1},
		"its-lease": {time.Millisecond, ttl}, // clocks of this ε may do so
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, func(cfg *Config) { cfg.Epsilon, cfg.RoundTimeout = 2*time.Second, round })
			answers := c.answers(1, Acquire{ID: 1, Name: "a", TTL: ttl})
			c.now.Mono, c.now.Wall = c.now.Mono.Add(passed.mono), c.now.Wall+machine.Wall(passed.wall)
			c.wire = answers
			if c.settle(); c.ops[Write] > 0 {
				t.Errorf("%d WRITEs were sent for an attempt that is over", c.ops[Write])
			}
		})
	}
}

// answers steps an input at a peer, and takes the answers off the wire.
func (c *cluster) answers(id machine.NodeID, input any) (list []machine.Envelope) {
	c.cut = func(env machine.Envelope) bool {
		if env.To == id {
			list = append(list, env)
		}
		return env.To == id
	}
	c.do(id, input)
	c.cut = nil
	c.counted()
	return list
}

// TestRefusalOfACopy: an acceptor that has agreed and is asked again by a copy, when it has
// promised more to another, is no second one that refuses.
func TestRefusalOfACopy(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.cut = func(machine.Envelope) bool { return true }
	c.do(1, Acquire{ID: 1, Name: "a"})
	at := &p.attempts[p.claims[p.byID[1]].att]
	at.acks = 0 // what we have said ourselves does not matter here
	answer := func(from machine.NodeID, kind Kind) {
		p.answered(from, &Op{Kind: kind, Ref: p.ref(0), Ballot: at.k, Written: at.k - 1})
	}
	answer(2, AckRead)
	answer(2, NackRead)
	answer(3, NackRead)
	if at.stage != reading {
		t.Fatal("one of three has refused, and the attempt is over")
	}
	answer(1, AckRead)
	if at.stage != writing {
		t.Error("two of three have agreed, and it does not write")
	}
}

// TestAttemptsAreLimited: claims beyond MaxAttempts wait for their turn.
func TestAttemptsAreLimited(t *testing.T) {
	const most = 4
	c := newCluster(t, 3, func(cfg *Config) { cfg.MaxAttempts = most })
	c.cut = func(machine.Envelope) bool { return true }
	for i := range uint64(3 * most) {
		c.do(1, Acquire{ID: i, Name: fmt.Sprint(i)})
	}
	if s := c.peers[1].Stats(); s.Attempts != most || s.Queued != 2*most {
		t.Errorf("%d attempts are under way and %d claims wait, want %d and %d", s.Attempts, s.Queued, most, 2*most)
	}
}

// TestClaimsOfAQuarantine: what is asked for in a quarantine has its turn when that is over.
func TestClaimsOfAQuarantine(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.do(1, ClockFault{Why: "a test"})
	c.do(1, Acquire{ID: 1, Name: "a"})
	for p.silent() {
		if c.pass(time.Millisecond); p.Stats().Attempts > 0 {
			t.Fatal("an attempt is under way in a quarantine")
		}
		if p.silent() && p.Stats().Queued != 1 {
			t.Fatal("the claim has had its turn in a quarantine")
		}
	}
	if !has[Acquired](c, 1) {
		t.Error("the quarantine is over, and the claim is not granted")
	}
}
