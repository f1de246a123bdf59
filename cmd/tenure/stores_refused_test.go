package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure/internal/cli"
)

// A URL that names nothing is wrong usage, for each command that takes one: nothing was asked, and a
// script need not try again.
func TestEachCommandRefusesAURLThatNamesNothing(t *testing.T) {
	arguments := map[string]string{
		"lock": "n -- true", "elect": "n -- true", "agree": "n v", "lease show": "n", "lease break": "n --yes", "lease reset": "n", "lease restore": "--server a",
		"member add": "d --peer-urls http://h:1", "member remove": "d", "member promote": "d --wait 0", "member update": "d --peer-urls http://h:1", "member move-leader": "d",
		"read-lease set": "all", "read-lease holders": "k",
	}
	asked := 0
	each(rootCommand(), nil, func(cmd *cobra.Command, path []string) {
		name := strings.Join(path, " ")
		if flag := cmd.Flag("at"); flag == nil || len(flag.Annotations[atKind]) == 0 || !cmd.Runnable() {
			return
		}
		asked++
		for _, at := range []string{"nosuch://a", "a:2379", "etcd://"} {
			args := append(strings.Fields(name), "--at", at)
			_, err := command(t, append(args, strings.Fields(arguments[name])...)...)
			var exit cli.ExitError
			if !errors.As(err, &exit) || exit.Code != cli.ExitUsage {
				t.Errorf("tenure %s --at %s: %v, want it refused as wrong usage", name, at, err)
			}
		}
	})
	if asked < 20 {
		t.Errorf("%d commands take --at, want 20 or more: this test has lost them", asked)
	}
}

// A user where nobody would ask for one is wrong usage, for each command that takes both: the rights would be others than were meant.
func TestEachCommandRefusesAUserOfAStore(t *testing.T) {
	arguments := map[string]string{"lock": "n -- true", "elect": "n -- true", "lease show": "n", "lease break": "n --yes", "lease reset": "n"}
	asked := 0
	each(rootCommand(), nil, func(cmd *cobra.Command, path []string) {
		name := strings.Join(path, " ")
		if flag := cmd.Flag("at"); flag == nil || cmd.Flag("user") == nil || !slices.Equal(flag.Annotations[atKind], []string{atLeases}) {
			return
		}
		asked++
		_, err := command(t, strings.Fields(name+" --at local --user u:p "+arguments[name])...)
		if wantRefused(t, err, "--user is for a server's users: --at local is no server"); t.Failed() {
			t.Fatalf("tenure %s --at local --user u:p", name)
		}
	})
	if asked != 6 {
		t.Errorf("%d commands take the user of a server and stores, want 6", asked)
	}
}

// What a signal has ended has the shell's exit code for it, and what could not be reached that of a store
// that does not answer. Any other reason not to restore a server is a failure of its own.
func TestWhyABenchOrARestoreEnds(t *testing.T) {
	stopped, stop := context.WithCancelCause(t.Context())
	stop(cli.Interrupt(syscall.SIGTERM))
	odd := errors.New("odd")
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	wantExit(t, restoreTrouble(stoppedBy(stopped, odd)), 128+int(syscall.SIGTERM))
	wantExit(t, restoreTrouble(stoppedBy(t.Context(), fmt.Errorf("redis: %w", refused))), cli.ExitUnavailable)
	if err := restoreTrouble(stoppedBy(t.Context(), odd)); err != odd {
		t.Errorf("a server that needs no restoring: %v, want %v without an exit code", err, odd)
	}
	if err := stoppedBy(stopped, nil); err != nil {
		t.Errorf("what had ended before the signal fails: %v", err)
	}
	_, err := command(t, "lease", "restore", "--at", "redis://127.0.0.1:1", "--server", "127.0.0.1:1")
	wantExit(t, err, cli.ExitUnavailable)
	root := rootCommand()
	root.SetContext(stopped)
	root.SetArgs([]string{"lease", "bench", "--single-host", "--at", "file://" + t.TempDir()})
	wantExit(t, root.Execute(), 128+int(syscall.SIGTERM))
}
