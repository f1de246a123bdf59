package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// A command that a signal ends has the shell's exit code for that, whatever it waits for.
func TestASignalEndsAWait(t *testing.T) {
	busy := memberOf(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusTooManyRequests) })
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("TENURE_AT", "")
	takeLeases(t, tenure.Claim{Name: "held"})
	for _, args := range []string{
		"broadcast x --at " + busy, "broadcast --at " + busy, "regroup --at " + busy, "agree held v --at local", "agree held --at local", "lease reset held --at local",
		"lease break held --yes --at local", "lease restore --at redis://127.0.0.1:1 --server 127.0.0.1:1", "lease bench --at local",
		"snapshot save " + filepath.Join(t.TempDir(), "x") + " --at etcd://127.0.0.1:1",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cli.Interrupt(syscall.SIGTERM)) // before the command can be done
		lines, w := io.Pipe()
		go fmt.Fprintln(w, "a line")
		root := rootCommand()
		root.SetContext(ctx)
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetIn(lines)
		root.SetArgs(strings.Fields(args))
		ended := make(chan error, 1)
		go func() { ended <- root.Execute() }()
		select {
		case err := <-ended:
			if wantExit(t, err, 128+int(syscall.SIGTERM)); t.Failed() {
				t.Fatalf("a signal ends tenure %s", args)
			}
		case <-time.After(time.Minute):
			t.Fatalf("a signal has come, and tenure %s goes on for a minute", args)
		}
		w.Close()
	}
}

// A signal ends the process of a command that waits for a store, with the exit code that a shell has for it.
func TestASignalEndsAProcess(t *testing.T) {
	var commands sync.WaitGroup
	for words, sig := range map[string]syscall.Signal{
		"snapshot save saved --at etcd://": syscall.SIGTERM, "lease break n --yes --at redis://": syscall.SIGINT,
	} {
		silent := listenLocal(t)
		cmd := exec.Command("tenure", strings.Fields(words+silent.Addr().String())...)
		cmd.Dir = t.TempDir()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		commands.Go(func() {
			late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill(); silent.Close() })
			conn, err := silent.Accept() // it waits now
			_ = cmd.Process.Signal(sig)
			_ = cmd.Wait()
			late.Stop()
			if code := cmd.ProcessState.ExitCode(); code != 128+int(sig) || err != nil {
				t.Errorf("%v ends tenure %s with %d, %v; want %d", sig, words, code, err, 128+int(sig))
			}
			if err == nil {
				conn.Close()
			}
			silent.Close()
		})
	}
	commands.Wait()
}

// A signal ends the pause before a busy member is asked again, and is the reason.
func TestASignalEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := &memberClient{"d", &http.Client{Transport: answered(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Body: io.NopCloser(strings.NewReader("busy"))}, nil
		})}}
		time.AfterFunc(2*time.Second, func() { cancel(cli.Interrupt(syscall.SIGINT)) })
		begun := time.Now()
		err := c.ask(ctx, "POST", "/broadcast", "x", new(any))
		if took := time.Since(begun); err != cli.Interrupt(syscall.SIGINT) || took != 2*time.Second {
			t.Errorf("a signal in a pause: %v after %v; want the signal, and at once", err, took)
		}
	})
}

// An error of a member keeps its exit code, and a change of the members is asked for as it was written.
func TestWhatAMemberIsAsked(t *testing.T) {
	ends := memberOf(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := command(t, "broadcast", "x", "--at", ends)
	if wantExit(t, err, cli.ExitUnavailable); !strings.HasPrefix(err.Error(), "message 1: the member in ") {
		t.Errorf("a member has ended: %v", err)
	}
	var asked regrouping
	dir := memberOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked = regrouping{}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		fmt.Fprint(w, `{"1":"a:1"}`)
	})
	for args, want := range map[string]regrouping{
		"": {}, "--add 4=h:1": {ID: 4, Address: "h:1"}, "--remove 3": {Remove: 3}, "--remove 3 --add 4=[::1]:7": {Remove: 3, ID: 4, Address: "[::1]:7"},
	} {
		if out, err := command(t, append([]string{"regroup", "--at", dir}, strings.Fields(args)...)...); err != nil || asked != want || out != "1=a:1\n" {
			t.Errorf("regroup %s asks for %+v, and prints %q, %v; want %+v", args, asked, out, err, want)
		}
	}
}

// A group that has ended since the last look is not killed: its number may be another's.
func TestAGroupThatEndedInTimeIsNotKilled(t *testing.T) {
	for ends, want := range map[time.Duration]bool{0: true, 500 * time.Millisecond: true, 1005 * time.Millisecond: true, 1015 * time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			g := &group{processes: &stuck{begun.Add(ends)}, clock: clock.NewSimulated(0)}
			if got := g.ended(1010*time.Millisecond, nil); got != want || time.Since(begun).Round(time.Millisecond) > 1010*time.Millisecond {
				t.Errorf("a group ends after %v, and is found ended within 1.01s: %v after %v, want %v", ends, got, time.Since(begun), want)
			}
		})
	}
}

// A watch is of the names that begin as it was asked, and ends with success.
func TestAWatchIsOfAPrefix(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("TENURE_AT", "")
	takeLeases(t, tenure.Claim{Name: "a/x", Holder: "one"}, tenure.Claim{Name: "b/y", Holder: "two"})
	for args, want := range map[string]string{"lease list b --watch --at local": "b/y", "lease list a/ -w --at local -o json": `"name":"a/x"`} {
		ctx, cancel := context.WithCancel(t.Context())
		var lines []string
		root := rootCommand()
		root.SetContext(ctx)
		root.SetOut(writerTo(func(line string) {
			lines = append(lines, line)
			cancel()
		}))
		root.SetArgs(strings.Fields(args))
		if err := root.Execute(); err != nil || len(lines) != 1 || !strings.Contains(lines[0], want) {
			t.Errorf("tenure %s prints %q, %v; want a line with %s alone", args, lines, err, want)
		}
	}
}
