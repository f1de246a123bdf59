package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure"
)

// The settings of a command line are visible to others in the lease, and the command's exit code is
// ours.
func TestLockTakesWhatIsAsked(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		holder string
		slots  int
	}{
		{nil, "", 1},
		{[]string{"-n", "3", "--holder", "me"}, "me", 3},
		{[]string{"--shared", "--holder", "me"}, "me", tenure.Shared},
	} {
		args := append([]string{"lock", "n", "--at", "local"}, tt.args...)
		args = append(args, "--", "sh", "-c", "tenure lease show n -o json; exit 5")
		code, out, errs := ranOnDisk(t, args...)
		var shown shownLease
		if err := json.Unmarshal([]byte(out), &shown); err != nil || code != 5 || errs != "" {
			t.Fatalf("tenure %q ends with %d, %v, and says\n%s%s", args, code, err, out, errs)
		}
		if h := shown.Holders; len(h) != 1 || h[0].Slots != tt.slots || tt.holder != "" && h[0].Holder != tt.holder {
			t.Errorf("tenure %q: the lease is held by %+v, want %q with %d slots", args, h, tt.holder, tt.slots)
		}
	}
}

// ranOnDisk is ran for a command that measures the disk, again if that stood still for seconds.
func ranOnDisk(t *testing.T, args ...string) (code int, out, errs string) {
	for try := 0; ; try++ {
		code, out, errs = ran(t, args...)
		if try == 5 || !strings.Contains(errs, "too short for accesses") {
			return code, out, errs
		}
	}
}

// With JSON asked for there are events, for lock and for elect.
func TestJSONMeansEvents(t *testing.T) {
	for _, name := range []string{"lock", "elect"} {
		code, out, errs := ranOnDisk(t, name, "n", "--at", "local", "-o", "json", "--", "true")
		if code != 0 || out != "" || !strings.Contains(errs, `"event":"acquired"`) || !strings.Contains(errs, `"event":"released"`) {
			t.Errorf("tenure %s -o json ends with %d and says %q, and on standard error %q; want its events there", name, code, out, errs)
		}
	}
}

// A -n that gets no number of slots is flock's, perhaps, and means not to wait.
func TestSlotsAreNumbers(t *testing.T) {
	for _, n := range []string{"--", "true", "0", "-1", "2147483647", "9999999999999999999"} {
		_, err := command(t, "lock", "n", "--at", "local", "-n", n, "--", "true")
		wantRefused(t, err, "--wait 0")
	}
	_, err := command(t, "lock", "n", "--at", "local", "-n")
	wantRefused(t, err, "--wait 0")
}
