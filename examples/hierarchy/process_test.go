package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/file"
)

var spec = func() (s file.Spec) {
	s.Term, s.Delay, s.SingleHost = span, delay, true
	return s
}()

// dirVariable makes the test's program an owner.
const dirVariable = "HIERARCHY_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVariable); dir != "" {
		at := filepath.Join(dir, fmt.Sprint(os.Getpid()))
		fmt.Println(serve(context.Background(), dir, "unix:"+at, span, spec))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestKilled kills the owner while locks are taken from it.
func TestKilled(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir, err := os.MkdirTemp("", "locks") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	serving := map[string]*os.Process{}
	for range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), dirVariable+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		line, err := bufio.NewReader(out).ReadString('\n')
		address, ok := strings.CutPrefix(strings.TrimSpace(line), "serving at ")
		if !ok {
			t.Fatalf("an owner says %q, %v", line, err)
		}
		serving[address] = cmd.Process
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	leaser, err := file.Open(ctx, file.Config{Paths: []string{filepath.Join(dir, "leases")}, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer leaser.Close()
	epochs := Epochs{Store: leaser, Name: "outer"}
	one, another := NewClient(epochs, drift), NewClient(epochs, drift)
	defer one.Close()
	defer another.Close()

	before, err := one.Lock(ctx, "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	// Another client cannot have it, while it can have others.
	if _, err := another.Lock(ctx, "y", time.Hour); err != nil {
		t.Fatal(err)
	}
	_, owner, err := epochs.Newest(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := serving[owner.Address].Kill(); err != nil {
		t.Fatal(err)
	}
	after, err := another.Lock(ctx, "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if before.Check() == nil {
		t.Error("two clients have the sub-lease")
	}
	if after.Token <= before.Token || Epoch(after.Token) <= Epoch(before.Token) {
		t.Errorf("token %d after %d", after.Token, before.Token)
	}
	if err := after.Check(); err != nil {
		t.Logf("the test is slow: %v", err) // a span is short
	}
	another.Unlock(after)
	if _, err := one.Lock(ctx, "x", time.Hour); err != nil {
		t.Errorf("after it was given back: %v", err)
	}
}
