package clock

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// slept is for how many seconds the machine seems to have been suspended, to the child process.
const slept = "1000000"

// TestNowCountsSuspend runs in a time namespace where the clock that counts suspend is
// far ahead of the one that does not, as on a machine that was suspended for long.
func TestNowCountsSuspend(t *testing.T) {
	if os.Getenv("TENURE_SUSPENDED") == "" {
		unshare, err := exec.LookPath("unshare")
		if err != nil {
			t.Skip("no unshare on PATH, to make a time namespace")
		}
		if out, err := exec.Command(unshare, "--time", "--boottime", slept, "true").CombinedOutput(); err != nil {
			t.Skipf("time namespaces cannot be made here: %v %s", err, out)
		}
		child := exec.Command(unshare, "--time", "--boottime", slept, os.Args[0], "-test.run=^TestNowCountsSuspend$", "-test.v")
		child.Env = append(os.Environ(), "TENURE_SUSPENDED=1")
		out, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestNowCountsSuspend") {
			t.Errorf("with a suspend of %s s behind it: %v\n%s", slept, err, out)
		}
		return
	}
	var running unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &running); err != nil {
		t.Fatal(err)
	}
	if ahead := time.Duration(int64(Now()) - running.Nano()); ahead < 900_000*time.Second {
		t.Errorf("Now is %v ahead of the clock that stands still in suspend, want %s s: it does not count suspend", ahead, slept)
	}
	select {
	case <-System.Alarm(Now().Add(10 * time.Millisecond)).C:
	case <-time.After(10 * time.Second):
		t.Error("an alarm does not ring: it waits for a clock that does not count suspend")
	}
}
