package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
)

// TestElectEndsItsHooks: when elect ends, so does a running hook, however long it would take. No
// error of a store that is closed under an observer is printed.
func TestElectEndsItsHooks(t *testing.T) {
	for _, hook := range []string{`echo $$ >hook; exec sleep 100`, `echo $$ >hook; echo told`} {
		dir := t.TempDir()
		said, err := os.Create(filepath.Join(dir, "said"))
		if err != nil {
			t.Fatal(err)
		}
		defer said.Close()
		cmd := exec.Command("tenure", "elect", "n", "--at", atLocal, "--on-leader", hook, "--",
			"sh", "-c", "until test -s hook; do sleep 0.05; done; exit 3")
		var out strings.Builder
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, said
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(40*time.Second, func() { _ = cmd.Process.Kill() })
		err = cmd.Wait()
		if id := readID(t, filepath.Join(dir, "hook")); syscall.Kill(id, 0) == nil {
			t.Errorf("elect has ended, and the hook %q lives", hook)
			_ = syscall.Kill(id, syscall.SIGKILL)
		}
		var exit *exec.ExitError
		if !late.Stop() {
			t.Fatalf("the command has ended, and elect waits, though its hook is %q", hook)
		} else if !errors.As(err, &exit) || exit.ExitCode() != 3 {
			t.Errorf("elect ends with %v, want the command's 3", err)
		}
		if out.Len() > 0 {
			t.Errorf("the hook %q is heard on standard output, which is the command's: %q", hook, &out)
		}
		if words, err := os.ReadFile(said.Name()); err != nil || strings.Contains(string(words), "--on-leader") {
			t.Errorf("elect says %q, %v", words, err)
		}
	}
}

// changing is a leaser whose leaders change until it fails.
type changing struct {
	fakeLeaser
	leaders []tenure.Holding
	fails   error
	asked   *int
}

func (c changing) Observe(_ context.Context, name string) (tenure.State, error) {
	return c.Await(context.Background(), tenure.State{Name: name})
}

func (c changing) Await(_ context.Context, s tenure.State) (tenure.State, error) {
	if *c.asked++; *c.asked > len(c.leaders) {
		return s, c.fails
	}
	s.Holders = c.leaders[*c.asked-1 : *c.asked]
	if s.Holders[0].Token == 0 {
		s.Holders = nil // nobody leads
	}
	return s, nil
}

// Each leader is told in a line. A listener that cannot go on ends with the exit code of the reason,
// and so does one whose output is not read.
func TestTellsLeaders(t *testing.T) {
	leaders := []tenure.Holding{{}, {Holder: "one", Token: 7, Slots: 1}, {Holder: "one", Token: 7, Slots: 1}, {}, {Holder: "two", Token: 8, Slots: 1}}
	vacant := `{"holder":"","token":0,"slots":0,"until":"0001-01-01T00:00:00Z","vacant":true}` + "\n"
	for form, want := range map[cli.Output]string{
		"table": "(vacant)\none\t7\n(vacant)\ntwo\t8\n",
		"json":  vacant + `{"holder":"one","token":7,"slots":1,"until":"0001-01-01T00:00:00Z"}` + "\n" + vacant + `{"holder":"two","token":8,"slots":1,"until":"0001-01-01T00:00:00Z"}` + "\n",
	} {
		for fails, code := range map[error]int{tenure.ErrUnavailable: cli.ExitUnavailable, fmt.Errorf("%w: odd", tenure.ErrClaim): cli.ExitUsage, errors.New("odd"): cli.ExitUnavailable} {
			var out strings.Builder
			e := tenure.Election{Leaser: changing{leaders: leaders, fails: fails, asked: new(int)}}
			wantExit(t, tellLeaders(t.Context(), e, form, &out), code)
			if out.String() != want {
				t.Errorf("as %s it prints %q, want %q", form, &out, want)
			}
		}
		full := errors.New("nobody reads")
		r, w := io.Pipe()
		r.CloseWithError(full)
		e := tenure.Election{Leaser: changing{leaders: leaders, fails: tenure.ErrUnavailable, asked: new(int)}}
		if err := tellLeaders(t.Context(), e, form, w); err != full {
			t.Errorf("as %s, with an output that nobody takes, it ends with %v, want %v", form, err, full)
		}
	}
}

