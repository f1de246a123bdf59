package main

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/tenure-lease/tenure/internal/cli"
)

// A command that cannot print its result fails, and says why.
func TestCommandsOfAClusterFailWithTheirOutput(t *testing.T) {
	_, addrs := startHeard(t)
	tried := 0
	for _, line := range clusterCommands {
		if !strings.HasSuffix(line, "-o json") || strings.HasPrefix(line, "!") {
			continue
		}
		tried++
		full, w := io.Pipe()
		full.CloseWithError(errFull)
		root := rootCommand()
		root.SetOut(w)
		root.SetErr(io.Discard)
		root.SetArgs(append(strings.Fields(line), "--at", "etcd://"+addrs[0]))
		if err := root.Execute(); !errors.Is(err, errFull) {
			t.Errorf("tenure %s whose output takes nothing ends with %v, want %v", line, err, errFull)
		}
	}
	if tried < 10 {
		t.Errorf("%d command lines were tried, want 10 or more", tried)
	}
}

// Where no member answers each command says so, with the address, and ends with the exit code of a store that does not
// answer.
func TestCommandsWithoutAMember(t *testing.T) {
	var commands sync.WaitGroup
	for _, line := range []string{"status", "member list", "member remove a", "read-lease", "read-lease set all", "read-lease holders k"} {
		commands.Go(func() { // each waits for three seconds
			var out lockedBuffer
			root := rootCommand()
			root.SetOut(&out)
			root.SetErr(io.Discard)
			root.SetArgs(append(strings.Fields(line), "--at", "etcd://127.0.0.1:1"))
			err := root.Execute()
			var exit cli.ExitError
			if !errors.As(err, &exit) || exit.Code != cli.ExitUnavailable || out.String() != "" || !strings.HasPrefix(err.Error(), "no member answers at etcd://127.0.0.1:1: ") {
				t.Errorf("tenure %s without a member ends with %v, and prints %q; want exit code 69, where no member answers, and nothing printed", line, err, out.String())
			}
		})
	}
	commands.Wait()
}
