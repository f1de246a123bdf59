package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A peer that cannot save its state as it ends fails: its next start is not spared the silence. Its log is on
// standard error.
func TestAPeerThatCannotSaveItsStateFails(t *testing.T) {
	state, self := filepath.Join(t.TempDir(), "state"), freeAddresses(t, 1)[0]
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg, mode, err := peerFlags(t, "--self", self, "--peers", self, "--t-max", "100ms", "--epsilon", "1ms", "--state", state).complete()
	if err != nil {
		t.Fatal(err)
	}
	o := peerFlags(t, "--log-level", "debug")
	o.listen = filepath.Join(t.TempDir(), "peer.sock")
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	out, log := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "log")
	if os.Stdout, err = os.Create(out); err != nil {
		t.Fatal(err)
	}
	defer os.Stdout.Close()
	if os.Stderr, err = os.Create(log); err != nil {
		t.Fatal(err)
	}
	defer os.Stderr.Close()
	err = runPeer(cfg, o, mode, writerTo(func(line string) {
		if line == "serving\n" {
			if err := os.RemoveAll(state); err != nil {
				t.Error(err)
			}
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}
	}))
	if err == nil || !strings.Contains(err.Error(), state) {
		t.Errorf("a peer whose directory is gone ends with %v, want that it cannot save its state", err)
	}
	printed, outErr := os.ReadFile(out)
	logged, logErr := os.ReadFile(log)
	if outErr != nil || logErr != nil || len(printed) > 0 || len(logged) == 0 {
		t.Errorf("a peer prints %q, and logs %q on standard error, %v, %v; want its log there", printed, logged, outErr, logErr)
	}
}
