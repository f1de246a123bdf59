package main

import (
	"context"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tenure-lease/tenure/internal/cli"
)

// silentStore is the URL of a store that takes connections and does not answer. It calls a function for the first.
func silentStore(t *testing.T, reached func()) (at string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		var kept []net.Conn
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if kept = append(kept, conn); len(kept) == 1 {
				reached()
			}
		}
	}()
	return "flease://" + socket
}

// A signal ends a listener and a watcher also while their store does not answer, with a shell's exit code.
func TestASignalEndsTheWayToAStore(t *testing.T) {
	at := silentStore(t, func() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGTERM) })
	_, err := command(t, "elect", "n", "--listen", "--at", at)
	wantExit(t, err, cli.ExitSignal+int(syscall.SIGTERM))
	ctx, cancel := context.WithCancelCause(t.Context())
	at = silentStore(t, func() { cancel(cli.Interrupt(syscall.SIGTERM)) })
	root := rootCommand()
	root.SetContext(ctx)
	root.SetArgs([]string{"lease", "list", "--watch", "--at", at})
	wantExit(t, root.Execute(), cli.ExitSignal+int(syscall.SIGTERM))
}
