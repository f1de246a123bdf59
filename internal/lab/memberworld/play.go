package memberworld

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/network"
)

// play plays a world: a storm, in which faults happen while clients work, a time without
// faults, in which everything has to come to rest, and the judgement.
func play(t *testing.T, seed uint64, spec Spec) (r world.Result) {
	t.Helper()
	var c *cluster
	// Deferred, for a bubble that has failed ends this goroutine. Outside of it, for a judge
	// that computes too long is stopped by a true clock.
	defer func() {
		if c == nil || c.settled == nil {
			return
		}
		written := map[string]bool{}
		for _, e := range c.settled {
			written[e.value] = true
		}
		if err := c.history.linearizable(written, 30*time.Second); err != nil {
			t.Errorf("seed %d: %v", seed, err)
			return
		}
		if r.Counters != nil {
			r.Counters["histories decided"]++
		}
	}()
	return world.Play(t, world.Options{Seed: seed, Plan: spec.Faults, Drain: 2 * time.Minute, Limit: 30 * time.Minute}, func(w *world.World) {
		c = newCluster(w, spec)
		c.play()
	})
}

func newCluster(w *world.World, spec Spec) *cluster {
	if spec.Way == 0 {
		spec.Way = 3 * time.Millisecond
	}
	if spec.Pace == 0 {
		spec.Pace = 400 * time.Millisecond
	}
	c := &cluster{
		w: w, spec: spec, net: network.New(w, spec.Way/10, spec.Way),
		quiet: make(chan struct{}), gone: make(chan struct{}), jobs: make(chan job, 16), inForce: make(chan struct{}),
	}
	for i := range spec.Members + spec.Spares {
		c.hosts = append(c.hosts, newHost(c, fmt.Sprintf("m%d", i)))
	}
	c.net.Lose(spec.Lossy)
	if spec.Far > 0 {
		r := w.Rand("far") // the network calls it with its lock held
		c.net.Far(func(from, to string) time.Duration {
			if from[0] != 'm' || to[0] != 'm' {
				return 0
			}
			return time.Duration(r.Int64N(int64(spec.Far)))
		})
	}
	w.Happen(func(f world.Fault) bool {
		c.happen(f)
		return true
	})
	return c
}

func (c *cluster) play() {
	for _, h := range c.hosts[:c.spec.Members] {
		c.work.Go(h.run)
	}
	c.work.Go(c.sample)
	c.work.Go(c.operate)
	for i := range c.spec.Clients {
		c.work.Go(func() { c.runRegisters(i) })
	}
	for i := range 2 {
		c.work.Go(func() { c.leaseholder(i) })
		c.watch(i)
	}
	for i := range c.spec.Accountants {
		c.work.Go(func() { c.accountant(i) })
	}
	if c.spec.Compacts {
		c.work.Go(c.compact)
	}
	if c.spec.Users {
		c.work.Go(c.enableUsers)
		for _, user := range users {
			c.work.Go(func() { c.grantor(user) })
			for i := range 2 {
				c.work.Go(func() { c.useRights(user, i) })
			}
		}
	}
	for i := range c.spec.Suitors {
		c.work.Go(func() { c.runSuitors(i) })
	}
	c.lockers = c.newLockers(c.spec.Lockers)
	began := c.w.Elapsed()
	if c.spec.Script != nil {
		c.spec.Script(c)
	}
	c.pause(c.spec.Storm - (c.w.Elapsed() - began))
	c.w.Forgo()
	c.pause(c.w.Calm() - c.w.Elapsed() + time.Second)
	c.judge()
	if c.settled != nil {
		c.judgeRights("after a loss of power of all")
	}
	if c.settled != nil && c.spec.Forced {
		c.forceAnew()
	}
	c.lockers.end() // a judge that has found something does not go on
	if !c.resting() {
		close(c.quiet)
	}
	close(c.gone)
	for _, h := range c.hosts {
		h.end(nil, exits)
	}
	c.work.Wait()
}
