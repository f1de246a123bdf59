package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure"
)

// terminal is a pseudo-terminal with a session on it, for the job control of a shell.
type terminal struct {
	keys *os.File

	mu     sync.Mutex
	screen bytes.Buffer
}

// terminalCmd is "terminal PROGRAM [ARG…]": start it as the leader of a session on a new
// terminal.
func terminalCmd(ts *testscript.TestScript, neg bool, args []string) {
	t := ts.Value("terminal").(*terminal)
	keys, screen, err := openTerminal()
	ts.Check(err)
	defer screen.Close()
	t.keys = keys
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TENURE_AT", "GORACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ts.Check(cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			if err != nil {
				return // the last of the session has gone
			}
			t.mu.Lock()
			t.screen.Write(buf[:n])
			t.mu.Unlock()
		}
	}()
	ts.Defer(func() {
		_ = cmd.Process.Kill() // the others get a SIGHUP
		_ = cmd.Wait()
		keys.Close()
		<-read
		t.mu.Lock()
		defer t.mu.Unlock()
		ts.Logf("[terminal]\n%s", t.screen.String())
	})
}

// typeCmd is "type TEXT": press keys; TEXT may have Go's escapes.
func typeCmd(ts *testscript.TestScript, neg bool, args []string) {
	text, err := strconv.Unquote(`"` + args[0] + `"`)
	ts.Check(err)
	_, err = ts.Value("terminal").(*terminal).keys.WriteString(text)
	ts.Check(err)
}

// TestPeopleAreToldOfThePlaceEachTime: where leases are is told on each terminal, though the place is made.
func TestPeopleAreToldOfThePlaceEachTime(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if err := os.MkdirAll(localDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	keys, screen, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer screen.Close()
	stderr := os.Stderr
	os.Stderr = screen
	defer func() { os.Stderr = stderr }()
	at, said := place{}, &bytes.Buffer{}
	settle(&at, said)
	if words := people(); words != screen || at.url != atLocal || !strings.Contains(said.String(), localDir()+" and exclude only") {
		t.Errorf("at a terminal leases are at %q, people are told by %v, and this is said: %q; want where they are", at.url, words, said)
	}
}

// TestABreakIsAskedAboutWhereItIsSeen: a question that goes to a file is not asked, though there are keys to answer it.
func TestABreakIsAskedAboutWhereItIsSeen(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("TENURE_AT", "")
	takeLeases(t, tenure.Claim{Name: "n"})
	keys, screen, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer screen.Close()
	if _, err := keys.WriteString("no\n"); err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = screen
	defer func() { os.Stdin = stdin }()
	var said bytes.Buffer
	root := rootCommand()
	root.SetErr(&said)
	root.SetArgs([]string{"lease", "break", "n", "--at", "local"})
	if wantRefused(t, root.Execute(), "only if --yes"); said.Len() > 0 {
		t.Errorf("asked is %q, and nobody sees it", &said)
	}
}

// TestABenchShowsHowFarItIs: how many accesses are done is shown on standard error if that is a terminal, and taken away at the end.
func TestABenchShowsHowFarItIs(t *testing.T) {
	keys, screen, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer screen.Close()
	stderr := os.Stderr
	os.Stderr = screen
	defer func() { os.Stderr = stderr }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- new(benched).run(ctx, []string{t.TempDir(), t.TempDir()}, true, 1_000_000) }()
	var shown bytes.Buffer
	until := func(text string) {
		for b := make([]byte, 1000); !strings.Contains(shown.String(), text); {
			n, err := keys.Read(b)
			if err != nil {
				t.Fatalf("on the terminal is %q, %v; want %q", &shown, err, text)
			}
			shown.Write(b[:n])
		}
	}
	late := time.AfterFunc(20*time.Second, func() { fmt.Fprint(screen, "nothing is shown of accesses, ") })
	until(" accesses, ")
	late.Stop()
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("a bench that was told to end ends with %v", err)
	}
	fmt.Fprint(screen, "the end")
	if until("the end"); !strings.Contains(shown.String(), " of 2000000 accesses, ") || !strings.HasSuffix(shown.String(), "\r\x1b[Kthe end") {
		t.Errorf("on the terminal is %q, want how many of the accesses are done, and that taken away", &shown)
	}
}

