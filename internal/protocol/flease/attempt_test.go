package flease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
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
			answers := c.exchange(1, Acquire{ID: 1, Name: "a", TTL: ttl})
			c.now.Mono, c.now.Wall = c.now.Mono.Add(passed.mono), c.now.Wall+machine.Wall(passed.wall)
			c.wire = answers
			if c.settle(); c.ops[Write] > 0 {
				t.Errorf("%d WRITEs were sent for an attempt that is over", c.ops[Write])
			}
		})
	}
}

// exchange steps an input at a peer, and takes the answers off the wire.
func (c *cluster) exchange(id machine.NodeID, input any) (list []machine.Envelope) {
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
	at.acks = 0 // our own messages do not matter here
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

// TestClaimsOfAQuarantine: claims made in a quarantine have their turn when that is over.
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

// Only an answer to a request that is under way changes anything. Others do no harm: they may be to a request of
// an earlier life, from a peer outside the cell, or to nothing at all.
func TestAnswersToOthersRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		from   machine.NodeID
		answer func(o *Op)
		counts bool
	}{
		"the answer":                      {2, func(*Op) {}, true},
		"of an earlier life":              {2, func(o *Op) { o.Ballot -= 1 << 40 }, false},
		"of another attempt":              {2, func(o *Op) { o.Ref += 1 << attemptBits }, false},
		"of an attempt that is over":      {2, func(o *Op) { o.Ref, o.Ballot = 1|1<<attemptBits, 0 }, false},
		"of an attempt that never was":    {2, func(o *Op) { o.Ref = 1<<attemptBits - 1 }, false},
		"of a peer outside the cell":      {5, func(*Op) {}, false},
		"of an acceptor for another kind": {2, func(o *Op) { o.Kind = AckWrite }, false},
	} {
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("an answer %s ends the peer: %v", name, r)
				}
			}()
			c := newCluster(t, 5, nil)
			p := c.peers[1]
			asked := ""
			for i := 0; asked == ""; i++ {
				if cell := p.lay.view.Cell(fmt.Sprint(i)); slices.Contains(cell, 1) && slices.Contains(cell, 2) && !slices.Contains(cell, 5) {
					asked = fmt.Sprint(i)
				}
			}
			c.ask(1, Acquire{ID: 7, Name: asked})
			c.ask(1, Acquire{ID: 8, Name: asked + "'"})
			c.ask(1, Release{ID: 8}) // which leaves a place behind
			o := Op{Kind: AckRead, Ref: c.underWay(7), Ballot: p.attempts[p.claims[p.byID[7]].att].k}
			tt.answer(&o)
			before := p.attempts[p.claims[p.byID[7]].att]
			said, out := c.hear(1, tt.from, 1, o)
			if now := p.attempts[p.claims[p.byID[7]].att]; (now.acks != before.acks || now.stage != before.stage) != tt.counts || len(said) > 0 != tt.counts || len(out) > 0 {
				t.Errorf("an answer %s: it says %+v and reports %+v, at stage %d with answers %b; want that it counts: %v", name, said, out, now.stage, now.acks, tt.counts)
			}
		}()
	}
}

// An answer that comes too late ends its attempt at once, and the claim is told that no majority answers.
func TestAnAnswerThatIsLateEndsTheAttempt(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.ask(1, Acquire{ID: 7, Name: "a"})
	i := p.byID[7]
	k, ref := p.hlc.last, c.underWay(7)
	c.later(p.cfg.attemptTimeout() + 1)
	said, out := c.hear(1, 2, 1, Op{Kind: AckRead, Ref: ref, Ballot: k})
	c.want("an answer comes too late", said, out, nil, Waits{ID: 7, State: State{Name: "a"}, Err: ErrNoMajority})
	if claim := p.claims[i]; claim.att >= 0 || claim.tries != 1 || p.busy != 0 {
		t.Errorf("an answer came too late, and attempt %d is under way, of %d; tried was %d times, want once", claim.att, p.busy, claim.tries)
	}
	if again := p.rings(i).Sub(c.now.Mono); again <= 0 || again > p.cfg.RoundTimeout+3*time.Millisecond {
		t.Errorf("it is tried again %v later, want within a round", again)
	}
}

// A claim that waits asks nobody while its peer is silent, and goes on when that is over.
func TestLooksOfAQuarantine(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.do(2, Acquire{ID: 1, Name: "a"})
	c.do(1, Acquire{ID: 7, Name: "a"})
	c.do(1, ClockFault{Why: "a test"})
	c.cut = func(env machine.Envelope) bool {
		if ops := env.Body.(*Batch).Ops; env.From == 1 && len(ops) > 0 && p.silent() {
			t.Errorf("a silent peer says %+v", ops)
		}
		return false
	}
	c.out[1] = nil
	c.pass(p.quarantine - time.Millisecond)
	if !p.silent() || p.Stats().Attempts > 0 {
		t.Fatalf("the quarantine is over, or %d attempts are under way in it", p.Stats().Attempts)
	}
	c.do(2, Release{ID: 1})
	if c.pass(2 * p.cfg.poll()); !has[Acquired](c, 1) {
		t.Errorf("the quarantine is over, and the claim is not granted: %+v", c.out[1])
	}
}

// Renewals and releases go ahead of what is asked anew.
func TestWhatIsUrgent(t *testing.T) {
	for why, how := range map[aim]int{acquiring: patient, looking: patient, renewing: urgent, returning: urgent} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		i := p.newClaim(7, "a")
		p.begin(i, why)
		if ops := p.lane(2).ops; len(ops[how]) != 1 || len(ops[1-how]) != 0 {
			t.Errorf("of attempts of kind %d %d are urgent and %d patient, want one in lane %d", why, len(ops[urgent]), len(ops[patient]), how)
		}
	}
}

// A claim that one acceptor keeps out, and another has promised, is judged by what both know: it asks again for
// promises if the lease is given back, and else waits. It needs no third for that.
func TestKeptOutByOneOfTwo(t *testing.T) {
	for _, released := range []bool{false, true} {
		c := newCluster(t, 3, nil)
		p := c.peers[1]
		lease := Holding{Token: BallotOf(p.c-5, 0, 3), Until: p.c + 5000, Incarnation: 1, Slots: 1, Owner: 3}
		at := &p.cells[p.cellOf("a")]
		at.promised, at.written, at.value = lease.Token, lease.Token, Value{lease}
		c.ask(1, Acquire{ID: 7, Name: "a"})
		k, ref := p.hlc.last, c.underWay(7)
		answer := Op{Kind: AckRead, Ref: ref, Ballot: k}
		if lease.Released = released; released {
			answer.Written, answer.Value = lease.Token, Value{lease}
		}
		said, _ := c.hear(1, 2, 1, answer)
		want := Peek
		if released {
			want = Read
		}
		if len(said[2]) != 1 || said[2][0].Kind != want || said[2][0].Ballot == k {
			t.Errorf("one acceptor keeps it out, and the other has promised (the lease is given back: %v): it says %+v, want a request of kind %d", released, said, want)
		}
	}
}
