package readtorture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// victim is the member that an attack hits: the leader of that time, or another by number.
type victim int

func (v victim) String() string {
	if v == 0 {
		return "the leader"
	}
	return fmt.Sprintf("follower %d", int(v))
}

func drawVictim(random *rand.Rand) victim { return victim(max(0, random.IntN(8)-2)) }

// of finds the victim. It asks for the leader, for a short time only: there may be none.
func (v victim) of(ctx context.Context, c *cluster) int {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	leader, err := c.Leader(ctx)
	if err != nil {
		leader = 0
	}
	return (leader + int(v)) % len(c.Members)
}

// processFault is a thing that is done to processes.
type processFault int

const (
	kill processFault = iota
	killAll
	stop
	staccato
)

func (f processFault) String() string {
	return [...]string{"kill -9", "kill -9 all, also", "SIGSTOP", "SIGSTOP and SIGCONT by turns"}[f]
}

// processAttack is a fault that is undone later.
type processAttack struct {
	Wait   time.Duration // since the last was undone
	Fault  processFault
	Victim victim
	Last   time.Duration   // until it is undone
	Beats  []time.Duration // of staccato: stopped, running, stopped …
}

func (a processAttack) String() string {
	if a.Fault == staccato {
		return fmt.Sprintf("after %v %v %v, %v", a.Wait, a.Fault, a.Victim, a.Beats)
	}
	return fmt.Sprintf("after %v %v %v, for %v", a.Wait, a.Fault, a.Victim, a.Last)
}

func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return (from + time.Duration(random.Int64N(int64(to-from)))).Round(time.Millisecond)
}

const ms = time.Millisecond

// processAttacks draws a schedule that takes about the given time. Stops are shorter
// than the TTL, about as long, and longer.
func processAttacks(random *rand.Rand, total time.Duration) (attacks []processAttack) {
	for sum := time.Duration(0); sum < total; {
		a := processAttack{Wait: between(random, 50*ms, 1200*ms), Victim: drawVictim(random)}
		switch n := random.IntN(20); {
		case n < 6:
			a.Fault = kill
			if random.IntN(2) == 0 {
				a.Last = between(random, 10*ms, 1500*ms)
			}
		case n < 7:
			a.Fault, a.Last = killAll, between(random, 1*ms, 500*ms)
		case n < 16:
			a.Fault = stop
			switch random.IntN(3) {
			case 0:
				a.Last = between(random, 3*ms, 60*ms)
			case 1:
				a.Last = between(random, 60*ms, 500*ms)
			case 2:
				a.Last = between(random, 500*ms, 3000*ms)
			}
		default:
			a.Fault = staccato
			for range 2 * (5 + random.IntN(15)) {
				a.Beats = append(a.Beats, between(random, 1*ms, 60*ms))
				a.Last += a.Beats[len(a.Beats)-1]
			}
		}
		attacks = append(attacks, a)
		sum += a.Wait + a.Last
	}
	return attacks
}

// carryOut does it and undoes it. A member that is just being replaced is left alone.
func (a processAttack) carryOut(ctx context.Context, c *cluster) error {
	pause(ctx, a.Wait)
	hit := []int{a.Victim.of(ctx, c)}
	if a.Fault == killAll {
		hit = nil
		for i := range c.Members {
			hit = append(hit, i)
		}
	}
	hit = slices.DeleteFunc(hit, func(i int) bool { return !c.owned[i].TryLock() })
	if len(hit) == 0 {
		return nil
	}
	defer func() {
		for _, i := range hit {
			c.owned[i].Unlock()
		}
	}()
	c.did(a.Fault)
	m := c.Members[hit[0]]
	switch a.Fault {
	case kill, killAll:
		for _, i := range hit {
			c.Members[i].Kill()
		}
		pause(ctx, a.Last)
		for _, i := range hit {
			if err := c.Members[i].Launch(); err != nil { // ready or not: it may be cut off
				return err
			}
		}
	case stop:
		m.Pause()
		pause(ctx, a.Last)
		m.Resume()
	case staccato:
		for i, beat := range a.Beats {
			if i%2 == 0 {
				m.Pause()
			} else {
				m.Resume()
			}
			pause(ctx, beat)
		}
		m.Resume()
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
