package readtorture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// linkFault is a thing that is done to the links of a member.
type linkFault int

const (
	deaf linkFault = iota // it hears nobody
	mute                  // nobody hears it
	alone
	pairOneWay
	pairBothWays
	slow
)

func (f linkFault) String() string {
	return [...]string{"deaf", "mute", "alone", "not heard by one other", "apart from one other", "slow"}[f]
}

// linkAttack is a fault that is undone later.
type linkAttack struct {
	Wait   time.Duration
	Fault  linkFault
	Victim victim
	Other  int // of a pair: the distance to the other
	Last   time.Duration
	Delay  time.Duration // of slow, each way
}

func (a linkAttack) String() string {
	return fmt.Sprintf("links: after %v %v %v (other %d, delay %v) for %v", a.Wait, a.Victim, a.Fault, a.Other, a.Delay, a.Last)
}

func linkAttacks(random *rand.Rand, total time.Duration) (attacks []linkAttack) {
	for sum := time.Duration(0); sum < total; {
		a := linkAttack{
			Wait: between(random, 200*ms, 3000*ms), Victim: drawVictim(random), Fault: linkFault(random.IntN(int(slow) + 1)),
			Other: 1 + random.IntN(2), Delay: between(random, 1*ms, 60*ms),
		}
		if a.Last = between(random, 20*ms, 500*ms); random.IntN(2) == 0 {
			a.Last = between(random, 500*ms, 3000*ms)
		}
		attacks = append(attacks, a)
		sum += a.Wait + a.Last
	}
	return attacks
}

// carryOut does it and undoes it.
func (a linkAttack) carryOut(ctx context.Context, c *cluster) error {
	pause(ctx, a.Wait)
	m, n := a.Victim.of(ctx, c), len(c.Members)
	var out, in []int // to whom, from whom
	for i := range n {
		if i == m {
			continue
		}
		if a.Fault == deaf || a.Fault == alone || a.Fault == slow || a.Fault == pairBothWays && i == (m+a.Other)%n {
			in = append(in, i)
		}
		if a.Fault == mute || a.Fault == alone || a.Fault == slow || (a.Fault == pairOneWay || a.Fault == pairBothWays) && i == (m+a.Other)%n {
			out = append(out, i)
		}
	}
	each := func(f func(from, to int)) {
		for _, i := range out {
			f(m, i)
		}
		for _, i := range in {
			f(i, m)
		}
	}
	if a.Fault == slow {
		each(func(from, to int) { c.Links.Delay(from, to, a.Delay) })
	} else {
		each(c.Links.Hold)
	}
	pause(ctx, a.Last)
	each(func(from, to int) {
		c.Links.Release(from, to)
		c.Links.Delay(from, to, c.plan.apart(from, to))
	})
	c.did(a.Fault)
	return nil
}
