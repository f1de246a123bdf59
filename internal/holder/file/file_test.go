package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

func mkdir(t testing.TB, path string) string {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, cfg engine.Config) *engine.Leaser {
	t.Helper()
	cfg.Clock = oneClock()
	l, err := engine.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func hold(t testing.TB, l tenure.Leaser, name string) tenure.Lease {
	t.Helper()
	lease, err := l.TryAcquire(t.Context(), tenure.Claim{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// TestAnEmptyDirectory becomes a store for the first process, with a lease at once.
func TestAnEmptyDirectory(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg := engine.Config{Paths: []string{t.TempDir()}, SingleHost: true}
		if _, err := engine.Open(t.Context(), engine.Config{Paths: cfg.Paths, Existing: true}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open where none may be made: %v, want %v", err, fs.ErrNotExist)
		}
		l := open(t, cfg)
		if h := l.Header(); h.Term != tenure.DefaultTTL || h.Delay < 5*time.Millisecond || h.Delay > time.Second || h.Drift != 1000 || !l.Made() {
			t.Errorf("made %v with %+v, want leases of %v", l.Made(), h, tenure.DefaultTTL)
		}
		began := time.Now()
		lease := hold(t, l, "x")
		if d := time.Since(began); d > time.Second {
			t.Errorf("a free lease took %v", d)
		}
		again := open(t, cfg)
		if again.Made() || again.Header() != l.Header() {
			t.Errorf("opened again: made %v, with %+v, want %+v", again.Made(), again.Header(), l.Header())
		}
		if _, err := again.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); !errors.As(err, new(tenure.HeldError)) {
			t.Errorf("%v, want it held", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestManyFirsts: processes that open empty directories at once use one set.
func TestManyFirsts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, n := range []int{1, 3} {
			dir := t.TempDir()
			cfg := engine.Config{SingleHost: true}
			for i := range n {
				cfg.Paths = append(cfg.Paths, mkdir(t, filepath.Join(dir, string(rune('a'+i)))))
			}
			var all sync.WaitGroup
			headers := make([]register.Header, 8)
			for i := range headers {
				all.Go(func() { headers[i] = open(t, cfg).Header() })
			}
			all.Wait()
			for i, h := range headers {
				if h != headers[0] {
					t.Errorf("of %d stores: number %d has %+v, number 0 %+v", n, i, h, headers[0])
				}
			}
		}
	})
}

// TestAMinorityIsMissing: two of three do, whichever, and in any order.
func TestAMinorityIsMissing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths := directories(t, 3)
		lease := hold(t, open(t, engine.Config{Paths: paths}), "x")
		if err := os.Rename(paths[1], paths[1]+".away"); err != nil {
			t.Fatal(err)
		}
		l := open(t, engine.Config{Paths: []string{paths[2], paths[1], paths[0]}})
		if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); !errors.As(err, new(tenure.HeldError)) {
			t.Errorf("%v, want it held", err)
		}
		hold(t, l, "y")
		time.Sleep(term + term/2)
		if err := lease.Check(); err != nil {
			t.Errorf("a holder from before: %v", err)
		}
		health, err := l.Health(t.Context(), "x")
		if err != nil || len(health) != 3 {
			t.Fatalf("%+v, %v", health, err)
		}
		for i, h := range health {
			if h.Path != paths[i] || errors.Is(h.Err, fs.ErrNotExist) != (i == 1) || h.Handles == 0 != (i == 1) || len(h.Damage) > 0 {
				t.Errorf("store %d: %+v", i, h)
			}
		}
		if err := os.Rename(paths[0], paths[0]+".away"); err != nil {
			t.Fatal(err)
		}
		_, err = engine.Open(t.Context(), engine.Config{Paths: paths})
		if err == nil || !strings.Contains(err.Error(), "1 of 3 stores can be used") {
			t.Errorf("with one of three: %v", err)
		}
	})
}

func TestRefusals(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		junk := mkdir(t, filepath.Join(dir, "junk"))
		if err := os.WriteFile(filepath.Join(junk, "thesis.txt"), []byte("…"), 0o600); err != nil {
			t.Fatal(err)
		}
		three := directories(t, 3)
		other := directories(t, 3)
		for _, c := range []struct {
			paths []string
			is    error
			says  string
		}{
			{nil, nil, "no path is given"},
			{[]string{"leases"}, nil, "not absolute"},
			{[]string{dir, dir}, nil, "given twice"},
			{[]string{dir, junk, dir}, nil, "given twice"},
			{[]string{filepath.Join(dir, "none")}, fs.ErrNotExist, "make the directory first"},
			{[]string{junk}, register.ErrForeign, "thesis.txt"},
			{[]string{filepath.Join(junk, "thesis.txt")}, register.ErrForeign, "thesis.txt"},
			{three[:2], register.ErrMismatch, "one of a set of 3, and 2 paths are given"},
			{[]string{three[0], three[1], other[2]}, register.ErrMismatch, "different sets"},
		} {
			l, err := engine.Open(t.Context(), engine.Config{Paths: c.paths})
			if err == nil {
				l.Close()
			}
			if c.is != nil && !errors.Is(err, c.is) || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q: %v, want %v that says %q", c.paths, err, c.is, c.says)
			}
		}
		if left, err := os.ReadDir(junk); err != nil || len(left) != 1 {
			t.Errorf("what is not ours was touched: %v, %v", left, err)
		}
	})
}

