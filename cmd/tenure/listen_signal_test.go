package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/cli"
)

// silentStore is the URL of a store that takes connections and does not answer. It calls a function for the first.
func silentStore(t *testing.T, reached func()) (at string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	silentAt(t, "unix", socket, reached)
	return "flease://" + socket
}

// silentAt listens there, and does not answer. It calls a function for the first connection.
func silentAt(t *testing.T, network, at string, reached func()) net.Addr {
	t.Helper()
	l, err := net.Listen(network, at)
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
	return l.Addr()
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

// A signal that comes while a command waits for an answer ends it, with a shell's exit code. Each listens to signals by itself.
func TestCommandsListenToSignals(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	deaf := make(chan os.Signal, 1) // a command that does not listen is to fail the test, and not to end it
	signal.Notify(deaf, syscall.SIGTERM)
	defer signal.Stop(deaf)
	interrupt := func() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGTERM) }
	busy := func() string {
		return memberOf(t, func(w http.ResponseWriter, r *http.Request) { interrupt(); <-r.Context().Done() })
	}
	store := func() string { return silentStore(t, interrupt) }
	server := func() string { return silentAt(t, "tcp", "127.0.0.1:0", interrupt).String() }
	for args, at := range map[string]func() string{
		"agree n v --at AT": store, "agree n --at AT": store, "lease list --watch --at AT": store, "lease break n --yes --at AT": store, "lease reset n --at AT": store,
		"lease restore --at redis://AT --server AT": server, "broadcast x --at AT": busy, "regroup --at AT": busy,
	} {
		root := rootCommand()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs(strings.Fields(strings.ReplaceAll(args, "AT", at())))
		ended := make(chan error, 1)
		go func() { ended <- root.Execute() }()
		select {
		case err := <-ended:
			if wantExit(t, err, cli.ExitSignal+int(syscall.SIGTERM)); t.Failed() {
				t.Fatalf("a signal ends tenure %s", args)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("a signal has come, and tenure %s goes on", args)
		}
	}
}
