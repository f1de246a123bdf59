package sim

import (
	"flag"
	"strings"
	"testing"
	"time"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "replay this one world")
	worldsFlag = flag.Int("worlds", 30, "number of worlds")
	firstFlag  = flag.Uint64("first", 1, "seed of the first world")
	notesFlag  = flag.Int("notes", 60, "how many of the last notes to print of a world that failed")
)

func world(t *testing.T, seed uint64) (hash uint64, ops int) {
	t.Helper()
	w := NewWorld(seed)
	c := NewCluster(w, 1+2*int(seed%3), smallTail)
	w.Run(3 * time.Second)
	c.Clients(4)
	c.Holders(4)
	c.Lockers(3)
	c.Janitor()
	c.Chaos(25 * time.Second)
	c.Heal()
	err := c.Settle()
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		t.Fatalf("seed %d: %v\n%s\nreplay: go test ./sim -run TestWorlds -seed %d",
			seed, err, strings.Join(w.Recent(*notesFlag), "\n"), seed)
	}
	return w.Hash(), len(c.checks.history)
}

func TestWorlds(t *testing.T) {
	if *seedFlag != 0 {
		world(t, *seedFlag)
		return
	}
	total := 0
	for seed := *firstFlag; seed < *firstFlag+uint64(*worldsFlag); seed++ {
		_, ops := world(t, seed)
		total += ops
	}
	t.Logf("%d worlds, %d operations", *worldsFlag, total)
}

func TestWorldsReplay(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		a, _ := world(t, seed)
		b, _ := world(t, seed)
		if a != b {
			t.Errorf("seed %d: two runs differ: %x, %x", seed, a, b)
		}
	}
}
