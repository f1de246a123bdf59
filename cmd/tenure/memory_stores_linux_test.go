package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/holder/storage"
)

// A directory in memory is of one host, so a bench of it is refused unless that is said. This user's own
// place is of one host at all times.
func TestABenchIsOfOneHostIfThatIsMeant(t *testing.T) {
	var fs unix.Statfs_t
	if unix.Statfs("/dev/shm", &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is no file system in memory")
	}
	dir, err := os.MkdirTemp("/dev/shm", "tenure-test")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	bench := func(args ...string) error {
		_, err := atStore(t, append([]string{"lease", "bench", "--accesses", "3"}, args...)...)
		return err
	}
	if err := bench("--at", "file://"+dir); err == nil || !strings.Contains(err.Error(), "make it single-host") {
		t.Errorf("a directory in memory, as of many hosts: %v, want it refused", err)
	}
	if err := new(benched).benchLeases(t.Context(), []string{dir}, false, storage.LeastDelay); err == nil || !strings.Contains(err.Error(), "make it single-host") {
		t.Errorf("leases in memory, as of many hosts: %v, want them refused", err)
	}
	if err := bench("--at", "file://"+dir, "--single-host"); err != nil {
		t.Errorf("a directory in memory, as of a single host: %v", err)
	}
	t.Setenv("XDG_STATE_HOME", dir)
	if err := bench("--at", "local"); err != nil {
		t.Errorf("this user's place, in memory: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.new")); err != nil || len(left) > 0 {
		t.Errorf("a bench leaves %q, %v", left, err)
	}
}

// A shepherd that cannot be started leaves nothing open: its end of the pipe would hold up whoever waits for it.
func TestAShepherdThatDoesNotStartLeavesNothingOpen(t *testing.T) {
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	var s shepherd
	_ = s.startAs("/no/such/program") // whatever the first needs besides
	before := open()
	for range 5 {
		if err := s.startAs("/no/such/program"); err == nil || !strings.Contains(err.Error(), "start a second process of /no/such/program, which watches over the command") {
			t.Fatalf("a shepherd starts: %v", err)
		}
	}
	if after := open(); after > before {
		t.Errorf("five shepherds that did not start leave %d files open", after-before)
	}
}

// Words for people, of a wait and of a job that was done, go to a terminal only, and each command finds it.
func TestWordsForPeopleGoToATerminal(t *testing.T) {
	keys, screen, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer screen.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	defer func() { os.Stderr = stderr }()
	for _, tt := range []struct {
		to    *os.File
		words bool
	}{{screen, true}, {file, false}} {
		os.Stderr = tt.to
		ten, e := lockLine(t, "n", "--every", "1h", "--", "true")
		if (ten.words != nil) != tt.words || (e.words != nil) != tt.words {
			t.Errorf("a wait is told to %v, and that a job was done to %v; want it told on a terminal: %v", ten.words, e.words, tt.words)
		}
		if ten, _ := lockLine(t, "n", "--events", "--", "true"); ten.words != nil {
			t.Errorf("beside events a wait is told in words, too, to %v", ten.words)
		}
	}
}
