package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/server"
)

func TestMain(m *testing.M) {
	if len(os.Args) >= 2 && os.Args[1] == "starter" {
		var s *shepherd
		if len(os.Args) == 3 { // one that is guarded
			var err error
			if s, err = startShepherd(); err != nil {
				panic(err)
			}
		}
		start := exec.Command("sleep", "60")
		start.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := start.Start(); err != nil {
			panic(err)
		}
		fmt.Println(start.Process.Pid)
		if s != nil {
			s.until(clock.System.Now())
		}
		_ = start.Wait()
		if s != nil {
			<-time.After(time.Minute) // which is killed next
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "unguarded" { // a guard that may open nothing more
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{}); err != nil {
			panic(err)
		}
		s, err := startShepherd()
		fmt.Println(s == nil, err)
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "shepherd" { // of a command that a test of ours runs
		main()
	}
	testscript.Main(m, map[string]func(){"tenure": main})
}

// ignoredAtStart are the signals that a script sends and this process was started to ignore. It has to
// be asked before a test listens to one: when that test stops to, the signal is ignored again, and
// signal.Ignored does not know.
var ignoredAtStart = slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGHUP}, func(sig os.Signal) bool {
	return !signal.Ignored(sig)
})

// TestScripts runs testdata/script against the server that TENURE_TEST_ENDPOINT names, perhaps
// a stock etcd, or against one in this process. $TENURE_AT is its URL. $CLIENT, $PEER and
// $THIRD are free addresses for scripts that start their own.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	// A job in the background ignores interrupts, and one under nohup hang-ups, and so would
	// each command that a script signals: only what this process has a handler for is not
	// passed on as ignored.
	if len(ignoredAtStart) > 0 {
		signal.Notify(make(chan os.Signal, 1), ignoredAtStart...)
	}
	at := os.Getenv("TENURE_TEST_ENDPOINT")
	if at == "" {
		at = startServer(t)
	}
	if !strings.Contains(at, "://") {
		at = "etcd://" + at
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Values["terminal"] = &terminal{}
			env.Setenv("TENURE_AT", at)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", "atexit_sleep_ms=10") // each script runs many short processes
			for i, addr := range freeAddresses(t, 3) {
				env.Setenv([]string{"CLIENT", "PEER", "THIRD"}[i], addr)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": codeCmd, "await": awaitCmd, "signal": signalCmd, "gone": goneCmd, "halted": haltedCmd,
			"terminal": terminalCmd, "type": typeCmd,
		},
	})
}

func startServer(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	s, err := server.Start(server.Config{
		Node: node.Config{
			Name: "one", DataDir: t.TempDir(), Peers: map[string]string{"one": "http://127.0.0.1:1"},
			ClientURLs: []string{"http://" + addr}, Logger: slog.New(slog.DiscardHandler),
		},
		Clients: []net.Listener{listener}, API: etcdapi.Config{ReadLeaseChanges: etcdapi.ChangeOrder},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Node.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return addr
}

// codeCmd is "code N PROGRAM [ARG…]": exec that wants an exit code.
func codeCmd(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// awaitCmd is "await FILE REGEXP": wait until the file has it.
func awaitCmd(ts *testscript.TestScript, neg bool, args []string) {
	re := regexp.MustCompile("(?m)" + args[1])
	poll(ts, fmt.Sprintf("%s in %s", args[1], args[0]), func() bool {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && re.Match(b)
	})
}

// signalCmd is "signal NAME FILE": it sends the signal to the process whose id is in the file.
func signalCmd(ts *testscript.TestScript, neg bool, args []string) {
	sig := unix.SignalNum("SIG" + args[0])
	if sig == 0 {
		ts.Fatalf("no signal is called %s", args[0])
	}
	ts.Check(syscall.Kill(pid(ts, args[1]), sig))
}

// goneCmd is "gone FILE": it waits until the process whose id is in the file has ended.
func goneCmd(ts *testscript.TestScript, neg bool, args []string) {
	id := pid(ts, args[0])
	poll(ts, fmt.Sprintf("the end of process %d", id), func() bool {
		// A process that is not reaped yet has ended, too.
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		return syscall.Kill(id, 0) != nil || err == nil && strings.Contains(string(state), ") Z ")
	})
}

// haltedCmd is "halted FILE": it waits until the process whose id is in the file is stopped.
func haltedCmd(ts *testscript.TestScript, neg bool, args []string) {
	id := pid(ts, args[0])
	poll(ts, fmt.Sprintf("a stop of process %d", id), func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		return err == nil && strings.Contains(string(state), ") T ")
	})
}

func pid(ts *testscript.TestScript, file string) int {
	id, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(file)))
	ts.Check(err)
	return id
}

func poll(ts *testscript.TestScript, what string, is func() bool) {
	for end := time.Now().Add(2 * time.Minute); !is(); { // a busy machine runs many processes a script
		if time.Now().After(end) {
			ts.Fatalf("waited in vain for %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}
