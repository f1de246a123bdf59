package file_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/host/register/registertest"
	"github.com/tenure-lease/tenure/internal/machine"
)

// now is enough of a clock for a test: nobody suspends the machine. It may be simulated time.
func now() machine.Mono { return machine.Mono(time.Now().UnixNano()) }

func header(n, i int) register.Header {
	return register.Header{Set: machine.ID{7}, Of: n, Index: i, Term: 10 * time.Second, Delay: 20 * time.Millisecond, Drift: 200}
}

func TestConformance(t *testing.T) {
	for _, n := range []int{1, 3} {
		for _, single := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/single-host=%v", n, single), func(t *testing.T) {
				registertest.Run(t, func(t *testing.T) registertest.Fixture { return directories(t, n, single) })
			})
		}
	}
}

func directories(t *testing.T, n int, single bool) registertest.Fixture {
	var dirs []string
	for i := range n {
		dirs = append(dirs, t.TempDir())
		if err := file.Init(dirs[i], header(n, i), file.InitOptions{SingleHost: single}); err != nil {
			t.Fatal(err)
		}
	}
	return registertest.Fixture{
		Open:   func() ([]register.Store, error) { return open(dirs) },
		Backup: func(i int) func() { return backup(t, filepath.Join(dirs[i], "handles")) },
	}
}

func open(paths []string) ([]register.Store, error) {
	stores, errs := make([]register.Store, len(paths)), make([]error, len(paths))
	var all sync.WaitGroup
	for i, p := range paths {
		all.Go(func() { stores[i], errs[i] = file.Open(p, file.Options{Clock: now}) })
	}
	all.Wait()
	return stores, errors.Join(errs...)
}

// backup copies all files. An operator must not put them back, and this test does. Handles come
// while it copies. Their files are renamed into place under its hands, and a file that is gone by
// then is not in the copy.
func backup(t *testing.T, dir string) (restore func()) {
	aside := t.TempDir()
	copied := filepath.Join(aside, "handles")
	if err := os.Mkdir(copied, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, e.Name()), content, 0o666)
		}
		if err != nil {
			t.Error(err)
		}
	}
	return func() {
		if err := os.Rename(dir, filepath.Join(aside, "lost")); err != nil {
			t.Error(err)
		}
		if err := os.Rename(copied, dir); err != nil {
			t.Error(err)
		}
	}
}

// TestDeviceConformance uses preallocated files: one, and one beside two directories.
func TestDeviceConformance(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			registertest.Simulate(t, func(t *testing.T) registertest.Fixture {
				paths := []string{device(t, header(n, 0))}
				for i := 1; i < n; i++ {
					paths = append(paths, t.TempDir())
					if err := file.Init(paths[i], header(n, i), file.InitOptions{SingleHost: true}); err != nil {
						t.Fatal(err)
					}
				}
				return registertest.Fixture{Open: func() ([]register.Store, error) { return open(paths) }}
			})
		})
	}
}

func device(t *testing.T, h register.Header) string {
	path := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(path, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := file.Init(path, h, file.InitOptions{Handles: 8, Slots: 110}); err != nil {
		t.Fatal(err)
	}
	return path
}
