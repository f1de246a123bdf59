package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/simtest"
)

// Batch plays n worlds, or those that -worlds, -first and -seed name, each as a subtest of
// its own. Musts are counters that have to be more than 0 over all of them: a fault that
// never happens shows nothing, and neither does a judge that never has anything to judge.
// A batch of fewer worlds than enough need not have them.
func Batch(t *testing.T, n, enough int, musts []string, play func(t *testing.T, seed uint64) Result) {
	t.Helper()
	seeds := simtest.Seeds(n)
	sum := map[string]int{}
	var failed []uint64
	var passed, took time.Duration
	played := 0
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			defer func() { // which a world that fails ends by Goexit
				if t.Failed() {
					failed = append(failed, seed)
				}
			}()
			r := play(t, seed)
			for name, count := range r.Counters {
				sum[name] += count
			}
			passed, took = passed+r.Passed, took+r.Took
			if len(seeds) == 1 {
				t.Logf("%d events, digest %x, %v in %v: %s", r.Events, r.Digest, r.Passed, r.Took.Round(time.Millisecond), list(r.Counters))
			}
		})
		if played++; len(failed) >= 3 {
			break
		}
	}
	t.Logf("%d worlds, %v of theirs in %v of ours; seeds that failed: %v; %s",
		played, passed.Round(time.Second), took.Round(time.Second), failed, list(sum))
	if played < enough || t.Failed() {
		return
	}
	for _, must := range musts {
		if sum[must] == 0 {
			t.Errorf("over %d worlds there was no %q: they show nothing about it", played, must)
		}
	}
}

func list(counters map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counters[name]))
	}
	return strings.Join(parts, ", ")
}
