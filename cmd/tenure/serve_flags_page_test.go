package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// helpOfEtcd is one section of what etcd --help prints.
type helpOfEtcd struct {
	title string
	flags []string
}

// etcdHelp reads the sections from etcd's source.
func etcdHelp(t *testing.T) (sections []helpOfEtcd) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "go.etcd.io/etcd/server/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "etcdmain/help.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, help, found := strings.Cut(string(src), "flagsline = `")
	if !found {
		t.Fatal("etcd's help has no lines for flags any more")
	}
	title, name := regexp.MustCompile(`^([A-Z][A-Za-z ]+):$`), regexp.MustCompile(`^  --([a-z0-9-]+)`)
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		if m := title.FindStringSubmatch(line); m != nil {
			sections = append(sections, helpOfEtcd{title: m[1]})
		} else if m := name.FindStringSubmatch(line); m != nil {
			of := &sections[len(sections)-1]
			of.flags = append(of.flags, m[1])
		}
	}
	return sections
}

// verdictOn says what becomes of a flag of etcd's here, as docs/flags.md has it.
func verdictOn(f *pflag.Flag) string {
	if v, ok := f.Value.(*foreign); ok && v.refusal != nil {
		text := "refused"
		if n := v.refusal.nothing; len(n) > 0 {
			text += ", unless `" + strings.Join(n, "` or `") + "`"
		}
		return text + ": " + v.refusal.instead
	}
	for _, table := range []map[string]string{withoutEffect, switchesWithoutEffect} {
		if why, ok := table[f.Name]; ok {
			return "no effect: " + why
		}
	}
	if nuance := nuances[f.Name]; nuance != "" {
		return "the same; " + nuance
	}
	return "the same"
}

// flagsPage is the table of docs/flags.md.
func flagsPage(t *testing.T, f *pflag.FlagSet) string {
	t.Helper()
	var b strings.Builder
	listed := map[string]bool{}
	row := func(name string) {
		listed[name] = true
		if flag := f.Lookup(name); flag == nil {
			t.Errorf("etcd --help has --%s, which is not known here: say in serve_foreign_table.go what becomes of it", name)
		} else {
			fmt.Fprintf(&b, "| `--%s` | %s |\n", name, verdictOn(flag))
		}
	}
	const head = "\n| flag | here |\n|---|---|\n"
	for _, section := range etcdHelp(t) {
		fmt.Fprintf(&b, "\n### %s\n%s", section.title, head)
		for _, name := range section.flags {
			row(name)
		}
	}
	if len(listed) < 113 {
		t.Fatalf("only %d flags were found in etcd's help", len(listed))
	}
	fmt.Fprintf(&b, "\n### Not in etcd's help\n%s", head)
	var others []string
	for _, table := range []map[string]string{withoutEffect, switchesWithoutEffect, nuances} {
		others = append(others, slices.Collect(maps.Keys(table))...)
	}
	others = append(others, slices.Collect(maps.Keys(refused))...)
	slices.Sort(others)
	for _, name := range others {
		if !listed[name] {
			row(name)
		}
	}
	return b.String()
}

// The page of flags has a row for each flag of etcd's help, which says what becomes of it here.
func TestFlagsPage(t *testing.T) {
	var o serveOptions
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.register(f)
	const page = "../../docs/flags.md"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- the rows below are written by: go test ./cmd/tenure -run TestFlagsPage -rewrite -->\n"
	text, has, found := strings.Cut(string(raw), mark)
	if !found {
		t.Fatalf("%s has no line %q", page, mark)
	}
	want := flagsPage(t, f)
	if golden.Rewrites() {
		if err := os.WriteFile(page, []byte(text+mark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if has != want {
		at := 0
		is, wants := strings.Split(has, "\n"), strings.Split(want, "\n")
		for at < min(len(is), len(wants))-1 && is[at] == wants[at] {
			at++
		}
		t.Errorf("docs/flags.md says %q where serve says %q: run this test with -rewrite", is[at], wants[at])
	}
}

// Each flag of etcd's help takes its value in each form in which etcd takes it, and those without effect are
// named together.
func TestServeTakesEachFormOfEtcdsFlags(t *testing.T) {
	value := map[string]string{"bool": "true", "string": "x", "stringSlice": "x", "int": "7", "uint": "7", "int64": "7", "uint32": "7", "duration": "7s"}
	words := map[string]string{"logger": "zap", "discovery-fallback": "exit", "v2-deprecation": "gone"}
	for _, section := range etcdHelp(t) {
		for _, name := range section.flags {
			var o serveOptions
			all := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			o.register(all)
			flag := all.Lookup(name)
			if v, ok := flag.Value.(*foreign); flag == nil || ok && v.refusal != nil {
				continue // TestServeSettingsOfEtcd
			}
			x := cmp.Or(words[name], value[flag.Value.Type()])
			env := []string{"ETCD_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "=" + x}
			forms := map[string]struct{ args, environ []string }{
				"--x=1": {[]string{"--" + name + "=" + x}, nil}, "-x=1": {[]string{"-" + name + "=" + x}, nil}, "ETCD_X": {nil, env},
				"the file":         {[]string{"--config-file", write(t, "e.yaml", name+": "+x+"\n")}, nil},
				"the file, quoted": {[]string{"--config-file", write(t, "e.yaml", name+": '"+x+"'\n")}, nil},
			}
			if x == "true" {
				forms["-x"] = struct{ args, environ []string }{[]string{"-" + name}, nil}
			} else {
				forms["--x 1"] = struct{ args, environ []string }{[]string{"--" + name, x}, nil}
				forms["-x 1"] = struct{ args, environ []string }{[]string{"-" + name, x}, nil}
			}
			if x == "7s" {
				forms["the file, in nanoseconds"] = struct{ args, environ []string }{[]string{"--config-file", write(t, "e.yaml", name+": 7000000000\n")}, nil}
			}
			for form, by := range forms {
				f, _, unknown, err := serveFlags(t, by.args, by.environ)
				if err != nil {
					t.Errorf("--%s by %s: %v", name, form, err)
					continue
				}
				got := strings.Trim(f.Lookup(name).Value.String(), "[]")
				if d, err := time.ParseDuration(got); err == nil && x == "7s" {
					got = d.String() // one without effect is kept as it was written
				}
				if got != x || len(unknown) > 0 {
					t.Errorf("--%s by %s has the value %q, want %q; unknown are %q", name, form, got, x, unknown)
				}
				_, without := f.Lookup(name).Value.(*foreign)
				if told := ignoredFlags(f); without != slices.Equal(told, []string{name}) {
					t.Errorf("--%s by %s: told that %q have no effect; is it without effect: %v", name, form, told, without)
				}
			}
			_, _, _, err := serveFlags(t, []string{"--config-file", write(t, "e.yaml", name+":\n")}, nil)
			if err != nil {
				t.Errorf("--%s without a value in the file: %v", name, err)
			}
		}
	}
}