// The exit code of a listener that cannot begin shows the reason.
func TestListenExitCodes(t *testing.T) {
	for at, want := range map[string]int{"file://" + t.TempDir() + "/none": cli.ExitUnavailable, "zk://a": cli.ExitUsage, "etcd://127.0.0.1:1": cli.ExitUnavailable} {
		if code, out, errs := ran(t, "elect", "n", "--listen", "--at", at); code != want || out != "" || !strings.HasPrefix(errs, "tenure: ") {
			t.Errorf("listening at %s ends with %d, %q, %q; want %d", at, code, out, errs, want)
		}
	}
	if code, _, errs := ran(t, "elect", "n/", "--listen", "--at", "local"); code != cli.ExitUsage {
		t.Errorf("listening for a name that there is not ends with %d, %q, want %d", code, errs, cli.ExitUsage)
	}
}

// A hook finds the leader in its environment. One that fails is reported, and the next one follows.
func TestHooksKnowTheLeader(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("MARK", "inherited")
	said, err := os.Create("said")
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	stderr := os.Stderr
	os.Stderr = said
	defer func() { os.Stderr = stderr }()
	leaders := []tenure.Holding{{Holder: "one", Token: 17}, {Holder: "two", Token: 18}}
	ten := fakeTenancy("true")
	ten.at = place{url: "etcd://x"}
	follow(t.Context(), changing{leaders: leaders, fails: tenure.ErrUnavailable, asked: new(int)}, ten,
		`echo "$TENURE_LEADER $TENURE_TOKEN $TENURE_LEASE $TENURE_AT $MARK" >>hooks; test $TENURE_LEADER != one`)
	os.Stderr = stderr
	hooks, err := os.ReadFile("hooks")
	if want := "one 17 fake etcd://x inherited\ntwo 18 fake etcd://x inherited\n"; err != nil || string(hooks) != want {
		t.Errorf("hooks find %q, %v; want %q", hooks, err, want)
	}
	words, err := os.ReadFile("said")
	if want := "tenure: --on-leader for one: exit status 1\ntenure: --on-leader: " + tenure.ErrUnavailable.Error() + "\n"; err != nil || string(words) != want {
		t.Errorf("told is %q, %v; want %q", words, err, want)
	}
}

// A leader that lost its leadership says so, campaigns again, and proclaims its value to its command.
func TestElectedAgainWithItsValue(t *testing.T) {
	t.Chdir(t.TempDir())
	ten := fakeTenancy("sh", "-c", "echo $TENURE_LEADER >>value; exit 4")
	ten.claim.Holder = "us"
	err := ten.lead(t.Context(), fakeLeaser{try: func(context.Context) (tenure.Lease, error) { return &fakeLease{}, nil }}, false)
	wantExit(t, err, 4)
	if value, err := os.ReadFile("value"); err != nil || string(value) != "us\n" {
		t.Errorf("the command finds the value %q, %v; want us, once", value, err)
	}
}

// A campaign waits while another leads, and ends only when told to.
func TestCampaignsUntilItLeads(t *testing.T) {
	ten, waits := fakeTenancy("sh", "-c", "exit 4"), 0
	err := ten.lead(t.Context(), fakeLeaser{
		try:  func(context.Context) (tenure.Lease, error) { return nil, tenure.HeldError{Name: "fake"} },
		wait: func(context.Context) (tenure.Lease, error) { waits++; return &fakeLease{}, nil },
	}, true)
	if wantExit(t, err, 4); waits != 1 {
		t.Errorf("it waits %d times for its turn, want once", waits)
	}
}
