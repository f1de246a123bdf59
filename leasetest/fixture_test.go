package leasetest

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
)

// names are those of the suite's cases, in order.
func names() (all []string) {
	for _, c := range cases {
		all = append(all, c.name)
	}
	slices.Sort(all)
	return all
}

// played keeps which cases of a test were played.
type played struct {
	mu    sync.Mutex
	names []string
}

func (p *played) note(t testing.TB) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names = append(p.names, t.Name()[strings.LastIndex(t.Name(), "/")+1:])
}

func (p *played) sorted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.names)
	return slices.Clone(p.names)
}

// Run, Simulate and Each play every case once, and Run returns when all have ended.
func TestEveryCaseIsPlayed(t *testing.T) {
	t.Run("run", func(t *testing.T) {
		var all played
		var open atomic.Int64
		Run(t, func(t testing.TB) Fixture {
			open.Add(1)
			defer open.Add(-1)
			time.Sleep(5 * time.Millisecond)
			all.note(t)
			t.SkipNow()
			return Fixture{}
		})
		if n := open.Load(); n > 0 {
			t.Errorf("Run has returned, and %d cases have yet to end", n)
			for ; open.Load() > 0; time.Sleep(time.Millisecond) {
			}
		}
		if got := all.sorted(); !slices.Equal(got, names()) {
			t.Errorf("Run plays %q, want %q", got, names())
		}
	})
	t.Run("simulate", func(t *testing.T) {
		var all played
		Simulate(t, func(t testing.TB) Fixture {
			if now := time.Now(); now.Year() != 2000 {
				t.Errorf("in a case that is simulated it is %v: its time is not that of a bubble", now)
			}
			all.note(t)
			t.SkipNow()
			return Fixture{}
		})
		if got := all.sorted(); !slices.Equal(got, names()) {
			t.Errorf("Simulate plays %q, want %q", got, names())
		}
	})
	t.Run("each", func(t *testing.T) {
		var all played
		var opened played // by cases that were run, with the fixture that they were given
		Each(t, func(t *testing.T, run func(testing.TB, Fixture)) {
			all.note(t)
			f := NewMemory().Fixture(time.Millisecond)
			f.Open = func() (tenure.Leaser, error) {
				opened.note(t)
				t.SkipNow() // to be opened is all that is wanted here; TestMemoryConforms runs the cases
				return nil, nil
			}
			run(t, f)
		})
		if got := all.sorted(); !slices.Equal(got, names()) {
			t.Errorf("Each plays %q, want %q", got, names())
		}
		if got := opened.sorted(); !slices.Equal(got, names()) {
			t.Errorf("of the cases that Each plays %q open a Leaser, want %q", got, names())
		}
	})
}

// The promises that an engine makes are these; a case that goes takes its promise along.
func TestPromisesStay(t *testing.T) {
	want := []string{
		"arrivals-are-not-overtaken", "bad-claims-are-refused", "close-releases",
		"deadline-counts-from-the-send", "done-closes-at-the-local-deadline", "ended-calls-are-forgotten",
		"errors-say-what-to-do", "exclusive-holders-never-overlap", "exclusive-under-partitions",
		"exclusive-waiters-in-order-of-arrival", "late-renewal-is-a-loss", "lock-delay-after-a-loss",
		"lock-delay-longer-than-the-ttl", "loss-is-final", "many-goroutines-share-a-leaser",
		"names-are-independent", "observe-does-not-contend", "records-are-set-by-holders-only",
		"records-stay-for-the-next-holders", "release-frees-at-once",
		"release-never-frees-a-newer-holder", "renewed-while-held", "shared-beside-shared-only",
		"short-outage-is-survived", "slots-are-never-exceeded", "suspend-counts",
		"tokens-grow-over-a-crash-while-held", "tokens-grow-over-a-restart", "tokens-only-grow",
		"try-tells-who-holds", "ttl-is-kept-or-refused", "unconfirmed-release-is-told", "waiting-ends-with-the-context",
	}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("the cases are %q, want %q", got, want)
	}
}
