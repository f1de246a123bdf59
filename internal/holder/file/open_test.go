package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestHowLongOpenWaits: for a majority as long as its context lasts, and for the others from then
// on no longer than it takes to have the area of a device whose handle died.
func TestHowLongOpenWaits(t *testing.T) {
	const wait = (2*4*time.Second + 12*150*time.Millisecond) / 10 * 11
	for what, c := range map[string]struct {
		answers []time.Duration // by store, when it does
		open    []bool
	}{
		"a late majority":         {[]time.Duration{0, 3 * wait, 7 * wait}, []bool{true, true, false}},
		"a majority of four":      {[]time.Duration{0, 0, 2 * wait, 2*wait + time.Second}, []bool{true, true, true, true}},
		"late ones, one by one":   {[]time.Duration{0, 0, 0, wait * 3 / 4, wait * 3 / 2}, []bool{true, true, true, true, false}},
		"the last in time":        {[]time.Duration{0, 0, wait - time.Second}, []bool{true, true, true}},
		"a store of one, however": {[]time.Duration{5 * wait}, []bool{true}},
	} {
		t.Run(what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				cfg := Config{Paths: made(t, len(c.answers)), Clock: oneClock()}
				found := openAllBy(t.Context(), cfg.Paths, func(path string) finding {
					time.Sleep(c.answers[slices.Index(cfg.Paths, path)])
					return openOne(path, cfg)
				})
				for i, want := range c.open {
					if got := found[i].err == nil; got != want {
						t.Errorf("the stores answer after %v: number %d is open, %v (%v), want %v", c.answers, i, got, found[i].err, want)
					}
				}
				found.close()
				time.Sleep(10 * wait) // a store that comes late is closed
			})
		})
	}
}

// TestOpenWaitsForNobody where nobody can be making a set: a process that may not make one, or
// finds a majority, or something else, is told at once.
func TestOpenWaitsForNobody(t *testing.T) {
	for what, c := range map[string]struct {
		stores int // of three paths; the others are empty
		junk   bool
		change func(*Config)
		opens  bool
	}{
		"existing ones only":      {1, false, func(c *Config) { c.Existing = true }, false},
		"to look only":            {1, false, func(c *Config) { c.ReadOnly = true }, false},
		"a majority":              {2, false, func(*Config) {}, true},
		"something else is there": {1, true, func(*Config) {}, false},
	} {
		t.Run(what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				cfg := Config{Paths: []string{t.TempDir(), t.TempDir(), t.TempDir()}, SingleHost: true, Clock: oneClock()}
				h := register.Header{Set: machine.ID{9}, Of: 3, Term: brief.Term, Delay: brief.Delay}
				for h.Index < c.stores {
					if err := file.Init(cfg.Paths[h.Index], h, file.InitOptions{SingleHost: true}); err != nil {
						t.Fatal(err)
					}
					h.Index++
				}
				if c.junk {
					if err := os.WriteFile(filepath.Join(cfg.Paths[2], "thesis.txt"), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				c.change(&cfg)
				began := time.Now()
				l, err := Open(t.Context(), cfg)
				if took := time.Since(began); (err == nil) != c.opens || took > 0 {
					t.Errorf("Open: %v after %v; want it to succeed, %v, at once", err, took, c.opens)
				}
				if err == nil {
					l.Close()
				}
			})
		})
	}
}

// hasty is a clock on which a minute passes with each reading.
type hasty struct{ *clock.Simulated }

func (c hasty) Now() machine.Mono {
	c.Jump(time.Minute)
	return c.Simulated.Now()
}

// TestWhyNothingWasMade: a process that comes first, and can make no stores, is told why.
func TestWhyNothingWasMade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := Open(t.Context(), Config{Paths: []string{t.TempDir()}, SingleHost: true, Clock: hasty{oneClock()}})
		if err == nil || !strings.Contains(err.Error(), "too short for accesses") || time.Since(began) > 0 {
			t.Errorf("where accesses take minutes: %v after %v, want that leases are too short for that", err, time.Since(began))
		}
	})
}

// TestOneStoreIsNoSet: an error about a single path names that path, and counts no stores.
func TestOneStoreIsNoSet(t *testing.T) {
	_, err := Open(t.Context(), Config{Paths: []string{filepath.Join(t.TempDir(), "none")}})
	if !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "stores can be used") {
		t.Errorf("%v, want %v alone", err, fs.ErrNotExist)
	}
}

// TestInitTellsOfASet: the header that it returns is the set's, and no single store's.
func TestInitTellsOfASet(t *testing.T) {
	h, err := Init(t.Context(), []string{t.TempDir(), t.TempDir(), t.TempDir()}, brief)
	if err != nil || h.Index != 0 || h.Of != 3 {
		t.Errorf("%+v, %v, want three stores and no index", h, err)
	}
}

// TestMadeByAnother: a process that came second goes on as soon as the first has made all stores.
func TestMadeByAnother(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths := made(t, 3)
		began := time.Now()
		far, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if missing, err := awaitAll(far, paths); missing != "" || err != nil || time.Since(began) > 0 {
			t.Errorf("all stores are there: %q, %v after %v", missing, err, time.Since(began))
		}
		if err := makeAll(far, Config{Paths: paths, SingleHost: true, Clock: oneClock()}); err != nil || time.Since(began) > 0 {
			t.Errorf("another has made them: %v after %v, want no error", err, time.Since(began))
		}
	})
}

