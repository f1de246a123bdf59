package storageworld

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

var musts = []string{
	"acquisitions", "takeovers", "shared", "releases", "loses", "dies with", "refused", "looks", "holders seen",
	"condemned", "discarded", "stalls", "slow calls", "failed calls", "killed", "crashes", "outages", "older copies",
	"killed at a call", "larger files", "releases when all was well", "records", "tied", "ended", "broken", "believed though broken",
}

func TestWorlds(t *testing.T) {
	world.Batch(t, 8, 24, musts, func(t *testing.T, seed uint64) world.Result {
		p := draw(seed)
		r := play(t, p)
		if t.Failed() {
			t.Log(p)
		}
		return r
	})
}

// TestIdleOwners plays what found that a file was removed from under its living handle: long
// pauses, and calls before which a process stands still.
func TestIdleOwners(t *testing.T) {
	musts := []string{"acquisitions", "condemned", "discarded", "stalls"}
	world.Batch(t, 6, 6, musts, func(t *testing.T, seed uint64) world.Result {
		p := draw(seed)
		p.dirs, p.header.Of, p.workers, p.names, p.shared = 1, 1, 1, 1, 0
		p.idle, p.onlook, p.kill, p.crashes, p.outages, p.errs, p.slows, p.deaths = 0.7, 0, 0, 0, 0, 0, 0, 0
		p.calls, p.stalls, p.longest = []string{"remove", "rename"}[seed%2], 0.5, 2*p.header.Quiet()
		p.procs, p.length = 4, 8*time.Minute
		return play(t, p)
	})
}

// TestListings plays files that are condemned and pardoned while others list them: pauses that
// are long, and lists that stand still in their middle.
func TestListings(t *testing.T) {
	musts := []string{"acquisitions", "condemned", "pardoned", "stalls"}
	world.Batch(t, 2, 6, musts, func(t *testing.T, seed uint64) world.Result {
		p := draw(seed)
		p.dirs, p.header.Of, p.workers, p.names, p.shared = 1, 1, 1, 1, 0
		p.idle, p.onlook, p.kill, p.crashes, p.outages, p.errs, p.slows, p.deaths = 0.7, 0, 0, 0, 0, 0, 0, 0
		p.calls, p.stalls, p.longest = "listing", 0.5, []time.Duration{p.header.Term / 4, p.header.Quiet()}[seed%2]
		p.procs, p.length = 4, 8*time.Minute
		return play(t, p)
	})
}

// TestCrashes plays storage that loses its power, again and again.
func TestCrashes(t *testing.T) {
	world.Batch(t, 4, 4, []string{"acquisitions", "crashes", "takeovers"}, func(t *testing.T, seed uint64) world.Result {
		p := draw(seed)
		p.dirs, p.header.Of = 1, 1
		p.crashes, p.kill, p.stalls, p.slows, p.errs, p.outages, p.deaths = 8*time.Second, 0, 0, 0, 0, 0, 0
		return play(t, p)
	})
}

// TestLifelines plays processes that are killed, between any two calls too, and whose ends others on
// their host learn of. In some worlds locks tell nothing, and in some the lifelines are replaced by
// copies.
func TestLifelines(t *testing.T) {
	musts := []string{"acquisitions", "takeovers", "killed", "killed at a call", "tied", "ended", "lifelines replaced"}
	world.Batch(t, 8, 16, musts, func(t *testing.T, seed uint64) world.Result {
		p := draw(seed)
		p.dirs, p.header.Of, p.outages, p.crashes, p.length = 1, 1, 0, 0, 2*time.Minute
		p.lifelines, p.paired, p.records = true, true, false
		p.network, p.copied = seed%4 == 1, 0
		if seed%4 == 2 {
			p.copied = time.Second
		}
		p.kill, p.deaths, p.stalls, p.slows, p.errs = 0.2, 0, 0, 0, 0
		p.calls = []string{"create", "lock", "write", "read", "remove", "open", "stat"}[seed%7]
		switch seed % 3 {
		case 0:
			p.deaths = 0.02
		case 1:
			p.stalls = 0.02
		}
		return play(t, p)
	})
}
