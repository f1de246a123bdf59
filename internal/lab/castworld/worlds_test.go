package castworld

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/network"
	"github.com/tenure-lease/tenure/internal/machine"
)

const storm = 20 * time.Second

// plan draws the faults of a world: few kinds, and those often.
func plan(seed uint64) (faults []world.Fault) {
	r := world.Rand(seed, "plan")
	n := founders(seed)
	who := func() string { return name(machine.NodeID(1 + r.IntN(n))) }
	at := func() time.Duration { return time.Second + time.Duration(r.Int64N(int64(storm-2*time.Second))) }
	short := func() time.Duration { return time.Duration(r.Int64N(int64(2 * time.Second))) }
	// Of renames and the like there are fewer than of writes.
	nth := func(n int) int { return 1 + r.IntN(1+r.IntN(n)) }
	ops := []string{"sync", "write", "rename", "syncdir", "open", "remove", "preallocate"}
	kinds := []func() world.Fault{
		func() world.Fault { return world.Fault{Who: who(), At: at(), Kind: world.Kill, For: short()} },
		func() world.Fault {
			return world.Fault{Who: who(), Seam: world.Disk, Op: ops[r.IntN(len(ops))], Nth: nth(300), Kind: world.Crash, For: short()}
		},
		func() world.Fault {
			return world.Fault{Who: who(), Seam: world.Disk, Op: ops[r.IntN(3)], Nth: nth(300), Kind: world.Kill, For: short()}
		},
		func() world.Fault { return world.Fault{Who: who(), At: at(), Kind: world.Freeze, For: short()} },
		func() world.Fault {
			return world.Fault{Who: who(), At: at(), Kind: world.Cut, With: who(), For: short()}
		},
		func() world.Fault { return world.Fault{Who: who(), At: at(), Kind: world.Isolate, For: short()} },
		func() world.Fault { return world.Fault{Who: who(), At: at(), Kind: world.Reset} },
		func() world.Fault { return world.Fault{Who: who(), At: at(), Kind: world.HalfOpen} },
		func() world.Fault {
			return world.Fault{Who: who(), Seam: world.Disk, Op: "sync", Nth: 1 + r.IntN(300), Kind: world.Fail}
		},
		func() world.Fault {
			return world.Fault{Who: who(), Seam: world.Disk, Op: "write", Nth: 1 + r.IntN(300), Kind: world.NoSpace, For: short()}
		},
		func() world.Fault {
			return world.Fault{Who: who(), Seam: world.Disk, Op: ops[r.IntN(len(ops))], Nth: nth(200), Kind: world.Delay, For: short() / 20, Lasting: short()}
		},
		func() world.Fault {
			return world.Fault{Who: who(), Seam: world.Disk, Op: ops[r.IntN(len(ops))], Nth: nth(200), Kind: world.Hang, For: short()}
		},
		func() world.Fault { return world.Fault{Who: who(), At: at(), Kind: world.Stranger} },
	}
	for range 1 + r.IntN(3) {
		kind := kinds[r.IntN(len(kinds))]
		for range 1 + r.IntN(8) {
			faults = append(faults, kind())
		}
	}
	switch victim := who(); r.IntN(4) { // one at most: a majority has to remember
	case 0:
		faults = append(faults, world.Fault{Who: victim, At: at(), Kind: world.Older, For: short()})
	case 1:
		faults = append(faults, world.Fault{Who: victim, At: at(), Kind: world.Empty, For: short()})
	}
	return faults
}

func TestWorlds(t *testing.T) {
	musts := []string{"ordered", "acknowledged", "snapshots", "installs", "forgotten", "fault: crash", "fault: kill", "fault: older", "fault: empty", "fault: cut",
		"fault: freeze", "fault: isolate", "fault: reset", "fault: half-open", "fault: fail", "fault: no space", "fault: delay", "ended while they started", "last restarts", "fault: hang", "fault: stranger", "introductions repeated"}
	world.Batch(t, 12, 60, musts, func(t *testing.T, seed uint64) world.Result { return play(t, seed, plan(seed)) })
}

// TestMembers plays groups whose members change, under the faults that need no memory of earlier
// ones.
func TestMembers(t *testing.T) {
	musts := []string{"ordered", "acknowledged", "changes of members", "changes seen through", "removed"}
	world.Batch(t, 3, 6, musts, func(t *testing.T, seed uint64) world.Result {
		r := world.Rand(seed, "members")
		faults := slices.DeleteFunc(plan(seed), func(f world.Fault) bool { return f.Kind == world.Older || f.Kind == world.Empty })
		for at := time.Second; at < storm-5*time.Second; at += time.Duration(1+r.IntN(5)) * time.Second {
			faults = append(faults, world.Fault{Who: name(1), At: at, Kind: world.Member})
		}
		return play(t, seed, faults)
	})
}

