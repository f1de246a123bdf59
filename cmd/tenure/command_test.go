package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine"
	"github.com/tenure-lease/tenure/internal/cli"
)

// command runs a command line in this process, and returns its output.
func command(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("TENURE_AT", "")
	var b bytes.Buffer
	root := rootCommand()
	root.SetOut(&b)
	err = cli.Execute(root, args)
	return b.String(), err
}

// wantRefused wants an error that says something, of a command line that makes no sense.
func wantRefused(t *testing.T, err error, says string) {
	t.Helper()
	var exit cli.ExitError
	if !errors.As(err, &exit) || exit.Code != cli.ExitUsage || !strings.Contains(err.Error(), says) {
		t.Errorf("error %v, want it refused with %q", err, says)
	}
}

// Words before -- are ours, and all behind it is the command's.
func TestCommandLines(t *testing.T) {
	for _, tt := range []struct {
		args []string
		argv []string // of the command
		says string   // when it is refused
	}{
		{[]string{"n", "--", "echo"}, []string{"echo"}, ""},
		{[]string{"--ttl", "5s", "n", "--", "echo", "--ttl", "x", "--", "-n"}, []string{"echo", "--ttl", "x", "--", "-n"}, ""},
		{[]string{"n", "--events"}, nil, ""},
		{[]string{"n", "--"}, nil, "there is no command after --"},
		{[]string{"n", "--events", "--"}, nil, "there is no command after --"},
		{nil, nil, "which name?"},
		{[]string{"--", "echo"}, nil, "which name?"},
		{[]string{"n"}, nil, "which command?"},
		{[]string{"n", "echo", "x"}, nil, "put -- before the command: tenure lock n -- echo"},
		{[]string{"n", "m", "--", "echo"}, nil, "put -- before the command: tenure lock n -- m"},
		{[]string{"", "--", "echo"}, nil, "name"},
	} {
		var tn tenancy
		cmd := &cobra.Command{Use: "lock", SilenceErrors: true, SilenceUsage: true, RunE: tn.complete}
		tn.register(cmd.Flags())
		cmd.SetArgs(append([]string{}, tt.args...)) // nil would be the test's own arguments
		err := cmd.Execute()
		tn.events.close()
		switch {
		case tt.says != "":
			wantRefused(t, err, tt.says)
		case err != nil || tn.claim.Name != "n" || !slices.Equal(tn.argv, tt.argv):
			t.Errorf("%q: name %q, command %q, %v; want the command %q", tt.args, tn.claim.Name, tn.argv, err, tt.argv)
		}
	}
}

// Events go to standard output, and beside a command, which has that, to standard error.
func TestWhereEventsGo(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{{[]string{"n", "--events"}, "out"}, {[]string{"n", "--events", "--", "true"}, "err"}} {
		var tn tenancy
		var out, err bytes.Buffer
		cmd := &cobra.Command{Use: "lock", RunE: tn.complete}
		tn.register(cmd.Flags())
		cmd.SetOut(&out)
		cmd.SetErr(&err)
		cmd.SetArgs(tt.args)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		tn.events.print(event{Event: "acquired"})
		tn.events.close()
		got := ""
		for name, b := range map[string]*bytes.Buffer{"out": &out, "err": &err} {
			if strings.Contains(b.String(), `"event":"acquired"`) {
				got += name
			}
		}
		if got != tt.want {
			t.Errorf("%q: the event is on %q, want %q", tt.args, got, tt.want)
		}
	}
}

// A flag of one dash, as etcd's may be written, is one before -- only.
func TestOneDash(t *testing.T) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags.StringP("name", "n", "", "")
	args := []string{"-name", "a", "-name=b", "-n", "c", "-else", "--name=d", "--", "-name", "e"}
	want := []string{"--name", "a", "--name=b", "-n", "c", "-else", "--name=d", "--", "-name", "e"}
	if got := oneDash(flags, args); !slices.Equal(got, want) || args[0] != "-name" {
		t.Errorf("%q becomes %q, want %q", args, got, want)
	}
}

