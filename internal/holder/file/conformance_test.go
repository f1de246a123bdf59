package file_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/leasetest"
)

// Leases of stores on a filesystem that takes no time: it is simulated.
const (
	term  = 4 * time.Second
	delay = 150 * time.Millisecond
)

func TestConformance(t *testing.T) {
	leasetest.Simulate(t, func(t testing.TB) leasetest.Fixture { return fixture(t, 1, false) })
}

// TestConformanceOfThree has a directory of three missing for every Leaser, a different one
// for each.
func TestConformanceOfThree(t *testing.T) {
	leasetest.Simulate(t, func(t testing.TB) leasetest.Fixture { return fixture(t, 3, true) })
}

// quick is a directory of a filesystem without a disk, if there is one: the suite syncs
// thousands of files.
func quick(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "tenure")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// oneClock is the clock of a machine in simulated time: all that are made read the same.
func oneClock() *clock.Simulated { return clock.NewSimulated(machine.Mono(time.Now().UnixNano())) }

// directories makes a set of stores.
func directories(t testing.TB, n int) (paths []string) {
	dir := quick(t)
	for i := range n {
		path := filepath.Join(dir, strconv.Itoa(i))
		mkdir(t, path)
		paths = append(paths, path)
	}
	if _, err := engine.Init(t.Context(), paths, engine.Spec{Spec: storage.Spec{Term: term, Delay: delay}, SingleHost: true}); err != nil {
		t.Fatal(err)
	}
	return paths
}

// fixture cuts a Leaser off by having all its stores hang.
func fixture(t testing.TB, n int, lame bool) leasetest.Fixture {
	paths := directories(t, n)
	var mu sync.Mutex
	faults, clocks := map[tenure.Leaser][]*register.Faults{}, map[tenure.Leaser]*clock.Simulated{}
	each := func(l tenure.Leaser, f func(*register.Faults)) {
		mu.Lock()
		defer mu.Unlock()
		for _, one := range faults[l] {
			f(one)
		}
	}
	return leasetest.Fixture{
		TTL: term,
		Open: func() (tenure.Leaser, error) {
			mu.Lock()
			defer mu.Unlock()
			mine := slices.Clone(paths)
			if lame {
				one := len(faults) % len(mine)
				mine = slices.Delete(mine, one, one+1)
			}
			var stores []register.Store
			var fs []*register.Faults
			for _, path := range mine {
				s, err := file.Open(path, file.Options{
					Clock:    oneClock().Now,
					Obsolete: func(_ string, v machine.Value, writer machine.ID) bool { return storage.Obsolete(v, writer) },
				})
				if err != nil {
					return nil, err
				}
				f := &register.Faults{Store: s}
				stores, fs = append(stores, f), append(fs, f)
			}
			c := oneClock()
			set, err := register.NewSetBy(c.Now, stores)
			if err != nil {
				return nil, err
			}
			l := storage.New(set, storage.Options{Clock: c})
			faults[l], clocks[l] = fs, c
			return l, nil
		},
		Cut:     func(l tenure.Leaser) { each(l, (*register.Faults).Hang) },
		Heal:    func(l tenure.Leaser) { each(l, (*register.Faults).Heal) },
		Restart: func() error { return context.Cause(t.Context()) }, // files on disk stay
		Crash:   func() error { return context.Cause(t.Context()) },
		Suspend: func(l tenure.Leaser, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			clocks[l].Jump(d)
		},
	}
}
