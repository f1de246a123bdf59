package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tenure-lease/tenure/internal/cli"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "ordered-member" { // of a command that a test of ours runs
		main()
	}
	os.Exit(m.Run())
}

// The help has each command in a group, and examples.
func TestHelp(t *testing.T) {
	out, _, err := labOut("--help")
	if err != nil || !strings.Contains(out, "Examples:\n  tenure-lab sim ") {
		t.Errorf("there is no example of sim: %v\n%s", err, out)
	}
	for _, g := range groups {
		if !strings.Contains(out, g.Title) {
			t.Errorf("the help has no group %q:\n%s", g.Title, out)
		}
	}
	for _, c := range rootCommand().Commands() {
		if !c.Hidden && (c.GroupID == "" || c.Example == "" || c.Short == "") {
			t.Errorf("%s has group %q, example %q and summary %q", c.Name(), c.GroupID, c.Example, c.Short)
		}
	}
}

// labOut runs a command line and returns its output.
func labOut(args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(&errs)
	err = cli.Execute(root, args)
	return out.String(), errs.String(), err
}

// lockedBuffer is written to by one goroutine and read by another.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Wrong usage has an exit code of its own, which no measurement has.
func TestWrongUsageOfTheLab(t *testing.T) {
	for line, says := range map[string]string{
		"nosuch": "is no command", "sim nosuch": "there is no protocol", "sim replica x": "is too much", "flease --duration 5": "such as 15s",
		"figure5 --members 2": "groups of 3", "broadcast --rounds 0": "want at least one",
	} {
		_, _, err := labOut(strings.Fields(line)...)
		var exit cli.ExitError
		if !errors.As(err, &exit) || exit.Code != cli.ExitUsage || !strings.Contains(err.Error(), says) {
			t.Errorf("tenure-lab %s: %v, want exit code %d and %q", line, err, cli.ExitUsage, says)
		}
	}
}