func TestInit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a, b := mkdir(t, filepath.Join(dir, "a")), mkdir(t, filepath.Join(dir, "b"))
		if err := os.WriteFile(filepath.Join(b, "x"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := engine.Init(t.Context(), []string{a, b}, engine.Spec{SingleHost: true}); !errors.Is(err, register.ErrForeign) {
			t.Errorf("where something is: %v, want %v", err, register.ErrForeign)
		}
		if left, _ := os.ReadDir(a); len(left) > 0 {
			t.Errorf("half of a set was made: %v", left)
		}
		if _, err := engine.Init(t.Context(), []string{a}, engine.Spec{Spec: storage.Spec{Term: time.Second, Delay: time.Second}, SingleHost: true}); err == nil || !strings.Contains(err.Error(), "at least 12s") {
			t.Errorf("a Term of δ: %v", err)
		}
		h, err := engine.Init(t.Context(), []string{a}, engine.Spec{Spec: storage.Spec{Term: time.Minute}, SingleHost: true})
		if err != nil || h.Term != time.Minute || h.Delay < 5*time.Millisecond {
			t.Errorf("%+v, %v", h, err)
		}
		if _, err := engine.Init(t.Context(), []string{a}, engine.Spec{SingleHost: true}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a second time: %v, want %v", err, fs.ErrExist)
		}
		if left, _ := filepath.Glob(filepath.Join(a, "*.new")); len(left) > 0 {
			t.Errorf("the measurement left %v", left)
		}
	})
}

// TestLooking needs no right to write, makes nothing, and sees the holder.
func TestLooking(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		if _, err := engine.Open(t.Context(), engine.Config{Paths: []string{t.TempDir()}, ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("where nothing is: %v, want %v", err, fs.ErrNotExist)
		}
		paths := directories(t, 1)
		lease := hold(t, open(t, engine.Config{Paths: paths}), "x")
		l := open(t, engine.Config{Paths: paths, ReadOnly: true})
		s, err := l.Observe(t.Context(), "x")
		if err != nil || len(s.Holders) != 1 || s.Holders[0].Token != lease.Token() {
			t.Errorf("%+v, %v: want token %d", s, err, lease.Token())
		}
		if names, err := l.List(t.Context(), ""); err != nil || len(names) != 1 {
			t.Errorf("%q, %v: want one name", names, err)
		}
		if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "y"}); !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("to acquire: %v, want %v", err, tenure.ErrUnavailable)
		}
	})
}

// TestADevice: a file in its place will do.
func TestADevice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "device")
		if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := engine.Init(t.Context(), []string{path}, engine.Spec{Spec: storage.Spec{Term: term, Delay: delay}, SingleHost: true, Handles: 4}); err != nil {
			t.Fatal(err)
		}
		l, m := open(t, engine.Config{Paths: []string{path}}), open(t, engine.Config{Paths: []string{path}})
		lease := hold(t, l, "x")
		if _, err := m.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); !errors.As(err, new(tenure.HeldError)) {
			t.Errorf("%v, want it held", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		hold(t, m, "x")
	})
}

// TestInitOfSeveralDevices: if one of them is no place for a store none is made on any.
func TestInitOfSeveralDevices(t *testing.T) {
	dir := t.TempDir()
	good, small, used := filepath.Join(dir, "good"), filepath.Join(dir, "small"), filepath.Join(dir, "used")
	for path, content := range map[string][]byte{good: make([]byte, 4<<20), small: make([]byte, 8<<10), used: bytes.Repeat([]byte("x"), 4<<20)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec := engine.Spec{Spec: storage.Spec{Term: term, Delay: delay}, SingleHost: true, Handles: 4}
	for _, bad := range []string{small, used} {
		if _, err := engine.Init(t.Context(), []string{good, bad}, spec); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("beside %s: %v", bad, err)
		}
		if _, _, err := file.Find(good); !errors.Is(err, register.ErrForeign) {
			t.Fatalf("half of a set was made, beside %s: Find returns %v", bad, err)
		}
	}
	if _, err := engine.Init(t.Context(), []string{good}, spec); err != nil {
		t.Errorf("the good one alone: %v", err)
	}
}

