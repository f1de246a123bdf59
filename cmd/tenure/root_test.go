package main

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// ran runs a command line as the program does, and returns its standard output and standard
// error.
func ran(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("TENURE_AT", "")
	dir := t.TempDir()
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	var err error
	if os.Stdout, err = os.Create(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	defer os.Stdout.Close()
	if os.Stderr, err = os.Create(filepath.Join(dir, "errs")); err != nil {
		t.Fatal(err)
	}
	defer os.Stderr.Close()
	code = run(args)
	text := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	return code, text("out"), text("errs")
}

// An error is said once, in one line on standard error, and the exit code says of which kind it is.
func TestErrorsAreSaidOnce(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		out  string // the beginning
		errs string // all of it, but not its contents
	}{
		{[]string{"version"}, 0, "tenure ", ""},
		{[]string{"version", "-o", "xml"}, 64, "", "want table or json"},
		{[]string{"odd"}, 64, "", `"odd" is no command of tenure: tenure --help lists them`},
		{[]string{"serve", "-election-timeout", "odd"}, 64, "", `--election-timeout "odd": want a whole number`},
		{[]string{"serve", "--election-timeout=odd"}, 64, "", `--election-timeout "odd": want a whole number`},
		{[]string{"lease", "show", "n", "--at", "file:///none"}, 69, "", "make the directory first"},
		{[]string{"lock", "n", "--at", "local", "--", "sh", "-c", "exit 7"}, 7, "", ""}, // which speaks for itself
	} {
		code, out, errs := ran(t, tt.args...)
		said := tt.errs == "" && errs == "" ||
			tt.errs != "" && strings.HasPrefix(errs, "tenure: ") && strings.Contains(errs, tt.errs) && strings.Count(errs, "\n") == 1
		if code != tt.code || !strings.HasPrefix(out, tt.out) || tt.out == "" && out != "" || !said {
			t.Errorf("tenure %q ends with %d, says %q, and on standard error %q; want %d, %q… and %q", tt.args, code, out, errs, tt.code, tt.out, tt.errs)
		}
	}
}

// The versions that are told are those of the build.
func TestVersions(t *testing.T) {
	info := &debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Deps: []*debug.Module{{Path: "go.etcd.io/etcd/client/v3", Version: "v3.1.0"}, {Path: "go.etcd.io/etcd/api/v3", Version: "v3.2.0"}, {Path: "x", Version: "v0.1.0"}},
		Settings: []debug.BuildSetting{
			{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026"}, {Key: "vcs.modified", Value: "true"},
		},
	}
	here := versions{Tenure: "unknown", Commit: "unknown", API: "etcd v3", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if got := versionsIn(nil); got != here {
		t.Errorf("of a build of which nothing is known: %+v, want %+v", got, here)
	}
	if got := versionsIn(&debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}}}); got != here {
		t.Errorf("of a build that tells no version: %+v, want %+v", got, here)
	}
	here.Tenure, here.Commit, here.API = "v1.2.3", "abc+dirty", "etcd v3.2.0"
	if got := versionsIn(info); got != here {
		t.Errorf("got %+v, want %+v", got, here)
	}
	info.Settings[3].Value = "false"
	if here.Commit = "abc"; versionsIn(info) != here {
		t.Errorf("of a clean tree: %+v, want %+v", versionsIn(info), here)
	}
	for form, want := range map[string]string{"table": "tenure ", "json": "{"} {
		if out, err := command(t, "version", "-o", form); err != nil || !strings.HasPrefix(out, want) || !strings.Contains(out, here.System) {
			t.Errorf("as %s: %q, %v", form, out, err)
		}
	}
}

// Each command, and each group of commands, answers a word and a flag that it does not know with the
// exit code of wrong usage: scripts must not take a typo for success, nor for a command's own failure.
func TestEachCommandRefusesTypos(t *testing.T) {
	each(rootCommand(), nil, func(cmd *cobra.Command, path []string) {
		typos := [][]string{{"--nosuch"}}
		if cmd.HasSubCommands() {
			typos = append(typos, []string{"nosuch"})
		}
		for _, typo := range typos {
			_, err := command(t, append(slices.Clone(path), typo...)...)
			wantRefused(t, err, typo[0])
		}
	})
}

// each calls f for a command and all below it, but those that cobra makes.
func each(cmd *cobra.Command, path []string, f func(cmd *cobra.Command, path []string)) {
	f(cmd, path)
	for _, sub := range cmd.Commands() {
		each(sub, append(slices.Clone(path), sub.Name()), f)
	}
}