// TestHealthAfterClose is that of no stores.
func TestHealthAfterClose(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := opened(t, Config{Paths: made(t, 1)})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if all, err := l.Health(t.Context(), "x"); !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("%+v, %v, want %v", all, err, tenure.ErrClosed)
		}
	})
}

// TestMeasuredTimesAscend, for a quantile of them is taken.
func TestMeasuredTimesAscend(t *testing.T) {
	var reading machine.Mono
	step, odd := time.Second, false
	now := func() machine.Mono {
		if odd = !odd; !odd { // the end of an access
			step -= time.Millisecond
			reading = reading.Add(step)
		}
		return reading
	}
	dir := t.TempDir()
	times, err := measureBy(t.Context(), now, dir, true, 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, some := range [][]time.Duration{times.Read, times.Write, times.Both} {
		if len(some) != 10 || !slices.IsSorted(some) || some[0] == some[9] {
			t.Errorf("%v do not ascend", some)
		}
	}
	sum := func(some []time.Duration) (d time.Duration) {
		for _, x := range some {
			d += x
		}
		return d
	}
	if got, want := sum(times.Both), sum(times.Read)+sum(times.Write); got != want {
		t.Errorf("reads with the writes after them took %v, want the sum of all, %v", got, want)
	}
}

// TestTheDelayThatIsChosen is the one that Measure finds.
func TestTheDelayThatIsChosen(t *testing.T) {
	steady := func() func() machine.Mono {
		reading := machine.Mono(1)
		return func() machine.Mono { reading = reading.Add(10 * time.Millisecond); return reading }
	}
	times, err := measureBy(t.Context(), steady(), t.TempDir(), true, someAccesses, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := initBy(t.Context(), steady(), []string{t.TempDir()}, Spec{SingleHost: true})
	if err != nil || h.Delay != times.Delay() || h.Delay < 40*time.Millisecond {
		t.Errorf("accesses take 10ms and more, and a δ of %v is chosen, %v; want %v", h.Delay, err, times.Delay())
	}
}

// TestMeasuredAsTheStoreWillBe: Measure finds fault with a directory where a store for several hosts cannot be.
func TestMeasuredAsTheStoreWillBe(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "tenure")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	h := register.Header{Set: machine.ID{9}, Of: 1, Term: brief.Term, Delay: brief.Delay}
	why := file.Check(dir, h, file.InitOptions{})
	if _, err := Measure(t.Context(), dir, false, 1, nil); (err == nil) != (why == nil) {
		t.Errorf("Measure for several hosts: %v; a store for them: %v", err, why)
	}
	if why == nil {
		t.Log("hosts may share this directory")
	}
}

// TestEveryStoreThatIsMissing is named, with its error.
func TestEveryStoreThatIsMissing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths := made(t, 3)
		for _, path := range paths[:2] {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(t.Context(), Config{Paths: paths, Clock: oneClock()})
		if err == nil || !strings.Contains(err.Error(), paths[0]) || !strings.Contains(err.Error(), paths[1]) {
			t.Errorf("%v, want %s and %s named", err, paths[0], paths[1])
		}
	})
}

// TestHealthTellsDamagedSlots by their numbers.
func TestHealthTellsDamagedSlots(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := opened(t, Config{Paths: made(t, 1)})
		for _, name := range []string{"x", "y", "z"} {
			if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(l.places[0].Name, "handles", one(t, filepath.Join(l.places[0].Name, "handles")))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		copy(b[len(b)-100:], "somebody scribbled here")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		want := ""
		for h, err := range l.places[0].Store.Dump() {
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range h.Records {
				if r.Damage != nil {
					want = fmt.Sprintf("handle %s, slot %d: ", h.Place, r.Slot)
					if r.Slot == 0 {
						t.Fatal("the first slot is damaged, want another")
					}
				}
			}
		}
		var h Health
		h.inspect(t.Context(), l.places[0].Store)
		if len(h.Damage) != 1 || want == "" || !strings.HasPrefix(h.Damage[0], want) {
			t.Errorf("%q, want one that begins with %q", h.Damage, want)
		}
	})
}

// TestAMeasurementThatIsBrokenOff, by its context or because the store fails, ends at once, and says why.
func TestAMeasurementThatIsBrokenOff(t *testing.T) {
	why := errors.New("no more patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := 0
	if _, err := Measure(ctx, t.TempDir(), true, 20, func(n int) {
		if done = n; n == 3 {
			cancel(why)
		}
	}); !errors.Is(err, why) || done != 3 {
		t.Errorf("its context ends after 3 accesses: %v after %d, want %v", err, done, why)
	}
	dir := t.TempDir()
	if _, err := Measure(t.Context(), dir, true, 20, func(n int) {
		if done = n; n == 3 {
			if err := os.RemoveAll(filepath.Join(dir, one(t, dir))); err != nil {
				t.Error(err)
			}
		}
	}); err == nil || !strings.Contains(err.Error(), dir) || done != 3 {
		t.Errorf("the store is lost after 3 accesses: %v after %d, want an error that names it", err, done)
	}
}

// one is the name of the only file in a directory.
func one(t *testing.T, dir string) string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0].Name()
}
