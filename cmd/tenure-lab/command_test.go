package main

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
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
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	err = root.Execute()
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