// Only serve takes flags of one dash: elsewhere they are those of one letter.
func TestOneDashIsForServe(t *testing.T) {
	if code, out, errs := ran(t, "version", "-output", "json"); code != cli.ExitUsage || out != "" || errs == "" {
		t.Errorf("tenure version -output json ends with %d, prints %q, and says %q; want %d, and what is wrong", code, out, errs, cli.ExitUsage)
	}
	if code, out, errs := ran(t, "serve", "-version"); code != 0 || !strings.HasPrefix(out, "etcd Version: ") || errs != "" {
		t.Errorf("tenure serve -version ends with %d, prints %q, and says %q; want the versions", code, out, errs)
	}
}

// How long to wait is 0 or more, and for ever unless it is said.
func TestWaitFlag(t *testing.T) {
	var w wait
	if w.String() != "for ever" {
		t.Errorf("by default it waits %s", &w)
	}
	for text, want := range map[string]wait{"0": {0, true}, "10s": {10 * time.Second, true}} {
		if err := w.Set(text); err != nil || w != want {
			t.Errorf("--wait %s: %+v, %v; want %+v", text, w, err, want)
		}
	}
	for _, text := range []string{"-1s", "soon"} {
		if err := w.Set(text); err == nil {
			t.Errorf("--wait %s is taken as %s", text, &w)
		}
	}
}

// A flag wins over TENURE_AT, and that over the default.
func TestWhereLeasesAre(t *testing.T) {
	for _, tt := range []struct {
		env, flag, leases, server string
	}{
		{"", "", "", atServer},
		{"etcd://a", "", "etcd://a", "etcd://a"},
		{"etcd://a", "etcd://b", "etcd://b", "etcd://b"},
	} {
		t.Setenv("TENURE_AT", tt.env)
		for want, register := range map[*string]func(*pflag.FlagSet, *place){&tt.leases: atFlag, &tt.server: serverFlag} {
			var at place
			f := pflag.NewFlagSet("f", pflag.ContinueOnError)
			register(f, &at)
			if tt.flag != "" {
				if err := f.Parse([]string{"--at", tt.flag}); err != nil {
					t.Fatal(err)
				}
			}
			if at.url != *want {
				t.Errorf("TENURE_AT=%q --at %q: %q, want %q", tt.env, tt.flag, at.url, *want)
			}
		}
	}
	var word strings.Builder
	var at place
	if settle(&at, &word); at.url != atLocal || !strings.Contains(word.String(), "only this user's processes on this machine") {
		t.Errorf("nobody said where leases are: at %q, and told is %q", at.url, &word)
	}
	word.Reset()
	if settle(&at, &word); word.Len() > 0 {
		t.Errorf("local was asked for, and told is %q", &word)
	}
}

// Output is a table or JSON, and nothing else.
func TestOutputForms(t *testing.T) {
	for _, args := range [][]string{
		{"lease", "list", "-o", "yaml"}, {"peer", "status", "-o", "yaml"}, {"status", "-o", "yaml"}, {"read-lease", "-o", "yaml"},
		{"read-lease", "holders", "k", "-o", "yaml"}, {"lock", "n", "-o", "yaml", "--", "true"}, {"version", "-o", "yaml"},
	} {
		_, err := command(t, args...)
		wantRefused(t, err, "want table or json")
	}
}

