package fence

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestStores(t *testing.T) {
	for name, store := range map[string]Store{
		"memory": &Memory{},
		"file":   File{filepath.Join(t.TempDir(), "token")},
	} {
		t.Run(name, func(t *testing.T) {
			for _, step := range []struct {
				token uint64
				want  error
			}{
				{0, ErrNoToken}, {5, nil}, {5, nil}, {4, ErrStale}, {5, nil}, {7, nil}, {5, ErrStale}, {0, ErrNoToken}, {1<<64 - 1, nil}, {7, ErrStale},
			} {
				called := false
				err := store.Do(step.token, func() error { called = true; return nil })
				if !errors.Is(err, step.want) || called != (step.want == nil) {
					t.Errorf("token %d: got %v, called is %v; want %v", step.token, err, called, step.want)
				}
			}
			failure := errors.New("failure")
			if err := store.Do(1<<64-1, func() error { return failure }); err != failure {
				t.Errorf("got %v, want the write's own error", err)
			}
		})
	}
}

// TestStoresNeverGoBack: writes arrive in any order, and are done in the tokens'.
func TestStoresNeverGoBack(t *testing.T) {
	for name, store := range map[string]Store{
		"memory": &Memory{},
		"file":   File{filepath.Join(t.TempDir(), "token")},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var last uint64
			done := 0
			var all sync.WaitGroup
			for i := range uint64(200) {
				token := (i*7919)%50 + 1
				all.Go(func() {
					err := store.Do(token, func() error {
						mu.Lock()
						defer mu.Unlock()
						if token < last {
							t.Errorf("token %d writes after %d", token, last)
						}
						last = token
						done++
						return nil
					})
					if err != nil && !errors.Is(err, ErrStale) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if last != 50 || done < 4 {
				t.Errorf("%d writes, the last with token %d; want token 50 in the end", done, last)
			}
		})
	}
}

// TestStoresOutliveAPanic: a write that panics, from which servers recover, keeps no newer token out.
func TestStoresOutliveAPanic(t *testing.T) {
	for name, store := range map[string]Store{
		"memory": &Memory{},
		"file":   File{filepath.Join(t.TempDir(), "token")},
	} {
		func() {
			defer func() { _ = recover() }()
			_ = store.Do(1, func() error { panic("the write fails") })
			t.Errorf("%s: the panic of a write is swallowed", name)
		}()
		done := make(chan error, 1)
		go func() { done <- store.Do(2, func() error { return nil }) }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: token 2 after the panic: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: a write under token 1 has panicked, and keeps token 2 out", name)
		}
	}
}

// TestFileExcludes: the lock keeps everybody else out, in this process and in others.
func TestFileExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	tryLock := func() error {
		other, err := os.Open(path + ".lock")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		return unix.Flock(int(other.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	}
	err := (File{path}).Do(1, func() error {
		if err := tryLock(); err != unix.EWOULDBLOCK {
			t.Errorf("another process that locks during a write: got %v, want that it has to wait", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tryLock(); err != nil {
		t.Errorf("another process that locks after the write: got %v, want the lock", err)
	}
}

// TestMemoryWaitsForWrites: a newer token waits for the writes under way.
func TestMemoryWaitsForWrites(t *testing.T) {
	var m Memory
	newer, done := make(chan struct{}), make(chan struct{})
	err := m.Do(1, func() error {
		go func() {
			defer close(done)
			if err := m.Do(2, func() error { close(newer); return nil }); err != nil {
				t.Error(err)
			}
		}()
		for m.writing.TryRLock() { // until the newer one waits
			m.writing.RUnlock()
			if closed(newer) {
				t.Error("token 2 is let in during a write under token 1")
				return nil
			}
			runtime.Gosched()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-done
}

// TestMemoryChecksInOrder: between the look at the highest token and the beginning of the write nobody else can
// raise it, or the older write begins after the newer token was let in.
func TestMemoryChecksInOrder(t *testing.T) {
	m := Memory{highest: 1}
	m.writing.Lock() // the write cannot begin
	done := make(chan error)
	go func() { done <- m.Do(1, func() error { return nil }) }()
	waits := func() bool {
		stacks := make([]byte, 1<<20)
		return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("[sync.RWMutex.RLock"))
	}
	for began := time.Now(); !waits(); runtime.Gosched() {
		if time.Since(began) > 30*time.Second {
			t.Fatal("nobody waits to begin a write")
		}
	}
	if m.order.TryLock() {
		t.Error("token 1 was checked and its write has not begun, and a newer token may be let in")
		m.order.Unlock()
	}
	m.writing.Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestFileOutlivesTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := (File{path}).Check(41); err != nil {
		t.Fatal(err)
	}
	// A crash before the rename leaves a half-written next file.
	if err := os.WriteFile(path+".next", []byte("9"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := File{path}
	if got, err := (ledger{f.Path, host{}}).highest(); got != 41 || err != nil {
		t.Errorf("highest is %d, %v; want 41", got, err)
	}
	if err := f.Check(40); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "40, but 41 was seen") {
		t.Errorf("got %v, want it stale, with both tokens", err)
	}
	if err := f.Check(42); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); string(b) != "42\n" || err != nil {
		t.Errorf("the file holds %q, %v; want 42", b, err)
	}
}

func TestFileDamaged(t *testing.T) {
	for _, text := range []string{"", "12", "x\n", "-1\n", "1 2\n", "18446744073709551616\n"} {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		// To begin anew would let everybody in.
		if err := (File{path}).Check(99); err == nil || errors.Is(err, ErrStale) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v, want an error that names the file", text, err)
		}
	}
}

// TestFileWithoutADirectory: the error says which path is wrong, and why.
func TestFileWithoutADirectory(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for path, err := range map[string]error{
		filepath.Join(none, "token.lock"): (File{filepath.Join(none, "token")}).Check(1),
		none:                              host{}.syncDir(none),
	} {
		var at *fs.PathError
		if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &at) || at.Path != path {
			t.Errorf("%s is not there: got %v, want %v with the path", path, err, fs.ErrNotExist)
		}
	}
}
