package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
)

// answers is a store that answers one thing.
type answers struct {
	value   string
	decided bool
	err     error
	asked   string
}

func (a *answers) Agree(_ context.Context, name string, proposal []byte) ([]byte, error) {
	a.asked = fmt.Sprintf("agree on %s for %s", proposal, name)
	return []byte(a.value), a.err
}

func (a *answers) Decided(_ context.Context, name string) ([]byte, bool, error) {
	a.asked = "look at " + name
	return []byte(a.value), a.decided, a.err
}

// Each answer of the stores has its exit code, and no error looks like a decision.
func TestAnswersToAgree(t *testing.T) {
	for name, tt := range map[string]struct {
		args  []string
		store answers
		asked string
		code  int // of an error with one; 1 without
		says  string
	}{
		"a proposal":              {[]string{"n", "v"}, answers{value: "w"}, "agree on v for n", 0, ""},
		"an empty one":            {[]string{"n", ""}, answers{}, "agree on  for n", 0, ""},
		"a look":                  {[]string{"n"}, answers{value: "w", decided: true}, "look at n", 0, ""},
		"a look too early":        {[]string{"n"}, answers{}, "look at n", cli.ExitNotAcquired, "nothing is decided on \"n\" yet: `tenure agree n VALUE`"},
		"another holds the lease": {[]string{"n", "v"}, answers{err: fmt.Errorf("late: %w", context.DeadlineExceeded)}, "agree on v for n", cli.ExitNotAcquired, "may be decided all the same"},
		"stores do not answer":    {[]string{"n", "v"}, answers{err: fmt.Errorf("%w: %w", tenure.ErrUnavailable, context.DeadlineExceeded)}, "agree on v for n", cli.ExitUnavailable, "does not answer"},
		"an odd name":             {[]string{"n", "v"}, answers{err: tenure.ErrClaim}, "agree on v for n", cli.ExitFailure, "bad claim"},
	} {
		value, err := decide(t.Context(), &tt.store, tt.args)
		if tt.store.asked != tt.asked || string(value) != tt.store.value {
			t.Errorf("%s: asked to %s, and %q is decided; want %s, and %q", name, tt.store.asked, value, tt.asked, tt.store.value)
		}
		code := 0
		if exit, ok := errors.AsType[cli.ExitError](err); ok {
			code = exit.Code
		} else if err != nil {
			code = cli.ExitFailure
		}
		if code != tt.code || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: code %d, %v; want %d and %q", name, code, err, tt.code, tt.says)
		}
	}
}

// A value that is proposed is decided, in a directory as elsewhere, and stays.
func TestAgreeInADirectory(t *testing.T) {
	at := "file://" + t.TempDir()
	if out, err := command(t, "lease", "init", "--at", at, "--single-host", "--delay", "50ms"); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	if _, err := command(t, "agree", "n", "--at", at); err == nil {
		t.Error("nothing was proposed, and something is decided")
	} else {
		wantExit(t, err, cli.ExitNotAcquired)
	}
	for _, args := range [][]string{{"first"}, {"second"}, nil} {
		if out, err := command(t, append([]string{"agree", "n", "--wait", "2m", "--at", at}, args...)...); err != nil || out != "first\n" {
			t.Fatalf("after a proposal of %q decided is %q, %v; want first", args, out, err)
		}
	}
	var got agreement
	out, err := command(t, "agree", "n", "--at", at, "-o", "json")
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil || got != (agreement{"n", "first"}) {
		t.Errorf("as JSON decided is %s, %v; want first for n", out, err)
	}
}

// A store without agreements, and a command line without a name, are refused. A signal is one.
func TestAgreeRefuses(t *testing.T) {
	at := "etcd://" + startServer(t)
	_, err := command(t, "agree", "n", "v", "--at", at)
	wantRefused(t, err, "has no agreements: directories and Redis have")
	if _, err := command(t, "agree"); err == nil {
		t.Error("agree takes no name for one")
	}
	_, err = decide(t.Context(), &answers{err: fmt.Errorf("%w: %w", tenure.ErrUnavailable, cli.Interrupt(syscall.SIGTERM))}, []string{"n", "v"})
	wantExit(t, cli.Interrupted(err), cli.ExitSignal+int(syscall.SIGTERM))
}