// Errors have the exit codes that the help tells.
func TestExitCodes(t *testing.T) {
	odd := errors.New("odd")
	_, atEtcd := unavailable("etcd://a")(nil, odd)
	_, atFile := unavailable("file:///a")(nil, odd)
	_, badURL := unavailable("etcd://a")(nil, fmt.Errorf("%w: odd", engine.ErrURL))
	wantExit(t, atEtcd, cli.ExitUnavailable)
	wantExit(t, atFile, cli.ExitUnavailable)
	wantExit(t, badURL, cli.ExitUsage)
	for _, at := range []string{"local", "etcd://a"} {
		_, own := unavailable(at)(nil, cli.Exit(cli.ExitConfig, odd))
		wantExit(t, own, cli.ExitConfig) // an error with a code keeps it
	}
	if atEtcd == nil || !strings.Contains(atEtcd.Error(), "tenure serve") || strings.Contains(fmt.Sprint(atFile), "tenure serve") {
		t.Errorf("at an etcd: %v; at a directory: %v; want that tenure serve starts the former", atEtcd, atFile)
	}
	for status, want := range map[syscall.WaitStatus]int{0: 0, 3 << 8: 3, syscall.WaitStatus(syscall.SIGKILL): 137} {
		if got := exitCode(status); got != want {
			t.Errorf("the exit code of a command that ended with %#x is %d, want %d", int(status), got, want)
		}
	}
	for code, want := range map[codes.Code]int{
		codes.InvalidArgument: cli.ExitUsage, codes.PermissionDenied: 0, codes.Unimplemented: 0,
		codes.Unavailable: cli.ExitUnavailable, codes.DeadlineExceeded: cli.ExitUnavailable, codes.Unknown: cli.ExitUnavailable,
	} {
		err := trouble(place{url: "etcd://a"}, status.Error(code, "quorumlease: odd"))
		if want != 0 {
			wantExit(t, err, want)
		} else if errors.As(err, new(cli.ExitError)) {
			t.Errorf("%v: %v has an exit code of its own", code, err)
		}
		if code == codes.InvalidArgument && err.Error() != "odd" {
			t.Errorf("what makes no sense is told as %q", err)
		}
	}
}

// Command lines that contradict themselves are refused before anything is asked for.
func TestContradictions(t *testing.T) {
	for says, args := range map[string][]string{
		"--shared and -n exclude each other":     {"lock", "n", "--shared", "-n", "2", "--", "true"},
		"--listen takes the name of an election": {"elect", "n", "--listen", "--", "true"},
		"where? write: tenure lease init":        {"lease", "init", "--at", ""},
		"needs no stores":                        {"lease", "init", "--at", "etcd://a"},
		"--handles are for directories":          {"lease", "init", "--at", "redis://a", "--handles", "3"},
		"--single-host and --handles are for":    {"lease", "init", "--at", "redis://a", "--single-host"},
		"would make this command a peer":         {"lease", "show", "n", "--at", "flease://a:1@a:1"},
		"want the socket of a peer":              {"peer", "status", "--at", "etcd://a"},
		"either RANGE_END or --prefix":           {"read-lease", "holders", "a", "b", "--prefix"},
		"--cells assigns keys to holders":        {"read-lease", "set", "all", "--cells", "default=a"},
		"static needs --cells":                   {"read-lease", "set", "static", "--order", "key"},
		"in key order, not strict":               {"read-lease", "set", "all/key", "--order", "strict"},
		"the policy off has no order":            {"read-lease", "set", "off", "--order", "key"},
		`order "odd": want strict or key`:        {"read-lease", "set", "all", "--order", "odd"},
	} {
		_, err := command(t, args...)
		wantRefused(t, err, says)
	}
}

// A claim that makes no sense is the command line's fault, all else the store's.
func TestWithLeaserExitCodes(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	fails := func(err error) error {
		return withLeaser(place{url: atLocal}, func(context.Context, tenure.Leaser) error { return err })
	}
	wantExit(t, fails(errors.New("odd")), cli.ExitUnavailable)
	wantRefused(t, fails(fmt.Errorf("%w: odd", tenure.ErrClaim)), "odd")
	if err := fails(nil); err != nil {
		t.Error(err)
	}
	for _, limit := range []time.Duration{lookPatience, time.Minute} {
		with := withLeaser
		if limit != lookPatience {
			with = func(at place, f func(context.Context, tenure.Leaser) error) error {
				return withLeaserFor(limit, at, f)
			}
		}
		_ = with(place{url: atLocal}, func(ctx context.Context, _ tenure.Leaser) error {
			end, ends := ctx.Deadline()
			if left := time.Until(end); !ends || left > limit || left < limit/2 {
				t.Errorf("a short command has %v, want %v", left, limit)
			}
			return nil
		})
	}
}
