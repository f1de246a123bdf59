package redisworld

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

var musts = []string{
	"acquisitions", "takeovers", "shared", "releases", "loses", "dies with", "refused", "looks", "holders seen", "killed",
	"changes lost", "restores", "fault: kill", "fault: crash", "fault: takeover", "fault: emptied", "fault: freeze", "fault: cut",
	"fault: isolate", "fault: reset", "fault: half-open", "fault: delay", "killed at a call", "answered OOM", "answered MISCONF", "answered LOADING", "releases when all was well", "records",
}

func TestWorlds(t *testing.T) {
	world.Batch(t, 4, 40, musts, func(t *testing.T, seed uint64) world.Result {
		p := draw(seed)
		r := play(t, p)
		if t.Failed() {
			t.Log(p)
		}
		return r
	})
}

// TestRestarts plays servers that lose something again and again, with processes that have much to do.
func TestRestarts(t *testing.T) {
	musts := []string{"acquisitions", "changes lost", "restores", "fault: crash", "fault: takeover", "fault: emptied"}
	world.Batch(t, 2, 8, musts, func(t *testing.T, seed uint64) world.Result {
		p := draw(seed)
		r := world.Rand(seed, "restarts")
		p.length, p.longest, p.mute = 40*time.Second, p.header.Term/4, false
		p.procs, p.habits.Workers = 2, 1+r.IntN(2)
		p.habits.Idle, p.habits.Kill, p.habits.Pause, p.habits.Names, p.habits.Shared = 0, 0, p.header.Term/4, 1, 0
		p.habits.Hold, p.habits.Records = p.header.Term/2, false
		for i := range p.syncs {
			p.syncs[i] = []time.Duration{0, time.Second, forever}[r.IntN(3)]
		}
		if seed%2 == 0 { // data that one server loses no other has
			p.header.Of, p.syncs = 1, []time.Duration{time.Second}
		}
		p.faults = nil
		kinds := []world.Kind{world.Kill, world.Crash, takeover, emptied}
		for at := time.Second; at < p.length; at += time.Duration(r.Int64N(int64(6 * time.Second))) {
			who := fmt.Sprint("s", r.IntN(p.header.Of))
			p.faults = append(p.faults, world.Fault{Who: who, At: at, Kind: kinds[r.IntN(4)], For: time.Duration(r.Int64N(int64(time.Second)))})
		}
		return play(t, p)
	})
}

// TestStalls plays processes and servers that stand still between any two calls.
func TestStalls(t *testing.T) {
	world.Batch(t, 2, 8, []string{"acquisitions", "takeovers", "fault: freeze", "records"}, func(t *testing.T, seed uint64) world.Result {
		p := draw(seed)
		r := world.Rand(seed, "stalls")
		p.length, p.longest = time.Minute, []time.Duration{p.header.Term, 3 * p.header.Quiet()}[r.IntN(2)]
		p.habits.Idle, p.habits.Kill, p.habits.Pause, p.habits.Names, p.habits.Shared = 0, 0, p.header.Term/4, 1, 0
		p.habits.Hold, p.faults, p.habits.Records = p.header.Term, nil, true
		for range 40 {
			who := fmt.Sprint("p", r.IntN(p.procs))
			if r.IntN(4) == 0 {
				who = fmt.Sprint("s", r.IntN(p.header.Of))
			}
			p.faults = append(p.faults, world.Fault{
				Who: who, Seam: world.Network, Op: []string{"read", "write"}[r.IntN(2)], Nth: 1 + r.IntN(2000),
				Kind: world.Freeze, For: time.Duration(r.Int64N(int64(p.longest))),
			})
		}
		return play(t, p)
	})
}
