package world_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// endless are worlds that would go on for ever once they have failed.
var endless = map[string]struct {
	options world.Options
	body    func(*world.World)
	want    string // how their end is told
}{
	"its time passes": {
		world.Options{Limit: 10 * time.Minute, Patience: time.Second, Memory: true},
		func(w *world.World) {
			for {
				w.Trace.Add("something has happened")
				time.Sleep(time.Second)
			}
		},
		"the world has not ended after 10m0s of its time",
	},
	"somebody is always busy": {
		world.Options{Patience: 100 * time.Millisecond, Memory: true},
		func(w *world.World) {
			for {
				w.Trace.Add("something has happened")
			}
		},
		"its time has stood still for 100ms",
	},
	"all wait": {
		world.Options{},
		func(*world.World) { <-make(chan int) },
		"something waits for ever, or was left running",
	},
}

// chosen names the world that a process plays which TestFailedWorldsEnd has started.
const chosen = "TENURE_ENDLESS_WORLD"

// A world that has failed ends, whatever goes on in it, and says what was wrong before.
func TestFailedWorldsEnd(t *testing.T) {
	if e, play := endless[os.Getenv(chosen)]; play {
		world.Play(t, e.options, func(w *world.World) {
			w.Fail("a key was lost")
			e.body(w)
		})
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range endless {
		cmd := exec.Command(self, "-test.run=^TestFailedWorldsEnd$", "-test.timeout=20s")
		cmd.Env = append(os.Environ(), chosen+"="+name, "TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("a world in which %s passed", name)
		}
		for _, want := range []string{e.want, "a key was lost"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("a world in which %s ended with %v, and did not say %q", name, err, want)
			}
		}
	}
}
