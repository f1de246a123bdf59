package file_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	engine "github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

func emptyDirectories(t *testing.T) (paths []string) {
	dir := quick(t)
	for _, name := range []string{"a", "b", "c"} {
		paths = append(paths, mkdir(t, filepath.Join(dir, name)))
	}
	return paths
}

// TestFirstsInAnyOrder: processes that come at once and name the paths in different orders make one
// set, for all begin with the same store.
func TestFirstsInAnyOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths := emptyDirectories(t)
		backwards := slices.Clone(paths)
		slices.Reverse(backwards)
		var all sync.WaitGroup
		errs, headers := make([]error, 8), make([]register.Header, 8)
		for i := range errs {
			cfg := engine.Config{Paths: paths, SingleHost: true, Clock: oneClock()}
			if i%2 == 0 {
				cfg.Paths = backwards
			}
			all.Go(func() {
				l, err := engine.Open(t.Context(), cfg)
				if errs[i] = err; err == nil {
					headers[i] = l.Header()
					l.Close()
				}
			})
		}
		all.Wait()
		for i, err := range errs {
			if err != nil || headers[i] != headers[1] {
				t.Errorf("of those that came at once, number %d: %+v, %v, and number 1 has %+v", i, headers[i], err, headers[1])
			}
		}
	})
}

// TestTheFirstPathToBegin is the same in any order of the paths.
func TestTheFirstPathToBegin(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths := emptyDirectories(t)
		backwards := slices.Clone(paths)
		slices.Reverse(backwards)
		health, err := open(t, engine.Config{Paths: backwards, SingleHost: true}).Health(t.Context(), "x")
		if err != nil || len(health) != len(paths) {
			t.Fatal(health, err)
		}
		for i, h := range health {
			if h.Path != paths[i] {
				t.Errorf("store %d was made in %s, want %s: a process that names the paths in another order would begin elsewhere", i, h.Path, paths[i])
			}
		}
	})
}

// TestOpenWhileASetIsMade: an Open that finds one of three stores waits for the others. If nobody
// makes them, he is told soon.
func TestOpenWhileASetIsMade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths := emptyDirectories(t)
		h := register.Header{Set: machine.ID{9}, Of: 3, Term: term, Delay: delay}
		makeOne := func(i int) {
			h.Index = i
			if err := file.Init(paths[i], h, file.InitOptions{SingleHost: true}); err != nil {
				t.Error(err)
			}
		}
		makeOne(0)
		began := time.Now()
		if l, err := engine.Open(t.Context(), engine.Config{Paths: paths, Clock: oneClock()}); err == nil || time.Since(began) > 10*time.Second {
			t.Errorf("where one of three stores is: %v, %v after %v; want an error soon", l, err, time.Since(began))
		}
		time.AfterFunc(100*time.Millisecond, func() { makeOne(1); makeOne(2) })
		l, err := engine.Open(t.Context(), engine.Config{Paths: paths, Clock: oneClock()})
		if err != nil {
			t.Fatalf("the others were made a moment later: %v", err)
		}
		defer l.Close()
		if l.Header().Set != h.Set || l.Made() {
			t.Errorf("opened %+v, made %v: want the set %v, which somebody else made", l.Header(), l.Made(), h.Set)
		}
	})
}

// TestADeviceIsOpenedAgain: an Open that found one of three stores, a device, and waited for the
// others opens all again. He has let go of the device before, or he would be in his own way.
func TestADeviceIsOpenedAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths := emptyDirectories(t)
		paths[0] = filepath.Join(t.TempDir(), "device")
		if err := os.WriteFile(paths[0], make([]byte, 4<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		h := register.Header{Set: machine.ID{9}, Of: 3, Term: term, Delay: delay}
		makeOne := func(i int, o file.InitOptions) {
			h.Index, o.SingleHost = i, true
			if err := file.Init(paths[i], h, o); err != nil {
				t.Error(err)
			}
		}
		makeOne(0, file.InitOptions{Handles: 1})
		time.AfterFunc(time.Second, func() { // when the device has been opened
			makeOne(1, file.InitOptions{})
			makeOne(2, file.InitOptions{})
		})
		health, err := open(t, engine.Config{Paths: paths}).Health(t.Context(), "x")
		if err != nil || len(health) != 3 {
			t.Fatalf("%+v, %v", health, err)
		}
		for _, h := range health {
			if h.Err != nil {
				t.Errorf("of three stores that are all there %s was opened twice and cannot be used: %v", h.Path, h.Err)
			}
		}
	})
}

// hasty is a clock on which two minutes pass with each reading.
type hasty struct{ *clock.Simulated }

func (c hasty) Now() machine.Mono {
	c.Jump(2 * time.Minute)
	return c.Simulated.Now()
}

// TestOneClock: the registers go by the clock that the leases go by.
func TestOneClock(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths, spec := []string{quick(t)}, storage.Spec{Term: time.Hour, Delay: time.Minute}
		if _, err := engine.Init(t.Context(), paths, engine.Spec{Spec: spec, SingleHost: true}); err != nil {
			t.Fatal(err)
		}
		l, err := engine.Open(t.Context(), engine.Config{Paths: paths, Clock: hasty{oneClock()}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, err := l.Observe(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if l.Delay() <= spec.Delay {
			t.Errorf("an access took minutes by the clock of the leases, and δ is measured as %v", l.Delay())
		}
	})
}
