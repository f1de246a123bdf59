package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/file"
)

var spec = func() (s file.Spec) {
	s.TTL, s.Delay, s.SingleHost = 400*time.Millisecond, 3*time.Millisecond, true
	return s
}()

const (
	dirsVariable = "LOCKWORD_TEST_DIRS" // makes the test's program a worker
	updates      = 12                   // of each worker on each volume
	files        = 3
)

func TestMain(m *testing.M) {
	if dirs := os.Getenv(dirsVariable); dirs != "" {
		err := run(context.Background(), filepath.SplitList(dirs), updates, files, spec, func(dir string, err error) {
			switch {
			case err == nil:
				fmt.Println("made", filepath.Base(dir))
			case errors.Is(err, tenure.ErrLost):
				fmt.Println("perhaps", filepath.Base(dir))
			}
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// tally counts what workers tell: "made vol1" by the first worker is "0 made vol1".
type tally struct {
	mu     sync.Mutex
	counts map[string]int
	more   chan struct{} // closed and replaced whenever there is more
}

func (y *tally) read(worker int, out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		y.mu.Lock()
		y.counts[fmt.Sprint(worker, " ", lines.Text())]++
		close(y.more)
		y.more = make(chan struct{})
		y.mu.Unlock()
	}
}

func (y *tally) of(told string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.counts[told]
}

// await waits until it was told so many times.
func (y *tally) await(t *testing.T, told string, n int) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		y.mu.Lock()
		got, more := y.counts[told], y.more
		y.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("%q was told %d times in a minute, want %d", told, got, n)
		}
	}
}

// TestVolumes: one of three workers is killed, and one of two volumes is away for a while.
// The work on the other goes on, and in the end the files count what was told.
func TestVolumes(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	base := t.TempDir()
	dirs := []string{filepath.Join(base, "vol1"), filepath.Join(base, "vol2")}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	told := &tally{counts: map[string]int{}, more: make(chan struct{})}
	var workers []*exec.Cmd
	ends := make([]chan error, 3)
	for i := range ends {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), dirsVariable+"="+strings.Join(dirs, string(filepath.ListSeparator)))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		workers, ends[i] = append(workers, cmd), make(chan error, 1)
		go func() {
			told.read(i, out)
			ends[i] <- cmd.Wait()
		}()
	}

	told.await(t, "0 made vol1", 2)
	told.await(t, "0 made vol2", 2)
	told.await(t, "1 made vol2", 1) // a volume that is away cannot be opened
	told.await(t, "2 made vol2", 1)
	if err := workers[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dirs[1], dirs[1]+" is away"); err != nil {
		t.Fatal(err)
	}
	told.await(t, "1 made vol1", updates)
	told.await(t, "2 made vol1", updates)
	if err := os.Rename(dirs[1]+" is away", dirs[1]); err != nil {
		t.Fatal(err)
	}
	for i, end := range ends {
		select {
		case err := <-end:
			if (err != nil) != (i == 0) {
				t.Errorf("worker %d ended with %v", i, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("worker %d has not ended; of vol2 it made %d", i, told.of(fmt.Sprint(i, " made vol2")))
		}
	}

	for _, dir := range dirs {
		v, err := OpenVolume(t.Context(), dir, spec)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		sum, made, perhaps := 0, 0, 1 // the file that the killed one was at
		for i := range files {
			text, err := v.Read(fmt.Sprintf("file%d", i))
			if err != nil {
				t.Fatal(err)
			}
			if len(text) > 0 {
				n, err := strconv.Atoi(strings.TrimSpace(string(text)))
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
		for i := range workers {
			made += told.of(fmt.Sprint(i, " made ", filepath.Base(dir)))
			perhaps += told.of(fmt.Sprint(i, " perhaps ", filepath.Base(dir)))
		}
		if sum < made || sum > made+perhaps {
			t.Errorf("the files of %s count %d, want %d, and %d more at most", dir, sum, made, perhaps)
		}
	}
}

// TestLate: a writer that was paused until the lock was another's writes data that nobody
// reads.
func TestLate(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	v, err := OpenVolume(t.Context(), t.TempDir(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	put := func(text string) func([]byte) ([]byte, error) {
		return func([]byte) ([]byte, error) { return []byte(text), nil }
	}
	for _, text := range []string{"one", "two"} {
		if err := v.Update(t.Context(), "f", put(text)); err != nil {
			t.Fatal(err)
		}
	}
	_, token, err := v.read("f")
	if err != nil {
		t.Fatal(err)
	}
	if err := v.write("f", token-1, []byte("late")); err != nil {
		t.Fatal(err)
	}
	if text, err := v.Read("f"); string(text) != "two" || err != nil {
		t.Errorf("read %q, %v, want what was written under the greater token", text, err)
	}
	if err := v.Update(t.Context(), "f", put("three")); err != nil {
		t.Fatal(err)
	}
	if tokens, err := v.tokens("f"); len(tokens) != 1 || err != nil {
		t.Errorf("files under tokens %d are left, %v, want one", tokens, err)
	}

	refused := errors.New("no")
	if err := v.Update(t.Context(), "f", func([]byte) ([]byte, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("a change that fails: %v", err)
	}
	// Locks that were made anew begin with small tokens.
	if err := v.write("f", 1<<40, []byte("from the future")); err != nil {
		t.Fatal(err)
	}
	if err := v.Update(t.Context(), "f", put("four")); err == nil {
		t.Error("an update under a token that is too small: want it refused")
	}
	if text, err := v.Read("f"); string(text) != "from the future" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
}