func play(t *testing.T, seed uint64, faults []world.Fault) world.Result {
	return world.Play(t, world.Options{Seed: seed, Plan: faults, Limit: 30 * time.Minute}, func(w *world.World) {
		over, end := context.WithCancel(context.Background())
		c := &cast{w: w, net: network.New(w, time.Millisecond/4, 2*time.Millisecond), judge: newJudge(w), hosts: map[machine.NodeID]*host{}, addrs: map[machine.NodeID]string{}, over: over}
		w.Happen(c.carryOut)
		r := w.Rand("hosts")
		for id := machine.NodeID(1); int(id) <= founders(seed); id++ {
			c.addHost(id, r)
			c.addrs[id] = addr(id)
			c.members = append(c.members, id)
		}
		for _, id := range spares {
			h := c.addHost(id, r)
			h.join, h.absent = true, true
		}
		for _, id := range c.members {
			c.hosts[id].start()
		}
		for i := range 3 {
			c.work.Go(func() { c.client(i, storm) })
		}
		// Directories that come back older do so as of a moment of their own, or as of the beginning.
		for id := machine.NodeID(1); int(id) <= len(c.members); id++ {
			h, at := c.hosts[id], time.Second/2
			if r.IntN(2) == 0 {
				at += time.Duration(r.Int64N(int64(storm / 2)))
			}
			c.work.Go(func() {
				time.Sleep(at)
				h.disk.Keep()
			})
		}
		time.Sleep(storm)
		w.Forgo()
		time.Sleep(w.Calm() - min(w.Calm(), w.Elapsed()) + 5*time.Second)
		c.settle()
		end()
		for _, h := range c.hosts {
			h.stop(nil, nil, func() {})
		}
		c.work.Wait()
		c.judge.judgeAcknowledged()
	})
}

// awaitProgress waits for the events that have to come to pass once faults have ended.
func (c *cast) awaitProgress() bool {
	missing := ""
	for range 600 { // a minute
		if missing = c.missing(); missing == "" {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, h := range c.hosts {
		h.mu.Lock()
		n, at := h.node, h.at
		h.mu.Unlock()
		if n != nil {
			c.w.Trace.Add("%s is at %d, waits for %v: %+v", name(h.id), at, n.Waiting(), n.Stats())
		}
	}
	c.w.Fail("liveness: %s", missing)
	return false
}

// restartAll has all members lose their power at once and start again: they know only their disks
// from then on.
func (c *cast) restartAll() {
	c.w.Trace.Add("all lose their power")
	var all sync.WaitGroup
	for _, h := range c.hosts {
		r := c.w.Rand(fmt.Sprint("the last crash of ", h.id))
		all.Go(func() {
			if !h.stop(nil, c.net.PowerOff, func() { h.disk.Crash(r) }) {
				return
			}
			c.w.Count("last restarts", 1)
			h.onReach(0)
		})
	}
	all.Wait()
	for _, h := range c.hosts {
		h.start()
	}
}

// settle judges the events that have to come to pass once faults have ended, and the durable
// state then.
func (c *cast) settle() {
	if !c.awaitProgress() {
		return
	}
	c.restartAll()
	if !c.awaitProgress() {
		return
	}
	members := c.present()
	for id, h := range c.hosts {
		h.mu.Lock()
		n, emptied, gone, absent, removed := h.node, h.emptied, h.gone, h.absent, h.removed
		h.mu.Unlock()
		if !slices.Contains(members, id) {
			if !absent && !removed {
				c.w.Fail("removed: member %d was removed, and is not told so", id)
			}
			continue
		}
		if removed {
			c.w.Fail("removed: member %d is told so, and was not", id)
		}
		if emptied && !gone {
			c.w.Fail("forgotten: member %d came back with an empty directory, and was not refused", id)
		}
		if n == nil {
			continue
		}
		if refused := n.Stats().Refused; len(refused) > 0 && c.w.Counter("introductions repeated") == 0 {
			c.w.Fail("refused: member %d has dropped messages of %v, and nobody has said anything wrong", id, refused)
		}
		if got := slices.Sorted(maps.Keys(n.Members())); !slices.Equal(got, members) {
			c.w.Fail("members: member %d says that they are %v, and they are %v", id, got, members)
		}
		payload := fmt.Sprintf("last of %d", id)
		c.judge.onBroadcast(payload)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		position, err := n.Broadcast(ctx, []byte(payload))
		cancel()
		if err != nil {
			c.w.Fail("liveness: member %d cannot broadcast: %v (%v)", id, err, n.Waiting())
			continue
		}
		c.judge.onAcknowledgment(payload, position)
	}
	time.Sleep(5 * time.Second)
}
