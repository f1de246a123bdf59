package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestElectEndsItsHooks: when elect ends, so does a hook that runs, however long it would take; and
// nobody is told of a store that was closed under one who followed.
func TestElectEndsItsHooks(t *testing.T) {
	for _, hook := range []string{`echo $$ >hook; exec sleep 100`, `echo $$ >hook; echo told`} {
		dir := t.TempDir()
		said, err := os.Create(filepath.Join(dir, "said"))
		if err != nil {
			t.Fatal(err)
		}
		defer said.Close()
		cmd := exec.Command("tenure", "elect", "n", "--at", atLocal, "--on-leader", hook, "--",
			"sh", "-c", "until test -s hook; do sleep 0.05; done; exit 3")
		var out strings.Builder
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, said
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(40*time.Second, func() { _ = cmd.Process.Kill() })
		err = cmd.Wait()
		if id := readID(t, filepath.Join(dir, "hook")); syscall.Kill(id, 0) == nil {
			t.Errorf("elect has ended, and the hook %q lives", hook)
			_ = syscall.Kill(id, syscall.SIGKILL)
		}
		var exit *exec.ExitError
		if !late.Stop() {
			t.Fatalf("the command has ended, and elect waits, though its hook is %q", hook)
		} else if !errors.As(err, &exit) || exit.ExitCode() != 3 {
			t.Errorf("elect ends with %v, want the command's 3", err)
		}
		if out.Len() > 0 {
			t.Errorf("the hook %q is heard on standard output, which is the command's: %q", hook, &out)
		}
		if words, err := os.ReadFile(said.Name()); err != nil || strings.Contains(string(words), "--on-leader") {
			t.Errorf("elect says %q, %v", words, err)
		}
	}
}
