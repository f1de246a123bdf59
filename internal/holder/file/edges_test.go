package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

var brief = Spec{Spec: storage.Spec{Term: 4 * time.Second, Delay: 150 * time.Millisecond}, SingleHost: true}

// oneClock is that of a machine in simulated time.
func oneClock() *clock.Simulated { return clock.NewSimulated(machine.Mono(time.Now().UnixNano())) }

// made makes stores in directories.
func made(t *testing.T, n int) (paths []string) {
	t.Helper()
	for range n {
		paths = append(paths, t.TempDir())
	}
	if _, err := initBy(t.Context(), oneClock().Now, paths, brief); err != nil {
		t.Fatal(err)
	}
	return paths
}

// blankDevice is a file in the place of a device.
func blankDevice(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func opened(t *testing.T, cfg Config) *Leaser {
	t.Helper()
	if cfg.Clock == nil {
		cfg.Clock = oneClock()
	}
	l, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestHandlesSayTheirProcess, so that people find it.
func TestHandlesSayTheirProcess(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := opened(t, Config{Paths: made(t, 1)})
		if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); err != nil {
			t.Fatal(err)
		}
		host, err := os.Hostname()
		if err != nil {
			t.Skip(err)
		}
		n := 0
		for h, err := range l.places[0].Store.Dump() {
			if want := fmt.Sprintf("%s:%d", host, os.Getpid()); err != nil || h.Holder != want {
				t.Errorf("a handle is said to be of %q, %v; want %q", h.Holder, err, want)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%d handles, want one", n)
		}
	})
}

// TestReleasedLeasesLeaveNoFiles: the files of processes that have ended go when their leases were released.
func TestReleasedLeasesLeaveNoFiles(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths := made(t, 1)
		for i := range 5 {
			l := opened(t, Config{Paths: paths})
			lease, err := l.TryAcquire(t.Context(), tenure.Claim{Name: fmt.Sprint("x", i)})
			if err != nil {
				t.Fatal(err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		left, err := filepath.Glob(filepath.Join(paths[0], "handles", "*"))
		if err != nil || len(left) > 2 {
			t.Errorf("five processes have come and gone, and %d files are left, %v: want two at most", len(left), err)
		}
	})
}

// TestADeviceWhoseHandleDied: it takes two Terms to have its area. Open waits for that, though a
// majority is open.
func TestADeviceWhoseHandleDied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths := []string{blankDevice(t), t.TempDir(), t.TempDir()}
		h := register.Header{Set: machine.ID{9}, Of: 3, Term: brief.Term, Delay: brief.Delay}
		for i, path := range paths {
			h.Index = i
			if err := file.Init(path, h, file.InitOptions{SingleHost: true, Handles: 1 - min(i, 1)}); err != nil {
				t.Fatal(err)
			}
		}
		dying := opened(t, Config{Paths: paths})
		b, err := os.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := dying.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(paths[0], b, 0o600); err != nil { // as if it had not been closed
			t.Fatal(err)
		}
		health, err := opened(t, Config{Paths: paths}).Health(t.Context(), "x")
		if err != nil || len(health) != 3 {
			t.Fatal(health, err)
		}
		for _, h := range health {
			if h.Err != nil {
				t.Errorf("the handle of a device died, and Open did not wait for its area: %s: %v", h.Path, h.Err)
			}
		}
	})
}

// TestOpenGivesUpWithItsContext: a store that has not answered by then is said to be silent.
func TestOpenGivesUpWithItsContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		hangs := make(chan struct{})
		began := time.Now()
		found := openAllBy(ctx, []string{"/a", "/b"}, func(path string) finding {
			<-hangs
			return finding{path: path, err: fs.ErrNotExist}
		})
		if took := time.Since(began); took != time.Second {
			t.Errorf("it gave up after %v, with a context of a second", took)
		}
		for i, path := range []string{"/a", "/b"} {
			if found[i].path != path || !errors.Is(found[i].err, errSilent) || !strings.Contains(found[i].err.Error(), path) {
				t.Errorf("path %d: %+v, want that %s does not answer", i, found[i], path)
			}
		}
		close(hangs)
		synctest.Wait()
	})
}

// TestASetThatIsNeverMade: a process that came second is told which store is missing, when the
// first has not made it for some seconds, or at the end of its context.
func TestASetThatIsNeverMade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		for _, path := range []string{a, b} {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		h := register.Header{Set: machine.ID{9}, Of: 2, Term: brief.Term, Delay: brief.Delay}
		if err := file.Init(a, h, file.InitOptions{SingleHost: true}); err != nil {
			t.Fatal(err)
		}
		cfg := Config{Paths: []string{b, a}, SingleHost: true, Clock: oneClock()}
		far, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := makeAll(far, cfg)
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), b+" is still empty") || took < grace || took > 2*grace {
			t.Errorf("a set of which one store is missing: %v after %v, want that %s is still empty, after %v", err, took, b, grace)
		}
		over, cancel := context.WithTimeout(t.Context(), grace/2)
		defer cancel()
		if err := makeAll(over, cfg); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when its context ends first: %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// TestInitRefuses paths that make no set, before anything is made.
func TestInitRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		paths []string
		says  string
	}{
		{nil, "no path is given"},
		{[]string{"leases"}, "not absolute"},
		{[]string{dir, dir}, "given twice"},
		{[]string{dir, filepath.Join(dir, "none")}, "make the directory first"},
	} {
		if _, err := Init(t.Context(), c.paths, brief); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Init of %q: %v, want one that says %q", c.paths, err, c.says)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Init(over, []string{dir}, Spec{SingleHost: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("Init when its context has ended: %v, want %v", err, context.Canceled)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("an Init that was refused left %v, %v", left, err)
	}
	if _, err := Measure(t.Context(), filepath.Join(dir, "none"), true, 1, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Measure where nothing is: %v", err)
	}
}

// TestDelaysThatAreChosen: a device is not measured, and no δ is shorter than a busy machine keeps.
func TestDelaysThatAreChosen(t *testing.T) {
	spec := Spec{Spec: storage.Spec{Term: 4 * time.Second}, SingleHost: true, Handles: 2}
	if h, err := Init(t.Context(), []string{blankDevice(t)}, spec); err != nil || h.Delay != 50*time.Millisecond {
		t.Errorf("of a device: %+v, %v; want a δ of 50ms", h, err)
	}
	standing := func() machine.Mono { return 1 }
	spec.Handles = 0
	if h, err := initBy(t.Context(), standing, []string{t.TempDir()}, spec); err != nil || h.Delay != storage.LeastDelay {
		t.Errorf("of a directory that takes no time: %+v, %v; want a δ of %v", h, err, storage.LeastDelay)
	}
	if d := Quantile(nil, 0.999); d != 0 {
		t.Errorf("of no accesses: %v", d)
	}
	some := []time.Duration{1, 2, 3, 4}
	for q, want := range map[float64]time.Duration{0: 1, 0.25: 2, 0.5: 3, 0.999: 4, 1: 4} {
		if got := Quantile(some, q); got != want {
			t.Errorf("the part %v of %v takes %v, want %v", q, some, got, want)
		}
	}
}

// TestStateIsKept where the configuration says, or else where users expect it.
func TestStateIsKept(t *testing.T) {
	for _, given := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			usual, own := t.TempDir(), t.TempDir()
			t.Setenv("XDG_STATE_HOME", usual)
			cfg := Config{Paths: made(t, 1)}
			want := filepath.Join(usual, "tenure")
			if given {
				cfg.State, want = own, own
			}
			if _, err := opened(t, cfg).TryAcquire(t.Context(), tenure.Claim{Name: "x"}); err != nil {
				t.Fatal(err)
			}
			if _, err := opened(t, cfg).TryAcquire(t.Context(), tenure.Claim{Name: "x"}); !errors.As(err, new(tenure.HeldError)) {
				t.Fatal(err)
			}
			for _, dir := range []string{filepath.Join(usual, "tenure"), own} {
				left, err := filepath.Glob(filepath.Join(dir, "witness", "*"))
				if n := len(left); err != nil || (n == 1) != (dir == want) {
					t.Errorf("a directory is given, %v: %d files below %s, %v; want one below %s", given, n, dir, err, want)
				}
			}
		})
	}
}

// TestStoresGoByTheClockThatIsGiven: whether a header is looked at again is a matter of time.
func TestStoresGoByTheClockThatIsGiven(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := oneClock()
		paths := made(t, 1)
		l := opened(t, Config{Paths: paths, Clock: c})
		if _, err := l.Observe(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(paths[0], "TENURE")); err != nil {
			t.Fatal(err)
		}
		c.Jump(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Observe(ctx, "x"); !errors.Is(err, register.ErrGone) {
			t.Errorf("the header went an hour ago, by the clock that was given: %v, want %v", err, register.ErrGone)
		}
	})
}

// TestHealthTellsStoresOfOneHost from those that hosts share.
func TestHealthTellsStoresOfOneHost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, single := range []bool{false, true} {
			path := blankDevice(t)
			spec := brief
			spec.SingleHost, spec.Handles = single, 1
			if _, err := Init(t.Context(), []string{path}, spec); err != nil {
				if !single {
					t.Log(err) // there is no direct I/O here
					continue
				}
				t.Fatal(err)
			}
			all, err := opened(t, Config{Paths: []string{path}}).Health(t.Context(), "x")
			if err != nil || len(all) != 1 || all[0].Err != nil || all[0].SingleHost != single || all[0].Path != path {
				t.Errorf("made for one host, %v: %+v, %v", single, all, err)
			}
		}
	})
}

// TestHealthTellsDamagedHeaders of handles, and names them.
func TestHealthTellsDamagedHeaders(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := opened(t, Config{Paths: made(t, 1)})
		if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); err != nil {
			t.Fatal(err)
		}
		handles, err := filepath.Glob(filepath.Join(l.places[0].Name, "handles", "*"))
		if err != nil || len(handles) != 1 {
			t.Fatal(handles, err)
		}
		b, err := os.ReadFile(handles[0])
		if err != nil {
			t.Fatal(err)
		}
		stray := filepath.Join(filepath.Dir(handles[0]), strings.Repeat("a", 32))
		if err := os.WriteFile(stray, bytes.Repeat([]byte("x"), len(b)), 0o600); err != nil {
			t.Fatal(err)
		}
		var h Health
		h.inspect(t.Context(), l.places[0].Store)
		if h.Err != nil || h.Handles != 2 || len(h.Damage) == 0 || !strings.HasPrefix(h.Damage[0], "handle "+strings.Repeat("a", 32)+": ") {
			t.Errorf("a handle's header is damaged: %+v, want to be told", h)
		}
	})
}