// TestACompletionAsksForNoPassword: a shell that completes a name is no place to type a password.
func TestACompletionAsksForNoPassword(t *testing.T) {
	noUser(t)
	spy := spyOnEngines(t)
	keys, screen, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer screen.Close()
	if _, err := keys.WriteString("secret\n"); err != nil {
		t.Fatal(err)
	}
	stdin, stderr := os.Stdin, os.Stderr
	os.Stdin, os.Stderr = screen, screen
	defer func() { os.Stdin, os.Stderr = stdin, stderr }()
	at := place{"etcd://a", &asUser{user: "app"}}
	if names, _ := completeNames(&at)(nil, nil, ""); len(names) > 0 || spy.notes.Len() > 0 {
		t.Errorf("without a password names are completed to %q, and asked is %q", names, &spy.notes)
	}
}

func openTerminal() (keys, screen *os.File, err error) {
	keys, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(keys.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	return keys, screen, err
}

// A password is typed at a terminal that does not show it, and asked for once.
func TestPasswordsAreTypedUnseen(t *testing.T) {
	noUser(t)
	keys, screen, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer screen.Close()
	stdin, stderr := os.Stdin, os.Stderr
	os.Stdin, os.Stderr = screen, screen
	defer func() { os.Stdin, os.Stderr = stdin, stderr }()
	echoes := func() bool {
		state, err := unix.IoctlGetTermios(int(screen.Fd()), unix.TCGETS)
		if err != nil {
			t.Error(err)
			return false
		}
		return state.Lflag&unix.ECHO != 0
	}
	at := place{"etcd://a", &asUser{user: "app"}}
	go func() {
		for echoes() {
			<-time.After(time.Millisecond)
		}
		_, _ = keys.WriteString("secret\nasked again\n") // the second waits for a question that is not to come
	}()
	if _, err := at.unasked().config(); err == nil || !strings.Contains(err.Error(), "no terminal to ask") {
		t.Errorf("a completion asks for a password: %v", err)
	}
	for range 2 {
		cfg, err := at.config()
		if err != nil || cfg.Username != "app" || cfg.Password != "secret" {
			t.Errorf("the password is %q, %v; want what was typed", cfg.Password, err)
		}
	}
	if !echoes() {
		t.Error("the terminal shows nothing any more")
	}
	fmt.Fprintln(os.Stderr, "end")
	var shown bytes.Buffer
	for !strings.Contains(shown.String(), "end") {
		b := make([]byte, 100)
		n, err := keys.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(b[:n])
	}
	if words := shown.String(); strings.Count(words, "Password of app: ") != 1 || strings.Contains(words, "secret") {
		t.Errorf("the terminal shows %q, want one question and no answer", words)
	}
}

// A signal while a password is typed ends the command with a shell's exit code for it, and the terminal shows again what is typed.
func TestASignalEndsTheQuestionForAPassword(t *testing.T) {
	noUser(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		keys, screen, err := openTerminal()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("tenure", "status", "--at", "etcd://127.0.0.1:1", "--user", "app")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		echoes := func() bool {
			state, err := unix.IoctlGetTermios(int(screen.Fd()), unix.TCGETS)
			return err != nil || state.Lflag&unix.ECHO != 0
		}
		for end := time.Now().Add(time.Minute); echoes() && time.Now().Before(end); {
			<-time.After(time.Millisecond)
		}
		_ = cmd.Process.Signal(sig)
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		late.Stop()
		if code := cmd.ProcessState.ExitCode(); code != 128+int(sig) || !echoes() {
			t.Errorf("%v while a password is typed ends the command with %d, and the terminal shows what is typed: %v; want %d, and that it does", sig, code, echoes(), 128+int(sig))
		}
		fmt.Fprint(screen, "$ ")
		var shown strings.Builder
		for b := make([]byte, 100); !strings.Contains(shown.String(), "$"); {
			n, err := keys.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			shown.Write(b[:n])
		}
		if got, want := shown.String(), "Password of app: \r\n$ "; got != want {
			t.Errorf("%v while a password is typed leaves %q on the terminal, want %q", sig, got, want)
		}
		screen.Close()
		keys.Close()
	}
}

// How much of a snapshot has come is shown beside its result, which a script reads.
func TestTheProgressOfASnapshotIsShownBesideIt(t *testing.T) {
	keys, screen, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	defer screen.Close()
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(screen)
	root.SetArgs([]string{"snapshot", "save", filepath.Join(t.TempDir(), "saved"), "--at", "etcd://" + startServer(t)})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(screen, "$ ")
	var shown strings.Builder
	for b := make([]byte, 100); !strings.Contains(shown.String(), "$"); {
		n, err := keys.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(b[:n])
	}
	if words := shown.String(); !strings.Contains(words, " MiB") || !strings.HasPrefix(out.String(), "saved revision ") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("a snapshot prints %q, and the terminal shows %q; want one line, and how much has come", &out, words)
	}
}