// TestAnEmptiedDirectory: one store of a set has lost its contents. It counts as missing, and nothing is
// made in its place.
func TestAnEmptiedDirectory(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths := directories(t, 3)
		if err := os.RemoveAll(paths[1]); err != nil {
			t.Fatal(err)
		}
		mkdir(t, paths[1])
		l, err := engine.Open(t.Context(), engine.Config{Paths: paths, Clock: oneClock()})
		if err != nil {
			t.Fatalf("one of three stores was emptied, and the others are of no use: %v", err)
		}
		defer l.Close()
		hold(t, l, "x")
		if left, err := os.ReadDir(paths[1]); err != nil || len(left) > 0 {
			t.Errorf("something was made in the place of what was lost: %v, %v", left, err)
		}
	})
}

// TestHealthOfAHandle: one that was closed is in use no more, and damage to it is told.
func TestHealthOfAHandle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		paths := directories(t, 1)
		l, looking := open(t, engine.Config{Paths: paths}), open(t, engine.Config{Paths: paths, ReadOnly: true})
		hold(t, l, "x")
		health := func() engine.Health {
			t.Helper()
			all, err := looking.Health(t.Context(), "x")
			if err != nil || len(all) != 1 || all[0].Err != nil {
				t.Fatalf("%+v, %v", all, err)
			}
			return all[0]
		}
		if h := health(); h.Handles != 1 || len(h.Damage) > 0 {
			t.Errorf("while it is open: %+v, want one handle", h)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if h := health(); h.Handles != 0 || len(h.Damage) > 0 {
			t.Errorf("after Close: %+v, want no handle in use", h)
		}
		left, err := filepath.Glob(filepath.Join(paths[0], "handles", "*"))
		if err != nil || len(left) != 1 {
			t.Fatal(left, err)
		}
		b, err := os.ReadFile(left[0])
		if err != nil {
			t.Fatal(err)
		}
		copy(b[len(b)-100:], "somebody scribbled here")
		if err := os.WriteFile(left[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		if h := health(); len(h.Damage) != 1 {
			t.Errorf("a slot is damaged: %+v, want to be told", h)
		}
	})
}

// TestAFailedOpenLetsGo: the only area of a device can be had after an Open that took it and failed.
func TestAFailedOpenLetsGo(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "device")
		if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := engine.Init(t.Context(), []string{path}, engine.Spec{Spec: storage.Spec{Term: term, Delay: delay}, SingleHost: true, Handles: 1}); err != nil {
			t.Fatal(err)
		}
		more := []string{path, filepath.Join(dir, "a"), filepath.Join(dir, "b")}
		if _, err := engine.Open(t.Context(), engine.Config{Paths: more, Clock: oneClock()}); !errors.Is(err, register.ErrMismatch) {
			t.Fatalf("with two paths too many: %v, want %v", err, register.ErrMismatch)
		}
		l, err := engine.Open(t.Context(), engine.Config{Paths: []string{path}, Clock: oneClock()})
		if err != nil {
			t.Fatalf("an Open that failed keeps the device: %v", err)
		}
		l.Close()
	})
}

// TestOneHangs: Open does not wait for a store that hangs when a majority is open.
func TestOneHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"a", "b", "c"} {
		paths = append(paths, mkdir(t, filepath.Join(dir, name)))
	}
	spec := engine.Spec{Spec: storage.Spec{Term: 240 * time.Millisecond, Delay: 20 * time.Millisecond}, SingleHost: true}
	if _, err := engine.Init(t.Context(), paths, spec); err != nil {
		t.Fatal(err)
	}
	header := filepath.Join(paths[1], "TENURE")
	if err := os.Remove(header); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(header, 0o600); err != nil { // an Open of it hangs
		t.Fatal(err)
	}
	defer func() { // until somebody writes
		if f, err := os.OpenFile(header, os.O_RDWR, 0); err == nil {
			f.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	l, err := engine.Open(ctx, engine.Config{Paths: paths})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ctx.Err() != nil {
		t.Error("Open waited for a store that hangs until its caller gave up")
	}
}

// contents returns the contents of all files below a directory.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %q\n", path, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestMeasure(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		done, dir, states := 0, t.TempDir(), map[string]bool{}
		times, err := engine.Measure(t.Context(), dir, true, 20, func(n int) {
			done = n
			states[contents(t, dir)] = true
		})
		if len(states) != 20 {
			t.Errorf("20 writes have left %d states of the directory: some have changed nothing, and took no time", len(states))
		}
		if err != nil || done != 20 || len(times.Read) != 20 || len(times.Write) != 20 || len(times.Both) != 20 {
			t.Fatalf("%d done, %d reads, %d writes, %v", done, len(times.Read), len(times.Write), err)
		}
		if d := times.Delay(); d != 2*times.Both[19] {
			t.Errorf("δ = %v, want twice %v", d, times.Both[19])
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := engine.Measure(over, t.TempDir(), true, 20, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("broken off: %v", err)
		}
	})
}
