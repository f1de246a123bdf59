package simtest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/sim"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "replay this one world")
	worldsFlag = flag.Int("worlds", 0, "number of worlds; 0: as the test says")
	firstFlag  = flag.Uint64("first", 1, "seed of the first world")
	notesFlag  = flag.Int("notes", 60, "how many notes to print of a world that failed, up to the first violation")
	svgFlag    = flag.String("svg", "", "draw the world that failed, or was replayed, to this `file`")
)

// Seeds are those of n worlds, or of those that the flags name.
func Seeds(n int) []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	if *worldsFlag > 0 {
		n = *worldsFlag
	}
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = *firstFlag + uint64(i)
	}
	return seeds
}

// Worlds plays n worlds, or those that the flags name, and fails at the first in
// which something is violated.
func Worlds(t *testing.T, p sim.Protocol, n int) {
	t.Helper()
	if *seedFlag != 0 {
		replay(t, p, *seedFlag)
		return
	}
	if *worldsFlag > 0 {
		n = *worldsFlag
	}
	r, err := sim.Run(t.Context(), sim.Options{Protocol: p, First: *firstFlag, Worlds: n, Failures: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) > 0 {
		t.Logf("world %d of %d failed", r.Worlds, n)
		replay(t, p, r.Failures[0].Seed)
		t.Fatalf("seed %d: %v, but not when it is replayed", r.Failures[0].Seed, r.Failures[0].Err)
	}
	t.Logf("%d worlds, %v", r.Worlds, r.Counters)
}

// replay plays one world and fails with its last notes if something is violated.
func replay(t *testing.T, p sim.Protocol, seed uint64) {
	t.Helper()
	w, failure := p.Replay(seed)
	if *svgFlag != "" {
		f, err := os.Create(*svgFlag)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Timeline().SVG(f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if failure != nil {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		t.Fatalf("seed %d: %v\n%s\nreplay: go test ./internal/lab/%s -run '^%s$' -seed %d",
			seed, failure, strings.Join(w.Clues(*notesFlag), "\n"), filepath.Base(dir), t.Name(), seed)
	}
}

// Repeats wants that a seed means one course of events, watched or not.
func Repeats(t *testing.T, p sim.Protocol, seeds ...uint64) {
	t.Helper()
	for _, seed := range seeds {
		w := sim.NewWorld(seed)
		failure := p.Play(w)
		watched, again := p.Replay(seed)
		if w.Hash() != watched.Hash() {
			t.Errorf("seed %d: two runs differ: %x, %x", seed, w.Hash(), watched.Hash())
		}
		if (failure == nil) != (again == nil) {
			t.Errorf("seed %d: one run ends with %v, another with %v", seed, failure, again)
		}
	}
}
