package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
)

// A command that has ended has closed its store, and so has left the room to others.
func TestCommandsCloseTheirStore(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which closes forgotten descriptors
	at := "redis://" + redisServer(t).Addr()
	if out, err := command(t, "lease", "init", "--at", at, "--ttl", "30s", "--delay", "100ms"); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	run := func(args string) func() { return func() { mustRun(t, args+" --at "+at) } }
	held, err := openAt(t.Context(), place{url: at})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := held.Acquire(t.Context(), tenure.Claim{Name: "held"}); err != nil {
		t.Fatal(err)
	}
	untilALine := func(do func(context.Context, io.Writer) error) func() {
		return func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- do(ctx, writerTo(func(string) { cancel() })) }()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("a command that was told to end goes on")
			}
		}
	}
	for name, do := range map[string]func(){
		"lock": func() {
			_ = lock(t.Context(), &tenancy{claim: tenure.Claim{Name: "n"}, at: place{url: at}, argv: []string{"true"}}, &every{}, wait{})
		},
		"elect": func() {
			_ = elect(t.Context(), &tenancy{claim: tenure.Claim{Name: "n"}, at: place{url: at}, argv: []string{"true"}}, true, "")
		},
		"listen": untilALine(func(ctx context.Context, w io.Writer) error {
			return listenLeaders(ctx, &tenancy{claim: tenure.Claim{Name: "n"}, at: place{url: at}}, "table", w)
		}),
		"watch": untilALine(func(ctx context.Context, w io.Writer) error {
			return watchAt(ctx, place{url: at}, "", "table", w, io.Discard)
		}),
		"complete": func() { _, _ = completeNames(&place{url: at})(nil, nil, "") },
		"list":     run("lease list"), "show": run("lease show n"), "break": run("lease break n --yes"), "reset": run("lease reset n"), "agree": run("agree n"),
	} {
		wantClosed(t, name, do)
	}
}

// A command that has ended has closed its connections to the servers that it has asked.
func TestCommandsCloseTheirServer(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	at := "etcd://" + startServer(t)
	file := filepath.Join(t.TempDir(), "saved")
	for _, args := range []string{
		"status", "member list", "member update one --peer-urls http://127.0.0.1:1", "member move-leader one", "read-lease", "read-lease holders k", "read-lease set leader",
		"lease list", "lease show n", "lease break n --yes", "lease reset n", "snapshot save " + file,
	} {
		wantClosed(t, args, func() {
			mustRun(t, args+" --at "+at)
			_ = os.Remove(file)
		})
	}
	wantClosed(t, "completion", func() { _, _ = completeMembers(&place{url: at})(nil, nil, "") })
}

// mustRun runs a command line that makes sense.
func mustRun(t *testing.T, args string) {
	t.Helper()
	root := rootCommand()
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	root.SetArgs(strings.Fields(args))
	if err := root.Execute(); err != nil && !strings.Contains(err.Error(), "nothing is decided") {
		t.Errorf("tenure %s: %v", args, err)
	}
}

// wantClosed wants a command that has ended to leave no more files open than it has found.
func wantClosed(t *testing.T, name string, do func()) {
	t.Helper()
	do() // the first opens what stays
	before := openFiles(t)
	const n = 3
	for range n {
		do()
	}
	after := openFiles(t)
	for tries := 0; after >= before+n && tries < 200; tries++ { // the server has its own end of each connection
		time.Sleep(10 * time.Millisecond)
		after = openFiles(t)
	}
	if after >= before+n {
		t.Errorf("%s has ended %d times, and instead of %d files %d are open", name, n, before, after)
	}
}

// openFiles counts the descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(files)
}
